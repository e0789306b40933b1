# SPDX-License-Identifier: BSD-3-Clause
"""Slurm's nodes that can't connect to the notebook's machine, but run steps: the agents' connections go through steps of their own."""

from __future__ import annotations

import pathlib
import re
import subprocess

import processes
import pytest
from client import values
from processes import wait_until
from test_firewalls import free_ports

UP = 200  # seconds for ranks to come up
PORTS = 10
ALL = "%%distribute --gather\nkept, os.getpid()"


@pytest.fixture
def ports():
    first = free_ports(PORTS)
    return first, first + PORTS - 1


@pytest.fixture
def close(hosts, ports):
    """Closes a node's way to the kernel's ports. Slurm's own go on."""
    undo = []

    def rule(host, *how):
        for words in (["OUTPUT", "-d", hosts.address("h0"), "-p", "tcp", "--dport", "%d:%d" % ports, "-j", *how],
                      ["INPUT", "-s", hosts.address("h0"), "-p", "tcp", "--sport", "%d:%d" % ports, "-j", "DROP"]):
            hosts.exec(host, "iptables", "-w", "-A", *words)
            undo.append(lambda words=words: hosts.exec(host, "iptables", "-w", "-D", *words))

    def end():
        while undo:
            undo.pop()()

    rule.end = end
    yield rule
    end()


@pytest.fixture
def notebook(fresh, slurm_on_hosts, ports):
    def make(**env):
        return fresh(env=dict(slurm_on_hosts.variables(), CELLSPAN_PORT="%d-%d" % ports, **env))

    yield make
    assert wait_until(lambda: not slurm_on_hosts.queue(), UP), slurm_on_hosts.queue()


def relays(slurm):
    """The steps that are relays."""
    lines = slurm.run("squeue", "--steps", "-h", "-o", "%i").splitlines()
    return [step for step in lines if re.fullmatch(r"\d+\.[1-9]\d*", step)]


def test_cells_run_where_only_slurm_leads(notebook, slurm_on_hosts, close):
    for host in ("h1", "h2"):
        close(host, "DROP")
    nb = notebook()
    nb.ok("import numpy\nbig = numpy.arange(2_500_000.0)")
    cell = nb.ok("%%distribute -n 2 --on 'slurm:--nodes=2 -w n[1-2]' --gather\nimport os\nkept = int(os.environ['RANK'])\n"
                 "os.environ['SLURMD_NODENAME'], float(big[-1])", limit=UP)
    assert values(cell) == [("n1", 2499999.0), ("n2", 2499999.0)]
    for node in ("n1", "n2"):
        assert "%s can't connect to this machine: tcp://" % node in cell.stderr and "; its connection goes through " in cell.stderr, cell.shown
    assert len(relays(slurm_on_hosts)) == 2, relays(slurm_on_hosts)
    there = [process for process in processes.marked(nb.marker) if " --relay " in processes.command(process)]
    assert len(there) >= 4, there  # srun, and the agent's program on the node
    for process in there:
        assert b"CELLSPAN_SECRET=" not in pathlib.Path("/proc/%d/environ" % process).read_bytes()
    nb.ok("%%distribute\nmine = big + kept")
    assert nb.ok("%pull mine -r 1\nfloat(mine[-1])").value == "2500000.0"
    nb.close()
    assert nb.left == []


@pytest.mark.parametrize("how", [("DROP",), ("REJECT", "--reject-with", "tcp-reset")], ids=["silence", "reset"])
def test_a_direct_way_that_is_closed_later(notebook, slurm_on_hosts, close, how):
    nb = notebook(CELLSPAN_HEARTBEAT_TIMEOUT="20", CELLSPAN_RESUME="600")
    pids = values(nb.ok("%%distribute -n 2 --on 'slurm:--nodes=2 -w n[1-2]' --gather\nimport os, time\nkept = int(os.environ['RANK'])\nos.getpid()", limit=UP))
    assert relays(slurm_on_hosts) == []
    cell = nb.start("%%distribute --merge prefix\nfor k in range(1000):\n    print('tick', k, flush=True)\n    time.sleep(0.004)")
    nb.wait_shown(cell, "[0] tick 100\n")
    close("h1", *how)
    nb.wait(cell, UP).assert_ok()
    for rank in range(2):
        assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(1000)]
    (relay,) = relays(slurm_on_hosts)
    assert values(nb.ok(ALL, limit=UP)) == list(enumerate(pids))
    close.end()
    slurm_on_hosts.run("scancel", "--signal=KILL", relay)
    assert wait_until(lambda: not relays(slurm_on_hosts), UP), relays(slurm_on_hosts)
    assert values(nb.ok(ALL, limit=UP)) == list(enumerate(pids))
    nb.close()
    assert nb.left == []


def test_connections_of_a_step_that_are_reset(notebook, slurm_on_hosts, hosts, ports):
    """Its agents come back on others. Of srun's own, Slurm gives up the step: that is told, and the next cell has another."""
    def reset(port=""):
        for host in ("h1", "h2"):
            subprocess.run(["ss", "-K", "-tn", "dst %s %s" % (hosts.address(host), port)], stdout=subprocess.DEVNULL, check=True)

    nb = notebook(CELLSPAN_HEARTBEAT_TIMEOUT="60", CELLSPAN_RESUME="600")
    pids = values(nb.ok("%%distribute -n 2 --on 'slurm:--nodes=2 -w n[1-2]' --gather\nimport os, time\nkept = int(os.environ['RANK'])\nos.getpid()", limit=UP))
    cell = nb.start("%%distribute --merge prefix\nfor k in range(1000):\n    print('tick', k, flush=True)\n    time.sleep(0.004)")
    for tick in (100, 400, 700):
        nb.wait_shown(cell, "[0] tick %d\n" % tick)
        reset("and sport >= :%d and sport <= :%d" % ports)
    nb.wait(cell, UP).assert_ok()
    for rank in range(2):
        assert re.findall(r"^\[%d\] tick (\d+)$" % rank, cell.stdout, re.M) == [str(k) for k in range(1000)]
    assert values(nb.ok(ALL, limit=UP)) == list(enumerate(pids))
    cell = nb.start("%%distribute --grace 1s\nprint('begun', flush=True)\ntime.sleep(600)")
    nb.wait_shown(cell, "begun")
    reset()
    nb.wait(cell, UP).assert_error("RankDied")
    assert "cellspan-agent ended" in cell.shown, cell.shown
    assert "is started again" in nb.ok("%%distribute\n1", limit=UP).stderr
    nb.close()
    assert nb.left == []


def test_it_can_be_forbidden(notebook, slurm_on_hosts, close):
    close("h1", "DROP")
    nb = notebook(CELLSPAN_RELAY="never", CELLSPAN_DIAL_TIMEOUT="3")
    error = nb.run("%%distribute -n 1 --on 'slurm:-w n1'\n1", limit=UP).assert_error("RankNotStarted").error["evalue"]
    assert "can't reach the kernel: tcp://" in error and "timed out" in error, error
    assert relays(slurm_on_hosts) == []
    nb.close()
