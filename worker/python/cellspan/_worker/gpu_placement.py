# SPDX-License-Identifier: BSD-3-Clause
"""Puts values that were on a GPU at home on this rank's own GPU, whether they came from another rank's GPU (broadcast.py) or as bytes.

A rank without a GPU, or whose torch has no CUDA, gets them in host memory.
"""

from __future__ import annotations

import importlib

from . import gpus

LIMIT = 60.0  # seconds to wait for a busy GPU


def wanted(table, meta):
    """[(number of the storage, its index in the bundle's table, bytes)] of storages that were on a GPU."""
    found = enumerate(zip(meta["storages"], meta["devices"]))
    return [(n, index, table[index][1]) for n, ((index, _), kind) in found if kind == "cuda" and table[index][1]]


def empty(rows):
    """{index: an uninitialised tensor of that many bytes on this rank's GPU} for rows of wanted(); {} without a GPU."""
    device = gpus.torch_device() if rows else None
    if device is None:
        return {}
    torch = importlib.import_module("torch")
    found = {index: torch.empty(size, dtype=torch.uint8, device=device) for _, index, size in rows}
    torch.cuda.synchronize(device)  # earlier work on another stream may still use this memory
    return found


def copied(views, meta):
    """{number of a storage: a storage on this rank's GPU with its bytes}, from the bundle's buffers; {} without a GPU."""
    device = gpus.torch_device()
    if device is None:
        return {}
    torch = importlib.import_module("torch")
    rows = wanted([(0, len(view)) for view in views], meta)
    if rows:
        gpus.drain(LIMIT)
    return {n: torch.frombuffer(views[index], dtype=torch.uint8).to(device).untyped_storage() for n, index, _ in rows}
