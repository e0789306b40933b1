#!/usr/bin/env python3
"""Measures cellspan beside its peers: what a notebook's user waits for, and what it costs.

    python bench/measure.py [--sections nbclient,rate,…] [--repeat 5] [--json out.json]

The systems take turns within each repeat, each on a kernel of its own, so that a busy machine is busy for all of them;
the table has the medians and, for times, their ratio to cellspan's. Run it with the Python whose environment has the
kernels `cellspan`, `python3` (ipykernel), `xpython` (xeus-python) and ipyparallel; what is not installed is left out.

Sections
    nbclient   200,000 lines of 80 characters, and 20,000 flushed ones, through nbclient: time, lines missing, outputs
    rate       10,000 flushed lines through jupyter_client: stream messages, the most in any second, the largest
    crash      SIGSEGV in a cell: when the error message and the reply come, when the next cell has run, whether ranks
               keep their variables
    memory     PSS of the kernel process; for cellspan the agent, home, and zygote as well, each for itself
    torch      a ready kernel to the end of the first torch cell on 4 ranks; then 4 new ranks to the same cell
    lines      4 ranks print 50,000 lines of 80 characters each: time, bytes and messages on the wire, lines missing
    death      a rank is killed (SIGKILL) while the others sleep, and while they wait in all_reduce: when it is named, when
               the cell is over, how the next cell ends (cellspan only: the peers take half a minute, or never end)
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import time

import systems
from systems import FANOUTS, KERNELS, LINES, notebook

import processes  # of the end-to-end tests; systems found it
from client import TooSlow

RANKS = 4


# -- sections of kernels


def section_nbclient(kernel, add):
    import nbformat
    from nbclient import NotebookClient

    for what, n, width, flush in (("200k lines", 200_000, 80, ""), ("20k flushed lines", 20_000, 80, ", flush=True")):
        cell = nbformat.v4.new_code_cell(LINES.format(n=n, width=width, flush=flush))
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("pass"), cell])
        client = NotebookClient(book, kernel_name=kernel, timeout=120)
        with client.setup_kernel():
            client.execute_cell(book.cells[0], 0)
            begin = time.perf_counter()
            client.execute_cell(cell, 1)
            seconds = time.perf_counter() - begin
        text = "".join(o.text for o in cell.outputs if o.output_type == "stream")
        numbers = set(re.findall(r"^\d{7}(?= )", text, re.M))
        add(what + ": time, s", seconds)
        add(what + ": MB/s", n * width / seconds / 1e6)
        add(what + ": missing", n - len(numbers))
        add(what + ": outputs", len(cell.outputs))


def section_rate(kernel, add):
    with notebook(kernel) as nb:
        cell = nb.run(LINES.format(n=10_000, width=80, flush=", flush=True"), 120)
        sizes = [len(m["content"]["text"]) for m in cell.of("stream")]
        times = [at for at, m in zip(cell.times, cell.messages) if m["msg_type"] == "stream"]
        add("time, s", cell.seconds)
        add("stream messages", len(sizes))
        add("most in a second", max(sum(1 for t in times if at <= t < at + 1) for at in times))
        add("largest, KiB", max(sizes) / 1024)
        add("missing", 10_000 - cell.stdout.count("\n"))


def section_crash(kernel, add):
    if kernel == "floor":
        return
    with notebook(kernel) as nb:
        ranks = kernel == "cellspan"
        if ranks:
            nb.ok("%%distribute -n 2\nkept = 'kept'", limit=120)
        nb.ok("pass")
        cell = nb.start("import ctypes; ctypes.string_at(0)")
        try:
            nb.wait(cell, 5)
        except TooSlow:
            add("error reply, s", None)
            return
        errors = [at for at, m in zip(cell.times, cell.messages) if m["msg_type"] == "error"]
        add("error message, s", errors[0] if errors else None)
        add("error reply, s", cell.reply_at)
        nb.ok("1", limit=30)
        add("next cell has run, s after the crash", time.monotonic() - cell.begin)
        if ranks:
            add("ranks keep their variables", int(nb.ok("%%distribute\nkept").value == "'kept'"))


def roles(nb):
    """What each process of a cellspan kernel is, by its command line."""
    names = {"cellspan-kernel": "kernel", "cellspan-agent": "agent", "cellspan-launch": "launcher", "_worker home": "home", "_worker zygote": "zygote and ranks"}
    for pid in processes.marked(nb.marker):
        yield next((role for text, role in names.items() if text in processes.command(pid)), "other"), pid


def section_memory(kernel, add):
    with notebook(kernel) as nb:
        nb.ok("pass")
        nb.quiet(2)
        add("kernel, MiB", processes.pss(nb.pid))
        if kernel != "cellspan":
            return
        for role, pid in roles(nb):
            if role != "kernel":
                add(role + ", MiB", processes.pss(pid))
        nb.ok("%%%%distribute -n %d\nimport torch\ntorch.ones(1).item()" % RANKS, limit=120)
        nb.quiet(2)
        found = list(roles(nb))
        for role in ("kernel", "agent"):
            add(role + " with 4 ranks, MiB", sum(processes.pss(pid) for r, pid in found if r == role))
        add("zygote and 4 ranks with torch, MiB", sum(processes.pss(pid) for r, pid in found if r == "zygote and ranks"))
        add("everything, MiB", sum(processes.pss(pid) for _, pid in found))


# -- sections of systems that fan out


def section_torch(name, add):
    system = FANOUTS[name]
    with notebook(system.kernel) as nb:
        nb.ok("pass")
        begin = time.perf_counter()
        for code in system.setup(RANKS):
            nb.ok(code, limit=120)
        body = system.wrap(RANKS, "import torch\ntorch.ones(1).item()")
        nb.ok(body, limit=120)
        add("kernel ready to the first torch cell, s", time.perf_counter() - begin)
        begin = time.perf_counter()
        if name == "cellspan":
            nb.ok("%ranks restart", limit=120)
        else:
            nb.ok("cluster.restart_engines_sync()\nrc.wait_for_engines(%d, timeout=60)\nrc.activate()" % RANKS, limit=120)
        nb.ok(body, limit=120)
        add("restart to a torch cell, s", time.perf_counter() - begin)


def section_lines(name, add):
    system = FANOUTS[name]
    n, width = 50_000, 80
    with notebook(system.kernel) as nb:
        for code in system.setup(RANKS):
            nb.ok(code, limit=120)
        rank = "int(__import__('os').environ['RANK'])" if name == "cellspan" else "rank"
        nb.ok(system.wrap(RANKS, "me = " + rank), limit=120)
        body = "for i in range(%d):\n    print(('%%d %%07d ' %% (me, i)).ljust(%d, 'x'))" % (n, width - 1)
        cell = nb.ok(system.wrap(RANKS, body), limit=300)
        contents = [json.dumps(m["content"]) for m in cell.messages]  # wherever in them the text stands
        found = {line for content in contents for line in re.findall(r"(\d \d{7}) x", content)}
        wire = sum(map(len, contents))
        times = [at for at, m in zip(cell.times, cell.messages) if m["msg_type"] == "stream"]
        add("time, s", cell.seconds)
        add("bytes on the wire / text", wire / (RANKS * n * width))
        add("messages", len(cell.messages))
        add("largest, MiB", max(map(len, contents)) / (1 << 20))
        add("most stream messages in a second", max((sum(1 for t in times if at <= t < at + 1) for at in times), default=0))
        add("lines missing", RANKS * n - len(found))


def section_death(name, add):
    if name != "cellspan":
        return
    waits = {
        "sleep": "time.sleep(60)",
        "all_reduce": "import torch, torch.distributed as dist\ndist.all_reduce(torch.ones(1))",
    }
    for others, wait in waits.items():
        with notebook("cellspan") as nb:
            nb.ok("%%%%distribute -n %d --init gloo\nimport os, time\nrank = int(os.environ['RANK'])\nkept = 1" % RANKS, limit=120)
            cell = nb.run("%%%%distribute\nif rank == 2:\n    print('died at', time.time(), flush=True)\n    os.kill(os.getpid(), 9)\n%s" % wait, 120)
            over = time.time()
            died = float(re.search(r"died at ([\d.]+)", cell.stdout).group(1))
            named = next(at for at, m in zip(cell.times, cell.messages) if "rank 2" in str(m["content"]) and "SIGKILL" in str(m["content"]))
            add("others in %s: named, s" % others, over - cell.seconds + named - died)
            add("others in %s: cell over, s" % others, over - died)
            begin = time.perf_counter()
            nb.ok("%%%%distribute -n %d\n1" % RANKS, limit=60)
            add("others in %s: next cell has run, s" % others, time.perf_counter() - begin)


SECTIONS = {
    "nbclient": (section_nbclient, KERNELS),
    "rate": (section_rate, KERNELS),
    "crash": (section_crash, KERNELS),
    "memory": (section_memory, KERNELS),
    "torch": (section_torch, list(FANOUTS)),
    "lines": (section_lines, list(FANOUTS)),
    "death": (section_death, list(FANOUTS)),
}


# -- running and showing


def measure(sections, repeat, names):
    """{section: {figure: {system: [values]}}}; None stands for what did not come."""
    results = {}
    for turn in range(repeat):
        for section in sections:
            function, candidates = SECTIONS[section]
            able = systems.installed([FANOUTS[c].kernel if c in FANOUTS else c for c in candidates])
            for name in candidates:
                kernel = FANOUTS[name].kernel if name in FANOUTS else name
                if kernel not in able or (names and name not in names):
                    continue

                def add(figure, value):
                    results.setdefault(section, {}).setdefault(figure, {}).setdefault(name, []).append(value)

                begin = time.monotonic()
                try:
                    function(name, add)
                    note = ""
                except Exception as error:  # one system's failure is a result, not the end of the others'
                    note = "  %s: %s" % (type(error).__name__, str(error)[:200].replace("\n", " "))
                    add("failed", 1)
                print("%d/%d %s %s: %.0f s%s" % (turn + 1, repeat, section, name, time.monotonic() - begin, note), flush=True)
    return results


def median(values):
    known = [v for v in values if v is not None]
    return statistics.median(known) if known else None


def number(value):
    if value is None:
        return "—"
    return "%d" % value if value == int(value) and abs(value) < 1e9 else "%.3g" % value


def tables(results):
    """Markdown: medians, and in brackets how many times cellspan's that is."""
    text = []
    for section, figures in results.items():
        columns = [n for n in SECTIONS[section][1] if any(n in by for by in figures.values())]
        text += ["", "### " + section, "", "| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
        for figure, by in figures.items():
            ours = median(by.get("cellspan", []))
            cells = []
            for name in columns:
                value = median(by.get(name, []))
                cell = number(value) if name in by else ""
                if value is not None and ours and name != "cellspan":
                    cell += " (%.2gx)" % (value / ours)
                cells.append(cell)
            text.append("| %s | %s |" % (figure, " | ".join(cells)))
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", default=",".join(SECTIONS), help="comma-separated (all)")
    parser.add_argument("--systems", default="", help="only these, comma-separated (all that are installed)")
    parser.add_argument("--repeat", type=int, default=3, help="how often each is run (3)")
    parser.add_argument("--json", help="where every single value is written")
    args = parser.parse_args()
    sections = args.sections.split(",")
    unknown = [s for s in sections if s not in SECTIONS]
    if unknown:
        parser.error("there is no section %s; there are %s" % (unknown[0], ", ".join(SECTIONS)))
    folder = systems.settings()
    try:
        results = measure(sections, args.repeat, [n for n in args.systems.split(",") if n])
    finally:
        folder.cleanup()
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"versions": systems.versions(), "cores": os.cpu_count(), "repeat": args.repeat, "results": results}, file, indent=1)
    print(tables(results))


if __name__ == "__main__":
    main()
