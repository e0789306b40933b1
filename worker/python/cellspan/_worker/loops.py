# SPDX-License-Identifier: BSD-3-Clause
"""The main thread's loop. Until somebody uses asyncio, it only waits for messages, because importing asyncio takes a quarter of a
worker's start. After the import of asyncio, it is an asyncio loop, so that tasks run between cells.

A cell that imports asyncio must find a running loop, as later cells do. Until that cell is over, the loop only pretends to run
(tasks of a cell start when the cell ends, anyway).
"""

from __future__ import annotations

import os
import sys
import threading

from .. import _link
from .._base.errors import give_up
from .._base.imports import when_imported

FAILURES = 100  # failures in a row until the loop does without asyncio; after twice as many, the process ends


class Loop:
    """readable() is called when there are messages; born(loop) once, when asyncio's loop is created."""

    def __init__(self, readable, born):
        self.asyncio = None
        self._readable = readable
        self._born = born
        self._pretending = False
        self._serving = False
        self._failures = 0  # failures of the loop since the last messages

    def need(self):
        """asyncio's loop; creates it if necessary."""
        if self.asyncio is None:
            import asyncio  # noqa: F401 - our own hook makes the loop

            if self.asyncio is None:
                self._make()
        return self.asyncio

    def serve(self):
        """Runs until the process ends."""
        when_imported("asyncio", self._imported)
        self._serving = True
        while True:
            try:
                self._serve_some()
            except _link.LinkDead:
                os._exit(1)
            except BaseException as error:  # noqa: BLE001 - from a task of an earlier cell, or from a loop that was patched while it ran
                self._failures += 1
                if self._failures > 2 * FAILURES:
                    give_up(error)
                if self.asyncio is not None and self.asyncio.is_closed():
                    self.asyncio = None

    def _serve_some(self):
        if self.asyncio is None and "asyncio" in sys.modules:
            self._make()
        if self.asyncio is None or self._failures > FAILURES:  # a cell has broken what asyncio needs: builtins.len = None
            _link.wait()
            self._take()
        else:
            self._rest()
            self.asyncio.run_forever()

    def _take(self):
        self._readable()
        self._failures = 0

    def has_more(self):
        """Are there waiting tasks or timers of earlier cells?"""
        loop = self.asyncio
        if loop is None or loop.is_closed():
            return False
        asyncio = sys.modules["asyncio"]
        return bool(asyncio.all_tasks(loop) - {asyncio.current_task(loop)}) or bool(getattr(loop, "_scheduled", None))

    def later(self):
        """Schedules another check for messages."""
        if self.asyncio is not None and not self._pretending:
            self.asyncio.call_soon(self._readable)

    def _imported(self):
        if threading.current_thread() is threading.main_thread() and self.asyncio is None:
            self._make()

    def _make(self):
        import asyncio

        loop = self.asyncio = asyncio.SelectorEventLoop()
        asyncio.set_event_loop(loop)
        loop.add_reader(_link.fileno(), self._take)
        self._born(loop)
        if self._serving:
            self._pretend()

    def _pretend(self):
        """In the middle of a cell: sets the state that run_forever() would set, without running."""
        from asyncio import events

        self._pretending = True
        self.asyncio._thread_id = threading.get_ident()
        events._set_running_loop(self.asyncio)

    def _rest(self):
        if not self._pretending:
            return
        from asyncio import events

        self._pretending = False
        self.asyncio._thread_id = None
        events._set_running_loop(None)
