# SPDX-License-Identifier: BSD-3-Clause
"""For capture.py: the values that a push() sends under the names of variables. They never are home's variables, which other threads
may read and assign meanwhile. Only the cell of the push() finds them in place of home's values. It is known by the number of its
call: other cells, which may push the same names, run while this one waits for ranks."""

from __future__ import annotations


class Lent:
    """A block within which the cell of one push() finds these values ({name: value}). captures: its Capture. working(): a block in which
    this thread alone works with it. call: home's number of the push()'s call, 0 before that."""

    def __init__(self, captures, values, working):
        self._captures, self._values, self._working = captures, values, working
        self._before, self._cell, self.call = {}, 0, 0

    def __enter__(self):
        self._captures.lent = self
        return self

    def __exit__(self, *error):
        self._captures.lent = None  # at once: an interrupt may come before the next step
        with self._working():
            self._captures.taken_back(self._before)

    def begins(self, cell, call):
        """Home looks for what this cell needs, which is that of the call with this number (0: it is no call)."""
        if call and call == self.call and not self._cell:  # it may look again, because ranks have died
            self._before, self._cell = self._captures.lend(self._values), cell

    def with_those_of(self, user_ns, cell):
        """{name: value} as a cell finds them."""
        return {**user_ns, **self._values} if self._cell and self._cell == cell else user_ns

    def __contains__(self, name):
        """Does Capture know the value that was lent, or is it about to?"""
        return self._cell != 0 and name in self._values


def seen(captures, cell, call, function, *args):
    """function(*args), a method of Capture, which finds what is lent to this cell. call: see Lent.begins()."""
    lent = captures.lent
    if lent is not None:
        lent.begins(cell, call)
    try:
        captures.values = captures.user_ns if lent is None else lent.with_those_of(captures.user_ns, cell)
        return function(*args)
    finally:
        captures.values = captures.user_ns
