"""When a rank has failed, the collectives of the others are to return. Gloo's do when their sockets are cut; NCCL's only
when their communicator is aborted, which must happen beside the main thread, for that one sits in the collective.

A daemon thread, started before the first cell, waits for the agent's word (CUT with `abort`); it costs nothing until then.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from .. import _link
from . import groups

LIMIT = 30.0  # seconds


def watch():
    """Starts the thread in this process, if its torch has NCCL. Harmless otherwise."""
    torch = sys.modules.get("torch")
    try:
        if torch is None or not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
            return None
    except Exception:  # noqa: BLE001 - a torch that is half imported, or without distributed
        return None
    thread = threading.Thread(target=_wait, args=(_link.abort_fd(),), name="cellspan-aborts", daemon=True)
    thread.start()
    return thread


def _wait(fd):
    while os.read(fd, 4096):  # releases the interpreter's lock
        try:
            abort_all()
        except Exception as error:  # noqa: BLE001 - nobody is there to catch it: torch is half imported
            print(f"cellspan: NCCL could not be aborted: {type(error).__name__}: {error}", file=sys.stderr)


def abort_all(distributed=None):
    """Aborts the NCCL backend of every process group of torch.distributed; how many there were. Others are left alone, and
    so are the groups themselves: the next cell destroys them (torchenv.enter_world).

    All at the same time, each in a thread of its own: an abort may wait for the device, which is not free before the hung
    kernel of another communicator is aborted as well. Who is not done after LIMIT seconds goes on by itself.
    """
    found = backends(distributed)
    threads = [threading.Thread(target=_abort, args=(backend,), name="cellspan-abort", daemon=True) for backend in found]
    for thread in threads:
        thread.start()
    end = time.monotonic() + LIMIT
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return len(found)


def backends(distributed=None):
    """The NCCL backends of torch.distributed's process groups of all worlds, each once, the youngest group's first."""
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
    except Exception:  # noqa: BLE001 - a group without one for GPUs
        return None
    return backend if isinstance(backend, kind) else None


def _abort(backend):
    """torch 2.6 calls it abort; before, it was shutdown with a reason, or only the watchdog's own."""
    for name in ("abort", "_abort", "_shutdown", "shutdown"):
        call = getattr(backend, name, None)
        if call is not None:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - the others are to be aborted all the same
                print(f"cellspan: NCCL could not be aborted: {type(error).__name__}: {error}", file=sys.stderr)
            return
