# SPDX-License-Identifier: BSD-3-Clause
"""strategy="horovod" for Lightning 2, which removed it. It behaves as in Lightning 1."""

from __future__ import annotations

import importlib

import torch

from . import torch as hvd

NAME = "horovod"
_OPS = {None: hvd.Average, "mean": hvd.Average, "avg": hvd.Average, "sum": hvd.Sum, "min": hvd.Min, "max": hvd.Max}


def register(strategies, package):
    """Adds the strategy to a registry. strategies: the module PACKAGE.strategies of Lightning."""
    registry = strategies.StrategyRegistry
    if NAME not in registry:
        registry.register(NAME, _made(strategies.ParallelStrategy, package), description="Horovod's interface, on cellspan's ranks")


def _made(base, package):
    """The class, for one of Lightning's two packages."""
    rank_zero = importlib.import_module(f"{package}.utilities.rank_zero").rank_zero_only

    class HorovodStrategy(_Horovod, base):
        strategy_name = NAME

        def set_world_ranks(self):
            rank_zero.rank = hvd.rank()

    return HorovodStrategy


class _Horovod:
    """One process for each rank: the Trainer has devices=1, and hvd.size() ranks train together."""

    is_distributed = True

    def __init__(self, *args, **options):
        hvd.init()
        super().__init__(*args, **options)

    @property
    def global_rank(self):
        return hvd.rank()

    @property
    def local_rank(self):
        return hvd.local_rank()

    @property
    def node_rank(self):
        return hvd.cross_rank()

    @property
    def world_size(self):
        return hvd.size()

    @property
    def root_device(self):
        devices = self.parallel_devices or [torch.device("cpu")]
        if len(devices) > 1 and hvd.size() > 1:
            raise ValueError(f'Trainer(devices={len(devices)}, strategy="horovod"): each rank is one process, so use devices=1')
        if devices[0].type == "cuda" and hvd.size() > 1:
            return torch.device("cuda", torch.cuda.current_device())  # hvd.init() has chosen it
        return devices[0]

    @property
    def distributed_sampler_kwargs(self):
        return {"num_replicas": hvd.size(), "rank": hvd.rank()}

    # ---- training ----------------------------------------------------------------------------------------------------

    def model_to_device(self):
        self.model.to(self.root_device)

    def setup(self, trainer):
        fits = trainer.state.fn == "fit"
        if fits and self._layer_sync:
            self.model = self._layer_sync.apply(self.model)
        super().setup(trainer)
        hvd.broadcast_parameters(self.lightning_module.state_dict(), root_rank=0)
        if fits:
            self._scale()
            self._wrap(trainer.accumulate_grad_batches)

    def _scale(self):
        """Multiplies learning rates by the number of ranks, as Lightning 1 did: the global batch is so many times larger."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] *= hvd.size()
        for config in self.lr_scheduler_configs:
            if hasattr(config.scheduler, "base_lrs"):
                config.scheduler.base_lrs = [lr * hvd.size() for lr in config.scheduler.base_lrs]

    def _wrap(self, passes):
        wrapped = []
        for optimizer in self.optimizers:
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            known = {id(p) for group in optimizer.param_groups for p in group["params"]}
            named = [(name, p) for name, p in self.lightning_module.named_parameters() if id(p) in known]
            wrapped.append(hvd.DistributedOptimizer(optimizer, named_parameters=named, backward_passes_per_step=passes))
            for config in self.lr_scheduler_configs:
                if getattr(config.scheduler, "optimizer", None) is optimizer:
                    config.scheduler.optimizer = wrapped[-1]
        self.optimizers = wrapped

    def optimizer_step(self, optimizer, closure, model=None, **options):
        """Gradients are reduced after backward and before Lightning clips them."""

        def reduced():
            loss = closure()
            optimizer.synchronize()
            return loss

        with optimizer.skip_synchronize():
            return super().optimizer_step(optimizer, reduced, model, **options)

    # ---- values of all ranks -----------------------------------------------------------------------------------------

    def barrier(self, *args, **options):
        hvd.barrier()

    def broadcast(self, obj, src=0):
        return hvd.broadcast_object(obj, src)

    def reduce(self, tensor, group=None, reduce_op="mean"):
        """The tensor reduced over all ranks; anything else as it is. ValueError: a group, or no such operation."""
        if group is not None and group is not torch.distributed.group.WORLD:
            raise ValueError('strategy="horovod" reduces over all ranks: leave out group=')
        if not isinstance(tensor, torch.Tensor):
            return tensor
        name = reduce_op.lower() if isinstance(reduce_op, str) else None if reduce_op is None else str(reduce_op).rpartition(".")[2].lower()
        if name not in _OPS:
            raise ValueError(f"unrecognized `reduce_op`: {reduce_op}")
        return hvd.allreduce(tensor, op=_OPS[name])

    def all_gather(self, tensor, group=None, sync_grads=False):
        """The tensors of all ranks, stacked. Gradients flow through it if sync_grads."""
        if group is not None and group is not torch.distributed.group.WORLD:
            raise ValueError('strategy="horovod" gathers from all ranks: leave out group=')
        return hvd.allgather(tensor.unsqueeze(0) if sync_grads else tensor.detach().unsqueeze(0))
