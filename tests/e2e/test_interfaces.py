# SPDX-License-Identifier: BSD-3-Clause
"""Which of this machine's network interfaces other machines connect to, and agents of another version there. With real hosts."""

from __future__ import annotations

import os
import pathlib
import random
import re
import subprocess
import sys

import processes
import pytest
from engines import HOST_TOOLS, Hosts, bring_up
from strangers import listening

# An agent of another version: the keys, CURVE and HELLO of that one, by hand; what it is answered goes to a file.
OTHER_AGENT = r"""#!%(python)s
import os, sys
sys.path.insert(0, %(here)r)
import strangers, zmq
handed = dict(sys.stdin.readline().strip().split("=", 1) for _ in range(2))
endpoints = sys.argv[sys.argv.index("--connect") + 1].split(",")
address, _, port = next(e for e in endpoints if %(network)r in e)[len("tcp://"):].rpartition(":")
secret, context = handed["CELLSPAN_SECRET"], zmq.Context()
dealer = strangers.dial(context, int(port), strangers.kernel_key(secret),
                        strangers.agent_keys(secret, int(handed["CELLSPAN_AGENT"])), address)
said = strangers.hello(%(version)d, addresses=b"eth0=" + address.encode())
dealer.send_multipart([b"", said] if %(version)d == 1 else [strangers.entry(strangers.ROUTE_KERNEL, 0, said)])
answer = strangers.answered(dealer, 1000 * strangers.LIMIT)
with open(%(told)r + ".new", "wb") as file:
    file.write(answer[-1] if answer else b"nothing")
os.rename(file.name, %(told)r)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def net():
    for hosts in bring_up(lambda: Hosts(1), HOST_TOOLS):
        yield hosts
        assert hosts.left() == []


@pytest.fixture(scope="module")
def second(net):
    """(interface, address) of this machine that no host reaches."""
    name, address = net.prefix + "-d0", "10.%d.%d.1" % (random.randrange(128, 192), random.randrange(1, 255))
    subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=True)
    try:
        subprocess.run(["ip", "addr", "add", address + "/30", "dev", name], check=True)
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
        net.exec("h1", "iptables", "-w", "-A", "OUTPUT", "-d", address, "-j", "DROP")
        yield name, address
    finally:
        subprocess.run(["ip", "link", "del", name], check=True)


@pytest.fixture
def notebook(fresh, net, second):
    return lambda **env: fresh(env=dict(net.variables(), **env))


def dialed(nb):
    """The endpoints that agents of other machines are told, as the launcher's command line has them."""
    words = next(words for words in map(processes.command, processes.marked(nb.marker)) if "cellspan-launch-ssh" in words)
    return re.search(r"--connect (\S+)", words).group(1).split(",")


def at(nb):
    """The addresses at which the kernel listens for agents."""
    port = int(dialed(nb)[0].rpartition(":")[2])
    return {ip.replace("::ffff:", "") for program, ip, here in listening(processes.marked(nb.marker)) if here == port and program == "cellspan-kernel"}


def test_without_a_choice_all_are_tried(notebook, net, second):
    nb = notebook()
    assert nb.ok("%%distribute -n 1 --on ssh:h1\nimport os\nos.uname().nodename", limit=150).value == "'h1'"
    there = [endpoint.rpartition(":")[0] for endpoint in dialed(nb)]
    assert "tcp://" + net.address("h0") in there and "tcp://" + second[1] in there, there


@pytest.mark.parametrize("by", ["name", "address"])
def test_the_one_that_is_chosen_is_the_only_one(notebook, net, by):
    nb = notebook(CELLSPAN_INTERFACE=net.prefix + "-br" if by == "name" else net.address("h0"))
    cell = nb.ok("%%distribute -n 1 --on ssh:h1\nimport os\nos.uname().nodename, os.environ['CELLSPAN_IFNAME']", limit=150)
    assert cell.value == "('h1', 'eth0')"
    assert [endpoint.rpartition(":")[0] for endpoint in dialed(nb)] == ["tcp://" + net.address("h0")]
    assert at(nb) == {net.address("h0")}


def test_one_that_hosts_do_not_reach_is_named_with_its_address(notebook, net, second):
    nb = notebook(CELLSPAN_INTERFACE=second[0], CELLSPAN_DIAL_TIMEOUT="2", CELLSPAN_RELAY="never")
    error = nb.run("%%distribute -n 1 --on ssh:h1\n1", limit=150).assert_error("RankNotStarted").error["evalue"]
    assert "h1 did not come up" in error and "can't reach the kernel: tcp://%s:" % second[1] in error, error
    assert "from %s" % net.address("h1") in error and "CELLSPAN_INTERFACE" in error, error
    assert net.address("h0") not in error, error
    assert nb.ok("%%distribute -n 1 --on local\n'here'").value == "'here'"


def test_one_that_is_not_there_is_named_with_those_that_are(notebook, net, second):
    nb = notebook(CELLSPAN_INTERFACE="nosuch0")
    error = nb.run("%%distribute -n 1 --on ssh:h1\n1").assert_error("EngineError").error["evalue"]
    assert "CELLSPAN_INTERFACE=nosuch0" in error, error
    for name, address in [("lo", "127.0.0.1"), (net.prefix + "-br", net.address("h0")), second]:
        assert "%s (%s)" % (name, address) in error, error
    assert nb.ok("%%distribute -n 1 --on local\n'here'").value == "'here'"


def test_slurms_nodes_that_do_not_reach_the_kernel_say_from_where_to_where(fresh, hosts, slurm_on_hosts):
    nb = fresh(env=dict(slurm_on_hosts.variables(), CELLSPAN_INTERFACE="127.0.0.1", CELLSPAN_DIAL_TIMEOUT="4", CELLSPAN_RELAY="never"))
    cell = nb.run("%%distribute -n 2 --on slurm:--nodes=2\n1", limit=150).assert_error("RankNotStarted")
    for node, host in (("n1", "h1"), ("n2", "h2")):
        assert re.search("%s: cellspan-agent can't reach the kernel: tcp://127.0.0.1:.*; from %s; .*CELLSPAN_INTERFACE"
                         % (node, re.escape(hosts.address(host))), cell.error["evalue"]), cell.shown
    nb.close()
    assert processes.wait_until(lambda: not slurm_on_hosts.queue(), 60), slurm_on_hosts.queue()


@pytest.mark.parametrize("version, update", [(1, "update cellspan where the agent runs"), (3, "update cellspan where the notebook runs")])
def test_an_agent_of_another_version_says_which_side_to_update(notebook, net, tmp_path, version, update):
    folder, told = tmp_path / "libexec" / "cellspan", tmp_path / "told"
    folder.mkdir(parents=True)
    agent = folder / "cellspan-agent"
    agent.write_text(OTHER_AGENT % {"python": sys.executable, "here": os.path.dirname(os.path.abspath(__file__)),
                                    "network": net.network, "version": version, "told": str(told)})
    agent.chmod(0o755)
    nb = notebook(CELLSPAN_REMOTE_PREFIX=str(tmp_path))
    error = nb.run("%%distribute -n 1 --on ssh:h1\n1", limit=150).assert_error("RankNotStarted").error["evalue"]
    assert "h1 did not come up" in error and update in error, error
    assert re.search(r"version (%d of|2 of .* the agent %d\))" % (version, version), error), error
    assert processes.wait_until(told.exists, 60), "the agent was not answered"
    answer = pathlib.Path(told).read_bytes()
    assert answer[:2] == bytes([version, 3]) and update.encode() in answer, "it is refused in its own version, in words: %r" % answer
    assert nb.ok("%%distribute -n 1 --on local\n'here'").value == "'here'"
