# SPDX-License-Identifier: BSD-3-Clause
"""The mappings of bundles in this process.

The system knows which pages of a private mapping this process has written; all others still have the bundle's content. So
unchanged arrays of any size are recognised without reading them.
"""

from __future__ import annotations

import mmap
import os
import weakref

from .. import _link

_live = {}  # address of a mapping's first byte -> (weak reference to the mapping, its size in bytes, file_of() the bundle)


class Read(bytearray):
    """The memory of a bundle that was read."""


class Mapped(mmap.mmap):
    """The memory of a bundle that is mapped."""


def file_of(fd):
    """Identifies a bundle as long as it is open or mapped anywhere."""
    stat = os.fstat(fd)
    return stat.st_dev, stat.st_ino


def note(mapping, fd):
    """Records a private mmap of the whole bundle."""
    start = _link.address(mapping)

    def gone(reference):
        if _live.get(start, (None,))[0] is reference:
            del _live[start]

    _live[start] = weakref.ref(mapping, gone), len(mapping), file_of(fd)


def place_of(view):
    """(file_of() the bundle, offset in it) if these bytes are part of a bundle's mapping; else None."""
    start = _link.address(view)
    for first, (reference, size, file) in list(_live.items()):
        if first <= start and start + view.nbytes <= first + size and reference() is not None:
            return file, start - first
    return None


def may_differ(view, file, offset):
    """[(start, length), ...] in bytes: only in these ranges may the view differ from the bundle's bytes from offset on."""
    ranges = _link.written(view) if view.nbytes and place_of(view) == (file, offset) else None
    return [(0, view.nbytes)] if ranges is None else ranges


def may_differ_between(a, b):
    """The ranges in which two views of the same length may differ. Ranges may overlap."""
    place = place_of(b)
    return [(0, a.nbytes)] if place is None else may_differ(a, *place) + may_differ(b, *place)


def pieces(ranges, step):
    """The ranges as slices of at most `step` bytes."""
    for start, length in ranges:
        for at in range(start, start + length, step):
            yield slice(at, min(at + step, start + length))
