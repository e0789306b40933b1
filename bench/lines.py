# SPDX-License-Identifier: BSD-3-Clause
"""Text: 200,000 lines of one cell, 20,000 flushed lines through nbclient, 4 × 50,000 lines of ranks.

"floor" is the kernel that runs nothing (floor.py); it sends the same text.
"""

from __future__ import annotations

import re
import time

import nbformat
from nbclient import NotebookClient

from common import RANKS, Kernel, most_in_a_second
from floor import line

LINES, WIDTH = 200_000, 80
RANK_LINES = 50_000
# The first line tells the floor what to send.
PRINT = "# floor: lines %d %d\nfor i in range(%d):\n    print('%%0%dd' %% i)" % (LINES, WIDTH, LINES, WIDTH)
FLUSHED = "for i in range(20000):\n    print('line', i, flush=True)"
RANK_PRINT = (
    "r = %%s\nfor i in range(%d):\n    print('<%%%%02d:%%%%06d:%%%%s>' %%%% (r, i, 'x' * %d))" % (RANK_LINES, WIDTH - 12)
)
WHOLE = re.compile(r"<(\d\d):(\d{6}):x{%d}>$" % (WIDTH - 12), re.MULTILINE)
TAB_RANKS, TAB_STEPS = 8, 1500
TABS = "for step in range(%d):\n    loss = sum(i * i for i in range(20_000))\n    print('step', step, 'loss', loss / (step + 1))" % TAB_STEPS
LIMIT = 100


def expected():
    return "".join(line(i, WIDTH) for i in range(LINES))


def through_one_client(system):
    """200,000 lines, parsed as they come."""
    with Kernel(system) as kernel:
        cell = kernel.run(PRINT, LIMIT)
        text, streams = "".join(e.text for e in cell.streams()), cell.streams()
        seconds = cell.idle_at or LIMIT
        return {
            "rate": len(text) / 1e6 / seconds,
            "every byte": text == expected(),
            "messages": len(streams),
            "most in a second": most_in_a_second(e.at for e in streams),
            "largest": max((e.size for e in streams), default=0),
        }


class Watched(NotebookClient):
    """nbclient, with the time of every stream message."""

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "stream":
            self.stream_times.append(time.perf_counter())
        return super().process_message(msg, cell, cell_index)


def in_nbclient(system, code):
    """Runs a cell as nbconvert and papermill do: (text, outputs, seconds, times of stream messages)."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("pass"), nbformat.v4.new_code_cell(code)])
    client = Watched(notebook, kernel_name=system, timeout=LIMIT)
    client.stream_times = []
    with client.setup_kernel():
        client.execute_cell(notebook.cells[0], 0)
        begin = time.perf_counter()
        client.execute_cell(notebook.cells[1], 1)
        seconds = time.perf_counter() - begin
    outputs = [o for o in notebook.cells[1].outputs if o.output_type == "stream"]
    return "".join(o.text for o in outputs), len(outputs), seconds, client.stream_times


def through_nbclient(system):
    """200,000 lines into a notebook."""
    text, outputs, seconds, times = in_nbclient(system, PRINT)
    return {
        "rate": len(text) / 1e6 / seconds,
        "every byte": text == expected(),
        "outputs": outputs,
        "most in a second": most_in_a_second(times),
    }


def flushed(system):
    """20,000 lines, each flushed, into a notebook."""
    text, outputs, seconds, _ = in_nbclient(system, FLUSHED)
    found = set(text.split("\n"))
    missing = sum("line %d" % i not in found for i in range(20000))
    return {"missing": missing, "outputs": outputs, "seconds": seconds}


def of_ranks(system):
    """Each of 4 ranks prints 50,000 lines, all different. `wire`: bytes sent for each byte printed."""
    name, _, mode = system.partition(" ")
    with Kernel("python3" if name == "ipyparallel" else name) as kernel:
        if name == "ipyparallel":
            setup_ipyparallel(kernel)
            kernel.must("%%px\npass")
            cell = kernel.run("%%px\n" + RANK_PRINT % "rank", LIMIT)
        else:
            kernel.must("%%%%distribute -n %d\nimport os" % RANKS)
            cell = kernel.run("%%%%distribute --merge %s\n" % mode + RANK_PRINT % "int(os.environ['RANK'])", LIMIT)
        return account(cell)


def with_tabs(system):
    """8 ranks that compute and print a line for each step: what the tabs cost them."""
    name, _, mode = system.partition(" ")
    with Kernel(name) as kernel:
        kernel.must("%%%%distribute -n %d\npass" % TAB_RANKS)
        cell = kernel.run("%%%%distribute --merge %s\n" % mode + TABS, LIMIT)
        texts = [e for e in cell.events if e.kind in ("stream", "display_data", "update_display_data")]
        return {
            "seconds": cell.idle_at or LIMIT,
            "messages": len(texts),
            "largest": max((e.size for e in texts), default=0),
            "the last line": ("step %d " % (TAB_STEPS - 1)) in as_shown(cell),
        }


def as_shown(cell):
    """The cell's text as it stands at the end: an updated display keeps its place and shows its last state."""
    shown, places = [], {}
    for event in cell.events:
        place = event.content.get("transient", {}).get("display_id")
        if event.kind == "stream":
            shown.append(event.text)
        elif place is not None and place in places:
            shown[places[place]] = "\n%s\n" % event.text
        else:
            places[place] = len(shown)
            shown.append("\n%s\n" % event.text)
    return "".join(shown)


def account(cell):
    """Every line of every rank: there, whole, in order? And what it cost to send them."""
    seen = {}
    for rank, index in WHOLE.findall(as_shown(cell)):
        seen.setdefault(rank, []).append(int(index))
    texts = [e for e in cell.events if e.kind in ("stream", "display_data", "update_display_data")]
    printed = RANKS * RANK_LINES * (WIDTH + 1)
    return {
        "seconds": cell.idle_at or LIMIT,
        "status": cell.status,
        "lost": RANKS * RANK_LINES - sum(len(set(v)) for v in seen.values()),
        "in order": all(v == sorted(v) for v in seen.values()),
        "text": sum(len(e.text) for e in texts) / printed,
        "wire": sum(e.size for e in texts) / printed,
        "messages": len(texts),
        "most in a second": most_in_a_second(e.at for e in texts),
        "largest": max((e.size for e in texts), default=0),
        "first byte": next((e.at for e in texts if "xxxx" in e.text), None),
    }


def setup_ipyparallel(kernel, n=RANKS):
    """A cluster of n engines; `rank` is each one's number, `rc` the client."""
    kernel.must(
        "import ipyparallel as ipp\ncluster = ipp.Cluster(n=%d)\nrc = cluster.start_and_connect_sync()\nrc.activate()\n"
        "_ = rc[:].scatter('rank', range(%d), flatten=True, block=True)" % (n, n)
    )


SECTIONS = {
    "client": (("floor", "python3", "cellspan"), through_one_client),
    "nbclient": (("floor", "python3", "cellspan"), through_nbclient),
    "flushed": (("python3", "cellspan"), flushed),
    "tabs": (("cellspan fold", "cellspan panel"), with_tabs),
    "volume": (("ipyparallel", "cellspan fold", "cellspan prefix"), of_ranks),
}
