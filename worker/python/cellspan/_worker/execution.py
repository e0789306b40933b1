# SPDX-License-Identifier: BSD-3-Clause
"""The execution of a cell by home or a rank."""
from __future__ import annotations

from .. import _link

SHORT = 2000  # characters of an error's text where there may be no memory


def ignore_errors(call, *args):
    """Calls what belongs to a cell's end but must not replace what the cell did, which may have left no memory, threads or descriptors.
    None: it failed."""
    try:
        return call(*args)
    except Exception:  # noqa: BLE001 - see above
        return None


def own_error(cell, number):
    """The error of a cell, if it has this number and has failed, in a short form: what fails after it must not replace it. None: it has none."""
    if cell is None or cell.number != number or cell.error is None:
        return None
    name, text = cell.error["ename"], cell.error["evalue"][:SHORT]
    return {"ename": name, "evalue": text, "traceback": [f"{name}: {text}"]}


class Cell:
    """One execution of a cell: the request, and the result."""

    def __init__(self, number, code, count, silent=False, store_history=False, allow_stdin=False, header=""):
        self.number = number
        self.code = code
        self.count = count
        self.silent = silent
        self.store_history = store_history and not silent
        self.allow_stdin = allow_stdin
        self.header = header  # the request's header, as JSON
        self.expressions = None  # its user_expressions
        self.result = None  # IPython's ExecutionResult
        self.error = None  # {"ename", "evalue", "traceback"}
        self.bundle = None  # the representation of the last expression: (data, metadata)
        self.before = None  # a function that is called first; its exception is the cell's error
        self.instead = None  # a function that is called in place of the code; its exception is the cell's error
        self.interrupted = False
        self.own_error = False  # an interrupt came only after the error
        self.task = None  # of a cell that awaits
        self.began = False  # has it made a step?
        self.debugged = False  # a debugger may be attached

    @classmethod
    def of_request(cls, number, fields, content):
        """That of an execute_request, whose content is `content`."""
        flags = fields["flags"]
        cell = cls(
            number,
            content.get("code", ""),
            fields["count"],
            silent=bool(flags & _link.REQUEST_SILENT),
            store_history=bool(flags & _link.REQUEST_STORE),
            allow_stdin=bool(flags & _link.REQUEST_STDIN),
            header=fields["header"],
        )
        cell.expressions = content.get("user_expressions")
        return cell
