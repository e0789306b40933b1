"""Which of home's names have new values since they were last looked at, and which were only changed.

A name is assigned when a cell ran to its end and every path of its text gives it a value that does not come from its own
(x = 5, not x += 1 or x = f(x)), or when it is bound to another object than it was (by `global`, %run, exec, a callback), and
no text says that this only changed it. A mutable value that is bound to the same object again was changed in place.

Objects are told apart by their number (id): no reference to an old value is kept. Texts are read when somebody asks.
"""

from __future__ import annotations

import enum
import re
import types

from . import reads

# Values of these are bound again as good as new ones: nothing can have changed within.
IMMUTABLE = (int, float, complex, bool, str, bytes, tuple, frozenset, range, enum.Enum, type, type(None), type(...),
             types.FunctionType, types.BuiltinFunctionType)
RESET = re.compile(r"%reset\b|run_line_magic\(['\"]reset['\"]|get_ipython\(\)\.reset\(")


class Assigned:
    """What happened to names between two looks at them."""

    def __init__(self):
        self._texts = []  # (text, did it run to its end?, names that were looked at meanwhile) of home's cells
        self._looked = set()  # names that were looked at since the running cell began
        self._fresh = set()  # names that a text gives a new value
        self._changed = set()  # names of which a text binds a change, or not on every path
        self._moved = set()  # names that were bound to another object

    def began(self):
        """A cell of home begins."""
        self._looked.clear()

    def ran(self, code, ended, known, user_ns):
        """A cell of home is over. known: {name: what has .ident, the object's number when it was last looked at}."""
        self._texts.append((code, ended, frozenset(self._looked)))
        self._looked.clear()
        for name, of in known.items():
            if name not in user_ns or id(user_ns[name]) != of.ident:
                self._moved.add(name)

    def read(self, known, transform):
        """Reads the texts that were not read yet, as far as names in `known` may be in them."""
        for code, ended, looked in self._texts:
            names = [name for name in known if name in code and name not in looked]
            found = reads.analyse(code, transform) if names else None
            for name in names if found else ():
                fresh = found.bound.get(name)
                if fresh and ended:
                    self._fresh.add(name)
                elif fresh is False:
                    self._changed.add(name)
        self._texts.clear()

    def has(self, name, value, ident):
        """Was the name assigned? value: what it has now; ident: the number of what it had."""
        moved = name in self._moved or id(value) != ident
        if name in self._fresh:
            return moved or isinstance(value, IMMUTABLE)
        return moved and name not in self._changed

    def looked_at(self, name):
        """From here on counts what happens after."""
        self._looked.add(name)
        for names in (self._fresh, self._changed, self._moved):
            names.discard(name)


def is_reset(code):
    """Whether a cell throws away all names, by %reset."""
    return "reset" in code and RESET.search(code) is not None
