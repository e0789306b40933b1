"""The random numbers of a rank: Python's `random`, numpy's global state, and torch's default generators.

Ranks are forked from the zygote. So whatever it has imported has the same state in all of them. Each rank seeds it from the system, as
in a new process. What is imported later does so itself.
"""

from __future__ import annotations

import random
import sys

DEVICES = ("cuda", "xpu")  # torch makes a generator for each of their devices when it first uses one, with a seed of the system


def begin():
    """In a new rank, before the user's code runs."""
    random.seed()
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()
    torch = sys.modules.get("torch")
    if hasattr(torch, "default_generator"):
        _seed_torch(torch)


def _seed_torch(torch):
    """Not by torch.seed(): in some versions its first call imports torch's compiler, which takes a second."""
    number = torch.default_generator.seed()
    for name in DEVICES:
        device = getattr(torch, name, None)
        if getattr(getattr(device, "_lazy_seed_tracker", None), "call_order", None):
            # An imported module has asked for a seed. Nothing is called on a device until the rank uses one.
            device.manual_seed_all(number)
