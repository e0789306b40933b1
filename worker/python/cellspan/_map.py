# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.map(): calls a function on each item, on whichever rank is free.

Home makes chunks of items, and the kernel hands them out (exchange.py). A rank that has finished a chunk gets the next, so a slow item or
a slow rank does not keep the others waiting, nor does home while it is busy. The size of a chunk follows the time that items take: a
rank should work for about CHUNK_S on one.

Items are taken from their iterators only when they are needed soon: at most AHEAD chunks for each rank are on their way.

With retries, home keeps the chunks that are out, and the kernel tells it which of them a rank had when it died. Those that the rank had
not begun are handed out again as they are. Of the one that it had begun, nobody knows at which item it died, so each of these items is
handed out by itself.
"""

from __future__ import annotations

import inspect
import itertools
import time
from typing import NamedTuple

from . import _api, _call_options
from ._base.errors import text_of
from ._base.whole import whole
from ._capture import vars_bundle
from ._link import CALL_OUTLIVES
from ._option_errors import InPython
from ._worker import exchange, map_rank
from ._worker.remote import as_of_ranks, is_of_ranks, remote_error

CHUNK_S = 0.02  # seconds that a rank should work on a chunk
FILL_S = 0.01  # seconds that home takes items for one chunk: other ranks wait meanwhile
AHEAD = 2  # chunks for each rank: one that it works on, and one that waits in the kernel; of quick ones a third, which waits at the rank
CHUNK_MAX = 4096  # items
GROWTH = 4  # a chunk has at most this many times the items of the largest that was finished: the first item may have been a quick one
CHUNK_BYTES = 8 << 20  # bytes of a chunk, or one item
AHEAD_BYTES = 64 << 20  # bytes of chunks that are out; beyond that there is one for each rank
DEATHS = ("RankDied", "MachineLeaves")  # the names of the exceptions for a rank that is gone
RETRIES = "cellspan.map: with retries=1 other ranks do the work of one that dies, and an item of which ranks die is named"
DEATHS_TOLD = 8  # of those after which no rank was left
NO_CALLS = ("the items of a map are made while ranks work on others, so the code that makes them can't call the ranks: "
            "make a list of the items before the map, list(...)")

_ids = itertools.count(1)


_OPTIONS = {name: row for name, row in _call_options.OF_CALLS.items() if name not in ("init", "gather")}  # an item is of one rank alone


def map(fn, *iterables, chunksize=None, retries=0, return_exceptions=False, **options):
    """[fn(x) for x in xs], computed on the ranks: the results in order. With several iterables, fn gets an item of each, until the
    shortest ends.

    Each rank takes the next items when it is free. The iterables may be generators: items are taken when ranks need them soon. (In a
    program that is no notebook, all are taken at first.)
    chunksize: items that a rank takes at once (None: chosen by the time that they take). seed: before each call, random numbers are
    seeded from it and from the number of the item; None: from CELLSPAN_SEED, if that is set. Other options: as in run(). If fn has
    keyword arguments, use functools.partial.

    retries: how often an item is tried again: one whose call raises an exception, at once on its rank, and one whose rank dies (it was
    killed, or is out of memory), on another rank. The items that the rank took together with it are tried again, too, also those that it
    had finished, so fn should do no harm when it is called twice. An item of which retries + 1 ranks have died raises RankDied.
    If no rank is left, RankDied (or MachineLeaves, if their machines are gone) names the item of each.
    return_exceptions: the exception of an item, or its SystemExit, is its result, and the map goes on.

    Raises the exception of the first item that fails, as run() does. Its attribute `item` is the number of the item, from 0, and the
    traceback names it. TypeError: fn does not take so many arguments, an argument has no items, or the function, an item or a result can't be sent.
    ValueError: chunksize is no whole number from 1 on, retries none from 0 on, or seed none from 0 to 2**64 - 1. An exception of an
    iterable is raised unchanged. RuntimeError: an iterable calls the ranks itself; make a list of it first.

    See the built-in map(), and LoadBalancedView.map_sync of ipyparallel.
    """
    __tracebackhide__ = True
    options = _call_options.named("map", options, _OPTIONS)
    home = _api.caller()
    length, items = checked(fn, iterables, chunksize)
    seed = _api.seed_of(options.pop("seed", None))
    how = {"chunksize": chunksize, "retries": retries_of(retries), "keeps": bool(return_exceptions)}
    if items is None:
        return []
    with InPython(options):
        if _api.is_far(home):
            return far(home, fn, list(items), "_map", "at_home", fn, how, options, seed)
        return call(home, fn, items, length, how, options, seed)


_call_options.documented(map, _OPTIONS)


def checked(fn, iterables, chunksize):
    """(how many calls there will be or None, an iterator of tuples of arguments; None: there are none) of a map. Raises as map()."""
    __tracebackhide__ = True
    if not callable(fn):
        raise TypeError(f"map() needs a function, not {type(fn).__name__}: map(f, xs)")
    if not iterables:
        raise TypeError("map() needs something to iterate over: map(f, xs)")
    for number, one in enumerate(iterables, 2):
        if not hasattr(type(one), "__iter__") and not hasattr(type(one), "__getitem__"):
            raise TypeError(f"map(): argument {number}, {map_rank.shown([one])}, is of type {type(one).__name__}, and has no items: "
                            "give a list, a range or a generator, map(f, xs)")
    if chunksize is not None and _index(chunksize) < 1:
        raise ValueError(f"chunksize={chunksize!r}: it is a number of items, 1 or more")
    length, items = _length(iterables), zip(*iterables)
    first = next(items, None)
    if first is None:
        return 0, None
    _check_takes(fn, len(iterables))
    return length, itertools.chain([first], items)


def retries_of(retries):
    """The number as an int; it may have been numpy's. ValueError: it is none."""
    __tracebackhide__ = True
    number = _index(retries)
    if number < 0:
        raise ValueError(f"retries={retries!r}: it is how often an item is tried again, a whole number, 0 or more")
    return number


def _index(number):
    """A whole number as an int; -1: it is none."""
    found = whole(number)
    return -1 if found is None else found


def far(home, fn, items, module, name, *args):
    """home.do(module, name, items, *args). TypeError: the function, or one of the items, can't be sent."""
    __tracebackhide__ = True
    from ._capture.capture import CaptureError

    try:
        return home.do(module, name, items, *args)
    except CaptureError as error:
        raise TypeError(_unsent(home.captures.refusal, fn, items, text_of(error))) from None


def _unsent(refusal, fn, items, why):
    """The error text that names the part of a map that can't be sent. refusal(value): why a value can't be; None: it can."""
    found = refusal(fn)
    if found:
        return f"map(): the function can't be sent to the ranks: {found}"
    for at, item in enumerate(items):
        found = refusal(item)
        if found:
            return f"map(): item {at}, {map_rank.shown(item)}, can't be sent to the ranks: {found}"
    return f"map(): it can't be sent to the ranks: {why}"


def at_home(items, fn, how, options, seed):
    """map() at home, for a program that is no notebook."""
    __tracebackhide__ = True
    return call(_api.current_home(), fn, iter(items), len(items), how, options, seed)


def call(home, fn, items, length, how, options, seed):
    """map() after its checks. items: an iterator of tuples of arguments; length: how many there are, or None; how: arguments of _Tasks."""
    __tracebackhide__ = True
    tasks = _Tasks(home, items, length, **how)
    with serving(home, tasks) as tasks.of:
        args = (fn, tasks.of, seed, how["retries"], how["keeps"])
        try:
            _api._run(home, map_rank.work, args, {}, options, CALL_OUTLIVES if how["retries"] else 0)
        except KeyboardInterrupt as error:
            if tasks.failed is not None and is_of_ranks(error):  # an item has raised it
                map_rank.note_item(error, tasks.failed, tasks.note)
            raise
        except Exception as error:
            if type(error).__name__ in DEATHS and not how["retries"]:
                error.traceback = [*error.traceback, RETRIES]
            raise reason(home, fn, tasks, error) from None
    return tasks.results()


def reason(home, fn, tasks, error):
    """What to raise for a map that ended with this exception."""
    if tasks.error is not None and not isinstance(tasks.error, KeyboardInterrupt):  # home is interrupted, too, when ranks fail
        return tasks.error
    why = home.captures().refusal(fn) if type(error) is TypeError else None
    if why:
        return TypeError(f"map(): the function can't be sent to the ranks: {why}")
    if type(error).__name__ in DEATHS and tasks.lost_all():
        return tasks.no_rank_left(error)
    if tasks.failed is not None and "item" not in vars(error):  # it has it, unless the rank's exception could not be described
        map_rank.note_item(error, tasks.failed)
    return error


class serving:
    """`with serving(home, server) as number:` passes what ranks send to home under this number to server.take(cell, rank, head, data).

    If take() raises an exception, server.stop(exception) is called."""

    def __init__(self, home, server):
        self.home, self.server, self.of = home, server, next(_ids)

    def __enter__(self):
        self.home.servers[self.of] = self.server
        return self.of

    def __exit__(self, *error):
        del self.home.servers[self.of]
        exchange.forget(self.home.pieces, self.of)


class _Packed:
    """The results of a chunk, as bytes."""

    def __init__(self, count, data):
        self.count, self.data = count, data

    def __len__(self):
        return self.count

    def unpacked(self, ns):
        """The list of results."""
        __tracebackhide__ = True
        return vars_bundle.unpack_bytes(self.data, ns)


class _Out(NamedTuple):
    """A chunk whose results have not come."""

    count: int  # items
    size: int  # bytes of the arguments
    to: int  # for which rank
    data: bytes = b""  # the arguments, if there are retries
    deaths: tuple = ()  # texts: how ranks died that had begun it


class _Tasks:
    """Hands out the items, and collects the results."""

    def __init__(self, home, items, length, chunksize, lazy=False, retries=0, keeps=False):
        """lazy: results are unpickled when they are asked for, since an interrupt may end that. retries, keeps: as of map_rank.work()."""
        self.home = home
        self.of = 0  # its number, among home's servers
        self._retries, self._keeps = retries, keeps
        self._lazy = lazy
        self.error = None  # what ends the map: an exception of an iterable, or an item that can't be sent
        self.failed, self.note = None, ""  # number of the item whose call failed, and the line that names it
        self._deaths = []  # (number of the first item, items, text) of each chunk that a rank had begun when it died; the text says how it died
        self._items = items
        self._length = length
        self._fixed = chunksize and _index(chunksize)
        self._taken = 0  # items taken from the iterator
        self._ended = False  # no more items are taken
        self._stopped = False  # what no rank has taken is dropped
        self._told_last = False  # ranks end when no chunk is left
        self._item_s = self._item_bytes = None  # of one item: seconds, and bytes of arguments or result
        self._quick = False  # did the last chunk take less than map_rank.QUICK_S?
        self._proven = 1  # items of the largest chunk that was finished
        self._ranks = set()  # those that have begun
        self._chunks = {}  # number of the first item: _Out, then the results, as a list or _Packed
        self._out = self._out_bytes = 0  # chunks that were handed out and whose results have not come
        self._cell = 0

    def results(self):
        """All results, in order. Raises what ended the map at home."""
        __tracebackhide__ = True
        if self.error is not None:
            raise self.error
        for first, found in self._chunks.items():
            if isinstance(found, _Out):  # after an interrupt that the function has caught, the kernel hands out no more
                raise KeyboardInterrupt
            if isinstance(found, _Packed):
                self._chunks[first] = found.unpacked(self.home.shell.user_ns)
        found = [result for first in sorted(self._chunks) for result in self._chunks[first]]
        return [_kept(at, result) for at, result in enumerate(found)] if self._keeps else found

    def come(self):
        """The number of results that have come."""
        return sum(len(found) for found in self._chunks.values() if not isinstance(found, _Out))

    def take(self, cell, rank, head, data):
        """A rank is ready, has results, or has failed."""
        __tracebackhide__ = True
        if self._stopped and not self._cell:  # before the first rank had begun
            exchange.send_last(self.home, cell, drop=True)
        self._cell = cell
        if "failed" in head:
            if self.failed is None:
                self.failed, self.note = head["failed"], head.get("note", "")
            self._end()
            return
        if "died" in head:
            self._ranks.discard(rank)
            self._lost(head["died"], [each["first"] for each in head["loads"]])
            self._fill()
            return
        if "first" in head:
            out = self._chunks[head["first"]]
            self._count(out.to, -1, -out.size)
            self._learn(head, len(data))
            found = _Packed(out.count, data)
            self._chunks[head["first"]] = found if self._lazy else found.unpacked(self.home.shell.user_ns)
            del data
        self._ranks.add(rank)
        self._fill()

    def stop(self, error):
        """Home's part has failed, or was interrupted: no more items are handed out."""
        if self.error is None:
            self.error = as_of_ranks(error)
        self._end()

    def _end(self):
        """Ranks end when they have finished what they have."""
        self._ended = self._stopped = self._told_last = True
        if self._cell:
            exchange.send_last(self.home, self._cell, drop=True)

    # ---- ranks that die ----

    def _lost(self, how, firsts):
        """A rank has died and had these chunks, the first of which it had begun."""
        for at, first in enumerate(firsts):
            out = self._chunks[first]
            self._count(out.to, -1, -out.size)
            if self._stopped:
                continue
            if at:
                self._send_chunk(first, out)
                continue
            self._deaths.append((first, out.count, how))
            of_many = f", with {_numbered(first, out.count)}" if out.count > 1 else ""
            out = out._replace(deaths=(*out.deaths, how + of_many))
            if len(out.deaths) > self._retries:
                self._give_up(first, out)
            elif out.count == 1:
                self._send_chunk(first, out, again=1)
            else:
                self._send_each(first, out)

    def _send_each(self, first, out):
        """Hands out the items of a chunk, each by itself."""
        ns = self.home.shell.user_ns
        items = self.home.interruptible(vars_bundle.unpack_bytes, out.data, ns)
        del self._chunks[first]
        for at, item in enumerate(items, first):
            data = self._packed([item], at)
            self._send_chunk(at, _Out(1, len(data), out.to, data, out.deaths), again=1)

    def _give_up(self, first, out):
        """Too many ranks have died of this item."""
        text = f"map(): {self._named(first, out)}: {len(out.deaths)} ranks have died with it, and retries={self._retries}: {'; '.join(out.deaths)}"
        error = remote_error({"ename": "RankDied", "evalue": text, "traceback": [f"RankDied: {text}"]})
        map_rank.note_item(error, first)
        exchange.send_given_up(self.home, self._cell, out.count)
        if self._keeps:
            self._chunks[first] = [error]
            return
        self.error = error
        self._ended = self._stopped = self._told_last = True
        exchange.send_stop(self.home, self._cell)  # what ranks work on may take long

    def lost_all(self):
        """Have all ranks died, each with a chunk?"""
        return bool(self._deaths) and not self._ranks

    def no_rank_left(self, error):
        """The exception for a map of which all ranks have died, each with an item of its own. error: the kernel's."""
        listed = []
        for first, count, how in self._deaths[:DEATHS_TOLD]:
            out = self._chunks.get(first)
            alone = isinstance(out, _Out) and count == 1
            listed.append(f"{self._named(first, out) if alone else _numbered(first, count)}: {how}")
        more = len(self._deaths) - len(listed)
        text = f"map(): no rank is left: {'; '.join(listed)}{f'; and {more} more' if more > 0 else ''}: try one of these items by itself, with cellspan.run()"
        name = type(error).__name__
        made = remote_error({"ename": name, "evalue": text, "traceback": [f"{name}: {text}", *error.traceback[2:]]})
        alone = [first for first, count, _ in self._deaths if count == 1]
        if alone:
            map_rank.note_item(made, alone[0])
        return made

    def _named(self, first, out):
        """The item of a chunk that has only this one, in words."""
        try:
            return f"item {first}, {map_rank.shown(vars_bundle.unpack_bytes(out.data, self.home.shell.user_ns)[0])}"
        except Exception:  # noqa: BLE001 - the user's classes
            return f"item {first}"

    # ---- the next chunks ----

    def _learn(self, head, size):
        """Notes what items of this chunk took."""
        out = self._chunks[head["first"]]
        self._proven = max(self._proven, out.count)
        self._quick = head["seconds"] < map_rank.QUICK_S
        took, bytes_ = head["seconds"] / out.count, max(size, out.size) / out.count
        self._item_s = took if self._item_s is None else 0.6 * self._item_s + 0.4 * took
        self._item_bytes = bytes_ if self._item_bytes is None else max(bytes_, 0.9 * self._item_bytes)

    def _fill(self):
        """Hands out chunks, or says that there are no more."""
        __tracebackhide__ = True
        while not self._ended and self._wants():
            chunk = self._chunk(self._size())
            if chunk:
                self._send(chunk, exchange.ANY)
            if not chunk:
                break
        if self._ended and not self._told_last and not (self._retries and self._out):  # else a rank may die, and others need its chunks
            self._told_last = True
            exchange.send_last(self.home, self._cell, items=self._taken)

    def _send(self, chunk, to, **head):
        """Hands out the items that were taken last."""
        __tracebackhide__ = True
        first = self._taken - len(chunk)
        data = self._packed(chunk, first)
        self._send_chunk(first, _Out(len(chunk), len(data), to, data if self._retries else b""), data, **head)

    def _send_chunk(self, first, out, data=None, again=0, **head):
        """Hands out a chunk. data: the arguments; None: out has them. again: so many of the items had been begun before."""
        self._chunks[first] = out
        self._count(out.to, 1, out.size)
        if self._retries:
            head.update(of=self.of, tried=len(out.deaths))
        head["first"] = first
        exchange.send_load(self.home, self._cell, out.to, head, out.data if data is None else data, items=self._length or 0, again=again)

    def _count(self, to, chunks, size):
        """So many more are out."""
        self._out += chunks
        self._out_bytes += size

    def _wants(self):
        """Should one more chunk be handed out?"""
        return self._out < (self._ahead() if self._out_bytes < AHEAD_BYTES else len(self._ranks))

    def _ahead(self):
        """How many chunks should be out. 0: no rank has begun yet."""
        return (AHEAD + self._quick) * len(self._ranks)

    def _size(self):
        if self._fixed:
            return self._fixed
        if self._item_s is None:
            return self._first_size()
        size = min(CHUNK_S / max(self._item_s, 1e-7), CHUNK_BYTES / max(self._item_bytes, 1), CHUNK_MAX, GROWTH * self._proven)
        if self._length is not None:  # the last chunks are small, so that all ranks end at the same time
            size = min(size, (self._length - self._taken) / (2 * max(len(self._ranks), 1)))
        return max(int(size), 1)

    def _first_size(self):
        """As long as no chunk was finished."""
        return 1

    def _chunk(self, size):
        """The next items, at most `size`; fewer if the iterator is slow."""
        __tracebackhide__ = True
        chunk, until = [], time.monotonic() + FILL_S
        with self.home.refusing(NO_CALLS):
            while len(chunk) < size and (self._fixed or not chunk or time.monotonic() < until):
                try:
                    item = self._next()
                except StopIteration:
                    self._ended = True
                    break
                chunk.append(item)
                self._taken += 1
        return chunk

    def _next(self):
        """The next item. The user's code may make it, so an interrupt reaches it."""
        __tracebackhide__ = True
        return self.home.interruptible(next, self._items)

    def _packed(self, chunk, first):
        __tracebackhide__ = True
        ns = self.home.shell.user_ns
        try:
            return vars_bundle.pack_bytes(chunk, ns)
        except Exception as error:
            for at, item in enumerate(chunk, first):
                why = map_rank.refusal(item, ns)
                if why:
                    raise TypeError(f"map(): item {at}, {map_rank.shown(item)}, can't be sent to the ranks: {why}") from None
            raise TypeError(f"map(): items {first} to {first + len(chunk) - 1} can't be sent together: {vars_bundle.reason(error)}") from None


def _numbered(first, count):
    return f"item {first}" if count == 1 else f"items {first} to {first + count - 1}"


def _kept(at, result):
    """A result where exceptions are results."""
    from ._worker.pxrank import Failure

    if not isinstance(result, Failure):
        return result
    error = remote_error(result.content)
    map_rank.note_item(error, at)
    return error


def _length(iterables):
    """How many calls there will be; None: an iterable does not know its length."""
    try:
        return min(len(one) for one in iterables)
    except Exception:  # noqa: BLE001 - of the user's class: TypeError if it has no length
        return None


def _check_takes(fn, count):
    __tracebackhide__ = True
    try:
        inspect.signature(fn).bind(*[None] * count)
    except ValueError:  # some functions in C have no signature
        return
    except TypeError as error:
        if "signature" not in text_of(error):
            raise TypeError(f"{getattr(fn, '__name__', fn)}(): {error}: map() gives it {count} argument{'s' * (count > 1)}: give as many lists as it takes") from None
