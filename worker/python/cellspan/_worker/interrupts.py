# SPDX-License-Identifier: BSD-3-Clause
"""SIGINT ends a cell. While the cell is in an await, the event loop must keep running. A handler that an earlier cell installed must
not stay. While a library is imported, SIGINT comes after it."""

from __future__ import annotations

import os
import signal
import sys
from _signal import getsignal  # that of signal looks for the result in an enum, which takes longer than all else before a cell

from .. import _link
from .._base import imports

_aimed = None


def keep_from_debugger():
    """pdb takes SIGINT at its command `continue`, to prompt again. An interrupt of a cell must end the cell instead."""
    imports.when_imported("pdb", _no_handler_of_pdb)


def _no_handler_of_pdb():
    sys.modules["pdb"].Pdb.nosigint = property(lambda self: True, lambda self, value: None)


def keep_from_libraries():
    """An interrupt of a cell does not break off the import of a library, which would stay half imported until the process ends. The
    user's own modules are no libraries: their code may run for as long as a cell's."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    _link.hold_imports((os.path.dirname(os.__file__) + os.sep, own + os.sep))


def take_back():
    """Restores Python's own handler of SIGINT: a handler that an earlier cell has set is not used in this cell, as in ipykernel."""
    if _aimed is None and getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def aim(loop, cell):
    """From now on SIGINT is for the task of this cell: KeyboardInterrupt while it computes, a cancellation while it waits. Before its
    first step it is only noted: a task that is cancelled then never runs, so nobody would answer the cell."""
    global _aimed
    import asyncio

    def handler(signo, frame):
        cell.interrupted = True
        if not cell.began:
            return
        task, served = cell.task, _served(frame)
        if asyncio.current_task(loop) is task or served == MESSAGE:
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(task.cancel)
        if served == CALL:
            raise KeyboardInterrupt

    _aimed = signal.signal(signal.SIGINT, handler)


MESSAGE, CALL = "a message", "a call"


def _served(frame):
    """What is being served: MESSAGE, such as a comm's callback; CALL: something for ranks, such as an item of an asynchronous map, so
    that the cell must end as well. None: the loop itself or another task runs, or something was served that an interrupt does not end."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith("home_calls.py"):
            if code.co_name in ("interruptible", "_serve"):
                return CALL
            if code.co_name == "__exit__":  # the end of held()
                return None
        if code.co_name == "_handle" and code.co_filename.endswith("worker.py"):
            return MESSAGE
        frame = frame.f_back
    return None


def rest():
    """From now on SIGINT is again for whatever the main thread runs."""
    global _aimed
    if _aimed is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _aimed = None


def cancelled_as_interrupt(shell):
    """Makes IPython show a cell whose task was cancelled by an interrupt as interrupted."""
    import asyncio

    def handle(self, etype, value, tb, tb_offset=None):
        if self.worker.cell is not None and self.worker.cell.interrupted:
            etype, value = KeyboardInterrupt, KeyboardInterrupt()
            value.__traceback__ = tb
        self.showtraceback((etype, value, tb), tb_offset=tb_offset)

    shell.set_custom_exc((asyncio.CancelledError,), handle)


class _LeavesDebugger(BaseException):
    """A KeyboardInterrupt that pdb does not catch. Otherwise pdb would continue to prompt or to run, and the cell would not end."""


_LeavesDebugger.__name__ = _LeavesDebugger.__qualname__ = "KeyboardInterrupt"
_LeavesDebugger.__module__ = "builtins"


def at_a_prompt():
    """An interrupt came during input(). At a debugger's prompt, it ends the debugger and the cell."""
    __tracebackhide__ = True
    frame = sys._getframe(1)
    while frame is not None and "bdb" in sys.modules:
        if isinstance(frame.f_locals.get("self"), sys.modules["bdb"].Bdb):
            raise _LeavesDebugger from None
        frame = frame.f_back
