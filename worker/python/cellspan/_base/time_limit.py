# SPDX-License-Identifier: BSD-3-Clause
"""A time limit for code that may take seconds on a busy machine, or for ever in a user's class: converting an exception to text,
comparing values."""

from __future__ import annotations

import signal
import threading
from _signal import signal as set_handler  # that of signal looks for the handler in an enum

from .. import _link


class TooSlow(BaseException):
    """The time is over."""


class TimeLimit:
    """A context manager. In the block an interrupt only sets `noted`, and run() has a time limit. It starts no thread and needs hardly
    any memory, because it is used where there may be none left. In another thread than the main one, what waits in C, such as
    time.sleep(), ends first."""

    def __init__(self):
        self.noted = False
        self._handler = self._mask = None

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            _link.why()
            self._handler = set_handler(signal.SIGINT, self._take)
        else:
            self._mask = _link.mask()
        return self

    def __exit__(self, *error):
        if self._mask is not None:
            self.noted = _link.unmask(self._mask)
        elif self._handler is not None:
            set_handler(signal.SIGINT, self._handler)  # a signal that was already sent goes to _take()

    def interrupt(self):
        """After the block: the interrupt that was noted comes now."""
        if self._mask is None:
            signal.raise_signal(signal.SIGINT)
        else:
            _link.raise_in(threading.get_ident(), KeyboardInterrupt)

    @staticmethod
    def run(seconds, call, *args, **kwargs):
        """The value of call(*args, **kwargs). When the time is over, TooSlow is raised in call(): again and again if its code catches all
        exceptions, but never after it has returned."""
        return _link.within(seconds, TooSlow, call, args, kwargs)

    def _take(self, signo, frame):
        why = _link.why()
        if not why & (_link.LATE | _link.OVER) or why & _link.INTERRUPT:
            self.noted = True
        if why & _link.LATE:
            raise TooSlow
