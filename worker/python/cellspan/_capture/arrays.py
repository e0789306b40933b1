# SPDX-License-Identifier: BSD-3-Clause
"""numpy's arrays that are more than their bytes: views whose elements share memory, files that are mapped, and classes derived from ndarray.

numpy is imported here only to rebuild one.
"""

from __future__ import annotations

import bisect
import contextlib
import importlib
import math
import mmap
import os
import pickle
import sys
import threading
import weakref

from .._base import filesystems
from . import class_versions
from .enums import in_slots, slots_of

SMALL = 4096  # bytes
CONTIGUOUS, WRITEABLE = 3, 0x400  # in flags.num; flags.writeable warns of what broadcast_arrays() has made
OF_MASKED = ("_mask", "_fill_value", "_hardmask", "_sharedmask", "_isfield", "_baseclass", "_basedict")  # of a masked array
OF_MAPPING = ("_mmap", "filename", "offset", "mode")  # the attributes of a memmap
BOOT = "/proc/sys/kernel/random/boot_id"  # the same for all processes of a machine


def span_of(array):
    """(address of an array's first byte, bytes from there to its last one)."""
    low = high = array.__array_interface__["data"][0]
    for count, stride in zip(array.shape, array.strides):
        low, high = low + min(0, (count - 1) * stride), high + max(0, (count - 1) * stride)
    return low, high - low + array.itemsize


def owner_of(obj):
    """A function: does the array that owns this one's memory still exist? An array that an object makes of itself to be pickled does not, after
    that. Of what has no weak reference it is not known: no."""
    array = sys.modules["numpy"].ndarray
    while isinstance(obj, array) and isinstance(base := array.base.__get__(obj), array):  # a class of the user's may have a `base` of its own
        obj = base
    try:
        return Owner(weakref.ref(obj))
    except TypeError:
        return Owner(_nobody)


class Owner:
    """Answers whether what owns some memory still exists. reference: a weak reference to it."""

    __slots__ = ("_reference",)

    def __init__(self, reference):
        self._reference = reference

    def __call__(self):
        return self._reference() is not None

    def let_go(self, array):
        """Forgets it if it is this array, which is about to get other memory."""
        if self._reference() is array:
            self._reference = _nobody


def _nobody():
    return None


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
    if array.dtype.hasobject:
        return _reduce_overlapping_objects(array)
    memory = sys.modules["numpy"].asarray(_Memory(array, low, size))
    first = array.__array_interface__["data"][0] - low
    return make_view, (memory, array.dtype, array.shape, array.strides, first)


def _reduce_overlapping_objects(array):
    """As reduce_overlapping(), for elements that are objects: those that are in memory, as an array of their own."""
    once = array[tuple(slice(None if stride else 1) for stride in array.strides)]
    memory, steps, first = _in_memory(once) or (once.copy(), None, 0)
    return make_view_of_objects, (memory, once.shape, steps, first, array.shape)


def _in_memory(array):
    """(the elements that an array has in memory, steps of its axes in these, the place of its first element); None: each has a place of its own,
    or there are gaps between them, in which may be anything."""
    numpy, axes = sys.modules["numpy"], range(array.ndim)
    steps = [abs(stride) if count > 1 else 0 for count, stride in zip(array.shape, array.strides)]
    unit = math.gcd(*steps) or 1
    steps = [step // unit for step in steps]
    size = 1 + sum((count - 1) * step for count, step in zip(array.shape, steps))
    if size >= array.size:
        return None
    left, index = numpy.arange(size), [0] * array.ndim
    for axis in sorted((axis for axis in axes if steps[axis]), key=lambda axis: -steps[axis]):
        index[axis] = numpy.minimum(left // steps[axis], array.shape[axis] - 1)
        left = left - index[axis] * steps[axis]
    if left.any():
        return None
    backward = [axis for axis in axes if array.strides[axis] < 0 and steps[axis]]
    forward = array[tuple(slice(None, None, -1 if axis in backward else 1) for axis in axes)]
    first = sum((array.shape[axis] - 1) * steps[axis] for axis in backward)
    return forward[tuple(index)], [-step if axis in backward else step for axis, step in enumerate(steps)], first


def make_view_of_objects(memory, shape, steps, first, whole):
    numpy = importlib.import_module("numpy")
    if steps is not None:
        strides = [step * memory.itemsize for step in steps]
        memory = numpy.lib.stride_tricks.as_strided(memory[first:], shape, strides, writeable=False)
    return numpy.broadcast_to(memory, whole)


def reduce_readonly(array):
    """numpy's reduction of an array, which forgets of some types, such as dates and objects, that the array can only be read."""
    reduced = array.__reduce_ex__(5)
    is_forgotten = len(reduced) == 3 and not array.flags.num & WRITEABLE
    return (*reduced, None, None, set_readonly) if is_forgotten else reduced


def set_readonly(array, state):
    array.__setstate__(state)
    array.flags.writeable = False


def make_view(memory, dtype, shape, strides, first):
    view = importlib.import_module("numpy").ndarray(shape, dtype, memory, first, strides)
    view.flags.writeable = False
    return view


def reduce_small(array):
    """The reduction of an array that owns its memory elsewhere, as resize() demands. numpy's own changes the order of a number's bytes."""
    if array.dtype.isnative or array.dtype.hasobject:
        return array.__reduce__()
    order = "F" if array.flags.fnc else "C"
    return make_small, (array.tobytes(order), array.dtype, array.shape, order)


def make_small(content, dtype, shape, order):
    return importlib.import_module("numpy").ndarray(shape, dtype, content, order=order).copy("K")


def reduce_subclass(array):
    """The reduction of an object of a class that derives from ndarray and leaves it to numpy to pickle it: numpy forgets its attributes."""
    kind, base = type(array), sys.modules["numpy"].ndarray
    if kind is base or any(getattr(kind, name) is not getattr(base, name) for name in ("__reduce__", "__reduce_ex__", "__setstate__")):
        return NotImplemented
    return make_subclass, (kind, base.view(array, base)), _state(array), None, None, set_attributes


def _state(array):
    """The attributes of an array; None: it has none."""
    found = dict(getattr(array, "__dict__", ()))
    if _is_memmap(array):
        for name in OF_MAPPING:
            found.pop(name, None)
    if any("__slots__" in vars(cls) for cls in type(array).__mro__):
        found.update(in_slots(array))
    return found or None


def set_attributes(array, attributes):
    """A step of its own, since the attributes may hold the array."""
    slots = slots_of(type(array))
    for name, value in attributes.items():
        if name in slots:
            object.__setattr__(array, name, value)
        else:
            array.__dict__[name] = value


def _is_memmap(array):
    return isinstance(array, sys.modules["numpy"].memmap)


def make_subclass(kind, plain):
    """An object of this class over the memory of a plain array. Its __array_finalize__() is called with None, as numpy's own unpickling does;
    if it can't be, with the plain array."""
    array, memory, first = importlib.import_module("numpy").ndarray, plain, 0
    try:
        if not (plain.flags.c_contiguous or plain.flags.f_contiguous):  # of make_view(): it lies in an array of bytes
            memory = plain.base
            first = plain.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
        made = array.__new__(kind, plain.shape, plain.dtype, memory, first, plain.strides)
    except Exception:  # the user's code; or a type of elements that older versions of numpy don't put over memory
        made = array.view(plain, kind)
    if not plain.flags.num & WRITEABLE:
        array.setflags(made, write=False)
    return made


# ---- files that are mapped ----------------------------------------------------------------------------------------

_senders = set()  # (machine, device, inode) of files that the sender has on this machine, too


class Files:
    """The files that numpy's memmaps in one pickle map. Each mapping is looked up once, and is in the pickle once: a list of rows has
    thousands of views of one."""

    def __init__(self):
        self._of = {}  # id of an mmap.mmap: (it, its _File; None: it is not a file that others find)
        self._starts, self._lines = None, []  # of /proc/self/maps

    def reduce(self, array):
        """The reduction of a memmap: ranks map the same file. An array in memory, if the array is not what is in a file that has a name, or
        is a small one that nobody can write."""
        file = None if array.mode == "r" and array.nbytes < SMALL else self._file(array)
        writeable = bool(array.flags.num & WRITEABLE)
        if file is not None and not array.dtype.hasobject and array.size:
            low, size = span_of(array)
            if file.start <= low and low + size <= file.start + file.size:
                first = array.__array_interface__["data"][0] - file.start
                return self._with_state(array, make_memmap, (file, first, array.dtype, array.shape, array.strides, writeable))
        return self._with_state(array, make_content, (sys.modules["numpy"].ndarray.view(array, sys.modules["numpy"].ndarray), writeable))

    @staticmethod
    def _with_state(array, *reduced):
        state = _state(array) if len(vars(array)) > len(OF_MAPPING) else None
        return reduced if state is None else (*reduced, state, None, None, set_attributes)

    def _file(self, array):
        mapping = getattr(array, "_mmap", None)
        if mapping is None or array.filename is None or array.mode not in ("r", "r+", "w+"):
            return None
        if id(mapping) not in self._of:
            try:
                self._of[id(mapping)] = mapping, self._look_up(array, mapping)
            except OSError:
                self._of[id(mapping)] = mapping, None
        return self._of[id(mapping)][1]

    def _look_up(self, array, mapping):
        start = sys.modules["numpy"].frombuffer(mapping, dtype="u1").__array_interface__["data"][0]
        came = _came_as(mapping) if getattr(_local, "as_it_came", False) else None
        if came is not None:
            path, file, mode, offset, _ = came
            return _File(path, list(file), mode, start, len(mapping), offset)
        path = os.path.realpath(array.filename)
        if not self._is_mapped(start, path):
            return None
        found = identity(path)
        if not filesystems.is_local(os.path.dirname(path), filesystems.mounts()):
            if array.mode != "r":
                mapping.flush()  # other machines see what is written
        elif class_versions.side == class_versions.RANKS and tuple(found) not in _senders:
            return None  # home may be on another machine
        return _File(path, found, "r" if array.mode == "r" else "r+", start, len(mapping), array.offset)  # w+ would empty the file

    def _is_mapped(self, address, path):
        """Does Linux say that this file, as it is under this name now, is mapped there?"""
        if self._starts is None:
            with open("/proc/self/maps", "rb") as file:
                self._lines = file.readlines()
            self._starts = [int(line.partition(b"-")[0], 16) for line in self._lines]
        at = bisect.bisect(self._starts, address) - 1
        return at >= 0 and self._lines[at].rstrip(b"\n").split(None, 5)[5:] == [os.fsencode(path).replace(b"\n", b"\\012")]


class _File:
    """A mapping in a pickle. start: its address; offset: of the memmap's first element in the file."""

    def __init__(self, path, identity, mode, start, size, offset):
        before = offset % mmap.ALLOCATIONGRANULARITY  # numpy maps from a whole page
        self.start, self.size = start + before, size - before
        self._reduced = map_file, (path, identity, mode, offset, self.size)

    def __reduce__(self):
        return self._reduced


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


_mapped = weakref.WeakValueDictionary()  # {arguments of map_file(): the memmap that is here}
_local = threading.local()


def labels_in(index):
    """The ids of the arrays that a pandas.Index is made of."""
    own = vars(index)
    data = own.get("_data")
    return {id(getattr(data, "_ndarray", data)), *map(id, own.get("_codes", ()))}


@contextlib.contextmanager
def as_they_came():
    """Within the block, memmaps that came from another process are pickled as they came: their file may have another name now, or none."""
    before, _local.as_it_came = getattr(_local, "as_it_came", False), True
    try:
        yield
    finally:
        _local.as_it_came = before


def _came_as(mapping):
    """The arguments of map_file() with which this mmap.mmap was made; None: it was made in another way."""
    return next((made for made, whole in list(_mapped.items()) if whole._mmap is mapping), None)


def map_file(path, file, mode, offset, size):
    """A memmap of these bytes of a file, which is never made longer. If there is one, it is that one, also when the file has no name any more."""
    made = path, tuple(file), mode, offset, size
    here = _mapped.get(made)
    if here is not None and (length := _length(here)) is not None:
        return here if length >= offset + size else _refuse_shorter(path)
    if not _is_same_file(path, file):
        raise pickle.UnpicklingError(f"a memmap's file, {path}, is not on this machine: send numpy.array() of it, or open the memmap in the cell")
    if os.stat(path).st_size < offset + size:
        _refuse_shorter(path)
    _senders.add(tuple(file))
    whole = _mapped[made] = importlib.import_module("numpy").memmap(path, "u1", mode, offset, size)
    return whole


def _length(whole):
    """The present length of the file that a memmap maps, by the descriptor that Python keeps; None: it is closed, or the file is gone from its
    server."""
    try:
        return whole._mmap.size()
    except (OSError, ValueError):
        return None


def _refuse_shorter(path):
    raise pickle.UnpicklingError(f"a memmap's file, {path}, has become shorter than the memmap: open the memmap again")


def make_memmap(whole, first, dtype, shape, strides, writeable):
    """A part of the memmap `whole`. Its base is that one, so that its flush() finds the mapping."""
    numpy = importlib.import_module("numpy")
    view = numpy.ndarray.__new__(numpy.memmap, shape, dtype, whole, first, strides)
    vars(view).update((name, getattr(whole, name)) for name in OF_MAPPING)
    if not writeable:
        view.flags.writeable = False
    return view


def make_content(plain, writeable):
    """A memmap of no file, as numpy itself makes them."""
    view = make_subclass(importlib.import_module("numpy").memmap, plain)
    if not writeable and view.flags.num & WRITEABLE:
        view.flags.writeable = False
    return view


def reduce_masked(array):
    """The reduction of a masked array. numpy's own forgets that it, or its mask, can only be read, that its mask is hard, and attributes."""
    reduced, mask = array.__reduce_ex__(5), getattr(array, "_mask", None)
    can_write = [bool(part.flags.num & WRITEABLE) if isinstance(part, sys.modules["numpy"].ndarray) else True for part in (array, mask)]
    is_hard = bool(getattr(array, "_hardmask", False))
    attributes = {name: value for name, value in vars(array).items() if name not in OF_MASKED and (name != "_optinfo" or value)}
    if (all(can_write) and not is_hard and not attributes) or not isinstance(reduced, tuple) or len(reduced) != 3 or reduced[2] is None:
        return reduced
    return (*reduced[:2], (reduced[2], can_write, is_hard, attributes), None, None, set_masked)


def set_masked(array, state):
    state, (can_write, can_mask), is_hard, attributes = state
    array.__setstate__(state)
    array.__dict__.update(attributes, _hardmask=is_hard)
    if not can_mask:
        array._mask.flags.writeable = False
    if not can_write:
        array.flags.writeable = False


RULES = {("numpy", "ndarray"): reduce_subclass, **{(module, "MaskedArray"): reduce_masked for module in ("numpy.ma", "numpy.ma.core")}}
