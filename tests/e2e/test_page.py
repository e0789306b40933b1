# SPDX-License-Identifier: BSD-3-Clause
"""Under Jupyter's server a page gets as much as the server lets through; the agents' spool has the rest."""

from __future__ import annotations

import os
import pathlib
import re
import stat

import pytest
from client import by_rank
from packages import needs

SERVER = {"JPY_SESSION_NAME": "/notebooks/training.ipynb"}
LINES = "for i in range(%d):\n    print('line', i, 'of', 'x' * 60)\n"
LEFT_OUT = re.compile(r"^cellspan: (\d+) lines? (?:are|is) left out here.*%ranks logs --cell (\d+) shows", re.M)


def check_window(cell):
    """What Jupyter's server would drop: more than 3,000,000 bytes or 3,000 messages in any 3 s. It counts no bytes of comm messages."""
    sent = [
        (m["header"]["date"].timestamp(), 0 if m["msg_type"].startswith("comm_") else len(str(m["content"])) + 600)
        for m in cell.of("stream", "display_data", "update_display_data", "comm_msg", "comm_close")
    ]
    first, size = 0, 0
    for at, (when, n) in enumerate(sent):
        size += n
        while sent[first][0] < when - 3:
            size -= sent[first][1]
            first += 1
        assert size < 3_000_000 and at - first < 3_000, (size, at - first)


def numbers(text):
    return [int(n) for n in re.findall(r"^(?:\[[0-9,-]+\] )?line (\d+) of x{60}$", text, re.M)]


def left_out(cell):
    return sum(int(n) for n, _ in LEFT_OUT.findall(cell.stderr))


@pytest.mark.limit(300)
def test_the_middle_of_two_hundred_thousand_lines_is_left_out_and_in_the_logs(paged):
    cell = paged.ok("%%distribute -n 4 --merge prefix\n" + LINES % 50_000, limit=200)
    check_window(cell)
    shown = {rank: numbers(text) for rank, text in ((r, "\n".join(lines)) for r, lines in by_rank(cell.stdout).items())}
    assert all(lines == sorted(set(lines)) for lines in shown.values())
    assert any(lines[0] == 0 for lines in shown.values()), "the first lines are missing"  # of a rank that began late they may be left out
    assert any(lines[-1] == 49_999 for lines in shown.values()), "the last lines are missing"
    assert left_out(cell) + sum(map(len, shown.values())) == 200_000
    assert left_out(cell) > 100_000 and {n for _, n in LEFT_OUT.findall(cell.stderr)} == {str(cell.reply["execution_count"])}

    folder = folder_of(paged)
    kept = list(folder.glob("cellspan-spool-*"))
    assert kept and stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}

    logs = paged.ok("%%ranks logs --cell %d" % cell.reply["execution_count"], limit=200)
    check_window(logs)
    every = by_rank(logs.stdout)
    assert {rank: numbers("\n".join(lines)) for rank, lines in every.items()} == dict.fromkeys(range(4), list(range(50_000)))


def folder_of(nb):
    """The kernel's runtime folder."""
    bases = [os.environ[name] for name in ("XDG_RUNTIME_DIR", "TMPDIR") if os.environ.get(name)] + ["/tmp"]
    return next(folder for base in bases for folder in pathlib.Path(base).glob("cellspan-%d-*" % nb.pid))


def test_logs_show_one_rank_and_the_last_cell_without_being_asked(paged):
    cell = paged.ok("%%distribute -n 3\nimport os, sys\nrank = os.environ['RANK']\nprint('out of', rank); print('err of', rank, file=sys.stderr)")
    logs = paged.ok("%ranks logs -r 1")
    assert (logs.stdout, logs.stderr) == ("out of 1\n", "err of 1\n")
    logs = paged.ok("%%ranks logs --cell %d" % cell.reply["execution_count"])
    assert by_rank(logs.stdout) == {rank: ["out of %d" % rank] for rank in range(3)}


def test_logs_outlive_their_ranks(paged):
    cell = paged.ok("%%distribute -n 2\nimport os\nprint('last words of', os.environ['RANK'])")
    paged.ok("%ranks stop")
    logs = paged.ok("%%ranks logs --cell %d" % cell.reply["execution_count"])
    assert by_rank(logs.stdout) == {rank: ["last words of %d" % rank] for rank in range(2)}


def test_logs_show_all_ranks_of_a_group_that_was_larger(fresh):
    nb = fresh()
    told = "%ranks logs -r 1"
    assert "there are no ranks yet" in nb.run(told).assert_error("UsageError").traceback
    home = nb.ok("print('home')").reply["execution_count"]
    assert "-r 1: no ranks ran that cell" in nb.run(told + " --cell %d" % home).assert_error("UsageError").traceback
    cell = nb.ok("%%distribute -n 70 --no-capture\nimport os\nprint('rank', os.environ['RANK'])", limit=300)
    nb.ok("%ranks stop", limit=100)
    nb.ok("%%distribute -n 1 --fresh\nprint('another')", limit=100)
    count = cell.reply["execution_count"]
    assert by_rank(nb.ok("%%ranks logs --cell %d" % count, limit=100).stdout) == {r: ["rank %d" % r] for r in range(70)}
    assert nb.ok("%%ranks logs --cell %d -r 69" % count).stdout == "rank 69\n"


def test_logs_before_the_first_cell_say_so(fresh):
    assert fresh().ok("%ranks logs").stderr == "cellspan: no cell has run yet\n"


def test_logs_name_a_cell_that_did_not_run_and_an_option_out_of_place(paged):
    cell = paged.run("%ranks logs --cell 99999").assert_error("UsageError")
    assert "--cell 99999: no such cell ran here" in cell.traceback
    assert "--cell: only with %ranks logs" in paged.run("%ranks where --cell 3").assert_error("UsageError").traceback


@pytest.mark.limit(300)
def test_logs_can_be_interrupted(paged):
    cell = paged.ok("%%distribute -n 2 --merge prefix\n" + LINES % 100_000, limit=200)
    logs = paged.start("%%ranks logs --cell %d" % cell.reply["execution_count"])
    paged.wait_shown(logs, "line 1 ")
    paged.control("interrupt_request")
    paged.wait(logs, 120).assert_error("KeyboardInterrupt")
    paged.ok("1")


@pytest.mark.limit(300)
def test_a_flood_of_displays_shows_the_first_ones_and_the_last(paged):
    cell = paged.ok(
        "%%distribute -n 2\nfrom IPython.display import display\nfor i in range(5000):\n    display({'text/plain': 'number %d' % i}, raw=True)",
        limit=200,
    )
    check_window(cell)
    shown = [d["text/plain"] for d in cell.displays_of_code]
    assert shown[0] == "number 0" and "number 4999" in shown[-3:]
    assert re.search(r"cellspan: \d+ displays are left out here", cell.stderr)


@pytest.mark.limit(300)
def test_the_middle_of_homes_lines_is_left_out_and_in_the_logs(paged):
    cell = paged.ok(LINES % 200_000, limit=200)
    check_window(cell)
    shown = numbers(cell.stdout)
    assert shown == sorted(set(shown)) and (shown[0], shown[-1]) == (0, 199_999)
    assert left_out(cell) + len(shown) == 200_000
    logs = paged.ok("%%ranks logs --cell %d" % cell.reply["execution_count"], limit=200)
    check_window(logs)
    assert numbers(logs.stdout) == list(range(200_000))


@pytest.mark.limit(300)
@pytest.mark.parametrize("env", [{}, dict(SERVER, CELLSPAN_SESSION_NAME=SERVER["JPY_SESSION_NAME"])], ids=["no server", "inherited"])
def test_elsewhere_every_line_comes(fresh, env):
    nb = fresh(env=env)
    cell = nb.ok("%%distribute -n 4 --merge prefix\n" + LINES % 50_000, limit=200)
    every = by_rank(cell.stdout)
    assert {rank: numbers("\n".join(lines)) for rank, lines in every.items()} == dict.fromkeys(range(4), list(range(50_000)))
    assert nb.ok("import os; os.environ.get('CELLSPAN_SESSION_NAME')").value == (repr(SERVER["JPY_SESSION_NAME"]) if env else None)


@pytest.mark.limit(300)
def test_the_oldest_lines_go_when_the_spool_is_full(fresh):
    nb = fresh(env=dict(SERVER, CELLSPAN_SPOOL_LIMIT="2M"))
    cell = nb.ok("%%distribute -n 2 --merge prefix\n" + LINES % 50_000, limit=200)
    logs = nb.ok("%%ranks logs --cell %d" % cell.reply["execution_count"], limit=200)
    every = {rank: numbers("\n".join(lines)) for rank, lines in by_rank(logs.stdout).items()}
    assert all(lines == list(range(lines[0], 50_000)) for lines in every.values())
    assert 5_000 < sum(map(len, every.values())) < 60_000
    assert "lines of cell %d are missing" % cell.reply["execution_count"] in logs.stderr


@pytest.mark.parametrize("head", ["", "%%distribute -n 4\n"])
def test_updates_of_widgets_count_and_the_last_ones_come(paged, head):
    needs("ipywidgets")
    cell = paged.ok(head + "import ipywidgets\nwidgets = [ipywidgets.HTML() for _ in range(50)]\nfor i in range(200):\n    for w in widgets:\n"
                    "        w.value = f'{i} of 200 ' + 'x' * 1000\n    print('line', i)\nfor w in widgets:\n    w.value = 'end'", limit=200)
    check_window(cell)
    last = {}
    for m in cell.of("comm_msg"):
        last[m["content"]["comm_id"]] = m["content"]["data"]["state"]["value"]
    assert list(last.values()) == ["end"] * (200 if head else 50)


def test_a_widget_that_opens_with_megabytes_is_shown(paged):
    needs("ipywidgets")
    cell = paged.ok("%%distribute -n 2\nimport ipywidgets\nfrom IPython.display import display\nbig = ipywidgets.HTML('x' * 5_000_000)\ndisplay(big)")
    assert len([d for d in cell.displays if "application/vnd.jupyter.widget-view+json" in d]) == 2 and not left_out(cell), cell.stderr
