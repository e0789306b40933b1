# SPDX-License-Identifier: BSD-3-Clause
"""Logins of many kinds, each with cells over real sshds: jump hosts, other shells, other prefixes, other homes."""

from __future__ import annotations

import os
import pathlib
import re
import shutil

import processes
import pytest
from client import values
from engines import HOST_TOOLS, Hosts, bring_up

PREFIX = pathlib.Path(os.path.realpath(shutil.which("cellspan") or "/")).parents[1]
SHELLS = ("tcsh", "fish", "zsh")


@pytest.fixture(scope="module")
def lan():
    """Three hosts; each test leaves them as they were."""
    yield from bring_up(lambda: Hosts(3), HOST_TOOLS)


@pytest.fixture
def net(lan):
    yield lan
    assert lan.left() == [], "left over on the hosts"


@pytest.fixture
def change(net):
    """Puts a file or folder over another, or a rule into the packet filter, on one host, for the test."""
    undo = []

    class Change:
        @staticmethod
        def cover(host, path, by):
            net.exec(host, "mount", "--bind", str(by), str(path))
            undo.append((host, "umount", "-l", str(path)))

        @staticmethod
        def close(host, *rule):
            net.exec(host, "iptables", "-w", "-A", "INPUT", *rule, "-j", "REJECT")
            undo.append((host, "iptables", "-w", "-D", "INPUT", *rule, "-j", "REJECT"))

        @staticmethod
        def login(host, folder, shell="/bin/bash", home="/root"):
            """Root's shell and home folder there."""
            passwd = folder / ("passwd-" + host)
            passwd.write_text("root:x:0:0:root:%s:%s\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n" % (home, shell))
            Change.cover(host, "/etc/passwd", passwd)

    yield Change
    for host, *words in reversed(undo):
        net.exec(host, *words, check=False)


def config(net, folder, text):
    """An ssh_config that says this before what reaches the hosts; the variables that a notebook needs."""
    path = folder / "ssh_config"
    path.write_text(text + pathlib.Path(net.ssh_config).read_text())
    return {"CELLSPAN_SSH": "ssh -F %s" % path}


# -- jump hosts


@pytest.fixture
def jump(net, change, tmp_path):
    """The variables of a notebook that reaches h2 and h3 by way of h1 only, as far as ssh goes."""
    for host in ("h2", "h3"):
        change.close(host, "-s", net.address("h0"), "-p", "tcp", "--dport", "22")
    return config(net, tmp_path, "Host h2 h3\n  ProxyJump h1\n")


def test_ranks_behind_a_jump_host(net, fresh, jump):
    nb = fresh(env=jump)
    there = nb.ok("%%distribute -n 4 --on ssh:h2,h3 --gather\nimport os, time\nos.uname().nodename, os.environ['SSH_CONNECTION'].split()[0]", limit=150)
    assert values(there) == [(host, net.address("h1")) for host in ("h2", "h2", "h3", "h3")]
    nb.ok("base = 10")
    assert nb.ok_folded("%%distribute\nprint('alike')\nbase", "[0-3] alike\n").value == "10"
    cell = nb.start("%%distribute\nprint('begun', flush=True)\ntime.sleep(1000)")
    nb.wait_ranks(cell, "begun")
    nb.control("interrupt_request")
    nb.wait(cell).assert_error("KeyboardInterrupt")
    assert nb.ok("%%distribute\nbase").value == "10"
    nb.close()
    assert nb.left == [] and net.left() == []


def test_the_jump_host_has_ranks_too_and_nobody_is_left_of_a_killed_kernel(net, fresh, jump):
    nb = fresh(env=jump)
    there = nb.ok("%%distribute -n 3 --on ssh:h1,h2,h3 --gather\nimport os\nos.uname().nodename", limit=150)
    assert values(there) == ["h1", "h2", "h3"]
    os.kill(nb.pid, 9)
    assert processes.gone(nb.marker) == [] and net.left() == []


def told_of(nb, hosts, why):
    """A cell on three hosts, of which these do not come up, because of `why`; the error. It names those that fail within a
    moment of one another, so that one which is slower than that may be missing: then it is tried again."""
    for _ in range(20):
        cell = nb.run("%%distribute -n 3 --on ssh:h1,h2,h3\n1", limit=150).assert_error("RankNotStarted")
        error = cell.error["evalue"]
        named = [host for host in ("h1", "h2", "h3") if re.search(r"\b%s\b" % host, error)]
        assert named and set(named) <= set(hosts) and why in error, cell.shown
        if named == list(hosts):
            return error
    raise AssertionError("never all of %s: %s" % (hosts, error))


def test_without_the_jump_the_cell_says_which_hosts_do_not_come(net, fresh, jump):
    nb = fresh(env=net.variables())
    error = told_of(nb, ("h2", "h3"), ": nothing listens for ssh there")
    for host in ("h2", "h3"):
        assert re.search("%s.*: nothing listens for ssh there" % host, error), error


@pytest.mark.parametrize("behind, words", [
    ("HostName no-such-name.invalid", "the name does not resolve"),
    ("HostName %s\n  Port 23", "nothing listens for ssh there"),
    ("HostName %s\n  ProxyJump strict", "the jump host lets nothing through"),
    ("HostName %s\n  ProxyJump no-such-name.invalid", "(ssh: Could not resolve hostname no-such-name.invalid"),
])
def test_what_a_jump_host_can_not_do_is_said(net, launch, tmp_path, behind, words):  # noqa: F811
    behind = behind % net.address("h2") if "%" in behind else behind
    lines = "Host behind\n  %s\n  HostKeyAlias h2\n  ProxyJump h1\nHost strict\n  HostName %s\n  HostKeyAlias h1\n  Port 2222\n"
    env = config(net, tmp_path, lines % (behind, net.address("h1")))
    daemon = tmp_path / "sshd"
    if "strict" in behind:
        net.exec("h1", shutil.which("sshd", path="/usr/sbin:" + os.environ["PATH"]), "-f", os.path.join(net.folder, "hosts", "sshd_config"),
                 "-p", "2222", "-o", "AllowTcpForwarding=no", "-o", "PidFile=%s" % daemon)
        assert processes.wait_until(daemon.exists, 60)
    try:
        one = launch("ssh", spec="behind", env=env)
        assert one.wait() == 1
        assert one.failed()[0].startswith("behind: ") and words in one.failed()[0], one.said()
    finally:
        if daemon.exists():
            net.exec("h1", "kill", daemon.read_text().strip())


# -- firewalls


def test_nothing_but_ssh_needs_to_get_in(net, fresh, change):
    """Where nodes can't dial one another, big variables come from the notebook's machine; only collectives need more."""
    for host in net.names:
        change.close(host, "-i", "eth0", "-p", "tcp", "--syn", "!", "--dport", "22")
    nb = fresh(env=net.variables())
    nb.ok("import numpy\nbig = numpy.arange(2_500_000.0)")
    cell = nb.ok("%%distribute -n 3 --on ssh:h1,h2,h3 --gather\nimport os\nos.uname().nodename, float(big[int(os.environ['RANK'])])", limit=150)
    assert values(cell) == [("h1", 0.0), ("h2", 1.0), ("h3", 2.0)]
    nb.ok("%%distribute -r 2\nback = big * 2")
    nb.ok("%pull back -r 2")
    assert nb.ok("float(back[1])").value == "2.0"


# -- shells, prefixes, homes


def test_login_shells_of_other_families(net, fresh, change, tmp_path):
    """One of each at once; those that are not installed here have bash."""
    for host, shell in zip(net.names, SHELLS):
        change.login(host, tmp_path, shutil.which(shell) or "/bin/bash")
    nb = fresh(env=dict(net.variables(), OMP_NUM_THREADS="3"), cwd=str(tmp_path))
    cell = nb.ok("%%distribute -n 3 --on ssh:h1,h2,h3 --gather\nimport os\n"
                 "os.path.basename(os.environ['SHELL']), os.environ['OMP_NUM_THREADS'], os.getcwd()", limit=150)
    assert values(cell) == [(name if shutil.which(name) else "bash", "3", str(tmp_path)) for name in SHELLS]


@pytest.fixture
def without(net, change, tmp_path):
    """Takes cellspan away on h1 and h2, where it is here."""
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    for host in ("h1", "h2"):
        for name in ("libexec/cellspan", "lib/cellspan"):
            change.cover(host, PREFIX / name, nothing)


@pytest.fixture
def home(net, change, tmp_path):
    """The home folder of h1 and h2, which is not the notebook's; another cellspan is in `my software` there."""
    folder = tmp_path / "hub" / "users" / "ada"
    for name in ("libexec/cellspan", "lib/cellspan"):
        shutil.copytree(str(PREFIX / name), str(folder / "my software" / name))
    for host in ("h1", "h2"):
        change.login(host, tmp_path, home=str(folder))
    return folder


@pytest.mark.parametrize("prefix", ["~/my software", "%s/my software"])
def test_cellspan_may_be_in_another_prefix_there(net, fresh, without, home, tmp_path, prefix):
    """The notebook's folder and home are only here, as those of a hub's users often are."""
    work = tmp_path / "jovyan" / "work"
    work.mkdir(parents=True)
    for host in ("h1", "h2"):
        net.exec(host, "mount", "-t", "tmpfs", "tmpfs", str(work.parent))
    prefix = prefix % home if "%" in prefix else prefix
    nb = fresh(env=dict(net.variables(), HOME=str(work.parent), CELLSPAN_REMOTE_PREFIX=prefix), cwd=str(work))
    try:
        cell = nb.ok("%%distribute -n 2 --on ssh:h1,h2 --gather\nimport os, cellspan\n"
                     "os.uname().nodename, cellspan.__file__, os.getcwd(), os.path.expanduser('~')", limit=150)
        package = str(home / "my software/lib/cellspan/python/cellspan/__init__.py")
        assert values(cell) == [(host, package, str(home), str(home)) for host in ("h1", "h2")]
        nb.close()
    finally:
        for host in ("h1", "h2"):
            net.exec(host, "umount", "-l", str(work.parent), check=False)
    assert nb.left == []


def test_without_cellspan_there_the_message_has_the_command(net, fresh, without):
    nb = fresh(env=net.variables())
    why = "there is no cellspan-agent; `pip install cellspan` there, or set CELLSPAN_REMOTE_PREFIX"
    error = told_of(nb, ("h1", "h2"), " did not come up: " + why)
    assert error.startswith("h1, h2 did not come up: " + why), error
    assert nb.ok("%%distribute -n 1 --on ssh:h3\nimport os\nos.uname().nodename", limit=150).value == "'h3'"
