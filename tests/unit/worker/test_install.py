# SPDX-License-Identifier: BSD-3-Clause
"""cellspan._install: what is sent to a machine without cellspan, and how it is unpacked there."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import platform
import pwd
import re
import shutil
import stat
import subprocess
import sys
import time
import zlib

import pytest
from cellspan._install import payload, unpack

UNPACK = unpack.__file__
VERSION = "0.1.0"
AGENT = "#!/bin/sh\necho cellspan-agent %s\n" % VERSION
FILES = {
    "libexec/cellspan/cellspan-agent": (0o755, AGENT.encode()),
    "lib/cellspan/python/cellspan/__init__.py": (0o644, b"here = True\n" * 5000),
    "lib/cellspan/python/cellspan/py.typed": (0o644, b""),
}


def sent(files=None):
    """The bytes on the wire, their hash, and the folder's name."""
    whole = payload.packed(files or FILES)
    digest = hashlib.sha256(whole).hexdigest()
    return zlib.compress(whole), digest, "%s-%s-%s" % (VERSION, platform.machine(), digest[:16])


class Node:
    """A machine as unpack.py sees it: a home folder, and maybe the two other places."""

    def __init__(self, folder):
        self.home = folder / "home"
        self.home.mkdir()
        self.memory = folder / "memory"
        self.memory.mkdir()
        self.runtime = None
        self.version = VERSION

    @property
    def cache(self):
        return self.home / ".cache" / "cellspan"

    def start(self, size, digest, name, stdin):
        with open(UNPACK, encoding="utf-8") as file:
            program = file.read().replace('"/dev/shm"', repr(str(self.memory)))
        environ = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        if self.runtime:
            environ["XDG_RUNTIME_DIR"] = str(self.runtime)
        return subprocess.Popen([sys.executable, "-I", "-c", program, str(size), digest, self.version, name], env=environ, stdin=stdin,
                                stdout=subprocess.PIPE, text=True)

    def install(self, files=None, name=None, cut=0, digest=None):
        """Its exit status and what it prints. What follows the bytes on stdin must still be there."""
        wire, real, folder = sent(files)
        path = self.home.parent / "wire"
        path.write_bytes(wire[:len(wire) - cut] + b"" if cut else wire + b"CELLSPAN_AGENT=0\n")
        with open(path, "rb") as stdin:
            one = self.start(len(wire), digest or real, name or folder, stdin)
            said = one.communicate(timeout=120)[0].rstrip("\n")
            assert cut or os.read(stdin.fileno(), 100) == b"CELLSPAN_AGENT=0\n"
        return one.returncode, said


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def files_of(folder):
    return {os.path.relpath(os.path.join(at, name), folder): (stat.S_IMODE(os.stat(os.path.join(at, name)).st_mode) & 0o700,
                                                              open(os.path.join(at, name), "rb").read())
            for at, _, names in os.walk(folder) for name in names}


WANT = {path: (mode & 0o700, content) for path, (mode, content) in FILES.items()}
WANT[".files"] = (0o600, b"%d" % (len(FILES) + 1))


# -- there


def test_it_is_unpacked_into_the_cache_and_no_byte_more_is_read(node):
    status, folder = node.install()
    assert (status, folder) == (0, str(node.cache / sent()[2]))
    assert files_of(folder) == WANT
    assert os.listdir(node.cache) == [sent()[2]] and stat.S_IMODE(os.stat(node.cache).st_mode) == 0o700


def test_what_is_there_already_is_used(node):
    _, folder = node.install()
    before = os.stat(folder).st_ino
    assert node.install() == (0, folder) and os.stat(folder).st_ino == before


def test_hosts_that_share_a_home_install_it_at_the_same_time(node):
    wire, digest, name = sent()
    ends = []
    for _ in range(20):
        ours, theirs = os.pipe()
        one = node.start(len(wire), digest, name, ours)
        os.close(ours)
        ends.append((one, theirs))
    for _, theirs in ends:
        os.write(theirs, wire)
        os.close(theirs)
    assert {(one.communicate(timeout=300)[0].strip(), one.returncode) for one, _ in ends} == {(str(node.cache / name), 0)}
    assert os.listdir(node.cache) == [name] and files_of(node.cache / name) == WANT


def test_a_damaged_one_is_replaced(node):
    _, folder = node.install()
    with open(os.path.join(folder, "lib/cellspan/python/cellspan/__init__.py"), "w", encoding="utf-8"):
        pass
    assert node.install() == (0, folder) and files_of(folder) == WANT
    assert os.listdir(node.cache) == [sent()[2]]


def test_a_file_system_that_fails_does_not_damage_it(tmp_path, monkeypatch):
    files = [(path, mode, content) for path, (mode, content) in FILES.items()]
    folder = unpack.in_named(str(tmp_path), files, VERSION, "it")
    other = tmp_path / "cellspan" / ".new-other"
    shutil.copytree(folder, other)

    def stale(*args):
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(unpack, "open", stale, raising=False)
        for install in (lambda: unpack.in_named(str(tmp_path), files, VERSION, "it"), lambda: unpack.show(str(other), folder, files)):
            with pytest.raises(OSError, match="Stale"):
                install()
    assert unpack.is_same(folder, files) and sorted(os.listdir(tmp_path / "cellspan")) == [".new-other", "it"]


def test_whatever_fails_is_said_in_one_line(monkeypatch, capfdbinary):
    def fails(*args):
        raise MemoryError("no memory\nfor \udcff and é")

    monkeypatch.setattr(unpack, "received", fails)
    with pytest.raises(SystemExit) as end:
        unpack.main("1", "", VERSION, "it")
    assert end.value.code == 1 and capfdbinary.readouterr() == (b"MemoryError: no memory for \xff and \xc3\xa9\n", b"")


def test_two_versions_stand_side_by_side(node):
    other = {**FILES, "libexec/cellspan/cellspan-agent": (0o755, AGENT.replace(VERSION, "0.2.0").encode())}
    name = sent(other)[2].replace(VERSION, "0.2.0")
    folders = set()
    for version, files, called in [(VERSION, FILES, None), ("0.2.0", other, name)] * 2:
        node.version = version
        status, folder = node.install(files, called)
        assert status == 0, folder
        folders.add(folder)
    assert sorted(os.listdir(node.cache)) == sorted(map(os.path.basename, folders)) == sorted([sent()[2], name])
    assert files_of(node.cache / sent()[2]) == WANT


def test_versions_that_nobody_uses_go(node):
    node.cache.mkdir(parents=True, mode=0o700)
    old, young, other = ("%s-x86_64-%016x" % (version, k) for k, version in enumerate(("0.0.8", "0.0.9", "0.0.7")))
    for name in (old, young, "notes", ".new-abc", ".new-def"):
        (node.cache / name).mkdir()
        (node.cache / name / "file").write_text("x")
    (node.cache / other).write_text("a file")
    long_ago = time.time() - 31 * 86400
    for name in (old, "notes", ".new-abc"):
        os.utime(node.cache / name, (long_ago, long_ago))
    assert node.install()[0] == 0
    assert sorted(os.listdir(node.cache)) == sorted([sent()[2], young, "notes", ".new-def", other])


def test_where_the_cache_is_no_place_the_next_one_is_taken(node, tmp_path):
    node.cache.mkdir(parents=True)
    os.chmod(node.cache, 0o777)  # somebody else may have put it there
    node.runtime = tmp_path / "run"
    node.runtime.mkdir(mode=0o700)
    assert node.install() == (0, str(node.runtime / "cellspan" / sent()[2]))
    os.chmod(node.runtime, 0o770)
    status, folder = node.install()
    assert status == 0 and os.path.dirname(folder) == str(node.memory)
    assert re.fullmatch("cellspan-sent-[a-z0-9_]+", os.path.basename(folder)) and stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert files_of(folder) == WANT


def test_folders_in_memory_that_nobody_holds_go(node):
    shutil.rmtree(node.home)  # no home
    node.home.write_text("")
    folders = [node.install()[1] for _ in range(3)]
    assert len(set(folders)) == 3
    long_ago = time.time() - 100
    for folder in folders[:2]:
        os.utime(folder, (long_ago, long_ago))
    held = subprocess.Popen(["flock", "--shared", folders[1], "sleep", "1000"])
    try:
        while subprocess.run(["flock", "--nonblock", folders[1], "true"]).returncode == 0:
            time.sleep(0.05)
        last = node.install()[1]
    finally:
        held.kill()
        held.wait()
    assert sorted(os.listdir(node.memory)) == sorted(map(os.path.basename, folders[1:] + [last]))


def test_all_three_reasons_are_named(node):
    shutil.rmtree(node.home)
    node.home.write_text("")
    shutil.rmtree(node.memory)
    status, said = node.install()
    assert status == 1
    assert re.fullmatch(r"no place takes it: \S+/home/\.cache: Not a directory; XDG_RUNTIME_DIR: is not set; \S+/memory: No such file or directory", said)


@pytest.mark.parametrize("options, words", [
    ({"cut": 100}, "the connection ended after"),
    ({"digest": "0" * 64}, "its hash is another one"),
    ({"files": {"../evil": (0o644, b"x")}}, "'../evil' is no path for it"),
    ({"files": {"libexec/cellspan/cellspan-agent": (0o755, b"#!/bin/sh\necho 'version GLIBC_9.28 not found' >&2; exit 1\n")}},
     "its programs don't run on this machine: version GLIBC_9.28 not found"),
    ({"files": {"libexec/cellspan/cellspan-agent": (0o755, b"#!/nowhere/loader\n")}}, "its programs don't run on this machine: No such file"),
    ({"files": {"libexec/cellspan/cellspan-agent": (0o755, b"#!/bin/sh\necho cellspan-agent 0.0.1\n")}}, "don't run on this machine: cellspan-agent 0.0.1"),
], ids=["cut", "hash", "path", "glibc", "loader", "version"])
def test_what_is_wrong_leaves_nothing(node, options, words):
    status, said = node.install(**options)
    assert status == (2 if set(options) & {"cut", "digest"} else 1) and words in said and "\n" not in said
    assert not os.path.exists(node.cache) or os.listdir(node.cache) == []


def test_a_place_where_no_program_may_run_is_passed_over(node):
    status, said = node.install({"libexec/cellspan/cellspan-agent": (0o644, AGENT.encode())})
    assert status == 1 and said.count("no program may run there (is it mounted noexec?)") == 2


def test_a_folder_into_which_others_may_write_is_passed_over(node):
    assert node.install()[0] == 0
    os.chmod(node.cache / sent()[2], 0o777)
    status, said = node.install()
    assert status == 0 and not said.startswith(str(node.cache)), said


# -- here


def test_equal_files_give_an_equal_hash():
    assert payload.packed(FILES) == payload.packed(dict(reversed(FILES.items())))
    assert sent()[1] != sent({**FILES, "lib/cellspan/python/cellspan/py.typed": (0o644, b"x")})[1]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs packages in a folder that is the only one: makes(name, requires, {path: text})."""
    site = tmp_path / "site"

    def makes(name, requires=(), files=None, top=""):
        info = site / ("%s-1.0.dist-info" % name.replace("-", "_"))
        info.mkdir(parents=True)
        files = {"%s/__init__.py" % name.replace("-", "_"): "", **(files or {})}
        for path, text in files.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)
        (info / "METADATA").write_text("".join("%s\n" % line for line in ["Name: " + name, "Version: 1.0", *("Requires-Dist: " + text for text in requires)]))
        (info / "RECORD").write_text("".join("%s,,\n" % path for path in [*files, "../../bin/" + name, info.name + "/METADATA"]))
        if top:
            (info / "top_level.txt").write_text(top)

    monkeypatch.setattr(payload, "places", lambda: [str(site)])
    makes("ipython", ['traitlets>=5', 'jedi>=0.16', 'colorama; sys_platform == "win32"', 'pytest; extra == "test"'], {
        "IPython/__init__.py": "", "IPython/core/shell.py": "here", "IPython/tests/test_x.py": "", "IPython/__pycache__/x.pyc": ""}, top="IPython\n")
    makes("traitlets", ['Odd.Name (>1) ; python_version > "3"'], {"traitlets/_fast.abi3.so": "", "traitlets/py.typed": ""})
    makes("odd-name", ["ipython"])
    for name in ("comm", "jedi", "pytest", "unasked"):
        makes(name)
    makes("matplotlib-inline")
    makes("cloudpickle", files={"cloudpickle.py": "one file"})
    return site


def test_the_packages_that_ranks_need_are_found(installed):
    files = payload.packages()
    inside = {os.path.relpath(path, payload.PACKAGES) for path in files}
    assert {path for path in inside if ".dist-info" not in path} == {
        "IPython/__init__.py", "IPython/core/shell.py", "traitlets/__init__.py", "traitlets/py.typed", "odd_name/__init__.py", "comm/__init__.py",
        "matplotlib_inline/__init__.py", "cloudpickle/__init__.py", "cloudpickle.py"}
    assert {path for path in inside if ".dist-info" in path} == {
        "%s-1.0.dist-info/METADATA" % name for name in ("ipython", "traitlets", "odd_name", "comm", "matplotlib_inline", "cloudpickle")}
    assert files[payload.PACKAGES + "/IPython/core/shell.py"] == (0o644, b"here")


@pytest.mark.parametrize("gone", ["IPython", "comm-1.0.dist-info", "traitlets/__init__.py", "odd_name"])
def test_no_packages_are_sent_if_one_is_lacking_here(installed, gone):
    at = installed / gone
    shutil.rmtree(at) if at.is_dir() else at.unlink()
    assert payload.packages() == {}


def test_what_is_left_of_a_removed_package_is_none(installed, tmp_path, monkeypatch):
    """Neither here, where its folder would be found first, nor on a machine, where it would be a namespace package."""
    left = tmp_path / "left"
    (left / "traitlets-0.9.dist-info").mkdir(parents=True)
    whole = payload.packages()
    monkeypatch.setattr(payload, "places", lambda: [str(left), str(installed)])
    assert payload.packages() == whole
    (left / "IPython" / "__pycache__").mkdir(parents=True)
    for module in payload.NEEDED:
        if module != "IPython":
            (left / module).mkdir()
            (left / module / "__init__.py").touch()
    there = {"env": {"PYTHONPATH": str(left)}}
    assert subprocess.run([sys.executable, "-S", "-c", payload.LACKS], **there).returncode == 3
    (left / "IPython" / "__init__.py").touch()
    assert subprocess.run([sys.executable, "-S", "-c", payload.LACKS], **there).returncode == 0


def test_what_ranks_need_is_what_home_needs():
    from cellspan import _link

    needs = {module: re.match(r"[\w-]+", package)[0] for module, package in _link.needs().items()}
    assert {**needs, "traitlets": "traitlets"} == payload.NEEDED  # the last: IPython's


def test_this_pythons_packages_are_enough_for_a_rank(tmp_path):
    """A Python without any other imports what a rank does, and what it lacks is told by its exit status."""
    script = tmp_path / "list.py"
    script.write_text("import sys\nsys.path.insert(0, %r)\nimport payload, unpack\nfiles = payload.packages()\n"
                      "unpack.fill(%r, [(path, mode, content) for path, (mode, content) in files.items()])\n" % (
                          os.path.dirname(UNPACK), str(tmp_path)))
    subprocess.run([sys.executable, "-I", "-S", str(script)], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python, env = str(tmp_path / "venv" / "bin" / "python"), {"PYTHONPATH": str(tmp_path / payload.PACKAGES)}
    assert subprocess.run([python, "-c", payload.LACKS], env={}).returncode == 3
    assert subprocess.run([python, "-c", payload.LACKS], env=env).returncode == 0
    assert subprocess.run([python, "-c", payload.LACKS.replace(payload.PYTHON, "3.1")], env={}).returncode == 0  # which has an error of its own
    whole = "import IPython.core.interactiveshell, IPython.core.completer, comm, cloudpickle"
    subprocess.run([python, "-c", whole], env={**env, "HOME": str(tmp_path)}, check=True)


def test_a_package_of_the_machine_that_may_be_too_old_is_named(tmp_path):
    """It comes before the one that was sent, which IPython needs."""
    inside, own = tmp_path / "lib" / "cellspan", tmp_path / "own"
    for folder, version in ((inside / "packages", "5.99"), (own, "4.3")):
        (folder / ("traitlets-%s.dist-info" % version)).mkdir(parents=True)
        (folder / ("traitlets-%s.dist-info" % version) / "METADATA").write_text("Name: traitlets\nVersion: %s\n" % version)
    (own / "traitlets.py").touch()
    (inside / "python").symlink_to(os.path.dirname(os.path.dirname(os.path.dirname(UNPACK))))
    env = {"PYTHONPATH": "%s:%s" % (inside / "python", own), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "cellspan._worker", "zygote", "9"], env=env, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "cannot import name" in done.stderr, done.stderr
    assert done.stderr.splitlines()[-2:] == [
        "cellspan: %s has traitlets 4.3 (5.99 was sent); if that is why, run there: %s -m pip install --upgrade traitlets" % (sys.executable, sys.executable),
        "cellspan: this is Python " + platform.python_version()]


def test_packages_that_change_while_they_are_read_are_not_sent(monkeypatch, capfd):
    """pip may run on the notebook's machine just now."""
    seen = iter([{"comm": (0o644, b"1")}, {"comm": (0o644, b"2")}])
    monkeypatch.setattr(payload, "packages", lambda: next(seen))
    monkeypatch.setattr(payload, "chosen", lambda *_: iter([("x86_64", payload.packed(FILES), "0" * 64, "2.28", "")]))
    payload.main("agent", VERSION)
    (digest,) = re.findall(r"^can x86_64\+\S+ (\w+) ", capfd.readouterr().out, re.M)
    with pytest.raises(SystemExit) as ended:
        payload.main("agent", VERSION, "", digest)
    assert ended.value.code == payload.CHANGED and capfd.readouterr().out == ""


def test_the_packages_come_with_cellspan(node):
    more = {payload.PACKAGES + "/comm/__init__.py": (0o644, b"comm")}
    whole, also = payload.packed(FILES), payload.packed(more)
    digest, wire = hashlib.sha256(whole + also).hexdigest(), zlib.compress(whole) + zlib.compress(also)
    name = "%s-%s+3.11-%s" % (VERSION, platform.machine(), digest[:16])
    for cut, want in ((0, 0), (5, 2)):
        path = node.home.parent / "wire"
        path.write_bytes(wire[:len(wire) - cut])
        with open(path, "rb") as stdin:
            one = node.start(len(wire) - cut, digest, name, stdin)
            said = one.communicate(timeout=120)[0].rstrip("\n")
        assert one.returncode == want, said
        if want == 0:
            assert said == str(node.cache / name) and set(files_of(said)) == {*FILES, *more, ".files"}


def libraries(path):
    """What the loader finds for a program."""
    return set(re.findall(r"^\s*(\S+?)(?: =>| \()", subprocess.run(["ldd", path], capture_output=True, text=True).stdout, re.M))


def test_a_programs_libraries_are_read():
    for path in {os.path.realpath(sys.executable), os.path.realpath("/bin/sh")}:
        with open(path, "rb") as file:
            elf = payload.Elf(file.read())
        assert elf.machine == platform.machine() and "libc.so.6" in elf.needed
        assert set(elf.needed) <= libraries(path)
        assert [int(part) for part in elf.libc.split(".")] <= [int(part) for part in platform.libc_ver()[1].split(".")[:2]]
    assert payload.Elf(b"#!/bin/sh\n").needed == [] and payload.Elf(b"").machine == ""


def test_only_a_program_that_needs_no_library_of_this_machine_is_sent():
    import _ssl

    with open(_ssl.__file__, "rb") as file:
        needs = file.read()
    assert re.fullmatch(r"x uses lib.* of this machine\..*CELLSPAN_WHEELS.*", payload.foreign({"bin/x": (0o755, needs)}))
    assert payload.foreign(FILES) == ""
    with open("/bin/true", "rb") as file:
        assert payload.foreign({"bin/true": (0o755, file.read())}) == ""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A program and a library, as a compiler makes them that was told to write all for debuggers."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "x.c").write_text('#include <stdio.h>\nint answer(void) { return 42; }\nint main(void) { return puts("runs") < 0; }\n')
    for name, options in (("program", []), ("library", ["-shared", "-fPIC"]), ("bare", ["-s"])):
        subprocess.run(["cc", "-g3", *options, "-o", str(folder / name), str(folder / "x.c")], check=True)
    return folder


def test_what_is_sent_has_nothing_for_debuggers(built, tmp_path):
    for name in ("program", "library"):
        whole = (built / name).read_bytes()
        small = payload.stripped(whole)
        assert len(small) < len(whole) and b"debug" in whole and b"debug" not in small
        assert (payload.Elf(small).needed, payload.Elf(small).libc) == (payload.Elf(whole).needed, payload.Elf(whole).libc)
        assert payload.stripped(small) == small
        (tmp_path / name).write_bytes(small)
        (tmp_path / name).chmod(0o755)
    assert subprocess.run([str(tmp_path / "program")], capture_output=True).stdout == b"runs\n"
    assert ctypes.CDLL(str(tmp_path / "library")).answer() == 42


def test_what_has_nothing_for_debuggers_is_sent_as_it_is(built):
    for content in ((built / "bare").read_bytes(), b"\x7fELF", b"#!/bin/sh\n", b""):
        assert payload.stripped(content) == content


def test_a_folder_is_owned_by_the_user(tmp_path):
    assert unpack.is_mine(str(tmp_path))
    if os.geteuid() == 0:
        os.chown(tmp_path, pwd.getpwnam("nobody").pw_uid, -1)
        assert not unpack.is_mine(str(tmp_path))
