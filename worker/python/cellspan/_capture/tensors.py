"""torch tensors outside the pickle: each storage once, as bytes, whatever the dtype, the views and the device.

A tensor is written as (storage number, dtype, offset, size, stride, ...); the storage's bytes stand beside the pickle.
So bfloat16 and float8 travel like any other, views of one storage share it again on the other side, and tied
parameters stay tied. Of a large storage of which only a small part is seen by the tensors, only that part travels.
CUDA (and other devices') storages are copied to the CPU when they are placed: tensors arrive as CPU tensors, but at ranks
with a GPU what lay on one at home lands on theirs (landing.py).

torch is never imported here unless a tensor is to be rebuilt.
"""

from __future__ import annotations

import ctypes
import importlib
import sys

ALIGN = 64  # bytes; a part of a storage starts at a multiple, so that it is as aligned as the storage itself
COPY_MAX = 64 << 10  # bytes; a storage up to this size is copied on arrival, so that it can be resized and pins no mapping


class Storage:
    """One torch storage that is to travel, and the span of it, in bytes, that the tensors seen so far look at."""

    __slots__ = ("storage", "nbytes", "key", "low", "high")

    def __init__(self, storage, key):
        self.storage = storage
        self.nbytes = storage.nbytes()
        self.key = key
        self.low, self.high = self.nbytes, 0

    @property
    def device(self):
        """Where it lies: "cpu", "cuda", ..."""
        return self.storage.device.type

    def cover(self, low, high):
        """Tensors look at the bytes from low up to high."""
        self.low = min(self.low, low)
        self.high = max(self.high, high)

    def span(self):
        """(first byte, bytes) of what travels: all of it, or the part that is seen when that is half or less."""
        low = min(self.low, self.high) // ALIGN * ALIGN
        size = self.high - low
        return (low, size) if size <= self.nbytes // 2 else (0, self.nbytes)

    def view(self):
        """The bytes of span(), as (memoryview, what keeps them alive)."""
        low, size = self.span()
        storage = self.storage
        if not size:
            return memoryview(b""), storage
        if self.storage.device.type != "cpu":
            storage, low = part_on_cpu(self.storage, low, size), 0
        raw = (ctypes.c_char * size).from_address(storage.data_ptr() + low)
        return memoryview(raw).cast("B"), storage


class Storages:
    """The storages of one pickle, numbered in the order in which they were met."""

    def __init__(self):
        self.items = []
        self._number = {}

    def number(self, storage, low, high):
        """The number of a torch storage, of which a tensor sees the bytes from low up to high."""
        key = (str(storage.device), storage.data_ptr(), storage.nbytes())
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.items)
            self.items.append(Storage(storage, key))
        self.items[number].cover(low, high)
        return number


def part_on_cpu(storage, low, size):
    """The bytes [low, low + size) of a storage on a device as a storage in host memory. Nothing else is copied: a view of a
    few bytes may belong to a storage that fills the GPU."""
    torch = sys.modules["torch"]
    seen = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return seen.set_(storage, low, (size,), (1,)).to("cpu", copy=True).untyped_storage()


def tensor_type():
    """torch.Tensor, or None where torch was not imported (then nothing can be one)."""
    torch = sys.modules.get("torch")
    return getattr(torch, "Tensor", None)


def reach(tensor):
    """(first, end) in elements of the storage that a strided tensor sees; strides may be 0, never negative."""
    first = tensor.storage_offset()
    if tensor.numel() == 0:
        return first, first
    return first, first + 1 + sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride()))


def is_plain(tensor):
    """Whether the storage is all there is to it. Sparse, nested, quantised, meta and conjugated tensors are torch's own matter."""
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
    """The reduction of a torch.Tensor (exactly that type), or NotImplemented where torch's own has to do.

    As with torch.save, .grad and the graph stay behind: a tensor that was computed arrives as a leaf.
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
    except (RuntimeError, NotImplementedError):  # a tensor without storage: functorch's wrappers, some devices
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


def rebuild_tensor(number, dtype, first, size, stride, requires_grad, state):
    """The tensor again, over the storage of that number of the parcel that is being loaded: on the CPU, but for what was
    brought to a GPU beforehand."""
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
    """A torch storage over a writable buffer of at least one byte, which it keeps alive; small ones are copied."""
    torch = importlib.import_module("torch")
    tensor = torch.frombuffer(view, dtype=torch.uint8)
    if len(view) <= COPY_MAX:
        tensor = tensor.clone()
    return tensor.untyped_storage()
