"""The text of the notebook's cells, for tracebacks: functions that travel take along the text of the cell they stand in."""

from __future__ import annotations

import linecache
import sys

CELL = "<ipython-input-"  # IPython's names of cells begin so
TEXT_MAX = 256 << 10  # characters; of a longer cell tracebacks show line numbers only


def _numbers():
    """IPython's {name of a cell's code: execution count}, or None where there is no such thing."""
    module = sys.modules.get("IPython.core.getipython")
    shell = module.get_ipython() if module is not None else None
    return getattr(getattr(shell, "compile", None), "_filename_map", None)


def source_of(filename):
    """(filename, execution count or None, text) of a cell, or None: it is no cell's, or nobody knows its text."""
    entry = linecache.cache.get(filename) if filename.startswith(CELL) else None
    if entry is None or len(entry) < 3 or entry[0] > TEXT_MAX:
        return None
    return filename, (_numbers() or {}).get(filename), "".join(entry[2])


def know(source):
    """Makes known what source_of() gave on the other side."""
    if source is None or source[0] in linecache.cache:
        return
    filename, number, text = source
    # A time of None keeps it there whatever checkcache() finds.
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    numbers = _numbers()
    if numbers is not None and number is not None:
        numbers[filename] = number
