# SPDX-License-Identifier: BSD-3-Clause
"""The rank's side of cellspan.map: takes chunks of items from home, calls the function on each, and sends the results back."""

from __future__ import annotations

import contextlib
import functools
import time

from .._base.errors import is_a, text_of, with_article
from .._capture import rebuild, vars_bundle
from . import gpu_placement, seeds
from .exchange import Exchange, this_rank

TELL_S = 0.5  # a rank that works on a chunk for longer tells meanwhile how many of its items are done
QUICK_S = 0.05  # after a chunk that took less than this, a rank has a second one waiting


def work(fn, of, seed=None, retries=0, keeps=False):
    """Runs on each rank for cellspan.map: takes chunks of items from home, calls fn on each, and sends the results back. seed: see
    seeds.of_items; retries: how often a call that fails is made again; keeps: the exception of one that has failed is its result."""
    __tracebackhide__ = True
    worker = this_rank()
    ns = worker.shell.user_ns
    with Exchange(worker, of) as exchange, seeds.of_items(seed) as begin_item:
        exchange.send(ready=1, ahead=1)
        while True:
            chunk = exchange.receive()
            if chunk is None:
                return
            head, data = chunk
            first, spare = head["first"], retries - head.get("tried", 0)
            items, targets = _items(exchange, data, first, ns)
            held = {-1: targets}
            again = functools.partial(_again, exchange, data, first, ns, begin_item, held) if spare else None
            del chunk, data
            began, results = time.perf_counter(), []
            until = began + TELL_S
            for at, item in enumerate(items, first):
                begin_item(at)
                results.append(_tried(exchange, fn, at, item, spare, again, keeps) if spare or keeps else _call(exchange, fn, at, item))
                if time.perf_counter() > until:
                    exchange.tell(at + 1)
                    until = time.perf_counter() + TELL_S
            seconds = time.perf_counter() - began
            ahead = 2 if seconds < QUICK_S else 1
            data = _results(exchange, results, first, ns, keeps)
            exchange.send(data, ahead, finished=True, done=first + len(results), first=first, seconds=seconds)
            del data


def _items(exchange, data, first, ns):
    """(the items of a chunk, what must live as long as they do). TypeError: one of them can't be loaded; its text names the item."""
    __tracebackhide__ = True
    held = []
    try:
        with rebuild.holding(held):
            return vars_bundle.unpack_bytes(data, ns, gpu_placement.copied), held
    except vars_bundle.LoadError as error:
        from .._capture import unloaded

        number = first + unloaded.number_of(error)
        exchange.send(failed=number)
        described = TypeError(f"map(): {unloaded.of_item(error, number)}")
        note_item(described, number)
        raise described from error.__cause__


def _call(exchange, fn, at, item):
    __tracebackhide__ = True
    try:
        return fn(*item)
    except BaseException as error:
        _fails(exchange, at, error, item)
        raise


def _fails(exchange, at, error, item, tries=1):
    """The map ends with this error of a call."""
    note = f"cellspan.map: item {at}, {shown(item)}" + (f", tried {tries} times" if tries > 1 else "")
    exchange.failed += _is_of_item(error)
    exchange.send(failed=at, done=at + 1, note=note)
    note_item(error, at, note)


def _is_of_item(error):
    """Did the call itself fail? Else it was interrupted."""
    from .tracebacks import left_by_interrupt

    return is_a(error, (Exception, SystemExit)) and not left_by_interrupt(error)


def _again(exchange, data, first, ns, begin_item, held, at):
    """Begins this item once more: the call that has failed may have changed it. held: gets what must live as long as the item and its result,
    in place of what the failed call's item has needed."""
    __tracebackhide__ = True
    exchange.again += 1
    items, more = _items(exchange, data, first, ns)
    item, held[at] = items[at - first], more
    begin_item(at)
    return item


def _tried(exchange, fn, at, item, spare, again, keeps):
    """As _call(). A call that fails is made again, `spare` times, with the item that again() returns."""
    __tracebackhide__ = True
    for left in range(spare, -1, -1):
        try:
            return fn(*item)
        except BaseException as error:
            own = _is_of_item(error)
            if not left or not own:
                if keeps and own:
                    return _failure(exchange, error)
                _fails(exchange, at, error, item, spare + 1 - left)
                raise
        item = again(at)


def _failure(exchange, error):
    """The result of a call that has failed."""
    from .pxrank import Failure

    exchange.failed += 1
    return Failure(error)


CALL_CODES = {_call.__code__, _tried.__code__}


def note_item(error, at, note=""):
    """Sets error.item, which home's exception has, too: the number of the item that failed. note: the line that names it."""
    with contextlib.suppress(Exception):  # a user's class may refuse it
        error.item = at
    with contextlib.suppress(Exception):
        if note:
            error.__notes__ = [*getattr(error, "__notes__", ()), note]  # as add_note(), which came with Python 3.11; IPython shows it everywhere


def _results(exchange, results, first, ns, keeps):
    """The results as bytes. TypeError: one of them can't be pickled; its text names the item. keeps: as of work()."""
    __tracebackhide__ = True
    try:
        return vars_bundle.pack_bytes(results, ns)
    except Exception:  # noqa: BLE001 - a user's class may raise anything; see below
        for at, result in enumerate(results, first):
            why = refusal(result, ns)
            if not why:
                continue
            error = TypeError(f"map(): the result of item {at}, {with_article(type(result).__name__)}, can't be sent home: {why}")
            if keeps:
                results[at - first] = _failure(exchange, error)
                continue
            exchange.send(failed=at)
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
