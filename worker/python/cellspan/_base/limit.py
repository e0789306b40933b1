"""A time limit for code that may take seconds on a busy machine, or for ever in a user's class: converting an exception to text,
comparing values."""

from __future__ import annotations

import _thread
import signal
import threading

AGAIN = 0.2  # seconds until TooSlow is raised again, for code that catches all exceptions


class TooSlow(BaseException):
    """The time is over."""


class Limit:
    """A context manager for the main thread. After so many seconds it raises TooSlow in the block. An interrupt only sets `noted`.
    It does not use threading.Thread, whose start() never returns if a cell has replaced len()."""

    def __init__(self, seconds):
        self.noted = False
        self._seconds = seconds
        self._late = self._left = False
        self._over = _thread.allocate_lock()  # held until the block has ended
        self._watched = _thread.allocate_lock()  # held until the watching thread has ended

    def __enter__(self):
        self._handler = signal.signal(signal.SIGINT, self._take)
        self._over.acquire()
        self._watched.acquire()
        _thread.start_new_thread(self._watch, ())
        return self

    def __exit__(self, *error):
        self._left = True
        self._over.release()
        self._watched.acquire()
        signal.signal(signal.SIGINT, self._handler)  # a signal that was already sent goes to _take()

    def _watch(self):
        try:
            main = threading.main_thread().ident
            seconds = self._seconds
            while not self._over.acquire(timeout=seconds):
                self._late = True
                signal.pthread_kill(main, signal.SIGINT)
                seconds = AGAIN
        finally:
            self._watched.release()

    def _take(self, signo, frame):
        if not self._late:
            self.noted = True
            return
        self._late = False
        if not self._left:
            raise TooSlow
