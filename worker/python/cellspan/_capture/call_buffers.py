# SPDX-License-Identifier: BSD-3-Clause
"""The large buffers of a call's function and arguments (cellspan.run). They travel as variables do: with a version, and only to ranks
that lack it. So a large array that was not changed goes to the ranks once, even if many calls have it as an argument.

They travel in groups: each of the largest buffers of a call is a group, and all its other ones together are one. Home knows a group by
the memory of its buffers, and forgets it when their owner (an array, a torch storage) is gone. A rank keeps the bundle in which a group
came, and maps it anew for each call: what a function writes into an argument is gone with the call.
"""

from __future__ import annotations

import os
import sys
import weakref

from .. import _link
from . import reducers, vars_bundle
from .arrays import Owner
from .fingerprints import LARGE, Known, size_of, unchanged

EACH_TIME = "_cellspan_"  # ranks delete names that begin so after their use, so these are sent each time
NAME = EACH_TIME + "buffers"  # a number is added
ALONE = 8  # this many buffers of a call are groups of their own: usually the arrays among its arguments, and not all layers of a model
RELEASES_SENT = 8  # messages that tell ranks that a group is gone; a rank that has missed them frees it when its name is used again


def is_group(name):
    return name.startswith(NAME)


# ---- at home ------------------------------------------------------------------------------------------------------------


class CallBuffers:
    """The groups of buffers that home knows. versions: as in Capture.

    An interrupt may come between any two steps: what a group is changes in one step, and is told by its own attributes alone."""

    def __init__(self, versions):
        self._versions = versions
        self._groups = {}  # {name: _Group}; those that are gone stay, for their names are used again

    def split(self, pickled):
        """The groups of a reducers.Pickled: (rows as of Capture.names(), [[index of a buffer, name, its number in the group], ...]);
        ([], []) if there are none. Home can pack them while `pickled` lives."""
        buffers = pickled.pieces + pickled.storages
        if any(storage.device != "cpu" for storage in pickled.storages):
            return [], []  # these go from GPU to GPU
        rows, places = [], []
        for at in _grouped(buffers):
            group = self._group([buffers[k] for k in at])
            group.pickled, group.at, known = weakref.ref(pickled), at, group.known
            known.large = [[_place(buffers[k]), *row[1:]] for k, row in zip(at, known.large)]  # this call's copies of views lie elsewhere
            rows.append([group.name, known.version, known.size, "buffers of a call", known.version])
            places += [[k, group.name, number] for number, k in enumerate(at)]
        return rows, places

    def _group(self, buffers):
        key = tuple(buffer.key for buffer in buffers)
        group = next((one for one in self._groups.values() if one.key == key), None)
        if group is None or not all(map(unchanged, group.known.large, buffers)):
            large = [[None, size_of(buffer), None, 0, _is_there] for buffer in buffers]
            known = Known(next(self._versions), None, large, size=sum(row[1] for row in large))
            name = group.name if group is not None else self._free_name()
            group = self._groups[name] = _Group(name, key, [buffer.owner() for buffer in buffers], known)
        return group

    def _free_name(self):
        return next((one.name for one in self._groups.values() if one.key is None), None) or f"{NAME}{len(self._groups) + 1}"

    def forget(self):
        """Forgets groups of which the owner is gone."""
        for name, group in list(self._groups.items()):
            if group.key is not None and not all(owner() for owner in group.owners):
                self._groups[name] = _Group(name)

    def let_go(self, array):
        """Forgets groups of which this array owns the memory. It is about to get other memory."""
        for owner in [owner for group in self._groups.values() for owner in group.owners if isinstance(owner, Owner)]:
            owner.let_go(array)

    def gone(self):
        """The names of groups that ranks need not keep."""
        gone = [group for group in self._groups.values() if group.key is None and group.releases < RELEASES_SENT]
        for group in gone:
            group.releases += 1
        return [group.name for group in gone]

    def known(self, name):
        """The Known of a group; None: there is no such group, or it is gone."""
        return self._groups[name].known if name in self._groups else None

    def all_known(self):
        return [group.known for group in self._groups.values() if group.known is not None]

    def value(self, name):
        """(what a bundle has for this group, what keeps its memory alive); None: its call is over."""
        group = self._groups.get(name)
        pickled = group.pickled() if group is not None and group.pickled is not None else None
        if pickled is None:
            return None
        buffers = pickled.pieces + pickled.storages
        return [buffers[k].buffer() for k in group.at], pickled


class _Group:
    """key: the keys of its buffers; None: it is gone. owners: functions that say whether the owner of a buffer is alive. pickled: a
    reference to the last call's Pickled; at: the indexes of the group's buffers in it. releases: how often ranks were told that it is gone."""

    __slots__ = ("name", "key", "owners", "known", "pickled", "at", "releases")

    def __init__(self, name, key=None, owners=(), known=None):
        self.name, self.key, self.owners, self.known = name, key, owners, known
        self.pickled, self.at, self.releases = None, (), 0


def _grouped(buffers):
    """Lists of indexes: a list for each group."""
    outside = [k for k, buffer in enumerate(buffers) if size_of(buffer) >= reducers.IN_BAND]
    largest = sorted((k for k in outside if size_of(buffers[k]) >= LARGE), key=lambda k: -size_of(buffers[k]))[:ALONE]
    rest = [k for k in outside if k not in largest]
    return [[k] for k in largest] + ([rest] if rest else [])


def _place(buffer):
    """The key that a buffer's memory gets when it is pickled in a group: see reducers.Pieces."""
    view, _ = buffer.view()
    return sys.modules["numpy"].frombuffer(view, dtype="uint8").__array_interface__["data"][0], view.nbytes


def _is_there():
    """A group's buffers live while it is packed."""
    return True


# ---- on a rank ----------------------------------------------------------------------------------------------------------


class Received:
    """The groups that this rank has."""

    def __init__(self):
        self._of = {}  # {name: (_Bundle, number of the group's first buffer in it, how many it has), or a list of buffers}

    def take(self, bound, fd, size):
        """Takes the groups out of the variables of a bundle; fd -1: its bytes are not here."""
        bundle, first = None, 0
        for name in [name for name in bound if is_group(name)]:  # they are the first in the bundle
            views = bound.pop(name)
            if fd >= 0:
                bundle = bundle or _Bundle(fd, size)
            self._of[name] = views if bundle is None else (bundle, first, len(views))
            first += len(views)

    def forget(self, names):
        for name in names:
            self._of.pop(name, None)

    def fill(self, views, places):
        """Puts the groups' buffers into the views of a call; places: as of CallBuffers.split()."""
        opened = {}
        for index, name, number in places:
            if name not in self._of:
                raise vars_bundle.BundleError("buffers of the call did not arrive")
            views[index] = self._view(self._of[name], number, opened)

    def _view(self, kept, number, opened):
        """A buffer that nobody has written to."""
        if isinstance(kept, list):
            return memoryview(bytearray(kept[number]))
        bundle, first, _ = kept
        if bundle not in opened:
            opened[bundle] = vars_bundle.read(bundle.fd, bundle.size)[0]
        return opened[bundle][first + number]


class _Bundle:
    """A bundle's descriptor."""

    def __init__(self, fd, size):
        self.fd, self.size = os.dup(fd), size
        self._owner = _link.owner(self.fd)
