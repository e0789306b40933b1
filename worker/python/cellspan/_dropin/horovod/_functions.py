# SPDX-License-Identifier: BSD-3-Clause
"""Parameters, optimizers' states and objects, from one rank to all."""

from __future__ import annotations

import hashlib
import io

import torch

from . import _ops, _state

TOGETHER = 32 << 20  # bytes of parameters that travel together


def broadcast_parameters(params, root_rank):
    """Gives all ranks root_rank's parameters, in place. params: model.state_dict(), or named parameters, or a list of tensors.

    ValueError: params is none of these, or there is no such rank. HorovodInternalError: the ranks' models differ.
    """
    if isinstance(params, torch.Tensor) or not hasattr(params, "__iter__"):
        raise ValueError(f"invalid params of type: {type(params)}")
    rows = sorted(params.items()) if hasattr(params, "items") else [row if isinstance(row, tuple) else (None, row) for row in params]
    groups = {}
    for name, tensor in rows:
        if tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{name}: broadcast_parameters() takes tensors, not {type(tensor).__name__} (broadcast_object() takes any object)")
        groups.setdefault((tensor.dtype, tensor.device), []).append((name, tensor.detach()))
    handles = [_send(part, root_rank) for group in groups.values() for part in _batches(group)]
    for handle in handles:
        _ops.synchronize(handle)


def _batches(rows):
    part, size = [], 0
    for row in rows:
        part.append(row)
        size += row[1].numel() * row[1].element_size()
        if size >= TOGETHER:
            yield part
            part, size = [], 0
    if part:
        yield part


def _send(rows, root_rank):
    tensors = [tensor for _, tensor in rows]
    text = repr([(name, str(tensor.dtype), tuple(tensor.shape)) for name, tensor in rows])
    shown = {"parameters": len(rows), "digest": hashlib.sha256(text.encode()).hexdigest()[:16]}
    return _ops.broadcast_into(tensors, tensors, root_rank, "broadcast_parameters", lambda all: None, shown)


def broadcast_optimizer_state(optimizer, root_rank, model=None):
    """Gives all ranks the state of root_rank's optimizer, with its learning rates and other options. It may be that only root_rank
    has loaded a checkpoint. model: not needed here.

    ValueError: an LBFGS optimizer, or the ranks' optimizers have different parameters.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    if _state.size() == 1:
        _check_root(root_rank)
        return
    mine = _state.rank() == root_rank
    found = broadcast_object(_on_cpu(optimizer.state_dict()) if mine else None, root_rank, "optimizer")
    if not mine:
        optimizer.load_state_dict(found)


def _check_root(root_rank):
    if root_rank != 0:
        raise ValueError(f"root_rank={root_rank!r}: there are ranks 0 to 0")


def _on_cpu(value):
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_on_cpu, value)) if type(value) in (list, tuple) else value
    return value


def broadcast_object(obj, root_rank=0, name=None, process_set=_ops.global_process_set):
    """root_rank's object, pickled by cloudpickle, on all ranks."""
    _ops.check(process_set=process_set)
    if _state.size() == 1:
        _check_root(root_rank)
        return obj
    mine = _state.rank() == root_rank
    data = _dumped(obj) if mine else b""
    length = _ops.synchronize(_ops.broadcast_async(torch.tensor([len(data)], device=_device()), root_rank, name))
    if mine:
        space = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(_device())
    else:
        space = torch.empty(int(length), dtype=torch.uint8, device=_device())
    _ops.broadcast_(space, root_rank, name)
    return obj if mine else _loaded(space)


def allgather_object(obj, name=None):
    """The objects of all ranks, as a list."""
    if _state.size() == 1:
        return [obj]
    data = torch.frombuffer(bytearray(_dumped(obj)), dtype=torch.uint8).to(_device())
    handles = _ops.allgather_async(torch.tensor([len(data)], device=_device()), name), _ops.allgather_async(data, name)
    lengths, found = (_ops.synchronize(handle) for handle in handles)
    return [_loaded(part) for part in found.split(lengths.tolist())]


def _device():
    return _state.current().line.device


def _dumped(obj):
    import cloudpickle

    file = io.BytesIO()
    cloudpickle.dump(obj, file)
    return file.getvalue()


def _loaded(data):
    import pickle

    return pickle.loads(data.cpu().numpy().tobytes())
