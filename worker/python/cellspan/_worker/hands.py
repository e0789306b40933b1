# SPDX-License-Identifier: BSD-3-Clause
"""HAND: what home and ranks hand each other while a call runs, such as the items of cellspan.map and their results.

A load is one Python object. It is pickled as variables are, and goes in pieces, since a message has a limit. The first part of each
piece is its head, a small dict as JSON: {"of": the number of home's server, "more": pieces of this load follow, ...}.

A load of home's is for one rank, or for whichever rank takes one next: those the kernel hands out (hand_out()). If the call outlives
ranks, the kernel tells home of a rank that has died, and which of these loads it had not finished: it has their heads.

This module has what both sides need, and the rank's side. Home's side are the servers of _map.py and _scatter.py.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import os
import time

from .. import _link
from .._base.errors import is_a, text_of
from .._capture import vars_bundle
from . import gpu_placement, seeds
from .worker import Waiting

PIECE = 64 << 20  # bytes of a load in one message
ANY = -1  # instead of a rank: whichever takes it
TELL_S = 0.5  # a rank that works on a load for longer tells meanwhile how many of its items are done
QUICK_S = 0.05  # after a load that took less than this, a rank has a second one waiting


def hand(worker, cell, to, head, data=b"", flags=0, takes=0, **counts):
    """Sends a load. worker: home or the rank; cell: the kernel's number of the cell on ranks; to: a rank, or ANY (ranks: 0). flags: of a
    rank's HAND; takes: a rank takes so many more loads of those that are for any. counts: the fields items, failed and again of HAND."""
    view = memoryview(data)
    for at in range(0, max(len(view), 1), PIECE):
        more = at + PIECE < len(view)
        parts = [json.dumps(dict(head, more=1) if more else head).encode(), bytes(view[at : at + PIECE])]
        if to == ANY:
            _for_any(worker, cell, _link.HAND_MORE if more else 0, parts, {} if more else counts)
        else:
            fields = {"to": to, "flags": 0 if more else flags, "takes": 0 if more else takes, "parts": parts}
            worker.send("HAND", cell, fields if more else {**fields, **counts})


def last(worker, cell, drop=False, items=0):
    """Home has no more loads for any rank: ranks end when none is left. drop: those that no rank has taken are dropped. items: how many
    there were in all."""
    _for_any(worker, cell, _link.HAND_LAST | (_link.HAND_DROP if drop else 0), [], {"items": items})


def given_up(worker, cell, items):
    """Home has given up so many items."""
    _for_any(worker, cell, 0, [], {"failed": items})


def stop(worker, cell):
    """Home ends the call. Ranks are interrupted."""
    worker.send("HAND", cell, {"flags": _link.HAND_STOP})


def _for_any(worker, cell, flags, parts, counts):
    worker.send("HAND", cell, {"to": 0, "flags": _link.HAND_ANY | flags, "takes": 0, "parts": parts, **counts})


class Pieces:
    """Joins the pieces of one sender."""

    def __init__(self):
        self.data = []

    def load(self, parts):
        """(head, data) of a load that is complete with this message; None: more pieces follow."""
        head = json.loads(bytes(parts[0]))
        self.data.append(parts[1])
        if head.get("more"):
            return None
        data, self.data = self.data, []
        return head, data[0] if len(data) == 1 else b"".join(data)


def of(message):
    """The number of the server that a HANDED is for."""
    return json.loads(bytes(message.fields["parts"][0]))["of"]


def received(begun, message, servers):
    """Home's Pieces.load() for a HANDED. begun: {(of, rank): its Pieces}, kept by the caller. None also if the server is gone.
    If the rank has died: ({"of": of, "died": how, "loads": the heads of those that it had not finished, in their order}, b"")."""
    rank, parts = message.fields["from"], message.fields["parts"]
    key = of(message), rank
    if key[0] not in servers:
        return None
    if message.fields.get("died"):
        begun.pop(key, None)
        return {"of": key[0], "died": message.fields["died"], "loads": [json.loads(bytes(part)) for part in parts]}, b""
    load = begun.setdefault(key, Pieces()).load(parts)
    if load is not None:
        del begun[key]
    return load


def forget(begun, of):
    """The server of this number is gone: forgets pieces of what ranks did not hand over altogether."""
    for key in [key for key in list(begun) if key[0] == of]:  # a copy: other threads serve other calls
        begun.pop(key, None)


# ---- on a rank --------------------------------------------------------------------------------------------------------


class Hands:
    """The rank's end, for the cell that it runs."""

    def __init__(self, worker, of):
        """of: the number of home's server."""
        self.worker = worker
        self.cell = worker.cell.number
        self.of = of
        self._inbox = collections.deque()
        self._waiting = None
        self._coming = 0  # loads for any rank that were asked for and not begun
        self._counted = 0  # the number of the first item that the kernel was not told of
        self.failed = self.again = 0  # what it was not told of: calls that have failed, and that were made again

    def __enter__(self):
        self.worker.hands = self
        return self

    def __exit__(self, *error):
        self.worker.hands = None

    def take(self, message):
        """A HANDED has come."""
        if message.cell == self.cell:
            self._inbox.append(message.fields["parts"])
            if self._waiting is not None:
                self._waiting.set(None)

    def send(self, data=b"", ahead=0, finished=False, done=None, **head):
        """ahead: how many loads that are for any rank should be on their way to this one; finished: it has finished one. done: the items
        before that of this number are done."""
        takes = max(ahead - self._coming, 0)
        self._coming += takes
        counts = {} if done is None else self._counts(done)
        hand(self.worker, self.cell, 0, dict(head, of=self.of), data, _link.HAND_FINISHED if finished else 0, takes, **counts)

    def tell(self, done):
        """Tells the kernel alone that the items before that of this number are done."""
        self.worker.send("HAND", self.cell, self._counts(done))

    def _counts(self, done):
        counts = {"items": done - self._counted, "failed": self.failed, "again": self.again}
        self._counted, self.failed, self.again = done, 0, 0
        return counts

    def receive(self):
        """Waits for the next load: (head, data). None: no more come."""
        __tracebackhide__ = True
        pieces = Pieces()
        while True:
            while self._inbox:
                parts = self._inbox.popleft()
                if not parts:
                    return None
                load = pieces.load(parts)
                if load is not None:
                    self._begun(load[0])
                    return load
            self._waiting = Waiting(self.cell)
            self.worker.wait_for(self._waiting)

    def _begun(self, head):
        """A load is begun. When the kernel sends one for this rank alone, it forgets what the rank had asked for. So of those for any
        rank, only those that are here already still come."""
        self._counted = head.get("first", 0)
        if head.get("own"):
            heads = [json.loads(bytes(parts[0])) for parts in self._inbox if parts]
            self._coming = sum(not (head.get("more") or head.get("own")) for head in heads)
        else:
            self._coming = max(self._coming - 1, 0)


def this_rank():
    """The Rank of this process."""
    from . import rank

    return rank.current


def work(fn, of, seed=None, retries=0, keeps=False):
    """Runs on each rank for cellspan.map: takes chunks of items from home, calls fn on each, and hands the results back. seed: see
    seeds.of_items; retries: how often a call that fails is made again; keeps: the exception of one that has failed is its result."""
    __tracebackhide__ = True
    worker = this_rank()
    ns = worker.shell.user_ns
    with Hands(worker, of) as hands, seeds.of_items(seed) as begin_item:
        hands.send(ready=1, ahead=1)
        while True:
            load = hands.receive()
            if load is None:
                return
            head, data = load
            first, spare = head["first"], retries - head.get("tried", 0)
            items = _items(hands, data, first, ns)
            again = functools.partial(_again, hands, data, first, ns, begin_item) if spare else None
            del load, data
            began, results = time.perf_counter(), []
            until = began + TELL_S
            for at, item in enumerate(items, first):
                begin_item(at)
                results.append(_tried(hands, fn, at, item, spare, again, keeps) if spare or keeps else _call(hands, fn, at, item))
                if time.perf_counter() > until:
                    hands.tell(at + 1)
                    until = time.perf_counter() + TELL_S
            seconds = time.perf_counter() - began
            ahead = 2 if seconds < QUICK_S else 1
            data = _results(hands, results, first, ns, keeps)
            hands.send(data, ahead, finished=True, done=first + len(results), first=first, seconds=seconds)
            del data


def _items(hands, data, first, ns):
    """The items of a load. TypeError: one of them can't be loaded; its text names the item."""
    __tracebackhide__ = True
    try:
        return vars_bundle.unpack_bytes(data, ns, gpu_placement.copied)
    except vars_bundle.LoadError as error:
        from .._capture import unloaded

        number = first + unloaded.number_of(error)
        hands.send(failed=number)
        told = TypeError(f"map(): {unloaded.of_item(error, number)}")
        note_item(told, number)
        raise told from error.__cause__


def _call(hands, fn, at, item):
    __tracebackhide__ = True
    try:
        return fn(*item)
    except BaseException as error:
        _fails(hands, at, error, item)
        raise


def _fails(hands, at, error, item, tries=1):
    """The map ends with this error of a call."""
    note = f"cellspan.map: item {at}, {shown(item)}" + (f", tried {tries} times" if tries > 1 else "")
    hands.failed += _is_of_item(error)
    hands.send(failed=at, done=at + 1, note=note)
    note_item(error, at, note)


def _is_of_item(error):
    """Did the call itself fail? Else it was interrupted."""
    from .tracebacks import left_by_interrupt

    return is_a(error, (Exception, SystemExit)) and not left_by_interrupt(error)


def _again(hands, data, first, ns, begin_item, at):
    """Begins this item once more: the call that has failed may have changed it."""
    __tracebackhide__ = True
    hands.again += 1
    item = _items(hands, data, first, ns)[at - first]
    begin_item(at)
    return item


def _tried(hands, fn, at, item, spare, again, keeps):
    """As _call(). A call that fails is made again, `spare` times, with the item that again() returns."""
    __tracebackhide__ = True
    for left in range(spare, -1, -1):
        try:
            return fn(*item)
        except BaseException as error:
            own = _is_of_item(error)
            if not left or not own:
                if keeps and own:
                    return _failure(hands, error)
                _fails(hands, at, error, item, spare + 1 - left)
                raise
        item = again(at)


def _failure(hands, error):
    """The result of a call that has failed."""
    from .pxrank import Failure

    hands.failed += 1
    return Failure(error)


CALL_CODES = {_call.__code__, _tried.__code__}


def note_item(error, at, note=""):
    """Sets error.item, which home's exception has, too: the number of the item that failed. note: the line that names it."""
    with contextlib.suppress(Exception):  # a user's class may refuse it
        error.item = at
    with contextlib.suppress(Exception):  # Python 3.10 has no notes
        if note:
            error.add_note(note)


def _results(hands, results, first, ns, keeps):
    """The results as bytes. TypeError: one of them can't be pickled; its text names the item. keeps: as of work()."""
    __tracebackhide__ = True
    try:
        return vars_bundle.pack_bytes(results, ns)
    except Exception:  # noqa: BLE001 - a user's class may raise anything; see below
        for at, result in enumerate(results, first):
            why = refusal(result, ns)
            if not why:
                continue
            error = TypeError(f"map(): the result of item {at}, a {type(result).__name__}, can't be sent home: {why}")
            if keeps:
                results[at - first] = _failure(hands, error)
                continue
            hands.send(failed=at)
            note_item(error, at)
            raise error from None
        if keeps:
            return vars_bundle.pack_bytes(results, ns)
        raise


def refusal(value, ns):
    """Why this value can't be pickled, in one line; "" if it can."""
    try:
        vars_bundle.pack_bytes(value, ns)
    except Exception as error:  # noqa: BLE001 - see _results()
        return vars_bundle.reason(error)
    return ""


def shown(item):
    """The arguments of a call, for an error text: short, and whatever their repr does."""
    try:
        text = ", ".join(map(repr, item))
    except Exception as error:  # noqa: BLE001 - a user's repr
        text = text_of(error)
    return f"({text if len(text) <= 120 else text[:117] + '...'})"


def part(of):
    """This rank's part, of those that home's server has: of a scattered sequence, or of a table."""
    __tracebackhide__ = True
    worker = this_rank()
    with Hands(worker, of) as hands:
        hands.send(world=int(os.environ["WORLD_SIZE"]))
        head, data = hands.receive()
        if "failed" in head:
            raise TypeError(head["failed"])
        return vars_bundle.unpack_bytes(data, worker.shell.user_ns, gpu_placement.copied)
