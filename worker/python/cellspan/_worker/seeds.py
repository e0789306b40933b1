# SPDX-License-Identifier: BSD-3-Clause
"""The random numbers of a rank: Python's `random`, numpy's global state, and torch's default generators.

Ranks are forked from the zygote. So whatever it has imported has the same state in all of them. Each rank seeds it from the system, as
in a new process. What is imported later does so itself.

With a seed of the user's, the numbers of a rank are derived from this seed and from the rank. Those of an item of cellspan.map are
derived from the seed and the item: any rank may take it.
"""

from __future__ import annotations

import hashlib
import random
import sys
from typing import NamedTuple

from .. import _link
from .._base.imports import when_imported

DEVICES = ("cuda", "xpu")  # torch makes a generator for each of their devices when it first uses one, with a seed of the system


class Seeds(NamedTuple):
    """One for each generator; None: the system's."""

    python: int | None = None
    numpy: list | None = None
    torch: int | None = None


FRESH = Seeds()
_now = FRESH  # what is imported later gets these
_awaited = set()  # names of modules for which when_imported() has been called
_at_start = None  # the number of CELLSPAN_SEED, or None


def derived(number, what):
    """The Seeds of what ("rank 2"), from a number of the user's."""
    digest = hashlib.sha512(f"cellspan: seed {number}, {what}".encode()).digest()
    words = [int.from_bytes(digest[at : at + 4], "big") for at in range(0, len(digest), 4)]
    return Seeds(int.from_bytes(digest[32:], "big"), words[:4], (words[4] << 32 | words[5]) >> 11)


def begin(rank):
    """In a new rank, before the user's code runs."""
    global _at_start
    text = _link.setting("CELLSPAN_SEED")
    _at_start = int(text) if text.isdecimal() else None
    use(FRESH if _at_start is None else derived(_at_start, f"rank {rank}"))


def again(text, rank):
    """Before a cell, whose RUN has this seed; "": the numbers go on."""
    if text:
        use(derived(int(text), f"rank {rank}"))


def use(seeds):
    """Seeds all generators, also those of modules that are imported later."""
    global _now
    _now = seeds
    random.seed(seeds.python)
    for name, seed in LATER.items():
        if name in sys.modules:
            seed()
        elif seeds is not FRESH and name not in _awaited:
            _awaited.add(name)
            when_imported(name, seed)


def _seed_numpy():
    sys.modules["numpy.random"].seed(_now.numpy)


def _seed_torch():
    """Not by torch.manual_seed(): in some versions its first call imports torch's compiler, which takes a second."""
    torch = sys.modules["torch"]
    if not hasattr(torch, "default_generator"):  # its import has not ended
        return
    number = torch.default_generator.seed() if _now.torch is None else _now.torch
    if _now.torch is not None:
        torch.default_generator.manual_seed(number)
    for device in _devices(torch):
        # A device that nobody has used is not called now, but when it is first used. If no module has asked for a seed, torch gives it
        # one of the system's then.
        if _now.torch is not None or getattr(getattr(device, "_lazy_seed_tracker", None), "call_order", None):
            device.manual_seed_all(number)


def _devices(torch):
    """torch's modules for kinds of devices which this process can use."""
    found = [getattr(torch, name, None) for name in DEVICES]
    return [one for one in found if hasattr(one, "manual_seed_all") and not one._is_in_bad_fork() and getattr(one, "_is_compiled", lambda: True)()]


LATER = {"numpy.random": _seed_numpy, "torch": _seed_torch}


class of_items:
    """For cellspan.map: `with of_items(seed) as begin_item: begin_item(3)`. At the end the generators go on where they were before.
    number: None is that of CELLSPAN_SEED; without it, nothing is seeded."""

    def __init__(self, number):
        self.number = _at_start if number is None else number

    def __enter__(self):
        self.before, self.put_back = _now, [] if self.number is None else _state()
        return self._begin

    def _begin(self, at):
        if self.number is not None:
            use(derived(self.number, f"item {at}"))

    def __exit__(self, *error):
        if self.number is None:
            return
        use(self.before)  # for what was imported meanwhile
        for put, state in self.put_back:
            put(state)


def _state():
    """[(function, state)]: call each with its state to put the generators back."""
    states = [(random.setstate, random.getstate())]
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy is not None:
        states.append((numpy.set_state, numpy.get_state()))
    if hasattr(torch, "default_generator"):
        states.append((torch.default_generator.set_state, torch.default_generator.get_state()))
        states += [(one.set_rng_state_all, one.get_rng_state_all()) for one in _devices(torch) if one.is_initialized()]
    return states
