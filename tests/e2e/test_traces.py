# SPDX-License-Identifier: BSD-3-Clause
"""What cellspan leaves: every file, socket, memory file and process that it makes, while it runs and afterwards.

A kernel gets its own folders for everything that it may write. The test examines all that is in them, and all that its
processes have open: who owns it, who else could reach it, and whether it is gone when it should be.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import threading
import uuid

import processes
import pytest
from client import Notebook, values

RECORD = """%%distribute
from torch.distributed.elastic.multiprocessing.errors import record

@record
def train():
    raise ValueError("bad batch")


train()"""
OPEN = "%%distribute --gather\nimport os\nfile = os.environ['TORCHELASTIC_ERROR_FILE']\nopen(file, 'w').close()\nfile"


class Places:
    """Folders of a kernel's own: TMPDIR, XDG_RUNTIME_DIR, HOME, and where it runs."""

    def __init__(self, base):
        self.base = str(base)
        for name in ("tmp", "run", "home", "cwd"):
            os.makedirs(os.path.join(self.base, name), mode=0o700)
        self.env = {"TMPDIR": self.base + "/tmp", "XDG_RUNTIME_DIR": self.base + "/run", "HOME": self.base + "/home",
                    "IPYTHONDIR": self.base + "/home/.ipython", "CELLSPAN_GPU_LEASES": self.base + "/tmp/leases"}

    def notebook(self, **env):
        return Notebook(env=dict(self.env, **env), cwd=self.base + "/cwd")

    def files(self, *names):
        """{path: its lstat} of what is in these folders; where cellspan may leave something: tmp and run."""
        found = {}
        for name in names or ("tmp", "run", "cwd"):
            for folder, below, files in os.walk(os.path.join(self.base, name)):
                for path in (os.path.join(folder, entry) for entry in below + files):
                    try:
                        found[path] = os.lstat(path)
                    except FileNotFoundError:
                        pass
        return found


@pytest.fixture
def places(tmp_path_factory):
    base = "/tmp/cs-%s" % uuid.uuid4().hex[:8]  # a socket's path has to be short
    os.mkdir(base, 0o700)
    yield Places(base)
    for folder, below, files in os.walk(base, topdown=False):
        for entry in files:
            os.unlink(os.path.join(folder, entry))
        for entry in below:
            path = os.path.join(folder, entry)
            os.unlink(path) if os.path.islink(path) else os.rmdir(path)
    os.rmdir(base)


class Shared:
    """What a kernel's processes make where all processes of a machine put their things. Other tests run beside this one, so not all
    that is new there is the kernel's: only what its processes had open, or what has the number of one of them in its name."""

    FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock", "/run/user/%d" % os.geteuid())

    def __init__(self):
        self._before = self._now()

    def watch(self, marker):
        """Until left() is called, notes the numbers of the kernel's processes and what they have open: afterwards nobody knows."""
        self._marker = marker
        self._pids, self._opened = set(), set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._note, daemon=True)
        self._thread.start()

    def _now(self):
        """{path: its inode}."""
        found = {}
        for folder in self.FOLDERS:
            try:
                found.update((entry.path, entry.inode()) for entry in os.scandir(folder))
            except OSError:
                pass
        return found

    def _note(self):
        while not self._over.wait(0.2):
            self._pids.update(processes.marked(self._marker))
            self._opened.update(target for _, target, _ in opened(self._marker))

    def made(self):
        """The paths of what is new, and the kernel's."""
        found = set()
        for path, inode in self._now().items():
            if self._before.get(path) == inode:
                continue
            numbers = {int(word) for word in re.split(r"[^0-9A-Za-z]", os.path.basename(path)) if word.isdigit()}
            if numbers & self._pids or any((target + "/").startswith(path + "/") for target in self._opened):
                found.add(path)
        return found

    def left(self):
        self._over.set()
        self._thread.join()
        return self.made()


def reachable(path, info):
    """Could another user open it? Its own mode counts, and that of each folder above."""
    def closed(one, bits):
        return one.st_uid == os.geteuid() and not stat.S_IMODE(one.st_mode) & bits

    if closed(info, 0o077) or stat.S_ISLNK(info.st_mode):
        return False
    above = os.path.dirname(path)
    while len(above) > 1 and not re.fullmatch(r"/tmp/cs-[0-9a-f]{8}(/tmp|/run)?", above):  # these are closed by the test
        try:
            if closed(os.lstat(above), 0o011):
                return False
        except FileNotFoundError:  # it went meanwhile, and took what was in it along
            return False
        above = os.path.dirname(above)
    return True


def opened(marker):
    """[(pid, target, its stat)] of what the kernel's processes have open, or mapped, that has been made for them."""
    found = []
    for pid in processes.marked(marker):
        try:
            names = os.listdir("/proc/%d/fd" % pid)
        except OSError:
            continue
        for name in names:
            path = "/proc/%d/fd/%s" % (pid, name)
            try:
                found.append((pid, os.readlink(path), os.stat(path)))
            except OSError:
                pass
    return found


def sockets(marker):
    """The paths (or abstract names) of unix sockets that these processes have; and their TCP ports: addresses."""
    inodes = {re.findall(r"\d+", target)[0] for _, target, _ in opened(marker) if target.startswith("socket:[")}
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    named = {row[7] for row in rows if len(row) > 7 and row[6] in inodes}
    addresses = set()
    for table in ("tcp", "tcp6"):
        with open("/proc/net/" + table, encoding="ascii") as file:
            for row in (line.split() for line in file.readlines()[1:]):
                if row[3] == "0A" and row[9] in inodes:
                    addresses.add(row[1].split(":")[0])
    return named, addresses


def check_while_it_runs(places, marker, shared=None):
    """All that is there now is this user's, and nobody else's to open."""
    there = {path: os.lstat(path) for path in shared.made()} if shared else {}
    for path, info in {**places.files("tmp", "run"), **there}.items():
        assert info.st_uid == os.geteuid(), path
        assert not reachable(path, info), "%s has mode %o" % (path, stat.S_IMODE(info.st_mode))
    memory = 0
    for pid, target, info in opened(marker):
        if target.startswith("/memfd:"):
            memory += 1
            assert info.st_uid == os.geteuid() and not stat.S_IMODE(info.st_mode) & 0o077, (processes.command(pid), target, oct(info.st_mode))
    named, addresses = sockets(marker)
    for path in named:  # a reserved port (worker/agent/net/port.h) is a name alone: nobody listens there
        assert path.startswith((places.base, "@cellspan-port-")), "a socket that others may find: %s" % path
    assert addresses <= {"0100007F", "00000000000000000000000001000000"}, "ports that others may reach: %s" % addresses
    return memory


def work(nb):
    """Cells that use all that makes files: variables, blobs, a script, an error file, collectives."""
    nb.ok("import numpy\nbig = numpy.ones(1_000_000)")
    assert values(nb.ok("%%distribute -n 3 --gather\nfloat(big.sum())")) == [1e6] * 3
    return values(nb.ok(OPEN))


def gone(places, marker, shared):
    """Nothing is left of a kernel: no process, no file, also not where others put theirs."""
    assert processes.gone(marker) == []
    assert places.files() == {}
    assert shared.left() == set()


def test_while_it_runs_nothing_is_open_to_others_and_afterwards_nothing_is_left(places):
    shared = Shared()
    nb = places.notebook()
    shared.watch(nb.marker)
    try:
        files = work(nb)
        assert len(set(files)) == 3 and all(path.startswith(places.base + "/run/cellspan-") for path in files), files
        assert check_while_it_runs(places, nb.marker) > 0, "the array is in a memory file"
        nb.ok("%%distribute -r 2\nimport os, signal\nrank = 2") and nb.run("%%distribute -r 2\nos.kill(os.getpid(), signal.SIGKILL)").assert_error("RankDied")
        assert processes.wait_until(lambda: not os.path.exists(os.path.dirname(files[2])), 30), "it goes with its rank"
        assert os.path.exists(files[0]), "and no other"
        nb.ok("%ranks restart")
        assert processes.wait_until(lambda: not any(os.path.exists(os.path.dirname(path)) for path in files), 30)
        files = work(nb)
        check_while_it_runs(places, nb.marker, shared)
    finally:
        nb.close()
    gone(places, nb.marker, shared)


@pytest.mark.only_names
def test_the_walk_finds_what_a_kernel_leaves(places):
    """On purpose: a file of a rank's, one that home had open, and a memory file of torch's kind. The walk would be worth nothing
    otherwise."""
    shared = Shared()
    nb = places.notebook()
    shared.watch(nb.marker)
    made = ["/dev/shm/torch_%d_1_0" % nb.home_pid(), "/tmp/cellspan-%s" % nb.marker]
    try:
        nb.ok("open(%r, 'w').close()\nkept = open(%r, 'w')" % tuple(made))
        made.append(nb.ok("%%distribute -n 2 -r 1\nimport os\nname = '/var/tmp/cellspan-%d-left' % os.getpid()\nos.mkdir(name, 0o755)\nname").value.strip("'"))
        assert processes.wait_until(lambda: shared.made() == set(made), 30), shared.made()
        with pytest.raises(AssertionError, match="has mode"):
            check_while_it_runs(places, nb.marker, shared)
        nb.close()
        with pytest.raises(AssertionError, match="torch_"):
            gone(places, nb.marker, shared)
    finally:
        nb.close()
        for path in made:
            os.rmdir(path) if os.path.isdir(path) else os.unlink(path)


def test_the_error_file_is_in_use_and_nobody_elses(places, torch):
    """A name that can be guessed would let another user put a link there, and have a file of the victim's overwritten."""
    nb = places.notebook()
    try:
        nb.run("%%distribute -n 2\n" + RECORD.partition("\n")[2]).assert_error("ValueError")
        told = nb.ok("%%distribute\nimport json, os\njson.load(open(os.environ['TORCHELASTIC_ERROR_FILE']))['message']['message']").value
        assert "bad batch" in told
        check_while_it_runs(places, nb.marker)
        modes = values(nb.ok("%%distribute --gather\noct(os.stat(os.path.dirname(os.environ['TORCHELASTIC_ERROR_FILE'])).st_mode & 0o777)"))
        assert modes == ["0o700"] * 2
        assert "CELLSPAN_RUNTIME" not in nb.ok("%%distribute --gather\nlist(os.environ)").value
    finally:
        nb.close()


@pytest.mark.parametrize("who", ["kernel", "agent", "restart"])
def test_what_is_left_of_one_that_is_killed(places, who):
    shared = Shared()
    nb = places.notebook()
    shared.watch(nb.marker)
    try:
        work(nb)
        if who == "kernel":
            os.kill(nb.pid, signal.SIGKILL)
        elif who == "agent":
            (agent,) = processes.named(nb.marker, "cellspan-agent")
            os.kill(agent, signal.SIGKILL)
            assert processes.wait_until(lambda: nb.fine(), 60)
            check_while_it_runs(places, nb.marker)
            work(nb)
        else:
            nb.km.restart_kernel(now=True)
            nb.kc.wait_for_ready(timeout=60)
            check_while_it_runs(places, nb.marker)
    finally:
        nb.close()
    gone(places, nb.marker, shared)


def test_what_kernel_and_agent_leave_when_both_are_killed_the_next_kernel_sweeps(places):
    """Nobody was there to remove their folder. One that is held by somebody who lives is left alone."""
    living, dead = places.notebook(), places.notebook()
    try:
        held = set(places.files("run"))
        work(living)
        work(dead)
        agents = processes.named(dead.marker, "cellspan-agent")
        for pid in (*agents, dead.pid):
            os.kill(pid, signal.SIGSTOP)
        for pid in (*agents, dead.pid):
            os.kill(pid, signal.SIGKILL)
        assert processes.gone(dead.marker) == []
        folders = {path for path in places.files("run") if os.path.dirname(path).endswith("/run")}
        assert len(folders) == 2 and folders <= held, folders
        third = places.notebook()
        try:
            third.ok("1")
            left = {path for path in places.files("run") if os.path.dirname(path).endswith("/run")}
            assert len(left) == 2 and len(left & folders) == 1, (folders, left)
            assert values(living.ok(OPEN))[0].startswith(tuple(left & folders))
        finally:
            third.close()
    finally:
        living.close()
        dead.close()
    assert places.files() == {}


def test_a_host_is_left_as_it_was(fresh, hosts, places):
    """One folder on every node, closed to others, and gone with the agent; also when the agent is killed."""
    look = "%%distribute --gather\nimport os\nfile = os.environ['TORCHELASTIC_ERROR_FILE']\nopen(file, 'w').close()\nos.uname().nodename, file, oct(os.stat(os.path.dirname(os.path.dirname(file))).st_mode & 0o777)"
    for way in ("stop", "kill", "guard"):
        nb = fresh(env=dict(hosts.variables(), HOME=places.base + "/home"))
        nb.ok("%%distribute -n 2 --on ssh:h1,h2\n1", limit=150)
        there = values(nb.ok(look))
        assert [host for host, _, _ in there] == ["h1", "h2"] and {mode for _, _, mode in there} == {"0o700"}, there
        folders = {os.path.dirname(os.path.dirname(file)) for _, file, _ in there}
        assert len(folders) == 2 and all(os.path.isdir(folder) for folder in folders)  # the hosts share our /tmp
        if way == "stop":
            nb.ok("%ranks stop")
        elif way == "kill":
            for host in ("h1", "h2"):
                assert hosts.signal(host, "KILL", "cellspan-agent --connect") == 1, hosts.workers(host)
        else:
            hosts.kill("h1")
            hosts.start("h1")
            nb.ok("%ranks stop")
            # h1 has lost its power, so its folder stays until an agent begins there, which may be another test's
            of_h2 = [os.path.dirname(os.path.dirname(file)) for host, file, _ in there if host == "h2"]
            assert processes.wait_until(lambda: not os.path.isdir(of_h2[0]), 60), folders
            nb.ok("%%distribute -n 1 --on ssh:h1\n1", limit=150)
        assert processes.wait_until(lambda: not any(os.path.isdir(folder) for folder in folders), 60), (way, folders)
        nb.close()
        assert hosts.left() == []
