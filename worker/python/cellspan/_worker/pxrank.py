# SPDX-License-Identifier: BSD-3-Clause
"""The rank's side of cellspan.px."""

from __future__ import annotations

import pickle
import sys
import time

from .._base.errors import text_of, with_article
from .._base.own_code import forget
from .._capture import own_names, rebuild, vars_bundle
from . import exchange, gpu_placement, map_rank, rank_calls


def tell(of):
    """Tells home that this rank has begun; see _async_call.py."""
    worker = exchange.this_rank()
    exchange.send_load(worker, worker.cell.number, 0, {"of": of})


def captured(of, code):
    """Runs a cell and keeps what it shows: {"stdout", "stderr", "outputs": [{"data", "metadata"}, ...]} is handed to home, which has
    it also if another rank fails; {"rank", "result": data or None, "seconds"} is the value. If the cell fails, what it has shown is
    shown, and its exception is raised."""
    __tracebackhide__ = True
    from IPython.utils.capture import capture_output

    if of:
        tell(of)
    worker = exchange.this_rank()
    shell, number = worker.shell, worker.cell.number
    outer, last, began = shell.displayhook.exec_result, _Last(shell), time.perf_counter()
    shell.execution_count = worker.cell.count  # the shell has counted this cell
    with capture_output() as kept:
        sys.displayhook = last
        done = shell.run_part(code)
    shell.displayhook.exec_result = outer  # the inner cell has taken its place; else this one would have no value
    if not done.success:
        _show(kept)
    done.raise_error()
    outputs = [{"data": one.data, "metadata": one.metadata or {}} for one in kept.outputs]
    if of and (kept.stdout or kept.stderr or outputs):
        shown = pickle.dumps({"stdout": kept.stdout, "stderr": kept.stderr, "outputs": outputs})
        exchange.send_load(worker, number, 0, {"of": of, "shown": 1}, shown)
    return {"rank": worker.rank, "result": last.data, "seconds": time.perf_counter() - began}


def _show(kept):
    """Shows what was kept, so that it is logged, too."""
    for text, stream in ((kept.stdout, sys.stdout), (kept.stderr, sys.stderr)):
        stream.write(text)
        stream.flush()
    for one in kept.outputs:
        one.display()


class _Last:
    """A display hook that keeps what the last expression shows."""

    def __init__(self, shell):
        self.shell, self.data = shell, None

    def __call__(self, value):
        if value is not None:
            ns, hook = self.shell.user_ns, self.shell.displayhook
            if "_" not in ns or own_names.is_own("_", ns["_"], ns):
                ns["_"] = hook._ = value
            self.data = self.shell.display_formatter.format(value)[0]


def called(of, fn, args, kwargs, placed):
    """Tells home that this rank has begun, and calls fn."""
    __tracebackhide__ = True
    forget(placed)
    tell(of)
    return fn(*args, **kwargs)


def shown():
    """What the last expression of the cell before this one shows: its MIME bundle, or None."""
    return exchange.this_rank().shown_before


def worked(of, fn, placed):
    """Takes items of a map that home does not wait for."""
    __tracebackhide__ = True
    forget(placed)
    map_rank.work(*fn, of)


rank_calls.CODES |= {called.__code__, captured.__code__, worked.__code__, *map_rank.CALL_CODES}


def tasks(of, _, placed):
    """Takes tasks of a load-balanced view. Those that are sent with it have brought the variables that they read."""
    __tracebackhide__ = True
    forget(placed)
    map_rank.work(attempt, of)


class Failure:
    """A task's exception on its way home: the content of an error reply."""

    def __init__(self, error):
        from .remote import described

        shell = exchange.this_rank().shell
        at = error.__traceback__ and (error.__traceback__.tb_next or error.__traceback__)  # without the line of the function that called
        lines = shell.InteractiveTB.structured_traceback(type(error), error, at)
        self.content = {"ename": type(error).__name__, "evalue": text_of(error), "traceback": lines, "raised": described(error)}


def attempt(packed):
    """Does a task. Returns the bytes of its value, or of the Failure: an exception of one task does not end the others.

    packed: the bytes of (function, arguments, keyword arguments)."""
    __tracebackhide__ = True
    ns = exchange.this_rank().shell.user_ns
    held = []
    try:
        with rebuild.holding(held):
            fn, args, kwargs = vars_bundle.unpack_bytes(packed, ns, gpu_placement.copied)
        return _packed(fn, fn(*args, **kwargs), ns)
    except (Exception, SystemExit) as error:
        return vars_bundle.pack_bytes(Failure(error), ns)


def _packed(fn, value, ns):
    __tracebackhide__ = True
    try:
        return vars_bundle.pack_bytes(value, ns)
    except Exception as error:
        why = f"the value of {getattr(fn, '__name__', 'the function')}(), {with_article(type(value).__name__)}, can't be sent home"
        raise TypeError(f"{why}: {vars_bundle.reason(error)}") from None
