# SPDX-License-Identifier: BSD-3-Clause
"""IPython completes names with jedi, whose first use takes seconds, longer than clients wait for a Tab. So a thread prepares jedi
while nothing runs: some seconds after somebody has connected who may press Tab, or at the first Tab. Until it is ready, Tab is
answered without jedi; if that finds nothing, Tab waits for jedi, until anything but Tab wants the main thread. Clients that only run
cells never send what an editor sends, so their notebooks do not load jedi. Before jedi the thread prepares Pygments, which takes a
tenth of that, and without which IPython says nothing about a name.

While a request is served, and shortly after it, the thread pauses, because both need Python's lock.

When a cell comes, the thread gives up: it ends by an exception at its next call of a function of jedi. What jedi has imported and
loaded so far is kept. No exception is raised while jedi writes to its cache on disk, which it could not read then, and while a
module is imported. The next time that nothing runs, another thread goes on.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import time

from .._base import shadows, threads
from . import requests

PACKAGES = ("jedi", "parso")  # if a file of the notebook's folder has such a name, the user can import it, and Tab continues without jedi
IDLE = 2.0  # seconds without a message, before it is prepared
END_LIMIT = 5.0  # seconds that a fork waits for the thread: a child would not have the thread, but the locks that it holds
FIRST_TAB = 60.0  # seconds that a Tab waits for jedi at most: a busy machine needs many, and an answer that is late is one
PAUSE = 0.05  # seconds without progress of the main thread, after which the thread goes on: it may hold the lock of a module that a request imports
PROGRESS = 0.001  # seconds of a processor that the main thread has used, if it makes progress
REST = 0.1  # seconds that the thread pauses after a request: more may come
RESTS = 5.0  # seconds after the thread's begin from when it does so no more, and pauses for no request longer than PAUSE: there may be no end of them
A_MOMENT = 0.002  # seconds that a cell waits for the thread at most; the thread ends also if that is too short
TYPING = frozenset("history_request comm_info_request is_complete_request complete_request inspect_request".split())
SWITCH = 0.0005  # seconds: how long a cell waits for its turn while the thread still runs (Python's default is ten times that)
SAMPLES = ("import os\nos.path.jo", "[].app")


class GivenUp(BaseException):
    """A cell has come."""


class Jedi:
    """Completion with jedi once it is ready (warm). The shell's `use_jedi` says whether the user wants it at all."""

    def __init__(self, shell, wait):
        """wait(done, seconds): waits on the main thread until done(), unless something else has to be done there."""
        self._shell = shell
        self._wait = wait
        self._go = threading.Event()  # not set: the thread pauses
        self._go.set()
        self._serving = False
        self._rest_end = self._rests_end = 0.0
        self._typing = False  # is there a client that may press Tab?
        self._thread = None
        self._over = None  # an Event: the thread must give up
        self._begun = False  # the thread no longer waits for its time
        self._watches_forks = False
        self.warm = False

    def complete(self, content):
        """complete_request. If jedi finds nothing, asks IPython without jedi."""
        completer = self._shell.Completer
        wanted = completer.use_jedi
        if not wanted:
            return requests.complete(self._shell, content)
        if not self.warm:
            found = self._plainly(content)
            if found["matches"] or not self._await():
                return found
        found = requests.complete(self._shell, content)
        return found if found["matches"] else self._plainly(content)

    def _await(self):
        """A Tab waits until jedi is ready. False: it is not."""
        self._typing = True
        self._go.set()
        self._get_ready(0)
        try:
            self._wait(lambda: self.warm, FIRST_TAB)
        except KeyboardInterrupt:  # the Tab is answered without jedi
            pass
        return self.warm

    def _plainly(self, content):
        completer = self._shell.Completer
        wanted, completer.use_jedi = completer.use_jedi, False
        try:
            return requests.complete(self._shell, content)
        finally:
            completer.use_jedi = wanted

    def before(self, kind):
        """A message or request of this kind comes."""
        if self._thread is None:
            return
        if kind in TYPING:
            self._serving = True
            self._go.clear()
        else:
            self.give_up(0 if self._over.is_set() else A_MOMENT)

    def after(self, kind):
        """It was served, and no cell runs."""
        self._serving, self._rest_end = False, time.monotonic() + REST
        if kind in TYPING:
            self._typing = True
            self.nothing_runs(tab=kind == "complete_request")

    def nothing_runs(self, tab=False):
        """Starts the thread, if it is wanted. It begins later, unless there was a Tab."""
        if self._typing and not self.warm and self._shell.Completer.use_jedi and not any(map(shadows.hiding, PACKAGES)):
            self._get_ready(0 if tab else IDLE)

    def give_up(self, limit):
        """Ends the thread, and waits for that at most so many seconds."""
        thread = self._thread
        if thread is None or threading.current_thread() is thread:
            return
        self._over.set()
        self._go.set()
        thread.join(limit)
        if not thread.is_alive():
            self._thread = None

    def _pause(self):
        """In the thread, while it must not go on."""
        if self._serving:
            may_go = self._go.wait(PAUSE) if time.monotonic() >= self._rests_end else _waits_while_main_thread_gets_on(self._go)
            if not may_go:  # the request may wait for this thread
                self._go.set()
            return
        end = min(self._rest_end, self._rests_end)
        if not self._go.wait(max(0.0, end - time.monotonic())) and not self._serving and time.monotonic() >= end:
            self._go.set()

    def _get_ready(self, delay):
        thread = self._thread
        if delay and thread is not None and thread.is_alive() and self._over.is_set():
            return  # it ends soon; of many cells that come meanwhile, each would begin another one
        if thread is not None and thread.is_alive() and not self._over.is_set() and (delay or self._begun):
            return
        if thread is not None:
            self._over.set()
        over, self._begun = threading.Event(), False
        try:
            new = threads.begin("jedi", self._run, over, delay, thread)
        except RuntimeError:  # the user's limit of threads: Tab continues without jedi
            return
        self._thread, self._over = new, over
        if not self._watches_forks:
            self._watches_forks = True
            os.register_at_fork(before=lambda: self.give_up(END_LIMIT))

    def _run(self, over, delay, before):
        if before is not None:
            before.join()
        if over.wait(delay):
            return
        self._begun, self._rests_end = True, time.monotonic() + RESTS
        switch = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH)
        go = self._go

        def step(frame, event, arg):
            if event == "call" and over.is_set():
                _give_up(frame)
            elif event == "call" and not go.is_set():
                self._pause()

        sys.setprofile(step)
        try:
            if not shadows.hiding("pygments"):
                _prepare_pygments()
            import jedi

            for sample in SAMPLES:
                jedi.Interpreter(sample, [{}]).complete()
        except BaseException:  # noqa: BLE001 - IPython reports the error when it uses jedi
            if over.is_set():
                return
        finally:
            sys.setprofile(None)
            if abs(sys.getswitchinterval() - SWITCH) < 1e-6:  # else a cell has set another one
                sys.setswitchinterval(switch)
        self.warm = True


def _prepare_pygments():
    from pygments import highlight
    from pygments.formatters import HtmlFormatter, Terminal256Formatter
    from pygments.lexers import PythonLexer

    for formatter in (HtmlFormatter(noclasses=True), Terminal256Formatter()):
        highlight("def f(x): pass", PythonLexer(), formatter)


def _waits_while_main_thread_gets_on(event):
    """Waits for the event, as long as the main thread makes progress. Did it come?"""
    used = _main_thread_seconds()
    while not event.wait(PAUSE):
        before, used = used, _main_thread_seconds()
        if used - before < PROGRESS:
            return False
    return True


def _main_thread_seconds():
    """The seconds of a processor that the main thread has used; always 0 where the system does not tell."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(threading.main_thread().ident))


def _give_up(frame):
    """Raises GivenUp, unless this frame or one around it must not be broken off. Generators and code that is not jedi's may run
    because an object is freed, where an exception has no effect but a message."""
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    if package not in PACKAGES or frame.f_code.co_flags & inspect.CO_GENERATOR:
        return
    while frame is not None:
        if frame.f_globals.get("__name__") in ("parso.cache", "importlib._bootstrap", "importlib._bootstrap_external"):
            return
        frame = frame.f_back
    raise GivenUp
