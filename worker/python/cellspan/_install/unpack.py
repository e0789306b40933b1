# SPDX-License-Identifier: BSD-3-Clause
"""Runs on a node, by its own `python3 -I -c`: reads cellspan from stdin and installs it for this user.

    unpack.py SIZE HASH VERSION NAME

Exactly SIZE bytes are read, since the agent reads what follows them: one or more lists of files with these (payload.packed()), each
compressed. HASH is of all of them, unpacked. NAME is the folder's. It prints the folder, or why there is none,
with exit status 1, or 2 if what came is not what was sent. Nothing of cellspan is here yet: it imports the standard library only, and a
Python 3.6 can run it.
"""
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import zlib

AGENT = os.path.join("libexec", "cellspan", "cellspan-agent")
COUNT = ".files"  # how many files there are, with this one: launchers/agent_script.h
MEMORY = "/dev/shm"
PREFIX = "cellspan-sent-"  # of folders there
UNUSED = 30 * 86400  # seconds after which another version is removed; an agent that runs notes its use (worker/agent/sent_folder.c)
LEFT = 86400  # and what an installation that was killed has left
YOUNG = 60  # a folder in memory may not be locked yet


class NotInstalled(Exception):
    """Why no other place would do either."""


class Damaged(NotInstalled):
    """It is not what was sent."""


def received(size, digest):
    """The files that come on stdin: [(path, mode, bytes)]."""
    pieces, left = [], size
    while left:
        part = os.read(0, min(left, 1 << 20))
        if not part:
            raise Damaged("the connection ended after %d of %d bytes" % (size - left, size))
        pieces.append(part)
        left -= len(part)
    whole = unpacked(b"".join(pieces))
    if hashlib.sha256(whole).hexdigest() != digest:
        raise Damaged("what came is not what was sent: its hash is another one")
    files, at = [], 0
    while at < len(whole):
        end = whole.index(b"\n", at)
        listed, at = json.loads(whole[at:end].decode()), end + 1
        for path, mode, n in listed:
            if path.startswith("/") or ".." in path.split("/"):
                raise NotInstalled("%r is no path for it" % path)
            files.append((path, mode, whole[at:at + n]))
            at += n
    return files


def unpacked(rest):
    """Of one or more compressed pieces."""
    pieces = []
    while rest:
        one = zlib.decompressobj()
        try:
            pieces.append(one.decompress(rest) + one.flush())
        except zlib.error as error:
            raise Damaged("what came is damaged: %s" % error)
        if not one.eof:
            raise Damaged("what came is damaged: its end is missing")
        rest = one.unused_data
    return b"".join(pieces)


def fill(folder, files):
    """Writes them."""
    for path, mode, content in files:
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)


def is_same(folder, files):
    """Whether the folder has these files. Raises OSError if they cannot be read: a file system may fail for a moment, and others run
    what is there."""
    for path, _, content in files:
        try:
            with open(os.path.join(folder, path), "rb") as file:
                if file.read() != content:
                    return False
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return False
    return True


def check_runs(folder, version):
    """Runs the agent: a place may forbid programs, and a machine may lack what they need."""
    agent = os.path.join(folder, AGENT)
    try:
        done = subprocess.run([agent, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except PermissionError:
        raise OSError("no program may run there (is it mounted noexec?)")
    except OSError as error:
        raise NotInstalled("its programs don't run on this machine: %s" % error.strerror)
    said = done.stdout.decode("utf-8", "replace").strip()
    if said != "cellspan-agent " + version:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [said or "exit status %d" % done.returncode]
        raise NotInstalled("its programs don't run on this machine: %s" % lines[-1])


def is_mine(path):
    """Whether the folder is this user's, and nobody else may write into it."""
    found = os.stat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def remove(path):
    """Away at once by its name, and then file by file."""
    removed = tempfile.mkdtemp(prefix=".old-", dir=os.path.dirname(path))
    os.rename(path, os.path.join(removed, "it"))
    shutil.rmtree(removed, ignore_errors=True)


def sweep(parent, name):
    """Removes versions that nobody has used for long."""
    now = time.time()
    for found in os.listdir(parent):
        path = os.path.join(parent, found)
        try:
            age = now - os.lstat(path).st_mtime
            if re.match(r"\.(new|old)-", found) and age > LEFT:
                shutil.rmtree(path, ignore_errors=True)
            elif found != name and re.match(r"[^/]+-[^/-]+-[0-9a-f]{16}$", found) and age > UNUSED:
                remove(path)
        except OSError:
            pass  # another host of the same home may have been faster


def show(new, target, files):
    """Gives the folder its name. Where hosts share a home, another one may have been faster with the same."""
    for _ in range(3):
        try:
            os.rename(new, target)
            return
        except OSError:
            if is_same(target, files):
                shutil.rmtree(new, ignore_errors=True)
                return
            remove(target)  # it is damaged
    os.rename(new, target)


def in_named(base, files, version, name):
    """Installs it under cellspan/NAME in a folder of this user's."""
    if not base:
        raise OSError("is not set")
    if base == os.environ.get("XDG_RUNTIME_DIR") and not is_mine(base):
        raise OSError("is not yours alone")
    parent = os.path.join(base, "cellspan")
    os.makedirs(parent, 0o700, exist_ok=True)
    if not is_mine(parent):
        raise OSError("%s is not yours alone" % parent)
    target = os.path.join(parent, name)
    if os.path.lexists(target) and not is_mine(target):
        raise OSError("%s is not yours alone" % target)
    if not is_same(target, files):
        new = tempfile.mkdtemp(prefix=".new-", dir=parent)
        try:
            fill(new, files)
            check_runs(new, version)
            show(new, target, files)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        sweep(parent, name)
    else:
        check_runs(target, version)
    return target


def sweep_memory():
    """Removes what killed agents of this user have left there: a folder in use is locked."""
    import fcntl

    for found in os.listdir(MEMORY):
        path = os.path.join(MEMORY, found)
        try:
            is_old = found.startswith(PREFIX) and is_mine(path) and time.time() - os.lstat(path).st_mtime > YOUNG
            if is_old and stat.S_ISDIR(os.lstat(path).st_mode):
                folder = os.open(path, os.O_RDONLY)
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(folder)
        except OSError:
            pass


def in_memory(files, version):
    """Installs it for one start, in a folder whose name nobody can know before."""
    sweep_memory()
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=MEMORY)
    try:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise OSError("%s is not yours alone" % folder)
        fill(folder, files)
        check_runs(folder, version)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def install(files, version, name):
    """The folder in the first place that takes it."""
    files = files + [(COUNT, 0o600, b"%d" % (len(files) + 1))]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    places = (
        (cache, lambda: in_named(cache, files, version, name)),
        ("XDG_RUNTIME_DIR", lambda: in_named(os.environ.get("XDG_RUNTIME_DIR"), files, version, name)),
        (MEMORY, lambda: in_memory(files, version)),
    )
    reasons = []
    for place, attempt in places:
        try:
            return attempt()
        except OSError as error:
            reasons.append("%s: %s" % (place, error.strerror or error))
    raise NotInstalled("no place takes it: " + "; ".join(reasons))


def say(line):
    """Prints bytes, so that no locale is in the way."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def refuse(why, status):
    """Says why there is no folder, in one line, and ends."""
    say(" ".join(why.split()).encode("utf-8", "surrogateescape"))
    sys.exit(status)


def main(size, digest, version, name):
    """Prints the folder, or why there is none."""
    try:
        files = received(int(size), digest)
        folder = install(files, version, name)
        say(os.fsencode(folder))
    except NotInstalled as why:
        refuse(str(why), 2 if isinstance(why, Damaged) else 1)
    except Exception as error:  # noqa: BLE001 - only what it prints is told to the user
        refuse("%s: %s" % (type(error).__name__, error), 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
