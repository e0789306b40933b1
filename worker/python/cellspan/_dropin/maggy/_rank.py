# SPDX-License-Identifier: BSD-3-Clause
"""What a rank does for lagom(): prepares torch, replaces what is distributed, calls train_fn, and puts everything back."""

from __future__ import annotations

import contextlib
import random
import sys

from .._dropin_api import choose_backend, destroy_group, has_group, init_group
from . import _values
from ._reporter import Reporter

SETTINGS = ("backend", "mixed_precision", "zero_lvl", "ds_config", "find_unused_parameters")
SEED = 0  # of all ranks, as in Maggy: modules then begin equal, and a second run repeats the first


def lagom(train_fn, module, hparams, wanted, settings, dataset=None, train_set=None, test_set=None):
    """Calls train_fn with the arguments named in wanted. Returns (its value in numbers, what it has broadcast)."""
    __tracebackhide__ = True
    name = getattr(train_fn, "__name__", type(train_fn).__name__)
    if settings["backend"] == "deepspeed":
        _needs_deepspeed()
    with _process_group() as (rank, device):
        from . import _loaders, _modules

        given = _datasets(dataset, train_set, test_set)
        _loaders.check_sizes({key: value for key, value in given.items() if key in wanted})
        reporter = Reporter(rank)
        given.update(module=_modules.distributed(module, settings, device), hparams=hparams, reporter=reporter)
        with _seeded(device), Patches() as patches:
            _loaders.patch(patches, device)
            if settings["backend"] == "torch" and settings["zero_lvl"] == 1:
                from . import _optimizers  # it imports much of torch

                _optimizers.patch(patches)
            value = train_fn(**{key: given[key] for key in wanted})
        value = _values.returned(value, name)
        _together()
        return value, reporter.history


class Patches:
    """Sets attributes; at the end of the block they have their old values again."""

    def __enter__(self):
        self._old = []
        return self

    def set(self, owner, name, value):
        self._old.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def __exit__(self, *error):
        for owner, name, value in reversed(self._old):
            setattr(owner, name, value)


def _datasets(dataset, train_set, test_set):
    """{argument: value}, whichever form the configuration has. train_fn may have the other one."""
    if dataset is None and (train_set is not None or test_set is not None):
        dataset = [train_set, test_set]
    elif isinstance(dataset, (list, tuple)) and len(dataset) == 2:
        train_set, test_set = dataset
    return {"dataset": dataset, "train_set": train_set, "test_set": test_set}


def _needs_deepspeed():
    __tracebackhide__ = True
    try:
        import deepspeed  # noqa: F401
    except ImportError as error:
        raise ImportError(f"backend='deepspeed' needs the package deepspeed on the ranks: {sys.executable} -m pip install deepspeed "
                          f"({error})") from None


@contextlib.contextmanager
def _process_group():
    """Yields (rank, torch.device). Uses the process group of this world if there is one; destroys one that it has made."""
    __tracebackhide__ = True
    made = not has_group()
    init_group()
    import torch

    cuda = "nccl" in choose_backend("auto", torch)
    try:
        yield torch.distributed.get_rank(), torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
    finally:
        if made:
            destroy_group()


def _together():
    """Waits for all ranks: rank 0 has the store by which the others communicate."""
    import torch

    torch.distributed.barrier()


@contextlib.contextmanager
def _seeded(device):
    """Random numbers begin equally on all ranks; afterwards the generators go on where they were."""
    import torch

    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark, random.getstate()
    numpy = sys.modules.get("numpy")
    theirs = numpy.random.get_state() if numpy is not None else None
    try:
        with torch.random.fork_rng(devices=[device.index] if device.type == "cuda" else []):
            torch.manual_seed(SEED)
            random.seed(SEED)
            if numpy is not None:
                numpy.random.seed(SEED)
            cudnn.deterministic, cudnn.benchmark = True, False
            yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before[:2]
        random.setstate(before[2])
        if numpy is not None:
            numpy.random.set_state(theirs)
