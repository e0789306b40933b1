"""jedi, with which IPython completes, takes seconds when it is first used, more than clients wait for a Tab. So the first Tab
is answered without it, and a thread gets it ready meanwhile: a cell that comes then does not wait.

That thread is not stopped while home lives: a jedi that is broken off in the midst can leave files in its cache that no jedi
can read.
"""

from __future__ import annotations

import os
import threading

from . import requests

PATIENCE = 5.0  # seconds that a fork waits for it: a child has no such thread, but the locks that it holds
SAMPLE = "import os\nos.path.jo"


class Jedi:
    """Whether it is warm. The shell's own `use_jedi` says whether it is wanted at all."""

    def __init__(self, shell):
        self._shell = shell
        self._thread = None
        self.warm = False

    def complete(self, content):
        """complete_request. Where jedi finds nothing, IPython itself is asked."""
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
        """Begins that, unless it has begun."""
        if self._thread is None and self._shell.Completer.use_jedi:
            self._thread = threading.Thread(target=self._get_ready, name="jedi gets ready", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the user's limit of threads: Tab stays without it
                return
            os.register_at_fork(before=self._wait)

    def _wait(self):
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(PATIENCE)

    def _get_ready(self):
        try:
            import jedi

            jedi.Interpreter(SAMPLE, [{}]).complete()
        except BaseException:  # noqa: BLE001 - what is wrong with it, IPython tells when it uses it
            pass
        self.warm = True
