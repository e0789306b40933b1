# SPDX-License-Identifier: BSD-3-Clause
"""Which of some folders have changed, by Linux's inotify: to ask costs one read. Folders that it does not see (file systems that others
write, too, or no inotify at all) count as changed whenever home has run a cell, and once a second. Of a folder, inotify tells only what was
done by the names in it: a file that has other names is watched by itself, or, if too much is watched already, looked at as often.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import stat
import struct
import time

from .._base.filesystems import is_local, mounts, state_of
from .ignores import IGNORE_FILES

MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF = 2, 4, 8, 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
UNMOUNT, OVERFLOW, IGNORED, ONLY_FOLDERS, IS_FOLDER = 0x2000, 0x4000, 0x8000, 0x0100_0000, 0x4000_0000
CHANGES = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
WRITTEN = MODIFY | ATTRIB | CLOSE_WRITE | DELETE_SELF
EVENT = struct.Struct("iIII")
LIMIT = "/proc/sys/fs/inotify/max_user_watches"
FEW, MANY = 1024, 262_144  # folders that are watched at most: by a small limit of the system, and by a large one
SHARE = 8  # what part of the system's limit: other notebooks and programs of this user want some, too
MOST_LINKS = 64  # links in their paths
POLLED = 256  # files with several names that are looked at each time; each in its turn
WAITED_FOR = 128  # paths that are not there and are looked for each time; each in its turn
EVERY = 1.0  # seconds between two times that a folder which inotify does not see counts as changed
MODULES = (".py", ".so", ".pyc", ".pyi", ".zip", ".egg", *IGNORE_FILES)  # ends of names that matter where only modules do


class Changes:
    """What has happened in the folders of watch(). sharers: how many processes that watch the same share the part of the system's limit."""

    def __init__(self, inotify=True, sharers=1):
        self._libc = ctypes.CDLL(None, use_errno=True) if inotify else None
        self._fd = self._begin()
        self._most = most_watches() // sharers
        self._plain = set()  # folders whose paths have no links, on file systems that only this machine writes
        self._numbers = {}  # {number of a watch: its folders, all of them in _seen}
        self._number = {}  # {folder: that number}
        self._seen = {}  # {folder: do only modules in it matter?}, those that inotify sees
        self._blind = set()  # the others
        self._files = {}  # {file with several names: (the number of its watch, its inode)}
        self._of_file = {}  # {number of such a watch: files}
        self._linked = {}  # {such a file that is not watched: its state}
        self._links = {}  # {link in the path of one of these: (where it leads, folders behind it)}
        self._missing = {}  # {folder or archive that is not there: the first part of its path that is not}
        self._pending = set()  # folders that have changed, until done()
        self._named = {}  # {folder: names in it}, of what has changed, until done()
        self._mounts = None
        self._last = 0.0
        self._ran = None

    def _begin(self):
        try:
            return self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if self._libc is not None else -1
        except AttributeError:  # a libc without it
            return -1

    def watch(self, folder, only_modules=False):
        """From now on take() tells of this folder, but not of those in it. Call it before the folder is read."""
        if folder in self._seen:
            self._seen[folder] = self._seen[folder] and only_modules
        elif folder not in self._blind:
            number = self._add(folder)
            if number < 0:
                self._blind.add(folder)
            else:
                self._seen[folder] = only_modules
                self._number[folder] = number
                self._numbers.setdefault(number, []).append(folder)
                links = () if folder in self._plain else links_in(folder)
                for link in links:
                    self._links.setdefault(link, (_target(link), set()))[1].add(folder)
                if not links:
                    self._plain.add(folder)

    def wait_for(self, path):
        """From now on take() tells of this folder or archive, which is not there, when it may be there. What else happens around it is nobody's
        business. Then call it again. Call it before the folder is looked for."""
        part = path
        while part != os.path.dirname(part) and not _is_there(os.path.dirname(part)):
            part = os.path.dirname(part)
        self._missing[path] = part

    def moved(self, folder):
        """Another folder has its path now: take() tells of it, and whoever reads it again watches it again."""
        self._forget([folder])

    def watch_linked(self, states):
        """From now on take() tells of the folders of these files, too, if the files change. states: {file: its state_of() before it was read}.
        Watch the folders first."""
        for path, state in states.items():
            self._end_file(path)
            number = self._add_file(path)
            if number < 0:
                self._linked[path] = state
                continue
            self._linked.pop(path, None)
            self._files[path] = number, state and state[1]
            self._of_file.setdefault(number, set()).add(path)
            if state_of(path) != state:  # it has changed before it was watched
                self._pending.add(os.path.dirname(path))

    def _add_file(self, path):
        folder = os.path.dirname(os.path.realpath(path) if os.path.islink(path) else path)
        if self._fd < 0 or folder not in self._seen or len(self._seen) + len(self._files) >= self._most:
            return -1
        return self._libc.inotify_add_watch(self._fd, os.fsencode(path), WRITTEN)

    def _end_file(self, path):
        number, _ = self._files.pop(path, (-1, None))
        paths = self._of_file.get(number, set())
        paths.discard(path)
        if number >= 0 and not paths:
            del self._of_file[number]
            if self._fd >= 0:
                self._libc.inotify_rm_watch(self._fd, number)

    def _note_file(self, number, mask):
        for path in list(self._of_file[number]):
            self._pending.add(os.path.dirname(path))
            now = state_of(path)
            if mask & (IGNORED | UNMOUNT) or now is None or now[1] != self._files[path][1]:  # another file has the name
                self._end_file(path)

    def _add(self, folder):
        if self._fd < 0 or len(self._seen) >= self._most or len(self._links) >= MOST_LINKS:
            return -1
        if os.path.dirname(folder) in self._plain and not os.path.islink(folder) and folder not in self._points():
            self._plain.add(folder)  # as the folder around it
        elif not is_local(folder, self._points()):
            return -1
        try:
            return self._libc.inotify_add_watch(self._fd, os.fsencode(folder), CHANGES | ONLY_FOLDERS)
        except ValueError:
            return -1

    def take(self, ran=None):
        """The folders that have changed since the last done(). ran: a number that is another one when home has run a cell, or None."""
        if self._seen or self._files:
            self._read_events()
        for link, (target, folders) in list(self._links.items()):
            if _target(link) != target:  # a watch stays with the folder to which the link has led
                self._forget(folders)
                self._links.pop(link, None)
        for path, part in list(itertools.islice(self._missing.items(), WAITED_FOR)):
            del self._missing[path]
            if _is_there(part):
                self._pending.add(path)
            else:
                self._missing[path] = part  # after all others
        if self._blind or self._linked:
            now = time.monotonic()
            if ran not in (None, self._ran) or now - self._last >= EVERY:
                self._poll_linked()
                self._pending |= self._blind
                self._blind = set()  # whoever reads them again watches them again: one that was missing may be there now
                self._last, self._ran = now, ran if ran is not None else self._ran
        return {*self._pending, *self._named}

    def names(self, folder):
        """Names in a folder of which take() has told that have changed there; None: any may have."""
        return None if folder in self._pending else self._named[folder]

    def _poll_linked(self):
        for path, state in list(itertools.islice(self._linked.items(), POLLED)):
            del self._linked[path]
            if state_of(path) == state:
                self._linked[path] = state  # after all others
            else:  # whoever reads it again watches it again
                self._pending.add(os.path.dirname(path))

    def done(self):
        """What take() has returned is no longer taken for what it was. An interrupt may come before that."""
        self._pending, self._named = set(), {}

    def close(self):
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read_events(self):
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return
            except OSError:  # it was closed by code that closes all descriptors
                self._fd = -1
                self._forget({*self._seen, *map(os.path.dirname, self._files)})
                self._files, self._of_file = {}, {}
                return
            at = 0
            while at < len(data):
                number, mask, _, size = EVENT.unpack_from(data, at)
                name = data[at + EVENT.size : at + EVENT.size + size].rstrip(b"\0")
                at += EVENT.size + size
                self._note(number, mask, name)

    def _note(self, number, mask, name):
        if mask & OVERFLOW:
            self._pending.update(self._seen, map(os.path.dirname, self._files))
            return
        if number in self._of_file:
            self._note_file(number, mask)
            return
        folders = self._numbers.get(number, ())
        if mask & (IGNORED | MOVE_SELF | UNMOUNT):
            self._forget([*folders, *(self._below(folders) if mask & (MOVE_SELF | UNMOUNT) else ())])
            return
        for folder in folders:
            if not self._seen[folder] or b"." not in name or mask & (IS_FOLDER | DELETE_SELF) or name.decode("utf-8", "replace").endswith(MODULES):
                if name:
                    self._named.setdefault(folder, set()).add(os.fsdecode(name))
                else:
                    self._pending.add(folder)

    def _below(self, folders):
        """Those that go along when these are moved: other folders may have their names now."""
        starts = tuple(os.path.join(folder, "") for folder in folders)
        return [folder for folder in self._seen if folder.startswith(starts)] if starts else []

    def _forget(self, folders):
        self._pending.update(folders)
        for folder in folders:
            self._plain.discard(folder)
            if self._seen.pop(folder, None) is not None:
                self._end_watch(folder)

    def _end_watch(self, folder):
        """A folder that was moved would keep its watch, and the system allows this user only so many."""
        number = self._number.pop(folder)
        self._numbers[number].remove(folder)
        if not self._numbers[number]:
            del self._numbers[number]
            if self._fd >= 0:
                self._libc.inotify_rm_watch(self._fd, number)

    def _points(self):
        """{mount point: file system's name}, the deepest first."""
        if self._mounts is None:
            self._mounts = mounts()
        return self._mounts


def most_watches():
    """How many folders may be watched. One takes about 1 KiB of the system's memory."""
    try:
        with open(LIMIT, encoding="ascii") as file:
            return min(max(FEW, int(file.read()) // SHARE), MANY)
    except (OSError, ValueError):
        return FEW


def _is_there(path):
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def links_in(path):
    """The links among a path and the folders above it."""
    found = []
    if os.path.realpath(path) != path:
        while os.path.dirname(path) != path:
            if os.path.islink(path):
                found.append(path)
            path = os.path.dirname(path)
    return found


def _target(link):
    try:
        return os.readlink(link)
    except OSError:
        return None
