# SPDX-License-Identifier: BSD-3-Clause
"""DataLoaders that train_fn makes read this rank's share of the samples, and give batches on this rank's device."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data.distributed import DistributedSampler

DROP_LAST = 3  # its place among the arguments after batch_sampler
MARK = "_cellspan_share"  # attribute of a DataLoader that reads this rank's share


def patch(patches, device):
    """Replaces the methods of the class itself, so that it does not matter from where train_fn has the class, or a subclass."""
    patches.set(DataLoader, "__init__", _init(DataLoader.__init__))
    patches.set(DataLoader, "__iter__", _iter(DataLoader.__iter__, device))


def check_sizes(sets):
    """ValueError: one of {name: dataset} has fewer samples than there are ranks. `dataset` may be a list of datasets, too."""
    __tracebackhide__ = True
    for name, value in sets.items():
        if name == "dataset" and isinstance(value, (list, tuple)):
            for number, one in enumerate(value):
                if isinstance(one, Dataset):
                    check_size(f"{name}[{number}]", one)
        else:
            check_size(name, value)


def check_size(name, dataset):
    """ValueError: the dataset has fewer samples than there are ranks. One without a length passes, and so do a path and a dict,
    which have lengths of another kind."""
    __tracebackhide__ = True
    if isinstance(dataset, (str, bytes, Mapping, IterableDataset)):
        return
    try:
        size = len(dataset)
    except TypeError:
        return
    ranks = dist.get_world_size()
    if size < ranks:
        fix = f"run it with n={size}" if size else "it is empty"
        raise ValueError(f"{name} has {size} sample{'s' * (size != 1)} for {ranks} ranks, and each needs at least one: {fix}")


def _init(real):
    @functools.wraps(real)
    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, *rest, **more):
        __tracebackhide__ = True
        if batch_sampler is not None:
            batch_sampler = _shared(batch_sampler)
        elif sampler is not None:
            sampler = _shared(sampler)
        elif isinstance(dataset, IterableDataset):
            raise TypeError(f"{type(dataset).__name__} is an IterableDataset, which can't be divided among the ranks: use a dataset "
                            "with __len__ and __getitem__")
        else:
            check_size("the DataLoader's dataset", dataset)
            last = rest[DROP_LAST] if len(rest) > DROP_LAST else more.get("drop_last", False)
            sampler, shuffle = _OwnSampler(dataset, shuffle=bool(shuffle), seed=_seed(more), drop_last=bool(last)), None
        real(self, dataset, batch_size, shuffle, sampler, batch_sampler, *rest, **more)
        if self.drop_last and isinstance(sampler, _OwnSampler) and batch_size and not len(self):
            raise ValueError(f"drop_last=True leaves no batch: a rank has {len(self.sampler)} samples, and batch_size, which is "
                             f"that of one rank, is {batch_size}: give a smaller one, or leave out drop_last")
        self.__dict__[MARK] = True

    return __init__


def _iter(real, device):
    @functools.wraps(real)
    def __iter__(self):
        __tracebackhide__ = True
        if MARK not in self.__dict__ and not isinstance(self.sampler, DistributedSampler):
            raise RuntimeError("this DataLoader was made outside of the training function, so each rank would read all samples: make "
                               "it in the function")
        batches = real(self)
        return batches if device.type == "cpu" else (moved(batch, device) for batch in batches)

    return __iter__


def moved(batch, device):
    """The batch with its tensors on the device. What can't be moved stays as it is."""

    def move(value):
        if isinstance(value, torch.Tensor):
            return value.to(device, non_blocking=True)
        return value.to(device) if hasattr(value, "to") else value

    return mapped(move, batch)


def mapped(function, value):
    """A copy of nested lists, tuples and dicts with function(value) in place of each value."""
    if hasattr(value, "to"):  # it knows how to move what it holds: PackedSequence, which is a tuple, or BatchEncoding, a mapping
        return function(value)
    if isinstance(value, Mapping):
        made = copy.copy(value)
        for key, one in value.items():
            made[key] = mapped(function, one)
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(function, one) for one in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(function, one) for one in value)
    return function(value)


def _seed(more):
    """The seed of the order; all ranks need the same. That of the user's generator, or of torch."""
    generator = more.get("generator")
    return (generator or torch).initial_seed() % 2**32


class _OwnSampler(DistributedSampler):
    """Shuffles anew in each epoch, though nobody calls set_epoch()."""

    def __iter__(self):
        indices = super().__iter__()
        self.epoch += 1
        return indices


def _shared(sampler):
    if isinstance(sampler, DistributedSampler) or isinstance(getattr(sampler, "sampler", None), DistributedSampler):
        return sampler
    return _Share(sampler)


class _Share:
    """Every n-th of what a sampler yields. It is drawn with the same random numbers on all ranks. So that all ranks get equally
    many, some get one of the first again."""

    def __init__(self, sampler):
        self.sampler = sampler
        self.seed = _seed({})
        self.epoch = 0

    def __getattr__(self, name):
        if name == "sampler":  # copies and unpickled objects don't have it yet
            raise AttributeError(name)
        return getattr(self.sampler, name)

    def __iter__(self):
        ranks, rank = dist.get_world_size(), dist.get_rank()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed + self.epoch)
            drawn = iter(self.sampler)
            first = list(itertools.islice(drawn, ranks))  # torch's samplers draw all random numbers here
        self.epoch += 1
        if not first:
            return
        count = 0
        for count, one in enumerate(itertools.chain(first, drawn), 1):
            if (count - 1) % ranks == rank:
                yield one
        if 0 < count % ranks <= rank:
            yield first[rank % len(first)]

    def __len__(self):
        return -(-len(self.sampler) // dist.get_world_size())
