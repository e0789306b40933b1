"""Ranks that make torch's process group again in the same world meet in the new group's store, not in that of the last one.

Rank 0 hosts the store at MASTER_PORT, and it ends with its group. A rank that is a little faster could still find the last group's
store there, and would then wait in it for ever. The user's code may also keep the last group, and with it the store, where the
addresses of the last group still stand.

So rank 0 counts the groups that it has made in a store, and the others wait for a group that they have not met in it before.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import urllib.parse
import uuid

from .._base.imports import when_imported

COUNT = "cellspan/groups"  # how many groups rank 0 has made in this store
NAME = "cellspan/store"  # tells one store from the next
PAUSE_MIN, PAUSE_MAX = 0.001, 0.05  # seconds between two looks
CONNECT_S = 10  # for one connection
BREAKS_MAX = 40  # connections that may break before it is an error
MET_MAX = 256  # stores; worlds of other sizes have one each, and theirs may be in use again later

_met = {}  # {a store's NAME: the count of the last group that this process has met in it}, the last one last


def watch(own):
    """Call it in a rank, before the user's code runs. own: its number. Groups that give the process another number stay as torch makes
    them: their rank 0 may be a process that does not count."""
    when_imported("torch.distributed.rendezvous", lambda: _wrap(own))


def _wrap(own):
    handlers = getattr(sys.modules["torch.distributed.rendezvous"], "_rendezvous_handlers", {})
    real = handlers.get("env")
    if real is None:
        return

    def meet(url, *args, **given):
        if _number(url) != own:
            yield from real(url, *args, **given)
        elif own == 0:
            for store, rank, size in real(url, *args, **given):
                yield _counted(store), rank, size
        else:
            yield _wait_for_rank_0(lambda: next(iter(real(url, *args, **given))), given.get("timeout"))

    handlers["env"] = meet


def _number(url):
    """The rank that init_process_group() was given, or the environment's; -1: none."""
    asked = urllib.parse.parse_qs(urllib.parse.urlparse(url).query).get("rank", [os.environ.get("RANK", "")])[0]
    return int(asked) if asked.isdigit() else -1


def _counted(store):
    """The store of rank 0's new group."""
    name = store.compare_set(NAME, "", uuid.uuid4().hex).decode()
    count = store.add(COUNT, 1)
    _remember(name, count)
    return _of_group(store, count)


def _wait_for_rank_0(connect, limit):
    """What connect() returns, with the store of a group that this process has not met yet. limit: a timedelta, or None."""
    until = time.monotonic() + (limit.total_seconds() if limit is not None else float("inf"))
    breaks, pause = 0, PAUSE_MIN
    while True:
        try:
            met = connect()
            count = _wait_in(met[0], until)
        except (RuntimeError, OSError):  # perhaps the last group's store ends
            breaks += 1
            if breaks == BREAKS_MAX or time.monotonic() >= until:
                raise
            count = 0
        if count:
            return _of_group(met[0], count), *met[1:]
        if time.monotonic() >= until:
            raise _late(limit)
        time.sleep(pause)
        pause = min(pause * 2, PAUSE_MAX)


def _wait_in(store, until):
    """The number of a new group in this store. 0: the store has ended, or there is none until then."""
    count = _new_in(store)
    if count:
        return count
    pause = PAUSE_MIN
    with socket.create_connection((store.host, store.port), timeout=CONNECT_S) as guard:
        while time.monotonic() < until and not _is_closed(guard, pause):
            count = _new_in(store)
            if count:
                return count
            pause = min(pause * 2, PAUSE_MAX)
    return 0


def _is_closed(guard, seconds):
    """Has the other end closed this connection, on which nothing is sent? Waits so long for that. If the store itself were asked when
    it has ended, torch would print a long warning."""
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


def _new_in(store):
    """The number of a group in this store that this process has not met; 0: there is none yet."""
    if not store.check([NAME]):
        return 0
    name, count = store.get(NAME).decode(), store.add(COUNT, 0)
    if count <= _met.get(name, 0):
        return 0
    _remember(name, count)
    return count


def _remember(name, count):
    _met.pop(name, None)
    _met[name] = count
    while len(_met) > MET_MAX:
        del _met[next(iter(_met))]


def _of_group(store, count):
    """The part of the store for one group: the first one's is as torch makes it."""
    import torch

    return store if count == 1 else torch.distributed.PrefixStore(f"cellspan/{count}", store)
