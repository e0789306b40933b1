# SPDX-License-Identifier: BSD-3-Clause
"""Which of home's names were assigned new values since they were last checked, and which were only changed in place.

A name counts as assigned if a cell ended without an error and every path of its text gives it a value that is not made from its
old one (x = 5, but not x += 1 or x = f(x)). It also counts as assigned if it is bound to another object than before (by
`global`, %run, exec, a callback), unless a text shows that this was only a change. A mutable value that is bound to the same
object again was changed in place.

Objects are identified by their id(), so no reference to an old value is kept. The texts of cells are analysed when needed.
"""

from __future__ import annotations

import enum
import re
import types

from . import reads

# Values of these types can't be changed in place, so binding the same object again is an assignment.
IMMUTABLE = (int, float, complex, bool, str, bytes, tuple, frozenset, range, enum.Enum, type, type(None), type(...),
             types.FunctionType, types.BuiltinFunctionType)
RESET = re.compile(r"%reset\b|run_line_magic\(['\"]reset['\"]|get_ipython\(\)\.reset\(")


class Assigned:
    """Records what happened to names between two checks."""

    def __init__(self):
        self._texts = []  # of home's cells: (text, ended without an error?, names that were checked while it ran)
        self._checked = set()  # names that were checked since the running cell began
        self._fresh = set()  # names to which a text assigns a new value
        self._changed = set()  # names that a text binds to a changed old value, or not on every path
        self._moved = set()  # names that were bound to another object

    def began(self):
        """A cell of home begins."""
        self._checked.clear()

    def ran(self, code, ended, known, user_ns):
        """A cell of home is over. known: {name: an object with .ident, the id() of the value when it was last checked}."""
        self._texts.append((code, ended, frozenset(self._checked)))
        self._checked.clear()
        for name, of in known.items():
            if name not in user_ns or id(user_ns[name]) != of.ident:
                self._moved.add(name)

    def read(self, known, transform):
        """Analyses the texts that were not analysed yet, if names in `known` may be in them."""
        for code, ended, checked in self._texts:
            names = [name for name in known if name in code and name not in checked]
            found = reads.analyse(code, transform) if names else None
            for name in names if found else ():
                fresh = found.bound.get(name)
                if fresh and ended:
                    self._fresh.add(name)
                elif fresh is False:
                    self._changed.add(name)
        self._texts.clear()

    def has(self, name, value, ident):
        """Was the name assigned? value: its value now; ident: the id() of its value before."""
        moved = name in self._moved or id(value) != ident
        if name in self._fresh:
            return moved or issubclass(type(value), IMMUTABLE)
        return moved and name not in self._changed

    def checked(self, name):
        """The name was checked: forgets what happened to it before."""
        self._checked.add(name)
        for names in (self._fresh, self._changed, self._moved):
            names.discard(name)


def is_reset(code):
    """Does the cell delete all names, by %reset?"""
    return "reset" in code and RESET.search(code) is not None
