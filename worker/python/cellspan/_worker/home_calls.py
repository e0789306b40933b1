# SPDX-License-Identifier: BSD-3-Clause
"""Home's calls: a magic in the middle of a cell, or a function of Python's interface, that the kernel executes as a cell on ranks."""

from __future__ import annotations

import collections
import itertools
import os
import threading

from .. import _link
from .._base.errors import text_of
from .message import Message, unopened
from .publish import to_json
from .worker import Waiting, Worker, loads

IS_WAITED_FOR = "another cell is running on the ranks, and it waits for this code: call it in a cell of its own"
LOAD_MAX = 128 << 10  # bytes of a function and its arguments that go along with its CALL; those of larger ones are a variable


def may_send_code():
    """May ranks on other machines get the user's own modules?"""
    return _link.setting("CELLSPAN_CODE") != "never"


class Calls(Worker):
    """The part of Home that makes calls, from any thread, and serves what the kernel asks meanwhile."""

    DURING_CALL = (*_link.call_kinds(), "EXIT")

    def __init__(self):
        super().__init__()
        self.far = False  # the last cell's ranks may be on other machines, and get the user's own modules: calls do not say where theirs are
        self.async_call = None  # the AsyncCall that is under way; see _async_call.py
        self.servers = {}  # number: what serves HANDED; see _map.py
        self.pieces = {}  # (number of a server, rank): pieces of what the rank hands home
        self._lists = {}  # number of a cell: the list of all ranks' values, for the call that waits
        self._numbers = itertools.count(1)
        self._one = threading.RLock()  # held by the thread that works for a cell on ranks
        self._works = threading.local()  # .now: this thread does; the error text of a call that it tries
        self._left = False  # something waits for the thread that works: an interrupt has ended the wait of the thread that took it
        self._taking = threading.RLock()  # held by the thread that takes messages
        self._taken = collections.deque()  # what threads have taken and not yet begun to serve, in the order in which it came

    def _collect(self, part=_link.ALL):
        if part == _link.ALL and threading.current_thread() is not self.main_thread:
            part = _link.CALLS  # to take all would also take from the main thread that something has come for it
        with self._taking:
            super()._collect(part)

    def _next(self, wanted):
        left = self.leaves_to_others()
        with self._taking:
            message = super()._next(wanted if not left else lambda m: wanted(m) and not self._is_shared(m))
            if message is not None and self._is_shared(message):
                self._taken.append(message)
        return message

    def _is_shared(self, message):
        """May any thread serve it?"""
        return message.kind in self.DURING_CALL and message.kind != "EXIT"

    def _serve(self, name, message):
        __tracebackhide__ = True
        if message.kind == "EXIT":  # does not wait for a thread's code; and nobody will answer a call of a handler at exit
            self._works.now = IS_WAITED_FOR
        if not self._is_shared(message):
            super()._serve(name, message)
            return
        try:
            _link.hold(True)  # another thread may work for long, and a second interrupt must end the wait for it
            with self.working():
                interrupted = self._serve_taken()
        except BaseException:  # an interrupt
            self._put_back()
            raise
        finally:
            if not self.holds:
                _link.release()
        if interrupted:
            raise KeyboardInterrupt

    def _serve_taken(self):
        """Serves all that threads have taken: another thread may have taken something before this one, and not yet have begun to serve
        it. True: the main thread's cell was interrupted meanwhile."""
        __tracebackhide__ = True
        interrupted = False
        while self._taken:
            try:
                _link.hold()
            except KeyboardInterrupt:  # one that came before; it holds nevertheless
                interrupted = True
            message = self._taken.popleft()
            call = self._async_call_of(message)
            if call is None:
                super()._serve(self.HANDLERS[message.kind], message)
            elif message.kind == "HANDED":
                self._serve_async_call(call, message)
            else:
                before = self._stopped
                with self.held():
                    super()._serve(self.HANDLERS[message.kind], message)
                interrupted = interrupted or self._stopped is not before  # the ranks' answer has it; the cell gets it as well
        return interrupted

    def leaves_to_others(self):
        """In the main thread: does something wait until another thread is ready with its work for ranks? If not, the main thread itself waits."""
        if not self._left or threading.current_thread() is not self.main_thread:
            return False
        self._check_free()
        return self._left

    def _check_free(self):
        if self._one.acquire(blocking=False):
            self._left = False
            self._one.release()

    def _put_back(self):
        """Puts what was taken and not served back to the front of the queue. There it waits until the thread that works for ranks is
        ready. The cell that was interrupted ends first."""
        with self._taking:
            self._left = True
            while self._taken:
                try:
                    self._queue.appendleft(self._taken.pop())
                except IndexError:  # another thread serves it
                    break
        self._check_free()
        if not self._left:  # nobody will say so
            self.loop.later()

    def _async_call_of(self, message):
        """The AsyncCall that it is for, if the main thread runs a cell meanwhile. Then an interrupt is for that cell."""
        call, on_main = self.async_call, threading.current_thread() is self.main_thread
        there = message.kind in ("HANDED", "BIND") and on_main and self.cell is not None and call is not None and call.is_for(message)
        return call if there else None

    def _serve_async_call(self, call, message):
        """_handed(), after which the cell gets an interrupt that came meanwhile."""
        __tracebackhide__ = True
        interrupted = False
        with self.held():
            try:
                load = self._received(message)
                if load is not None:
                    call.take(message.cell, message.fields["from"], *load)
            except _link.LinkDead:
                os._exit(1)
            except BaseException as error:  # noqa: BLE001 - the user's code pickles and makes items
                call.stop(error)
                interrupted = isinstance(error, KeyboardInterrupt)  # while an item was made
        if interrupted:
            raise KeyboardInterrupt  # not the one that has ended the call

    def held(self):
        """Within the block, the main thread gets no interrupt; it gets it at the end. Blocks may be nested. Within one, home takes no
        other messages. In another thread it does nothing."""
        return _Held(self)

    def interruptible(self, function, *args):
        """function(*args), the user's code, which gets an interrupt also within held()."""
        __tracebackhide__ = True
        if not self.holds or threading.current_thread() is not self.main_thread:
            return function(*args)
        self.holds = False
        try:
            _link.release()
            return function(*args)
        finally:
            try:
                _link.hold(True)
            finally:
                self.holds = True

    def working(self):
        """Within the block, this thread works for a cell on ranks: no other does, and it can call nothing on ranks itself."""
        return _Working(self)

    def refusing(self, why):
        """As working(). why: the error text of a call within the block."""
        return _Working(self, why)

    def function(self, fn, args, kw, on=False):
        """The fields of a CALL for fn(*args, **kw), or None if it is too large to go along or shares memory with variables that fn reads:
        then it must be a variable. on: the call names where its ranks are. CaptureError: it can't be sent."""
        __tracebackhide__ = True
        self.may_call()
        with self.working():
            found = {}
            found["names"], warnings, load, held = self.captures().function((fn, args, kw), LOAD_MAX)
            if load is None:
                return None
            code, lines = self.code_for_ranks() if self.far or (on and may_send_code()) else (None, [])
            warnings += lines + self._add_state(found, code, self.far or on)
        self.after_ranks = True
        fields = {"names": to_json(found), "warnings": "\n".join(warnings), "load": load}
        return fields if held is None else {**fields, "held": held}  # CALL has no such field: it lives as long as the caller has these

    def has_no_code(self):
        """Answers questions about the notebook's code until code_answers.py does: none of it went anywhere. Called as the next one."""
        while True:
            parts = _link.next_find()
            if parts is None:
                return
            message = Message._make(parts)
            self.send("FOUND", message.cell, {"what": message.fields["what"], "question": message.fields["question"], "content": "{}"})

    def code_for_ranks(self, text="", script="", bring=()):
        """What ranks on other machines must know of the user's own modules, and lines for the user. text: of the cell or the script. What it
        reads has been captured."""
        from .._code import code_home
        from . import code_answers, reloads

        code_answers.begin()
        try:
            by_itself = reloads.autoreload_of(self.shell) is not None
            captures = self.captures()
            return code_home.part(text, captures.imports, script=script, bring=bring, ran=captures.cells, reloads=by_itself)
        except code_home.Bad as error:
            from IPython.core.error import UsageError

            raise UsageError(str(error)) from None

    def call(self, text, flags, function=None, gather=False, lent=None):
        """Lets the kernel execute `text` as if it were a cell; returns (content, value or None). function: from function(); ranks call
        it in place of the text's body. gather: the value is a list of all ranks' values. lent: a Lent, whose values its cell finds.

        If that fails, raises RemoteError with the class of the remote exception. Meanwhile the kernel handles interrupts: it
        ends the call, and then this raises KeyboardInterrupt.
        """
        __tracebackhide__ = True
        waiting, interrupted, reported = self.begin_call(text, flags, function, lent), False, False
        self._expect_values()
        while not waiting.done.is_set():
            try:
                if interrupted and not reported:  # the kernel may have got the interrupt before the call
                    self.interrupt_call(waiting)
                    reported = True
                self.wait_for(waiting, self.DURING_CALL)
            except KeyboardInterrupt:
                interrupted = True
        if interrupted:
            if waiting.answer.fd >= 0:
                os.close(waiting.answer.fd)
            raise KeyboardInterrupt
        return self.returned(waiting.answer, gather)

    def begin_call(self, text, flags, function=None, lent=None):
        """Sends the call; returns the Waiting for its RETURN. Calls of several threads run at the same time on different ranks."""
        __tracebackhide__ = True
        self.may_call()
        if threading.current_thread() is not self.main_thread:
            flags |= _link.CALL_ASYNC  # meanwhile home runs other cells
        elif self.async_call is not None and not text.startswith(("%ranks stop", "%ranks restart")):  # these interrupt it, if it uses the same ranks
            self.async_call.settle()
        number, call = self.number(), next(self._numbers)
        waiting = self._calls[call] = Waiting(number)
        waiting.call = call
        if lent is not None:
            lent.call = call
        self.streams.settle()
        self.send("CALL", number, {"text": text, "flags": flags, "call": call, **(function or {})})
        return waiting

    def interrupt_call(self, waiting):
        """Ends a call that begin_call() has begun."""
        self.send("CALL", waiting.cell, {"flags": _link.CALL_INTERRUPT, "call": waiting.call})

    def may_call(self):
        """RuntimeError: this thread can't call now."""
        __tracebackhide__ = True
        if not _link.alive():
            raise RuntimeError("cellspan's magics work in the notebook's own process, not in one forked from it")
        why = getattr(self._works, "now", False)
        if why:
            raise RuntimeError(why)

    def serve_calls(self):
        """Serves what has come for calls."""
        __tracebackhide__ = True
        with self.held():  # an exception between two steps would lose a message
            self._collect()
        try:
            self._serve_some(self.DURING_CALL)
        finally:
            if self._queue:
                self.loop.later()

    def returned(self, message, gather=False, keep=False):
        """The value of call(), from its RETURN. keep: it may be asked for again, until forget_returned()."""
        __tracebackhide__ = True
        from .remote import remote_error

        fields = message.fields
        content = loads(fields["content"])
        try:
            if fields["status"] != "ok":
                raise remote_error(content)
            lost = unopened(message)
            if lost is not None:
                raise lost
            _, value = self._loaded(self._unpack, message)
        finally:
            if message.fd >= 0:
                os.close(message.fd)
        if fields["values"]:
            values = self._loaded(self._unpacked, fields["values"])
            value = values if gather else values[0]
        elif "gathered" in content:
            value = (self._lists.get if keep else self._lists.pop)(content["gathered"], value)
        return content, value

    def forget_returned(self, content):
        """See returned()."""
        self._lists.pop(content.get("gathered"), None)

    def _unpacked(self, values):
        from .._capture.vars_bundle import unpack_bytes

        return [unpack_bytes(value, self.shell.user_ns) for value in values]

    def _loaded(self, load, what):
        """load(what), for values of a RETURN."""
        __tracebackhide__ = True
        try:
            return load(what)
        except Exception as error:
            from .remote import remote_error

            error = getattr(error, "original", error)  # of a LoadError: there is no name to tell
            why = f"home could not load the value: {text_of(error)}"
            raise remote_error({"ename": type(error).__name__, "evalue": why, "traceback": []}) from None

    def _received(self, message):
        from .exchange import received  # what it needs takes long to load; most notebooks start without it

        return received(self.pieces, message, self.servers)

    def _handed(self, message):
        """HANDED: a rank wants something for the call that runs, or brings something."""
        load = self._received(message)
        server = self.servers.get(load[0]["of"]) if load else None
        if server is not None:
            cell, begun = message.cell, []

            def take():
                __tracebackhide__ = True
                begun.append(True)
                server.take(cell, message.fields["from"], *load)

            _, error = self.attempt(cell, take)
            if error is not None:
                server.stop(error)
                if not begun:  # interrupted before; what the rank has brought is wanted all the same
                    self.attempt(cell, take)


class _Working:
    """See working(). No generator: an interrupt between its steps would leave the lock taken."""

    def __init__(self, home, why=IS_WAITED_FOR):
        self.home, self.works, self.why = home, home._works, why

    def __enter__(self):
        self.before = getattr(self.works, "now", False)
        held = self.home._one._is_owned()  # by an outer block
        try:
            self.home._one.acquire()
            self.works.now = self.why
        except BaseException:  # an interrupt may come when the lock is taken already
            self.works.now = self.before
            if not held and self.home._one._is_owned():
                self.home._one.release()
            raise

    def __exit__(self, *error):
        self.works.now = self.before
        self.home._one.release()
        if self.home._left:
            self.home._left = False
            _link.wake()


class _Held:
    """See held()."""

    def __init__(self, home):
        self.home = home
        self.inner = home.holds or threading.current_thread() is not home.main_thread

    def __enter__(self):
        __tracebackhide__ = True
        if self.inner:
            return
        try:
            _link.hold(True)
        except BaseException:  # an interrupt that came before; it holds nevertheless
            _link.release()
            raise
        self.home.holds = True

    def __exit__(self, *error):
        __tracebackhide__ = True
        if not self.inner:
            self.home.holds = False
            _link.release()
