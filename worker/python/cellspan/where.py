"""What a rank is made of and where it is: what %ranks check compares between ranks. Imports nothing that is not there."""

from __future__ import annotations

import os
import platform
import sys

from . import _link, gpus

SHM = "/dev/shm"


def facts(arrived):
    """A dict of plain values; None for what is not there. arrived: this host's clock, seconds since 1970, when the question
    came. shm_*: bytes of /dev/shm. addresses: [[interface, address]], the loopback's left out."""
    torch = sys.modules.get("torch")
    found = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "torch": _version("torch", torch),
        "torch_cuda": getattr(getattr(torch, "version", None), "cuda", None),
        "cellspan": _link.VERSION,
        "clock": arrived,
        "hostname": platform.node(),
        "pid": os.getpid(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "addresses": addresses(),
    }
    found.update(shared_memory())
    found.update(gpus.facts())
    return found


def _version(name, module):
    """Of a module that is imported, else of the installed distribution; None where there is none."""
    if module is not None and getattr(module, "__version__", None):
        return str(module.__version__)
    try:
        from importlib import metadata

        return metadata.version(name)
    except Exception:  # noqa: BLE001 - not installed, or installed in a way that nobody can read
        return None


def shared_memory(path=SHM):
    """{"shm_size", "shm_free"}: bytes; None where there is no such folder."""
    try:
        fs = os.statvfs(path)
    except OSError:
        return {"shm_size": None, "shm_free": None}
    return {"shm_size": fs.f_blocks * fs.f_frsize, "shm_free": fs.f_bavail * fs.f_frsize}


def addresses():
    """[[interface, address]] of this host, without the loopback's."""
    return [[name, address] for name, address in _link.addresses() if not address.startswith("127.") and address != "::1"]
