# SPDX-License-Identifier: BSD-3-Clause
"""The debugger over home and ranks, by Jupyter's debug requests."""

from __future__ import annotations

import os
import re
import textwrap
import time

import pytest
from client import Notebook, by_rank
from packages import needs
from processes import wait_until
from test_subshells import Subshell
from torch_users import beforehand

needs("debugpy")

INITIALIZE = {"clientID": "test", "clientName": "test", "adapterID": "", "pathFormat": "path", "linesStartAt1": True,
              "columnsStartAt1": True, "supportsVariableType": True}
RANKS = """%%distribute -n 4 --no-gpu
import os
r = int(os.environ["RANK"])

def f(a):
    b = a * 10
    c = b + 1
    return c

v = f(r)
print("v", v)"""
SLEEPS = "%%distribute -n 2 --no-gpu {}\nimport os, time\nx = int(os.environ['RANK'])\ny = x + 1\nprint('went on')\n"


class Debugged(Notebook):
    """A notebook and a client with a debugger."""

    def __init__(self, **options):
        super().__init__(**options)
        self.seq = 0

    def close(self):
        super().close()
        assert self.left == []

    def ask(self, command, arguments=None, client=None, **options):
        """A debug_request and the content of its reply."""
        self.seq += 1
        content = {"type": "request", "seq": self.seq, "command": command, "arguments": arguments or {}}
        return (client or self).control("debug_request", content, **options)

    def fine_ask(self, command, arguments=None, **options):
        reply = self.ask(command, arguments, **options)
        assert reply.get("success"), reply
        assert reply["request_seq"] == self.seq and reply["command"] == command
        return reply.get("body")

    def attach(self):
        self.fine_ask("initialize", INITIALIZE)
        self.fine_ask("attach")

    def breakpoints(self, code, *lines):
        """Sets breakpoints in a cell of this text. Returns its file name."""
        path = self.fine_ask("dumpCell", {"code": code})["sourcePath"]
        rows = self.fine_ask("setBreakpoints", {"breakpoints": [{"line": line} for line in lines], "source": {"path": path}})
        assert [row["verified"] for row in rows["breakpoints"]] == [True] * len(lines), rows
        return path

    def events(self, *kinds):
        every = [m for cell in self.cells.values() for m in cell.messages] + self.strays
        every = [m for m in every if m["msg_type"] == "debug_event" and m["content"]["event"] in kinds]
        return [m["content"] for m in sorted(every, key=lambda m: m["content"]["seq"])]

    def state(self):
        return self.fine_ask("debugInfo")

    def nobody_stands(self):
        """Waits: a worker's debugger may tell that it goes on after the cell has ended."""
        return wait_until(lambda: self.state()["stoppedThreads"] == [], 60)

    def wait_stopped(self, n=1, limit=60):
        """Waits until n threads stand. Returns them, the first is the one that clients see."""
        found = []

        def stand():
            found[:] = self.state()["stoppedThreads"]
            return len(found) == n

        assert wait_until(stand, limit), found
        return found

    def names(self):
        return {row["id"]: row["name"] for row in self.fine_ask("threads")["threads"]}

    def frames(self, thread):
        return self.fine_ask("stackTrace", {"threadId": thread})["stackFrames"]

    def line(self, thread):
        """Where it stands. None: it does not, or its debugger can't say."""
        frames = (self.ask("stackTrace", {"threadId": thread}).get("body") or {}).get("stackFrames")
        return frames[0]["line"] if frames else None

    def locals(self, thread):
        scope = self.fine_ask("scopes", {"frameId": self.frames(thread)[0]["id"]})["scopes"][0]
        rows = self.fine_ask("variables", {"variablesReference": scope["variablesReference"]})["variables"]
        return {row["name"]: row["value"] for row in rows}

    def go_on(self, *threads):
        for thread in threads:
            self.fine_ask("continue", {"threadId": thread})


NOTEBOOK = Debugged  # for the kernel that the tests share


@pytest.fixture
def nb(nb):
    """It is as it was before the debugger came, but home has debugpy; ranks are new."""
    yield nb
    nb.ask("disconnect")
    nb.ok("%ranks stop")
    nb.quiet()
    nb.cells.clear()
    nb.strays.clear()


@pytest.fixture
def new():
    """A kernel to which no debugger has come yet."""
    notebook = Debugged()
    try:
        yield notebook
    finally:
        notebook.close()


@pytest.fixture
def sixty_four(monkeypatch):
    """Such a kernel whose ranks have pydevd from the process that forks them: each would import it for a fifth of a second."""
    beforehand(monkeypatch, set(), "debugpy.server.api,pydevd")
    notebook = Debugged()
    yield notebook
    notebook.close()


def listens(pid):
    """The TCP ports on which a process listens."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        inodes |= set(re.findall(r"socket:\[(\d+)\]", target))
    lines = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/{pid}/net/{name}").readlines()[1:]]
    return [line[1] for line in lines if line[3] == "0A" and line[9] in inodes]


def test_home_stops_shows_its_variables_and_goes_on(nb):
    nb.attach()
    code = "\ndef f(a):\n    b = a + 1\n    return b\n\nprint(f(3))"
    path = nb.breakpoints(code, 4)
    cell = nb.start(code)
    assert nb.wait_stopped() == [1]
    assert nb.names()[1] == "MainThread"
    frames = nb.frames(1)
    assert [(f["name"], f["line"], f["source"]["path"]) for f in frames[:2]] == [("f", 4, path), ("<module>", 6, path)]
    assert nb.locals(1) == {"a": "3", "b": "4"}
    assert nb.fine_ask("source", {"source": {"path": path}})["content"] == code
    nb.go_on(1)
    assert nb.wait(cell).assert_ok().stdout == "4\n"
    assert listens(nb.home_pid()) == []


def test_a_cell_that_ran_before_attach_has_breakpoints_too(new):
    code = "def g(a):\n    return a + 1"
    new.ok(code)
    new.ok("hidden = 1\nhidden", store_history=False)
    new.attach()
    new.breakpoints(code, 2)
    cell = new.start("g(1)")
    new.wait_stopped()
    assert new.locals(1) == {"a": "1"}
    assert not [name for name in new.names().values() if "cellspan" in name], "only the user's threads"
    new.go_on(1)
    new.wait(cell).assert_ok()


def test_an_error_names_the_cell_while_a_debugger_is_attached(nb):
    nb.attach()
    cell = nb.run("1\n1 / 0").assert_error("ZeroDivisionError")
    assert "Cell In[%d], line 2" % cell.reply["execution_count"] in cell.traceback


def test_ranks_are_threads(nb):
    nb.attach()
    path = nb.breakpoints(RANKS, 7)
    cell = nb.start(RANKS)
    threads = nb.wait_stopped(4)
    names = nb.names()
    assert sorted(names[t] for t in threads) == ["rank 0", "rank 1", "rank 2", "rank 3"]
    for thread in threads:
        rank = int(names[thread][5:])
        assert [(f["name"], f["line"], f["source"]["path"]) for f in nb.frames(thread)] == [
            ("rank %d: f" % rank, 7, path), ("rank %d: <module>" % rank, 10, path)]
        assert nb.locals(thread) == {"a": str(rank), "b": str(10 * rank)}
    assert all(event["body"]["allThreadsStopped"] is False for event in nb.events("stopped"))
    two = next(t for t in threads if names[t] == "rank 2")
    nb.fine_ask("next", {"threadId": two})
    assert wait_until(lambda: nb.wait_stopped(4) and nb.frames(two)[0]["line"] == 8, 60)
    assert nb.locals(two)["c"] == "21"
    frame = nb.frames(two)[0]["id"]
    assert nb.fine_ask("evaluate", {"expression": "c + 1", "frameId": frame, "context": "repl"})["result"] == "22"
    assert nb.fine_ask("richInspectVariables", {"variableName": "c", "frameId": frame})["data"] == {"text/plain": "21"}
    nb.go_on(*threads)
    assert by_rank(nb.wait(cell).assert_ok().stdout) == {r: [f"v {10 * r + 1}"] for r in range(4)}
    assert nb.nobody_stands()
    assert all(listens(pid) == [] for pid in nb.rank_pids(4))


@pytest.mark.parametrize("head", ["", "%%distribute -n 1 --no-gpu\n"])
def test_a_step_over_the_last_line_ends_the_cell(nb, head):
    nb.attach()
    code = head + "import torch\nx = 1\nx + 1" if head else "import json\nx = 1\nx + 1"
    nb.breakpoints(code, 3 + bool(head))
    cell = nb.start(code)
    (thread,) = nb.wait_stopped()
    nb.fine_ask("next", {"threadId": thread})
    assert nb.wait(cell, 60).value == "2"
    assert nb.nobody_stands()


def test_after_disconnect_nothing_is_traced(nb):
    code = "import sys\nsys.gettrace() is None"
    monitored = nb.ok("import sys; sys.version_info >= (3, 12)").value
    for head in ("", "%%distribute -n 1 --no-gpu\n"):
        for _ in range(2):
            nb.attach()
            nb.breakpoints(head + code, 2 + bool(head))
            cell = nb.start(head + code)
            nb.go_on(*nb.wait_stopped())
            assert nb.wait(cell).value == monitored  # from then on pydevd has sys.monitoring
            nb.fine_ask("disconnect")
            assert nb.ok(head + code).value == "True"


def test_a_new_home_has_the_breakpoints_too(nb):
    nb.attach()
    code = "a = 6\nb = 7"
    nb.breakpoints(code, 2)
    nb.run("import os; os._exit(3)").assert_error("HomeDied")
    cell = nb.start(code)
    (thread,) = nb.wait_stopped()
    nb.go_on(thread)
    nb.wait(cell).assert_ok()


def test_a_pause_stops_a_cell_that_ran_before_attach(new):
    cell = new.start("import time\nprint('runs')\nwhile True:\n    time.sleep(0.05)")
    new.wait_shown(cell, "runs")
    new.attach()
    new.fine_ask("pause", {"threadId": 1})
    assert new.wait_stopped() == [1]
    new.control("interrupt_request")
    new.wait(cell, 30).assert_error("KeyboardInterrupt")


def test_the_status_says_who_stands(nb):
    nb.attach()
    code = "%%distribute -n 2 --no-gpu\nimport os, time\nif os.environ['RANK'] == '1':\n    x = 1\nelse:\n    time.sleep(4)"
    nb.breakpoints(code, 4)
    cell = nb.start(code)
    (thread,) = nb.wait_stopped()
    nb.wait_shown(cell, "rank 1 at a breakpoint", 30)
    nb.go_on(thread)
    nb.wait(cell).assert_ok()


def two_stand_on_machines(nb):
    nb.attach()
    code = "%%distribute -n 2 --no-gpu --on ssh:h1,h2\nimport os\nr = int(os.environ['RANK'])\nprint('rank', r)"
    nb.breakpoints(code, 4)
    cell = nb.start(code)
    return cell, nb.wait_stopped(2, 100)


def test_ranks_on_other_machines(hosts):
    nb = Debugged(env=hosts.variables())
    try:
        cell, threads = two_stand_on_machines(nb)
        assert sorted(nb.locals(thread)["r"] for thread in threads) == ["0", "1"]
        nb.go_on(*threads)
        nb.wait(cell).assert_ok()
    finally:
        nb.close()


def test_ranks_of_a_lost_machine_do_not_stand(hosts):
    nb = Debugged(env=dict(hosts.variables(), CELLSPAN_HEARTBEAT_TIMEOUT="8", CELLSPAN_RESUME="0"))
    try:
        cell, threads = two_stand_on_machines(nb)
        names = nb.names()
        hosts.kill("h2")
        (left,) = nb.wait_stopped(1, 40)
        assert names[left] == "rank 0" and left in threads
        nb.go_on(left)
        assert nb.wait(cell, 60).status == "error" and nb.nobody_stands()
    finally:
        nb.close()
        hosts.start("h2")


def test_another_rank_is_chosen_while_all_stand(nb):
    nb.run("%ranks debug -r 0").assert_error("UsageError")
    nb.attach()
    code = SLEEPS.format("")
    nb.breakpoints(code, 4)
    cell = nb.start(code)
    threads = nb.wait_stopped(2)
    names = nb.names()
    one = next(t for t in threads if names[t] == "rank 1")
    nb.ok("%ranks debug -r 1")
    assert nb.state()["stoppedThreads"][0] == one
    nb.quiet()
    assert nb.events("stopped")[-1]["body"]["threadId"] == one
    assert "there is no rank 7" in nb.run("%ranks debug -r 7").assert_error("UsageError").shown
    nb.go_on(*threads)
    nb.wait(cell).assert_ok()


def test_ranks_that_live_when_the_debugger_comes(new):
    new.ok("%%distribute -n 2 --no-gpu\n1")
    new.attach()
    code = SLEEPS.format("")
    new.breakpoints(code, 4)
    cell = new.start(code)
    threads = new.wait_stopped(2)
    new.go_on(*threads)
    new.wait(cell).assert_ok()
    new.ask("disconnect")
    new.ok(code)  # nothing stops any more
    assert new.state()["isStarted"] is False


def test_children_of_a_debugged_rank_are_not_debugged(nb):
    nb.attach()
    code = """%%distribute -n 2 --no-gpu
import os
def child():
    return os.getpid() + 0

pid = os.fork()
if pid == 0:
    child()
    os._exit(7)
os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"""
    nb.breakpoints(code, 4)
    cell = nb.ok(code, 30)
    assert cell.value == "7" and "WARNING" not in cell.shown, cell.shown


def test_data_loaders_of_a_debugged_rank_work(nb):
    needs("torch")
    nb.attach()
    code = """%%distribute -n 2 --no-gpu
from torch.utils.data import DataLoader
class Rows:
    def __len__(self):
        return 4
    def __getitem__(self, k):
        return k * 2

sum(int(row) for row in DataLoader(Rows(), num_workers=2))"""
    nb.breakpoints(code, 7)
    assert nb.ok(code, 60).value == "12"


def test_a_debugger_that_comes_while_ranks_are_in_a_collective(nb, gate):
    needs("torch")
    cell = nb.start("%%distribute -n 2 --no-gpu --init gloo\nimport torch, torch.distributed as dist\nif dist.get_rank() == 1:\n"
                    + textwrap.indent(gate.code, "    ") + "x = torch.ones(1)\ndist.all_reduce(x)\nint(x)")
    nb.wait(cell, 60, lambda: cell.busy_at is not None)
    assert wait_until(lambda: "all_reduce" in nb.ok("%ranks where").stdout, 60)
    nb.attach()
    gate.open()
    assert nb.wait(cell, 60).value == "2"
    code = SLEEPS.format("")
    nb.breakpoints(code, 4)
    cell = nb.start(code)
    nb.go_on(*nb.wait_stopped(2))
    nb.wait(cell).assert_ok()


def test_torchs_own_time_limit_is_named(nb):
    needs("torch")
    code = SLEEPS.format("--init gloo").replace("y = x", "x = x\ny = x")
    nb.attach()
    nb.breakpoints(code, 4, 5)
    cell = nb.start(code)
    for _ in range(2):
        nb.go_on(*nb.wait_stopped(2))
    shown = nb.wait(cell).assert_ok().stderr
    assert re.search(r"\[0-1\] cellspan: while ranks are stopped, .* fail after 30 min, at \d\d:\d\d or later", shown), shown
    assert shown.count("time limit goes on") == 1


def test_a_function_of_home_stops_on_ranks(nb):
    nb.attach()
    code = "def h(a):\n    return a + 1"
    nb.breakpoints(code, 2)
    nb.ok(code)
    cell = nb.start("%%distribute -n 2 --no-gpu\nh(5)")
    threads = nb.wait_stopped(2)
    assert all(nb.locals(thread) == {"a": "5"} for thread in threads)
    nb.go_on(*threads)
    assert nb.wait(cell).value == "6"


def test_time_limits_stand_still(nb):
    nb.attach()
    nb.ok("%%distribute -n 2 --no-gpu\n1")
    code = SLEEPS.format("--timeout 4s")
    nb.breakpoints(code, 4)
    cell = nb.start(code)
    while nb.until(lambda: cell.ended or len(nb.state()["stoppedThreads"]) == 2) and cell.ended:  # on a busy machine 4 s may be over before
        assert nb.nobody_stands()
        cell = nb.start(code)
    threads = nb.wait_stopped(2)
    time.sleep(5)
    nb.quiet()
    assert not cell.ended
    nb.go_on(*threads)
    nb.wait(cell).assert_ok()


def test_an_interrupt_lets_all_go_on(nb):
    nb.attach()
    code = SLEEPS.format("") + "time.sleep(60)"
    nb.breakpoints(code, 4, 5)
    cell = nb.start(code)
    nb.wait_stopped(2)
    nb.control("interrupt_request")
    nb.wait(cell, 60).assert_error("KeyboardInterrupt")
    assert nb.nobody_stands()
    again = nb.start(code)  # its breakpoints are there again
    nb.wait_stopped(2)
    nb.ask("disconnect")
    nb.wait_shown(again, "went on")
    nb.control("interrupt_request")
    nb.wait(again, 60).assert_error("KeyboardInterrupt")
    nb.ok("1 + 1")


def test_an_interrupt_at_a_breakpoint_leaves_a_subshells_cell(nb):
    nb.attach()
    sub = Subshell(nb)
    code = "def h(a):\n    b = a + 1\n    return b\nprint(h(3))"
    nb.breakpoints(code, 2)
    for _ in range(2):
        cell = nb.start(code)
        nb.wait_stopped()
        other = sub.start("3 + 3")
        nb.quiet(0.5)
        nb.control("interrupt_request")
        nb.wait(cell, 60).assert_error("KeyboardInterrupt")
        assert cell.stdout == "" and "b = a + 1" in cell.traceback
        assert nb.wait(other, 60).value == "6"


def test_an_interrupt_reaches_ranks_though_one_does_not_answer(nb):
    nb.attach()
    code = "%%distribute -n 2 --no-gpu\nimport os, time\nif os.environ['RANK'] == '1':\n    x = 1\nelse:\n    time.sleep(60)"
    nb.breakpoints(code, 4)
    pids = nb.rank_pids(2, "--no-gpu")
    cell = nb.start(code)
    nb.wait_stopped()
    os.kill(pids[1], 19)
    nb.control("interrupt_request")
    assert nb.wait(cell, 40).status == "error"  # rank 1 is killed after a while, as without a debugger


def test_a_rank_that_dies_is_a_thread_that_ends(nb):
    nb.attach()
    code = SLEEPS.format("")
    nb.breakpoints(code, 4)
    pids = nb.rank_pids(2, "--no-gpu")
    cell = nb.start(code)
    threads = nb.wait_stopped(2)
    names = nb.names()
    one = next(t for t in threads if names[t] == "rank 1")
    os.kill(pids[1], 9)
    assert wait_until(lambda: one not in nb.state()["stoppedThreads"], 60)
    ended = {"reason": "exited", "threadId": one}
    assert nb.until(lambda: any(ended.items() <= e["body"].items() for e in nb.events("thread")), 60)
    nb.ask("disconnect")
    nb.wait(cell, 60).assert_error("RankDied")
    nb.ok("%%distribute -n 2\n1")


def test_a_second_client_lets_all_go_on(nb):
    nb.attach()
    code = SLEEPS.format("")
    nb.breakpoints(code, 4)
    cell = nb.start(code)
    nb.wait_stopped(2)
    other = nb.second_client()
    try:
        assert nb.ask("initialize", INITIALIZE, client=other)["success"]
        nb.wait(cell).assert_ok()
    finally:
        other.close()


@pytest.mark.limit(300)
def test_sixty_four_ranks_on_one_breakpoint_stay_usable(sixty_four):
    nb = sixty_four
    nb.ok("%%distribute -n 64 --no-gpu\n1", limit=200)
    nb.attach()
    code = SLEEPS.replace("-n 2", "-n 64").format("")
    nb.breakpoints(code, 4)
    cell = nb.start(code)
    threads = nb.wait_stopped(64, 200)
    names = nb.names()
    assert {names[thread] for thread in threads} == {"rank %d" % rank for rank in range(64)}
    nb.wait_shown(cell, "ranks 0-63 at a breakpoint", 60)
    nb.ok("%ranks debug -r 63")
    last = nb.state()["stoppedThreads"][0]
    assert names[last] == "rank 63" and nb.locals(last)["x"] == "63"
    nb.fine_ask("next", {"threadId": last})
    assert wait_until(lambda: nb.frames(last)[0]["line"] == 5 and nb.locals(last)["y"] == "64", 60)
    nb.go_on(last)
    nb.wait_stopped(63)
    nb.fine_ask("disconnect")
    assert by_rank(nb.wait(cell, 200).assert_ok().stdout) == {rank: ["went on"] for rank in range(64)}
    nb.ok("%%distribute\n1")


def test_a_rank_that_does_not_answer_is_named(nb):
    nb.ok("%%distribute -n 2 --no-gpu\nimport os, signal")
    pids = nb.rank_pids(2)
    os.kill(pids[1], 19)
    try:
        nb.attach()
        assert wait_until(lambda: nb.turn(0.2) or "rank 1 does not answer the debugger" in str(nb.strays) + str(
            [m["content"] for c in nb.cells.values() for m in c.messages]), 60)
    finally:
        os.kill(pids[1], 18)


def test_a_debugger_that_is_busy_delays_one_cell_and_says_so(nb, tmp_path):
    nb.ok("import threading\ngate = threading.Event()\nclass Slow:\n    def __repr__(self):\n"
          f"        open({str(tmp_path / 'begun')!r}, 'w').close()\n        gate.wait()\n        return 'slow'\nslow = Slow()")
    nb.attach()
    nb.seq += 1
    asked = nb.send("debug_request", {"type": "request", "seq": nb.seq, "command": "richInspectVariables", "arguments": {"variableName": "slow"}}, "control")
    assert wait_until((tmp_path / "begun").exists, 60)
    late = "the debugger is busy; cells may not stop at breakpoints until it is done"
    assert late in nb.ok("1 + 1").stderr
    assert late not in nb.ok("2 + 2").stderr
    nb.ok("gate.set()")
    assert not nb.wait(asked).reply["success"]  # after 5 s the kernel has answered for home
    # until home's own answer comes, a moment after the gate is open, the kernel does not wait for it
    assert wait_until(lambda: nb.ask("richInspectVariables", {"variableName": "gate"}).get("success"), 60)
    code = "x = 1\ny = 2"
    nb.breakpoints(code, 2)
    cell = nb.start(code)
    nb.go_on(*nb.wait_stopped())
    nb.wait(cell).assert_ok()


def test_variables_while_nothing_stands(new):
    new.ok("text = 'hello'\nrows = [1, [2, 3]]")
    new.attach()
    rows = {row["name"]: row for row in new.fine_ask("inspectVariables")["variables"]}
    assert rows["text"]["value"] == "'hello'" and "get_ipython" not in rows
    inner = new.fine_ask("variables", {"variablesReference": rows["rows"]["variablesReference"]})["variables"]
    assert [row["value"] for row in inner if row["name"] in ("0", "1")] == ["1", "[2, 3]"]
    assert new.fine_ask("richInspectVariables", {"variableName": "text"})["data"] == {"text/plain": "'hello'"}


def test_without_debugpy_there_is_no_debugger(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['debugpy'] = None\n")
    nb = Debugged(env={"PYTHONPATH": str(tmp_path)})
    try:
        nb.ok("1")
        assert nb.ask("initialize", INITIALIZE) == {} and nb.ask("debugInfo") == {}
        assert "debugger" not in nb.request("kernel_info_request")["supported_features"]
    finally:
        nb.close()
