# SPDX-License-Identifier: BSD-3-Clause
"""C++ that torch compiles when it is first used: torch.utils.cpp_extension, also DeepSpeed's.

torch lets one process build; the others wait until its file `lock` is gone. cellspan adds three things. The process that builds says so.
A lock whose process has ended is removed; otherwise everybody would wait for ever. And after a build that failed or was interrupted,
load() builds again, without the compilers that may be left of it; torch itself would assume that the library is there, and not find it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import socket
import sys
import time

from .._base.imports import when_imported

CPP = "torch.utils.cpp_extension"
STEPS = ("_jit_compile", "_write_ninja_file_and_build_library", "_import_module_from_library")
LOCAL = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs")  # only this machine writes to these file systems
MARK = "CELLSPAN_BUILDS_IN"  # in the environment of compilers: the folder
POLL_S = 1.0  # seconds between two checks who holds a lock
TURN_S = 5.0  # seconds that a process waits for its turn to take a lock over; later it tries again
LATER_S = 2.0  # seconds that those who waited let the builder's own error go first: it says what is wrong
RUN_LATER_S = 20.0  # the same for ranks of one run: the error ends their wait, but on a busy machine it may come late
SERVERS = (b"ccache", b"sccache")  # a compiler may start one, and it serves others too


def meet():
    """Call it before the user's code runs."""
    if os.path.isdir("/proc/self/fd"):  # else nobody can tell who has a lock
        when_imported(CPP, _help)


def _help():
    cpp = sys.modules[CPP]
    entries = getattr(getattr(cpp, "JIT_EXTENSION_VERSIONER", None), "entries", None)
    if entries is None or getattr(cpp, "FileBaton", Lock) is Lock or not all(hasattr(cpp, step) for step in STEPS):
        return  # another version of torch, or this was done before the process was forked
    cpp.FileBaton = Lock
    for step, ours in zip(STEPS, (_compile, _build, _open)):
        setattr(cpp, step, functools.wraps(getattr(cpp, step))(functools.partial(ours, cpp, getattr(cpp, step))))


def _compile(cpp, inner, name, *args, **given):
    """torch's entry says that the library was built. If it was not, the entry of before is put back."""
    entries = cpp.JIT_EXTENSION_VERSIONER.entries
    before = entries.get(name)
    while True:
        try:
            return inner(name, *args, **given)
        except BaseException as error:
            entries.pop(name, None)
            if before is not None:
                entries[name] = before
            if not isinstance(error, OwnerEnded):
                raise


def _build(cpp, inner, *args, **given):
    name, folder = given.get("name"), given.get("build_directory")
    if not name or not folder:
        return inner(*args, **given)
    if _older(os.path.join(folder, name + getattr(cpp, "LIB_EXT", ".so")), given.get("sources") or ()):
        print(f"cellspan: building {name} once on this machine, in {folder}", file=sys.stderr, flush=True)
    _end_leftovers(os.path.realpath(folder))
    os.environ[MARK] = os.path.realpath(folder)
    try:
        return inner(*args, **given)
    finally:
        os.environ.pop(MARK, None)


def _end_leftovers(folder):
    """Ends the compilers of a build that was interrupted or killed: they would write to the files of the next one. This process has
    the lock, so there are no others."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        left = [process for process in map(int, filter(str.isdigit, os.listdir("/proc"))) if process != os.getpid() and _builds(process, folder)]
        if not left:
            return
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)


def _builds(process, folder):
    try:
        with open(f"/proc/{process}/comm", "rb") as file:
            if file.read().strip() in SERVERS:
                return False
        with open(f"/proc/{process}/environ", "rb") as file:
            return f"{MARK}={folder}".encode() in file.read().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False


def _open(cpp, inner, name, folder, *args, **given):
    path = os.path.join(folder, name + getattr(cpp, "LIB_EXT", ".so"))
    if not os.path.exists(path):
        time.sleep(RUN_LATER_S if Lock.waited_for_own_run else LATER_S)
        raise RuntimeError(f"{name} was not built: there is no {path}. The process that built it says why")
    return inner(name, folder, *args, **given)


def _older(library, sources):
    """Is the library missing, or older than a source?"""
    try:
        made = os.stat(library).st_mtime
        return any(os.stat(source).st_mtime > made for source in sources)
    except OSError:
        return True


class OwnerEnded(Exception):
    """The process for which this one waits has ended."""


class Lock:
    """Has the interface of torch's FileBaton. The file has its owner's machine, process and run, and the owner keeps it open."""

    waited_for_own_run = False  # was the owner for whom this process waited last a rank of the same run?

    def __init__(self, lock_file_path, wait_seconds=0.1, warn_after_seconds=None):
        self.lock_file_path = lock_file_path
        self.wait_seconds = wait_seconds
        self.fd = None

    def try_acquire(self):
        while True:
            try:
                self.fd = _made(self.lock_file_path)
            except FileExistsError:
                try:
                    self.fd = _taken_over(self.lock_file_path)
                except FileNotFoundError:  # it was released in the meantime
                    continue
            return self.fd is not None

    def wait(self):
        reported, check = False, time.monotonic() + POLL_S
        Lock.waited_for_own_run = False
        with contextlib.suppress(FileNotFoundError):
            Lock.waited_for_own_run = _is_of_own_run(_owner(self.lock_file_path)[3])
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            if time.monotonic() < check:
                continue
            with contextlib.suppress(FileNotFoundError):
                if _owner_has_ended(self.lock_file_path):
                    raise OwnerEnded(self.lock_file_path)
                if not reported:
                    reported = True
                    _tell(self.lock_file_path)
            check = time.monotonic() + POLL_S

    def release(self):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.lock_file_path)
        if self.fd is not None:  # not earlier: a file that nobody has open would be taken over
            os.close(self.fd)
            self.fd = None


def _made(path):
    """Makes the file, and returns its descriptor. FileExistsError: there is one."""
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.write(fd, f"{_machine()} {os.getpid()} {os.environ.get('TORCHELASTIC_RUN_ID', '-')}".encode())
    return fd


def _taken_over(path):
    """Replaces a lock whose owner has ended, and returns the descriptor of the new one; None: the owner lives. The file is never
    away in between, since those who wait would assume that the library is there."""
    import hashlib  # home would start later with it, and few notebooks build

    until = time.monotonic() + TURN_S
    with socket.socket(socket.AF_UNIX) as turn:  # one process of this machine at a time
        while True:
            try:
                turn.bind(b"\0cellspan " + hashlib.sha256(os.path.realpath(path).encode()).digest())
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                    return None
                time.sleep(0.05)
        if not _owner_has_ended(path):
            return None
        new = f"{path}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.remove(new)
        fd = _made(new)
        os.rename(new, path)
        return fd


@functools.lru_cache(maxsize=1)
def _machine():
    """The host's name, and what tells apart machines and containers of that name."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{socket.gethostname()} {file.read().strip()}:{os.stat('/proc/self/ns/pid').st_ino}"


def _owner(path):
    """(host, machine, process, run) as the file says; each is empty in a lock of torch's own."""
    with open(path, encoding="utf-8", errors="replace") as file:
        words = file.read().split()
    return words if len(words) == 4 else [""] * 4


def _is_of_own_run(run):
    return run != "-" and run == os.environ.get("TORCHELASTIC_RUN_ID")


def _tell(path):
    """Says for whom this process waits, unless the owner is of the same run: it has said itself that it builds."""
    host, machine, process, run = _owner(path)
    if _is_of_own_run(run):
        return
    who = f"process {process} of {host}" if host else "another process"
    known = f"{host} {machine}" == _machine() or (not host and _on_local_disk(path))
    print(f"cellspan: waits for {who}, which builds in {os.path.dirname(path)}" + ("" if known else f". If it has ended: rm {path}"),
          file=sys.stderr, flush=True)


def _owner_has_ended(path):
    """False also if it can't be known: the owner is on another machine, or of another user."""
    host, machine, process, _ = _owner(path)
    if f"{host} {machine}" != _machine() if host else not _on_local_disk(path):
        return False
    lock = os.stat(path)
    return (lock.st_uid == os.geteuid() or os.geteuid() == 0) and not _is_open(lock, process)


def _is_open(lock, likely):
    """Has a process of this machine the file open? likely: the number of the one that should have it, or ""."""
    return _has_open(likely, lock) or any(_has_open(process, lock) for process in filter(str.isdigit, os.listdir("/proc")))


def _has_open(process, lock):
    folder = f"/proc/{process}/fd"
    with contextlib.suppress(OSError):  # it has ended, or is another user's
        for file in os.listdir(folder):
            with contextlib.suppress(OSError):  # it was closed
                found = os.stat(f"{folder}/{file}")
                if (found.st_dev, found.st_ino) == (lock.st_dev, lock.st_ino):
                    return True
    return False


def _on_local_disk(path):
    """Can only this machine write there?"""
    path, kind, longest = os.path.realpath(path), "", -1
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
        for line in file:
            _, at, found = line.split(" ")[:3]
            at = at.replace("\\040", " ")
            if len(at) >= longest and (path + "/").startswith(at.rstrip("/") + "/"):
                kind, longest = found, len(at)
    return kind in LOCAL
