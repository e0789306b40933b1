"""IPython completes names with jedi, whose first use takes seconds, longer than clients wait for a Tab. So the first Tab is
answered without jedi, while a thread prepares it; cells don't wait for that thread.

The thread is not stopped while home lives: an interrupted jedi can leave files in its cache that jedi can't read.
"""

from __future__ import annotations

import os
import threading

from . import requests

PATIENCE = 5.0  # seconds that a fork waits for the thread: a child would not have the thread, but the locks that it holds
SAMPLE = "import os\nos.path.jo"


class Jedi:
    """Completion with jedi once it is ready (warm). The shell's `use_jedi` says whether the user wants it at all."""

    def __init__(self, shell):
        self._shell = shell
        self._thread = None
        self.warm = False

    def complete(self, content):
        """complete_request. If jedi finds nothing, asks IPython without jedi."""
        completer = self._shell.Completer
        wanted = completer.use_jedi
        if self.warm or not wanted:
            found = requests.complete(self._shell, content)
            if found["matches"] or not wanted:
                return found
        completer.use_jedi = False
        try:
            return requests.complete(self._shell, content)
        finally:
            completer.use_jedi = wanted

    def get_ready(self):
        """Starts the thread, unless it was started."""
        if self._thread is None and self._shell.Completer.use_jedi:
            self._thread = threading.Thread(target=self._get_ready, name="jedi gets ready", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the user's limit of threads: Tab continues without jedi
                return
            os.register_at_fork(before=self._wait)

    def _wait(self):
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(PATIENCE)

    def _get_ready(self):
        try:
            import jedi

            jedi.Interpreter(SAMPLE, [{}]).complete()
        except BaseException:  # noqa: BLE001 - IPython reports the error when it uses jedi
            pass
        self.warm = True
