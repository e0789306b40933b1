# SPDX-License-Identifier: BSD-3-Clause
"""Results of cellspan.px that may not be there yet, with the interface of ipyparallel's AsyncResult."""

from __future__ import annotations

import itertools
import sys
import time

from ._missing import Names, of_key
from .._dropin_api import is_of_ranks


class TimeoutError(TimeoutError):  # noqa: A001 - the name that ipyparallel has
    """A result did not come in time."""


_numbers = itertools.count(1)


class _Result(Names):
    """What both kinds have."""

    def __init__(self, later, name):
        """later: what runs; see _futures.py."""
        self.name = name
        self._future = later
        self.msg_ids = [f"cellspan-{next(_numbers)}"]  # for programs that show or count them
        self.submitted = time.time()
        self._callbacks = []
        self._ended = None  # when the end was seen

    def ready(self):
        """Is it there? It does not wait."""
        __tracebackhide__ = True
        there = self._future.done()
        if there:
            self._tell()
        return there

    def wait(self, timeout=-1):
        """Waits, at most `timeout` seconds (below 0, or None: without a limit). True: it is there."""
        __tracebackhide__ = True
        there = self._future.wait(timeout)
        if there:
            self._tell()
        return there

    def _value(self, timeout=-1):
        """What has come. Raises TimeoutError, or the exception that ended it."""
        __tracebackhide__ = True
        if not self.wait(timeout):
            raise TimeoutError(f"{self.name}: no result after {timeout} s; the ranks still run it")
        return self._future.result()

    def result(self, timeout=None):
        """As get()."""
        __tracebackhide__ = True
        return self.get(timeout)

    @property
    def r(self):
        """As get()."""
        __tracebackhide__ = True
        return self.get()

    def done(self):
        """As ready()."""
        return self.ready()

    def successful(self):
        """Did it end without an exception? RuntimeError: it is not there yet."""
        __tracebackhide__ = True
        if not self.ready():
            raise RuntimeError("Cannot check successful() if not done.")
        return self.exception() is None

    def exception(self, timeout=None):
        """The exception of the first rank that failed, or None."""
        __tracebackhide__ = True
        try:
            self.get(timeout)
        except TimeoutError:
            raise
        except (Exception, SystemExit) as error:
            return error
        except KeyboardInterrupt as error:
            if is_of_ranks(error):
                return error
            raise
        return None

    def wait_interactive(self, **_):
        """Waits; the page shows the ranks' status by itself."""
        __tracebackhide__ = True
        self.wait()

    def add_done_callback(self, fn):
        """Calls fn(self) when get(), wait() or ready() has seen the end."""
        self._callbacks.append(fn)
        self.ready()

    @property
    def elapsed(self):
        """The seconds since it was begun, until its end was seen."""
        self.ready()
        return (self._ended or time.time()) - self.submitted

    wall_time = elapsed

    def _tell(self):
        self._ended = self._ended or time.time()
        while self._callbacks:
            self._callbacks.pop(0)(self)

    def __iter__(self):
        return iter(self.get())

    def __getitem__(self, key):
        __tracebackhide__ = True
        if isinstance(key, str):
            raise of_key(self, key)
        return self.get()[key]


class AsyncResult(_Result):
    """What some ranks do, all of them the same."""

    def __init__(self, later, targets, single, name, cells=False):
        """cells: the ranks' values are those of pxrank.captured()."""
        super().__init__(later, name)
        self._single, self._cells = single, cells
        self.engine_id = targets[0] if single else list(targets)
        self._targets = list(targets)

    def _values(self, timeout=-1):
        __tracebackhide__ = True
        return in_order(self._targets, self._value(timeout))

    def get(self, timeout=-1):
        """The list of the ranks' values, in the order of the view's ranks; of one rank the value. Raises the exception of the first rank that failed."""
        __tracebackhide__ = True
        values = self._values(timeout)
        if self._cells:
            values = [_text(value["result"]) for value in values]
        return values[0] if self._single else values

    def get_dict(self, timeout=-1):
        """{rank: value}."""
        __tracebackhide__ = True
        values = self.get(timeout)
        return dict(zip(self._targets, [values] if self._single else values))

    def _of_cells(self, name):
        values = self._values() if self._cells else [{name: ""} for _ in self._targets]
        found = [value[name] for value in values]
        return found[0] if self._single else found

    @property
    def stdout(self):
        """What each rank printed, of execute()."""
        return self._of_cells("stdout")

    @property
    def stderr(self):
        """The same of stderr."""
        return self._of_cells("stderr")

    @property
    def outputs(self):
        """What each rank displayed, of execute()."""
        return self._of_cells("outputs")

    @property
    def progress(self):
        """How many ranks are done: all of them, or none yet."""
        return len(self) if self.ready() else 0

    @property
    def serial_time(self):
        """The seconds of all ranks together, of execute()."""
        return sum(value["seconds"] for value in self._values()) if self._cells else 0.0

    def display_outputs(self, groupby="type", result_only=False):
        """Shows what the ranks printed, displayed and returned. groupby: "type", "engine" or "order"."""
        __tracebackhide__ = True
        if groupby not in GROUPS:
            raise ValueError(f"groupby={groupby!r}: use {', '.join(map(repr, GROUPS))}")
        if not self._cells:
            raise TypeError("display_outputs() is for results of execute() and %%px")
        try:
            rows = list(zip(self._targets, self._values()))
        except TimeoutError:
            raise
        except BaseException:
            self._show_rows(self._of_others(), groupby)
            raise
        self._show_rows(rows, groupby)

    def _of_others(self):
        """The rows of ranks that have ended well, though others have failed. (What these have shown is on the page already.)"""
        __tracebackhide__ = True
        shown = self._future.shown()
        return [(rank, {**shown[rank], "result": None}) for rank in self._targets if rank in shown]

    @staticmethod
    def _show_rows(rows, groupby):
        if groupby == "engine":
            for rank, value in rows:
                for kind in _KINDS:
                    _show(kind, rank, value)
            return
        for kind in _KINDS if groupby == "type" else ("stdout", "stderr"):
            for rank, value in rows:
                _show(kind, rank, value)
        if groupby == "order":  # the first output of each rank, then the second, ...
            for k in range(max((len(value["outputs"]) for _, value in rows), default=0)):
                for rank, value in rows:
                    _display(rank, value["outputs"][k : k + 1])
            for rank, value in rows:
                _show("result", rank, value)

    def __len__(self):
        return len(self._targets)

    def __repr__(self):
        return f"<AsyncResult({self.name}): {_state(self)}>"


class TaskResult(_Result):
    """A task of a load-balanced view, or a map."""

    def __init__(self, later, name, count=1, made=None):
        """count: the items of a map (None: not known); made: makes the value of what came."""
        super().__init__(later, name)
        self._count, self._made = count, made
        self.stdout = self.stderr = ""  # what tasks print shows as they print it

    @property
    def progress(self):
        """How many items are done."""
        return self._future.progress()

    def get(self, timeout=-1):
        """The value. Raises the task's exception."""
        __tracebackhide__ = True
        value = self._value(timeout)
        return value if self._made is None else self._made(value)

    def __len__(self):
        return len(self.get()) if self._count is None else self._count

    def __repr__(self):
        return f"<AsyncResult({self.name}): {_state(self)}>"


def _state(result):
    return "pending" if not result.ready() else "finished" if result.successful() else "failed"


def in_order(targets, values):
    """The ranks' values, in the order of `targets`. values: by rank, as the kernel gives them. A rank may be in targets twice."""
    by_rank = dict(zip(sorted(set(targets)), values))
    return [by_rank[rank] for rank in targets]


GROUPS = ("type", "engine", "order")
_KINDS = ("stdout", "stderr", "outputs", "result")


def _text(data):
    return None if data is None else data.get("text/plain")


def _show(kind, rank, value):
    if kind in ("stdout", "stderr"):
        for line in value[kind].splitlines():
            print(f"[{kind}:{rank}] {line}", file=getattr(sys, kind))
    elif kind == "outputs":
        _display(rank, value["outputs"])
    elif value["result"] is not None:
        show_result(rank, value["result"])


def _display(rank, outputs):
    for output in outputs:
        print(f"[output:{rank}]")
        sys.stdout.flush()
        _show_bundle(output["data"], output["metadata"])


def _show_bundle(data, metadata=None):
    """Shows a MIME bundle; in a plain Python program its text."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.display import display

    if InteractiveShell.initialized():
        display(data, raw=True, metadata=metadata)
    else:
        print(data.get("text/plain", f"[{', '.join(data)}]"), flush=True)


def show_result(rank, data):
    """Shows the MIME bundle of a rank's last expression, with its label in the text."""
    _show_bundle(dict(data, **{"text/plain": f"Out[{rank}]: {data.get('text/plain', '')}"}))
