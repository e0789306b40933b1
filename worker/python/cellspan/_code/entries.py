# SPDX-License-Identifier: BSD-3-Clause
"""What is on this node of the project's names: state.json, which all ranks of the node and their children read.

An entry: {"digest": home's, "home": the process of home that sent it, "cell": the number of the cell that ran then, or null, "listed": the
digest that home had listed for that cell, if its files were others by the time they came, "roots": folders of home, "here": are its files used at home's own
paths?, "files": [[path, size, sha256, mode]], "left": [[path, size, why]], "empty": folders without files, of --with, "seen": {path: the
state_of() of a file that is used in place, if this machine sees all its changes}}. A name can have several entries, with other roots: a
script's folder may have another module of the same name.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import stat
import zlib

from .._base.filesystems import state_of

UNKNOWN = "unknown"  # instead of a digest: home has not said one of this name
PACKED = 16 << 10  # characters from which on an answer is compressed: paths of one folder are alike
BLOCK = 1 << 20  # bytes that are copied at once
MAIN = "__main__.py"  # the file of a script that is a folder
NEW = re.compile(r"\.cellspan-\d+-[0-9a-f]{12}\Z")  # what new_name() returns
ABANDONED = 3600.0  # seconds after which nobody waits for what home says of a file


class Unavailable(Exception):
    """Home's files can't be had; the text says why."""


class Late(Unavailable):
    """Home has not answered in time."""


class Refused(Exception):
    """The cell can't run as its options want; the text is one line."""


def packed(value):
    """An answer as text."""
    text = json.dumps(value)
    if len(text) < PACKED:
        return text
    return json.dumps({"packed": base64.b64encode(zlib.compress(text.encode(), 1)).decode()})


def unpacked(text):
    """The answer of this text."""
    value = json.loads(text)
    return json.loads(zlib.decompress(base64.b64decode(value["packed"]))) if "packed" in value else value


def key_of(name, roots):
    """An entry's key."""
    return "\n".join((name, *roots))


def fits(entry, digest, home, cell=None):
    """Is this entry, or None, what home has? digest: home's, or "": home has not said it. Then any that this process of home has sent will do:
    it tells with the next cell what has changed since. Another process of home does not know what is here. UNKNOWN: this process of home must
    have sent it in this cell. What was listed for this cell may have changed at home before it came. home: as in the listing."""
    if entry is None:
        return False
    if digest == UNKNOWN:
        return cell is not None and entry.get("cell") == cell and entry.get("home", "") == home
    if not digest:
        return entry.get("home", "") == home
    return entry["digest"] == digest or (entry.get("listed") == digest and cell is not None and entry.get("cell") == cell)


def changed_in_place(entry):
    """Was a file that is used at home's own path changed on this machine alone?"""
    return any(state_of(path) != state for path, state in entry.get("seen", {}).items())


class Entries:
    """folder: the code folder of the agent."""

    def __init__(self, folder):
        self._path = os.path.join(folder, "state.json")
        self._read = None, {}  # when what was read was written, and what it is; assigned at once, for several threads

    def all(self):
        """{key: entry}; it is not to be changed."""
        try:
            seen = os.stat(self._path)
        except OSError:
            return {}
        stamp, (known, entries) = (seen.st_ino, seen.st_mtime_ns, seen.st_size), self._read
        if stamp != known:
            with open(self._path, encoding="utf-8", errors="surrogateescape") as file:
                entries = json.load(file)["entries"]
            self._read = stamp, entries
        return entries

    @property
    def stamp(self):
        """Is another one when all() has read something new."""
        return self._read[0]

    def get(self, key):
        """The entry, or None."""
        return self.all().get(key)

    def write(self, entries):
        """Makes them visible for all. The caller has the lock."""
        write_file(self._path, json.dumps({"entries": entries}).encode())  # dump() takes several times as long
        seen = os.stat(self._path)
        self._read = (seen.st_ino, seen.st_mtime_ns, seen.st_size), entries


def write_file(path, data, mode=0o600, at=None, digest="", unseen=False):
    """Writes a file, and makes it visible when it is whole. data: bytes, or a file that is copied. at: its time. digest: False is returned,
    and nothing is written, if the data has another sha256. unseen: nobody looks at a new one before it is whole, which is quicker."""
    fd = _opened(path, mode) if unseen else None
    made = path
    if fd is None:
        made = os.path.join(os.path.dirname(path), new_name())
        fd = _opened(made, 0o600)
    try:
        hashed = hashlib.sha256()
        with open(fd, "wb", buffering=0) as file:
            for block in iter(lambda: data.read(BLOCK), b"") if hasattr(data, "read") else (data,):
                if digest:
                    hashed.update(block)
                while block:
                    block = block[file.write(block) :]
            if made != path:
                os.fchmod(fd, mode)
        if digest and hashed.hexdigest() != digest:
            os.unlink(made)
            return False
        if at is not None:
            os.utime(made, (at, at))
        if made != path:
            os.rename(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
    return True


def new_name():
    """A name that no file has, also if several machines write to the folder."""
    return f".cellspan-{os.getpid()}-{os.urandom(6).hex()}"


def remove_abandoned(path):
    """Removes the empty files with a new_name() that killed processes have left in the folder of this new file: those that are much older, by
    the clock of the machine that has the folder. Processes of other machines may use younger ones."""
    with contextlib.suppress(OSError):
        now = os.lstat(path).st_mtime
        with os.scandir(os.path.dirname(path)) as entries:
            others = [entry.path for entry in entries if NEW.match(entry.name)]
        for other in others:
            with contextlib.suppress(OSError):
                seen = os.lstat(other)
                if stat.S_ISREG(seen.st_mode) and not seen.st_size and now - seen.st_mtime > ABANDONED:
                    os.unlink(other)


def _opened(path, mode):
    """A descriptor of a new file. None: there is a file of this name."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        return None
