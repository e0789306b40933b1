# SPDX-License-Identifier: BSD-3-Clause
"""Writes this process's stacks for the agent: when it asks for them, and when the process crashes."""

from __future__ import annotations

import faulthandler
import functools
import os
import sys
import threading

from .. import _link
from .._base import threads
from . import groups, torch_errors

FRAMES = 100  # of the main thread, as many as faulthandler writes
MANY = 50  # threads: faulthandler writes 100, and the main thread's stack is the last one
loop = None  # the worker's Loop, once it has one


def install(fd):
    """`fd` stays open. The agent asks by a message, or by a signal if C code keeps Python's lock: see worker/ext/live_stacks.c."""
    os.set_inheritable(fd, False)
    faulthandler.disable()  # a rank has the zygote's; it must be enabled after ours, so that Python's stack comes first
    _link.stack(fd)
    faulthandler.enable(file=fd, all_threads=True)
    if _link.STACKS_SIGNAL:
        faulthandler.register(_link.STACKS_SIGNAL, file=fd, all_threads=True, chain=False)
    _link.on_stacks(fd, _more, functools.partial(faulthandler.dump_traceback, file=fd, all_threads=True))


def descriptor():
    """The agent's descriptor for stacks, or None."""
    text = os.environ.pop("CELLSPAN_STACK_FD", "")
    return int(text) if text.isdigit() else None


def _more():
    """What follows faulthandler's text: the main thread's stack, if that one may have left it out; and the lines about collectives."""
    try:
        text = _of_main_thread() if len(threading._active) > MANY else ""
        return (text + _background() + groups.launched() + torch_errors.waiting()).encode("utf-8", "replace")
    except Exception:  # noqa: BLE001 - the stacks are worth more
        return b""


def _background():
    """A line if threads or tasks of the user's are there: they may go on when the cell is over."""
    begun = [thread for thread in list(threading._active.values()) if not _is_known(thread)]
    tasks = loop is not None and loop.has_more()
    return "background\n" if begun or tasks else ""


def _is_known(thread):
    """It launches no collectives: the main one, cellspan's, the debugger's, tqdm's, IPython's, and those that Python knows little of."""
    return (
        thread is threading.main_thread()
        or thread.name.startswith(threads.PREFIX)
        or getattr(thread, "is_pydev_daemon_thread", False)
        or type(thread).__name__ in ("TMonitor", "HistorySavingThread", "_DummyThread")
    )


def _of_main_thread():
    """As faulthandler writes it."""
    number = threading.main_thread().ident
    frame = sys._current_frames().get(number)
    lines = [f"\nThread 0x{number:016x} (most recent call first):\n"]
    while frame is not None and len(lines) <= FRAMES:
        lines.append(f'  File "{frame.f_code.co_filename}", line {frame.f_lineno} in {frame.f_code.co_name}\n')
        frame = frame.f_back
    return "".join(lines)
