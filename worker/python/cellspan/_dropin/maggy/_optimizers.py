# SPDX-License-Identifier: BSD-3-Clause
"""ZeRO 1: each rank keeps the state of torch's optimizers for its share of the parameters."""

from __future__ import annotations

import contextlib
import functools
import inspect

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer


class _Zero(ZeroRedundancyOptimizer):
    def state_dict(self):
        """The whole state on every rank, as of an optimizer that is not divided. All ranks have to call it."""
        whole = None
        for rank in range(dist.get_world_size()):
            self.consolidate_state_dict(to=rank)  # the other ranks forget what they had
            if rank == dist.get_rank():
                whole = super().state_dict()
        return whole


def patch(patches):
    """Replaces __init__ of torch's optimizers, so that it does not matter from where train_fn has the classes. An object that is
    made then becomes a ZeroRedundancyOptimizer around the class. Classes of the user that derive from them stay as they are."""
    inner = _Inner()
    for kind in {one for one in vars(torch.optim).values() if isinstance(one, type) and issubclass(one, torch.optim.Optimizer)}:
        if kind is not torch.optim.Optimizer and "__init__" in vars(kind):
            patches.set(kind, "__init__", _init(kind, kind.__init__, inner))


class _Inner:
    """Are the optimizers made now those inside of a ZeroRedundancyOptimizer?"""

    active = False

    @contextlib.contextmanager
    def __call__(self):
        before, self.active = self.active, True
        try:
            yield
        finally:
            self.active = before


def _init(kind, real, inner):
    signature = inspect.signature(real)
    zero = type(f"Zero{kind.__name__}", (_Zero,), {"__module__": __name__})

    @functools.wraps(real)
    def __init__(self, *args, **kwargs):
        __tracebackhide__ = True
        if inner.active or type(self) is not kind:
            return real(self, *args, **kwargs)
        if kind is torch.optim.LBFGS:
            raise ValueError("LBFGS can't be divided by parameters: use zero_lvl=0")
        given = dict(signature.bind(self, *args, **kwargs).arguments)
        given.pop(next(iter(given)))  # self
        params = given.pop("params")
        given.update(given.pop("kwargs", {}))
        self.__class__ = zero
        with inner():
            zero.__init__(self, params, optimizer_class=kind, **given)

    return __init__
