# SPDX-License-Identifier: BSD-3-Clause
"""%debug -r R: a debugger at the error of rank R's last cell, which the user operates in the input box. Home runs CODE on that rank."""

from __future__ import annotations

import gc
import re
import sys
import traceback

from .._base.errors import cause_of, context_of, tb_of
from .._base.own_code import function

CODE = function("_jupyter.post_mortem", "debug") + "()"
RANK = re.compile(r"\s*(?:-r(?![a-z])|--ranks\b)\s*=?\s*(.*?)\s*$")


def rank_of(line):
    """The rank that the line of %debug names, as text; None: it names none. UsageError: it names no single rank."""
    from IPython.core.error import UsageError

    found = RANK.match(line)
    if found is None:
        return None
    if not found.group(1).isdigit():
        raise UsageError(f"%debug {line.strip()}: one rank can be looked at, such as %debug -r 2")
    return found.group(1)


def is_meant(code):
    """Is this cell that of %debug -r?"""
    return code.strip() == CODE


def debug():
    """On the rank: looks at the variables where its last cell failed. UsageError: it has not failed."""
    __tracebackhide__ = True
    from IPython import get_ipython
    from IPython.core.error import UsageError

    shell = get_ipython()
    rank, error = shell.worker.rank, _error_of(shell.worker.failed_cell)
    tb = None if error is None else tb_of(error)
    if tb is None:
        raise UsageError(f"rank {rank} has no error to look at: its last cell did not fail, or %ranks free has let go of it: run the cell again")
    pdb = shell.InteractiveTB.debugger_cls()
    pdb.prompt = f"rank {rank} ipdb> "
    pdb.reset()
    pdb.interaction(None, tb)


def _error_of(cell):
    result = cell.result if cell is not None else None
    error = None if result is None else result.error_before_exec or result.error_in_exec
    return error if isinstance(error, BaseException) else None


def forget(shell, cell, whole):
    """Frees the variables of the functions in which a rank's cell has failed; cell: may be None. whole: all that refers to the error,
    too; else sys.last_value and its siblings stay, for the next cell."""
    result = cell.result if cell is not None else None
    errors = [result.error_in_exec, result.error_before_exec] if result is not None else []
    errors.append(getattr(sys, "last_value", None))
    for error in errors:
        seen = set()
        while isinstance(error, BaseException) and id(error) not in seen:
            seen.add(id(error))
            _clear(tb_of(error))
            if whole:
                BaseException.__traceback__.__set__(error, None)
            error = cause_of(error) or context_of(error)
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if whole and hasattr(sys, name):
            delattr(sys, name)
    shell.last_execution_result = None
    shell.InteractiveTB.tb = None
    for name in ("etype", "evalue"):
        if hasattr(shell.InteractiveTB, name):
            setattr(shell.InteractiveTB, name, None)
    gc.collect()  # the code that renders tracebacks leaves reference cycles with the frames


def _clear(tb):
    """Clears the variables of a traceback's functions. Their names and lines stay."""
    for frame, _ in traceback.walk_tb(tb):
        try:
            frame.clear()
        except RuntimeError:  # it still runs
            continue
        frame.f_locals  # noqa: B018 - before Python 3.13, this brings a copy that was made for the traceback up to date
