# SPDX-License-Identifier: BSD-3-Clause
"""cellspan's magics in the middle of a cell. The kernel executes them, as it does those at the start of a cell."""

from __future__ import annotations

import re

from .. import _link
from .._base.errors import near
from .._link import CALL_SHOWN, CALL_VALUE

LINE = tuple(magic["name"] for magic in _link.magics())
CELL = tuple(magic["name"] for magic in _link.magics() if magic["cell"])
NO_CLIENTS = "a rank has no clients of its own: %%distribute -r 0 runs cells on one rank, %ranks where shows its stack"
NO_NOTEBOOK = "a rank has no clients of its own: use it in a cell of the notebook's own, without %%distribute"
NO_EXIT = "%ranks stop ends the ranks, sys.exit() or an error ends the cell"
HOMES = (*LINE, "scatter", "gather", "store")  # line magics that only home has
PAGE = ("clear", "less", "man", "more")  # line magics of pagemagics.py
# What a rank could only do for a client: put text into its next cell, open its editor, connect to it.
OF_NOTEBOOK = frozenset("load loadpy recall rep edit ed autosave".split())
NEED_CLIENT = OF_NOTEBOOK | {"connect_info", "qtconsole", "subshell"}


def name_near(error, known):
    """Adds the magic that was meant to IPython's error for one that does not exist. known: {"line": names, "cell": names}."""
    found = re.fullmatch(r"(?:Line|Cell) magic(?: function)? `(%%?)(\w+)` not found\.", error.args[0]) if len(error.args) == 1 and isinstance(error.args[0], str) else None
    if found is None:
        return
    sign, name = found.groups()
    ours = HOMES if sign == "%" else CELL
    other = near(name, ours) or near(name, [*known["line" if sign == "%" else "cell"]])
    if other is not None:
        error.args = (f"{error.args[0][:-1]}; did you mean {sign}{other}?",)


def register(home):
    """Registers the magics with home's shell."""
    for name in LINE:
        home.shell.register_magic_function(_line(home, name), "line", name)
    for name in CELL:
        home.shell.register_magic_function(_cell(home, name), "cell", name)
    for kind in ("line", "cell"):
        home.shell.register_magic_function(px, kind, "px")


def px(line, cell=None):
    """Explains that %px is ipyparallel's. If ipyparallel is loaded, its own magic replaces this one."""
    from IPython.core.error import UsageError

    raise UsageError("%px is ipyparallel's: here a cell runs on the ranks with %%distribute on top of it; %load_ext cellspan.px has %px, too")


def _line(home, name):
    def magic(line):
        __tracebackhide__ = True
        return home.call(f"%{name} {line}".rstrip(), CALL_SHOWN | CALL_VALUE)[1]

    magic.__doc__ = f"See %{name} --help."
    magic.__name__ = magic.__qualname__ = name
    return magic


def _cell(home, name):
    def magic(line, cell):
        __tracebackhide__ = True
        content, value = home.call(f"%%{name} {line}".rstrip() + "\n" + cell, CALL_SHOWN | CALL_VALUE)
        return home.shell.user_ns.get(content["into"]) if "into" in content else value

    magic.__doc__ = f"See %{name} --help."
    magic.__name__ = magic.__qualname__ = name
    return magic
