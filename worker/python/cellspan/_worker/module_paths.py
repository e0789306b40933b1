# SPDX-License-Identifier: BSD-3-Clause
"""sys.path of ranks follows home's: what home adds, removes or moves, they do. What a rank has changed itself stays as it is."""

from __future__ import annotations

import os
import sys


class Led:
    """Home's side."""

    def __init__(self):
        self._began = entries()
        self._changed = False

    def begin(self):
        """The user's first line comes next."""
        self._began = entries()

    def change(self):
        """What FOLLOW says; None: nothing was ever changed."""
        now = entries()
        self._changed = self._changed or now != self._began
        return {"began": self._began, "now": now} if self._changed else None


def entries():
    """The entries of sys.path; those that depend on the current folder as absolute paths, except "", which means each rank's own."""
    return [entry if not entry or entry[0] == "/" else _absolute(entry) for entry in sys.path if isinstance(entry, str)]


def _absolute(entry):
    try:
        return os.path.abspath(entry)
    except OSError:  # the current folder was deleted
        return entry


class Followed:
    """A rank's side."""

    def __init__(self):
        self._added, self._removed = set(), []  # _removed: (place, entry)

    def take(self, change):
        """change: of Led.change()."""
        if change is None and not self._added and not self._removed:
            return
        began, now = (change["began"], change["now"]) if change else ([], [])
        path = [entry for entry in sys.path if entry not in self._added]
        for place, entry in self._removed:
            path.insert(place, entry)
        self._removed = [(place, entry) for place, entry in enumerate(path) if entry in began and entry not in now]
        path = [entry for entry in path if (entry not in began) or entry in now]
        path = in_order(path, now)
        self._added = {entry for entry in now if entry not in began and entry not in path}
        sys.path[:] = with_added(path, now, self._added)


def in_order(path, wanted):
    """The path, in which the entries that are also in `wanted` have its order, in their places."""
    common = iter([entry for entry in dict.fromkeys(wanted) if entry in path])
    seen, result = set(), []
    for entry in path:
        is_first = entry in wanted and entry not in seen
        seen.add(entry)
        result.append(next(common) if is_first else entry)
    return result


def with_added(path, wanted, added):
    """The path with these entries of `wanted`, each behind the one that it follows there."""
    result, at = list(path), 0
    for entry in wanted:
        if entry in added:
            result.insert(at, entry)
            at += 1
        elif entry in result:
            at = result.index(entry) + 1
    return result
