# SPDX-License-Identifier: BSD-3-Clause
"""A rank's part when its machine will be gone soon: COUNT, MEET and MET in protocol/README.md."""

from __future__ import annotations

import collections
import sys
import traceback

from .. import _link
from .._base.errors import in_words
from .worker import Waiting

TEXT_MAX = 400  # characters of an error that the kernel is told


class StepMeeting:
    """What cellspan.on_notice() was given, and the meeting in which ranks call it."""

    def __init__(self, worker):
        self.worker = worker
        self.function = None
        self._news = collections.deque()  # MEETs that step() has not seen: (how, step)
        self._waiting = None
        self._step = 0  # in which ranks meet; 0: not known yet
        self._there = False  # the kernel knows that this rank is there

    def set(self, function):
        had, self.function = self.function, function
        if function is not None:
            name = getattr(function, "__name__", type(function).__name__)
            self._tell(_link.MET_HAS, text=str(name)[:TEXT_MAX])
        elif had is not None:
            self._tell(_link.MET_LACKS)

    def take(self, message):
        """A MEET has come. False: its turn is when no cell runs."""
        how = message.fields["how"]
        if how == _link.MEET_NOW:
            return False
        if how == _link.MEET_OFF:  # steps_asked() is False since it came, unless the kernel has asked anew
            self._forget()
        else:
            self._news.append((how, message.fields["step"]))
        if self._waiting is not None:
            self._waiting.set(None)
        return True

    def meet(self, number):
        """In step `number`, after COUNT: waits until it is known where ranks meet, and there for the others; then calls the function."""
        while True:
            self.worker._collect(_link.ANSWERS)
            runs = self._read()
            if runs:
                self._over()
                self._call()
                return
            if not _link.steps_asked() or 0 < number < self._step:
                return
            if self._step and not self._there:
                self._there = True
                self._tell(_link.MET_THERE, number)
                continue
            self._wait()

    def _read(self):
        runs = False
        while self._news:
            how, step = self._news.popleft()
            runs = runs or how == _link.MEET_RUN
            self._step = step
        return runs

    def _wait(self):
        __tracebackhide__ = True
        self.worker.streams.flush()
        self._waiting = Waiting(self.worker.number())
        try:
            if not self._news and _link.steps_asked():
                self.worker.wait_for(self._waiting)
        finally:
            self._waiting = None

    def _over(self):
        _link.steps_over()
        self._forget()

    def _forget(self):
        self._news.clear()
        self._step, self._there = 0, False

    def now(self, number):
        """Calls it between cells; number: of the message."""
        self._over()
        _, error = self.worker.attempt(number, self._call)
        if isinstance(error, KeyboardInterrupt):
            print("KeyboardInterrupt", file=sys.stderr)
        self.worker.streams.flush()

    def _call(self):
        """The user's own SystemExit or KeyboardInterrupt ends the cell; other errors don't."""
        __tracebackhide__ = True
        try:
            if self.function is not None:
                self.function()
        except Exception as error:  # noqa: BLE001 - the training goes on
            traceback.print_exc()
            self._tell(_link.MET_FAILED, text=in_words(error)[:TEXT_MAX])
        except KeyboardInterrupt:
            self._tell(_link.MET_FAILED, text="KeyboardInterrupt")
            raise
        except BaseException:
            self._tell(_link.MET_RAN)
            raise
        else:
            self._tell(_link.MET_RAN)

    def _tell(self, what, step=0, text=""):
        self.worker.streams.flush()  # what the function has printed comes before the line about it
        self.worker.send("MET", self.worker.number(), {"what": what, "step": step, "text": text})
