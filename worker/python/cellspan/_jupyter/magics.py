# SPDX-License-Identifier: BSD-3-Clause
"""cellspan's magics in the middle of a cell. The kernel executes them, as it does those at the start of a cell."""

from __future__ import annotations

from .._link import CALL_SHOWN, CALL_VALUE

LINE = ("distribute", "push", "pull", "ranks")
CELL = ("distribute",)
NO_CLIENTS = "a rank has no clients of its own: %%distribute -r 0 runs cells on one rank, %ranks where shows its stack"
HOMES = (*LINE, "scatter", "gather", "store")  # line magics that only home has
PAGE = ("clear", "less", "man", "more")  # line magics of pagemagics.py
# What a rank could only do for a client: put text into its next cell, open its editor, connect to it.
NEED_CLIENT = frozenset("load loadpy recall rep edit ed autosave connect_info qtconsole subshell".split())


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
        return home.call(f"%{name} {line}".rstrip(), CALL_SHOWN | CALL_VALUE)[1]

    magic.__doc__ = f"See %{name} --help."
    magic.__name__ = magic.__qualname__ = name
    return magic


def _cell(home, name):
    def magic(line, cell):
        content, value = home.call(f"%%{name} {line}".rstrip() + "\n" + cell, CALL_SHOWN | CALL_VALUE)
        return home.shell.user_ns.get(content["into"]) if "into" in content else value

    magic.__doc__ = f"See %{name} --help."
    magic.__name__ = magic.__qualname__ = name
    return magic
