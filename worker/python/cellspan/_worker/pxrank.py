"""The rank's side of cellspan.px."""

from __future__ import annotations

import sys
import time

from .._base.errors import text_of
from . import hands
from .publish import to_json


def tell(of):
    """Tells home that this rank has begun; see _aside.py."""
    worker = hands.this_rank()
    hands.hand(worker, worker.cell.number, 0, {"of": of})


def captured(of, code):
    """Runs a cell and keeps what it shows: {"stdout", "stderr", "outputs": [{"data", "metadata"}, ...], "result": data or None,
    "seconds"}. Its exception is raised."""
    __tracebackhide__ = True
    from IPython.utils.capture import capture_output

    if of:
        tell(of)
    shell = hands.this_rank().shell
    outer, last, began = shell.displayhook.exec_result, _Last(shell), time.perf_counter()
    with capture_output() as kept:
        sys.displayhook = last
        done = shell.run_cell(code, store_history=False)
    shell.displayhook.exec_result = outer  # the inner cell has taken its place; else this one would have no value
    done.raise_error()
    outputs = [{"data": one.data, "metadata": one.metadata or {}} for one in kept.outputs]
    return {"stdout": kept.stdout, "stderr": kept.stderr, "outputs": outputs, "result": last.data, "seconds": time.perf_counter() - began}


class _Last:
    """A display hook that keeps what the last expression shows."""

    def __init__(self, shell):
        self.shell, self.data = shell, None

    def __call__(self, value):
        if value is not None:
            self.shell.user_ns["_"] = value
            self.data = self.shell.display_formatter.format(value)[0]


def called(of, fn, args, kwargs, _):
    """Tells home that this rank has begun, and calls fn."""
    __tracebackhide__ = True
    tell(of)
    return fn(*args, **kwargs)


def shown():
    """What the last expression of the cell before this one shows: its MIME bundle, or None."""
    return hands.this_rank().shown_before


class Failure:
    """A task's exception on its way home: the content of an error reply."""

    def __init__(self, error):
        from .remote import described

        shell = hands.this_rank().shell
        lines = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        self.content = {"ename": type(error).__name__, "evalue": text_of(error), "traceback": lines, "raised": described(error)}
        to_json(self.content)


def attempt(fn, args, kwargs):
    """fn's value, or the Failure: an exception of one task does not end the others."""
    __tracebackhide__ = True
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        return Failure(error)
