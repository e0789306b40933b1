# SPDX-License-Identifier: BSD-3-Clause
"""A call for which home does not wait: ranks run it while home runs other cells."""

from __future__ import annotations

import os
import threading
import time

from . import _api, _link
from ._link import CALL_ASYNC, CALL_SHOWN
from ._map import serving
from ._worker.exchange import server_of
from ._worker.remote import is_of_ranks

POLL_S = 1.0  # seconds: how often a wait without messages checks the time


def check_thread(home):
    """Raises RuntimeError in a thread, which can't serve what comes for home."""
    __tracebackhide__ = True
    if threading.current_thread() is not home.main_thread:
        raise RuntimeError("what does not block must be begun in the notebook's own cells, not in a thread")


class AsyncCall:
    """The call. At most one is under way: what is called next at home first waits for its end."""

    def __init__(self, home, options, body, names=(), server=None):
        """Begins it, and returns when ranks run it. body(number) returns the code. With the number, ranks send messages to home; the
        first one says that they have begun. names: {name: value} that the code needs at home until then. server: serves what ranks send
        to home, if they send more; see _map.serving."""
        __tracebackhide__ = True
        check_thread(home)
        self._home = home
        self._began = False
        self._outcome = None  # (value, exception)
        self._settling = threading.RLock()  # several threads may wait for its end
        self._server, self._of, self._cell = server, 0, None
        self._serving = serving(home, self)
        self._of = self._serving.__enter__()
        with _api._Placed(home.shell.user_ns, dict(names)):
            text = _api.magic_line("%distribute", dict(options, gather=server is None)) + "\n" + body(self._of)
            try:
                self._waiting = home.begin_call(text, CALL_ASYNC | CALL_SHOWN)
            except BaseException:
                self._serving.__exit__()
                raise
            home.async_call = self
            try:
                self.until(lambda: self._began or self.over())
            except BaseException:
                home.interrupt_call(self._waiting)  # nobody will have its result
                raise

    def is_for(self, message):
        """Is this HANDED or BIND for it?"""
        return server_of(message) == self._of if message.kind == "HANDED" else message.cell == self._cell

    def take(self, cell, rank, head, data):
        """A rank has begun, or sends something to the server."""
        __tracebackhide__ = True
        self._began, self._cell = True, cell
        if self._server is not None:
            self._server.take(cell, rank, head, data)

    def stop(self, error):
        """take() has failed."""
        self._began = True
        if self._server is not None:
            self._server.stop(error)

    def over(self):
        """Has it ended, and has home served all that ranks sent before the end?"""
        __tracebackhide__ = True
        return self._waiting.done.is_set() and not self._home.leaves_to_others()

    def done(self):
        """Is it over? Serves what has come."""
        __tracebackhide__ = True
        self._home.serve_calls()
        return self.over()

    def wait(self, seconds=None):
        """Waits until it is over, at most so long. False: it is not over."""
        __tracebackhide__ = True
        until = None if seconds is None or seconds < 0 else time.monotonic() + seconds
        self.until(self.over, until)
        return self.over()

    def settle(self):
        """Waits, and keeps the value or the exception."""
        __tracebackhide__ = True
        if self._outcome is not None:
            return
        self.wait()
        with self._settling:
            if self._outcome is None:
                self._load()

    def _load(self):
        __tracebackhide__ = True
        answer, content = self._waiting.answer, {}
        try:
            again = answer._replace(fd=os.dup(answer.fd)) if answer.fd >= 0 else answer
            content, value = self._home.returned(again, keep=True)
            outcome = value, None
        except BaseException as error:  # noqa: BLE001 - raised by result()
            if isinstance(error, KeyboardInterrupt) and not is_of_ranks(error):
                raise  # it is for the cell that waits here, which may ask again
            outcome = None, error
        with self._home.held():
            self._outcome = outcome
            self._home.forget_returned(content)
            if answer.fd >= 0:
                os.close(answer.fd)
            self._serving.__exit__()
            if self._home.async_call is self:
                self._home.async_call = None

    def result(self):
        """The list of the ranks' values. Raises the exception of the first rank that failed."""
        __tracebackhide__ = True
        self.settle()
        value, error = self._outcome
        if error is not None:
            raise error
        return value

    def until(self, holds, until=None):
        """Serves messages until holds() or the time is over."""
        __tracebackhide__ = True
        while True:
            self._home.serve_calls()
            left = POLL_S if until is None else min(until - time.monotonic(), POLL_S)
            if holds() or left <= 0:
                return
            _link.wait(left)
