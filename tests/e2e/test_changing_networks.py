# SPDX-License-Identifier: BSD-3-Clause
"""Networks that change and forget: addresses that are others, connections that lead nowhere, boxes that cut what rests; two of these at once.

Each test has a notebook of its own, with ranks 0 and 1 on h1 and 2 and 3 on h2. No rank, no line and no variable is lost.
"""

from __future__ import annotations

import contextlib
import random
import re
import select
import socket
import struct
import subprocess
import threading
import time

import pytest
from client import values
from engines import HOST_TOOLS, Hosts, bring_up
from processes import wait_until
from test_away import BOTH, SOON, UP, assert_all_there, goes_by, net, notebook, stop_notebook  # noqa: F401  (fixtures among them)
from test_firewalls import free_ports
from test_resume import Work, connections

TICKS = 200
TICKING = "%%%%distribute --merge prefix\nfor k in range(%d):\n    print('tick', k, flush=True)\n    time.sleep(0.1)\nkept" % TICKS


@contextlib.contextmanager
def ticking(nb):
    """A cell that prints meanwhile. No line of it is missing, and its ranks are those of before."""
    cell = nb.start(TICKING)
    nb.wait_shown(cell, "[2] tick 3\n")
    yield cell
    nb.wait(cell, 3 * SOON).assert_ok()
    for rank in range(4):
        ticks = re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M)
        assert ticks == [str(k) for k in range(TICKS)], (rank, len(ticks))
    assert_all_there(nb)


# ---- connections that lead nowhere ----

class Forgetful:
    """A box on the way that forgets connections: what comes for them is dropped, and others get through."""

    def __init__(self, net):
        self.net, self.undo = net, []

    def forget(self, host):
        """Those of the kernel to that host's agent."""
        for here, there in connections(self.net, host):
            for chain, source, target in (("OUTPUT", there, here), ("INPUT", here, there)):
                words = [chain, "-p", "tcp", "--sport", source, "--dport", target, "-j", "DROP"]
                self.net.exec(host, "iptables", "-w", "-A", *words)
                self.undo.append((host, "iptables", "-w", "-D", *words))

    def close(self):
        while self.undo:
            self.net.exec(*self.undo.pop(), check=False)


@pytest.fixture
def box(net):  # noqa: F811
    made = Forgetful(net)
    yield made
    made.close()


def forget(net, box, hosts):  # noqa: F811
    """Waits until there are other connections; those before are closed at the kernel, too, and not only forgotten."""
    before = {host: connections(net, host) for host in hosts}
    for host in hosts:
        assert before[host], "there is no connection to %s" % host
        box.forget(host)
    for host in hosts:
        assert wait_until(lambda host=host: connections(net, host) and not set(before[host]) & set(connections(net, host)), SOON), host


def test_a_half_open_connection(notebook, net, box):  # noqa: F811
    nb = notebook()
    with ticking(nb):
        forget(net, box, ["h2"])
        forget(net, box, ["h1", "h2"])


def test_a_half_open_connection_between_cells(notebook, net, box):  # noqa: F811
    nb = notebook()
    forget(net, box, ["h1", "h2"])
    assert_all_there(nb)


# ---- addresses that change ----

class Addresses:
    """Other addresses for hosts, and for this side. What is sent to an address that nobody has, or from it, is lost."""

    def __init__(self, net):
        self.net, self.now, self.next = net, {}, 100

    def change(self, host, last=None):
        """The host gets that number as the last one of its address, or one that nobody had."""
        old = self.now.get(host, self.net.address(host))
        if last is None:
            self.next += 1
            last = self.next
        new = "%s.%s" % (self.net.network, last)
        for word, address in (("del", old), ("add", new)):
            words = ["ip", "addr", word, address + "/24", "dev"]
            if host == "h0":
                subprocess.run(words + [self.net.prefix + "-br"], check=True)
            else:
                self.net.exec(host, *words, "eth0")
        self.now[host] = new
        return new

    def restore(self):
        for host, now in self.now.items():
            was = self.net.address(host)
            if now != was:
                self.change(host, was.rsplit(".", 1)[1])


@pytest.fixture
def addresses(net):  # noqa: F811
    made = Addresses(net)
    yield made
    made.restore()


def comes_from(net, address):  # noqa: F811
    """Has the agent at that address a connection to the kernel?"""
    words = ["ss", "-Htn", "state", "established", "dst %s and not dport = :22" % address]
    return bool(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())


def test_the_address_of_a_host_changes(notebook, net, addresses):  # noqa: F811
    """Its agent comes from where it is. It is not reached by ssh any more, as the notebook knows no other address."""
    nb = notebook()
    with ticking(nb):
        for _ in range(3):
            address = addresses.change("h2")
            assert wait_until(lambda address=address: comes_from(net, address), SOON)
    addresses.restore()
    assert wait_until(lambda: comes_from(net, net.address("h2")), SOON)
    assert_all_there(nb)


def test_the_address_of_the_notebook_changes(notebook, net, addresses):  # noqa: F811
    """As for somebody who takes it to another network: agents know where it was. Each ssh is a new one, and leads them to it."""
    nb = notebook()
    with ticking(nb):
        addresses.change("h0")
    addresses.restore()
    assert_all_there(nb)
    nb.ok("%ranks stop")  # the kernel tells its agents. Its launcher could not yet: its ssh come from an address that is gone
    assert net.left() == []


@pytest.mark.soak
@pytest.mark.limit(900)
def test_an_address_that_changes_every_30_s(notebook, net, addresses):  # noqa: F811
    nb = notebook()
    work, over = Work(nb, int(time.time())), time.monotonic() + 300
    changes = 0
    while time.monotonic() < over:
        address, until = addresses.change("h2"), time.monotonic() + 30
        changes += 1
        assert wait_until(lambda address=address: comes_from(net, address), SOON)
        while time.monotonic() < until:
            work.step()
    print("%d changes, %d steps" % (changes, work.times))
    addresses.restore()  # else nobody reaches its agent at the end, which waits for as long as it may come back
    assert wait_until(lambda: comes_from(net, net.address("h2")), SOON)
    assert_all_there(nb)


# ---- boxes that cut what rests ----

class Proxy:
    """Passes bytes on to an address of this side or of a host, and resets connections on which nothing has passed for `idle` seconds."""

    def __init__(self, target, idle):
        self.target, self.idle = target, idle
        self.pairs, self.opened, self.cut = [], 0, 0
        self.listener = socket.create_server(("", 0))
        self.port = self.listener.getsockname()[1]
        self.over = False
        self.thread = threading.Thread(target=self.go_on)
        self.thread.start()

    def close(self):
        self.over = True
        self.thread.join()
        self.listener.close()
        for pair in list(self.pairs):
            self.end(pair)

    def end(self, pair):
        self.pairs.remove(pair)
        for one in pair[:2]:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()

    def take(self):
        here = self.listener.accept()[0]
        try:
            self.pairs.append([here, socket.create_connection(self.target, 10), time.monotonic()])
            self.opened += 1
        except OSError:
            here.close()

    def copy(self, pair, source, target):
        try:
            some = source.recv(1 << 16)
            if some:
                target.sendall(some)
        except OSError:
            some = b""
        pair[2] = time.monotonic()
        return some

    def go_on(self):
        while not self.over:
            ends = {one: (pair, pair[1 - k]) for pair in self.pairs for k, one in enumerate(pair[:2])}
            for ready in select.select([self.listener, *ends], [], [], 0.05)[0]:
                if ready is self.listener:
                    self.take()
                elif ends[ready][0] in self.pairs and not self.copy(ends[ready][0], ready, ends[ready][1]):
                    self.end(ends[ready][0])
            for pair in [pair for pair in self.pairs if time.monotonic() - pair[2] > self.idle]:
                self.end(pair)
                self.cut += 1


@contextlib.contextmanager
def proxy_to(*args):
    made = Proxy(*args)
    try:
        yield made
    finally:
        made.close()


def test_a_proxy_that_cuts_what_rests_too_soon(fresh, net):  # noqa: F811
    """Sooner than heartbeats come: each connection that rests is cut, and another takes its place."""
    port = free_ports(1)
    with proxy_to(("127.0.0.1", port), 1) as proxy:
        nb = fresh(env=dict(net.variables(), CELLSPAN_HEARTBEAT_TIMEOUT="20", CELLSPAN_RESUME="600", CELLSPAN_PORT=str(port),
                            CELLSPAN_ADVERTISE="%s:%d" % (net.address("h0"), proxy.port)))
        nb.pids = values(nb.ok(BOTH, limit=UP))
        for _ in range(3):
            before = proxy.cut
            assert wait_until(lambda before=before: proxy.cut > before + 1, SOON), "nothing was cut"
            assert_all_there(nb)
        with ticking(nb):
            pass
        nb.close()
    assert net.left() == []


@pytest.mark.soak
@pytest.mark.limit(900)
@pytest.mark.parametrize("way", ["direct", "ssh"])
def test_a_proxy_that_cuts_after_60_s(fresh, net, tmp_path, way):  # noqa: F811
    """Nothing of cellspan's rests for as long: neither a connection of an agent nor the ssh that has its relay."""
    port = free_ports(1)
    env = dict(net.variables(), CELLSPAN_PORT=str(port))
    with proxy_to((net.address("h2"), 22) if way == "ssh" else ("127.0.0.1", port), 60) as proxy:
        if way == "ssh":
            (tmp_path / "config").write_text("Host h2\n  HostName %s\n  Port %d\n  HostKeyAlias h2\nHost *\n  Include %s\n"
                                             % (net.address("h0"), proxy.port, net.ssh_config))
            env.update(CELLSPAN_SSH="ssh -F %s" % (tmp_path / "config"), CELLSPAN_ADVERTISE="h0:1")
        else:
            env["CELLSPAN_ADVERTISE"] = "%s:%d" % (net.address("h0"), proxy.port)
        nb = fresh(env=env)
        nb.pids = values(nb.ok(BOTH, limit=UP))
        time.sleep(200)
        assert proxy.opened and not proxy.cut
        assert_all_there(nb)
        nb.close()
    assert net.left() == []


# ---- two at once ----

def test_a_lid_and_a_cable(notebook, net):  # noqa: F811
    """The notebook's side stands still; meanwhile one host is cut off for as long, and the other one's connection is reset."""
    nb = notebook()
    with ticking(nb):
        net.link("h2", False)
        before = connections(net, "h1")
        stopped = threading.Thread(target=stop_notebook, args=(nb, 12))
        stopped.start()
        for _, there in before:
            subprocess.run(["ss", "-K", "-tn", "dst %s and dport = :%s" % (net.address("h1"), there)], capture_output=True, check=True)
        stopped.join()
        net.link("h2", True)


class Troubles:
    """Two of these at a time, of the two hosts."""

    def __init__(self, nb, net, box, addresses, seed):  # noqa: F811
        self.nb, self.net, self.box, self.addresses, self.random = nb, net, box, addresses, random.Random(seed)

    def forgets(self, host):
        self.box.forget(host)

    def pulls_the_cable(self, host):
        self.net.link(host, False)
        time.sleep(self.random.uniform(0, 12))
        self.net.link(host, True)

    def renumbers(self, host):
        self.addresses.change(host)
        time.sleep(self.random.uniform(0, 6))
        self.addresses.change(host, host[1:])
        del self.addresses.now[host]

    def shuts_the_lid(self, host):
        stop_notebook(self.nb, self.random.uniform(0, 12))

    def cuts_hosts_off_from_one_another(self, host):
        self.net.cut("h1", "h2")
        time.sleep(self.random.uniform(0, 6))
        self.net.heal("h1", "h2")

    def two(self):
        kinds = [self.forgets, self.pulls_the_cable, self.renumbers, self.shuts_the_lid, self.cuts_hosts_off_from_one_another]
        chosen = self.random.sample(kinds, 2)
        hosts = self.random.sample(self.net.names, 2)
        print(" and ".join("%s %s" % (kind.__name__, host) for kind, host in zip(chosen, hosts)))
        threads = [threading.Thread(target=kind, args=(host,)) for kind, host in zip(chosen, hosts)]
        for thread in threads:
            thread.start()
        return threads


def survive(nb, net, box, addresses, seed, rounds):  # noqa: F811
    print("seed %d" % seed)
    work, troubles = Work(nb, seed), Troubles(nb, net, box, addresses, seed)
    for _ in range(rounds):
        threads = troubles.two()
        work.step()
        for thread in threads:
            thread.join()
        box.close()
        assert_all_there(nb)


@pytest.mark.limit(600)
def test_two_at_once(notebook, net, box, addresses):  # noqa: F811
    survive(notebook(), net, box, addresses, 20261129, 4)


@pytest.mark.soak
@pytest.mark.limit(3600)
def test_two_at_once_again_and_again(notebook, net, box, addresses):  # noqa: F811
    survive(notebook(), net, box, addresses, int(time.time()), 40)


# ---- 1 GiB on its way ----

@pytest.mark.soak
@pytest.mark.limit(900)
@pytest.mark.parametrize("way", ["there", "back"])
def test_a_cable_that_is_out_for_60_s_with_1_gib_on_its_way(notebook, net, way):  # noqa: F811
    """Between home and a host; test_away.py has it between hosts. It is not sent anew from the start."""
    nb = notebook(resume="120")
    rate = net.rate_to if way == "there" else net.rate
    nb.ok("import numpy\nbig = numpy.arange(1 << 27, dtype=float)" if way == "there" else "1")
    nb.ok("%%distribute -r 2\nimport numpy\nmine = numpy.arange(1 << 27, dtype=float)")
    rate("h2", "200mbit")
    try:
        cell = nb.start("%%distribute -r 2\nfloat(big[-1])" if way == "there" else "%pull mine -r 2")
        goes_by(nb, cell, 15)
        assert not cell.ended, cell.shown
        net.link("h2", False)
        goes_by(nb, cell, 60)
        net.link("h2", True)
        nb.wait(cell, 5 * SOON).assert_ok()
    finally:
        rate("h2")
    assert nb.ok("%%distribute -r 2\nfloat(big[-1])" if way == "there" else "float(mine[-1])").value == "134217727.0"
    assert_all_there(nb)


# ---- a host by way of which others are reached ----

@pytest.fixture
def many():
    """With these there are two that the kernel reaches by way of others: h33 by way of h1, and h34 of h2."""
    yield from bring_up(lambda: Hosts(34), HOST_TOOLS)


def is_reached_directly(net, host):  # noqa: F811
    return bool(connections(net, host))


@pytest.mark.soak
@pytest.mark.limit(1800)
def test_a_host_by_way_of_which_others_are_reached_dies(many, fresh):
    """While a variable goes to the others, and while these print. They connect to the kernel themselves."""
    nb = fresh(env=many.variables())
    cell = nb.ok("%%%%distribute -n 34 --on ssh:%s --gather\nimport os, time\nos.getpid()" % ",".join(many.names), limit=900)
    pids = values(cell)[32:]
    assert wait_until(lambda: not is_reached_directly(many, "h33") and not is_reached_directly(many, "h34"), SOON)
    nb.ok("import numpy\nbig = numpy.arange(32 << 17, dtype=float)")
    many.rate_to("h33", "50mbit")
    cell = nb.start("%%distribute -r 32,33 --gather\nfloat(big[-1])")
    goes_by(nb, cell, 2)
    assert not cell.ended and many.signal("h1", "KILL", "cellspan-agent")
    assert values(nb.wait(cell, 3 * SOON).assert_ok()) == [(32 << 17) - 1.0] * 2
    many.rate_to("h33")
    cell = nb.start("%%%%distribute -r 32,33 --merge prefix\nfor k in range(%d):\n    print('tick', k, flush=True)\n    time.sleep(0.1)" % TICKS)
    nb.wait_shown(cell, "[33] tick 3\n")
    many.kill("h2")
    nb.wait(cell, 3 * SOON).assert_ok()
    for rank in (32, 33):
        assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(TICKS)], rank
    cell = nb.run("%%distribute -r 32,33 --gather\nos.getpid()", limit=3 * SOON)
    if cell.status != "ok":  # what h1 had was to start on h2
        assert "run the cell again" in cell.error["evalue"], cell.shown
        cell = nb.ok("%%distribute -r 32,33 --gather\nos.getpid()", limit=3 * SOON)
    assert values(cell) == pids
    assert is_reached_directly(many, "h33") and is_reached_directly(many, "h34")
    nb.close()
