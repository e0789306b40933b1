# SPDX-License-Identifier: BSD-3-Clause
"""Facts about a rank's software and host, which %ranks check compares between ranks. Imports no further packages."""

from __future__ import annotations

import os
import platform
import sys

from .. import _link
from . import gpus

SHM = "/dev/shm"


def facts(arrived):
    """A dict of plain values; None for missing ones. arrived: this host's clock, in seconds since 1970, when the question
    came. shm_*: bytes of /dev/shm. addresses: [[interface, address]] without the loopback. speeds: {interface: Mb/s} if
    known. interface: the one that NCCL and gloo must use between machines. memlock: bytes; None: no limit."""
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
        "speeds": speeds(),
        "interface": os.environ.get("CELLSPAN_IFNAME", ""),
        "infiniband": infiniband(),
        "memlock": memlock(),
    }
    found.update(shared_memory())
    found.update(gpus.facts())
    return found


def _version(name, module):
    """The version of an imported module, else of the installed package; None if there is none."""
    if module is not None and getattr(module, "__version__", None):
        return str(module.__version__)
    try:
        from importlib import metadata

        return metadata.version(name)
    except Exception:  # noqa: BLE001 - not installed, or its metadata can't be read
        return None


def shared_memory(path=SHM):
    """{"shm_size", "shm_free"} in bytes; None if there is no such folder."""
    try:
        fs = os.statvfs(path)
    except OSError:
        return {"shm_size": None, "shm_free": None}
    return {"shm_size": fs.f_blocks * fs.f_frsize, "shm_free": fs.f_bavail * fs.f_frsize}


def _read(path):
    """The first line of a system file, or ""."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:  # some can't be read while the link is down
        return ""


def _names(folder):
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def speeds(folder="/sys/class/net"):
    """{interface: Mb/s} of this host; most virtual interfaces have no speed."""
    texts = {name: _read(os.path.join(folder, name, "speed")) for name in _names(folder)}
    return {name: int(text) for name, text in texts.items() if text.isdigit() and int(text) > 0}


def infiniband(folder="/sys/class/infiniband"):
    """["mlx5_0: 400 Gb/sec (4X NDR)"]: the ports of InfiniBand and RoCE devices, with "down" if not active."""
    found = []
    for name in _names(folder):
        for port in _names(os.path.join(folder, name, "ports")):
            here = os.path.join(folder, name, "ports", port)
            rate = _read(os.path.join(here, "rate")) if "ACTIVE" in _read(os.path.join(here, "state")) else "down"
            found.append(f"{name}{'/' + port if port != '1' else ''}: {rate}")
    return found


def memlock():
    """How much memory this process may pin, in bytes; None: no limit."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    except (ImportError, AttributeError, OSError):
        return None
    return None if limit in (-1, resource.RLIM_INFINITY) else limit


def addresses():
    """[[interface, address]] of this host, without the loopback."""
    return [[name, address] for name, address in _link.addresses() if not address.startswith("127.") and address != "::1"]
