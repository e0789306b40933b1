# SPDX-License-Identifier: BSD-3-Clause
"""Connections between kernel and agents that are reset: no rank, no line and no variable is lost."""

from __future__ import annotations

import random
import re
import subprocess
import threading
import time

import pytest
from client import values
from engines import HOST_TOOLS, Hosts, bring_up
from processes import wait_until

UP = 120  # seconds for ranks to come up on two hosts
SOON = 120  # seconds; far off, to catch what hangs
BOTH = "%%distribute -n 4 --on ssh:h1,h2 --gather\nimport os, time\nrank = int(os.environ['RANK'])\nkept = rank * 2\nos.getpid()"


@pytest.fixture(scope="module")
def net():
    yield from bring_up(lambda: Hosts(2), HOST_TOOLS)


@pytest.fixture
def nb(request, net, fresh):
    """Four ranks on two hosts; nobody is lost because the machine is busy. Parameter: CELLSPAN_RESUME."""
    made = fresh(env=dict(net.variables(), CELLSPAN_HEARTBEAT_TIMEOUT="60", CELLSPAN_RESUME=getattr(request, "param", "0")))
    made.pids = values(made.ok(BOTH, limit=UP))
    yield made
    made.close()
    assert made.left == [] and net.left() == []


def connections(net, host, ssh=False):
    """Those of the kernel to that host's agent, as (port here, port there), or of ssh."""
    words = ["ss", "-Htn", "state", "established", "dst %s and %s dport = :22" % (net.address(host), "" if ssh else "not")]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return [tuple(address.rsplit(":", 1)[1] for address in line.split()[2:4]) for line in lines]


def reset(net, host):
    """Ends the connection between kernel and agent in the midst; both sides see a reset. Waits for the next one."""
    before = connections(net, host)
    assert before, "there is no connection to %s" % host
    for _, there in before:
        subprocess.run(["ss", "-K", "-tn", "dst %s and dport = :%s" % (net.address(host), there)], capture_output=True, check=True)
    assert wait_until(lambda: connections(net, host) and not set(before) & set(connections(net, host)), SOON), "no new connection"


def assert_all_there(nb):
    cell = nb.ok("%%distribute --gather\nkept, os.getpid()", limit=UP)
    assert values(cell) == [(2 * rank, pid) for rank, pid in enumerate(nb.pids)], cell.shown
    assert "lost" not in cell.stderr and "gone" not in cell.stderr, cell.shown


def test_between_cells(nb, net):
    for _ in range(3):
        for host in net.names:
            reset(net, host)
        assert_all_there(nb)


def test_in_a_cell_that_prints(nb, net):
    cell = nb.start("%%distribute --merge prefix\nfor k in range(3000):\n    print('tick', k, flush=True)\n    time.sleep(0.002)\nkept")
    for k in range(6):
        nb.wait_shown(cell, "[2] tick %d\n" % (100 + 400 * k))
        reset(net, net.names[k % 2])
    nb.wait(cell, SOON).assert_ok()
    for rank in range(4):
        ticks = re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M)
        assert ticks == [str(k) for k in range(3000)], (rank, len(ticks))
    assert cell.value == "0"
    assert_all_there(nb)


@pytest.fixture
def slow(net):
    """Links on which 128 MiB take seconds."""
    for host in net.names:
        net.rate_to(host, "300mbit")
        net.rate(host, "300mbit")
    yield net
    for host in net.names:
        net.rate_to(host)
        net.rate(host)


def reset_in_turn(net, times):
    for _ in range(times):
        for host in net.names:
            time.sleep(0.5)
            reset(net, host)


def test_while_variables_are_sent(nb, slow):
    nb.ok("import numpy\nbig = numpy.arange(16 << 20)")
    cell = nb.start("%%distribute --gather\nint(big.sum()), kept")
    reset_in_turn(slow, 2)
    nb.wait(cell, SOON).assert_ok()
    total = (16 << 20) * ((16 << 20) - 1) // 2
    assert values(cell) == [(total, 2 * rank) for rank in range(4)]
    assert_all_there(nb)


def test_while_results_come_back(nb, slow):
    nb.ok("%%distribute\nimport numpy\nmine = numpy.arange(8 << 20) + rank")
    cell = nb.start("%pull mine -r all")
    reset_in_turn(slow, 2)
    nb.wait(cell, SOON).assert_ok()
    total = (8 << 20) * ((8 << 20) - 1) // 2
    assert nb.ok("[int(m.sum()) for m in mine]").value == str([total + rank * (8 << 20) for rank in range(4)])
    assert_all_there(nb)


def test_an_interrupt_after_a_reset(nb, net):
    cell = nb.start("%%distribute\nprint('begun', flush=True)\ntime.sleep(600)")
    nb.wait_shown(cell, "begun")
    for host in net.names:
        reset(net, host)
    nb.control("interrupt_request")
    nb.wait(cell, SOON).assert_error("KeyboardInterrupt")
    assert_all_there(nb)


def test_the_shortest_cable_pull_that_the_agent_notices(net, fresh):
    """After half the timeout of silence the agent dials anew; the link is back before the timeout is over."""
    nb = fresh(env=dict(net.variables(), CELLSPAN_HEARTBEAT_TIMEOUT="20", CELLSPAN_RESUME="0"))
    nb.pids = values(nb.ok(BOTH, limit=UP))
    before = connections(net, "h2")
    net.link("h2", False)
    time.sleep(12)
    net.link("h2", True)
    assert wait_until(lambda: connections(net, "h2") and connections(net, "h2") != before, SOON)
    assert_all_there(nb)
    nb.close()
    assert nb.left == [] and net.left() == []


# ---- at any moment ----

def reset_ssh(net, host):
    """Waits until there is another: the launcher logs in anew, to look."""
    before = connections(net, host, ssh=True)
    subprocess.run(["ss", "-K", "-tn", "dst %s and dport = :22" % net.address(host)], capture_output=True, check=True)
    assert wait_until(lambda: set(connections(net, host, ssh=True)) - set(before), SOON), "no new ssh"


class Cuts:
    """Resets connections at random moments, in a thread: the kernel's to a host, those between hosts or, if `ssh`, those of ssh."""

    def __init__(self, net, seed, pause, ssh):
        self.net, self.random, self.pause, self.ssh = net, random.Random(seed), pause, ssh
        self.done, self.failed, self.over = 0, None, threading.Event()
        self.thread = threading.Thread(target=self.go_on)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def go_on(self):
        try:
            while not self.over.wait(self.random.uniform(0, self.pause)):
                host = self.random.choice(self.net.names)
                if self.ssh and self.random.random() < 0.25:
                    reset_ssh(self.net, host)
                elif self.random.random() < 0.25:
                    self.net.exec(host, "ss", "-K", "-tn", "dst %s.0/24 and not sport = :22 and not dport = :22" % self.net.network)
                else:
                    reset(self.net, host)
                self.done += 1
        except Exception as failed:
            self.failed = failed


class Work:
    """Cells that print, send, fetch and change variables, and what each of them must have shown."""

    def __init__(self, nb, seed):
        self.nb, self.random, self.times = nb, random.Random(seed), 0
        nb.ok("import numpy")
        nb.ok("%%distribute\nimport numpy\ntimes = 0", limit=SOON)

    def step(self):
        self.random.choice([self.prints, self.sends, self.fetches])()
        self.times += 1
        cell = self.nb.ok("%%distribute --gather\ntimes += 1\ntimes, kept, os.getpid()", limit=SOON)
        assert values(cell) == [(self.times, 2 * rank, pid) for rank, pid in enumerate(self.nb.pids)], cell.shown

    def prints(self):
        n = self.random.randrange(50, 2000)
        cell = self.nb.ok("%%%%distribute --merge prefix\nfor k in range(%d):\n    print('tick', k, flush=True)\n    time.sleep(0.001)" % n, limit=SOON)
        for rank in range(4):
            assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(n)], (rank, n)

    def sends(self):
        n, first = self.random.randrange(1, 4 << 20), self.random.randrange(1000)
        self.nb.ok("big = numpy.arange(%d) + %d" % (n, first))
        cell = self.nb.ok("%%distribute --gather\nint(big.sum())", limit=SOON)
        assert values(cell) == [n * (n - 1) // 2 + n * first] * 4, cell.shown

    def fetches(self):
        n = self.random.randrange(1, 1 << 20)
        self.nb.ok("%%%%distribute\nmine = numpy.arange(%d) + rank" % n, limit=SOON)
        self.nb.ok("%pull mine -r all", limit=SOON)
        assert self.nb.ok("[int(m.sum()) for m in mine]").value == str([n * (n - 1) // 2 + n * rank for rank in range(4)])


def survive(nb, net, seed, cuts, pause, ssh=False):
    """Works until so many connections were cut."""
    print("seed %d" % seed)
    work = Work(nb, seed)
    with Cuts(net, seed, pause, ssh) as cut:
        while cut.done < cuts and not cut.failed:
            work.step()
    assert not cut.failed, cut.failed
    assert_all_there(nb)
    print("%d cuts, %d steps" % (cut.done, work.times))


def test_at_any_moment(nb, net):
    survive(nb, net, 20261128, 10, 2)


@pytest.mark.soak
@pytest.mark.limit(3600)
@pytest.mark.parametrize("nb, ssh", [("0", False), ("600", True)], indirect=["nb"])
def test_a_hundred_times_in_ten_minutes(nb, net, ssh):
    """With CELLSPAN_RESUME=0 an ssh that breaks is the end of its host; else each connection is one of them."""
    survive(nb, net, int(time.time()), 100, 12, ssh)
