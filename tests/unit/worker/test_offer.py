# SPDX-License-Identifier: BSD-3-Clause
"""cellspan._install.offer and node: what an engine in Python sends to a node, and what the node does with it."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import platform
import re
import signal
import subprocess
import sys
import time
import zipfile

import pytest
from cellspan._install import offer, payload

VERSION = "0.1.0"
SAYS = "#!/bin/sh\necho cellspan-agent %s\n"
INSIDE = "libexec/cellspan/cellspan-agent"
FILES = {INSIDE: (0o755, (SAYS % VERSION).encode()), "lib/cellspan/python/cellspan/__init__.py": (0o644, b"here = True\n" * 5000)}
OTHER = {"x86_64": "aarch64"}.get(platform.machine(), "x86_64")
# What an engine's task does. It waits for a line before it ends.
TASK = """
import pickle, sys
assert not [name for name in sys.modules if name.startswith("cellspan")]
sent = pickle.load(open(sys.argv[1], "rb"))
for k in range(int(sys.argv[2])):
    exec(sent[:sent.index(0)], names := {})
    try:
        print(names["agent"](sent), flush=True)
    except RuntimeError as error:
        print("refused:", error, flush=True)
sys.stdin.readline()
"""


def program(path, version):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SAYS % version, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


class Cluster:
    """The notebook's machine, and a node that has another home folder and PATH."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.set, self.gone = folder, monkeypatch.setenv, monkeypatch.delenv
        self.agent = program(folder / "here" / INSIDE, VERSION)
        self.home, self.memory, self.path = folder / "home", folder / "memory", folder / "bin"
        for one in (self.home, self.memory, self.path):
            one.mkdir()
        self.can = [(platform.machine(), FILES, "")]
        self.asked, self.more = [], {}
        monkeypatch.setattr(payload, "packages", lambda: self.more)
        monkeypatch.setattr(payload, "offers", lambda *words: self.asked.append(words) or iter(self.can))
        source = offer.source
        monkeypatch.setattr(offer, "source", lambda name: source(name).replace('"/dev/shm"', repr(str(self.memory))))
        for name in ("CELLSPAN_INSTALL", "CELLSPAN_WHEELS", "CELLSPAN_REMOTE_PREFIX"):
            monkeypatch.delenv(name, raising=False)

    @property
    def cache(self):
        return self.home / ".cache" / "cellspan"

    def made(self):
        """What is sent, in a file; the node lacks what the notebook's machine has."""
        path = self.folder / "sent"
        path.write_bytes(pickle.dumps(offer.made(self.agent)))
        return path

    def start(self, path, times=1):
        environ = {"HOME": str(self.home), "PATH": str(self.path)}
        return subprocess.Popen([sys.executable, "-I", "-c", TASK, str(path), str(times)], env=environ, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)

    def run(self, times=1):
        path = self.made()
        if os.path.exists(self.agent):
            os.remove(self.agent)
        said = self.start(path, times).communicate("\n", timeout=120)[0].splitlines()
        program(pathlib.Path(self.agent), VERSION)
        assert len(said) == times
        return said[0] if times == 1 else said


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    return Cluster(tmp_path, monkeypatch)


def test_a_node_without_cellspan_gets_it(cluster):
    path = cluster.run()
    name = os.path.relpath(path, cluster.cache).partition("/")[0]
    assert re.fullmatch(r"%s-%s-[0-9a-f]{16}" % (re.escape(VERSION), platform.machine()), name)
    assert path == str(cluster.cache / name / INSIDE) and os.listdir(cluster.cache) == [name]
    for inside, (mode, content) in FILES.items():
        there = cluster.cache / name / inside
        assert there.read_bytes() == content and os.stat(there).st_mode & 0o700 == mode & 0o700


def test_it_is_found_the_second_time(cluster):
    path = cluster.run()
    before = os.stat(path).st_ino
    assert cluster.run() == path and os.stat(path).st_ino == before


def test_a_damaged_one_is_replaced(cluster):
    path = cluster.run()
    os.remove(path)
    assert cluster.run() == path and os.path.exists(path)


def test_eight_processes_of_a_node_install_it_at_the_same_time(cluster):
    sent = cluster.made()
    os.remove(cluster.agent)
    tasks = [cluster.start(sent) for _ in range(8)]
    paths = {one.communicate("\n", timeout=300)[0].strip() for one in tasks}
    (name,) = os.listdir(cluster.cache)
    assert paths == {str(cluster.cache / name / INSIDE)}


@pytest.mark.parametrize("where", ["the same path", "PATH", "beside cellspan"])
def test_what_the_node_has_is_taken(cluster, where):
    if where == "the same path":
        sent = cluster.made()
        assert cluster.start(sent).communicate("\n", timeout=120)[0].strip() == cluster.agent
    elif where == "PATH":
        own = program(cluster.path / "cellspan-agent", VERSION)
        assert cluster.run() == own
    else:
        own = program(cluster.folder / "there" / INSIDE, VERSION)
        os.symlink(program(cluster.folder / "there" / "bin" / "cellspan", VERSION), cluster.path / "cellspan")
        assert cluster.run() == own
    assert not cluster.cache.exists()


def test_another_version_stays_and_the_notebooks_is_sent(cluster):
    own = program(cluster.path / "cellspan-agent", "0.0.9")
    assert cluster.run().startswith(str(cluster.cache)) and os.path.exists(own)


def test_a_machine_of_another_architecture(cluster):
    cluster.can = [(OTHER, FILES, "")]
    said = cluster.run()
    assert said.startswith("refused: there is no cellspan-agent: install cellspan 0.1.0 there")
    assert "it can't be sent there: it is %s, and what is sent is for %s; set CELLSPAN_WHEELS on" % (platform.machine(), OTHER) in said
    cluster.can.append((platform.machine(), {**FILES, "lib/x": (0o644, b"x")}, ""))
    path = cluster.run()
    assert os.path.exists(os.path.join(path[:-len(INSIDE)], "lib/x"))


def test_why_this_installation_cannot_be_sent(cluster):
    cluster.can = [(platform.machine(), None, "cellspan-agent uses libx.so.1 of this machine")]
    program(cluster.path / "cellspan-agent", "0.0.9")
    said = cluster.run()
    assert said.startswith("refused: it has cellspan-agent 0.0.9: install") and said.endswith(": cellspan-agent uses libx.so.1 of this machine")


def test_nothing_is_sent_if_that_is_forbidden(cluster):
    cluster.set("CELLSPAN_INSTALL", "never")
    assert cluster.run().endswith("it can't be sent there: CELLSPAN_INSTALL is never on the notebook's machine")
    assert not cluster.asked and not cluster.cache.exists()
    own = program(cluster.path / "cellspan-agent", VERSION)
    assert cluster.run() == own


def test_where_the_user_says_nothing_else_is_taken(cluster):
    program(cluster.path / "cellspan-agent", VERSION)
    cluster.set("CELLSPAN_REMOTE_PREFIX", "~/cs")
    assert re.match(r"refused: there is no ~/cs/libexec\S+ of cellspan 0.1.0, where CELLSPAN_REMOTE_PREFIX says", cluster.run())
    own = program(cluster.home / "cs" / INSIDE, VERSION)
    assert cluster.run() == own and not cluster.asked


def test_wheels_are_asked_for_and_a_broken_one_is_told(cluster, monkeypatch):
    cluster.set("CELLSPAN_WHEELS", "/wheels")
    cluster.run()
    assert cluster.asked == [(cluster.agent, VERSION, "/wheels")]

    def broken(*_):
        raise zipfile.BadZipFile("File is not a zip file")

    monkeypatch.setattr(payload, "offers", broken)
    cluster.cache.rename(cluster.folder / "away")
    assert cluster.run().endswith("its files could not be read on the notebook's machine: File is not a zip file")


def test_what_does_not_run_there_says_why(cluster):
    cluster.can = [(platform.machine(), {INSIDE: (0o755, b"#!/bin/sh\necho 'version GLIBC_9.28 not found' >&2; exit 1\n")}, "")]
    assert cluster.run() == "refused: cellspan 0.1.0 can't be installed: its programs don't run on this machine: version GLIBC_9.28 not found"


def test_in_memory_it_is_there_until_the_process_ends(cluster):
    cluster.home.rmdir()
    cluster.home.write_text("")  # no home
    sent = cluster.made()
    os.remove(cluster.agent)
    task = cluster.start(sent, 2)
    first, second = task.stdout.readline().strip(), task.stdout.readline().strip()
    assert first == second and os.path.exists(first) and first.startswith(str(cluster.memory))
    held = subprocess.run(["flock", "--nonblock", os.path.join(cluster.memory, os.listdir(cluster.memory)[0]), "true"])
    assert held.returncode == 1
    task.communicate("\n", timeout=120)
    assert os.listdir(cluster.memory) == []


def test_a_process_that_python_does_not_end_gives_it_back(cluster):
    """Spark ends its Python processes by os._exit(), and keeps those that have not failed."""
    cluster.home.rmdir()
    cluster.home.write_text("")
    sent = cluster.made()
    os.remove(cluster.agent)
    code = ("import os, pickle, sys\nsent, names = pickle.load(open(sys.argv[1], 'rb')), {}\nexec(sent[:sent.index(0)], names)\n"
            "for _ in range(2):\n    path = names['agent'](sent)\n    print(os.path.exists(path))\n    names['release']()\n    print(os.path.exists(path))\n"
            "names['release']()\nsys.stdout.flush()\nos._exit(0)")
    done = subprocess.run([sys.executable, "-I", "-c", code, str(sent)], env={"HOME": str(cluster.home), "PATH": str(cluster.path)},
                          stdout=subprocess.PIPE, text=True, timeout=120)
    assert done.stdout.split() == ["True", "False"] * 2 and os.listdir(cluster.memory) == []


def test_this_installation_is_what_is_sent(monkeypatch):
    """Or why it can't be, where it uses libraries of this machine."""
    for name in ("CELLSPAN_INSTALL", "CELLSPAN_WHEELS", "CELLSPAN_REMOTE_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    agent = os.path.normpath(os.path.join(payload.HERE, "../../../../..", INSIDE))
    if not os.path.exists(agent):
        pytest.skip("the package is not an installation's")
    head, body = offer.made(agent).split(b"\0", 1)[1].split(b"\n", 1)
    row, more = json.loads(head)["rows"][platform.machine()], json.loads(head)["packages"]
    assert row["size"] + more == len(body) < 12 << 20 and bool(more) == ("also" in row) == bool(row["size"]) and bool(row["why"]) == (not row["size"])


MORE = {payload.PACKAGES + "/comm/__init__.py": (0o644, b"comm")}


def inside(path):
    """What is in the folder of an agent."""
    folder = pathlib.Path(path[:-len(INSIDE)])
    return {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()}


def test_a_python_without_packages_gets_them_with_cellspan(cluster, monkeypatch):
    cluster.more, cluster.can = MORE, [(OTHER, FILES, ""), (platform.machine(), FILES, "")]
    without = cluster.run()
    assert inside(without) == {*FILES, ".files"}  # this Python has all of them
    monkeypatch.setattr(payload, "LACKS", "import sys; sys.exit(3)")
    path = cluster.run()
    assert re.search(r"/%s-%s\+%s-[0-9a-f]{16}/" % tuple(map(re.escape, (VERSION, platform.machine(), payload.PYTHON))), path)
    assert inside(path) == {*FILES, *MORE, ".files"} and cluster.run() == path
    own = program(cluster.path / "cellspan-agent", VERSION)
    assert cluster.run() == path  # cellspan alone is not enough
    cluster.more = {}
    assert cluster.run() == own  # where the notebook's machine has none, a rank tells what is lacking
    os.remove(own)
    assert cluster.run() == without


def test_what_the_node_has_runs_where_packages_cannot_come(cluster, monkeypatch):
    monkeypatch.setattr(payload, "LACKS", "import sys; sys.exit(3)")
    cluster.more, own = MORE, program(cluster.path / "cellspan-agent", VERSION)
    for cluster.can in ([(platform.machine(), None, "it uses libx.so.1 of this machine")], [(OTHER, FILES, "")],
                        [(platform.machine(), {INSIDE: (0o755, b"#!/bin/sh\nexit 1\n")}, "")]):
        assert cluster.run() == own
    cluster.can = [(platform.machine(), FILES, "")]
    cluster.set("CELLSPAN_INSTALL", "never")
    assert cluster.run() == own and os.listdir(cluster.cache) == []


def catches(pid, signo):
    """Has the process a handler for this signal?"""
    (mask,) = re.findall(r"^SigCgt:\s*([0-9a-f]+)$", pathlib.Path("/proc/%d/status" % pid).read_text(encoding="utf-8"), re.M)
    return int(mask, 16) >> (signo - 1) & 1


@pytest.mark.parametrize("way", ["stdin", "SIGTERM"])
def test_the_engine_of_the_docs(tmp_path, way):
    top = pathlib.Path(__file__).resolve().parents[3]
    (script,) = re.findall(r"^```py\n(#!.*?)^```", (top / "docs" / "launchers.md").read_text(encoding="utf-8"), re.S | re.M)
    (tmp_path / "lib" / "cellspan").mkdir(parents=True)
    os.symlink(os.path.dirname(os.path.dirname(payload.HERE)), tmp_path / "lib" / "cellspan" / "python")
    agent = program(tmp_path / INSIDE, VERSION)
    with open(agent, "a", encoding="utf-8") as file:
        file.write('[ "$1" != --version ] || exit 0\necho "$CELLSPAN_AGENT $*" >&2\nexec cat\n')
    program(tmp_path / "libexec" / "cellspan" / "cellspan-gpus", VERSION)
    engine = subprocess.Popen([sys.executable, "-c", script, "--ranks", "2", "--", agent, "join", "here"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert sorted(engine.stderr.readline() for _ in range(2)) == ["0 join here\n", "1 join here\n"]
    if way == "SIGTERM":
        limit = time.monotonic() + 120
        while not catches(engine.pid, signal.SIGTERM) and time.monotonic() < limit:
            time.sleep(0.02)
        engine.send_signal(signal.SIGTERM)
        engine.wait(timeout=120)  # its stdin is still open
    said, errors = engine.communicate(timeout=120)
    assert engine.returncode == 0 and said.startswith("nodes 2\n") and errors == "", errors
