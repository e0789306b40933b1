# SPDX-License-Identifier: BSD-3-Clause
"""numpy's ndarray.resize() works in a notebook as it does without cellspan.

numpy resizes no array to which there is a weak reference, and none that does not own its memory. Home has weak references to the arrays
that it has sent, and a rank to the values of a cell's variables; and an array that came in a bundle lies in that bundle's memory. So before
a resize() these references are dropped, and such an array gets memory of its own.
"""

from __future__ import annotations

import gc
import sys
import warnings
import weakref

from .. import _link
from .._base.imports import when_imported
from . import mappings

MOST = 2  # references to an array that numpy resizes: what has it, and the call

_holders = weakref.WeakSet()


def watch(holder):
    """holder.let_go(array) drops the weak references that the holder has to an array."""
    _holders.add(holder)
    when_imported("numpy", _patch)


def _patch():
    numpy = sys.modules["numpy"]
    kind = numpy.ndarray
    names = next((names for names in gc.get_referents(vars(kind)) if isinstance(names, dict)), None)
    if names is not None:
        _link.before_resize(kind, names, numpy.zeros(0).resize, _before, kind.resize.__doc__)


def _before(array, references, named):
    for holder in list(_holders):
        holder.let_go(array)
    if (references <= MOST or (named and not named.get("refcheck", True))) and _is_of_bundle(array):
        _own(array)


def _is_of_bundle(array):
    """Is it an array that came from another process, and does nothing else use its memory?"""
    kind = sys.modules["numpy"].ndarray
    flags, size, over = kind.flags.__get__(array), kind.nbytes.__get__(array), kind.base.__get__(array)
    if flags.owndata or not (flags.writeable and flags.c_contiguous):
        return False
    alone, at = [object()], array
    held = alone[0]  # noqa: F841 - as `over` is
    while type(over) is kind:
        if over.nbytes != size or _references(kind.base.__get__, at) > _references(alone.__getitem__, 0):
            return False
        at, over = over, over.base
    return type(over) is bytes or (isinstance(over, memoryview) and isinstance(over.obj, (mappings.Read, mappings.Mapped)))


def _references(get, what):
    """How many references there are to what get() gives; a few are of this call."""
    found = get(what)
    return sys.getrefcount(found)


def _own(array):
    """Gives the array memory of its own."""
    numpy = sys.modules["numpy"]
    kind = numpy.ndarray
    plain = kind.view(array, kind)
    content = plain.copy()
    del plain
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind.__setstate__(array, (1, (0,), content.dtype, False, b""))
        kind.resize(array, content.shape, refcheck=False)
    kind.view(array, kind)[...] = content


def is_to(reference, array):
    """Is it a weak reference to this array?"""
    return isinstance(reference, weakref.ref) and reference() is array


def let_go_of_marks(marks, array):
    """Puts the address of the array in place of its marks, as of _link.marks()."""
    pairs = list(marks.items()) if isinstance(marks, dict) else list(enumerate(marks))
    for key, mark in pairs:
        if isinstance(mark, list):
            let_go_of_marks(mark, array)
        elif is_to(mark, array):
            marks[key] = id(array)
