# SPDX-License-Identifier: BSD-3-Clause
"""Machines to run on: hosts with sshd, and Slurm clusters, made on this machine by the scripts of tests/engines.

Names, networks and ports are chosen so that several test runs at the same time don't conflict. Everything is removed by
down(), at the end of the `with` block, or at the latest when Python ends.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import socket
import subprocess
import tempfile

import pytest
from processes import inside, wait_until

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "engines")
HOST_TOOLS = ("sshd", "ssh", "ssh-keygen", "ip", "tc", "unshare", "nsenter", "pgrep", "iptables", "sysctl")
SLURM_TOOLS = ("slurmctld", "slurmd", "munged", "munge", "srun", "squeue", "scancel", "pgrep")
LIMIT = 300  # seconds that a script may take


class EngineError(Exception):
    """A script failed; the text is what it said."""


def missing(tools):
    """Why engines can't be brought up here: a sentence, or "" when they can."""
    if os.geteuid() != 0:
        return "engines are brought up by root only"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [tool for tool in tools if shutil.which(tool, path=path) is None]
    return "not installed: %s" % " ".join(absent) if absent else ""


class Engine:
    """A script with a state folder of its own."""

    script = ""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="cellspan-engines-")
        self.environment = {"ENGINES_STATE": self.folder}
        self.alive = False
        atexit.register(self.down)

    def call(self, *words, check=True, limit=LIMIT):
        """Runs the script with these words; gives its completed process, text in stdout.

        EngineError: it failed, and `check` was not False.
        """
        with tempfile.TemporaryFile("w+") as said:  # not a pipe: daemons that the script starts would hold it open
            done = subprocess.run(
                [os.path.join(SCRIPTS, self.script)] + [str(word) for word in words],
                env=dict(os.environ, **self.environment),
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, timeout=limit,
            )
            said.seek(0)
            done.stdout = said.read()
        if check and done.returncode != 0:
            raise EngineError("%s %s: %s" % (self.script, " ".join(map(str, words)), done.stdout.strip()))
        return done

    def up(self):
        self.alive = True
        try:
            self.bring_up()
        except BaseException:
            self.down()
            raise
        return self

    def down(self):
        """Takes everything down; fine when nothing is up."""
        atexit.unregister(self.down)
        if self.alive:
            self.alive = False
            self.call("down", check=False)
            shutil.rmtree(self.folder, ignore_errors=True)
        elif os.path.isdir(self.folder) and not os.listdir(self.folder):
            os.rmdir(self.folder)

    def __enter__(self):
        return self.up()

    def __exit__(self, *_):
        self.down()


class Hosts(Engine):
    """h1 … hN, each with its own network, process numbers, mounts and sshd; h0 is this side.

    `private`: folders that are empty and private on every host. The rest of the file system is shared.
    """

    script = "hosts.sh"

    def __init__(self, count=3, private=()):
        super().__init__()
        self.names = ["h%d" % (i + 1) for i in range(count)]
        self.environment["HOSTS_PRIVATE"] = " ".join(private)

    def bring_up(self):
        """Tries other names while those chosen are taken."""
        for left in reversed(range(5)):
            self.network = "10.%d.%d" % (random.randrange(64, 128), random.randrange(1, 255))
            self.prefix = "".join(random.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(4))
            self.environment.update(HOSTS_PREFIX=self.prefix, HOSTS_NET=self.network)
            if self.network + "." in subprocess.run(["ip", "-4", "route"], capture_output=True, text=True).stdout:
                continue
            done = self.call("up", len(self.names), check=not left)
            if done.returncode == 0:
                return
        raise EngineError("hosts.sh: no free network")

    @property
    def ssh_config(self):
        return os.path.join(self.folder, "hosts", "ssh_config")

    @property
    def key(self):
        """The private key that every host lets in."""
        return os.path.join(self.folder, "hosts", "id")

    def variables(self):
        """What the environment of a notebook needs to reach them."""
        return {"CELLSPAN_SSH": "ssh -F %s" % self.ssh_config}

    def address(self, host):
        return "%s.%s" % (self.network, 254 if host == "h0" else host[1:])

    def namespace(self, host):
        """The name of its network namespace."""
        return "%s-%s" % (self.prefix, host)

    def exec(self, host, *words, check=True):
        """Runs a command on the host, without ssh."""
        return self.call("exec", host, *words, check=check)

    def processes(self, host):
        """The command lines of what runs there, by number (as the host numbers them); sshd itself left out."""
        try:
            with open(os.path.join(self.folder, "hosts", host + ".init"), encoding="ascii") as file:
                found = inside(int(file.read().split()[0]))
        except FileNotFoundError:
            found = None
        if found is None:
            raise EngineError("%s is off" % host)
        own = ("hosts-init.sh", "sshd -D", "sshd: /usr/sbin/sshd")
        return {pid: args for pid, args in found.items() if not any(part in args for part in own)}

    def workers(self, host):
        """As processes(), without what sshd runs for a login: agents, ranks, and what those started."""
        return {pid: args for pid, args in self.processes(host).items() if not args.startswith("sshd: ") and args != "[sshd]"}  # one that ends has no words

    def left(self, *names, limit=60):
        """Waits until nobody but sshd runs on these hosts (all of them); gives who does, described: [] is good."""
        found = []
        for host in names or self.names:
            wait_until(lambda host=host: not self.workers(host), limit)
            found += ["%s: %d %s" % (host, pid, args[:120]) for pid, args in self.workers(host).items()]
        return found

    def signal(self, host, name, text=""):
        """Sends a signal to those of workers() in whose command line `text` stands; gives how many they are."""
        pids = [str(pid) for pid, args in self.workers(host).items() if text in args]
        if pids:
            self.exec(host, "kill", "-" + name, *pids, check=False)
        return len(pids)

    def link(self, host, up):
        """Pulls the cable, or plugs it in again: no FIN, no RST."""
        self.call("link", host, "up" if up else "down")

    def cut(self, one, other):
        """Drops all packets between two hosts, one of which may be h0."""
        self.call("cut", one, other)

    def heal(self, one, other):
        self.call("heal", one, other)

    def net(self, host, delay_ms=0, loss_percent=0, jitter_ms=0):
        """Delay, loss and jitter of the host's link, each way; all 0 takes them away."""
        self.call("net", host, delay_ms, loss_percent, jitter_ms)

    def rate(self, host, limit="off"):
        """Limits what the host sends, as tc writes it ("1gbit"); "off"."""
        self.call("rate", host, limit)

    def rate_to(self, host, limit="off"):
        """Limits what is sent to the host."""
        link = "%s-v%s" % (self.prefix, host[1:])
        if limit == "off":
            words = ["del", "dev", link, "root"]
        else:
            words = ["replace", "dev", link, "root", "tbf", "rate", limit, "burst", "64kb", "latency", "200ms"]
        subprocess.run(["tc", "qdisc"] + words, stderr=subprocess.DEVNULL, check=limit != "off")

    def sent(self, host):
        """Bytes that the host has sent since its link was made."""
        with open("/sys/class/net/%s-v%s/statistics/rx_bytes" % (self.prefix, host[1:])) as file:
            return int(file.read())

    def kill(self, host):
        """Power off."""
        self.call("kill", host)

    def start(self, host):
        """Power on."""
        self.call("start", host)


class Slurm(Engine):
    """A controller and nodes n1 … nN, all on this machine, or one in the network of each of `hosts`.

    `proctrack`: how Slurm finds the processes of a step; with cgroups, whose names have the nodes' names, it is the default. A test
    that runs beside those of another cluster must have another.
    """

    script = "slurm.sh"

    def __init__(self, nodes=4, cpus=4, gpus=2, hosts=None, max_time="INFINITE", proctrack=""):
        super().__init__()
        self.nodes = len(hosts.names) if hosts else nodes
        self.environment.update(SLURM_NODES=str(self.nodes), SLURM_NODE_CPUS=str(cpus), SLURM_NODE_GPUS=str(gpus),
                                SLURM_MAX_TIME=max_time, SLURM_PROCTRACK=proctrack)
        if hosts:
            self.environment.update(SLURM_NETNS=" ".join(hosts.namespace(host) for host in hosts.names),
                                    SLURM_CTL_ADDR=hosts.address("h0"))

    def bring_up(self):
        """Tries other ports when somebody took one of those chosen before its daemon did."""
        for left in reversed(range(3)):
            self.environment["SLURM_PORT"] = str(free_ports(self.nodes + 1))
            if self.call("up", check=not left).returncode == 0:
                return
            self.call("down", check=False)

    @property
    def conf(self):
        return os.path.join(self.folder, "slurm", "slurm.conf")

    def variables(self):
        """What the environment of a notebook needs to reach it."""
        return {"SLURM_CONF": self.conf}

    def run(self, *words, limit=120, **options):
        """Runs one of Slurm's commands; gives what it printed, both streams. No check."""
        done = subprocess.run(words, env=dict(os.environ, **self.variables()), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit, **options)
        return done.stdout

    def queue(self):
        """The jobs that squeue lists, a line each."""
        return self.run("squeue", "-h", "-o", "%i %T %j %D %r").splitlines()

    def idle(self):
        """Whether every node can take a job; after one has ended they are COMPLETING for a second."""
        lines = self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N %t").splitlines()
        return len({line.split()[0] for line in lines if line.split()[1:] == ["idle"]}) == self.nodes


def free_ports(count):
    """The first of `count` free TCP ports in a row, below those that cellspan (20000 and up) and the system give out."""
    for _ in range(200):
        first = random.randrange(15000, 20000 - count)
        held = []
        try:
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held[-1].bind(("", port))
            return first
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
    raise EngineError("no %d free ports in a row" % count)


def bring_up(engine, tools):
    """A fixture's body: skips, with the reason, where the engine can't be; CELLSPAN_TEST_ENGINES=must makes that a failure."""
    why = missing(tools)
    if why and os.environ.get("CELLSPAN_TEST_ENGINES") == "must":
        pytest.fail(why)
    if why:
        pytest.skip(why)
    with engine() as made:
        yield made


@pytest.fixture(scope="module")
def hosts():
    """Three hosts, h1 to h3, for the tests of a module."""
    yield from bring_up(Hosts, HOST_TOOLS)


@pytest.fixture(scope="module")
def slurm():
    """A cluster of four nodes, n1 to n4, for the tests of a module: 4 CPUs and 2 (false) GPUs each."""
    yield from bring_up(Slurm, SLURM_TOOLS)


@pytest.fixture(scope="module")
def slurm_on_hosts(hosts):
    """A cluster of three nodes, n1 to n3, in the networks of h1 to h3."""
    yield from bring_up(lambda: Slurm(hosts=hosts), SLURM_TOOLS)
