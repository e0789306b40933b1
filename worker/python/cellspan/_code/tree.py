# SPDX-License-Identifier: BSD-3-Clause
"""The project's files on another machine. All ranks of a node share them, in one folder of the agent's:

    store/ab/HASH   each content that came, once
    tree/PATH       links to them: a file of home is here at home's own path, behind the tree's
    state.json      {"entries": {key: entry}}: what is here of which name; see entries.py
    lock            is held by the rank that asks home or changes files
    absent/CELL     names that home does not have, while a cell runs

What has the same bytes at home's path on this machine (a shared file system) is used where it is. Everything that this module needs is
imported at its beginning: it works while modules are imported.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import hashlib
import importlib.metadata  # importlib.invalidate_caches() needs it
import json
import mmap  # noqa: F401 - for what _link.find() returns
import os
import re
import stat
import threading
import time
from importlib.machinery import PathFinder

from .._base.filesystems import is_local, mounts, state_of
from .entries import BLOCK, UNKNOWN, Entries, Late, Unavailable, changed_in_place, fits, key_of, unpacked, write_file
from .in_place import InPlace
from .room import Room

TRIES = 3  # for files that change at home while they are read
BATCH, BATCH_BYTES = 4096, 128 << 20  # files and bytes of one question
LATE = "the notebook's process was busy for 10 s and did not answer"
CLIP = 200  # characters of a reason
NO_PATH = re.compile(r"\A(?!/)|//|/\.\.?(/|\Z)|.+/\Z")  # is in a path that is not absolute, or not in its shortest form

_OTHER = ": the ranks there use the notebook's"
_ANY_MORE = (
    " any more: imports there use the notebook's from now on. What ranks have imported already finds the files beside it as they are on {0} now: "
    "%ranks restart ends that"
)

File = collections.namedtuple("File", "path size hash mode")  # a file of a manifest


def canonical(value):
    """JSON in one form: equal questions of many ranks are answered once."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class Tree:
    """find: as _link.find(): (what, content) -> (content, bytes or None)."""

    def __init__(self, folder, find, host):
        self.folder, self.root = folder, os.path.join(folder, "tree")
        self.entries = Entries(folder)
        self._store = os.path.join(folder, "store")
        self._find, self._host = find, host
        self._busy, self._room = threading.local(), Room(folder)
        self._lines = collections.deque()  # for the user
        self._folders, self._written = set(), {}  # that are there, and {hash: mode} of contents; while one entry is renewed
        self._in_place = InPlace(folder)
        self._cell = None  # the number of the cell that runs
        self._absent = None  # the file of absent names; None: no cell runs
        for path in (self.root, self._store):
            os.makedirs(path, mode=0o700, exist_ok=True)

    # ---- names -------------------------------------------------------------------------------------------------------

    def bring(self, name, roots=(), digest="", home="", recheck=False, keep=False):
        """The entry of a top-level module, once its files are here as home wants them; see fits(). None: home has no such name, and its files
        are removed; with `keep`, only if home has their folder. recheck: its files that are used in place may have changed. Raises Unavailable."""
        question = {"name": name, "roots": list(roots)} if roots else {"name": name}
        return self._bring(key_of(name, roots), question, digest, home, recheck, keep)

    def bring_with(self, path, digest):
        """The same for a file or folder of --with."""
        return self._bring(key_of("", (path,)), {"with": path}, digest, "")

    def find_folder(self, folders):
        """Which names are in the first of these folders that home has: {"folder", "names", "namespaces", "states"}; the first three are missing if
        there is none. states: {folder: what the listing says of it as long as nothing there changes}. Raises Unavailable."""
        said, _ = self._ask("tree", {"folders": list(folders)})
        return said

    def seen_at_home(self, names):
        """For each (folder of home, name): is there such a file? Names are new_name()s. Raises Unavailable."""
        said, _ = self._ask("tree", {"seen": [list(one) for one in names]})
        return said["seen"]

    def is_at_home(self, path):
        """Could a --with of this path bring something? Raises Unavailable."""
        said, _ = self._ask("tree", {"path": path})
        return said["there"]

    def refresh_in_place(self, home):
        """Brings what is used in place, and was changed on this machine alone. Yields (name, Unavailable) of what could not come. home: as for
        bring()."""
        entries, failed = self.entries.all(), False  # read anew if another rank has brought something
        for key in self._in_place.changed(entries):
            name, *roots = key.split("\n")
            try:
                self._bring(key, {"name": name, "roots": roots} if name else {"with": roots[0]}, entries[key]["digest"], home, True)
            except Unavailable as error:
                failed = True
                yield name or roots[0], error
        if not failed:  # else they are brought with the next cell
            self._in_place.done()

    def drop(self, keys):
        """Removes what home no longer has."""
        if any(key in self.entries.all() for key in keys):
            with self.locked():
                for key in keys:
                    self._forget(key)

    def cell_begins(self, cell):
        """cell: its number. What home did not have while another cell ran may be there now. None: no cell is known."""
        folder, self._absent = os.path.join(self.folder, "absent"), None
        self._cell = cell
        if cell is None:
            return
        with contextlib.suppress(OSError):  # no room: each process asks by itself
            os.makedirs(folder, mode=0o700, exist_ok=True)
            for name in os.listdir(folder):
                if name != str(cell):
                    os.unlink(os.path.join(folder, name))
            self._absent = os.path.join(folder, str(cell))

    def _is_absent(self, key):
        """Has a process of this node learnt in this cell that home has no such name?"""
        try:
            with open(self._absent or "", encoding="utf-8", errors="surrogateescape") as file:
                return key in file.read().split("\n")
        except OSError:
            return False

    def _note_absent(self, key):
        with contextlib.suppress(OSError):
            if self._absent and "\n" not in key:  # with its folders it is one that home lists
                with open(self._absent, "a", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(key + "\n")

    def lines(self):
        """Yields what is to be said to the user, once."""
        while self._lines:
            yield self._lines.popleft()

    def first(self, what):
        """True for the first rank of this node that asks for `what`, which is text. It is the one that says something."""
        reported = os.path.join(self.folder, "reported")
        try:
            os.makedirs(reported, mode=0o700, exist_ok=True)
            os.close(os.open(os.path.join(reported, hashlib.sha256(what.encode()).hexdigest()), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        except OSError:  # no room; the line may come twice
            pass
        return True

    def _bring(self, key, question, digest, home, recheck=False, keep=False):
        entry = self.entries.get(key)
        if fits(entry, digest, home, self._cell) and not (recheck and changed_in_place(entry)):
            return entry
        if self._is_absent(key):
            return None
        if getattr(self._busy, "on", False):  # an object's __del__ imports meanwhile
            raise Unavailable("it is needed while another module comes")
        self._busy.on, began = True, time.time()
        try:
            with self.locked():
                now = self.entries.get(key)
                if fits(now, digest, home, self._cell) and not (recheck and changed_in_place(now)):  # another rank has done it
                    return now
                if self._is_absent(key):
                    return None
                if self._was_late(began):
                    raise Late(LATE)
                why = self._room.why_not(key, digest)
                if not why:
                    return self._renew(key, question, now, home, keep, digest)
        except OSError as error:
            why = self._room.failed(key, digest, error)
        finally:
            self._busy.on = False
        raise Unavailable(f"it can't be stored on {self._host}, in {self.folder}: {why}")

    @contextlib.contextmanager
    def locked(self):
        """Within the block no other rank of this node changes files."""
        fd = os.open(os.path.join(self.folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)  # a process that was forked meanwhile has the same lock
            os.close(fd)

    def _ask(self, what, question):
        try:
            content, blob = self._find(what, canonical(question))
        except TimeoutError:
            self._was_late(None)
            raise Late(LATE) from None
        said = unpacked(content)
        if "error" in said:
            raise Unavailable(str(said["error"])[:CLIP])
        return said, blob

    def _was_late(self, since):
        """Has another rank waited for home in vain since then? None: notes that this one has."""
        path = os.path.join(self.folder, "late")
        with contextlib.suppress(OSError):
            if since is not None:
                return os.stat(path).st_mtime >= since
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            os.utime(path)
        return False

    def _renew(self, key, question, before, home, keep, listed):
        self._folders, self._written = set(), {}
        self._room.needs(())
        for _ in range(TRIES):
            said, _ = self._ask("tree", question)
            if not said or "gone" in said:
                if not keep or said:
                    self._forget(key)
                self._note_absent(key)
                return None
            files = [File(*row) for row in said["files"]]
            for row in files:
                if NO_PATH.search(row.path):
                    raise Unavailable(f"{row.path} is no absolute path")
            entry = {"digest": said["digest"], "roots": said["roots"], "left": said.get("left", []), "files": [list(row) for row in files]}
            entry["home"], entry["cell"] = home, self._cell
            entry["empty"] = [path for path in said.get("empty", ()) if not NO_PATH.search(path)]
            alike, others = self._alike(files)
            entry["here"] = bool(files) and len(alike) == len(files) and self._is_found(question, entry)
            if entry["here"]:
                entry["seen"] = _seen_here(alike)
            else:
                if "name" in question:
                    self._say_other(others, before)
                if not self._fetch(_changed(entry, before), alike):
                    continue
            if listed not in ("", UNKNOWN, entry["digest"]):
                self._say_newer(key, entry, listed)
            self._put(key, entry, before)
            if not files:  # a folder without modules is a package, too
                for root in entry["roots"]:
                    os.makedirs(os.path.join(self.root + root, question.get("name", "")), mode=0o700, exist_ok=True)
            return entry
        raise Unavailable("its files change at home while they are read")

    # ---- what is on this machine already -----------------------------------------------------------------------------

    @staticmethod
    def _alike(files):
        """({path: state} of those files that are at home's path here, too, with the same bytes; paths of those with others). A file is opened
        before it is looked at: then NFS asks its server."""
        found, others, listed = {}, [], {}
        for row in files:
            folder, base = os.path.split(row.path)
            try:
                if folder not in listed:
                    listed[folder] = set(os.listdir(folder))  # as Python's finders see it
                if base not in listed[folder]:
                    continue
                state = state_of(row.path)
                if hash_of(row.path, row.size) == row.hash:
                    found[row.path] = state
                else:
                    others.append(row.path)
            except OSError:
                listed.setdefault(folder, set())
        return found, others

    @staticmethod
    def _is_found(question, entry):
        """Would Python find these files there? A folder beside them may have the same name."""
        if "with" in question:
            return True
        importlib.invalidate_caches()
        spec = PathFinder.find_spec(question["name"], entry["roots"])
        if spec is None or spec.loader is None:
            return True
        return any(str(spec.origin).startswith(row[0]) for row in entry["files"])

    def _say_other(self, others, before):
        """A line about a file that is another one here. What was right until now is only late: a shared file system."""
        known = {row[0]: row[2] for row in (before or {}).get("files", ())} if others else {}
        used = before is not None and before["here"]
        for path in others:
            try:
                other = hash_of(path)
            except OSError:
                continue
            if other != known.get(path) and self.first(("changed " if used else "other ") + path):
                self._lines.append(f"{path} on {self._host} is not the notebook's file{_ANY_MORE.format(self._host) if used else _OTHER}")
            return

    def _say_newer(self, key, entry, listed):
        """Home has listed another version for this cell, which other machines may have brought. It lists this one for the next cell."""
        entry["listed"] = listed
        name = key.partition("\n")[0]
        if name and self._cell is not None and self.first(f"newer {name} {self._cell}"):
            self._lines.append(f"{name} has changed at home since the cell began: ranks on {self._host} that import it now have the newer version, others "
                               "may have the earlier one until the next cell")

    # ---- files -------------------------------------------------------------------------------------------------------

    def _in_store(self, digest):
        return os.path.join(self._store, digest[:2], digest)

    def _fetch(self, files, alike):
        """Brings the contents into the store that are not there, or that somebody has written to. False: home does not have one of them any
        more."""
        lacking, listed, kept = {}, {}, set()
        for row in files:
            start = row.hash[:2]
            if start not in listed:
                listed[start] = _names_in(os.path.join(self._store, start))
            if row.hash in lacking or (row.hash in listed[start] and _has(self._in_store(row.hash), row)):
                continue
            if row.path in alike and self._keep_own(row):
                continue
            lacking[row.hash] = row
        self._room.needs(row.size for row in lacking.values())
        for batch in batches(list(lacking.values())):
            said, blob = self._ask("files", {"hashes": [row.hash for row in batch]})
            if said.get("gone"):
                return False
            view = memoryview(blob if blob is not None else b"")
            for k, offset, size in said["files"]:
                if self._keep(batch[k].hash, view[offset : offset + size], batch[k].mode):
                    kept.add(batch[k].hash)
            view.release()
        return len(kept) == len(lacking)

    def _keep_own(self, row):
        with open(row.path, "rb") as file:
            return self._keep(row.hash, file, row.mode)

    def _keep(self, digest, data, mode):
        """Puts a content, bytes or a file's, into the store. False: it is another one."""
        path = self._in_store(digest)
        self._make_folder(path)
        if not write_file(path, data, _mode(mode), digest=digest, unseen=True):  # what is in the store is looked at before it is used
            return False
        self._written[digest] = _mode(mode)
        return True

    def _make_folder(self, path):
        """The folder for this file. It stays while this rank has the lock."""
        folder = os.path.dirname(path)
        if folder not in self._folders:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._folders.add(folder)

    def _put(self, key, entry, before):
        """Makes the tree and the state what the entry says."""
        gone = _placed(before).keys() - _placed(entry).keys()
        self._remove(key, gone | _led_from(key, before))  # first: a file's name may be a folder's now
        self._folders.clear()
        for row in _changed(entry, before):
            self._place(row)
        for path in _led_from(key, entry):
            self._lead(path)
        self.entries.write({**self.entries.all(), key: entry})
        self._clear_store(before)
        importlib.invalidate_caches()

    def _lead(self, path):
        """A link to a file of this machine. What is brought looks beside itself."""
        target = self.root + path
        if not os.path.lexists(target):
            self._make_folder(target)
            os.symlink(path, target)

    def _place(self, row):
        """A file that takes another one's place has a later time, of at least one second: Python, and what looks for changed modules, go by
        the time."""
        target, stored = self.root + row.path, self._in_store(row.hash)
        self._make_folder(target)
        if self._written.get(row.hash) == _mode(row.mode):  # at most of what comes, nothing has to be looked at
            with contextlib.suppress(OSError):
                os.link(stored, target)
                return
        if self._is_placed(target, stored, row):  # for another name, or by a --with
            return
        own, earlier = os.stat(stored), _time_of(target)
        if (own.st_mode & 0o777 == _mode(row.mode)) and int(own.st_mtime) > earlier and _link(stored, target):
            return
        with open(stored, "rb") as file:
            write_file(target, file, _mode(row.mode), max(int(time.time()), earlier + 1) if earlier >= 0 else None)

    @staticmethod
    def _is_placed(target, stored, row):
        """Is this content there already?"""
        try:
            there = os.stat(target)
            if there.st_mode & 0o777 != _mode(row.mode):
                return False
            return os.path.samestat(there, os.stat(stored)) or hash_of(target, row.size) == row.hash
        except OSError:
            return False

    def _remove(self, key, paths):
        """Removes files from the tree that no other name has."""
        if not paths:
            return
        others = {row[0] for other, entry in self.entries.all().items() if other != key for row in entry["files"]}
        for path in set(paths) - others:
            target = self.root + path
            folder, base = os.path.split(target)
            with contextlib.suppress(OSError):
                os.unlink(target)
            stem, cached = base.rpartition(".")[0] + ".", os.path.join(folder, "__pycache__")
            with contextlib.suppress(OSError):
                for name in os.listdir(cached):
                    if name.startswith(stem):
                        os.unlink(os.path.join(cached, name))
                os.rmdir(cached)
            with contextlib.suppress(OSError):  # a folder that is not empty
                while len(folder) > len(self.root):
                    os.rmdir(folder)
                    folder = os.path.dirname(folder)

    def _clear_store(self, before):
        """Removes contents that only the entry before had."""
        if not before:
            return
        used = {row[2] for entry in self.entries.all().values() for row in entry["files"]}
        for row in before["files"]:
            if row[2] not in used:
                with contextlib.suppress(OSError):
                    os.unlink(self._in_store(row[2]))

    def _forget(self, key):
        every = self.entries.all()
        entry = every.get(key)
        if entry is None:
            return
        self._remove(key, _placed(entry).keys() | _led_from(key, entry))
        self.entries.write({name: one for name, one in every.items() if name != key})
        self._clear_store(entry)
        importlib.invalidate_caches()


def _seen_here(states):
    """Those of these files whose changes this machine sees. On a file system that others write, too, home sees them."""
    points = mounts()
    local = {folder: is_local(folder, points) for folder in {os.path.dirname(path) for path in states}}
    return {path: state for path, state in states.items() if local[os.path.dirname(path)]}


def _placed(entry):
    """{path: row} of the files that an entry has in the tree."""
    return {} if entry is None or entry["here"] else {row[0]: row for row in entry["files"]}


def _led_from(key, entry):
    """Paths of the files of --with that are used where they are, to which links of the tree lead."""
    return {row[0] for row in entry["files"]} if entry and entry["here"] and key.startswith("\n") else set()


def _changed(entry, before):
    old = _placed(before)
    return [File(*row) for path, row in _placed(entry).items() if old.get(path) != row]


def _has(stored, row):
    try:
        return hash_of(stored, row.size) == row.hash
    except OSError:
        return False


def _names_in(folder):
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def batches(files):
    """Yields lists of at most BATCH files and, but for a large file alone, BATCH_BYTES."""
    batch, size = [], 0
    for row in files:
        if batch and (len(batch) == BATCH or size + row.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row.size
    if batch:
        yield batch


def hash_of(path, size=None):
    """The sha256 of a file's bytes. "" for one that has not `size` bytes, or is no ordinary file."""
    with open(path, "rb") as file:
        seen = os.fstat(file.fileno())
        if not stat.S_ISREG(seen.st_mode) or size not in (None, seen.st_size):
            return ""
        made = hashlib.sha256()
        while True:
            block = file.read(BLOCK)
            if not block:
                return made.hexdigest()
            made.update(block)


def _mode(mode):
    return 0o700 if mode & 0o100 else 0o600


def _time_of(path):
    try:
        return int(os.stat(path).st_mtime)
    except OSError:
        return -1


def _link(stored, target):
    """Puts a link to a file in place. False: this file system has none, or no more to this file."""
    made = f"{target}.{os.getpid()}-{threading.get_ident()}"
    try:
        os.link(stored, made)
    except OSError:
        return False
    try:
        os.rename(made, target)
    finally:  # of two links to one file, it leaves both
        with contextlib.suppress(OSError):
            os.unlink(made)
    return True
