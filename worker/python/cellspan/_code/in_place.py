# SPDX-License-Identifier: BSD-3-Clause
"""On a rank of another machine: which files that are used at home's own paths were changed there, on that machine alone. inotify tells, so
that a cell before which nothing has happened costs one read. Where it can't, the files are looked at before each cell.
"""

from __future__ import annotations

import fcntl
import itertools
import os

from .._base.filesystems import state_of
from .entries import changed_in_place

WATCHERS = 16  # ranks of a node that use inotify; others look at the files. The system allows a user only so many (128) of its descriptors
LINKS = 40  # that Linux follows in a path


class InPlace:
    """folder: the code folder of the agent."""

    def __init__(self, folder):
        self._folder = os.path.join(folder, "watchers")
        self._slot = -1
        self._changes = None  # not asked for yet; False: this rank may not use inotify
        self._turns = itertools.count()
        self._entries = None  # as changed() has had them
        self._known = {}  # {key: its "seen"}, of entries whose files are watched
        self._new = []  # keys of those that are not watched yet
        self._places = {}  # {path: its places()}
        self._rows = {}  # {folder: [(name in it, key, path of the file, its state)]}
        self._folders = {}  # {folder: which one it was when it was watched}

    def changed(self, entries):
        """Keys of the entries with such files; they are returned again until done()."""
        if entries is not self._entries:
            self._take(entries)
        if not self._rows:
            return []
        if self._changes is None:
            self._changes = self._begin()
        if not self._changes:
            return [key for key, entry in entries.items() if changed_in_place(entry)]
        changes = self._changes
        for folder in self._rows:
            now = _which(folder)
            if self._folders.setdefault(folder, now) != now:  # inotify tells nothing of a move of a folder above
                self._folders[folder] = now
                changes.moved(folder)
        found = []
        for key in self._new:
            self._watch(changes, entries[key]["seen"])
            if changed_in_place(entries[key]):
                found.append(key)
        for folder in changes.take(next(self._turns)):
            names = changes.names(folder)
            rows = [row for name, *row in self._rows.get(folder, ()) if names is None or name in names]
            for row in rows:
                self._follow(*row)
            self._watch(changes, {path: state for _, path, state in rows})
            found += [key for key, path, state in rows if state_of(path) != state]
        return list(dict.fromkeys(found))

    def done(self):
        """Those that changed() has returned are renewed."""
        if self._changes:
            self._changes.done()
        self._known.update((key, self._entries[key]["seen"]) for key in self._new)
        self._new = []

    def _take(self, entries):
        seen = {key: entry["seen"] for key, entry in entries.items() if entry.get("seen")}
        self._known = {key: files for key, files in self._known.items() if seen.get(key) == files}
        self._new = [key for key in seen if key not in self._known]
        self._places.update((path, places(path)) for key in self._new for path in seen[key])
        self._rows, self._entries = {}, entries
        for key, files in seen.items():
            for path, state in files.items():
                for place in self._places[path]:
                    self._add_row(place, key, path, state)

    def _watch(self, changes, files):
        """Call it before the files are looked at."""
        for folder in {os.path.dirname(place) for path in files for place in self._places[path]}:
            self._folders.setdefault(folder, _which(folder))
            changes.watch(folder)
        changes.watch_linked({path: state for path, state in files.items() if _has_names(path)})

    def _follow(self, key, path, state):
        """The same file may be at this path by other links now. Then other folders are to be watched, too."""
        before, now = self._places[path], places(path)
        self._places[path] = now
        for place in now:
            if place not in before:
                self._add_row(place, key, path, state)

    def _add_row(self, place, *row):
        folder, name = os.path.split(place)
        self._rows.setdefault(folder, []).append((name, *row))

    def _begin(self):
        """Changes, or False."""
        from .changes import Changes  # slow to import, and rarely needed

        return Changes(sharers=WATCHERS) if self._has_slot() else False

    def _has_slot(self):
        """Is this one of the ranks that may use inotify? It is while it lives."""
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            for number in range(WATCHERS):
                fd = os.open(os.path.join(self._folder, str(number)), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(fd)
                    continue
                self._slot = fd
                return True
        except OSError:  # no room
            pass
        return False


def _has_names(path):
    """Has the file several names?"""
    try:
        return os.stat(path).st_nlink > 1
    except OSError:
        return False


def places(path):
    """The path, and if a link is there, the paths to which it and the links behind it lead."""
    found = [path]
    try:
        while len(found) < LINKS:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
            found.append(path)
    except OSError:  # no link
        pass
    return found


def _which(folder):
    """Is another one when another folder has this path."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino
