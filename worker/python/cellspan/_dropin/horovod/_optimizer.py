# SPDX-License-Identifier: BSD-3-Clause
"""DistributedOptimizer: gradients are reduced while backward still runs.

Parameters are put into buckets, in the reverse of their order, since backward reaches the last ones first. A bucket is sent when all
its gradients are there and the buckets before it have been sent. So all ranks send them in the same order, also if their graphs
differ. Steps that follow each other travel without headers: _turns.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import warnings

import torch
import torch.distributed as dist
from torch.utils.weak import WeakIdKeyDictionary

from .._dropin_api import whole
from . import _line, _ops, _state
from ._compression import Compression
from ._turns import Habit

FIRST = 1 << 20  # bytes of the first bucket, so that sending begins early
BYTES = 25 << 20  # of the others, as in DistributedDataParallel
_hooks = WeakIdKeyDictionary()  # {parameter: the handle of its hook}

TOO_OFTEN = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). "
    "Increase backward_passes_per_step to accumulate gradients locally."
)
TOO_EARLY = (
    "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(). "
    "This is prohibited as it can cause a race condition."
)


class _Bucket:
    """Gradients of one type and device that travel as one tensor."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.sizes = [p.numel() for p in parameters]
        self.size = sum(self.sizes)
        self.space = self.mark = None
        self.begin_anew()

    def begin_anew(self):
        self.ready = 0
        self.op = self.contexts = None


class _Reducer:
    """Watches the gradients of an optimizer's parameters, and reduces them. origin: the optimizer that was wrapped."""

    def __init__(self, optimizer, origin, compression, passes, op, factor, groups, sparse_as_dense):
        self.state = _state.current()
        self.origin = origin
        self.compression, self.passes, self.op = compression, passes, op
        self.before, self.after = 1.0, 1.0
        if op == _ops.Average:
            self.before, self.after = 1.0 / factor, factor / self.state.size
        self.groups = groups
        self.sparse = {}  # {id of a parameter: the sparse dimensions of its gradient}
        self.synchronized = False
        self.waits = True  # step() waits for the gradients
        self.buckets, self.left, self.bucket_of = [], {}, {}
        self.sent = 0
        self.turn = None
        self.habit = Habit()
        self.met = False  # all ranks have had the same step once
        self.began = False
        if self.state.size > 1:
            self.arrange(optimizer)

    def arrange(self, optimizer):
        """Makes the buckets, and puts a hook on each parameter."""
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        self.buckets = [_Bucket(part) for group in self._grouped(parameters) for part in _split(group, self.groups is None)]
        self.bucket_of = {id(p): bucket for bucket in self.buckets for p in bucket.parameters}
        self.begin_anew()
        layout = repr([[(str(p.dtype), tuple(p.shape)) for p in bucket.parameters] for bucket in self.buckets])
        head = {"op": "DistributedOptimizer", "parameters": len(parameters), "digest": hashlib.sha256(layout.encode()).hexdigest()[:16]}
        # Waits, since gloo may hang if this header is still under way when another library begins a collective.
        self.state.line.result(self.state.line.add(_line.Op(head, [], lambda _: None)))
        for p in parameters:
            known = _hooks.pop(p, None)
            if known is not None:  # of an optimizer that this one takes the place of, as when a cell runs again
                known.remove()
            _hooks[p] = p.register_post_accumulate_grad_hook(self.take)

    def _grouped(self, parameters):
        if self.groups and not isinstance(self.groups, list):
            each, more = divmod(len(parameters), self.groups)
            ends = [at * each + min(at, more) for at in range(self.groups + 1)]
            return [parameters[begin:end] for begin, end in zip(ends, ends[1:])][::-1]
        if self.groups:
            named = {id(p) for group in self.groups for p in group}
            ours = {id(p) for p in parameters}
            rest = [[p] for p in parameters if id(p) not in named]
            return [[p for p in group if id(p) in ours] for group in self.groups] + rest
        return [parameters[::-1]]

    def begin_anew(self):
        self.left = {id(p): self.passes for bucket in self.buckets for p in bucket.parameters}
        for bucket in self.buckets:
            bucket.begin_anew()
        self.sent = 0
        self.began = False

    def take(self, p):
        """The hook: p.grad is there."""
        if not self.began:
            self._begin()
        key = id(p)
        left = self.left[key] = self.left[key] - 1
        if left == 0:
            bucket = self.bucket_of[key]
            bucket.ready += 1
            if bucket.ready == len(bucket.parameters):
                while self.sent < len(self.buckets) and self.buckets[self.sent].ready == len(self.buckets[self.sent].parameters):
                    self._send(self.buckets[self.sent])
        elif left < 0:
            raise AssertionError(TOO_OFTEN)

    def _begin(self):
        if not self.state.holds():
            raise _ops.HorovodInternalError("this DistributedOptimizer is of a world that is over: call hvd.init() and make it again")
        self.began = True

    def _send(self, bucket):
        turns = self.state.line.turns
        if self.sent == 0:
            self.turn = turns.begin(self, self._may_travel_bare())
        self.sent += 1
        self._pack(bucket)
        if self.turn.bare:
            turns.send(self.turn, bucket.space)
        else:
            bucket.op = turns.add(self.turn, self._reduction(bucket, self.sent, self.turn.asks, self.met), bucket.space)

    def _may_travel_bare(self):
        """Can the gradients' sum have a mark that tells about all ranks? On a GPU, to read it would make Python wait."""
        spaces = [bucket.space for bucket in self.buckets]
        return self.op in (_ops.Average, _ops.Sum) and all(
            space is not None and space.device.type == "cpu" and space.dtype.is_floating_point for space in spaces
        )

    @torch.no_grad()
    def _pack(self, bucket):
        """Puts the gradients into bucket.space, and behind them the mark: 0."""
        parts = [self._gradient(p) for p in bucket.parameters]
        if self.compression is not Compression.none:
            parts, bucket.contexts = zip(*map(self.compression.compress, parts))
        dtype = _ops.carried(parts[0])
        parts = [part.reshape(-1) if part.dtype == dtype else part.reshape(-1).to(dtype) for part in parts]
        if [part.numel() for part in parts] != bucket.sizes:
            raise ValueError("compression may change the type of gradients, and not the number of their elements")
        if bucket.space is None or bucket.space.dtype != dtype:
            bucket.space, bucket.mark = parts[0].new_empty(bucket.size + 1), parts[0].new_zeros(1)
        torch.cat([*parts, bucket.mark], out=bucket.space)
        _ops.scale_(bucket.space, self.before)

    def _reduction(self, bucket, number, asks, eager):
        flat, kind = bucket.space, _ops.KINDS[self.op]
        head = {
            "op": "allreduce",
            "name": "gradients",
            "bucket": number,
            "reduce": kind,
            "flats": [[_ops.name_of(flat.dtype), flat.numel()]],
            "device": flat.device.type,
            "again": asks,
            "eager": eager,
        }
        step = lambda _: [_line.start(dist.all_reduce, flat, getattr(dist.ReduceOp, kind))]  # noqa: E731
        return _line.Op(head, [step], lambda _: None, eager=eager)

    def _gradient(self, p):
        """The gradient, dense: zeros if this rank's graph had no use for the parameter."""
        grad = p.grad
        if grad is None:
            return torch.zeros_like(p, memory_format=torch.contiguous_format, requires_grad=False)
        if grad.layout == torch.strided:
            return grad
        self.sparse[id(p)] = grad.sparse_dim()
        return grad.to_dense()

    def synchronize(self):
        """Sends what is not sent, waits, and puts the results into the gradients."""
        if self.state.size == 1:
            return
        while self.sent < len(self.buckets):
            self._send(self.buckets[self.sent])
        try:
            late = []
            for number, bucket in enumerate(self.buckets, 1):
                if not self.turn.bare:
                    self.state.line.result(bucket.op)
                elif not self.state.line.turns.is_whole(self.turn, number - 1):
                    late.append((number, bucket))
                    continue
                self._put(bucket)
            self._repeat(late)
            self.met = True
        finally:
            self.begin_anew()

    def _repeat(self, late):
        """Sends these buckets again, with headers: a rank had not kept its promise."""
        if self.turn.bare:
            self.habit.breaks() if late else self.habit.keeps()
        for number, bucket in late:
            self._pack(bucket)
            self.state.line.result(self.state.line.add(self._reduction(bucket, number, False, eager=False)))
            self._put(bucket)

    @torch.no_grad()
    def _put(self, bucket):
        """Gives the parameters the reduced gradients."""
        gradients = [p.grad for p in bucket.parameters]
        if self.compression is Compression.none and all(_is_flat(gradient, bucket.space.dtype) for gradient in gradients):
            bucket.space.mul_(self.after)
            torch.split_with_sizes_copy(bucket.space[:-1], bucket.sizes, out=[gradient.view(-1) for gradient in gradients])
            return
        parts = bucket.space[:-1].split(bucket.sizes)
        for p, part, context in zip(bucket.parameters, parts, bucket.contexts or [None] * len(parts)):
            found = self.compression.decompress(part.view(p.shape), context)
            if p.grad is not None and p.grad.layout == torch.strided and found.dtype == p.grad.dtype and found.dtype.is_floating_point:
                torch.mul(found, self.after, out=p.grad)
                continue
            found = _ops.scale_(found.clone(), self.after).to(p.dtype)
            dims = self.sparse.get(id(p))
            p.grad = found if dims is None else found.to_sparse(dims)


def _is_flat(grad, dtype):
    """Can numbers be copied into it in their order?"""
    return grad is not None and grad.layout == torch.strided and grad.dtype == dtype and dtype.is_floating_point and grad.is_contiguous()


def _split(parameters, limited):
    """Parts of one type and device; if limited, of about so many bytes as travel together."""
    threshold = os.environ.get("HOROVOD_FUSION_THRESHOLD")
    limit = max(1, int(threshold)) if threshold else BYTES
    kinds = {}
    for p in parameters:
        parts = kinds.setdefault((p.dtype, p.device), [[[], 0]])
        if limited and parts[-1][1] >= (min(FIRST, limit) if len(parts) == 1 else limit):
            parts.append([[], 0])
        parts[-1][0].append(p)
        parts[-1][1] += p.numel() * p.element_size()
    return [part for parts in kinds.values() for part, _ in parts]


class _Distributed:
    """What DistributedOptimizer() adds to the class of an optimizer."""

    def synchronize(self):
        """Waits until all gradients are reduced; for those who clip them, say, before step()."""
        self._horovod.synchronize()
        self._horovod.synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self):
        """In this block, step() takes the gradients as they are, since synchronize() was called."""
        self._horovod.waits = False
        try:
            yield
        finally:
            self._horovod.waits = True

    def set_backward_passes_per_step(self, passes):
        """How many times backward runs before each step()."""
        if passes <= 0:
            raise ValueError("backward_passes_per_step must be > 0")
        self._horovod.passes = passes
        self._horovod.begin_anew()

    @property
    def backward_passes_per_step(self):
        return self._horovod.passes

    def step(self, closure=None):
        reducer = self._horovod
        self._opt_called = reducer.origin._opt_called = True  # schedulers ask their optimizer
        if closure is not None and reducer.waits and reducer.state.size > 1:
            return super().step(lambda: self._reduced(closure))
        if reducer.waits:
            if reducer.synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(). "
                    "This can cause training slowdown: the gradients travel twice.",
                    stacklevel=2,
                )
            reducer.synchronize()
        reducer.synchronized = False
        return super().step(closure) if closure is not None else super().step()

    step.hooked = True  # torch would wrap it as it has wrapped the step() of the optimizer's own class: hooks would run twice
    step._wrapped_by_lr_sched = True

    def _reduced(self, closure):
        with torch.enable_grad():
            loss = closure()
        self._horovod.synchronize()
        return loss

    def zero_grad(self, *args, **kwargs):
        if self._horovod.began:
            raise AssertionError(TOO_EARLY)
        return super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        self._horovod.begin_anew()
        self._horovod.synchronized, self._horovod.waits = False, True
        return super().load_state_dict(*args, **kwargs)

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        if self._horovod.state.size > 1:
            self._horovod.arrange(self)

    def __reduce_ex__(self, protocol):
        """It is pickled as an optimizer of its own class: hooks and handles belong to this process."""
        state = {name: value for name, value in self.__dict__.items() if name in ("defaults", "state", "param_groups")}
        return _unwrapped, (self._plain_class, state)


def _unwrapped(kind, state):
    optimizer = kind.__new__(kind)
    optimizer.__setstate__(state)
    return optimizer


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer,
    named_parameters=None,
    compression=Compression.none,
    backward_passes_per_step=1,
    op=_ops.Average,
    gradient_predivide_factor=1.0,
    num_groups=0,
    groups=None,
    sparse_as_dense=False,
    process_set=_ops.global_process_set,
):
    """An optimizer of the same class, with the same parameters and state, whose step() uses gradients that are reduced over all
    ranks. They are sent in buckets while backward still runs.

    named_parameters: model.named_parameters(). compression: hvd.Compression.fp16 sends 16 bits of each number.
    backward_passes_per_step: backward runs so many times before each step(); gradients add up. op: hvd.Average or Sum.
    gradient_predivide_factor: with Average, gradients are divided by it before they are added, and by size()/factor after. groups:
    a number of buckets, or lists of parameters. Sparse gradients travel as dense ones, whatever sparse_as_dense says. A closure of
    step() may call backward: gradients are reduced after it. The interface is that of Horovod's documentation of horovod.torch.

    All ranks must call it. ValueError: what Horovod also refuses, such as names that are not unique. NotImplementedError: Adasum, or
    a process set. HorovodInternalError: the ranks' models differ.
    """
    _ops.check(op, process_set)
    op = _ops.which(op, None)
    if gradient_predivide_factor != 1.0 and op != _ops.Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups:
        warnings.warn("num_groups= is deprecated: use groups=", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"DistributedOptimizer() needs an optimizer of torch.optim, not {type(optimizer).__name__}")
    if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        raise RuntimeError(f"DistributedOptimizer() needs torch 2.1 or newer; this is {torch.__version__}")
    _check_names(optimizer, named_parameters)
    _check_groups(groups)
    kind = getattr(optimizer, "_plain_class", type(optimizer))
    made = type(kind.__name__, (_Distributed, kind), {"__module__": __name__, "__doc__": kind.__doc__, "_plain_class": kind})
    new = made.__new__(made)
    # A scheduler that was made before has put a step() of its own into the old one's __dict__.
    new.__dict__.update({name: value for name, value in optimizer.__dict__.items() if name not in ("step", "_horovod")})
    origin = optimizer._horovod.origin if isinstance(optimizer, _Distributed) else optimizer
    new._horovod = _Reducer(new, origin, compression, backward_passes_per_step, op, gradient_predivide_factor, groups, sparse_as_dense)
    return new


def _check_names(optimizer, named_parameters):
    if named_parameters is None:
        return
    rows = list(named_parameters)
    if any(not isinstance(row, tuple) for row in rows):
        raise ValueError("named_parameters should be a sequence of tuples (name, parameter), usually produced by model.named_parameters().")
    names = [name for name, _ in rows]
    twice = sorted({str(name) for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}")
    known = {id(p) for _, p in rows}
    missing = [tuple(p.shape) for group in optimizer.param_groups for p in group["params"] if id(p) not in known]
    if missing:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named: "
            f"{len(missing)} of the optimizer's, of shapes {', '.join(map(str, missing[:5]))} (pass the same model's named_parameters())"
        )


def _check_groups(groups):
    if groups is None:
        return
    if not isinstance(groups, list) and (whole(groups) is None or groups < 0):
        raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
    seen = set()
    for p in (p for group in groups for p in group) if isinstance(groups, list) else ():
        if not isinstance(p, torch.Tensor):
            raise ValueError("groups must consist of torch.Tensor.")
        if id(p) in seen:
            raise ValueError("A parameter can only appear once in groups.")
        seen.add(id(p))
