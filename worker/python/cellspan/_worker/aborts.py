# SPDX-License-Identifier: BSD-3-Clause
"""Makes the collectives of other ranks return when a rank has failed. Gloo's return when their sockets are cut. NCCL's return only
when their communicator is aborted. Another thread must do that, since the main thread is in the collective.

A daemon thread, started before the first cell, waits for CUT_SOCKETS with `abort` from the agent; until then it costs nothing.
"""

from __future__ import annotations

import os
import sys
import time

from .. import _link
from .._base import threads
from . import groups

LIMIT = 30.0  # seconds


def watch():
    """Starts the thread in this process if its torch has NCCL; else does nothing."""
    torch = sys.modules.get("torch")
    try:
        if torch is None or not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
            return None
    except Exception:  # noqa: BLE001 - torch is only partly imported, or has no distributed
        return None
    return threads.begin("aborts", _wait, _link.abort_fd())


def _wait(fd):
    while os.read(fd, 4096):  # releases the interpreter's lock
        try:
            abort_all()
        except Exception as error:  # noqa: BLE001 - nobody could catch it; torch may be only partly imported
            print(f"cellspan: NCCL could not be aborted: {type(error).__name__}: {error}", file=sys.stderr)


def abort_all(distributed=None):
    """Aborts the NCCL backend of every process group of torch.distributed, and returns their number. Does not touch other
    backends, nor the groups themselves: the next cell destroys them (torchenv.enter_world).

    Each abort runs in a thread of its own, at the same time: an abort may wait for the device, which is busy until the hung
    kernel of another communicator is aborted, too. Does not wait longer than LIMIT seconds for them.
    """
    found = backends(distributed)
    begun = [threads.begin("abort", _abort, backend) for backend in found]
    end = time.monotonic() + LIMIT
    for thread in begun:
        thread.join(max(0.0, end - time.monotonic()))
    return len(found)


def backends(distributed=None):
    """The NCCL backends of torch.distributed's process groups of all worlds, each once; that of the newest group first."""
    distributed = distributed or sys.modules.get("torch.distributed")
    kind = getattr(distributed, "ProcessGroupNCCL", None)
    if kind is None:
        return []
    found = []
    for group in [group for table in groups.maps(distributed) for group in reversed(list(table))]:
        backend = _backend(group, kind)
        if backend is not None and all(backend is not other for other in found):
            found.append(backend)
    return found


def _backend(group, kind):
    if isinstance(group, kind):
        return group
    try:
        backend = group._get_backend(sys.modules["torch"].device("cuda"))
    except Exception:  # noqa: BLE001 - the group has no backend for GPUs
        return None
    return backend if isinstance(backend, kind) else None


def _abort(backend):
    """Aborts one backend. The method has another name in versions before torch 2.6."""
    for name in ("abort", "_abort", "_shutdown", "shutdown"):
        call = getattr(backend, name, None)
        if call is not None:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - abort the others nevertheless
                print(f"cellspan: NCCL could not be aborted: {type(error).__name__}: {error}", file=sys.stderr)
            return
