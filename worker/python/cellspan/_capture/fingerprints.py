# SPDX-License-Identifier: BSD-3-Clause
"""What home remembers about a value that it has checked, to find out later whether the value has changed."""

from __future__ import annotations

import collections
import hashlib
import os

from .. import _link
from . import mappings
from .arrays import Owner

LARGE = 64 << 10  # bytes; buffers from this size are compared with the last bundle instead of being hashed
ON_DEVICE = -1  # instead of an offset: compared by Storage.digest(), because it is or was on a GPU
SENT_MAX = 256  # number of bundles that are kept for comparison; each takes a descriptor
STEP = 256 << 10  # bytes compared at a time, so that they stay in the CPU's cache
SAMPLE = 64  # bytes at the start, in the middle and at the end of a buffer that is looked for
MISSES = 4
UNSURE = -1  # the place of an array in a value whose pickle differs each time


class Sent:
    """The descriptor of a bundle that was sent; names in it are compared with it. Closed when it is not needed any more."""

    def __init__(self, fd, size):
        self.fd = os.dup(fd)
        self._owner = _link.owner(self.fd)
        self.size = size
        self.file = mappings.file_of(fd)

    def equals(self, offset, view):
        """Are the bundle's bytes from offset on equal to the view? Reads them piece by piece, which is faster than a mapping and
        takes no memory."""
        piece = bytearray(min(STEP, view.nbytes))
        for part in mappings.pieces(mappings.may_differ(view, self.file, offset), STEP):
            theirs = memoryview(piece)[: part.stop - part.start]
            if os.preadv(self.fd, [theirs], offset + part.start) != len(theirs) or not _link.equal(theirs, view[part]):
                return False
        return True

    def digest(self, offset, size):
        """A digest that replaces the bundle's bytes when it is closed."""
        made = hashlib.blake2b(digest_size=32)
        for at in range(offset, offset + size, STEP):
            made.update(os.pread(self.fd, min(STEP, offset + size - at), at))
        return made.digest()


class Known:
    """What is known about one name: its version, and digests of its value."""

    __slots__ = ("version", "since", "ident", "via", "pulled", "assigned", "digest", "large", "arrays", "_alive", "_forgot", "size", "failed", "cells", "by_name")

    def __init__(self, version, digest, large=(), arrays=(), size=0, failed=None):
        self.version = self.since = version
        self.ident = 0  # the id() of the object
        self.via = None  # how it was sent: "captured", "pushed" or "pulled"; None: not at all
        self.pulled = None  # the version that came from a rank; 0: it is a list of all ranks' values
        self.assigned = 0  # if it came from a rank: the version of home's last assignment before; 0: there was none
        self.digest = digest
        self.large = large  # [[key, bytes, Sent, digest or None, offset or ON_DEVICE, does its owner still exist?]] of the large buffers
        self.note_arrays(arrays)
        self.size = size
        self.failed = failed  # why it can't be pickled
        self.by_name = None  # a weak reference to it, if its pickle holds only the name that its module gives it
        self.cells = -1  # number of home's cells that had begun at the last check

    def note_arrays(self, arrays, sure=True):
        """arrays: as of reducers.Pickler, to see what shares memory. sure: their order is the same each time."""
        self._alive, self._forgot = dict(arrays), False
        self.arrays = {address: place if sure else UNSURE for place, address in enumerate(arrays)}

    def forget_dead(self, again=True):
        """Forgets arrays that are not alive, as those that an object makes of itself when it is pickled: others may get their addresses.
        again: also if that was done since they were noted."""
        if self._forgot and not again:
            return
        self._forgot = True
        for address in [address for address, is_alive in self._alive.items() if not holds(is_alive())]:
            del self._alive[address]
            del self.arrays[address]

    def let_go(self, array):
        """Forgets the array, which is about to get another size: nothing has a weak reference to it from now on."""
        if id(array) in self._alive and self._alive[id(array)]() is array:
            del self._alive[id(array)]
            del self.arrays[id(array)]
        for row in self.large:
            if isinstance(row[4], Owner):
                row[4].let_go(array)

    def is_proven(self):
        """Can all large buffers be compared with something? Not if a version was checked but never sent, for example because the
        cell was refused."""
        return all(row[2] is not None for row in self.large)

    def note_sent(self, sent, spans):
        """It was sent in this bundle. spans: {key of a buffer: (offset, size)}. A buffer that the object made of itself for an earlier pickle
        is gone, and what has its address is another one."""
        for row in self.large:
            offset, size = spans.get(row[0], (0, -1)) if row[4]() else (0, -1)
            if row[3] != ON_DEVICE:
                row[2], row[3] = (sent, offset) if size == row[1] else (None, 0)

    def find_sent(self, contents, pickled):
        """As note_sent(), for those buffers that are gone, by their content: that of a pickle that pickled() makes, if it is the same one.
        contents: of the bundle."""
        try:
            again = pickled()  # it lives as long as its buffers are compared
            digest, large = fingerprint(again)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - the user's code pickles it
            return
        if digest != self.digest or len(large) != len(self.large):
            return
        for row, buffer in zip(self.large, large):
            if row[2] is None and size_of(buffer) == row[1] and not is_on_device(buffer):
                row[2:4] = contents.find(buffer)
                if row[2] is None:  # the object has other content each time: its other buffers, too, need not be looked for
                    return


def holds(answer):
    """What a weak reference or a function of tensors.aliveness() says, as a bool. An array has none."""
    return answer is not None and answer is not False


def size_of(buffer):
    """The number of bytes of a piece or a storage that are sent."""
    return buffer.span()[1] if hasattr(buffer, "span") else buffer.nbytes


def fingerprint(pickled, again=False):
    """(digest of the pickle and of the small buffers, the large buffers). again: it is compared with that of a value that was loaded at
    another time, so it must not depend on which texts are one object."""
    digest, large = hashlib.blake2b(digest_size=32), []
    for part in [_link.unshared(b"".join(pickled.chunks.pieces))] if again else pickled.chunks.pieces:
        digest.update(part)
    for buffer in pickled.pieces + pickled.storages:
        size = size_of(buffer)
        digest.update(b"%d " % size)
        if size >= LARGE:
            large.append(buffer)
        else:
            view, keep = buffer.view()
            digest.update(view)
            del view, keep
    return digest.digest(), large


def unchanged(row, buffer):
    """Has a large buffer the same content as when it was last sent?"""
    _, size, sent, offset, _ = row
    if sent is None or size != size_of(buffer):
        return False
    if isinstance(sent, bytes):
        return (buffer.digest() if offset == ON_DEVICE else hashed(buffer)[0]) == sent
    view, keep = buffer.view()
    same = sent.equals(offset, view)
    del view, keep
    if same and is_on_device(buffer):  # it has moved there; the next time it is compared there
        row[2:4] = hashed(buffer)
    return same


def is_on_device(buffer):
    """Is it the storage of a tensor on a GPU? Its bytes are compared there, since copying them takes longer."""
    return getattr(buffer, "device", "cpu") != "cpu"


def proven(buffer, proof):
    """With what, and where in it, a large buffer of a new value can be compared: what proof(buffer) says, if it is in host memory.
    proof None: nothing yet."""
    return hashed(buffer) if is_on_device(buffer) else proof(buffer) if proof else (None, 0)


def hashed(buffer):
    """(digest of a large buffer, where it is), for comparison if it is in no bundle."""
    if is_on_device(buffer):
        return buffer.digest(), ON_DEVICE
    view, keep = buffer.view()
    digest = hashlib.blake2b(view, digest_size=32).digest()
    del view, keep
    return digest, 0


class Contents:
    """The large buffers in a bundle, by their content."""

    def __init__(self, sent, spans):
        """spans: (offset, size) of its buffers, in order."""
        self._sent, self._spans = sent, spans
        self._at = None  # {(size, sample of a buffer): offsets}; those that were compared last are at the end
        self._misses = MISSES * len(spans)  # how often a buffer may still be compared with another one: all together they take the time of some copies

    def find(self, buffer):
        """(the bundle's Sent, offset of the buffer in it); (None, 0): it is not in it, or would take too long to find."""
        if self._at is None:
            self._at = self._sampled()
        view, keep = buffer.view()
        offsets = self._at.get((view.nbytes, _sample(view.nbytes, lambda at: view[at : at + SAMPLE])), ())
        found = None
        for _ in range(len(offsets)):
            offset = offsets[0]
            offsets.rotate(-1)  # the next buffer is probably behind this one
            if self._sent.equals(offset, view):
                found = offset
                break
            self._misses -= 1
            if self._misses < 0:
                break
        del view, keep
        return (None, 0) if found is None else (self._sent, found)

    def _sampled(self):
        found = {}
        for offset, size in self._spans:
            if size >= LARGE:
                sample = _sample(size, lambda at, first=offset: os.pread(self._sent.fd, SAMPLE, first + at))
                found.setdefault((size, sample), collections.deque()).append(offset)
        return found


def _sample(size, read):
    """Some of a buffer's bytes, by which nearly all others are known as other ones."""
    return b"".join(read(at) for at in (0, size // 2, size - SAMPLE))
