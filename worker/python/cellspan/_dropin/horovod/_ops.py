# SPDX-License-Identifier: BSD-3-Clause
"""Collectives with handles, as horovod.torch has them, on torch.distributed."""

from __future__ import annotations

import enum
import itertools
import warnings

import torch
import torch.distributed as dist

from .._dropin_api import whole
from . import _line, _state
from ._refused import refuse

HorovodInternalError = _line.HorovodInternalError


class ReduceOp(enum.IntEnum):
    """How an allreduce combines the ranks' tensors."""

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


Average, Sum, Adasum, Min, Max, Product = ReduceOp
KINDS = {Average: "SUM", Sum: "SUM", Min: "MIN", Max: "MAX", Product: "PRODUCT"}
_CARRIED = {torch.int16: torch.int32, torch.bfloat16: torch.float32}  # gloo does not reduce these


class ProcessSet:
    """Only the set of all ranks exists: hvd.global_process_set."""

    process_set_id = 0

    def __init__(self, ranks=None):
        if ranks is not None:
            refuse("ProcessSet")

    @property
    def ranks(self):
        return list(range(_state.size())) if _state.is_initialized() else []

    def size(self):
        return _state.size()

    def rank(self):
        return _state.rank()

    def included(self):
        return True


global_process_set = ProcessSet()

# ---- handles -------------------------------------------------------------------------------------------------------

_handles = {}  # {handle: (line, operation)}; (None, value): it is done
_numbers = itertools.count(1)


def _handle(line, op):
    number = next(_numbers)
    _handles[number] = line, op
    return number


def poll(handle):
    """Is the operation done? Then synchronize() returns at once. ValueError: there is no such handle."""
    if handle not in _handles:
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    line, op = _handles[handle]
    return line is None or line.poll(op)


def synchronize(handle):
    """Waits for an operation and returns its result, once; None for a handle that is not known any more. HorovodInternalError: it
    failed."""
    if callable(handle):  # of sparse_allreduce_async()
        return handle()
    if handle not in _handles:
        return None
    line, op = _handles.pop(handle)
    return op if line is None else line.result(op)


def _submit(op, alone):
    """The handle of an operation; alone(): its result if there is one rank."""
    line = _state.current().line
    if line is None:
        return _handle(None, alone())
    return _handle(line, line.add(op()))


# ---- allreduce -----------------------------------------------------------------------------------------------------


def which(op, average):
    """The ReduceOp of the arguments op and average. ValueError: both are given, or it is no such operation."""
    if op is None and average is None:
        return Average
    if average is not None:
        if op is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        warnings.warn("average= is deprecated: use op=hvd.Average or op=hvd.Sum", DeprecationWarning, stacklevel=4)
        return Average if average else Sum
    if op not in list(ReduceOp):
        raise ValueError(f"op={op!r} is not an operation: use hvd.Average, Sum, Min, Max or Product")
    return ReduceOp(op)


def check(op=None, process_set=None):
    """Refuses what is not here."""
    if op == Adasum:
        refuse("Adasum")
    if process_set is not None and process_set is not global_process_set:
        refuse("process_set=...")


def check_tensor(tensor, what):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{what}() needs a tensor, not {type(tensor).__name__} (torch.tensor(x) makes one)")
    if tensor.layout != torch.strided:
        raise ValueError(f"{what}() takes dense tensors, not {tensor.layout} (tensor.to_dense(), or sparse_allreduce_async())")


def scale_(tensor, factor):
    """Multiplies in place; whole numbers are cut towards zero, as in Horovod."""
    if factor == 1:
        return tensor
    if tensor.dtype.is_floating_point:
        return tensor.mul_(factor)
    return tensor.copy_((tensor.double() * factor).to(tensor.dtype))


def _reduced(tensors, outputs, name, op, prescale, postscale, give):
    """The handle of an allreduce of tensors into outputs. All of one type and device travel as one. give(outputs): the result."""
    op = ReduceOp(op)
    if op == Average:
        postscale /= _state.size()
    flats = {}
    for tensor, output in zip(tensors, outputs):
        flats.setdefault((tensor.dtype, tensor.device), []).append((tensor, output))

    def alone():
        for tensor, output in zip(tensors, outputs):
            if output is not tensor:
                output.copy_(tensor)
            scale_(scale_(output, prescale), postscale)
        return give(outputs)

    def made():
        buffers = []
        for (dtype, _), pairs in flats.items():
            flat = torch.cat([tensor.reshape(-1) for tensor, _ in pairs])
            flat = flat.to(carried(flat))
            buffers.append((scale_(flat, prescale), pairs))
        head = {
            "op": "allreduce",
            "name": _short(name),
            "dtype": name_of(tensors[0].dtype) if len(tensors) == 1 else None,
            "shape": list(tensors[0].shape) if len(tensors) == 1 else None,
            "reduce": KINDS[op],
            "flats": [[name_of(flat.dtype), flat.numel()] for flat, _ in buffers],
            "device": tensors[0].device.type if tensors else "cpu",
        }

        def begin(_):
            return [_line.start(dist.all_reduce, flat, getattr(dist.ReduceOp, KINDS[op])) for flat, _ in buffers]

        def finish(_):
            for flat, pairs in buffers:
                scale_(flat, postscale)
                for part, (_, output) in zip(flat.split([output.numel() for _, output in pairs]), pairs):
                    output.copy_(part.view(output.shape))
            return give(outputs)

        return _line.Op(head, [begin], finish)

    return _submit(made, alone)


def carried(tensor):
    """The type in which a tensor's values are reduced."""
    return _CARRIED.get(tensor.dtype, tensor.dtype) if tensor.device.type == "cpu" else tensor.dtype


def name_of(dtype):
    return str(dtype).partition(".")[2]


def _short(name):
    return None if name is None else str(name)[: _line.NAME]


def _allreduce(tensors, name, op, prescale, postscale, process_set, in_place, give):
    check(op, process_set)
    for tensor in tensors:
        check_tensor(tensor, "allreduce")
        if tensor.dtype == torch.bool or tensor.dtype.is_complex:
            raise ValueError(f"Tensor type {tensor.type()} is not supported. Convert it, as tensor.int() does.")
    plain = [tensor.detach() for tensor in tensors]
    outputs = plain if in_place else [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in plain]
    kept = list(tensors)
    return _reduced(plain, outputs, name, op, prescale, postscale, lambda found: give(kept if in_place else found))


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Begins to reduce a tensor over all ranks; the tensor is not changed. Returns a handle for poll() and synchronize().

    op: Average (if neither op nor average is given), Sum, Min, Max, Product. prescale_factor, postscale_factor: what the tensor
    is multiplied with before and after. name: for messages. The interface is that of Horovod's documentation of horovod.torch.

    ValueError: a type that can't be reduced, or both op and average. NotImplementedError: Adasum, or a process set.
    """
    return _allreduce([tensor], name, which(op, average), prescale_factor, postscale_factor, process_set, False, lambda all: all[0])


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """As allreduce_async(), but the result replaces the tensor's values."""
    return _allreduce([tensor], name, which(op, average), prescale_factor, postscale_factor, process_set, True, lambda all: all[0])


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Reduces the tensor in place, and returns it."""
    return synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """As allreduce_async() for a list of tensors, which travel together."""
    return _allreduce(list(tensors), name, which(op, average), prescale_factor, postscale_factor, process_set, False, list)


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """As grouped_allreduce_async(), in place."""
    return _allreduce(list(tensors), name, which(op, average), prescale_factor, postscale_factor, process_set, True, list)


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Reduces a list of tensors in place, and returns the list."""
    return synchronize(grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set))


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Begins to add up a sparse tensor over all ranks. Returns a function that waits and returns the sum, or the average."""
    check(op, process_set)
    if not tensor.is_sparse:
        raise ValueError("sparse_allreduce_async() needs a sparse COO tensor")
    if op not in (Average, Sum):
        raise ValueError("sparse_allreduce_async() knows Average and Sum: for another op reduce tensor.to_dense()")
    indices = allgather_async(tensor._indices().t().contiguous(), f"{name}.indices")
    values = allgather_async(tensor._values(), f"{name}.values")

    def wait():
        places, found = synchronize(indices).t(), synchronize(values)
        found = found / _state.size() if op == Average else found
        return torch.sparse_coo_tensor(places, found, tensor.shape).coalesce()

    return wait


# ---- allgather -----------------------------------------------------------------------------------------------------


def _gathered(tensors, name, give):
    """The handle of an allgather of each of the tensors, whose first dimensions may differ between ranks."""
    for tensor in tensors:
        check_tensor(tensor, "allgather")
        if tensor.dim() == 0:
            raise HorovodInternalError("allgather() can't put together tensors without a dimension (tensor.reshape(1))")
    plain = [tensor.detach().contiguous() for tensor in tensors]
    results = []

    def lengths(heads, at):
        return [head["lengths"][at] for head in heads]

    def step(at):
        def begin(heads):
            mine, counts = plain[at], lengths(heads, at)
            row = mine.numel() // len(mine) if len(mine) else _product(mine.shape[1:])
            longest = max(counts) * row
            sent = _bytes_of(mine)
            width = mine.element_size()
            padded = torch.zeros(longest * width, dtype=torch.uint8, device=mine.device)
            padded[: sent.numel()] = sent
            parts = [torch.empty_like(padded) for _ in counts]
            results.append((parts, counts, row * width))
            return [_line.start(dist.all_gather, parts, padded)]

        return begin

    def finish(_):
        found = []
        for mine, (parts, counts, width) in zip(plain, results):
            flat = torch.cat([part[: count * width] for part, count in zip(parts, counts)])
            shape = sum(counts), *mine.shape[1:]
            found.append(flat.view(mine.dtype).view(shape) if flat.numel() else mine.new_empty(shape))
        return give(found)

    def made():
        head = {
            "op": "allgather",
            "name": _short(name),
            "dtype": [name_of(tensor.dtype) for tensor in plain],
            "shape": [["*", *tensor.shape[1:]] for tensor in plain],
            "lengths": [len(tensor) for tensor in plain],
        }
        return _line.Op(head, [step(at) for at in range(len(plain))], finish, free=("lengths",))

    return _submit(made, lambda: give([tensor.clone() for tensor in plain]))


def _product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


def _bytes_of(tensor):
    return tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor.new_empty(0, dtype=torch.uint8)


def allgather_async(tensor, name=None, process_set=global_process_set):
    """Begins to put the tensors of all ranks one after the other, along the first dimension, which may differ. Returns a handle."""
    check(process_set=process_set)
    return _gathered([tensor], name, lambda all: all[0])


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """As allgather_async(), for each tensor of a list."""
    check(process_set=process_set)
    return _gathered(list(tensors), name, list)


# ---- broadcast -----------------------------------------------------------------------------------------------------


def broadcast_into(tensors, outputs, root_rank, name, give, shown=None):
    """The handle of a broadcast of tensors of one type and device into outputs, together. shown: more parts of the header."""
    size, rank = _state.size(), _state.rank()
    given, root_rank = root_rank, whole(root_rank)
    if root_rank is None or not 0 <= root_rank < size:
        raise ValueError(f"root_rank={given!r}: there are ranks 0 to {size - 1}")

    def alone():
        for tensor, output in zip(tensors, outputs):
            if output is not tensor:
                output.copy_(tensor)
        return give(outputs)

    def made():
        flat = torch.cat([_bytes_of(tensor.contiguous()) for tensor in tensors])
        head = {"op": "broadcast", "name": _short(name), "root": root_rank, "bytes": flat.numel(), **(shown or {})}

        def finish(_):
            if rank != root_rank or outputs is not tensors:
                for part, output in zip(flat.split([tensor.numel() * tensor.element_size() for tensor in tensors]), outputs):
                    output.copy_(part.clone().view(output.dtype).view(output.shape) if part.numel() else output)
            return give(outputs)

        return _line.Op(head, [lambda _: [_line.start(dist.broadcast, flat, root_rank)]], finish)

    return _submit(made, alone)


def _broadcast(tensor, root_rank, name, process_set, in_place):
    check(process_set=process_set)
    check_tensor(tensor, "broadcast")
    plain = tensor.detach()
    outputs = [plain] if in_place else [torch.empty_like(plain, memory_format=torch.contiguous_format)]
    shown = {"dtype": name_of(plain.dtype), "shape": list(plain.shape)}
    tensors = outputs if in_place else [plain]
    return broadcast_into(tensors, outputs, root_rank, name, lambda all: tensor if in_place else all[0], shown)


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """Begins to send root_rank's tensor to all ranks; this rank's tensor is not changed. Returns a handle.

    ValueError: there is no such rank.
    """
    return _broadcast(tensor, root_rank, name, process_set, False)


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """As broadcast_async(), in place."""
    return _broadcast(tensor, root_rank, name, process_set, True)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """Gives this rank's tensor the values of root_rank's, and returns it."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


# ---- alltoall, reducescatter, join, barrier ------------------------------------------------------------------------


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """Begins to send a part of the tensor to each rank, along the first dimension. Returns a handle; its result is (tensor, the
    number of rows from each rank).

    splits: how many rows each rank gets; without, all get as many. ValueError: the splits do not fit the tensor.
    """
    check(process_set=process_set)
    check_tensor(tensor, "alltoall")
    size, rank = _state.size(), _state.rank()
    if tensor.dim() == 0:
        raise HorovodInternalError("alltoall() can't split a tensor without a dimension (tensor.reshape(1))")
    plain = tensor.detach().contiguous()
    sent = _splits(len(plain), splits, size)
    like = splits if isinstance(splits, torch.Tensor) else torch.empty(0, dtype=torch.int32)
    state = {}

    def exchange(_):
        mine = torch.tensor(sent, dtype=torch.int64, device=_state.current().line.device)
        state["rows"] = [torch.empty_like(mine) for _ in range(size)]
        return [_line.start(dist.all_gather, state["rows"], mine)]

    def begin(_):
        row = _product(plain.shape[1:]) * plain.element_size()
        state["counts"] = [int(other[rank]) for other in state["rows"]]
        state["got"] = torch.empty(sum(state["counts"]) * row, dtype=torch.uint8, device=plain.device)
        out, into = [count * row for count in state["counts"]], [count * row for count in sent]
        return [_line.start(dist.all_to_all_single, state["got"], _bytes_of(plain), out, into)]

    def finish(_):
        got = state["got"].view(plain.dtype) if state["got"].numel() else plain.new_empty(0)
        counts = torch.tensor(state["counts"]).to(like.dtype).to(like.device)
        return got.view(sum(state["counts"]), *plain.shape[1:]), counts

    def made():
        head = {"op": "alltoall", "name": _short(name), "dtype": name_of(plain.dtype), "shape": ["*", *plain.shape[1:]]}
        return _line.Op(head, [exchange, begin], finish)

    return _submit(made, lambda: (plain.clone(), torch.tensor(sent).to(like.dtype).to(like.device)))


def _splits(rows, splits, size):
    if splits is None:
        if rows % size:
            raise ValueError(f"alltoall(): {rows} rows can't be split evenly over {size} ranks: give splits=")
        return [rows // size] * size
    found = [int(count) for count in splits]
    if len(found) != size or min(found) < 0 or sum(found) > rows:
        raise ValueError(f"alltoall(): splits={found} must be {size} numbers of rows, with a sum of at most {rows}")
    if sum(found) < rows:
        raise ValueError(f"alltoall(): splits={found} have a sum of {sum(found)}, and the tensor has {rows} rows")
    return found


def _scattered(tensors, name, op, prescale, postscale, give):
    """Reduces everywhere, and keeps this rank's rows: the first ranks get one more if the rows can't be split evenly."""
    if op not in (Average, Sum):
        raise ValueError(f"op={op!r}: reducescatter() takes hvd.Average and hvd.Sum")
    rank, size = _state.rank(), _state.size()
    for tensor in tensors:
        check_tensor(tensor, "reducescatter")
        if tensor.dim() == 0:
            raise HorovodInternalError("reducescatter() can't split a tensor without a dimension (tensor.reshape(1))")

    def own(tensor):
        each, more = divmod(len(tensor), size)
        begin = rank * each + min(rank, more)
        return tensor[begin : begin + each + (rank < more)].clone()

    return _allreduce(list(tensors), name, op, prescale, postscale, None, False, lambda all: give([own(tensor) for tensor in all]))


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0):
    """Begins to reduce a tensor over all ranks; each rank gets some rows of the result. Returns a handle."""
    check(op, process_set)
    return _scattered([tensor], name, op, prescale_factor, postscale_factor, lambda all: all[0])


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0):
    """As reducescatter_async(), for each tensor of a list."""
    check(op, process_set)
    return _scattered(list(tensors), name, op, prescale_factor, postscale_factor, list)


def join(device=-1):
    """Says that this rank has no more data: it takes part in the reductions of the others, adding nothing, until all ranks have
    called join(). Returns the rank that did so last; its model has had all steps. device: not needed here.

    HorovodInternalError: another rank called something else than a reduction meanwhile.
    """
    line = _state.current().line
    return 0 if line is None else line.join()


def barrier(process_set=global_process_set):
    """Waits until all ranks are here."""
    check(process_set=process_set)

    def made():
        return _line.Op({"op": "barrier"}, [], lambda _: None)

    synchronize(_submit(made, lambda: None))
