# SPDX-License-Identifier: BSD-3-Clause
"""Failures: what the user reads, and what continues to work."""

from __future__ import annotations

import os
import re
import signal
import time

import processes
import pytest
from processes import wait_until

N = 4
# What is to be interrupted sleeps for 600 s, and no limit is that long: who waits for its end has failed.
LIMIT = 90  # seconds, far off: two busy cores, on which any process may stand still for a while
GRACE = "--grace 60s"  # for ranks that are to come back: nobody is killed because the machine is busy


def ranks_of(nb, n=N):
    nb.rank_pids(n)
    nb.ok("%%%%distribute -n %d\nimport os, time\nrank = int(os.environ['RANK'])\nkept = rank * 2" % n)
    return nb.rank_pids(n)


def first_shown(cell, pattern):
    """Seconds until the text under the cell matched."""
    text = ""
    for at, message in zip(cell.times, cell.messages):
        content = message["content"]
        text += content.get("text", "") + "\n".join(content.get("traceback", []))
        text += content["data"].get("text/plain", "") if "data" in content and isinstance(content["data"], dict) else ""
        if re.search(pattern, text):
            return at
    return None


class Meeting:
    """Where all ranks wait for one another: the moment in which others may fail alike is 0.2 s, and a rank that is later
    is interrupted instead."""

    def __init__(self, folder):
        self.folder, self.n = folder, 0

    def code(self, ranks=N):
        """Lines for a cell; each call is another meeting."""
        self.n += 1
        place = self.folder / str(self.n)
        place.mkdir()
        return ("import os, time\nopen(os.path.join(%r, os.environ['RANK']), 'w').close()\n"
                "while len(os.listdir(%r)) < %d:\n    time.sleep(0.001)\n" % (str(place), str(place), ranks))


@pytest.fixture
def meeting(tmp_path):
    return Meeting(tmp_path)


def run_alike(nb, meeting, code, words):
    """Runs a cell whose ranks fail together, until they do so within that moment: `words` stand in the traceback then."""
    cells = []

    def alike():
        cells.append(nb.run("%%distribute\n" + meeting.code() + code, LIMIT))
        return re.search(words, cells[-1].traceback)

    assert wait_until(alike, LIMIT), cells[-1].shown
    return cells[-1]


# -- exceptions on ranks


def test_an_exception_of_some_ranks_is_shown_once_with_their_numbers(nb, meeting):
    ranks_of(nb)
    cell = run_alike(nb, meeting, "if rank < 3:\n    1 / 0", "ZeroDivisionError on ranks 0-2 of 4").assert_error("ZeroDivisionError")
    assert cell.traceback.count("1 / 0") <= 2, cell.traceback  # the line once, the message of the exception has no such text
    assert cell.traceback.count("division by zero") == 1


def test_an_exception_of_one_rank_names_it(nb):
    ranks_of(nb)
    cell = nb.run("%%distribute\nif rank == 2:\n    raise ValueError('only two')").assert_error("ValueError")
    assert re.search(r"ValueError on rank 2 of 4", cell.traceback)
    assert cell.reply["evalue"].endswith("only two")


def test_an_exception_of_all_ranks_is_one_traceback(nb, meeting):
    ranks_of(nb)
    cell = run_alike(nb, meeting, "raise KeyError('same')", "KeyError on ranks 0-3 of 4").assert_error("KeyError")
    assert len(re.findall(r"^KeyError: 'same'", cell.traceback, re.M)) == 1


def test_different_exceptions_get_one_line_each(nb, meeting):
    ranks_of(nb)
    cell = run_alike(nb, meeting, "if rank in (0, 1):\n    1 / 0\nraise ValueError('other')",
                     r"(?s)(?=.*ZeroDivisionError)(?=.*ValueError)(?=.*(ranks 2-3|ranks 0-1))")
    assert cell.status == "error"


def test_ranks_that_wait_for_the_failed_one_are_interrupted(nb, meeting):
    ranks_of(nb)
    cell = nb.run("%%%%distribute %s\n%sif rank == 1:\n    raise ValueError('gone wrong')\ntime.sleep(600)" % (GRACE, meeting.code()), LIMIT)
    cell.assert_error("ValueError")
    assert nb.ok("%%distribute --gather\nkept").value == "[0, 2, 4, 6]"


def test_output_before_the_exception_is_all_there(nb, meeting):
    ranks_of(nb)
    cell = nb.run("%%distribute --merge raw\nfor i in range(1000):\n    print('line', i)\n" + meeting.code() + "1 / 0", LIMIT)
    assert len(re.findall(r"^line \d+$", cell.stdout, re.M)) == 4000
    assert cell.status == "error"


def test_a_syntax_error_on_the_ranks_is_one_error(nb):
    ranks_of(nb)
    cell = nb.run("%%distribute\nx = = 1").assert_error("SyntaxError")
    assert cell.traceback.count("x = = 1") <= 2
    assert nb.ok("%%distribute --gather\nkept").value == "[0, 2, 4, 6]"


def test_queued_cells_are_aborted_after_a_failed_distributed_one(nb, tmp_path):
    ranks_of(nb)
    go = tmp_path / "go"
    first = nb.start("%%%%distribute\nwhile not os.path.exists(%r):\n    time.sleep(0.02)\n1 / 0" % str(go))
    queued = [nb.start("1"), nb.start("%%distribute\n1")]
    nb.request("kernel_info_request")  # answered meanwhile, and sent behind them: they have arrived
    go.touch()
    nb.wait(first).assert_error("ZeroDivisionError")
    assert [nb.wait(c).status for c in queued] == ["aborted"] * 2


def test_sys_exit_on_a_rank_fails_the_cell_and_keeps_the_rank(nb):
    before = ranks_of(nb)
    cell = nb.run("%%distribute\nimport sys\nif rank == 1:\n    sys.exit(3)").assert_error("SystemExit")
    assert "rank 1" in cell.traceback
    assert nb.rank_pids(N) == before


# -- deaths of ranks

DEATHS = [
    ("os.kill(os.getpid(), 9)", r"SIGKILL|signal 9"),
    ("import ctypes; ctypes.string_at(0)", r"SIGSEGV|[Ss]egmentation"),
    ("os._exit(3)", r"exit status 3\b"),
    ("os.abort()", r"SIGABRT|[Aa]bort"),
]


@pytest.mark.parametrize(
    "others, death, named",
    [("sleep",) + death for death in DEATHS] + [("all_reduce",) + death for death in DEATHS if death[0].startswith("os.")],
    ids=["sleep-SIGKILL", "sleep-SIGSEGV", "sleep-_exit", "sleep-abort", "all_reduce-SIGKILL", "all_reduce-_exit", "all_reduce-abort"],
)
def test_the_death_of_a_rank_is_named_at_once_and_the_next_cell_runs(nb, death, named, others, meeting, request):
    wait = "time.sleep(600)"
    if others == "all_reduce":
        request.getfixturevalue("torch")
        wait = "import torch, torch.distributed as dist\ndist.all_reduce(torch.ones(1))"
    before = ranks_of(nb)
    start = "%%distribute --init gloo\n" if others == "all_reduce" else "%%%%distribute %s\n" % GRACE
    cell = nb.start(
        start + "import sys\nprint('ready', flush=True)\n" + meeting.code() + "if rank == 2:\n"
        "    time.sleep(1)\n    print('famous last words', file=sys.stderr, flush=True)\n    %s\n%s" % (death, wait)
    )
    nb.wait(cell, LIMIT)
    assert cell.status == "error", cell.shown
    begun = first_shown(cell, "ready")
    at = first_shown(cell, r"rank 2")
    assert begun is not None and at is not None, cell.shown
    print("named %.2f s after the first was ready (1 s of that is the rank's own), over after %.2f s" % (at - begun, cell.seconds - begun))
    text = cell.shown
    assert re.search(named, text), text
    assert "pid %d)" % before[2] in text, "the certificate has no pid:\n" + text
    assert "famous last words" in text
    cell = nb.ok("%%distribute -n 4 --gather\nimport os\n(os.getpid(), 'kept' in globals())", LIMIT)
    new = r"rank 2 is new: its variables" if others == "sleep" else r"ranks? .* new: .* variables"
    assert re.search(new + " are gone", cell.stdout + cell.stderr), cell.shown
    after = re.findall(r"\((\d+), (\w+)\)", cell.value)
    assert len(after) == 4 and int(after[2][0]) != before[2] and after[2][1] == "False"
    if others == "sleep":
        assert [int(pid) for pid, _ in after[:2]] == before[:2] and after[0][1] == "True"


def test_a_rank_that_is_out_of_memory_is_named(nb):
    ranks_of(nb)
    cell = nb.run(
        "%%distribute\nimport resource\nif rank == 1:\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))\n"
        "    hoard = bytearray(64 << 30)"
    )
    cell.assert_error("MemoryError")
    assert "rank 1" in cell.traceback


def test_a_rank_that_dies_between_cells_is_started_again(nb):
    before = ranks_of(nb)
    os.kill(before[1], signal.SIGKILL)
    assert wait_until(lambda: re.search(r"^ *1 +dead", nb.ok("%ranks").shown, re.M), LIMIT), "the kernel did not hear of it"
    cell = nb.ok("%%distribute -n 4 --gather\nimport os\n(os.getpid(), 'kept' in globals())")
    after = re.findall(r"\((\d+), (\w+)\)", cell.value)
    assert [known for _, known in after] == ["True", "False", "True", "True"]
    assert re.search(r"rank.* 1", cell.stdout + cell.stderr), cell.shown


# -- home


HOME_DEATHS = [
    ("import ctypes; ctypes.string_at(0)", r"SIGSEGV|[Ss]egmentation"),
    ("import os; os._exit(7)", r"exit status 7\b"),
    ("import os; os.kill(os.getpid(), 9)", r"SIGKILL|signal 9"),
]


@pytest.mark.parametrize("death, named", HOME_DEATHS, ids=["SIGSEGV", "_exit", "SIGKILL"])
def test_the_death_of_home_fails_the_cell_and_nothing_else(nb, death, named):
    ranks_of(nb, 2)
    nb.ok("mine = 1")
    cell = nb.run("print('before', flush=True)\n" + death)
    assert cell.status == "error"
    assert "before" in cell.stdout
    assert re.search(named, cell.shown), cell.shown
    assert nb.ok("1 + 1").value == "2"
    nb.run("mine").assert_error("NameError")
    assert nb.ok("%%distribute -n 2 --gather\nkept").value == "[0, 2]"  # the ranks did not notice


def test_the_stack_of_a_segfault_is_shown(nb):
    cell = nb.run("def where_it_happens():\n    import ctypes\n    ctypes.string_at(0)\nwhere_it_happens()")
    assert cell.status == "error" and "where_it_happens" in cell.traceback


def test_the_new_home_says_that_variables_are_gone(nb):
    cell = nb.run("import os; os._exit(1)")
    after = nb.ok("1")
    assert "the variables of home are gone" in cell.shown + after.shown, cell.shown + after.shown


def test_home_that_runs_out_of_address_space_gets_a_memory_error_or_an_error_reply(nb):
    cell = nb.run(
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (3 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))\n"
        "hoard = bytearray(64 << 30)"
    )
    assert cell.status == "error"
    assert nb.ok("1").value == "1"
    nb.run("import os; os._exit(0)")  # a new home without the limit
    assert nb.ok("1").value == "1"


def test_home_that_dies_between_cells_is_started_again(nb):
    pid = nb.home_pid()
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not processes.alive(pid), LIMIT)
    assert nb.run("1").status in ("ok", "error")
    assert nb.home_pid() != pid


def test_queued_cells_are_aborted_when_home_dies(nb, tmp_path):
    go = tmp_path / "go"
    first = nb.start("import os, time\nwhile not os.path.exists(%r):\n    time.sleep(0.02)\nos._exit(1)" % str(go))
    queued = nb.start("1")
    nb.request("kernel_info_request")  # as above
    go.touch()
    assert nb.wait(first).status == "error" and nb.wait(queued).status == "aborted"


# -- agent and kernel


@pytest.mark.parametrize("whose, line", [("home", "home ended; a new one is starting: the variables of home are gone"), ("agent", "home ended with the agent of this machine")])
def test_what_is_lost_while_ranks_run_a_cell_is_told_under_that_cell(fresh, gate, whose, line):
    nb = fresh()
    pid = int(nb.ok("import os; x = 5; os.get%spid()" % ("p" if whose == "agent" else "")).value)
    nb.ok("%%distribute -n 2\n1")
    cell = nb.start("%%distribute\nprint('begun', flush=True)\n" + gate.code)
    nb.wait_ranks(cell, "begun", 2)
    os.kill(pid, signal.SIGKILL)
    nb.wait(cell, 60, lambda: line in cell.stderr)
    gate.open()
    nb.wait(cell, 60)
    assert nb.run("globals().get('x', 'gone')").value == "'gone'"


@pytest.mark.parametrize("nxt", ["globals().get('x', 'gone')", "%%distribute -n 2\n'gone'"])
@pytest.mark.parametrize("whose, line", [("home", "home ended; a new one is starting: the variables of home are gone"), ("agent", "home ended with the agent of this machine")])
def test_what_is_lost_while_nothing_runs_is_told_by_the_next_cell(fresh, whose, line, nxt):
    nb = fresh()
    pid = int(nb.ok("import os; x = 5; os.get%spid()" % ("p" if whose == "agent" else "")).value)
    home = nb.home_pid()
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not processes.alive(home), LIMIT)
    assert nb.until(lambda: any(line in one.shown for one in nb.cells.values()))  # for somebody who looks at the page
    cell = nb.run(nxt)
    assert cell.value == "'gone'" and cell.stderr.count(line) == 1, cell.shown
    assert line not in nb.ok(nxt).stderr


def test_the_death_of_the_agent_fails_the_cell_and_the_next_one_runs(fresh):
    notebook = fresh()
    ranks = notebook.rank_pids(2)
    home = notebook.home_pid()
    agents = processes.named(notebook.marker, "cellspan-agent")
    assert len(agents) == 1
    cell = notebook.start("%%distribute -n 2\nprint('begun')\nimport time; time.sleep(600)")
    notebook.wait_ranks(cell, "begun", 2)
    os.kill(agents[0], signal.SIGKILL)
    notebook.wait(cell)
    assert cell.status == "error" and "agent" in cell.shown, cell.shown
    lost = "home ended with the agent of this machine: the variables of home and of the ranks here are gone"
    assert notebook.until(lambda: any(lost in one.shown for one in notebook.cells.values()))
    assert wait_until(lambda: not any(map(processes.alive, ranks + [home])), LIMIT)
    assert notebook.run("1").assert_ok().value == "1"
    assert notebook.ok("%%distribute -n 2\n'again'").value == "'again'"


@pytest.mark.parametrize("when", ["idle", "in a home cell", "in a distributed cell"])
def test_nobody_is_left_when_the_kernel_is_killed(fresh, when):
    notebook = fresh()
    notebook.rank_pids(4)
    if when != "idle":
        head = "%%distribute\n" if "distributed" in when else ""
        cell = notebook.start(head + "print('begun', flush=True)\nimport subprocess\nsubprocess.run(['sleep', '600'])")
        notebook.wait_shown(cell, "begun")
        assert wait_until(lambda: processes.named(notebook.marker, "sleep 600"), LIMIT)
    os.kill(notebook.pid, signal.SIGKILL)
    assert processes.gone(notebook.marker) == []


def test_nobody_is_left_after_shutdown_in_a_distributed_cell(fresh):
    notebook = fresh()
    notebook.rank_pids(4)
    cell = notebook.start("%%distribute\nprint('begun')\nwhile True: pass")
    notebook.wait_shown(cell, "begun")
    notebook.control("shutdown_request", {"restart": False})
    assert processes.gone(notebook.marker) == []


def test_a_child_that_left_its_session_does_not_outlive_the_kernel(fresh):
    notebook = fresh()
    notebook.ok("import subprocess\np = subprocess.Popen(['setsid', 'sleep', '600'])")
    assert wait_until(lambda: processes.named(notebook.marker, "sleep 600"), LIMIT)
    os.kill(notebook.pid, signal.SIGKILL)
    assert processes.gone(notebook.marker) == []


# -- interrupts

STUCK = {
    "loop": "while True: pass",
    "sleep": "import time; time.sleep(600)",
    "lock": "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "c call": "while True: sum(range(20_000_000))",  # one call takes half a second or more, and looks at no signal
}


@pytest.mark.parametrize("where", list(STUCK))
def test_an_interrupt_brings_every_rank_back_with_its_variables(nb, where):
    before = ranks_of(nb)
    cell = nb.start("%%%%distribute %s\nprint('begun', flush=True)\n" % GRACE + STUCK[where])
    nb.wait_ranks(cell, "begun", N)
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert nb.rank_pids(N) == before
    assert nb.ok("%%distribute --gather\nkept").value == "[0, 2, 4, 6]"


def test_an_interrupt_frees_ranks_that_are_stuck_in_a_collective(nb, torch):
    ranks_of(nb)
    cell = nb.start(
        "%%distribute --init gloo\nimport torch, torch.distributed as dist\nprint('begun', flush=True)\n"
        "if rank == 0:\n    time.sleep(600)\ndist.all_reduce(torch.ones(1))"
    )
    nb.wait_ranks(cell, "begun", N)
    begin = time.monotonic()
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    print("over %.1f s after the interrupt" % (time.monotonic() - begin))
    cell = nb.ok("%%distribute -n 4 --init gloo\nimport torch, torch.distributed as dist\nt = torch.ones(1)\ndist.all_reduce(t)\nt.item()", LIMIT)
    assert cell.value == "4.0"


# "begun" is said within the try: an interrupt that comes right after it is ignored like any other.
IGNORES = (
    "while True:\n    try:\n        print('begun', flush=True)\n        time.sleep(600)\n"
    "    except KeyboardInterrupt:\n        pass"
)


def test_ranks_that_do_not_come_back_in_their_grace_are_named_with_where_they_hang(nb):
    ranks_of(nb)
    cell = nb.start("%%distribute --grace 20s\nimport time\ndef deep_inside():\n    " + IGNORES.replace("\n", "\n    ")
                    + "\nif rank == 3:\n    deep_inside()\nprint('begun', flush=True)\ntime.sleep(600)")
    nb.wait_ranks(cell, "begun", N)
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT)
    assert cell.status == "error" and cell.ename == "KeyboardInterrupt", cell.shown
    assert re.search(r"rank 3.*deep_inside", cell.shown, re.S), cell.shown
    assert nb.ok("%%distribute -n 4 --gather\n'kept' in globals()").value == "[True, True, True, False]"


def test_a_second_interrupt_kills_what_the_first_did_not_stop(nb):
    before = ranks_of(nb, 2)
    cell = nb.start("%%distribute -n 2 --grace 600s\nimport time\n" + IGNORES)
    nb.wait_ranks(cell, "begun", 2)
    nb.control("interrupt_request")
    assert not nb.until(lambda: cell.ended, 1.5)  # two within a second are a double click

    def ends():
        """A kernel that stands still takes two at once, and then the next one counts."""
        nb.control("interrupt_request")
        return nb.until(lambda: cell.ended, 5)

    assert wait_until(ends, LIMIT), cell.shown  # far less than their grace
    assert cell.status == "error"
    assert wait_until(lambda: not any(map(processes.alive, before)), LIMIT)
    assert nb.ok("%%distribute -n 2\n'again'").value == "'again'"


def test_homes_state_survives_every_interrupt_of_ranks(nb):
    nb.ok("precious = 'kept'")
    home = nb.home_pid()
    ranks_of(nb, 2)
    cell = nb.start("%%distribute\nprint('begun')\nwhile True: pass")
    nb.wait_shown(cell, "begun")
    nb.control("interrupt_request")
    nb.wait(cell)
    assert nb.ok("precious").value == "'kept'" and nb.home_pid() == home


def test_an_interrupt_of_a_cell_that_starts_its_group_ends_it(fresh):
    notebook = fresh()
    cell = notebook.start("%%distribute -n 4\nimport time; time.sleep(600)")
    notebook.wait(cell, until=lambda: cell.busy_at is not None)
    notebook.control("interrupt_request")
    notebook.wait(cell)
    assert cell.status == "error"
    assert notebook.ok("%%distribute -n 2\n'fine'").value == "'fine'"


def test_the_stack_of_a_ranks_segfault_is_shown(nb):
    ranks_of(nb, 2)
    cell = nb.run("%%distribute -n 2\ndef where_it_happens():\n    import ctypes\n    ctypes.string_at(0)\nif rank == 1:\n    where_it_happens()")
    assert cell.status == "error" and "where_it_happens" in cell.traceback, cell.traceback


def test_a_certificate_quotes_only_what_the_rank_said_in_this_cell(nb):
    ranks_of(nb, 2)
    nb.ok("%%distribute -n 2\nimport sys\nprint('an older remark', file=sys.stderr)")
    cell = nb.run("%%distribute -n 2\nimport os\nif rank == 1:\n    os._exit(3)")
    assert cell.status == "error" and "an older remark" not in cell.shown
