# SPDX-License-Identifier: BSD-3-Clause
"""numpy's arrays that are more than their bytes: views whose elements share memory, files that are mapped, and classes derived from ndarray.

numpy is imported here only to rebuild one.
"""

from __future__ import annotations

import importlib
import mmap
import os
import pickle
import sys

from .._base import filesystems
from .tensors import set_attributes

SMALL = 4096  # bytes
WRITEABLE = 0x400  # in flags.num; flags.writeable warns of what broadcast_arrays() has made
BOOT = "/proc/sys/kernel/random/boot_id"  # the same for all processes of a machine


def span_of(array):
    """(address of an array's first byte, bytes from there to its last one)."""
    low = high = array.__array_interface__["data"][0]
    for count, stride in zip(array.shape, array.strides):
        low, high = low + min(0, (count - 1) * stride), high + max(0, (count - 1) * stride)
    return low, high - low + array.itemsize


class _Memory:
    """Some bytes of an array, for numpy. Keeps the array alive."""

    def __init__(self, array, low, size):
        self.array = array
        self.__array_interface__ = {"data": (low, True), "shape": (size,), "typestr": "|u1", "version": 3}


def reduce_overlapping(array):
    """The reduction of a view that has more elements than there are in memory (broadcast_to(), sliding_window_view()), and can only be read;
    else None."""
    low, size = span_of(array)
    if array.flags.num & WRITEABLE or array.size == 0 or size >= array.nbytes:
        return None
    memory = sys.modules["numpy"].asarray(_Memory(array, low, size))
    first = array.__array_interface__["data"][0] - low
    return make_view, (memory, array.dtype, array.shape, array.strides, first)


def make_view(memory, dtype, shape, strides, first):
    view = importlib.import_module("numpy").ndarray(shape, dtype, memory, first, strides)
    view.flags.writeable = False
    return view


def reduce_subclass(array):
    """The reduction of an object of a class that derives from ndarray and leaves it to numpy to pickle it: numpy forgets its attributes."""
    kind, base = type(array), sys.modules["numpy"].ndarray
    if kind is base or any(getattr(kind, name) is not getattr(base, name) for name in ("__reduce__", "__reduce_ex__", "__setstate__")):
        return NotImplemented
    state = getattr(array, "__dict__", None)
    return make_subclass, (kind, array.view(base)), dict(state) if state else None, None, None, set_attributes


def make_subclass(kind, plain):
    return plain.view(kind)


# ---- files that are mapped ----------------------------------------------------------------------------------------


def reduce_memmap(array):
    """The reduction of numpy's memmap: ranks map the same file. An array in memory, if the array is not what is in a file that has a name, or
    is a small one that nobody can write."""
    small = array.mode == "r" and array.nbytes < SMALL
    place = _place_in_file(array) if type(array) is sys.modules["numpy"].memmap and not small else None
    if place is None:
        return _reduce_content(array)
    mode = "r" if array.mode == "r" else "r+"  # w+ would empty the file
    order = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else ""
    return make_memmap, (*place, mode, array.dtype, array.shape, array.strides, order)


def _reduce_content(array):
    """As what is in memory, without the mapping."""
    numpy = sys.modules["numpy"]
    if type(array) is not numpy.memmap:
        return reduce_subclass(array)
    return make_subclass, (numpy.memmap, array.view(numpy.ndarray))


def _place_in_file(array):
    """(path, [machine, device, inode] of the file, offset of the array's first byte in it, bytes); None: it is not in a file that others find."""
    mapping, path = getattr(array, "_mmap", None), getattr(array, "filename", None)
    if mapping is None or path is None or array.mode not in ("r", "r+", "w+") or array.dtype.hasobject or array.size == 0 or min(array.strides, default=0) < 0:
        return None
    start = sys.modules["numpy"].frombuffer(mapping, dtype="u1").__array_interface__["data"][0]
    path = os.path.realpath(path)
    if not _is_mapped(start, path):
        return None
    low, size = span_of(array)
    return path, identity(path), array.offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY + low - start, size


def _is_mapped(address, path):
    """Does Linux say that this file, as it is under this name now, is mapped there?"""
    try:
        with open("/proc/self/maps", "rb") as file:
            for line in file:
                first, _, end = line.split(b" ", 1)[0].partition(b"-")
                if int(first, 16) <= address < int(end, 16):
                    return line.rstrip(b"\n").split(None, 5)[5:] == [os.fsencode(path)]
    except OSError:
        pass
    return False


def identity(path):
    """[machine, device, inode] of a file."""
    found = os.stat(path)
    with open(BOOT, encoding="ascii") as file:
        return [file.read().strip(), found.st_dev, found.st_ino]


def _is_same_file(path, theirs):
    """Is what has this name here the file of the sender? On another machine, it is if machines share the file system."""
    try:
        ours = identity(path)
    except OSError:
        return False
    if ours[0] == theirs[0]:
        return ours == theirs
    return ours[2] == theirs[2] and not filesystems.is_local(os.path.dirname(path), filesystems.mounts())


def make_memmap(path, file, first, size, mode, dtype, shape, strides, order):
    numpy = importlib.import_module("numpy")
    if not _is_same_file(path, file):
        raise pickle.UnpicklingError(f"a memmap's file, {path}, is not on this machine: send numpy.array() of it, or open the memmap in the cell")
    whole = numpy.memmap(path, "u1", mode, first, size)
    if order:
        return whole.view(dtype).reshape(shape, order=order)  # its flush() finds the mapping
    return numpy.lib.stride_tricks.as_strided(whole[: dtype.itemsize].view(dtype), shape, strides, subok=True)


RULES = {("numpy", "ndarray"): reduce_subclass, ("numpy", "memmap"): reduce_memmap}
