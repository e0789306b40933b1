"""Variables from one rank to the others by ncclBroadcast: a parcel that only the root's node has reaches every GPU's host
memory, and what lay on a GPU at home lands on each rank's own GPU, without a detour.

What all ranks do alike, in this order: the parcel's first 64 bytes, the rest up to its first buffer, then buffer after buffer.
"""

from __future__ import annotations

import json
import os
import sys

from . import _link, gpus, parcel

LIMIT = 60.0  # seconds, where the kernel names none


class CastError(Exception):
    """The variables did not arrive; the text is for the user."""


def receive(rank, text, fd, size, user_ns):
    """The value in the parcel of a BIND with `cast`: text is that field, fd and size the root's blob (-1 elsewhere).

    rank: of this process. CastError: NCCL failed, on this rank or another; ParcelError and others: as unpack().
    """
    asked = json.loads(text)
    ranks = [int(r) for r in asked["ranks"]]
    whole, root = int(asked["size"]), int(asked["root"])
    if rank not in ranks or root not in ranks:
        raise CastError(f"a cast from rank {root} to ranks {ranks} reached rank {rank}")
    own = parcel.create() if rank != root else fd
    try:
        if rank != root:
            os.ftruncate(own, whole)
        elif size != whole:
            raise CastError(f"the parcel has {size} bytes, not {whole}")
        storages = _receive(asked, ranks.index(rank), len(ranks), ranks.index(root), own, whole)
        return parcel.unpack(own, whole, user_ns, storages)
    finally:
        if own != fd:
            os.close(own)


def _receive(asked, at, count, root, fd, whole):
    """Moves the bytes. {storage's number: its torch storage on the GPU} of those that are there."""
    try:
        gpus.nccl()
        seconds = float(asked.get("limit_s") or LIMIT)
        cast = _link.cast_open(gpus.device(), bytes.fromhex(asked["id"]), at, count, root, seconds)
    except (OSError, gpus.GpuError) as error:
        raise CastError(f"variables could not be sent between GPUs: {error}") from None
    well = False
    try:
        _link.cast_bytes(cast, fd, 0, parcel.HEADER.size, 0)
        head = parcel.outline(fd, whole)
        _link.cast_bytes(cast, fd, parcel.HEADER.size, head - parcel.HEADER.size, 0)
        table, meta = parcel.contents(fd, whole)
        places = _places(meta, table)
        for index, (offset, length) in enumerate(table):
            _link.cast_bytes(cast, fd, offset, length, places[index].data_ptr() if index in places else 0)
        well = True
    except OSError as error:
        raise CastError(f"variables could not be sent between GPUs: {error}") from None
    finally:
        _link.cast_close(cast, well)
    numbers = {entry[0]: number for number, entry in enumerate(meta["storages"])}
    return {numbers[index]: tensor.untyped_storage() for index, tensor in places.items()}


def _places(meta, table):
    """{index in the table: a CUDA tensor of that many bytes} for the storages that lay on a GPU at home. A rank whose torch
    has no CUDA takes them into host memory."""
    wanted = [(index, table[index][1]) for (index, _), kind in zip(meta["storages"], meta["devices"]) if kind == "cuda"]
    torch = sys.modules.get("torch")
    if not wanted or torch is None or not torch.cuda.is_available():
        return {}
    device = torch.device("cuda", gpus.device())
    found = {index: torch.empty(size, dtype=torch.uint8, device=device) for index, size in wanted if size}
    torch.cuda.synchronize(device)  # the memory may have been somebody's a moment ago, on another stream
    return found
