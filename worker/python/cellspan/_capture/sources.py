# SPDX-License-Identifier: BSD-3-Clause
"""The texts of the notebook's cells, for tracebacks: a function is sent with the text of its cell."""

from __future__ import annotations

import linecache
import sys

CELL = ("<ipython-input-",)  # IPython's file names of cells begin so; debugger.py adds the debugger's
TEXT_MAX = 256 << 10  # characters; for a longer cell, tracebacks show only line numbers


def _numbers():
    """IPython's {file name of a cell: execution count}, or None if there is none."""
    module = sys.modules.get("IPython.core.getipython")
    shell = module.get_ipython() if module is not None else None
    return getattr(getattr(shell, "compile", None), "_filename_map", None)


def source_of(filename):
    """(filename, execution count or None, text) of a cell; None: the file name is not a cell's, or its text is not known."""
    entry = linecache.cache.get(filename) if filename.startswith(CELL) else None
    if entry is None or len(entry) < 3 or entry[0] > TEXT_MAX:
        return None
    return filename, (_numbers() or {}).get(filename), "".join(entry[2])


def know(source):
    """Adds the sender's source_of() to linecache."""
    if source is None or source[0] in linecache.cache:
        return
    filename, number, text = source
    # With a time of None, checkcache() never removes it.
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    numbers = _numbers()
    if numbers is not None and number is not None:
        numbers[filename] = number
