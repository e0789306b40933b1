# SPDX-License-Identifier: BSD-3-Clause
"""Networks that let little through: CELLSPAN_PORT behind a firewall, CELLSPAN_ADVERTISE behind NAT. With real hosts."""

from __future__ import annotations

import contextlib
import os
import random
import re
import socket

import processes
import pytest
from client import values
from engines import HOST_TOOLS, Hosts, bring_up

ELSEWHERE = "198.51.100.7"  # an address that nobody has
MANY = 20  # ports of a range


@pytest.fixture(scope="module")
def lan():
    yield from bring_up(lambda: Hosts(3), HOST_TOOLS)


@pytest.fixture
def net(lan):
    yield lan
    assert lan.left() == [], "left over on the hosts"


@pytest.fixture
def rule(net):
    """Puts a rule into a host's packet filter for the test."""
    undo = []

    def add(host, chain, *words, table="filter"):
        net.exec(host, "iptables", "-w", "-t", table, "-A", chain, *words)
        undo.append((host, "iptables", "-w", "-t", table, "-D", chain, *words))

    yield add
    for host, *words in reversed(undo):
        net.exec(host, *words, check=False)


@pytest.fixture
def notebook(fresh, net):
    return lambda **env: fresh(env=dict(net.variables(), **env))


def free_ports(n):
    """The first of n ports that are free on this machine, below those that Linux gives to connections and above those of ranks."""
    for _ in range(100):
        first = random.randrange(30000, 32768 - n)
        with contextlib.ExitStack() as all_of_them:
            try:
                for port in range(first, first + n):
                    at = all_of_them.enter_context(socket.socket())
                    at.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    at.bind(("", port))
            except OSError:
                continue
        return first
    raise AssertionError("no free ports")


def dialed(nb):
    """The endpoints that agents of other machines are told, as the launcher's command line has them."""
    words = next(words for words in map(processes.command, processes.marked(nb.marker)) if "cellspan-launch-ssh" in words)
    return re.search(r"--connect (\S+)", words).group(1).split(",")


def sockets(net, host):
    """(own port, other address, other port, listens) of each tcp socket of the host, but for ssh's."""
    text = net.exec(host, "cat", "/proc/net/tcp", "/proc/net/tcp6").stdout
    found = set()
    for line in text.splitlines():
        words = line.split()
        if len(words) > 9 and words[3] in ("01", "0A"):
            port, (other, other_port) = int(words[1].split(":")[1], 16), words[2].split(":")
            if port != 22:
                found.add((port, socket.inet_ntoa(bytes.fromhex(other[-8:])[::-1]), int(other_port, 16), words[3] == "0A"))
    return found


def test_a_firewall_that_lets_only_the_range_through(net, notebook, rule):
    """Agents dial the kernel and one another there: a large variable goes from host to host."""
    first = free_ports(MANY)
    only = ["-p", "tcp", "--syn", "!", "--dport", "%d:%d" % (first, first + MANY - 1)]
    for host in net.names:
        rule(host, "INPUT", "-i", "eth0", "-p", "tcp", "--dport", "22", "-j", "ACCEPT")
        rule(host, "INPUT", "-i", "eth0", *only, "-j", "DROP")
        rule(host, "OUTPUT", "-o", "eth0", *only, "-j", "DROP")
    nb = notebook(CELLSPAN_PORT="%d-%d" % (first, first + MANY - 1))
    nb.ok("import numpy\nbig = numpy.arange(2_500_000.0)")
    cell = nb.ok("%%distribute -n 3 --on ssh:h1,h2,h3 --gather\nimport os\nos.uname().nodename, float(big[int(os.environ['RANK'])])", limit=150)
    assert values(cell) == [("h1", 0.0), ("h2", 1.0), ("h3", 2.0)]
    allowed = range(first, first + MANY)
    assert all(int(endpoint.rpartition(":")[2]) in allowed for endpoint in dialed(nb)), dialed(nb)
    there = {host: sockets(net, host) for host in net.names}
    listening = {port for host in there for port, _, _, listens in there[host] if listens}
    assert listening and all(port in allowed for port in listening), there
    links = {(host, other) for host in there for port, other, other_port, listens in there[host]
             if not listens and other in map(net.address, net.names) and (port in allowed or other_port in allowed)}
    assert links, "the variable has not gone from host to host: %s" % there


def test_a_range_that_is_taken_is_named_with_who_holds_it(net, notebook):
    first = free_ports(2)
    with socket.create_server(("", first)), socket.create_server(("", first + 1)):
        nb = notebook(CELLSPAN_PORT="%d-%d" % (first, first + 1))
        error = nb.run("%%distribute -n 1 --on ssh:h1\n1").assert_error("EngineError").error["evalue"]
        assert "CELLSPAN_PORT=%d-%d: all ports of this range are taken" % (first, first + 1) in error, error
        assert re.search(r"%d by \S+, process %d; %d by \S+, process %d" % (first, os.getpid(), first + 1, os.getpid()), error), error
        assert nb.ok("%%distribute -n 1 --on local\n'here'").value == "'here'"
    assert nb.ok("%%distribute -n 1 --on ssh:h1 --fresh\nimport os\nos.uname().nodename", limit=150).value == "'h1'"


@pytest.mark.parametrize("env, why", [
    ({"CELLSPAN_PORT": "41100-41000"}, "CELLSPAN_PORT=41100-41000: this range is reversed: write 41000-41100"),
    ({"CELLSPAN_ADVERTISE": "gw.example,"}, "CELLSPAN_ADVERTISE=gw.example,: piece 2 of it is empty"),
])
def test_a_wrong_value_opens_no_other_port(net, notebook, env, why):
    nb = notebook(**env)
    error = nb.run("%%distribute -n 1 --on ssh:h1\n1").assert_error("EngineError").error["evalue"]
    assert why in error, error
    assert nb.ok("%%distribute -n 1 --on local\n'here'").value == "'here'"


@pytest.fixture
def gateway(net, rule):
    """gw.example:443, as hosts see it, leads to this port of the notebook's machine, which has no such address."""
    names = os.path.join(net.folder, "hosts", "etc_hosts")
    with open(names, encoding="ascii") as file:
        before = file.read()
    with open(names, "a", encoding="ascii") as file:
        file.write("%s gw.example\n" % ELSEWHERE)

    def lead(host, port):
        net.exec(host, "ip", "route", "add", ELSEWHERE, "dev", "eth0")
        rule(host, "OUTPUT", "-p", "tcp", "-d", ELSEWHERE, "--dport", "443", "-j", "DNAT", "--to-destination",
             "%s:%d" % (net.address("h0"), port), table="nat")

    yield lead
    for host in net.names:
        net.exec(host, "ip", "route", "del", ELSEWHERE, check=False)
    with open(names, "r+", encoding="ascii") as file:  # the same file: the hosts have it mounted
        file.truncate(len(before))


def test_behind_nat_agents_dial_what_is_advertised(net, notebook, gateway):
    port = free_ports(1)
    for host in ("h1", "h2"):
        gateway(host, port)
    nb = notebook(CELLSPAN_PORT=str(port), CELLSPAN_ADVERTISE="h0:1, gw.example:443")
    cell = nb.ok("%%distribute -n 2 --on ssh:h1,h2 --gather\nimport os\nos.uname().nodename", limit=150)
    assert values(cell) == ["h1", "h2"]
    assert dialed(nb) == ["tcp://h0:1", "tcp://gw.example:443"]
    assert (ELSEWHERE, 443) in {(other, other_port) for _, other, other_port, _ in sockets(net, "h1")}
    nb.ok("import numpy\nbig = numpy.arange(2_500_000.0)")
    assert nb.ok("%%distribute --gather\nfloat(big.sum())").value == "[3124998750000.0, 3124998750000.0]"


@pytest.fixture
def silent_names(net, rule, tmp_path):
    """h1's name server answers nothing, and its time limits are long."""
    (tmp_path / "resolv.conf").write_text("nameserver %s\noptions timeout:30 attempts:5\n" % net.address("h0"))
    net.exec("h1", "mount", "--bind", str(tmp_path / "resolv.conf"), "/etc/resolv.conf")
    rule("h1", "INPUT", "-p", "icmp", "-j", "DROP")
    rule("h1", "INPUT", "-p", "udp", "-j", "DROP")
    yield
    net.exec("h1", "umount", "-l", "/etc/resolv.conf", check=False)


def test_a_name_server_that_does_not_answer_holds_up_nothing_else(net, notebook, silent_names):
    """The next address is dialed meanwhile, and the agent ends while its name is looked up."""
    nb = notebook(CELLSPAN_ADVERTISE="gw.nowhere.invalid:1,%s" % net.address("h0"))
    assert nb.ok("%%distribute -n 1 --on ssh:h1\nimport os\nos.uname().nodename", limit=150).value == "'h1'"
    nb.close()
    assert net.left() == []
    refused(notebook(CELLSPAN_RELAY="never", CELLSPAN_ADVERTISE="gw.nowhere.invalid:1", CELLSPAN_DIAL_TIMEOUT="3"),
            "tcp://gw.nowhere.invalid:1 (no address: no name server has answered)")


def refused(nb, *words):
    """No way is left but those that the words name."""
    error = nb.run("%%distribute -n 1 --on ssh:h1\n1", limit=150).assert_error("RankNotStarted").error["evalue"]
    for word in ("h1 did not come up", "can't reach the kernel: ", "CELLSPAN_ADVERTISE") + words:
        assert word in error, error
    assert nb.ok("%%distribute -n 1 --on local\n'here'").value == "'here'"


def test_a_refused_connection_is_told_at_once(net, notebook):
    """Its limit is an hour."""
    refused(notebook(CELLSPAN_RELAY="never", CELLSPAN_ADVERTISE="h0:1", CELLSPAN_DIAL_TIMEOUT="1h"),
            "tcp://h0:1 (%s: connection refused); from %s" % (net.address("h0"), net.address("h1")))


def test_an_address_that_leads_to_somebody_else_is_told(net, notebook):
    refused(notebook(CELLSPAN_RELAY="never", CELLSPAN_ADVERTISE="h1:22", CELLSPAN_DIAL_TIMEOUT="3"),
            "tcp://h1:22 (%s: connected, but the encrypted handshake failed: another program listens there" % net.address("h1"))
    with socket.create_server((net.address("h0"), 0)) as silent:
        port = silent.getsockname()[1]
        refused(notebook(CELLSPAN_RELAY="never", CELLSPAN_ADVERTISE="h0:%d" % port, CELLSPAN_DIAL_TIMEOUT="3"),
                "tcp://h0:%d (%s: connected, but it does not answer)" % (port, net.address("h0")))
    refused(notebook(CELLSPAN_RELAY="never", CELLSPAN_ADVERTISE="gw.nowhere.invalid:1", CELLSPAN_DIAL_TIMEOUT="3"), "tcp://gw.nowhere.invalid:1 (no address: ")


def test_an_address_that_leads_to_another_notebook_is_told(net, notebook):
    port = free_ports(1)
    other = notebook(CELLSPAN_PORT=str(port))
    assert other.ok("%%distribute -n 1 --on ssh:h2\nimport os\nos.uname().nodename", limit=150).value == "'h2'"
    refused(notebook(CELLSPAN_RELAY="never", CELLSPAN_ADVERTISE="h0:%d" % port, CELLSPAN_DIAL_TIMEOUT="3"),
            "tcp://h0:%d (%s: connected, but the encrypted handshake failed: another program listens there, or another kernel" % (port, net.address("h0")))
    assert other.ok("%%distribute\n1 + 1").value == "2"
