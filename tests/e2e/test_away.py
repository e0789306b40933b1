# SPDX-License-Identifier: BSD-3-Clause
"""Machines that are away for longer than the heartbeat's timeout: cells say so and wait, and nothing is lost.

Each test has a notebook of its own, with ranks 0 and 1 on h1 and 2 and 3 on h2.
"""

from __future__ import annotations

import os
import re
import signal
import time

import processes
import pytest
from client import all_print, values
from engines import HOST_TOOLS, Hosts, bring_up

UP = 120  # seconds for ranks to come up on two hosts
SOON = 120  # seconds; far off, to catch what hangs
AWAY = r"cellspan: h2 \(ranks 2-3\) has been silent for \d+ s; cellspan waits for it until \d\d:\d\d:\d\d \(CELLSPAN_RESUME\)\n"
BACK = r"cellspan: h2 \(ranks 2-3\) is back after (\d+) s\n"
BOTH = "%%distribute -n 4 --on ssh:h1,h2 --gather\nimport os, time\nrank = int(os.environ['RANK'])\nkept = rank * 2\nos.getpid()"


@pytest.fixture(scope="module")
def net():
    yield from bring_up(lambda: Hosts(2), HOST_TOOLS)


@pytest.fixture
def notebook(net, fresh):
    """Makes notebooks with four ranks on two hosts, which are shown as away after 8 s, and lost after `resume`."""
    made = []

    def make(resume="600"):
        nb = fresh(env=dict(net.variables(), CELLSPAN_HEARTBEAT_TIMEOUT="8", CELLSPAN_RESUME=resume))
        nb.pids = values(nb.ok(BOTH, limit=UP))
        made.append(nb)
        return nb

    yield make
    for host in net.names:
        net.link(host, True)
    for nb in made:
        nb.close()
        assert nb.left == []
    assert net.left() == []


@pytest.fixture
def nb(notebook):
    return notebook()


def goes_by(nb, cell, seconds):
    """So much time, in which what the cell shows is read."""
    over = time.monotonic() + seconds
    nb.wait(cell, seconds + SOON, lambda: time.monotonic() >= over)


def assert_all_there(nb):
    cell = nb.ok("%%distribute --gather\nkept, os.getpid()", limit=UP)
    assert values(cell) == [(2 * rank, pid) for rank, pid in enumerate(nb.pids)], cell.shown
    assert "lost" not in cell.stderr and "gone" not in cell.stderr, cell.shown


def test_in_a_cell_that_prints(nb, net):
    """How soon it is shown as away depends on how busy this machine is: time in which it could not listen does not count."""
    cell = nb.start("%%distribute --merge prefix\nfor k in range(250):\n    print('tick', k, flush=True)\n    time.sleep(0.1)\nkept")
    nb.wait_shown(cell, "[2] tick 3\n")
    net.link("h2", False)
    nb.wait(cell, SOON, lambda: re.search(AWAY, cell.stderr) and re.search(r"\baway\b", cell.shown))
    goes_by(nb, cell, 4)
    net.link("h2", True)
    nb.wait(cell, 3 * SOON).assert_ok()
    for rank in range(4):
        ticks = re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M)
        assert ticks == [str(k) for k in range(250)], (rank, len(ticks))
    assert len(re.findall(AWAY, cell.stderr)) == 1 and len(re.findall(BACK, cell.stderr)) == 1, cell.stderr
    assert int(re.search(BACK, cell.stderr)[1]) >= 8, cell.stderr
    assert cell.value == "0"
    assert_all_there(nb)


def test_nobody_has_to_ask_for_that(fresh, net):
    """With no setting at all, a machine is shown as away after 10 s, and waited for."""
    nb = fresh(env=net.variables())
    nb.pids = values(nb.ok(BOTH, limit=UP))
    cell = nb.start("%%distribute --merge prefix\nfor k in range(300):\n    print('tick', k, flush=True)\n    time.sleep(0.1)")
    nb.wait_shown(cell, "[2] tick 3\n")
    net.link("h2", False)
    try:
        nb.wait(cell, SOON, lambda: re.search(AWAY, cell.stderr))
        goes_by(nb, cell, 4)
    finally:
        net.link("h2", True)
    nb.wait(cell, SOON).assert_ok()
    assert re.search(BACK, cell.stderr) and re.findall(r"^\[3\] tick (\d+)$", cell.stdout, re.M) == [str(k) for k in range(300)], cell.shown
    assert_all_there(nb)
    nb.close()
    assert net.left() == []


def test_it_is_lost_after_the_wait(notebook, net):
    nb = notebook(resume="20")
    cell = nb.start("%%distribute --grace 1s\nprint('begun', flush=True)\ntime.sleep(600)")
    nb.wait_shown(cell, "begun")
    net.link("h2", False)
    nb.wait(cell, SOON).assert_error("RankDied")
    assert re.search(AWAY, cell.stderr), cell.shown
    assert re.search(r"rank 2 on h2 is gone: .*20 s", cell.shown), cell.shown
    net.link("h2", True)
    assert net.left("h2") == [], "its agent waits longer than the kernel"


def test_a_second_interrupt_gives_it_up(nb, net):
    cell = nb.start("%%distribute --grace 600s\nprint('begun', flush=True)\ntime.sleep(600)")
    nb.wait_shown(cell, "begun")
    net.link("h2", False)
    nb.wait(cell, SOON, lambda: re.search(AWAY, cell.stderr))
    nb.control("interrupt_request")
    nb.wait(cell, SOON, lambda: "h2 is away: the interrupt reaches its ranks when it is back; a second one gives it up" in cell.stderr)
    goes_by(nb, cell, 2)
    assert not cell.ended, cell.shown
    nb.control("interrupt_request")
    nb.wait(cell, SOON).assert_error("KeyboardInterrupt")
    assert values(nb.ok("%%distribute -n 2 --gather\nkept", limit=UP)) == [0, 2], "who was interrupted in time was killed"


def all_ssh(nb, host):
    """Its processes that lead there; none while the launcher waits for its next attempt."""
    words = {pid: processes.command(pid).split() for pid in processes.named(nb.marker, " %s " % host)}
    return [pid for pid, named in words.items() if named and os.path.basename(named[0]) == "ssh"]


def ssh_of(nb, host):
    (ssh,) = all_ssh(nb, host)
    return ssh


def looks(net, host):
    return {pid for pid, args in net.workers(host).items() if " --presence " in args}


def launcher_of(nb):
    (launcher,) = processes.named(nb.marker, "cellspan-launch-ssh")
    return launcher


def test_an_ssh_that_breaks_loses_nothing_and_an_agent_that_ends_later_is_missed_at_once(nb, net):
    cell = nb.start("%%distribute --grace 1s\nfor k in range(100):\n    print('tick', k, flush=True)\n    time.sleep(0.1)\nprint('begun', flush=True)\n"
                    "time.sleep(600)")
    nb.wait_shown(cell, "tick 3")
    for _ in range(2):  # the second one is that which looks
        before, first = looks(net, "h2"), ssh_of(nb, "h2")
        os.kill(first, signal.SIGKILL)
        assert processes.wait_until(lambda: looks(net, "h2") - before and len(all_ssh(nb, "h2")) == 1, SOON)
    nb.wait(cell, SOON, lambda: all_print(cell.stdout, "begun", 4))
    assert "away" not in cell.stderr and "tick 99" in cell.stdout, cell.shown
    assert net.signal("h2", "KILL", "cellspan-agent --connect")
    nb.wait(cell, SOON).assert_error("RankDied")
    assert "rank 2 on h2 is gone: the connection broke: ssh was killed by signal 9, and its agent is gone" in cell.shown, cell.shown
    assert "silent" not in cell.stderr, cell.shown
    assert net.left("h2") == []


def test_a_host_that_was_restarted_is_not_waited_for(nb, net):
    cell = nb.start("%%distribute --grace 1s\nprint('begun', flush=True)\ntime.sleep(600)")
    nb.wait_shown(cell, "begun")
    net.kill("h2")
    net.start("h2")
    nb.wait(cell, SOON).assert_error("RankDied")
    assert "and its agent is gone" in cell.shown, cell.shown


def test_the_end_of_the_notebook_ends_agents_whose_ssh_broke(nb, net):
    ssh = ssh_of(nb, "h2")
    os.kill(ssh, signal.SIGKILL)
    assert processes.wait_until(lambda: any(" --presence " in args for args in net.workers("h2").values()), SOON)
    os.kill(nb.pid, signal.SIGKILL)
    assert processes.gone(nb.marker) == []
    assert net.left() == []


def test_a_launcher_that_is_killed_takes_its_agents_along(nb, net):
    cell = nb.start("%%distribute --grace 1s\nprint('begun', flush=True)\ntime.sleep(600)")
    nb.wait_shown(cell, "begun")
    os.kill(launcher_of(nb), signal.SIGKILL)
    nb.wait(cell, SOON).assert_error("RankDied")
    assert "cellspan-launch-ssh was killed by signal 9" in cell.shown, cell.shown
    assert net.left() == []


def test_without_kernel_and_launcher_agents_end_after_their_time(notebook, net):
    nb = notebook(resume="20")
    launcher = launcher_of(nb)
    os.kill(launcher, signal.SIGSTOP)  # it can't tell them
    os.kill(nb.pid, signal.SIGKILL)
    os.kill(launcher, signal.SIGKILL)
    assert processes.gone(nb.marker) == []
    assert net.left() == []


def test_an_agent_that_is_killed_is_lost_at_once(nb, net):
    cell = nb.start("%%distribute --grace 1s\nprint('begun', flush=True)\ntime.sleep(600)")
    nb.wait_shown(cell, "begun")
    assert net.signal("h2", "KILL", "cellspan-agent")
    nb.wait(cell, SOON).assert_error("RankDied")
    assert "cellspan-agent was killed by signal 9" in cell.shown and "silent" not in cell.stderr, cell.shown


# -- for as long as a user may be away


def goes_directly(nb, net):
    """Does the next large value go from host to host?"""
    nb.ok("big = numpy.random.rand(1 << 18)\nshould = float(big[:9].sum())")
    before = net.sent("h1")
    assert values(nb.ok("%%distribute --gather\nfloat(big[:9].sum()) == should", limit=UP)) == [True] * 4
    return net.sent("h1") - before >= 2 << 20


@pytest.mark.limit(600)
def test_hosts_that_were_cut_off_from_one_another_send_directly_again(nb, net):
    """Large values go by way of the notebook while there is no other way, and no longer."""
    nb.ok("import numpy")
    assert goes_directly(nb, net)
    net.cut("h1", "h2")
    try:
        assert not goes_directly(nb, net)
    finally:
        net.heal("h1", "h2")
    assert processes.wait_until(lambda: goes_directly(nb, net), SOON), "they never do"


def stop_notebook(nb, seconds):
    """As a lid that is closed: all that runs on the notebook's side stands still, the way to the hosts included."""
    stopped = processes.marked(nb.marker)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.soak
@pytest.mark.limit(600)
@pytest.mark.parametrize("seconds", [5, 15, 60])
def test_a_cable_that_is_out_between_cells(notebook, net, seconds):
    nb = notebook(resume="120")
    net.link("h2", False)
    time.sleep(seconds)
    net.link("h2", True)
    assert_all_there(nb)
    nb.ok("%ranks stop")  # the kernel tells its agents. Its launcher could not yet: ssh's tcp sends again after as long as the cable was out
    assert net.left() == []


@pytest.mark.soak
@pytest.mark.limit(600)
@pytest.mark.parametrize("way, seconds", [("cable", 5), ("cable", 15), ("cable", 60), ("lid", 60)])
def test_for_so_long_in_a_cell_that_prints(notebook, net, way, seconds):
    nb = notebook(resume="120")
    cell = nb.start("%%distribute --merge prefix\nfor k in range(900):\n    print('tick', k, flush=True)\n    time.sleep(0.1)\nkept")
    nb.wait_shown(cell, "[2] tick 3\n")
    if way == "lid":
        stop_notebook(nb, seconds)
    else:
        net.link("h2", False)
        goes_by(nb, cell, seconds)
        net.link("h2", True)
    nb.wait(cell, 3 * SOON).assert_ok()
    for rank in range(4):
        assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(900)], rank
    assert_all_there(nb)


@pytest.mark.soak
@pytest.mark.limit(900)
@pytest.mark.parametrize("mib, rate, seconds", [(64, "40mbit", 30), (1024, "200mbit", 5), (1024, "200mbit", 15), (1024, "200mbit", 60)])
def test_a_cable_that_is_out_while_a_variable_goes_from_host_to_host(notebook, net, mib, rate, seconds):
    """For longer than hosts wait for one another. Without the cut it takes 13 and 43 s."""
    nb = notebook(resume="120")
    nb.ok("import numpy\nbig = numpy.arange(%d << 17, dtype=float)" % mib)
    net.rate("h1", rate)
    try:
        cell = nb.start("%%distribute --gather\nbig.nbytes, float(big[-1])")
        before = net.sent("h1")
        assert processes.wait_until(lambda: net.sent("h1") > before + (mib << 17), SOON), cell.shown
        net.link("h2", False)
        goes_by(nb, cell, seconds)
        net.link("h2", True)
        assert values(nb.wait(cell, 5 * SOON).assert_ok()) == [(mib << 20, (mib << 17) - 1.0)] * 4
    finally:
        net.rate("h1")
    assert_all_there(nb)
    nb.ok("%ranks stop")  # as above: the launcher can't tell them yet
    assert net.left() == []
