# SPDX-License-Identifier: BSD-3-Clause
"""For capture.py: the values that a push() sends under the names of variables. They never are home's variables, which other threads
may read and assign meanwhile. Only the cell of the push() finds them in place of home's values."""

from __future__ import annotations


class Lent:
    """A block within which the cell of one push() finds these values ({name: value}). captures: its Capture. working(): a block in which
    this thread alone works with it."""

    def __init__(self, captures, values, working):
        self._captures, self._values, self._working = captures, values, working
        self._before, self._cell = {}, 0

    def __enter__(self):
        with self._working():
            self._before = self._captures.lend(self, self._values)

    def __exit__(self, *error):
        self._captures.lent = None  # at once: an interrupt may come before the next step
        with self._working():
            self._captures.taken_back(self._before)

    def begins(self, cell):
        """This cell sends them."""
        self._cell = cell

    def with_those_of(self, user_ns, cell):
        """{name: value} as a cell finds them."""
        return {**user_ns, **self._values} if self._cell == cell else user_ns

    def __contains__(self, name):
        return name in self._values


class Seen:
    """A block within which a Capture finds the values that are lent to this cell. begins: the cell is a push()."""

    def __init__(self, captures, cell, begins=False):
        self._captures, self._cell = captures, cell
        if begins and captures.lent is not None:
            captures.lent.begins(cell)

    def __enter__(self):
        captures = self._captures
        captures.values = captures.user_ns if captures.lent is None else captures.lent.with_those_of(captures.user_ns, self._cell)

    def __exit__(self, *error):
        self._captures.values = self._captures.user_ns


def names(captures, cell, code, transform, only, none, push):
    """Capture.names() for a cell."""
    with Seen(captures, cell, push):
        return captures.names(code, transform, only, none, push)


def pack(captures, cell, wanted):
    """Capture.pack() for a cell."""
    with Seen(captures, cell):
        return captures.pack(wanted)
