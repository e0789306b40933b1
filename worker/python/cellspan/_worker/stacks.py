"""Writes this process's stacks for the agent: when it asks for them, and when the process crashes."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading

from .. import _link
from . import groups

FRAMES = 100  # of the main thread, as many as faulthandler writes
MANY = 90  # threads: faulthandler writes 100, and the main thread's stack is the last one
_fd = -1  # the agent's pipe


def install(fd):
    """`fd` stays open. The agent asks by a message, or by a signal if C code keeps Python's lock: see worker/ext/dump.c."""
    global _fd
    _fd = fd
    os.set_inheritable(fd, False)
    faulthandler.disable()  # a rank has the zygote's; it must be enabled after ours, so that Python's stack comes first
    _link.stack(fd)
    faulthandler.enable(file=fd, all_threads=True)
    if _link.STACKS_SIGNAL:
        faulthandler.register(_link.STACKS_SIGNAL, file=fd, all_threads=True, chain=False)
    _link.on_stacks(_write)


def descriptor():
    """The agent's descriptor for stacks, or None."""
    text = os.environ.pop("CELLSPAN_STACK_FD", "")
    return int(text) if text.isdigit() else None


def _write():
    """In a thread of its own. The agent takes all that comes without a pause: nothing here may wait for Python's lock after the first
    line is written."""
    try:
        text = _of_main_thread() if len(threading._active) > MANY else ""
        text = (text + groups.launched()).encode("utf-8", "replace")
    except Exception:  # noqa: BLE001 - the stacks are worth more
        text = b""
    faulthandler.dump_traceback(file=_fd, all_threads=True)
    if text:
        os.write(_fd, text)


def _of_main_thread():
    """As faulthandler writes it."""
    number = threading.main_thread().ident
    frame = sys._current_frames().get(number)
    lines = [f"\nThread 0x{number:016x} (most recent call first):\n"]
    while frame is not None and len(lines) <= FRAMES:
        lines.append(f'  File "{frame.f_code.co_filename}", line {frame.f_lineno} in {frame.f_code.co_name}\n')
        frame = frame.f_back
    return "".join(lines)
