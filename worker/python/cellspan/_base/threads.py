# SPDX-License-Identifier: BSD-3-Clause
"""Threads of cellspan's own, which are not the user's: the debugger neither shows nor stops them, and what looks for threads that a cell
has left does not count them (stacks.py)."""

from __future__ import annotations

import threading

PREFIX = "cellspan-"


def begin(name, run, *args):
    """Starts a thread that ends with the process. RuntimeError: none can be started."""
    thread = threading.Thread(target=run, args=args, name=PREFIX + name, daemon=True)
    thread.pydev_do_not_trace = thread.is_pydev_daemon_thread = True  # pydevd asks for these
    thread.start()
    return thread
