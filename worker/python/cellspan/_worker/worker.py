# SPDX-License-Identifier: BSD-3-Clause
"""The common part of home and ranks: a shell, the messages to and from the agent, and the execution of a cell.

The user's code runs on the main thread, inside a loop that continues between cells (loops.py). The loop serves messages when
nothing runs, and while a cell awaits. Calls that wait in the middle of a cell (input and calls) serve messages, too: `wait_for`.
"""

from __future__ import annotations

import collections
import contextvars
import itertools
import json
import os
import signal
import sys
import threading

from .. import _link
from .._base import own_code, shadows
from .._base.errors import give_up, text_of
from . import environment, interrupts, reloads, sigterm, spawned, stacks
from .execution import own_error
from .loops import Loop
from .message import received, unopened
from .publish import to_json
from .streams import Streams
from .tracebacks import left_by_interrupt

POLL_S = 1.0  # seconds between two checks of a thread that sleeps

_current = contextvars.ContextVar("cellspan_cell", default=None)


class Waiting:
    """A wait for an answer. Whoever waits serves messages meanwhile."""

    def __init__(self, cell):
        self.cell = cell
        self.answer = None
        self.done = threading.Event()

    def set(self, answer):
        self.answer = answer
        self.done.set()
        _link.wake()


class Worker:
    """The worker process. Subclasses define which messages they serve: HANDLERS maps a kind to a method's name."""

    HANDLERS = {}
    CELL = ""  # the kind that executes a cell
    ENDS_BY_SIGNAL = False  # SIGTERM ends it at once; else handlers of atexit run first
    DURING_CALL = ()  # kinds that are served while the main thread waits in the middle of a cell

    def __init__(self):
        own_code.begin()
        reloads.watch_imports()
        self.streams = None
        self.shell = None
        self.loop = stacks.loop = Loop(self._readable, self._loop_born)
        self.count = 0
        self.code = ""
        self.cell = None  # the Cell that the main thread runs
        self.holds = False  # is the main thread within Calls.held()?
        self.running = None  # the Cell whose task awaits, or None
        self.last = 0  # number of the cell to which output belongs when nothing runs
        self.header = ""  # header of the current request, as JSON
        self._queue = collections.deque()
        self._depth = 0  # >0: a message is being served, so others wait
        self._inputs = {}  # id: the Waiting for a line of input
        self._input_ids = itertools.count(1)
        self._calls = {}  # number of a call: the Waiting for its RETURN
        self._asked = {}  # number of the cell: the Waiting for answers of ranks
        self.main_thread = threading.main_thread()

    # ---- life --------------------------------------------------------------------------------------------------------

    def start(self, fd):
        """Takes ownership of the socket. From now on this process ends with its agent."""
        self.streams = Streams()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupts.keep_from_debugger()
        interrupts.keep_from_libraries()
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        if not self.ENDS_BY_SIGNAL:
            sigterm.catch(self.exit_functions)
        self.streams.watch_forks()
        _link.start(fd, self.streams.tick)

    def serve(self):
        """Runs the loop until the process ends."""
        self.loop.serve()

    def _loop_born(self, loop):
        interrupts.cancelled_as_interrupt(self.shell)

    def leave(self, status=0):
        """Ends the process normally: runs atexit handlers and flushes text."""
        self.exit_functions()
        os._exit(status)

    def exit_functions(self):
        """Runs handlers of atexit, and flushes their output."""
        import atexit

        try:
            atexit._run_exitfuncs()
        except BaseException:  # noqa: BLE001 - a user's handler must not keep the process alive
            pass
        self.streams.flush()

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _readable(self):
        """Called by the loop when there are messages. While a message is served (a nested loop), they wait."""
        self._collect()
        if self._depth == 0:
            self._drain()

    def _collect(self, part=_link.ALL):
        while True:
            message = received(part)
            if message is None:
                return
            if not self._answer(message):
                self._queue.append(message)
                _link.wake()

    def _answer(self, message):
        """Is it an answer that somebody waits for? Then passes it on."""
        kind, cell, fields = message.kind, message.cell, message.fields
        if kind == "INPUT_REPLY":
            waiting = self._inputs.pop(fields["id"], None)
            if waiting is not None:
                waiting.set(fields["value"])
            return True
        if kind == "ASK_REPLY":
            waiting = self._asked.pop(cell, None)
            if waiting is not None:
                waiting.set(loads(fields["answers"]))
            return True
        if kind == "RETURN":
            waiting = self._calls.pop(fields["call"], None)
            if waiting is not None:
                waiting.set(message)
            elif message.fd >= 0:
                os.close(message.fd)
            return True
        return False

    def _drain(self):
        while self._depth == 0:
            message = self._next(lambda m: self.running is None or not self.exclusive(m))
            if message is None:
                return
            self._handle(message)

    def _next(self, wanted):
        """Takes the first message that is wanted from the queue; None: there is none. Several threads may do so."""
        for message in list(self._queue):
            if wanted(message):
                try:
                    self._queue.remove(message)
                except ValueError:  # another thread has taken it
                    continue
                return message
        return None

    def exclusive(self, message):
        """Must the message wait while another cell awaits?"""
        return True

    def _handle(self, message):
        __tracebackhide__ = True
        name = self.HANDLERS.get(message.kind)
        if name is None:
            if message.fd >= 0:
                os.close(message.fd)
            return
        self._depth += 1
        try:
            self._serve(name, message)
        finally:
            self._depth -= 1

    def _serve(self, name, message):
        try:
            if not self.holds:
                _link.release()
            lost = unopened(message)
            getattr(self, name)(message) if lost is None else self.failed(message.kind, message.cell, lost)
        except _link.LinkDead:
            os._exit(1)
        except BaseException as error:  # noqa: BLE001 - there must be an answer in any case
            self._unserved(message.kind, message.cell, error)

    def _unserved(self, kind, number, error):
        """Our own code failed, or was interrupted: answers with an error."""
        try:
            if not isinstance(error, KeyboardInterrupt) and own_error(self.cell, number) is None:
                import traceback

                traceback.print_exception(type(error), error, error.__traceback__)
                self.streams.flush()
        except BaseException:  # noqa: BLE001 - the user may have replaced sys.stderr; the answer must not depend on it
            pass
        try:
            self.failed(kind, number, error)
        except KeyboardInterrupt:
            self.failed(kind, number, error)
        except BaseException as worse:  # noqa: BLE001 - a cell has broken what answers need
            give_up(worse)

    def failed(self, kind, number, error):
        """Serving a message of this kind, for cell `number`, failed: sends an error as its answer."""

    def attempt(self, number, function, *args):
        """Calls a function that may run the user's code. (Only a cell's own text is run elsewhere, by execute().)

        Returns (its value, None), or (None, its exception of any kind). On the main thread, an interrupt of cell `number` reaches it."""
        __tracebackhide__ = True
        try:
            if threading.current_thread() is not self.main_thread:
                return function(*args), None
            try:
                _link.begin(number)
                return function(*args), None
            finally:
                self._end_interruptible(number)
        except _link.LinkDead:
            os._exit(1)
        except BaseException as error:  # noqa: BLE001 - also SystemExit, which ends only this call
            return None, error

    @staticmethod
    def _end_interruptible(number):
        """After this, no interrupt of the cell comes. True: one came meanwhile."""
        interrupted = False
        while True:
            try:
                _link.end(number)
                return interrupted
            except KeyboardInterrupt:
                interrupted = True

    def wait_for(self, waiting, kinds=()):
        """Serves messages of `kinds` until the answer comes. A signal handler may raise an exception in it."""
        __tracebackhide__ = True
        if threading.current_thread() is not self.main_thread:
            return self._wait_in_thread(waiting)
        while not waiting.done.is_set():
            try:
                _link.hold()  # an exception between two steps would lose an answer
                self._collect()
            finally:
                _link.release()
            self._serve_some(kinds)
            if not waiting.done.is_set():
                _link.wait()
        if self._queue:
            self.loop.later()
        return waiting.answer

    def _wait_in_thread(self, waiting):
        """As wait_for(), in another thread: the main thread may be busy, or wait for this one. Other messages are left to it."""
        __tracebackhide__ = True
        come = 0
        while not waiting.done.is_set():
            self._collect(_link.CALLS if self.DURING_CALL else _link.ANSWERS)
            self._serve_some([kind for kind in self.DURING_CALL if kind != "EXIT"])
            if not waiting.done.is_set():
                come = _link.sleep(come, POLL_S)
        return waiting.answer

    def _serve_some(self, kinds):
        __tracebackhide__ = True
        on_main = threading.current_thread() is self.main_thread
        while True:
            try:
                _link.hold()
                message = self._next(lambda m: m.kind in kinds)
                if message is None:
                    return
                if on_main:
                    self._handle(message)
                else:
                    self._serve(self.HANDLERS[message.kind], message)
            finally:
                _link.release()

    def send(self, kind, cell, fields, blob=0, fd=-1, size=0):
        """Sends a message to the agent; the caller keeps the descriptor."""
        _link.send(kind, cell, fields, blob, fd, size)

    # ---- output ------------------------------------------------------------------------------------------------------

    def number(self):
        """The number of the cell to which output belongs: the task's or thread's, else the running one, else the last."""
        return _current.get() or (self.cell.number if self.cell is not None else self.last)

    def parent(self):
        """The current request, in the form that libraries expect from a kernel."""
        return parent_of(self.header)

    def publish(self, kind, content, metadata=None, buffers=()):
        """Publishes a Jupyter message to all clients, after all text that was written before it."""
        if not _link.alive():
            return
        self.streams.settle()
        fields = {"type": kind, "content": to_json(content), "metadata": to_json(metadata) if metadata else "{}"}
        if buffers:
            fields["buffers"] = [bytes(b) for b in buffers]
        self.send("PUBLISH", self.number(), fields)

    def show_result(self, data, metadata):
        """The last expression's value."""
        if self.cell is not None:
            self.cell.bundle = (data, metadata)

    def in_subshell(self):
        """Is this the thread of a subshell?"""
        return False

    def hints(self, error):
        """Lines to show after an exception's traceback."""
        return spawned.hints(error) or shadows.hints(error)

    def command_hints(self, command):
        """Lines to show after a shell command that has failed."""
        return []

    def show_error(self, ename, evalue, traceback, ends=True, error=None):
        """Shows an exception that ended the cell or, if not `ends`, that the user's code shows. error: the exception."""
        if self.cell is not None and ends:
            self.cell.error = {"ename": ename, "evalue": evalue, "traceback": list(traceback)}

    def others_may_write(self):
        """May tasks or threads of earlier cells write? Only home distinguishes their text from the cell's."""
        return False

    def set_parent(self, parent):
        """For home, where threads can set the cell to which their output belongs; does nothing here."""

    def reset_parent(self, token):
        """See set_parent()."""

    # ---- input -------------------------------------------------------------------------------------------------------

    def ask(self, prompt, password):
        """A line that the user types. Raises EOFError for Ctrl-D, and KeyboardInterrupt."""
        __tracebackhide__ = True
        self.streams.flush()
        waiting = Waiting(self.number())
        self._collect()
        number = next(self._input_ids)
        self._inputs[number] = waiting
        _link.let_import()  # of a library that asks the user, as with breakpoint()
        try:
            self.send("INPUT", waiting.cell, {"prompt": str(prompt), "password": int(password), "id": number, "over": 0})
            value = self.wait_for(waiting)
        except KeyboardInterrupt:
            interrupts.at_a_prompt()
            raise
        finally:
            if self._inputs.pop(number, None) is not None:
                self.send("INPUT", waiting.cell, {"prompt": "", "password": 0, "id": number, "over": 1})
        if value == "\x04":
            raise EOFError
        return value

    # ---- a cell ------------------------------------------------------------------------------------------------------

    def execute(self, cell, done):
        """Runs the cell and then calls done(cell): before it returns, or later if the cell awaits."""
        shell = self.shell
        self.cell, self.code, self.count, self.last, self.header = cell, cell.code, cell.count, cell.number, cell.header
        _current.set(cell.number)
        shell.execution_count = cell.count
        shell._last_traceback = None
        self.streams.begin(cell.number, self.others_may_write())
        try:
            interrupts.take_back()
            debugs = _link.begin(cell.number)
            if debugs:
                self._await_debugger(cell, debugs)
            if not self._around(cell.before) or cell.instead:
                if cell.error is None:
                    self._around(cell.instead, script=True)
                self._after(cell)
                self._end_cell(cell, done)
                return
            coroutine, awaits = self._prepare(cell)
            if awaits:
                self._start_task(cell, coroutine, done)
                return
            self._run(cell, coroutine)
            self._after(cell)
        except KeyboardInterrupt:
            self._broken(cell)
        except BaseException as error:  # noqa: BLE001 - of what is hooked into IPython
            self._show_unshown(cell, error)
        self._end_cell(cell, done)

    @staticmethod
    def _await_debugger(cell, come):
        """Breakpoints that were set before the cell hold in it."""
        from . import debugger

        debugger.settle(cell, come)
        cell.debugged = True

    def _around(self, call, script=False):
        """Calls a function that belongs to a cell but is not its code. False: it raised an exception, which is now the cell's error.
        For a script's exit, only the exit code and notes are shown."""
        __tracebackhide__ = True
        try:
            if call is not None:
                call()
            return True
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - shown as the cell's
            if script and isinstance(error, SystemExit) and not left_by_interrupt(error):
                lines = [f"SystemExit: {text_of(error.code)}", *map(text_of, getattr(error, "__notes__", ()))]
                self.show_error("SystemExit", text_of(error.code), lines, error=error)
                return False
            self._show(error)
        return False

    def _prepare(self, cell):
        __tracebackhide__ = True
        shell, failed = self.shell, None
        try:
            transformed = shell.transform_cell(cell.code)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - shown by IPython as the cell's error
            transformed, failed = cell.code, sys.exc_info()
        coroutine = shell.run_whole_cell(
            cell.code,
            store_history=cell.store_history,
            silent=cell.silent,
            transformed_cell=transformed,
            preprocessing_exc_tuple=failed,
        )
        awaits = failed is None and ("await" in transformed or "async" in transformed) and shell.should_run_async(
            cell.code, transformed_cell=transformed, preprocessing_exc_tuple=None
        )
        return coroutine, awaits

    def _run(self, cell, coroutine):
        """Runs a cell without await: its coroutine ends at its first step."""
        try:
            coroutine.send(None)
        except StopIteration as end:
            cell.result = end.value
        else:
            coroutine.close()
            raise RuntimeError("the cell awaits, though it has no await")

    def _show_unshown(self, cell, error):
        if cell.error is None:
            self._show(error)

    def _show(self, error):
        """Shows an error from the first frame on that is not cellspan's."""
        self.shell.showtraceback((type(error), error, _from_user_code(error.__traceback__) or error.__traceback__), tb_offset=0)

    def _start_task(self, cell, coroutine, done):
        """Starts a cell with await: while it waits, other messages are served, but no executions."""
        loop = self.loop.need()
        interrupts.aim(loop, cell)  # first: an interrupt that ends this function would leave the task running
        cell.task = loop.create_task(self._await(cell, coroutine, done))
        self.running = cell
        self.awaits(cell)

    def awaits(self, cell):
        """From now on other messages can be served before the cell ends."""

    async def _await(self, cell, coroutine, done):
        import asyncio

        try:
            cell.began = True
            if cell.interrupted:
                coroutine.close()
                raise KeyboardInterrupt
            cell.result = await coroutine
        except (KeyboardInterrupt, asyncio.CancelledError):
            self._broken(cell)
        except BaseException as error:  # noqa: BLE001 - IPython, or a hook in it, failed
            self._show_unshown(cell, error)
        finally:
            interrupts.rest()
        self.cell = cell
        self._depth += 1
        try:
            try:
                self._after(cell)
            except KeyboardInterrupt:
                self._broken(cell)
            except BaseException as error:  # noqa: BLE001 - of what is hooked into IPython
                self._show_unshown(cell, error)
            self.running = None
            self._end_cell(cell, done)
        finally:
            self._depth -= 1
        self.loop.later()

    def _after(self, cell):
        """Triggers IPython's events at a cell's end; one of their handlers shows figures."""
        __tracebackhide__ = True
        if cell.debugged:  # stepping ends with the user's code
            sys.modules["cellspan._worker.debugger"].cell_ends()
        events = self.shell.events
        events.trigger("post_execute")
        if not cell.silent:
            events.trigger("post_run_cell", cell.result)

    def _broken(self, cell):
        """Handles an interrupt that IPython did not catch, in its own code or ours."""
        cell.interrupted = True
        if cell.error is None:
            try:
                kind, error, tb = sys.exc_info()
                tb = _from_user_code(tb)
                if kind is KeyboardInterrupt and tb is not None:
                    self.shell.showtraceback((kind, error, tb), tb_offset=0)
                else:
                    self.show_error("KeyboardInterrupt", "", ["KeyboardInterrupt"])
            except KeyboardInterrupt:
                self.show_error("KeyboardInterrupt", "", ["KeyboardInterrupt"])

    def _end_cell(self, cell, done):
        if self._end_interruptible(cell.number):
            cell.own_error = cell.own_error or (cell.error is not None and not cell.interrupted)
            cell.interrupted = True
        if cell.error is None and cell.result is not None and not cell.result.success:
            cell.error = self._error_of(cell.result)
        if cell.error is not None and cell.error["ename"] == "KeyboardInterrupt":
            cell.interrupted = True
        self.shell.cell_over()
        try:
            self.streams.end(cell.number, self.others_may_write())
            done(cell)
        except _link.LinkDead:
            os._exit(1)
        except BaseException as error:  # noqa: BLE001 - there must be an answer to the cell in any case
            self._unserved(self.CELL, cell.number, error)
        finally:
            self.cell = None

    def _error_of(self, result):
        error = result.error_before_exec or result.error_in_exec
        if error is None or error is True:
            error = RuntimeError("the cell failed")
        return {"ename": type(error).__name__, "evalue": text_of(error), "traceback": self.shell._last_traceback or []}


def loads(text):
    """Parses JSON text; {} if it is empty."""
    if not text:
        return {}
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        end = -1
    return value if end == len(text) else json.loads(text)  # it may have spaces around the value, or be wrong


_scan = json.JSONDecoder().scan_once  # what json.loads() calls after its checks, which take longer than a short text


def parent_of(header):
    """A request, in the form that libraries expect from a kernel, from its header as JSON."""
    header = loads(header)
    return {"header": header, "msg_id": header.get("msg_id", ""), "metadata": {}, "content": {}}


def _is_ours(tb):
    name = tb.tb_frame.f_code.co_filename
    return name.startswith(environment.PACKAGE) or "runpy" in os.path.basename(name)


def _from_user_code(tb):
    """A traceback without the frames of cellspan and runpy at its start. None: it has no others, because the cell had not begun."""
    while tb is not None and _is_ours(tb):
        tb = tb.tb_next
    return tb
