# SPDX-License-Identifier: BSD-3-Clause
"""The collectives through which gradients flow. What flows back is combined as Horovod does it: a loss is taken as the mean over
ranks, except after a Sum.
"""

from __future__ import annotations

import torch

from . import _ops, _state
from ._compression import Compression

Function = torch.autograd.Function


class _Allreduce(Function):
    @staticmethod
    def forward(ctx, options, *tensors):
        ctx.options = options
        return tuple(_ops.synchronize(_ops.grouped_allreduce_async(tensors, **options)))

    @staticmethod
    def backward(ctx, *gradients):
        return None, *_ops.synchronize(_ops.grouped_allreduce_async(gradients, **{**ctx.options, "name": None}))


def allreduce(
    tensor,
    average=None,
    name=None,
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=_ops.global_process_set,
):
    """The tensor reduced over all ranks, in a new tensor. Gradients flow through it.

    op: hvd.Average (if neither op nor average is given), Sum, Min, Max, Product. compression: hvd.Compression.fp16 sends 16 bits
    of each number. prescale_factor, postscale_factor: what the tensor is multiplied with before and after. name: for messages.
    The interface is that of Horovod's documentation of horovod.torch.

    ValueError: both op and average, or a type that can't be reduced. NotImplementedError: Adasum, or a process set.
    HorovodInternalError: ranks disagree about the operation, or one is gone.
    """
    return _all([tensor], average, name, compression, op, prescale_factor, postscale_factor, process_set)[0]


def grouped_allreduce(
    tensors,
    average=None,
    name=None,
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=_ops.global_process_set,
):
    """As allreduce() for a list of tensors, which travel together. Returns a list."""
    return _all(list(tensors), average, name, compression, op, prescale_factor, postscale_factor, process_set)


def _all(tensors, average, name, compression, op, prescale, postscale, process_set):
    op = _ops.which(op, average)
    _ops.check(op, process_set)
    for tensor in tensors:
        _ops.check_tensor(tensor, "allreduce")
    smaller, contexts = zip(*map(compression.compress, tensors)) if tensors else ((), ())
    options = {"op": op, "name": name, "prescale_factor": prescale, "postscale_factor": postscale}
    found = _Allreduce.apply(options, *smaller)
    return [compression.decompress(one, context) for one, context in zip(found, contexts)]


class _Allgather(Function):
    @staticmethod
    def forward(ctx, name, *tensors):
        ctx.lengths = [len(tensor) if tensor.dim() else 0 for tensor in tensors]
        return tuple(_ops.synchronize(_ops.grouped_allgather_async(tensors, name)))

    @staticmethod
    def backward(ctx, *gradients):
        reduced = _ops.synchronize(_ops.grouped_allreduce_async(gradients, op=_ops.Average))
        return None, *_own_rows(reduced, ctx.lengths)


def _own_rows(tensors, lengths):
    """This rank's part of tensors that were gathered. lengths: how many rows it had given to each."""
    every = _ops.synchronize(_ops.allgather_async(torch.tensor([lengths], device=tensors[0].device)))
    begins = every[: _state.rank()].sum(0).tolist()
    return [tensor.narrow(0, begin, length) for tensor, begin, length in zip(tensors, begins, lengths)]


def allgather(tensor, name=None, process_set=_ops.global_process_set):
    """The tensors of all ranks one after the other, along the first dimension, which may differ. Gradients flow through it.

    HorovodInternalError: the tensor has no dimension, or the other dimensions or types differ.
    """
    return grouped_allgather([tensor], name, process_set)[0]


def grouped_allgather(tensors, name=None, process_set=_ops.global_process_set):
    """As allgather(), for each tensor of a list. Returns a list."""
    _ops.check(process_set=process_set)
    return list(_Allgather.apply(name, *tensors))


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name):
        ctx.root_rank = root_rank
        return _ops.synchronize(_ops.broadcast_async(tensor, root_rank, name))

    @staticmethod
    def backward(ctx, gradient):
        reduced = _ops.synchronize(_ops.allreduce_async(gradient, op=_ops.Average))
        return reduced if _state.rank() == ctx.root_rank else reduced * 0, None, None


def broadcast(tensor, root_rank, name=None, process_set=_ops.global_process_set):
    """root_rank's tensor, in a new tensor. Gradients flow through it to root_rank. ValueError: there is no such rank."""
    _ops.check(process_set=process_set)
    return _Broadcast.apply(tensor, root_rank, name)


class _Alltoall(Function):
    @staticmethod
    def forward(ctx, tensor, splits, name):
        found, counts = _ops.synchronize(_ops.alltoall_async(tensor, splits, name))
        ctx.counts = counts
        ctx.mark_non_differentiable(counts)
        return found, counts

    @staticmethod
    def backward(ctx, gradient, _):
        return _ops.synchronize(_ops.alltoall_async(gradient, ctx.counts))[0], None, None


def alltoall(tensor, splits=None, name=None, process_set=_ops.global_process_set):
    """Sends a part of the tensor to each rank, along the first dimension, and returns what the ranks have sent to this one. With
    splits, how many rows each rank gets, it also returns how many rows came from each. ValueError: the splits do not fit.
    """
    _ops.check(process_set=process_set)
    found, counts = _Alltoall.apply(tensor, splits, name)
    return found if splits is None else (found, counts)


class _Reducescatter(Function):
    @staticmethod
    def forward(ctx, options, *tensors):
        ctx.options = options
        return tuple(_ops.synchronize(_ops.grouped_reducescatter_async(tensors, **options)))

    @staticmethod
    def backward(ctx, *gradients):
        factor = ctx.options["prescale_factor"] * ctx.options["postscale_factor"]
        factor *= _state.size() if ctx.options["op"] == _ops.Sum else 1
        return None, *_ops.synchronize(_ops.grouped_allgather_async([gradient * factor for gradient in gradients]))


def reducescatter(
    tensor,
    name=None,
    compression=Compression.none,
    op=_ops.Average,
    process_set=_ops.global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """This rank's rows of the tensor that is reduced over all ranks (Average or Sum). If the rows can't be split evenly, the first
    ranks get one more. Gradients flow through it."""
    return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor)[0]


def grouped_reducescatter(
    tensors,
    name=None,
    compression=Compression.none,
    op=_ops.Average,
    process_set=_ops.global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """As reducescatter(), for each tensor of a list. Returns a list."""
    _ops.check(op, process_set)
    smaller, contexts = zip(*map(compression.compress, tensors)) if tensors else ((), ())
    options = {"op": op, "name": name, "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    found = _Reducescatter.apply(options, *smaller)
    return [compression.decompress(one, context) for one, context in zip(found, contexts)]
