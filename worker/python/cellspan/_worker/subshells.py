# SPDX-License-Identifier: BSD-3-Clause
"""Subshells (JEP 91): threads of home that run cells beside the main shell's, with the same variables, history and get_ipython().

Each has its own cell, count, result and event loop (subshell_state.py), and the text of its cells goes to the kernel as messages, for
the pipes can't tell who wrote what. Its cells can't be interrupted by a signal, but by an exception that is raised at the thread's
next step in Python.
"""

from __future__ import annotations

import _thread
import itertools
import os
import queue
import signal
import sys
import threading
import time

from .. import _link
from .._base.errors import text_of
from .._jupyter import requests
from .._jupyter.kernelmagics import CELL
from . import idle_questions, interrupts
from .execution import Cell
from .message import received
from .publish import to_json
from .subshell_state import here, share
from .worker import _current, loads

FULL = 1 << 16  # bytes of text that wait at most
END_LIMIT = 2.0  # seconds that the reply to a deletion waits for the thread's end
MAGICS = tuple("%%" + name for name in CELL)
SOON = 10  # steps of Python, in which an exception that another thread has sent is raised


class Subshells:
    """All of them, by id."""

    def __init__(self, home):
        self.home = home
        self.of = {}
        self._shared = False

    def take(self):
        """Takes the messages that have come. Its thread was not started by Python, so it must not call current_thread(), which would list it."""
        while True:
            message = received(_link.SUBSHELLS)
            if message is None:
                return
            try:
                self._pass_on(message)
            except BaseException as error:  # noqa: BLE001 - no thread can be started: there must be an answer
                if message.fields["type"] != "interrupt_request":  # whose number is that of the cell that runs
                    self.home._reply(message.cell, failed(error))

    def _pass_on(self, message):
        kind, subshell = message.fields["type"], self.of.get(message.fields["id"])
        if kind == "interrupt_request":
            if subshell is not None:
                subshell.interrupt(message.cell)
        elif kind == "delete_subshell_request":
            self._delete(subshell, message)
        else:
            if subshell is None:
                subshell = Subshell(self, message.fields["id"])
                subshell.thread.start()
                self.of[subshell.id] = subshell
            subshell.give(message)

    def _delete(self, subshell, message):
        """The kernel wants a reply for one that is idle, when its thread has ended."""
        if subshell is not None:
            subshell.give(message)
        if not message.cell:
            return
        if subshell is None:
            self._deleted(None, message)
        else:  # others must not wait for its end
            _thread.start_new_thread(self._deleted, (subshell, message))

    def _deleted(self, subshell, message):
        """Runs in a thread that Python does not know; see take()."""
        until = time.monotonic() + END_LIMIT
        while subshell is not None and subshell.thread.is_alive() and time.monotonic() < until:
            time.sleep(0.0005)  # not join(), which asks for current_thread()
        try:
            self.home._reply(message.cell, loads(message.fields["content"]))
        except _link.LinkDead:
            pass

    def share(self):
        """A subshell is about to run something."""
        if not self._shared:
            share(self.home)
            self._shared = True

    def id_here(self):
        """The id of the subshell whose thread this is, or None."""
        return here.subshell.id if here.subshell is not None else None


class Subshell:
    """One of them."""

    def __init__(self, all, id):
        self.id = id
        self._all, self._home = all, all.home
        self._box = queue.SimpleQueue()
        self._loop = None  # asyncio's, once a cell needs it
        self._rests = False  # the loop runs between two requests
        self.has_tasks = False  # earlier cells have left some in it
        self._lock = threading.Lock()
        self._now = 0  # number of the cell that an interrupt ends
        self._early = 0  # a cell that was interrupted before it began
        self._cell = None
        self._task = None  # the cell's, if it runs in the loop
        self.thread = threading.Thread(target=self._run, name=f"subshell-{id}", daemon=True)

    # ---- from other threads --------------------------------------------------------------------------------------------

    def give(self, message):
        self._box.put(message)
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._come)
            except RuntimeError:  # a cell has closed the loop
                pass

    def interrupt(self, number):
        with self._lock:
            if self._now != number:
                self._early = number
            elif not self._cancel():
                _link.raise_in(self.thread.ident, KeyboardInterrupt)
        _link.wake()  # it may wait in input()

    def _cancel(self):
        """Does its cell await? Then cancels it."""
        frame, task = sys._current_frames().get(self.thread.ident), self._task
        above = frame.f_back if frame is not None else None
        if task is None or above is None or frame.f_code.co_name != "select" or above.f_code.co_name != "_run_once":
            return False
        self._cell.interrupted = True
        self._loop.call_soon_threadsafe(task.cancel)
        return True

    # ---- its thread ----------------------------------------------------------------------------------------------------

    def _run(self):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # what started the thread blocks signals, and commands would inherit that
        here.subshell, here.values = self, {}
        try:
            while self._serve(self._next()):
                pass
        finally:
            self._all.of.pop(self.id, None)
            self._close()

    def _next(self):
        while self._box.empty() and self._loop is not None and not self._loop.is_closed():
            self._rests = True
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001 - of a task of an earlier cell
                pass
            finally:
                self._rests = False
        return self._box.get()

    def _come(self):
        if self._rests:
            self._loop.stop()

    def _close(self):
        loop, self._loop = self._loop, None
        if loop is None or loop.is_closed():
            return
        import asyncio

        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=END_LIMIT))
        loop.close()

    def _serve(self, message):
        """False: the thread is to end."""
        home, number, fields = self._home, message.cell, message.fields
        kind = fields["type"]
        if kind == "delete_subshell_request":
            return False
        try:
            if kind == "create_subshell_request":
                if number:  # else this home has only been told of it
                    home._reply(number, loads(fields["content"]))
                return True
            self._all.share()
            home._requests.append((number, fields["header"]))
            if kind == "execute_request":
                self._execute(number, fields)
            else:
                self._answer(kind, number, fields)
        except _link.LinkDead:
            os._exit(1)
        except BaseException as error:  # noqa: BLE001 - there must be an answer in any case
            home._unserved("REQUEST", number, error)
        return True

    def _answer(self, kind, number, fields):
        home, content = self._home, loads(fields["content"])
        if kind.startswith("comm_"):
            home._serve_request(number, fields, lambda: home._comm(kind, fields, content))
        elif kind == "complete_request":
            home._serve_request(number, fields, lambda: idle_questions.complete(home, content))
        elif kind == "inspect_request":
            home._serve_request(number, fields, lambda: idle_questions.inspect(home, content))
        elif kind in requests.SERVED:
            home._serve_request(number, fields, lambda: requests.SERVED[kind](home.shell, content))
        else:
            home._reply(number, failed(NotImplementedError(f"a subshell serves no {kind}")))

    # ---- a cell --------------------------------------------------------------------------------------------------------

    def _execute(self, number, fields):
        home, shell = self._home, self._home.shell
        cell = Cell.of_request(number, fields, loads(fields["content"]))
        cell.code = at_its_magic(cell.code)
        home.cell, home.code, home.count, home.header = cell, cell.code, cell.count, cell.header
        self._cell = cell
        shell.execution_count, shell._last_traceback = cell.count, None
        token = _current.set(number)
        self._note(cell, began=True)
        sink = Sink(home, number)
        home.streams.add_sink(number, sink)
        _link.busy(True)
        try:
            try:
                self._begin_interruptible(number)
                self._compute(cell)
                home._after(cell)
            except KeyboardInterrupt:
                home._broken(cell)
            except BaseException as error:  # noqa: BLE001 - of what is hooked into IPython
                home._show_unshown(cell, error)
            cell.interrupted = self._end_interruptible() or cell.interrupted
            if cell.error is None and cell.result is not None and not cell.result.success:
                cell.error = home._error_of(cell.result)
            self._note(cell)
            shell.cell_over()
            sink.flush()
            home.answer_cell(cell)
        finally:
            _link.busy(False)
            home.streams.drop_sink(number)
            sink.flush()
            self.has_tasks = self._has_tasks()
            if home.others_may_write():
                home.streams.expect_others()
            home.cell = None
            _current.reset(token)
            self._cell = None
        shell.history_manager.save()

    def _compute(self, cell):
        home = self._home
        coroutine, awaits = home._prepare(cell)
        if not awaits and "asyncio" not in sys.modules:
            home._run(cell, coroutine)
            return
        import asyncio

        loop = self._need_loop()
        task = self._task = loop.create_task(coroutine)
        try:
            cell.result = loop.run_until_complete(task)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        except KeyboardInterrupt:
            if not task.done():
                task.cancel()
                loop.run_until_complete(asyncio.wait([task], timeout=END_LIMIT))
            raise
        finally:
            self._task = None

    def _need_loop(self):
        if self._loop is None or self._loop.is_closed():
            import asyncio

            self._loop = asyncio.SelectorEventLoop()
            asyncio.set_event_loop(self._loop)
            interrupts.cancelled_as_interrupt(self._home.shell)
        return self._loop

    def _has_tasks(self):
        loop = self._loop
        if loop is None or loop.is_closed():
            return False
        return bool(sys.modules["asyncio"].all_tasks(loop)) or bool(getattr(loop, "_scheduled", None))

    def _note(self, cell, began=False):
        """Cells on ranks get what this cell changes."""
        home = self._home
        if home._capturer is None:
            return
        with home.working():
            hidden = not cell.store_history
            home._capturer.began(hidden=hidden and began)
            if not began:
                home._capturer.ran(cell.code, cell.error is None, hidden=hidden)

    def _begin_interruptible(self, number):
        """From now on an interrupt of the cell reaches it."""
        with self._lock:
            early, self._early, self._now = self._early == number, 0, number
        if early:
            raise KeyboardInterrupt

    def _end_interruptible(self):
        """After this no interrupt comes. True: one came meanwhile."""
        interrupted = False
        while True:
            try:
                with self._lock:
                    self._now = 0
                for _ in range(SOON):  # one that was sent already is raised here
                    pass
                return interrupted
            except KeyboardInterrupt:
                interrupted = True


class Sink:
    """The text of a subshell's cell, on its way to the kernel."""

    def __init__(self, home, number):
        self._home, self._number = home, number
        self._lock = threading.RLock()
        self._parts, self._size = [], 0

    def write(self, stream, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.add("stderr" if stream is self._home.streams.err else "stdout", text)
        return len(text)

    def add(self, name, text):
        with self._lock:
            self._parts.append((name, text))
            self._size += len(text)
            if self._size >= FULL:
                self.flush()

    def flush(self):
        with self._lock:
            parts, self._parts, self._size = self._parts, [], 0
            for name, some in itertools.groupby(parts, key=lambda part: part[0]):
                text = "".join(text for _, text in some).encode("utf-8", "backslashreplace").decode()
                content = to_json({"name": name, "text": text})
                self._home.send("PUBLISH", self._number, {"type": "stream", "content": content, "metadata": "{}"})


def failed(error):
    """The content of an error reply."""
    return {"status": "error", "ename": type(error).__name__, "evalue": text_of(error), "traceback": []}


def at_its_magic(code):
    """A cell without the empty lines and comments above a magic of cellspan's: IPython wants a magic in the first line."""
    if "%%" not in code:
        return code
    lines = code.splitlines(keepends=True)
    for k, line in enumerate(lines):
        text = line.strip()
        if text and not text.startswith("#"):
            return "".join(lines[k:]) if text.split(None, 1)[0] in MAGICS else code
    return code
