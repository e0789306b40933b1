# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that can't connect to the notebook's machine, but answer ssh: their agents' connections go through the launcher. With real hosts."""

from __future__ import annotations

import os
import re
import signal

import processes
import pytest
from client import values
from engines import HOST_TOOLS, Hosts, bring_up

UP = 200  # seconds for ranks to come up


@pytest.fixture(scope="module")
def lan():
    yield from bring_up(lambda: Hosts(2), HOST_TOOLS)


@pytest.fixture
def net(lan):
    yield lan
    assert lan.left() == [], "left over on the hosts"


@pytest.fixture
def nothing_gets_out(net):
    """Hosts may not begin a connection to the notebook's machine."""
    rule = ["OUTPUT", "-o", "eth0", "-d", net.address("h0"), "-p", "tcp", "--syn", "-j", "DROP"]
    for host in net.names:
        net.exec(host, "iptables", "-w", "-A", *rule)
    yield
    for host in net.names:
        net.exec(host, "iptables", "-w", "-D", *rule)


@pytest.fixture
def nb(net, nothing_gets_out, fresh):
    made = fresh(env=net.variables())
    yield made
    made.close()


def relays(nb):
    """The processes on this machine that lead to a relay on a host."""
    return [process for process in processes.marked(nb.marker) if " --relay " in processes.command(process)]


def test_cells_run_where_only_ssh_leads(nb, net):
    """With a large variable, and a world of both hosts: the address of its rank 0 is its host's."""
    nb.ok("import numpy\nbig = numpy.arange(2_500_000.0)")
    cell = nb.ok("%%distribute -n 2 --on ssh:h1,h2 --init --gather\nimport os, torch, torch.distributed as dist\n"
                 "x = torch.ones(1) * (dist.get_rank() + 1)\ndist.all_reduce(x)\n"
                 "os.uname().nodename, float(big[-1]), x.item(), os.environ['MASTER_ADDR']", limit=UP)
    assert values(cell) == [(host, 2499999.0, 3.0, net.address("h1")) for host in net.names]
    for host in net.names:
        assert re.search(r"%s can't connect to this machine: tcp://.*; its connection goes through ssh" % host, cell.stderr), cell.shown
    nb.ok("%%distribute\nmine = big + dist.get_rank()")
    assert nb.ok("%pull mine -r 1\nfloat(mine[-1])").value == "2500000.0"


def test_a_relay_that_ends_is_started_again(nb):
    cell = nb.ok("%%distribute -n 2 --on ssh:h1,h2 --gather\nimport os, time\nkept = int(os.environ['RANK'])\nos.getpid()", limit=UP)
    pids = values(cell)
    cell = nb.start("%%distribute --merge prefix\nfor k in range(1500):\n    print('tick', k, flush=True)\n    time.sleep(0.004)")
    for number, how in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGKILL)):
        nb.wait_shown(cell, "[1] tick %d\n" % (100 + 400 * number))
        before = relays(nb)
        assert len(before) == 2, before
        for process in before:
            os.kill(process, how)
        assert processes.wait_until(lambda before=before: len(relays(nb)) == 2 and not set(before) & set(relays(nb)), UP), relays(nb)
    nb.wait(cell, UP).assert_ok()
    for rank in range(2):
        assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(1500)]
    assert values(nb.ok("%%distribute --gather\nkept, os.getpid()", limit=UP)) == list(enumerate(pids))


@pytest.fixture(params=[("DROP",), ("REJECT", "--reject-with", "tcp-reset"), None], ids=["silence", "reset", "half"])
def firewall(net, request):
    """Has h1 exchange nothing with this machine but on connections to its sshd, until it is told to end.
    None: what this machine sends arrives, again and again, since it hears of none of it."""
    how = request.param or ("DROP",)
    rules = [["OUTPUT", "-d", net.address("h0"), "-p", "tcp", "!", "--sport", "22", "-j", *how],
             ["INPUT", "-s", net.address("h0"), "-p", "tcp", "!", "--dport", "22", "-j", "DROP"]][:2 if request.param else 1]

    def switch(on):
        for rule in rules:
            net.exec("h1", "iptables", "-w", "-A" if on else "-D", *rule, check=on)

    yield switch
    switch(False)


def closed_under_lines(nb, firewall):
    """Closes the direct way while two ranks print; no line is lost. The process of the relay that has come."""
    cell = nb.start("%%distribute --merge prefix\nfor k in range(1000):\n    print('tick', k, flush=True)\n    time.sleep(0.004)")
    nb.wait_shown(cell, "[0] tick 100\n")
    firewall(True)
    nb.wait(cell, UP).assert_ok()
    for rank in range(2):
        assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(1000)]
    (relay,) = relays(nb)
    return relay


def test_a_direct_way_that_is_closed_later(net, firewall, fresh):
    """When it is open again, the relay is given up."""
    nb = fresh(env=dict(net.variables(), CELLSPAN_HEARTBEAT_TIMEOUT="20", CELLSPAN_RESUME="600"))
    cell = nb.ok("%%distribute -n 2 --on ssh:h1,h2 --gather\nimport os, time\nkept = int(os.environ['RANK'])\nos.getpid()", limit=UP)
    pids = values(cell)
    assert relays(nb) == []
    relay = closed_under_lines(nb, firewall)
    assert values(nb.ok("%%distribute --gather\nkept, os.getpid()", limit=UP)) == list(enumerate(pids))
    firewall(False)
    os.kill(relay, signal.SIGKILL)
    assert processes.wait_until(lambda: not relays(nb), UP), relays(nb)
    assert values(nb.ok("%%distribute --gather\nkept, os.getpid()", limit=UP)) == list(enumerate(pids))
    nb.close()


def ssh_to(nb, host):
    """The processes of this machine that lead there."""
    words = {pid: processes.command(pid).split() for pid in processes.named(nb.marker, " %s " % host)}
    return [pid for pid, named in words.items() if named and os.path.basename(named[0]) == "ssh"]


def looks(net, host):
    return [args for args in net.workers(host).values() if " --presence " in args]


def test_an_agent_whose_first_ssh_has_ended_can_ask_for_a_relay(net, firewall, fresh):
    """Its lines go nowhere then; the program that looks for it passes on what it wants."""
    nb = fresh(env=dict(net.variables(), CELLSPAN_HEARTBEAT_TIMEOUT="20", CELLSPAN_RESUME="600"))
    pids = values(nb.ok("%%distribute -n 2 --on ssh:h1,h2 --gather\nimport os, time\nkept = int(os.environ['RANK'])\nos.getpid()", limit=UP))
    (first,) = ssh_to(nb, "h1")
    os.kill(first, signal.SIGKILL)
    assert processes.wait_until(lambda: looks(net, "h1"), UP)
    assert relays(nb) == []
    relay = closed_under_lines(nb, firewall)
    firewall(False)
    os.kill(relay, signal.SIGKILL)
    assert processes.wait_until(lambda: not relays(nb), UP), relays(nb)
    assert values(nb.ok("%%distribute --gather\nkept, os.getpid()", limit=UP)) == list(enumerate(pids))
    nb.close()


def test_a_host_behind_a_jump_host(net, fresh, tmp_path):
    """The notebook's machine and h2 exchange nothing: ssh goes by h1, and the relay does as well."""
    config = tmp_path / "config"
    config.write_text("Host h2\n  ProxyJump h1\nHost *\n  Include %s\n" % net.ssh_config)
    net.cut("h2", "h0")
    try:
        nb = fresh(env=dict(CELLSPAN_SSH="ssh -F %s" % config))
        nb.ok("import numpy\nbig = numpy.arange(2_500_000.0)")
        cell = nb.ok("%%distribute -n 2 --on ssh:h2,h1 --init --gather\nimport os, torch, torch.distributed as dist\n"
                     "x = torch.ones(1) * (dist.get_rank() + 1)\ndist.all_reduce(x)\n"
                     "os.uname().nodename, float(big[-1]), x.item(), os.environ['MASTER_ADDR']", limit=UP)
        assert values(cell) == [(host, 2499999.0, 3.0, net.address("h2")) for host in ("h2", "h1")]
        assert "h2 can't connect to this machine: " in cell.stderr and "h1 can't" not in cell.stderr, cell.shown
        assert len([process for process in relays(nb) if processes.command(process).startswith("ssh")]) == 1
        nb.close()
    finally:
        net.heal("h2", "h0")


def test_all_ways_break_at_once(net, nothing_gets_out, fresh):
    """As by a VPN that reconnects: each ssh ends, those of the agents and those of the relays."""
    nb = fresh(env=dict(net.variables(), CELLSPAN_RESUME="600"))
    pids = values(nb.ok("%%distribute -n 2 --on ssh:h1,h2 --gather\nimport os, time\nkept = int(os.environ['RANK'])\nos.getpid()", limit=UP))
    cell = nb.start("%%distribute --merge prefix\nfor k in range(300):\n    print('tick', k, flush=True)\n    time.sleep(0.02)")
    nb.wait_shown(cell, "[1] tick 50\n")
    for process in processes.marked(nb.marker):
        if os.path.basename(processes.command(process).split(" ")[0]) == "ssh":
            os.kill(process, signal.SIGKILL)
    nb.wait(cell, UP).assert_ok()
    for rank in range(2):
        assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(300)]
    for host in net.names:
        assert processes.wait_until(lambda host=host: any(" --presence " in args for args in net.workers(host).values()), UP)
    assert values(nb.ok("%%distribute --gather\nkept, os.getpid()", limit=UP)) == list(enumerate(pids))
    nb.close()
    assert net.left() == []


def test_it_can_be_forbidden(net, nothing_gets_out, fresh):
    nb = fresh(env=dict(net.variables(), CELLSPAN_RELAY="never", CELLSPAN_DIAL_TIMEOUT="3"))
    error = nb.run("%%distribute -n 1 --on ssh:h1\n1", limit=UP).assert_error("RankNotStarted").error["evalue"]
    assert "can't reach the kernel: tcp://" in error and "timed out" in error, error
    assert relays(nb) == []
    nb.close()


def test_an_address_that_refuses_leads_there_at_once(net, fresh):
    """Its limit is an hour."""
    nb = fresh(env=dict(net.variables(), CELLSPAN_ADVERTISE="h0:1", CELLSPAN_DIAL_TIMEOUT="1h"))
    cell = nb.ok("%%distribute -n 1 --on ssh:h1\nimport os\nos.uname().nodename", limit=UP)
    assert cell.value == "'h1'"
    assert "h1 can't connect to this machine: tcp://h0:1 (%s: connection refused); " % net.address("h0") in cell.stderr, cell.shown
    nb.close()
