# SPDX-License-Identifier: BSD-3-Clause
"""Objects that know the world in which they were made: how many processes there are, which of them this one is, how they are connected.
In another world they would be wrong, most of them without an error: each rank would train alone, on all data.

They are refused, except those that can find it out again where they arrive.
"""

from __future__ import annotations

import functools
import sys

from .._base.errors import with_article
from . import rebuild
from .caches import less


class OtherWorld(TypeError):
    """An object must not be sent, since it belongs to the world in which it was made. The text is for the user. what: its class, in words."""

    what = ""


class Reason(str):
    """The text of an OtherWorld: why a variable can't be sent."""

    __slots__ = ()


def reason(error, text):
    """The text of an exception that pickling raised: a Reason if it is an OtherWorld."""
    return Reason(text) if isinstance(error, OtherWorld) else text


def at_home():
    return getattr(sys.modules.get("cellspan._worker.home"), "current", None) is not None


def _refuse(what, instead, obj):
    """The rule for objects that ranks can't take from home. instead: what ranks send home in place of it; None: home can have it."""
    if at_home():
        error = OtherWorld(f"{what} knows only the world in which it was made, and that is home: make it in the distributed cell")
        error.what = what
        raise error
    if instead is None:
        return NotImplemented
    raise OtherWorld(f"{what} belongs to its process group: send {instead} instead")


def _reduce_module(module):
    """Without the mark of Accelerate, which says that it has been prepared: another Accelerator would leave it as it is."""
    return less(module.__reduce_ex__(5), (MARK,)) if MARK in module.__dict__ else NotImplemented


def _reduce_arguments(arguments):
    """transformers' TrainingArguments, without what they have found out about the world."""
    reduced = less(arguments.__reduce_ex__(5), FOUND_OUT)
    if reduced[1] != (type(arguments),):
        return NotImplemented
    return (rebuild.make_arguments, *reduced[1:])


def _reduce_data_module(module):
    """Lightning's LightningDataModule, without the Trainer that used it last. A LightningModule leaves it out itself."""
    make, args, state, *more = less(module.__reduce_ex__(5), ("trainer",))
    return (make, args, {**state, "trainer": None} if isinstance(state, dict) else state, *more)


MARK = "_is_accelerate_prepared"
FOUND_OUT = ("_setup_devices", "distributed_state", "_n_gpu")
LIGHTNINGS = (("lightning.pytorch", "lightning.fabric"), ("pytorch_lightning", "lightning_fabric"))

REFUSED = {  # (module, class): what ranks send home in place of it
    ("torch.nn.parallel.distributed", "DistributedDataParallel"): "the state_dict() of its module",
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"): "its full state_dict",
    ("torch.distributed.fsdp", "FSDPModule"): "its full state_dict",
    ("torch.distributed.tensor", "DTensor"): "full_tensor()",
    ("torch.distributed.device_mesh", "DeviceMesh"): "its shape",
    ("torch.distributed.distributed_c10d", "ProcessGroup"): "the ranks of the group",
    ("torch.distributed.distributed_c10d", "Store"): "what is in it",
    ("torch.distributed.optim.zero_redundancy_optimizer", "ZeroRedundancyOptimizer"): "its state_dict",
    ("deepspeed.runtime.engine", "DeepSpeedEngine"): "the state_dict() of its module",
    ("torch.utils.data.distributed", "DistributedSampler"): None,
    ("streaming.base.dataset", "StreamingDataset"): None,
    ("datasets.iterable_dataset", "DistributedConfig"): None,  # of an IterableDataset that split_dataset_by_node() has made
    ("transformers.trainer_pt_utils", "IterableDatasetShard"): None,
    ("transformers.trainer_pt_utils", "ShardSampler"): None,
    ("accelerate.accelerator", "Accelerator"): None,
    ("accelerate.state", "PartialState"): None,
    ("accelerate.state", "AcceleratorState"): None,
    ("accelerate.state", "GradientState"): None,
    ("accelerate.data_loader", "DataLoaderAdapter"): None,
    ("accelerate.data_loader", "DataLoaderShard"): None,
    ("accelerate.data_loader", "DataLoaderDispatcher"): None,
    ("accelerate.data_loader", "BatchSamplerShard"): None,
    ("accelerate.data_loader", "IterableDatasetShard"): None,
    ("accelerate.optimizer", "AcceleratedOptimizer"): None,
    ("accelerate.scheduler", "AcceleratedScheduler"): None,
}
for _pytorch, _fabric in LIGHTNINGS:
    REFUSED[_pytorch + ".trainer.trainer", "Trainer"] = None
    REFUSED[_pytorch + ".strategies.strategy", "Strategy"] = None
    REFUSED[_fabric + ".strategies.strategy", "Strategy"] = None
    REFUSED[_fabric + ".fabric", "Fabric"] = None
    for _name in ("_FabricModule", "_FabricOptimizer", "_FabricDataLoader"):
        REFUSED[_fabric + ".wrappers", _name] = None


def _called(module, name):
    """What users call a class: "a DistributedSampler", "an Accelerator"."""
    return with_article(name.lstrip("_"))


RULES = {
    **{row: functools.partial(_refuse, _called(*row), instead) for row, instead in REFUSED.items()},
    ("torch.nn.modules.module", "Module"): _reduce_module,
    ("transformers.training_args", "TrainingArguments"): _reduce_arguments,
    ("lightning.pytorch.core.datamodule", "LightningDataModule"): _reduce_data_module,
    ("pytorch_lightning.core.datamodule", "LightningDataModule"): _reduce_data_module,
}
