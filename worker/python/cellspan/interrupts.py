"""SIGINT while a cell awaits: the loop must not die of a KeyboardInterrupt, the cell must."""

from __future__ import annotations

import signal
import sys

_aimed = None


def aim(loop, task, cell):
    """From now on SIGINT is for this task: raised in it while it computes, a cancellation while it waits."""
    global _aimed
    import asyncio

    def handler(signo, frame):
        cell.interrupted = True
        if asyncio.current_task(loop) is task or _in_handler(frame):
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(task.cancel)

    _aimed = signal.signal(signal.SIGINT, handler)


def _in_handler(frame):
    """Is something of ours being served (a comm's callback), rather than the loop itself or another task?"""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_handle" and code.co_filename.endswith("worker.py"):
            return True
        frame = frame.f_back
    return False


def rest():
    """SIGINT is for whatever the main thread runs, again."""
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
        sys.last_type, sys.last_value, sys.last_traceback = etype, value, tb
        stb = self.InteractiveTB.structured_traceback(etype, value, tb, tb_offset=tb_offset)
        self._showtraceback(etype, value, stb)
        return stb

    shell.set_custom_exc((asyncio.CancelledError,), handle)
