# SPDX-License-Identifier: BSD-3-Clause
"""Where code runs: cellspan.rank(), world_size() and local_rank(). Home is rank 0 of a world of 1.

On ranks they read the environment (RANK, WORLD_SIZE, LOCAL_RANK). So they also work in processes that a rank starts, and under
torchrun, and follow what --env sets.
"""

from __future__ import annotations

import os
import sys


def rank():
    """This process's number in its world, from 0; 0 at home."""
    return _number("RANK", 0)


def world_size():
    """How many ranks the world of this cell has; 1 at home."""
    return _number("WORLD_SIZE", 1)


def local_rank():
    """This rank's number among those of its world on the same machine, from 0; 0 at home."""
    return _number("LOCAL_RANK", 0)


def _number(name, otherwise):
    """otherwise: the value at home, and in a process without a world."""
    if getattr(sys.modules.get("cellspan._worker.home"), "current", None) is not None:
        return otherwise
    text = os.environ.get(name)
    if not text and getattr(sys.modules.get("cellspan._worker.rank"), "current", None) is not None:
        raise RuntimeError(f"{name} is not set: a rank knows its world when its first cell runs")
    return int(text or otherwise)
