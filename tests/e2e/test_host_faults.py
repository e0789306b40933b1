# SPDX-License-Identifier: BSD-3-Clause
"""Hosts and networks that fail: what the user reads, that no process is left anywhere, and that the next cell works.

Each test has a notebook of its own, with ranks 0 and 1 on h1 and 2 and 3 on h2, unless it says otherwise.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import threading

import processes
import pytest
from client import values
from engines import HOST_TOOLS, Hosts, bring_up
from processes import wait_until

TIMEOUT = 8  # CELLSPAN_HEARTBEAT_TIMEOUT, seconds: who stands still for longer is lost, as nobody waits for it (CELLSPAN_RESUME=0);
# on a busy machine some do for seconds
PATIENT = 60  # the same where nobody is to be lost
SOON = 120  # seconds; far off, to catch what hangs
UP = 120  # seconds for ranks to come up on two hosts; as far off
AGENT = "cellspan-agent"
BOTH = "%%distribute -n 4 --on ssh:h1,h2\nimport os, sys, time\nrank = int(os.environ['RANK'])\nkept = rank * 2"
TICKS = ("%%%%distribute --merge prefix\nfor k in range(%d):\n    print('tick', k, flush=True)\n    time.sleep(0.1)\n"
         "print('done', flush=True)\nkept")


@pytest.fixture(scope="module")
def lan():
    """Two hosts for all tests; each leaves them as they were."""
    yield from bring_up(lambda: Hosts(2), HOST_TOOLS)


@pytest.fixture
def net(lan):
    yield lan
    for host in lan.names:
        lan.start(host)
        lan.signal(host, "CONT")
        lan.link(host, True)
        lan.heal(host, "h0")
        lan.net(host)
    assert lan.left() == [], "left over on the hosts"


@pytest.fixture
def notebook(net, fresh):
    """Makes notebooks that reach the hosts, with a short timeout; they are closed, and then nobody may be left there.

    ssh itself would give a silent host up after 15 s: which of the two comes first is not to be chance."""
    def make(timeout=TIMEOUT, **env):
        ssh = {"CELLSPAN_SSH": net.variables()["CELLSPAN_SSH"] + " -o ServerAliveCountMax=100"}
        return fresh(env=dict(ssh, CELLSPAN_HEARTBEAT_TIMEOUT=str(timeout), CELLSPAN_RESUME="0", **env))

    return make


@pytest.fixture
def nb(net, notebook):
    """One with its ranks up."""
    made = notebook()
    made.ok(BOTH, limit=UP)
    yield made
    for host in net.names:  # so that the end does not wait for what the test broke
        net.start(host)
        net.signal(host, "CONT")
        net.link(host, True)
        net.net(host)
    made.close()
    assert made.left == []


@pytest.fixture
def elsewhere(tmp_path):
    """Agents of another prefix, with variables of their own, which an ssh login would not pass on."""
    libexec = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(shutil.which("cellspan"))), "..", "libexec", "cellspan"))
    folder = tmp_path / "elsewhere" / "libexec" / "cellspan"
    folder.mkdir(parents=True)

    def make(**env):
        lines = ["#!/bin/sh"] + ["export %s='%s'" % pair for pair in env.items()] + ["exec '%s/%s' \"$@\"" % (libexec, AGENT)]
        (folder / AGENT).write_text("\n".join(lines) + "\n")
        (folder / AGENT).chmod(0o755)
        return {"CELLSPAN_REMOTE_PREFIX": str(tmp_path / "elsewhere")}

    return make


def begin(nb, code="time.sleep(600)", options="--grace 60s"):
    """A cell that all four ranks have begun. Nobody is killed because the machine is busy."""
    cell = nb.start("%%%%distribute %s\nprint('begun', rank, flush=True)\n%s" % (options, code))
    nb.wait(cell, SOON, lambda: all("begun %d" % rank in cell.stdout for rank in range(4)))
    return cell


def assert_lost(nb, cell, host, ranks):
    """The cell ends soon with the ranks dead, and host and reason named."""
    nb.wait(cell, SOON).assert_error("RankDied")
    said = cell.traceback + cell.error["evalue"]
    assert host in said and re.search(r"ranks? %s" % ranks, said), cell.shown
    return said


def assert_goes_on(nb, kept, limit=UP):
    """The next cell runs on four ranks, of which these kept their variables."""
    cell = nb.ok("%%distribute --gather\n'kept' in globals()", limit=limit)
    assert [rank for rank, there in enumerate(values(cell)) if there] == kept, cell.shown
    if len(kept) < 4:
        assert "are gone" in cell.stderr, cell.shown
    return cell


# -- links


def test_a_link_that_is_down_for_3_s_loses_nothing(notebook, net):
    nb = notebook(timeout=PATIENT)
    nb.ok(BOTH, limit=UP)
    cell = nb.start(TICKS % 50)
    nb.wait_shown(cell, "[2] tick 3")
    net.link("h2", False)
    third = len(re.findall(r"^\[0\] tick", cell.stdout, re.M)) + 30  # rank 0's ticks are the clock: 3 s
    nb.wait(cell, SOON, lambda: "[0] tick %d\n" % min(third, 49) in cell.stdout)
    net.link("h2", True)
    nb.wait(cell, SOON).assert_ok()
    for rank in range(4):
        assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(50)], cell.shown[-2000:]
    assert "lost" not in cell.stderr and cell.value == "0"
    assert_goes_on(nb, [0, 1, 2, 3])
    nb.close()


@pytest.mark.limit(400)
def test_ssh_waits_as_long_as_the_timeout_says(net, fresh):
    """With its own options ssh would give a host up after 15 to 20 s of silence, whatever the timeout is."""
    nb = fresh(env=dict(net.variables(), CELLSPAN_HEARTBEAT_TIMEOUT="90", CELLSPAN_RESUME="0"))
    nb.ok(BOTH, limit=UP)
    cell = nb.start(TICKS % 400)
    nb.wait_shown(cell, "[2] tick 3")
    net.link("h2", False)
    third = len(re.findall(r"^\[0\] tick", cell.stdout, re.M)) + 240  # rank 0's ticks are the clock: 24 s
    nb.wait(cell, 200, lambda: "[0] tick %d\n" % third in cell.stdout or cell.ended)
    net.link("h2", True)
    nb.wait(cell, 200).assert_ok()
    assert "lost" not in cell.stderr and "tick 399" in cell.stdout
    assert_goes_on(nb, [0, 1, 2, 3])


def test_a_link_that_stays_down_takes_the_hosts_ranks_along(nb, net):
    cell = begin(nb)
    net.link("h2", False)
    said = assert_lost(nb, cell, "h2", "2")
    assert "nothing was heard from it" in said and "for %d s" % TIMEOUT in said, said
    assert net.left("h2") == [], "its agent did not notice"
    again = assert_goes_on(nb, [0, 1])
    assert re.search(r"h2 is lost: ranks 2-3 start on h1", again.stderr), again.stderr


def test_a_link_that_breaks_while_no_cell_runs(nb, net):
    net.link("h2", False)
    assert wait_until(lambda: re.search("lost|dead|gone", nb.ok("%ranks").shown), SOON)
    assert net.left("h2") == []
    assert_goes_on(nb, [0, 1])


def test_collectives_end_when_a_host_is_lost(nb, net, torch):
    nb.ok("%%distribute --init gloo\nimport torch, torch.distributed as dist\nt = torch.ones(1)\ndist.all_reduce(t)", limit=UP)
    cell = begin(nb, "if rank == 3:\n    time.sleep(600)\ndist.all_reduce(t)", options="")
    net.link("h2", False)
    assert_lost(nb, cell, "h2", "2")
    assert values(nb.ok("%%distribute -n 2 --gather\nkept")) == [0, 2], "who waited for the lost ones was killed: " + cell.shown
    again = nb.ok("%%distribute -n 4 --init gloo --gather\nimport torch, torch.distributed as dist\nt = torch.ones(1)\ndist.all_reduce(t)\nint(t)", limit=UP)
    assert values(again) == [4, 4, 4, 4]


def log_in(nb, tries):
    """Starts ranks on both hosts over a bad link. What ssh's tcp loses again and again it sends after twice as long each time,
    so one login in ten takes minutes: the cell says so, and is run again, as a person would."""
    for _ in range(tries - 1):
        cell = nb.run(BOTH, limit=300)
        if cell.status == "ok":
            return
        cell.assert_error("RankNotStarted")
        assert "h2 did not come up: no shell answered within 60 s" in cell.shown, cell.shown
    nb.ok(BOTH, limit=300)


@pytest.mark.limit(600)
@pytest.mark.parametrize("delay, loss", [(0, 30), (200, 0)])
def test_a_bad_link_is_slow_and_nothing_else(notebook, net, elsewhere, delay, loss):
    """With 30 % of all packets lost each way every second answer is lost, so logins and handshakes may take their time."""
    nb = notebook(timeout=PATIENT, CELLSPAN_SSH="ssh -F %s -o ConnectTimeout=100 -o ServerAliveCountMax=100" % net.ssh_config,
                  CELLSPAN_SSH_TIMEOUT="60", CELLSPAN_START_TIMEOUT="290", **elsewhere(CELLSPAN_DIAL_TIMEOUT=100))
    net.net("h2", delay, loss)
    log_in(nb, tries=5 if loss else 1)
    nb.ok("import numpy\nbig = numpy.arange(100_000.0)")
    assert values(nb.ok("%%distribute --gather\nfloat(big[rank]), kept", limit=UP)) == [(float(r), 2 * r) for r in range(4)]
    cell = nb.ok(TICKS % 10, limit=UP)
    for rank in range(4):
        assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(10)], cell.shown
    net.net("h2")
    assert_goes_on(nb, [0, 1, 2, 3])
    nb.close()


def test_a_link_that_turns_bad_while_a_cell_runs(notebook, net):
    nb = notebook(timeout=PATIENT)
    nb.ok(BOTH, limit=UP)
    cell = nb.start(TICKS % 40)
    nb.wait_shown(cell, "[2] tick 3")
    net.net("h2", 200, 20)
    nb.wait(cell, SOON).assert_ok()
    for rank in range(4):
        assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(40)], cell.shown[-2000:]
    net.net("h2")
    assert_goes_on(nb, [0, 1, 2, 3])
    nb.close()


def test_a_slow_link_is_not_taken_for_a_lost_one(nb, net):
    """What is on its way takes longer than the timeout, both ways, and so does each message of it; beats wait behind it."""
    nb.ok("import numpy\nbig = numpy.random.rand(200_000)")  # 17 s, in pieces of 11 s
    net.rate("h2", "750kbit")
    net.rate_to("h2", "750kbit")
    try:
        assert nb.ok("%%distribute -r 3\nfloat(big.sum())").value == nb.ok("float(big.sum())").value
        nb.ok("%pull big -r 3 --into back")
        assert nb.ok("bool((back == big).all())").value == "True"
        cell = nb.ok("%%distribute -r 2 --merge raw\nfor k in range(10_000):\n    print('x' * 100, k)")
        assert "x 9999\n" in cell.stdout
    finally:
        net.rate("h2")
        net.rate_to("h2")
    assert_goes_on(nb, [0, 1, 2, 3])


# -- agents and hosts


def test_an_agent_that_is_killed(nb, net):
    cell = begin(nb)
    assert net.signal("h2", "KILL", AGENT)
    assert_lost(nb, cell, "h2", "2")
    assert net.left("h2") == []
    assert_goes_on(nb, [0, 1])


def test_an_ssh_that_is_killed(nb, net):
    cell = begin(nb)
    (ssh,) = [pid for pid in processes.named(nb.marker, " h2 ") if os.path.basename(processes.command(pid).split()[0]) == "ssh"]
    os.kill(ssh, signal.SIGKILL)
    assert_lost(nb, cell, "h2", "2")
    assert net.left("h2") == []
    assert_goes_on(nb, [0, 1])


def test_a_host_that_is_frozen_for_less_than_the_timeout_goes_on(notebook, net):
    nb = notebook(timeout=PATIENT)
    nb.ok(BOTH, limit=UP)
    cell = nb.start(TICKS % 40)
    nb.wait_shown(cell, "[2] tick 3")
    assert net.signal("h2", "STOP")
    seen = len(re.findall(r"^\[0\] tick", cell.stdout, re.M))
    nb.wait(cell, SOON, lambda: "[0] tick %d\n" % min(seen + 20, 39) in cell.stdout)
    net.signal("h2", "CONT")
    nb.wait(cell, SOON).assert_ok()
    assert "[3] done" in cell.stdout
    assert_goes_on(nb, [0, 1, 2, 3])
    nb.close()


def test_a_host_that_is_frozen_for_longer_is_lost_and_ends_by_itself_when_it_thaws(nb, net):
    cell = begin(nb)
    assert net.signal("h2", "STOP")
    assert_lost(nb, cell, "h2", "2")
    assert_goes_on(nb, [0, 1])
    assert net.workers("h2")
    net.signal("h2", "CONT")
    assert net.left("h2") == [], "who was given up did not end"
    assert values(nb.ok("%%distribute --gather\n'kept' in globals()")) == [True, True, False, False]


def test_a_host_that_is_switched_off_and_on_again(nb, net):
    cell = begin(nb)
    net.kill("h2")
    assert_lost(nb, cell, "h2", "2")
    assert_goes_on(nb, [0, 1])
    net.start("h2")
    there = nb.ok("%%distribute -n 4 --on ssh:h1,h2 --fresh --gather\nimport os\nos.uname().nodename", limit=UP)
    assert values(there) == ["h1", "h1", "h2", "h2"]


def test_an_agent_that_is_frozen_alone(nb, net):
    cell = begin(nb)
    assert net.signal("h2", "STOP", AGENT)
    assert_lost(nb, cell, "h2", "2")
    net.signal("h2", "CONT", AGENT)
    assert net.left("h2") == []
    assert_goes_on(nb, [0, 1])


def test_rank_0s_host_is_lost_while_it_asks(nb, net):
    cell = nb.start("%%distribute --grace 60s\nif rank == 0:\n    input('who? ')\ntime.sleep(600)", answer=lambda prompt: None)
    nb.wait(cell, SOON, lambda: cell.prompts)
    net.kill("h1")
    assert_lost(nb, cell, "h1", "0")
    there = nb.ok("%%distribute --gather\nimport os\nos.uname().nodename, 'kept' in globals()", limit=UP)
    assert values(there) == [("h2", False), ("h2", False), ("h2", True), ("h2", True)]


def test_a_host_that_is_lost_while_a_big_variable_travels(nb, net):
    nb.ok("import numpy\nbig = numpy.ones(10_000_000)")
    net.rate_to("h2", "10mbit")  # 64 s for all of it
    cell = nb.start("%%distribute\nprint('summing', flush=True)\nbig.sum()")
    nb.wait_shown(cell, "summing", SOON)  # on h1
    net.kill("h2")
    net.rate_to("h2")
    assert_lost(nb, cell, "h2", "2")
    assert values(nb.ok("%%distribute --gather\nfloat(big.sum())", limit=UP)) == [10_000_000.0] * 4


def test_a_host_that_is_lost_while_it_starts(notebook, net, tmp_path, monkeypatch):
    slow, go = tmp_path / "python3", tmp_path / "go"  # ranks come up when the test says so
    slow.write_text("#!/bin/sh\nwhile [ ! -e %s ]; do sleep .1; done\nexec %s \"$@\"\n" % (go, sys.executable))
    slow.chmod(0o755)
    monkeypatch.setenv("CELLSPAN_REMOTE_PYTHON", str(slow))
    nb = notebook()
    cell = nb.start("%%distribute -n 4 --on ssh:h1,h2\n1")

    def begun():
        return any(str(slow) in args for args in net.workers("h2").values())

    # Its agent was told to begin, so that it is the kernel that misses it. On a busy machine a host may stand still until it is lost.
    while nb.until(lambda: begun() or cell.ended, SOON) and cell.ended:
        cell = nb.start("%%distribute -n 4 --on ssh:h1,h2\n1")
    assert begun()
    net.kill("h2")
    go.touch()
    nb.wait(cell, SOON).assert_error("RankNotStarted")
    assert "h2" in cell.error["evalue"] and "pid 0" not in cell.shown, cell.shown
    net.start("h2")
    assert nb.ok("%%distribute -n 4 --on ssh:h1,h2 --fresh\n1", limit=UP).value == "1"


def test_all_hosts_switched_off_at_once(nb, net):
    cell = begin(nb)
    net.kill("h1")
    net.kill("h2")
    nb.wait(cell, SOON).assert_error("RankDied")
    net.start("h1")
    net.start("h2")
    assert_goes_on(nb, [])


# -- the user does not wait


def test_an_interrupt_while_a_host_does_not_answer(notebook, net):
    net.cut("h2", "h0")  # with its cable out there were no route to it after 3 s, which may come first
    nb = notebook(CELLSPAN_SSH="ssh -F %s -o ConnectTimeout=200" % net.ssh_config, CELLSPAN_SSH_TIMEOUT="200")
    cell = nb.start("%%distribute -n 4 --on ssh:h1,h2\n1")
    assert wait_until(lambda: any(AGENT in args for args in net.workers("h1").values()), SOON)
    nb.control("interrupt_request")
    nb.wait(cell, SOON).assert_error("KeyboardInterrupt")
    assert net.left("h1") == []
    net.heal("h2", "h0")
    assert nb.ok("%%distribute -n 4 --on ssh:h1,h2\n1", limit=UP).value == "1"


def test_an_interrupt_while_a_variable_is_on_its_way_over_a_slow_link(nb, net):
    """The status says how far it is. The interrupt is not behind all that could be on the way, and the next cell not behind the rest."""
    nb.ok("vast = bytes(32 << 20)")
    net.rate_to("h2", "4mbit")  # 64 s
    try:
        cell = nb.start("%%distribute -r 2-3\nlen(vast)")
        nb.wait(cell, SOON, lambda: re.search(r"receiving \d+ % of 32 MiB", cell.shown))
        assert re.search(r"sending data \([\d.]+ ((K|M)?i?B )?of 32 MiB, \d+:\d\d\)", cell.shown), cell.shown
        nb.control("interrupt_request")
        nb.wait(cell, SOON).assert_error("KeyboardInterrupt")
        assert "had not begun to run" in cell.shown
        assert int(re.findall(r"receiving (\d+) %", cell.shown)[-1]) < 25, cell.shown
        assert "receiving" not in nb.ok("%%distribute -r 2-3\nimport time; time.sleep(3)", limit=SOON).shown
    finally:
        net.rate_to("h2")
    assert nb.ok("%%distribute -r 2\nlen(vast)", limit=SOON).value == str(32 << 20)
    assert_goes_on(nb, [0, 1, 2, 3])


def test_an_interrupt_while_a_value_is_on_its_way_home_over_a_slow_link(nb, net):
    nb.ok("%%distribute -r 2\nvast = bytes(16 << 20)")
    net.rate("h2", "8mbit")  # 16 s
    try:
        cell = nb.start("%pull vast -r 2 --into back")
        before = net.sent("h2")
        assert wait_until(lambda: net.sent("h2") > before + (3 << 20), SOON)
        nb.control("interrupt_request")
        assert "on its way home" in nb.wait(cell, SOON).assert_error("KeyboardInterrupt").shown
        assert nb.ok("'back' in globals()", limit=SOON).value == "False", "it was waited for"
    finally:
        net.rate("h2")
    nb.ok("%pull vast -r 2 --into back", limit=SOON)
    assert nb.ok("len(back)").value == str(16 << 20)
    assert_goes_on(nb, [0, 1, 2, 3])


def test_an_interrupt_while_a_link_is_down(nb, net):
    cell = begin(nb)
    net.link("h2", False)
    nb.control("interrupt_request")
    nb.wait(cell, SOON).assert_error("KeyboardInterrupt")
    assert "ranks 2-3 are dead" in cell.shown or "ranks 2-3" in cell.traceback, cell.shown
    assert_goes_on(nb, [0, 1])


def test_the_end_of_a_notebook_whose_link_is_down(nb, net):
    net.link("h2", False)
    nb.close()
    assert nb.left == [] and net.left() == []


def test_two_notebooks_and_a_restart_on_the_same_hosts(nb, notebook, net):
    other = notebook()
    other.ok(BOTH, limit=UP)
    os.kill(other.pid, signal.SIGKILL)
    assert processes.gone(other.marker) == []
    assert_goes_on(nb, [0, 1, 2, 3])
    nb.km.shutdown_wait_time = SOON
    nb.km.restart_kernel(now=False)
    nb.ready()
    assert net.left() == []
    assert nb.ok(BOTH + "\n7", limit=UP).value == "7"


# -- the kernel and its launcher


def test_a_kernel_that_is_killed_leaves_nobody(nb, net):
    begin(nb, "import subprocess\nsubprocess.Popen(['sleep', '1000'])\ntime.sleep(600)")
    os.kill(nb.pid, signal.SIGKILL)
    assert processes.gone(nb.marker) == []
    assert net.left() == []


def test_a_kernel_that_is_frozen_for_a_moment_goes_on(notebook, net):
    nb = notebook(timeout=PATIENT)
    nb.ok(BOTH, limit=UP)
    cell = nb.start(TICKS % 40)
    nb.wait_shown(cell, "[2] tick 3")
    os.kill(nb.pid, signal.SIGSTOP)
    thaw = threading.Timer(2, os.kill, (nb.pid, signal.SIGCONT))
    thaw.start()
    nb.wait(cell, SOON).assert_ok()
    thaw.join()
    for rank in range(4):
        assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(40)], cell.shown[-2000:]
    assert_goes_on(nb, [0, 1, 2, 3])
    nb.close()


def test_a_kernel_that_is_frozen_for_longer_than_the_timeout_finds_its_ranks_dead(nb, net):
    cell = begin(nb)
    os.kill(nb.pid, signal.SIGSTOP)
    try:
        assert net.left() == [], "agents did not notice"
    finally:
        os.kill(nb.pid, signal.SIGCONT)
    nb.wait(cell, SOON).assert_error("RankDied")
    assert_goes_on(nb, [])


def test_a_launcher_that_is_killed(nb, net):
    cell = begin(nb)
    (launcher,) = processes.named(nb.marker, "cellspan-launch-ssh")
    os.kill(launcher, signal.SIGKILL)
    nb.wait(cell, SOON).assert_error("RankDied")
    assert net.left() == []
    assert wait_until(lambda: not processes.named(nb.marker, " -oBatchMode=yes "), SOON), "an ssh outlives its launcher"
    assert_goes_on(nb, [])
