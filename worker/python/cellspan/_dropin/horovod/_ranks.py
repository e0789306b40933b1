# SPDX-License-Identifier: BSD-3-Clause
"""What HorovodRunner does in each of its processes."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile

import cellspan

from . import _install

LONGEST = 4000  # characters of a message, as in sparkdl
_shown = None  # the descriptor of the notebook's output while descriptor 1 is a file


def log_to_driver(message):
    """Prints a message in the notebook's cell, also where HorovodRunner hides other output. It is cut after 4000 characters. The
    interface is that of sparkdl.horovod.log_to_driver."""
    text = str(message)
    if len(text) > LONGEST:
        text = text[:LONGEST] + "... (cut: log_to_driver() takes 4000 characters)"
    if _shown is None:
        print(text, flush=True)
        return
    data = (text + "\n").encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(_shown, data) :]


def main(function, kwargs, folder, installed):
    """Calls function(**kwargs). folder: where what it prints goes; "": into the cell. installed: home has called install()."""
    __tracebackhide__ = True
    if installed:
        _install.hook()
    with _printing(folder):
        if _install.real():
            return _with_real(function, kwargs)
        value = function(**kwargs)
        state = sys.modules.get("cellspan.horovod._state")
        if state is not None:  # not after an exception: other ranks would fail, and perhaps be the first to do so
            state.shutdown()
        return value


# ---- output ---------------------------------------------------------------------------------------------------------


def path_of(folder, rank):
    return os.path.join(folder, f"rank-{rank}.log")


@contextlib.contextmanager
def _printing(folder):
    """Lets descriptors 1 and 2 be a file of that folder."""
    global _shown
    if not folder:
        yield
        return
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:  # this machine has no such place
        folder = tempfile.mkdtemp(prefix="cellspan-horovod-")
    file = os.open(path_of(folder, cellspan.rank()), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _flush()
    kept = os.dup(1), os.dup(2)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    _shown = kept[0]
    try:
        yield
    finally:
        _flush()
        _shown = None
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


# ---- the real Horovod -----------------------------------------------------------------------------------------------


def _with_real(function, kwargs):
    """With CELLSPAN_HOROVOD=real: rank 0 starts Horovod's rendezvous server, and all ranks get the environment of `horovodrun
    --gloo`. Raises RuntimeError if Horovod then sees another world: each rank would train alone."""
    __tracebackhide__ = True
    rank, size = cellspan.rank(), cellspan.world_size()
    server = None
    if size > 1:
        server = _start_server(rank, size)
    try:
        import horovod.torch as hvd

        hvd.init()
        if hvd.size() != size:
            raise RuntimeError(f"CELLSPAN_HOROVOD=real: Horovod sees {hvd.size()} processes and there are {size}; was it built with gloo?")
        return function(**kwargs)
    finally:
        if server is not None:
            server.stop()


def _start_server(rank, size):
    from datetime import timedelta

    from torch.distributed import TCPStore

    address = os.environ["MASTER_ADDR"]
    store = TCPStore(address, int(os.environ["MASTER_PORT"]), size, rank == 0, timeout=timedelta(seconds=300))
    names = ("GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    store.set(f"place/{rank}", " ".join(os.environ[name] for name in names))
    places = [[int(word) for word in store.get(f"place/{other}").split()] for other in range(size)]
    nodes = [sorted({node for node, local, _ in places if local == own[1]}) for own in places]
    server = None
    if rank == 0:
        from horovod.runner.common.util.hosts import SlotInfo
        from horovod.runner.http.http_server import RendezvousServer

        server = RendezvousServer()
        store.set("port", str(server.start()))
        server.init([
            SlotInfo(f"node{node}", other, local, nodes[other].index(node), size, count, len(nodes[other]))
            for other, (node, local, count) in enumerate(places)
        ])
    node, local, count = places[rank]
    values = {
        "RANK": rank, "SIZE": size, "LOCAL_RANK": local, "LOCAL_SIZE": count, "CROSS_RANK": nodes[rank].index(node),
        "CROSS_SIZE": len(nodes[rank]), "HOSTNAME": f"node{node}", "CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo",
        "GLOO_RENDEZVOUS_ADDR": address, "GLOO_RENDEZVOUS_PORT": store.get("port").decode(),
    }  # fmt: skip
    os.environ.update({f"HOROVOD_{name}": str(value) for name, value in values.items()})
    if os.environ.get("GLOO_SOCKET_IFNAME"):
        os.environ.setdefault("HOROVOD_GLOO_IFACE", os.environ["GLOO_SOCKET_IFNAME"])
    return server
