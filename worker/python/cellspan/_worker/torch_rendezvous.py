# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that have destroyed torch's process group and make it again meet in the new group's store, not in that of the last one.

Rank 0 hosts the store at MASTER_PORT, and it ends with the last group that uses it. A rank that is a little faster would still find
the last group's store there, and wait in it for ever. The user's code may also keep a group that it has destroyed, and with it the
store, where the addresses of the last group still stand.

So rank 0 numbers the groups of a store, and says which of them have ended. Another rank takes the next one that has not, and waits
for it, or for another store. A store's first group, and all else that uses the store (RPC), is left as torch makes it.

Processes that a rank has started must not meet there: launchers for one process, such as mp.spawn or Lightning's ddp_notebook, would
wait for ever, since each rank starts some, all with the same numbers. Such a process gets an error at once. Others meet where they like.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import random
import socket
import sys
import threading
import time
import types
import urllib.parse
from datetime import timedelta

from .. import _link
from .._base.imports import when_imported
from . import store_waits

NAME = "cellspan/store"  # tells one store from the next; 0: rank 0 has not come yet, or does not number its groups
COUNT = "cellspan/groups"  # how many groups rank 0 has numbered in this store
GROUP = "cellspan/group/"  # and a number: 1 if rank 0 makes or has made that group
ENDED = "cellspan/ended/"  # and a number: 1 if rank 0 could not make it, or has destroyed it
PAUSE_MIN, PAUSE_MAX = 0.001, 0.05  # seconds between two checks
CONNECT_S = 10  # for one connection
BREAKS_MAX = 40  # connections that may break before it is an error
LIMIT = timedelta(minutes=30)  # torch's, if none is given
MET_MAX = 256  # addresses
ALREADY = "the ranks are there already, one process each"

_met = {}  # {(process, host, port): (NAME, number, made) of the last group that this process made there, or tried to}, the last one last
_own = {}  # {(process, id of a default group): (store, number, _link.cut_stores() then)} of rank 0's groups
_making = threading.local()  # .group: the _Group that this thread makes
_parent = None  # in a process that a rank has started: that rank's number, and its MASTER_ADDR and MASTER_PORT then


class _Group:
    """A group that init_process_group() makes, if it is numbered."""

    def __init__(self):
        self.store = None
        self.rank = 0
        self.number = 1

    def ends(self, made):
        """The call ends. Remembers the group, so that the next one at its address is waited for. made: it has succeeded."""
        if self.store is None:
            return
        with contextlib.suppress(RuntimeError):  # rank 0 may have ended the store
            name = self.store.add(NAME, 0)
            if self.rank == 0 and not made:
                self.store.add(f"{ENDED}{self.number}", 1)
            elif self.rank == 0:
                _own[os.getpid(), id(_default())] = self.store, self.number, _link.cut_stores()
            elif name:
                _remember((name, self.number, made))


def _default():
    """torch's default group."""
    return sys.modules["torch.distributed.distributed_c10d"]._world.default_pg


def _end():
    """Rank 0 says that torch's default group has ended."""
    store, number, cuts = _own.pop((os.getpid(), id(_default())), (None, 0, 0))
    if store is not None:
        with contextlib.suppress(RuntimeError):
            store = store if cuts == _link.cut_stores() else store_waits.connected_again(store)
            store.add(f"{ENDED}{number}", 1)


def _remember(last):
    _met.pop(_place(), None)
    _met[_place()] = last
    while len(_met) > MET_MAX:
        del _met[next(iter(_met))]


def watch(own, passes):
    """Call it in a rank, before the user's code runs. own: its number; passes: the process ends with its cell. Groups that give the
    process another number are left alone: their rank 0 is another process, which may not number them."""
    when_imported("torch.distributed.rendezvous", lambda: _wrap(own))
    store_waits.watch(passes)
    when_imported("torch.multiprocessing.spawn", lambda: _wrap_spawn(own))
    os.register_at_fork(after_in_child=lambda: _started_by(_parent or _self(own)))


def making(make):
    """init_process_group(), wrapped: only its groups are numbered."""

    @functools.wraps(make)
    def init_process_group(*args, **given):
        __tracebackhide__ = True
        _making.group, made = _Group(), False
        try:
            make(*args, **given)
            made = True
        finally:
            group, _making.group = _making.group, None
            group.ends(made)

    return init_process_group


def destroying(destroy):
    """destroy_process_group(), wrapped."""

    @functools.wraps(destroy)
    def destroy_process_group(group=None):
        __tracebackhide__ = True
        if group is None or group is _default():
            _end()
        return destroy(group)

    return destroy_process_group


def _wrap(own):
    handlers = getattr(sys.modules["torch.distributed.rendezvous"], "_rendezvous_handlers", {})
    real = handlers.get("env")
    if real is None:
        return

    def meet(url, *args, **given):
        return _refused(os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")) or found(url, *args, **given)

    def found(url, *args, **given):
        __tracebackhide__ = True
        group = getattr(_making, "group", None)
        if group is None or _number(url) != own:
            yield from real(url, *args, **given)
        elif own == 0:
            for store, rank, size in real(url, *args, **given):
                yield _numbered(group, store), rank, size
        else:
            yield _found(group, lambda: next(iter(real(url, *args, **given))), given.get("timeout") or LIMIT)

    handlers["env"] = meet
    _wrap_tcp(handlers)


def _wrap_tcp(handlers):
    tcp = handlers.get("tcp")

    def meet(url, *args, **given):
        place = urllib.parse.urlparse(url)
        return _refused(place.hostname, str(place.port)) or tcp(url, *args, **given)

    if tcp is not None:
        handlers["tcp"] = meet


# ---- processes that a rank starts -----------------------------------------------------------------------------------


def _self(own):
    """What _parent is in processes that this rank starts now; None: the rank is alone in its world."""
    return None if os.environ.get("WORLD_SIZE", "1") == "1" else (own, os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT"))


def _started_by(parent):
    global _parent
    _parent = parent


def _refused(host, port):
    """In a process that a rank has started, if this is where the ranks meet: an iterator that raises RuntimeError. Else None."""
    if _parent is None or port != _parent[2] or host not in (_parent[1], "localhost", "127.0.0.1", "::1"):
        return None
    return _raising(RuntimeError(
        f"{ALREADY}: this process, which rank {_parent[0]} has started, can't make a process group at their address "
        f"{host}:{port}. In place of mp.spawn or a launcher, call the function itself in the cell; in Lightning, use "
        'strategy="ddp"'
    ))


def _raising(error):
    """An iterator whose first step raises the error, from C: launchers print the whole traceback, in which no frame of ours is to stand."""
    import asyncio

    future = asyncio.Future(loop=types.SimpleNamespace(get_debug=bool))
    future.set_exception(error)
    return map(operator.methodcaller("result"), [future])


class _Started:
    """A function for a process that a rank starts as a new Python. It arrives there as the function itself."""

    def __init__(self, function, parent):
        self._arrives = function, parent

    def __reduce__(self):
        return _arrived, self._arrives


def _arrived(function, parent):
    _started_by(parent)
    when_imported("torch.distributed.rendezvous", lambda: _wrap(None))
    return function


def _wrap_spawn(own):
    """torch.multiprocessing.spawn() and all that is made of it."""
    module = sys.modules["torch.multiprocessing.spawn"]
    start = getattr(module, "start_processes", None)
    if start is None:
        return

    @functools.wraps(start)
    def start_processes(fn, *args, **given):
        __tracebackhide__ = True
        parent = _parent or _self(own)
        forks = "fork" in (*args[4:5], given.get("start_method"))  # then the process has all from here
        return start(fn if parent is None or forks else _Started(fn, parent), *args, **given)

    module.start_processes = start_processes
    outer = sys.modules.get("torch.multiprocessing")
    if getattr(outer, "start_processes", None) is start:
        outer.start_processes = start_processes


def _number(url):
    """The rank that init_process_group() was given, or the environment's; -1: none."""
    asked = urllib.parse.parse_qs(urllib.parse.urlparse(url).query).get("rank", [os.environ.get("RANK", "")])[0]
    return int(asked) if asked.isascii() and asked.isdigit() else -1


def _place():
    return os.getpid(), os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")


def _numbered(group, store):
    """Rank 0's new group: the part of the store that it uses."""
    if not store.add(NAME, 0):
        store.add(NAME, random.SystemRandom().randrange(1, 1 << 62))
    group.store, group.number = store, store.add(COUNT, 1)
    store.add(f"{GROUP}{group.number}", 1)
    return _part(store, group.number)


def _found(group, connect, limit):
    """Another rank's new group: what connect() returns, with the part of the store that it uses."""
    __tracebackhide__ = True
    last, met = _met.get(_place()), None
    if last is None:
        met = connect()
        name = met[0].add(NAME, 0)
        if name:  # groups of this store may have ended before this rank came
            last = name, 0, True
    if last is not None:
        met = _wait_for_rank_0(group, last, met, connect, limit)
    group.store, group.rank = met[:2]
    return _part(met[0], group.number), *met[1:]


def _part(store, number):
    """The part of the store for one group: the first one's is as torch makes it."""
    import torch

    return store if number == 1 else torch.distributed.PrefixStore(f"cellspan/{number}", store)


def _wait_for_rank_0(group, last, met, connect, limit):
    """What connect() returns once rank 0 makes a group after `last`. Sets the group's number. met: what it has returned, or None."""
    __tracebackhide__ = True
    until = time.monotonic() + limit.total_seconds()
    breaks, pause = 0, PAUSE_MIN
    while True:
        try:
            met = met or connect()
            group.number = _wait_in(met[0], last, until)
        except (RuntimeError, OSError):  # perhaps the last group's store ends
            breaks += 1
            if breaks == BREAKS_MAX or time.monotonic() >= until:
                raise
            group.number = 0
        if group.number:
            return met
        if time.monotonic() >= until:
            raise _late(limit)
        met = None
        time.sleep(pause)
        pause = min(pause * 2, PAUSE_MAX)


def _wait_in(store, last, until):
    """The number of the group after `last`, if rank 0 makes it in this store. 0: the store has ended, or there is none until then."""
    number = _next_in(store, last)
    if number:
        return number
    pause = PAUSE_MIN
    with _guard(store) as guard:
        while time.monotonic() < until and not _is_closed(guard, pause):
            number = _next_in(store, last)
            if number:
                return number
            pause = min(pause * 2, PAUSE_MAX)
    return 0


def _next_in(store, last):
    """The number of the next group after `last` in this store that has not ended; 0: it is not there. A group that only this rank could
    not make is the next."""
    name, number, made = last
    here = store.add(NAME, 0)  # every version of torch has add(), and some have no check()
    wanted = number + made if here == name else 1
    while here and store.add(f"{GROUP}{wanted}", 0):
        if not store.add(f"{ENDED}{wanted}", 0):
            return wanted
        wanted += 1
    return 0


def _guard(store):
    """A connection to the store's host on which nothing is sent; None: the host is not known."""
    host = getattr(store, "host", None)
    return socket.create_connection((host, store.port), timeout=CONNECT_S) if host else contextlib.nullcontext()


def _is_closed(guard, seconds):
    """Has the other end closed this connection? Waits so long for that. If the store itself were asked when it has ended, torch would
    print a long warning."""
    if guard is None:
        time.sleep(seconds)
        return False
    guard.settimeout(seconds)
    try:
        return not guard.recv(1)
    except socket.timeout:
        return False


def _late(limit):
    """The error that torch gives a rank that waits in vain for the others."""
    import torch

    where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    error = getattr(torch.distributed, "DistStoreError", RuntimeError)
    return error(f"rank 0 has made no new process group at {where} within {limit.total_seconds():g} s")
