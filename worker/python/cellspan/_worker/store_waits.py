# SPDX-License-Identifier: BSD-3-Clause
"""Waits in torch's TCPStore end with an interrupt. The store's C++ code ignores signals, so a rank that waits there for one that has
failed would be killed in the end, with its variables.

The process that hosts a store waits until all others have joined it: it does so in another thread. After an interrupt the main thread
joins in place of those that are missing, and the thread returns. The others try to connect from Python until there is a host, and call
C++ only then. Later waits, such as that of new_group(), end when connections are cut. The host's own connection to its store is one
within this process, which only _link can find.

torchrun's agent hosts the store, so there it outlives the ranks. Here rank 0 does. So a process that passes keeps the stores that torch
made for a group or for RPC, and stays until the kernel ends it, when all ranks are done.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import sys
import threading
import time
from datetime import timedelta

from .. import _link
from .._base import threads
from .._base.imports import when_imported

NAMES = ("host_name", "port", "world_size", "is_master", "timeout", "wait_for_workers")  # the first parameters of TCPStore()
LIMIT = timedelta(minutes=5)  # torch's, if none is given
JOIN_LIMIT = timedelta(seconds=10)  # for one connection to a store of this process
RETURN_S = 10.0  # for the thread, when all have joined
PAUSE_MIN, PAUSE_MAX = 0.001, 0.05  # seconds between two attempts to connect
CONNECT_S = 10.0  # for one attempt


_kept = []  # stores that this process hosts and keeps


def watch(passes):
    """Call it in a rank, before the user's code runs. passes: the process ends with its cell."""
    when_imported("torch.distributed", lambda: _wrap(passes))


def stay():
    """The process is done, and SIGTERM has its default action. Returns at once if it keeps no store; else it stays until the kernel ends
    it. Its other connections end now, as with a process: other ranks may wait for it in a collective."""
    ports = {store.port for store in _kept}
    for name in os.listdir("/dev/fd") if ports else ():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as connection:
            connection.getpeername()  # raises for one that listens: gloo ends the process if that ends
            if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.getsockname()[1] not in ports:
                connection.shutdown(socket.SHUT_RDWR)
    while ports:
        signal.pause()


def hosts():
    """Does this process keep a store, which other ranks may still use?"""
    return bool(_kept)


def connected_again(store):
    """Another connection to the store that this process hosts. torch would print a long warning about one that was cut."""
    return type(store)(store.host, store.port, None, False, timeout=JOIN_LIMIT, wait_for_workers=False)


def _wrap(keeps):
    kind = getattr(sys.modules["torch.distributed"], "TCPStore", None)
    if kind is not None:
        kind.__init__ = _interruptible(kind.__init__, keeps)


def _interruptible(real, keeps):
    """TCPStore.__init__, wrapped."""

    @functools.wraps(real)
    def __init__(self, *args, **given):
        __tracebackhide__ = True
        asked = {"timeout": LIMIT, "wait_for_workers": True, **dict(zip(NAMES, args)), **given}
        if isinstance(asked["timeout"], float):  # torch takes seconds, too
            asked["timeout"] = timedelta(seconds=asked["timeout"])
        if threading.current_thread() is not threading.main_thread() or not asked.get("port") or not _is_right(asked):
            real(self, *args, **given)
        elif not asked.get("is_master"):
            _wait_for_host(asked["host_name"], asked["port"], asked["timeout"])
            real(self, *args, **given)
        else:
            _link.hosts_store(asked["port"])
            waits = asked["wait_for_workers"] and (asked.get("world_size") or 0) > 1
            (_host if waits else _call)(type(self), asked, functools.partial(real, self, *args, **given))
            if keeps and given.get("multi_tenant"):  # one that torch makes; at the port of another one, the program may make a second
                _kept.append(self)

    return __init__


def _is_right(asked):
    """Else torch says which parameter is wrong."""
    kinds = {"host_name": str, "port": int, "world_size": (int, type(None)), "timeout": timedelta}
    return all(isinstance(asked.get(name), kind) for name, kind in kinds.items())


def _call(kind, asked, make):
    __tracebackhide__ = True
    make()


def _wait_for_host(host, port, limit):
    """Returns when somebody listens there."""
    __tracebackhide__ = True
    until, pause = time.monotonic() + limit.total_seconds(), PAUSE_MIN
    while True:
        try:
            socket.create_connection((host, port), timeout=CONNECT_S).close()
            return
        except OSError as error:
            if time.monotonic() >= until:
                raise _unreachable(host, port, limit, error) from None
        time.sleep(pause)
        pause = min(pause * 2, PAUSE_MAX)


def _unreachable(host, port, limit, error):
    """torch's own error."""
    kind = getattr(sys.modules["torch.distributed"], "DistNetworkError", RuntimeError)
    ms = round(limit.total_seconds() * 1000)
    return kind(f"The client socket has timed out after {ms}ms while trying to connect to ({host}, {port}): {error}")


def _host(kind, asked, make):
    """Calls make() in another thread, so that this one can be interrupted."""
    __tracebackhide__ = True
    over, raised = threading.Event(), []

    def wait():
        try:
            make()
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            raised.append(error)
        finally:
            over.set()

    try:
        threads.begin("store", wait)
        over.wait()
    except BaseException as error:
        _join_for_others(kind, asked, over)
        raise error.with_traceback(None) from None
    if raised:
        raise raised[0].with_traceback(None)


def _join_for_others(kind, asked, over):
    """Ends the thread's wait."""
    with contextlib.suppress(RuntimeError):
        for _ in range(asked["world_size"] - 1):
            if over.is_set():
                return
            kind(asked["host_name"], asked["port"], asked["world_size"], False, timeout=JOIN_LIMIT)
        over.wait(RETURN_S)
