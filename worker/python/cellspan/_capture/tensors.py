# SPDX-License-Identifier: BSD-3-Clause
"""torch tensors outside the pickle: each storage is sent once, as bytes, for any dtype, view and device.

A tensor is pickled as (storage number, dtype, offset, size, stride, ...); the storage's bytes are outside of the pickle. So
bfloat16 and float8 need no special case, views of one storage share it again at the receiver, and tied parameters stay tied.
If tensors use only a small part of a large storage, only that part is sent. Storages of CUDA and other devices are copied to
the CPU when the bundle is written. Tensors arrive as CPU tensors, except that ranks with a GPU put those that were on a GPU at
home on their own (gpu_placement.py).

torch is imported here only to rebuild a tensor.
"""

from __future__ import annotations

import ctypes
import importlib
import pickle
import sys
import warnings

from . import device_copies, device_digest

ALIGN = 64  # bytes; a part of a storage starts at a multiple of this, so that it is aligned like the storage itself
COPY_MAX = 64 << 10  # bytes; a smaller storage is copied on arrival, so that it can be resized and keeps no mapping alive


class Storage:
    """A torch storage that is sent, and the range of its bytes that tensors use."""

    __slots__ = ("storage", "nbytes", "key", "low", "high")

    def __init__(self, storage, key):
        self.storage = storage
        self.nbytes = storage.nbytes()
        self.key = key
        self.low, self.high = self.nbytes, 0

    @property
    def device(self):
        """The type of its device: "cpu", "cuda", ..."""
        return self.storage.device.type

    def cover(self, low, high):
        """A tensor uses the bytes from low to high (exclusive)."""
        self.low = min(self.low, low)
        self.high = max(self.high, high)

    def span(self):
        """(first byte, number of bytes) to send: all of it, or only the used part if that is at most half."""
        low = min(self.low, self.high) // ALIGN * ALIGN
        size = self.high - low
        return (low, size) if size <= self.nbytes // 2 else (0, self.nbytes)

    def view(self):
        """The bytes of span(), as (memoryview, what keeps them alive)."""
        raw, storage = self._raw()
        return memoryview(raw).cast("B"), storage

    def owner(self):
        """A function: does the storage still exist?"""
        return aliveness(self.storage)

    def buffer(self):
        """A PickleBuffer of the bytes of span(), for a storage of the CPU, while that lives. See reducers.Piece.buffer()."""
        return pickle.PickleBuffer(self._raw()[0])

    def views(self):
        """The bytes of span(), as memoryviews one after the other. Each is valid until the next one is asked for."""
        low, size = self.span()
        if size and self.storage.device.type == "cuda":
            yield from device_copies.pieces(part_of(self.storage, low, size))
        else:
            view, keep = self.view()
            yield view
            del keep

    def digest(self):
        """A digest of the bytes of span(), computed on the storage's device."""
        return device_digest.digest(part_of(self.storage, *self.span()))

    def _raw(self):
        low, size = self.span()
        storage = self.storage
        if not size:
            return b"", storage
        if self.storage.device.type != "cpu":
            storage, low = part_of(self.storage, low, size).to("cpu", copy=True).untyped_storage(), 0
        return (ctypes.c_char * size).from_address(storage.data_ptr() + low), storage


class Storages:
    """The storages of one pickle, numbered in the order in which they were found."""

    def __init__(self):
        self.items = []
        self._number = {}

    def number(self, storage, low, high):
        """The number of a torch storage, of which a tensor uses the bytes from low to high (exclusive)."""
        key = (str(storage.device), storage.data_ptr(), storage.nbytes())
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.items)
            self.items.append(Storage(storage, key))
        self.items[number].cover(low, high)
        return number


def part_of(storage, low, size):
    """The bytes [low, low + size) of a storage, as a tensor of uint8 that copies nothing: a small view may belong to a storage that
    fills the GPU."""
    torch = sys.modules["torch"]
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, low, (size,), (1,))


def aliveness(storage):
    """A function: is this torch storage still alive? Its address may belong to another one later."""
    reductions = sys.modules.get("torch.multiprocessing.reductions")
    try:
        reference = reductions.StorageWeakRef(storage)
    except (AttributeError, RuntimeError, NotImplementedError):  # a device whose storages have none
        return lambda: True
    return lambda: not reference.expired()


def gpu_used():
    """Has torch used a GPU in this process?"""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and cuda.is_initialized()


def tensor_type():
    """torch.Tensor, or None if torch is not imported (then there are no tensors)."""
    torch = sys.modules.get("torch")
    return getattr(torch, "Tensor", None)


def reach(tensor):
    """(first, end) of the storage's elements that a strided tensor uses. Strides may be 0, but never negative."""
    first = tensor.storage_offset()
    if tensor.numel() == 0:
        return first, first
    return first, first + 1 + sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride()))


def is_plain(tensor):
    """Does the tensor consist only of its storage? Others (sparse, nested, quantised, meta, conjugated) are left to torch."""
    torch = sys.modules["torch"]
    return (
        tensor.layout is torch.strided
        and tensor.device.type != "meta"
        and not tensor.is_quantized
        and not tensor.is_nested
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def reduce_tensor(tensor, storages):
    """The reduction of a torch.Tensor (exactly that type), or NotImplemented to use torch's own.

    As with torch.save, .grad and the graph are not sent: a computed tensor arrives as a leaf.
    """
    try:
        if not is_plain(tensor):
            return NotImplemented
        storage = tensor.untyped_storage()
        first, end = reach(tensor)
        width = tensor.element_size()
        if storage.nbytes() == 0 or first == end:
            number = None
        elif end * width > storage.nbytes():
            return NotImplemented
        else:
            number = storages.number(storage, first * width, end * width)
    except (RuntimeError, NotImplementedError):  # a tensor without storage, as of functorch and of some devices
        return NotImplemented
    state = dict(getattr(tensor, "__dict__", None) or {}) or None
    return rebuild_tensor, (
        number,
        tensor.dtype,
        first,
        tuple(tensor.size()),
        tuple(tensor.stride()),
        tensor.requires_grad,
        state,
    )


def reduce_odd(tensor):
    """The reduction of a tensor that reduce_tensor() does not do, by a plain one on the same storage; or NotImplemented. torch's own
    would put the bytes into the pickle, with numbers that are other ones each time."""
    torch = sys.modules["torch"]
    state = dict(getattr(tensor, "__dict__", None) or {}) or None
    try:
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.device.type == "meta":
            return NotImplemented
        if tensor.is_quantized:
            return _reduce_quantized(torch, tensor, state)
        conjugated, negative = tensor.is_conj(), tensor.is_neg()
        if not (conjugated or negative):
            return NotImplemented
        plain = tensor.detach()
        plain = plain.conj() if conjugated else plain
        plain = plain._neg_view() if negative else plain
    except (RuntimeError, NotImplementedError):
        return NotImplemented
    return rebuild_flagged, (plain, conjugated, negative, tensor.requires_grad, state)


def _reduce_quantized(torch, tensor, state):
    whole = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}.get(tensor.dtype)
    scheme = tensor.qscheme()
    if whole is None or scheme not in (torch.per_tensor_affine, torch.per_channel_affine, torch.per_channel_affine_float_qparams):
        return NotImplemented
    plain = torch.empty(0, dtype=whole, device=tensor.device)
    plain.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())
    if scheme == torch.per_tensor_affine:
        scheme = (tensor.q_scale(), tensor.q_zero_point())
    else:
        scheme = (tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points(), tensor.q_per_channel_axis())
    return rebuild_quantized, (plain, tensor.dtype, scheme, state)


def reduce_subclass(tensor):
    """The reduction of an object of a subclass of Tensor that only adds methods and attributes; or NotImplemented."""
    torch = sys.modules["torch"]
    kind, base = type(tensor), torch.Tensor
    if any(getattr(kind, name) is not getattr(base, name) for name in ("__reduce_ex__", "__torch_dispatch__")) or hasattr(kind, "__tensor_flatten__"):
        return NotImplemented
    if any("__slots__" in cls.__dict__ for cls in kind.__mro__ if cls is not object) or "__getstate__" in kind.__dict__:
        return NotImplemented
    with torch._C.DisableTorchFunctionSubclass():
        plain = tensor.detach().as_subclass(base)
        if plain.layout is not torch.strided or plain.device.type == "meta":
            return NotImplemented
        return rebuild_subclass, (kind, plain, tensor.requires_grad), dict(tensor.__dict__) or None, None, None, set_attributes


def rebuild_flagged(plain, conjugated, negative, requires_grad, state):
    """A tensor that is read as the conjugate or the negative of what is in its storage."""
    tensor = plain._neg_view() if negative else plain
    tensor = tensor.conj() if conjugated else tensor
    if state:
        tensor.__dict__.update(state)
    return tensor.requires_grad_(True) if requires_grad else tensor


def rebuild_quantized(plain, dtype, scheme, state):
    """A quantized tensor over the storage of these whole numbers."""
    torch = importlib.import_module("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch 2.13 calls quantized tensors deprecated; the user's own line has made this one
        tensor = _quantized(torch, plain, dtype, scheme)
    if state:
        tensor.__dict__.update(state)
    return tensor


def _quantized(torch, plain, dtype, scheme):
    if len(scheme) == 2:
        tensor = torch._empty_affine_quantized([0], scale=scheme[0], zero_point=scheme[1], dtype=dtype, device=plain.device)
        tensor.set_(plain.untyped_storage(), plain.storage_offset(), plain.size(), plain.stride())
    else:  # torch can't put it over a storage
        tensor = torch._make_per_channel_quantized_tensor(plain, *scheme)
    return tensor


def rebuild_subclass(kind, plain, requires_grad):
    """A tensor of a subclass, still without its attributes."""
    tensor = plain.as_subclass(kind)
    return tensor.requires_grad_(True) if requires_grad else tensor


def set_attributes(tensor, attributes):
    """A step of its own, since the attributes may hold the tensor."""
    tensor.__dict__.update(attributes)


def rebuild_tensor(number, dtype, first, size, stride, requires_grad, state):
    """Rebuilds the tensor on the storage with this number in the bundle that is being loaded: on the CPU, unless the storage has
    already been put on a GPU."""
    from .rebuild import loading

    torch = importlib.import_module("torch")
    if number is None:
        tensor = torch.empty_strided(size, stride, dtype=dtype, device="cpu")
    else:
        storage, base = loading().storage(number)
        tensor = torch.empty(0, dtype=dtype, device=storage.device)
        tensor.set_(storage, first - base // tensor.element_size(), size, stride)
    if state:
        tensor.__dict__.update(state)
    return tensor.requires_grad_(True) if requires_grad else tensor


def storage_over(view):
    """A torch storage on a writable buffer of at least one byte, which it keeps alive; a small buffer is copied."""
    torch = importlib.import_module("torch")
    tensor = torch.frombuffer(view, dtype=torch.uint8)
    if len(view) <= COPY_MAX:
        tensor = tensor.clone()
    return tensor.untyped_storage()
