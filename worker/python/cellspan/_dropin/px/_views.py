# SPDX-License-Identifier: BSD-3-Clause
"""The classes of cellspan.px: Client, views and results, with the interface of ipyparallel's.

Engines are the ranks of the notebook's group. A call that does not block is asynchronous (_futures.py). In a program that is no notebook
these classes are the same, and what they call reaches the kernel of the program (_client.py).
"""

from __future__ import annotations

import contextlib
import os
import time

from .. import group, run
from .. import map as cellspan_map
from .._dropin_api import (
    NotAtHomeError,
    Now,
    begin,
    bounds,
    caller,
    check_call,
    check_place,
    checked,
    is_far,
    joined,
    scatter,
    size,
    slice_of,
    whole,
)
from ._missing import Names
from ._result import AsyncResult, TaskResult, in_order


class NoEnginesRegistered(RuntimeError):
    """There are no ranks, or not the ones that were asked for."""


class Cluster:
    """Stands for ipyparallel's Cluster: the ranks start with start_and_connect_sync(), start_cluster_sync() or `with`."""

    def __init__(self, *, n=None, engines=None, on=None, **others):
        if engines not in (None, "local", "mpi", "MPI"):  # ranks become a world of MPI when they import mpi4py
            raise TypeError(f"engines={engines!r}: use on=, such as on='ssh:host1,host2*4' or on='slurm:--nodes=2'")
        if others:
            raise TypeError(f"{next(iter(others))}=: cellspan's ranks need no such setting; there are n= and on=")
        self.n, self.on = n, on

    def start_cluster_sync(self, n=None):
        """Starts the ranks."""
        __tracebackhide__ = True
        self.n = n or self.n
        self.connect_client_sync()

    def connect_client_sync(self):
        """The Client."""
        __tracebackhide__ = True
        return Client(n=self.n, on=self.on)

    def start_and_connect_sync(self, n=None, activate=False):
        """Starts the ranks, and returns the Client."""
        __tracebackhide__ = True
        self.n = n or self.n
        client = self.connect_client_sync()
        if activate:
            client.activate()
        return client

    def stop_cluster_sync(self):
        """Ends the ranks."""
        group().stop()

    async def start_cluster(self, n=None):
        """As start_cluster_sync(), which it calls."""
        self.start_cluster_sync(n)

    async def connect_client(self):
        """As connect_client_sync(), which it calls."""
        return self.connect_client_sync()

    async def start_and_connect(self, n=None, activate=False):
        """As start_and_connect_sync(), which it calls."""
        return self.start_and_connect_sync(n, activate)

    async def stop_cluster(self):
        """As stop_cluster_sync(), which it calls."""
        self.stop_cluster_sync()

    def __enter__(self):
        return self.start_and_connect_sync()

    def __exit__(self, *error):
        self.stop_cluster_sync()

    async def __aenter__(self):
        return self.start_and_connect_sync()

    async def __aexit__(self, *error):
        self.stop_cluster_sync()


class Client(Names):
    """The ranks of this notebook. n: how many (None: those that are there, else as many as %%distribute starts); on: where, as in
    cellspan.run(). client[:], client[0] and client[::2] are views of them. The first Client makes %px and the other magics work. See
    ipyparallel.Client."""

    def __init__(self, *, n=None, on=None):
        self._home = caller()
        self._group = group()
        if n is not None or on is not None or not self._group.size:
            run(abs, 0, n=n, on=on)
        self._size = self._group.size
        self._begun = self._size, on
        if not is_far(self._home):
            from ._magics import register_first

            register_first(self._home, self)

    @property
    def ids(self):
        """The numbers of the ranks."""
        return list(range(len(self)))

    def __len__(self):
        now = size(self._home)
        if now is not None:
            self._size = now
        return self._size

    def __getitem__(self, key):
        return DirectView(self, targets(key, self.ids), single=isinstance(key, int) or whole(key) is not None)

    def direct_view(self, targets="all"):
        """A view of these ranks: "all", a number, a list, or a slice."""
        return self[slice(None) if isinstance(targets, str) and targets == "all" else targets]

    def load_balanced_view(self, targets=None):
        """A view whose tasks run on whichever of these ranks is free."""
        return LoadBalancedView(self, None if targets is None else resolved(targets, self.ids))

    def activate(self, targets="all", suffix=""):
        """%px, %%px and the others work on these ranks, and wait for them; with a suffix, %px0 and so on do."""
        view = self.direct_view(targets)
        view.block = True
        view.activate(suffix)

    def _need(self, rank):
        """If all ranks were stopped, starts them again. Returns how many there are. Raises NoEnginesRegistered if only this rank is not
        there."""
        __tracebackhide__ = True
        size, on = self._begun
        now = len(self)
        if not now:
            now = self._size = max(size, rank + 1)
            run(abs, 0, n=now, on=on)
        elif rank >= now:
            raise NoEnginesRegistered(f"there is no rank {rank}: ranks are 0-{now - 1} (Client(n={rank + 1}) starts it)")
        return now

    def wait(self, jobs=None, timeout=-1):
        """Waits for results. True: all are there."""
        until = None if timeout is None or timeout < 0 else time.monotonic() + timeout
        for job in [jobs] if isinstance(jobs, (AsyncResult, TaskResult)) else list(jobs or ()):
            job.wait(-1 if until is None else max(until - time.monotonic(), 0))
        return all(job.ready() for job in ([jobs] if isinstance(jobs, (AsyncResult, TaskResult)) else list(jobs or ())))

    def wait_for_engines(self, n=None, **_):
        """The ranks are there when the Client is."""
        if n is not None and n > len(self):
            run(abs, 0, n=n)
            self._begun = n, self._begun[1]

    def shutdown(self, targets="all", hub=False, **_):
        """Ends the ranks."""
        self._group.stop(None if isinstance(targets, str) and targets == "all" else resolved(targets, self.ids))

    def close(self, *_, **__):
        """The ranks stay; shutdown() ends them."""

    def __repr__(self):
        return f"<cellspan.px.Client of {len(self)} ranks>"


def targets(key, ids):
    """The ranks that a key of client[...] means. Raises IndexError for a rank that is not there."""
    __tracebackhide__ = True
    if hasattr(key, "tolist"):  # numpy's: a number, or an array of them
        key = key.tolist()
    if isinstance(key, slice):
        found = ids[key]
    elif isinstance(key, bool):
        raise TypeError(f"{key!r}: ranks are a number, a list or a slice; those that a mask of bools means are numpy.flatnonzero(mask)")
    elif isinstance(key, int):
        if not -len(ids) <= key < len(ids):
            raise IndexError(f"there is no rank {key}: " + (f"ranks are 0-{len(ids) - 1}" if ids else "all were stopped; Client(n=4) starts four"))
        found = [ids[key]]
    elif isinstance(key, (list, tuple, range)):
        found = [targets(one, ids)[0] for one in key]
    else:
        raise TypeError(f"{key!r}: ranks are a number, a list or a slice")
    if not found:
        there = f"ranks are 0-{len(ids) - 1}" if ids else "there are none; Client(n=4) starts four"
        raise NoEnginesRegistered(f"{key!r} means no rank: {there}")
    return found


def resolved(what, ids):
    """targets(), where "all" may stand for all."""
    return targets(slice(None) if isinstance(what, str) and what == "all" else what, ids)


_CHANGEABLE = (list, dict, set)  # a map that home does not wait for has copies of these


class _View(Names):
    """The part that both views have."""

    def __init__(self, client, block):
        self.client = client
        self.block = block

    def apply_sync(self, f, *args, **kwargs):
        """The value, or for several ranks the list of values, of f(*args, **kwargs)."""
        __tracebackhide__ = True
        return self.apply_async(f, *args, **kwargs).get()

    def apply(self, f, *args, **kwargs):
        """apply_sync() where the view blocks, else apply_async()."""
        __tracebackhide__ = True
        return self.apply_sync(f, *args, **kwargs) if self.block else self.apply_async(f, *args, **kwargs)

    def map_sync(self, f, *sequences, chunksize=None):
        """As cellspan.map(f, *sequences) on these ranks."""
        __tracebackhide__ = True
        return cellspan_map(f, *sequences, chunksize=chunksize, ranks=self._ranks())

    def map_async(self, f, *sequences, chunksize=None):
        """The TaskResult of map_sync(). It has begun."""
        __tracebackhide__ = True
        check_place(self.client._home)
        length, items = checked(f, [list(one) if isinstance(one, _CHANGEABLE) else one for one in sequences], chunksize)
        name = getattr(f, "__name__", "map")
        if items is None:
            return TaskResult(Now([]), name, 0)
        there = all(isinstance(one, (list, tuple, range, str, bytes, dict, set, frozenset)) for one in sequences)
        return TaskResult(begin(self.client._home, "map", items, self._ranks(), f, length, chunksize, there), name, length)

    def map(self, f, *sequences, block=None, chunksize=None):
        """map_sync() where the view blocks, else map_async()."""
        __tracebackhide__ = True
        blocks = self.block if block is None else block
        return (self.map_sync if blocks else self.map_async)(f, *sequences, chunksize=chunksize)

    def imap(self, f, *sequences, chunksize=None, **_):
        """An iterator over the results of map()."""
        return iter(self.map_async(f, *sequences, chunksize=chunksize))

    def parallel(self, block=None, **_):
        """A decorator: the function is called for each item of its arguments; f.map(xs) does the same."""
        return lambda f: ParallelFunction(self, f, block)

    def remote(self, block=None, **_):
        """A decorator: the function runs on the ranks."""
        return lambda f: RemoteFunction(self, f, block)

    def wait(self, jobs=None, timeout=-1):
        """As Client.wait()."""
        return self.client.wait(jobs, timeout)

    def use_dill(self):
        """Nothing to do: functions of the notebook are sent in any case."""

    use_cloudpickle = use_dill


class DirectView(_View):
    """Some ranks, all of which do what the view is told. See ipyparallel.DirectView."""

    def __init__(self, client, targets, single=False):
        super().__init__(client, False)
        self._targets = targets
        self._single = single

    @property
    def targets(self):
        """The ranks: a number for client[0], else a list."""
        return self._targets[0] if self._single else list(self._targets)

    def __len__(self):
        return len(self._targets)

    def _ranks(self):
        there = self.client._need(max(self._targets))
        return None if self._targets == list(range(there)) else list(self._targets)

    def apply_async(self, f, *args, **kwargs):
        """The AsyncResult of f(*args, **kwargs) on each rank, which is begun. Calls on one rank run at the same time as those on others;
        if a rank dies, those of the others end, too."""
        __tracebackhide__ = True
        return self._begin(f, args, kwargs, alone=len(self._targets) == 1)

    def apply_sync(self, f, *args, **kwargs):
        """The value, or for several ranks the list of values, of f(*args, **kwargs)."""
        __tracebackhide__ = True
        return self._begin(f, args, kwargs, alone=False).get()

    def _begin(self, f, args, kwargs, alone):
        __tracebackhide__ = True
        if not callable(f):
            raise TypeError(f"apply() needs a function, not {type(f).__name__}")
        check_call(f, args, kwargs)
        check_place(self.client._home)
        ranks = self._ranks()
        kind, on = ("own", self._targets[0]) if alone else ("apply", ranks)
        later = begin(self.client._home, kind, on, f, args, kwargs)
        return AsyncResult(later, self._targets, self._single, getattr(f, "__name__", "apply"))

    def execute(self, code, silent=True, targets=None, block=None):
        """Runs code on the ranks, as %%px does. The AsyncResult; its outputs are there with display_outputs()."""
        __tracebackhide__ = True
        check_place(self.client._home)
        view = self if targets is None else self.client.direct_view(targets)
        later = begin(self.client._home, "execute", view._ranks(), code)
        result = AsyncResult(later, view._targets, False, "execute", cells=True)
        if self.block if block is None else block:
            result.get()
        return result

    def run(self, filename, targets=None, block=None):
        """Runs the text of a file of this machine on the ranks."""
        __tracebackhide__ = True
        with open(os.path.expanduser(filename), encoding="utf-8") as file:
            return self.execute(file.read(), targets=targets, block=block)

    def _chosen(self, targets):
        """The ranks that a call's targets= mean, as a list. They are there."""
        __tracebackhide__ = True
        ranks = list(self._targets) if targets is None else resolved(targets, self.client.ids)
        self.client._need(max(ranks))
        return ranks

    def _done(self, value, name, block):
        """The value where the view blocks, else its result."""
        return value if (self.block if block is None else block) else TaskResult(Now(value), name, len(self))

    def push(self, ns, targets=None, block=None, track=None):
        """Sets variables on the ranks: push({"a": 1}). They are set at once; where the view does not block, a result is returned."""
        __tracebackhide__ = True
        ranks = self._chosen(targets)
        self.client._group.push(ranks=sorted(set(ranks)), **ns)
        return self._done(None if self._single and targets is None else [None] * len(ranks), "push", block)

    def update(self, ns):
        """As push(), which blocks."""
        __tracebackhide__ = True
        self.push(ns, block=True)

    def pull(self, names, targets=None, block=None):
        """The ranks' values of a variable: a list, or for client[0] one value. names: a name, or a list of names. The values
        are fetched at once; a view that does not block returns a result that has them."""
        __tracebackhide__ = True
        ranks, found = self._chosen(targets), []
        single = self._single if targets is None else isinstance(targets, int) or whole(targets) is not None
        for name in [names] if isinstance(names, str) else names:
            value = in_order(ranks, self.client._group.pull(name, ranks=ranks))
            found.append(value[0] if single else value)
        if isinstance(names, str):
            found = found[0]
        elif not single:
            found = [list(row) for row in zip(*found)]
        return self._done(found, "pull", block)

    def get(self, names):
        """As pull(), which blocks."""
        __tracebackhide__ = True
        return self.pull(names, block=True)

    def __getitem__(self, name):
        __tracebackhide__ = True
        return self.pull(name, block=True)

    def __setitem__(self, name, value):
        __tracebackhide__ = True
        self.push({name: value}, block=True)

    def scatter(self, key, seq, dist="b", flatten=False, targets=None, block=None, track=None):
        """Divides a sequence among the ranks, as Group.scatter() does. A rank that is in the view twice has its last part."""
        __tracebackhide__ = True
        _check_dist(dist)
        ranks = self._chosen(targets)
        scatter(self.client._home, key, seq, {"ranks": sorted(set(ranks))}, flatten, ranks)
        return self._done(None, "scatter", block)

    def gather(self, key, dist="b", targets=None, block=None):
        """Joins the ranks' parts, as Group.gather() does. The value is there at once; where the view does not block, in a result."""
        __tracebackhide__ = True
        _check_dist(dist)
        ranks = self._chosen(targets)
        whole = joined(in_order(ranks, self.client._group.pull(key, ranks=ranks)))
        return self._done(whole, "gather", block)

    @contextlib.contextmanager
    def sync_imports(self, local=True, quiet=False):
        """A block whose import statements also run on the ranks. (Functions find home's modules without it.)"""
        import builtins

        found, real = [], builtins.__import__

        def noting(name, globals=None, locals=None, fromlist=(), level=0):
            if globals is not None and globals.get("__name__") == "__main__" and level == 0:
                found.append(f"from {name} import {', '.join(fromlist)}" if fromlist else f"import {name}")
                if not quiet:
                    print(f"importing {', '.join(fromlist) + ' from ' if fromlist else ''}{name} on engine(s)")
            return real(name, globals, locals, fromlist, level)

        builtins.__import__ = noting
        try:
            yield
        finally:
            builtins.__import__ = real
        if found:
            self.execute("\n".join(found), block=True)

    def clear(self, targets=None, block=None):
        """Removes all variables of the ranks."""
        self.execute("get_ipython().reset(new_session=False)", targets=targets, block=True)

    def activate(self, suffix=""):
        """%px, %%px, %pxresult, %pxconfig and %autopx work on this view; with a suffix, %px0 and so on do. They wait for the ranks while
        view.block is true."""
        __tracebackhide__ = True
        if is_far(self.client._home):
            raise NotAtHomeError('%px works only in a notebook on the kernel "Python (cellspan)": here use view.execute("...", block=True)')
        from ._magics import register

        register(self.client._home, self, suffix)

    def __repr__(self):
        return f"<DirectView {self.targets}>"


def _check_dist(dist):
    __tracebackhide__ = True
    if dist != "b":
        raise ValueError(f"dist={dist!r}: only 'b' (blocks) is there; for turns, scatter seq[k::n] by push()")


class LoadBalancedView(_View):
    """Tasks, each of which runs on one rank that is free. See ipyparallel.LoadBalancedView."""

    def __init__(self, client, targets=None):
        super().__init__(client, False)
        self.targets = targets

    def _ranks(self):
        self.client._need(max(self.targets or [0]))
        return self.targets

    def __len__(self):
        return len(self.targets or self.client.ids)

    def apply_async(self, f, *args, **kwargs):
        """The TaskResult of f(*args, **kwargs) on one rank. It begins as soon as a rank is free."""
        __tracebackhide__ = True
        if not callable(f):
            raise TypeError(f"apply() needs a function, not {type(f).__name__}")
        check_call(f, args, kwargs)
        check_place(self.client._home)
        return TaskResult(begin(self.client._home, "task", self._ranks(), f, args, kwargs), getattr(f, "__name__", "apply"))

    def __repr__(self):
        return f"<LoadBalancedView {self.targets or 'of all ranks'}>"


class RemoteFunction:
    """A function that runs on a view's ranks when it is called."""

    def __init__(self, view, func, block=None):
        self.view, self.func, self.block = view, func, block
        self.__name__, self.__doc__ = getattr(func, "__name__", "f"), func.__doc__

    def __call__(self, *args, **kwargs):
        __tracebackhide__ = True
        blocks = self.view.block if self.block is None else self.block
        return (self.view.apply_sync if blocks else self.view.apply_async)(self.func, *args, **kwargs)


class ParallelFunction(RemoteFunction):
    """A function that is called with a part of its arguments on each rank; map() calls it for each item."""

    def __call__(self, *sequences):
        __tracebackhide__ = True
        count = min(len(self.view), len(sequences[0]))
        ends = [bounds(len(sequences[0]), k, count) for k in range(count)]
        pieces = [[slice_of(seq, *end) for end in ends] for seq in sequences]
        result = self.view.map_async(self.func, *pieces, chunksize=1)
        result._made = joined
        return result.get() if (self.view.block if self.block is None else self.block) else result

    def map(self, *sequences):
        """The view's map() with this function."""
        __tracebackhide__ = True
        return self.view.map(self.func, *sequences, block=self.block)
