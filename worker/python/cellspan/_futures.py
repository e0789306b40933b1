# SPDX-License-Identifier: BSD-3-Clause
"""What cellspan.px begins and does not wait for. Each has done(), wait(seconds) and result().

At home such a call is an AsyncCall or uses one. In a plain program it is a Far, which asks the call in the kernel's home.
"""

from __future__ import annotations

import collections
import itertools
import pickle
import time

from . import _api, _map
from ._async_call import AsyncCall, check_thread
from ._base import own_code
from ._base.errors import text_of
from ._capture import vars_bundle
from ._worker import exchange, pxrank
from ._worker.remote import remote_error

_PX = own_code.module_named("cellspan._worker.pxrank")

OWN_MAX = 8 << 20  # bytes of a call for one rank; larger arguments go as variables, and only if they have changed. It goes in one piece
OWN_AHEAD = 16  # calls for one rank that are there
AHEAD = 1024  # chunks that wait in the kernel, for while home is busy
AHEAD_S = 0.1  # seconds that home makes chunks ahead; the rest is made when ranks need it soon

_numbers = itertools.count(1)
_kept = {}  # at home, for a program that is no notebook: {number: what it has begun}
_captures = None  # at home: knows what tasks read
_queues = {}  # at home: {ranks: the Queue of tasks for them}


def begin(home, what, *args):
    """Begins one of _KINDS. TypeError: it can't be sent to the ranks."""
    __tracebackhide__ = True
    if not _api.is_far(home):
        return _KINDS[what](home, *args)
    if what == "map":
        items, ranks, f, *others = args
        return Far(home, _map.far(home, f, list(items), "_futures", "begun", what, ranks, f, *others))
    from ._capture.capture import CaptureError

    try:
        return Far(home, home.do("_futures", "begun", None, what, *args))
    except CaptureError as error:
        raise _unsent(home.captures, args[1:], error) from None


def _unsent(captures, call, error=None):
    """The TypeError for a call (f, args, kwargs) that can't be sent."""
    return TypeError(f"{getattr(call[0], '__name__', call[0])}(): it can't be sent to the ranks: {captures.refusal(call) or text_of(error)}")


def check_place(home):
    """Raises RuntimeError where begin() would, before ranks are counted or started."""
    __tracebackhide__ = True
    if not _api.is_far(home):
        check_thread(home)


def size(home):
    """The number of ranks; None: they run something, so it is what it was."""
    __tracebackhide__ = True
    if _api.is_far(home):
        return home.do("_futures", "size", None)
    call = (home or _api.current_home()).async_call
    return None if call is not None and not call.over() else _api.group().size


def _apply(home, ranks, f, args, kwargs):
    """f(*args, **kwargs) on each of the ranks; the list of values. ranks: None for all."""
    __tracebackhide__ = True
    if home.captures().refusal((f, args, kwargs)):
        raise _unsent(home.captures(), (f, args, kwargs))
    with _api._Slot() as slot:
        name = _api.CALL + slot
        body = lambda of: f"{_PX}.called({of}, *{name}, {name!r})"  # noqa: E731
        return AsyncCall(home, {"ranks": ranks}, body, {name: (f, args, kwargs)})


def _execute(home, ranks, code):
    """A cell on each of the ranks; the list of pxrank.captured()."""
    __tracebackhide__ = True
    return Cells(home, {"ranks": ranks, "no-capture": True}, lambda of: f"{_PX}.captured({of}, {code!r})")


def _mapped(home, items, ranks, f, length, chunksize, there):
    """cellspan.map() with these tuples of arguments. there: they need not be made."""
    __tracebackhide__ = True
    tasks = (Ahead if there else _map._Tasks)(home, iter(items), length, chunksize, lazy=True)
    with _api._Slot() as slot:
        name = _api.CALL + slot
        body = lambda of: f"{_PX}.worked({of}, {name}, {name!r})"  # noqa: E731
        return Mapped(home, f, tasks, AsyncCall(home, {"ranks": ranks}, body, {name: (f,)}, tasks))


def _task(home, ranks, *call):
    """f(*args, **kwargs) on one of the ranks, as soon as one is free."""
    __tracebackhide__ = True
    packed = _packed(home, call)  # first: it refuses what can't be sent
    return _queue_for(home, ranks, call).add(Task, packed, ranks)


def _own(home, rank, *call):
    """[f(*args, **kwargs)] of this rank, which does such calls one after the other. Those of several ranks run at the same time."""
    __tracebackhide__ = True
    packed = _packed(home, call, OWN_MAX)
    if packed is None:
        return _apply(home, [rank], *call)
    return _queue_for(home, None, call).add(OwnTask, packed, None, rank)


def _packed(home, call, limit=None):
    """The call as bytes; None if they are more than `limit`."""
    __tracebackhide__ = True
    try:
        return vars_bundle.pack_bytes(call, home.shell.user_ns, limit)
    except Exception as error:  # noqa: BLE001 - a user's class may raise anything
        raise _unsent(home.captures(), call, error) from None


def _queue_for(home, ranks, call):
    """The Queue of these ranks that takes tasks, or a new one."""
    __tracebackhide__ = True
    state, key = _state_of_reads(home, call), None if ranks is None else tuple(ranks)
    queue = _queues.get(key)
    if queue is None or queue.over() or not queue.has(state):
        queue = _queues[key] = Queue(home, call, state)
    return queue


def _state_of_reads(home, call):
    """{name: (value, digest)} of home's variables that a call's functions read. The digest does not see a change in a large buffer: that is
    sent again only if the name is assigned."""
    global _captures
    __tracebackhide__ = True
    ns = home.shell.user_ns
    if _captures is None:
        from ._capture.capture import Capture

        _captures = Capture(ns)
    name = _api.CALL
    with _api._Placed(ns, {name: call}):
        rows = _captures.names(name)[0]
    return {row[0]: (ns[row[0]], _captures.digest(row[0])) for row in rows if row[0] != name}


_KINDS = {"apply": _apply, "own": _own, "execute": _execute, "map": _mapped, "task": _task}


class Cells(AsyncCall):
    """A cell on ranks. What ranks have shown comes before its end, and is there if the cell fails on others."""

    def __init__(self, *args):
        __tracebackhide__ = True
        self._shown = {}
        super().__init__(*args)

    def take(self, cell, rank, head, data):
        __tracebackhide__ = True
        super().take(cell, rank, head, data)
        if "shown" in head:
            self._shown[rank] = pickle.loads(data)

    def shown(self):
        """{rank: what it has shown}, for those that have ended well and have shown something."""
        return self._shown

    def result(self):
        """The list of the ranks' {"stdout", "stderr", "outputs", "result", "seconds"}."""
        __tracebackhide__ = True
        nothing = {"stdout": "", "stderr": "", "outputs": []}
        return [{**nothing, **self._shown.get(value["rank"], {}), **value} for value in super().result()]


class Now:
    """A value that is there already."""

    def __init__(self, value):
        self._value = value

    def done(self):
        return True

    def wait(self, seconds=None):
        return True

    def result(self):
        return self._value

    def progress(self):
        return len(self._value) if isinstance(self._value, list) else 1


class Mapped:
    """A map."""

    def __init__(self, home, f, tasks, call):
        self._home, self._f, self._tasks, self._call = home, f, tasks, call
        self.done, self.wait = call.done, call.wait

    def result(self):
        """The list of results. Raises the exception of the first item that failed."""
        __tracebackhide__ = True
        try:
            self._call.result()
        except Exception as error:
            raise _map.reason(self._home, self._f, self._tasks, error) from None
        return self._tasks.results()

    def progress(self):
        """The number of results that have come."""
        self.done()
        return self._tasks.come()


class Ahead(_map._Tasks):
    """As for a map, but home does not wait: it hands out what there is, so that ranks work while home is busy."""

    _until = 0.0

    def _next(self):
        return next(self._items)  # nobody has to make it

    def _fill(self):
        self._until = time.monotonic() + AHEAD_S
        super()._fill()

    def _ahead(self):
        soon = super()._ahead()
        return max(AHEAD, soon) if soon and time.monotonic() < self._until else soon

    def _first_size(self):
        """Small ones at first: nobody knows how much work they are."""
        if self._out < super()._ahead():
            return 1
        fits = _map.CHUNK_BYTES * self._out // max(self._out_bytes, 1)  # the chunks so far had few items
        return max(min(-(-self._length // AHEAD), fits), 1)


class Queue(Ahead):
    """The tasks of load-balanced views for the same ranks. Ranks take them until none is left; then they are free for other calls."""

    def __init__(self, home, call, state):
        """call: the first task; state: of the variables that it reads, which are sent when the ranks begin."""
        super().__init__(home, self, None, None)
        self.async_call = None
        of_function = _state_of_reads(home, call[:1])
        self._readers = call[:1] if of_function.keys() == state.keys() else call  # sent to all ranks: so without large arguments
        self._state = state
        self._waiting = collections.deque()
        self._own = collections.defaultdict(collections.deque)  # rank: tasks for it alone
        self._own_out = collections.Counter()  # rank: how many of these are out
        self._own_bytes = 0
        self._given = []  # Tasks by their number; None: its value has come

    def add(self, kind, packed, ranks, rank=None):
        """Adds a task, and lets the ranks begin if they do not run yet. kind: its class; rank: it is for this one."""
        __tracebackhide__ = True
        task = kind(self, packed)
        (self._waiting if rank is None else self._own[rank]).append(task)  # before messages are served: a rank that is free now takes it
        if self.async_call is not None:
            self.home.serve_calls()
        else:
            self._begin(ranks)
        if rank is not None:  # it begins at once, whatever home does then
            self.async_call.until(lambda: rank in self._ranks or self.over())
        with self.home.held():
            self._fill()
        return task

    def _begin(self, ranks):
        __tracebackhide__ = True
        with _api._Slot() as slot:
            name = _api.CALL + slot
            body = lambda of: f"{_PX}.tasks({of}, {name}, {name!r})"  # noqa: E731
            try:
                self.async_call = AsyncCall(self.home, {"ranks": ranks}, body, {name: self._readers}, self)
            except BaseException:
                self._end()
                raise
        self._readers = None

    def _end(self):
        super()._end()
        self._state = {}  # home need not keep these values any longer

    def has(self, state):
        """Have ranks these values?"""
        mine = self._state
        return all(n in mine and mine[n][0] is value and mine[n][1] == digest for n, (value, digest) in state.items())

    def over(self):
        """Does it take no more tasks?"""
        return self._ended or (self.async_call is not None and self.async_call.over())

    def __next__(self):
        if not self._waiting:
            raise StopIteration
        return self._give(self._waiting.popleft())

    def _give(self, task):
        """The arguments for a rank's attempt()."""
        self._given.append(task)
        packed, task.packed = task.packed, None
        return (packed,)

    def take(self, cell, rank, head, data):
        """A rank is ready, or brings values."""
        super().take(cell, rank, head, data)
        if "first" in head:
            for at, packed in enumerate(self._chunks.pop(head["first"]), head["first"]):
                self._given[at].take(packed)
                self._given[at] = None

    def _chunk(self, size):
        chunk = super()._chunk(size)
        self._ended = False  # more may come
        return chunk

    def _fill(self):
        if self._stopped:
            return
        for rank in self._ranks:
            while self._own[rank] and self._own_out[rank] < (OWN_AHEAD if self._own_bytes < _map.AHEAD_BYTES else 1):
                self._taken += 1
                self._send([self._give(self._own[rank].popleft())], rank, own=1)
        self._length = self._taken + len(self._waiting)
        super()._fill()
        if self._ranks and not self._waiting and not self._out and not any(self._own.values()) and not any(self._own_out.values()):
            self._end()

    def _first_size(self):
        return 1

    def _count(self, to, chunks, size):
        if to == exchange.ANY:
            super()._count(to, chunks, size)
            return
        self._own_out[to] += chunks
        self._own_bytes += size


class Task:
    """A task of a Queue."""

    def __init__(self, queue, packed):
        self._queue, self.packed = queue, packed
        self._come = None  # the bytes of the value
        self._outcome = None  # (value, exception)

    def take(self, packed):
        """The bytes of the value have come."""
        self._come = packed

    def _unpack(self):
        try:
            value = vars_bundle.unpack_bytes(self._come, self._queue.home.shell.user_ns)
        except Exception as error:  # noqa: BLE001 - the exception of this task
            self._outcome = None, error
        else:
            self._outcome = (None, remote_error(value.content)) if isinstance(value, pxrank.Failure) else (value, None)
        self._come = None

    def _is_there(self):
        return self._come is not None or self._outcome is not None

    def done(self):
        return self._is_there() or self._queue.async_call.done() or self._is_there()

    def wait(self, seconds=None):
        __tracebackhide__ = True
        until = None if seconds is None or seconds < 0 else time.monotonic() + seconds
        self._queue.async_call.until(self.done, until)
        return self.done()

    def result(self):
        __tracebackhide__ = True
        self.wait()
        if not self._is_there():  # the ranks have ended without it
            self._queue.async_call.result()
            raise self._queue.error or RuntimeError("the ranks were stopped before they began this task: submit it again")
        if self._queue.over():
            self._queue.async_call.wait()  # until what the tasks have printed is there
        if self._outcome is None:
            self._unpack()
        value, error = self._outcome
        if error is not None:
            raise error
        return value

    def progress(self):
        return int(self.done())


class OwnTask(Task):
    """A task for one rank. Its result is a list, as that of a call on several."""

    def result(self):
        __tracebackhide__ = True
        return [super().result()]


# ---- in a program that is no notebook -----------------------------------------------------------------------------------------


class Far:
    """What runs there, seen from the program."""

    _dropped = []  # numbers that home may forget

    def __init__(self, home, number):
        self._home, self._number = home, number
        self._outcome = None  # (value, exception)

    def done(self):
        __tracebackhide__ = True
        return self._outcome is not None or self._ask("done")

    def wait(self, seconds=None):
        __tracebackhide__ = True
        return self._outcome is not None or self._ask("wait", seconds)

    def result(self):
        __tracebackhide__ = True
        if self._outcome is None:
            self.wait()
            try:  # the one at home stays: it may be asked for its progress
                self._outcome = self._ask("result"), None
            except Exception as error:
                self._outcome = None, error
        value, error = self._outcome
        if error is not None:
            raise error
        return value

    def progress(self):
        return self._ask("progress")

    def _ask(self, method, *args):
        __tracebackhide__ = True
        dropped, self._dropped[:] = list(self._dropped), []
        return self._home.do("_futures", "ask", self._number, method, args, dropped)

    def __del__(self):
        self._dropped.append(self._number)


def begun(items, what, *args):
    """At home: begins something for the program, which is a map of these items or something else. Returns its number."""
    __tracebackhide__ = True
    later, number = _KINDS[what](_api.current_home(), *(args if items is None else (items, *args))), next(_numbers)
    _kept[number] = later
    return number


def ask(number, method, args, dropped):
    """At home: asks what was begun. dropped: the numbers of what the program has forgotten."""
    __tracebackhide__ = True
    for other in dropped:
        _kept.pop(other, None)
    if number not in _kept:
        raise RuntimeError("the kernel that had this result has ended: run it again")
    return getattr(_kept[number], method)(*args)
