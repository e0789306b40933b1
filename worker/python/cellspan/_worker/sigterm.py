# SPDX-License-Identifier: BSD-3-Clause
"""SIGTERM ends home and ranks as Python ends, with the handlers of atexit. A process that they fork ends at once, as one that a plain
Python forks."""

from __future__ import annotations

import os
import signal
import threading

ONE = {signal.SIGTERM}


def catch(leave):
    """leave(): runs what this process runs before it ends."""
    pid = os.getpid()

    def handler(signo, frame):
        signal.signal(signo, signal.SIG_DFL)
        if os.getpid() == pid:  # a handler of the user's may call this one in a forked process
            leave()
        os.kill(os.getpid(), signo)

    signal.signal(signal.SIGTERM, handler)
    _watch_forks(handler)


def _watch_forks(handler):
    """The handler would run too late in a forked process that waits for a lock. And Python forgets a signal that comes before the process
    has begun, so it is held back until then."""
    mine = threading.local()

    def before():
        mine.was_held = signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ONE)

    def after():
        if not mine.was_held:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ONE)

    def after_in_child():
        if signal.getsignal(signal.SIGTERM) is handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        after()

    os.register_at_fork(before=before, after_in_parent=after, after_in_child=after_in_child)
