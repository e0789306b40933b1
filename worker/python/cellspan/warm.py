"""jedi, with which IPython completes, takes seconds when it is first used, more than clients wait for a Tab. Until it is warm it
has a moment for each, and what comes then comes without it; it gets ready while nothing else is to be done. A message that
comes ends that at once.
"""

from __future__ import annotations

import select
import signal
import sys
import time

from . import _link, requests

STEP = 0.01  # seconds of processor time between two looks at the clock and for messages
MOMENT = 0.6  # seconds; JupyterLab waits for one
SAMPLE = "import os\nos.path.jo"


class Enough(BaseException):
    """The moment is over, or there is a message."""


class Jedi:
    """Whether it is warm. The shell's own `use_jedi` says whether it is wanted at all."""

    def __init__(self, shell):
        self._shell = shell
        self.warm = False

    def complete(self, content):
        """complete_request. Where jedi finds nothing, IPython itself is asked: a jedi that was stopped in the midst of its
        start may find nothing for a while."""
        completer = self._shell.Completer
        wanted = completer.use_jedi
        if self.warm or not wanted:
            found = requests.complete(self._shell, content)
        else:
            end = time.monotonic() + MOMENT
            found = self._attempt(content, lambda: time.monotonic() > end)
        if not wanted or (found is not None and found["matches"]):
            return found
        completer.use_jedi = False
        try:
            return requests.complete(self._shell, content)
        finally:
            completer.use_jedi = wanted

    def get_ready(self):
        """On the main thread, between messages: until a message comes; the next call goes on."""
        if not self.warm and self._shell.Completer.use_jedi:
            self._attempt({"code": SAMPLE}, lambda: select.select([_link.fileno()], [], [], 0)[0])

    def _attempt(self, content, over):
        """A completion with jedi; None: it was over() before that was there, or the user's code has the timer."""
        if signal.getsignal(signal.SIGVTALRM) is not signal.SIG_DFL or any(signal.getitimer(signal.ITIMER_VIRTUAL)):
            return None
        stopped, found = [], None

        def look(*_):
            if over():
                stopped.append(True)  # who catches everything may catch this, too
                raise Enough

        handler, unraisable = signal.signal(signal.SIGVTALRM, look), sys.unraisablehook
        # Where nobody can catch it, in a destructor, Python would write of it to the user's cell.
        sys.unraisablehook = lambda what: None if what.exc_type is Enough else unraisable(what)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, STEP, STEP)
            try:
                found = requests.complete(self._shell, content)
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except Enough:
            pass
        finally:
            signal.signal(signal.SIGVTALRM, handler)
            sys.unraisablehook = unraisable
        self.warm = not stopped
        return found if self.warm else None
