# SPDX-License-Identifier: BSD-3-Clause
"""Sends variables from one rank to the others by ncclBroadcast. A bundle that only the root's node has is sent to the host memory
of each rank; buffers that were on a GPU at home go directly to each rank's own GPU. On one node every rank maps the bundle
anyway, so only the buffers for GPUs are sent.

All ranks do the same, in this order: the bundle's first 64 bytes, the rest up to its first buffer, then each buffer. On one
node: the buffers that were on a GPU, in the order of storages.
"""

from __future__ import annotations

import json
import os

from .. import _link
from .._capture import vars_bundle
from . import gpu_placement, gpus

LIMIT = 60.0  # seconds, if the kernel sets no limit


class BroadcastError(Exception):
    """The variables did not arrive; the text is for the user."""


def receive(rank, text, fd, size, user_ns, keep):
    """The value in the bundle of a BIND with `broadcast`. text: that field. fd, size: the blob, which the root has, and on one node every
    rank; otherwise fd is -1.

    rank: of this process. At the end, if the whole bundle is here, keep(fd, size) is called with it. BroadcastError: NCCL failed, on
    this rank or another. BundleError and others: as unpack().
    """
    asked = json.loads(text)
    ranks = [int(r) for r in asked["ranks"]]
    whole, root, mapped = int(asked["size"]), int(asked["root"]), bool(asked.get("mapped"))
    if rank not in ranks or root not in ranks:
        raise BroadcastError(f"a broadcast from rank {root} to ranks {ranks} reached rank {rank}")
    if (mapped or rank == root) and size != whole:
        raise BroadcastError(f"the bundle has {size} bytes, not {whole}")
    own = -1
    try:
        if rank != root:  # the blob is sealed, so make room for what NCCL brings
            own = vars_bundle.create()
            os.ftruncate(own, whole)
        into = fd if rank == root else own
        with _Broadcast(asked, ranks.index(rank), len(ranks), ranks.index(root)) as broadcast:
            places = _gpu_buffers(broadcast, fd, into, whole) if mapped else _all(broadcast, into, whole)
        value = vars_bundle.unpack(fd if mapped else into, whole, user_ns, places)
        if mapped or rank == root or not places:
            keep(fd if mapped else into, whole)
        return value
    finally:
        if own >= 0:
            os.close(own)


class _Broadcast:
    """The communicator of one broadcast, from the C extension. OSErrors in the block become BroadcastErrors."""

    def __init__(self, asked, at, count, root):
        self._text, self._at, self._count, self._root = asked["id"], at, count, root
        self._seconds = float(asked.get("limit_s") or LIMIT)
        self._broadcast = None

    def __enter__(self):
        try:
            gpus.nccl()
            gpus.nccl_used()
            gpus.drain(self._seconds / 2)
            self._broadcast = _link.broadcast_open(gpus.device(), bytes.fromhex(self._text), self._at, self._count, self._root, self._seconds)
        except (OSError, gpus.GpuError) as error:
            raise BroadcastError(f"variables could not be sent between GPUs: {error}") from None
        return self

    def send(self, fd, offset, size, place=None):
        """Sends size bytes at offset of the root's descriptor to fd of the others, or into their `place` (a tensor) if given."""
        _link.broadcast_bytes(self._broadcast, fd, offset, size, 0 if place is None else place.data_ptr())

    def __exit__(self, kind, error, _):
        _link.broadcast_close(self._broadcast, kind is None)
        if isinstance(error, OSError):
            raise BroadcastError(f"variables could not be sent between GPUs: {error}") from None


def _all(broadcast, fd, whole):
    """Sends the whole bundle. Returns {number of a storage: its torch storage on the GPU}."""
    broadcast.send(fd, 0, vars_bundle.HEADER.size)
    head = vars_bundle.outline(fd, whole)
    broadcast.send(fd, vars_bundle.HEADER.size, head - vars_bundle.HEADER.size)
    table, meta = vars_bundle.contents(fd, whole)
    rows = gpu_placement.wanted(table, meta)
    places = gpu_placement.empty(rows)
    for index, (offset, length) in enumerate(table):
        broadcast.send(fd, offset, length, places.get(index))
    return {n: places[index].untyped_storage() for n, index, _ in rows if index in places}


def _gpu_buffers(broadcast, fd, into, whole):
    """Sends the buffers that were on a GPU at home, of a bundle that this rank has in fd; returns as _all(). A rank without memory
    for them takes part, too."""
    table, meta = vars_bundle.contents(fd, whole)
    rows = gpu_placement.wanted(table, meta)
    places = gpu_placement.empty(rows)
    for _, index, length in rows:
        broadcast.send(into, table[index][0], length, places.get(index))
    return {n: places[index].untyped_storage() for n, index, _ in rows if index in places}
