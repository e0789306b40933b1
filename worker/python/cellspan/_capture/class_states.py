# SPDX-License-Identifier: BSD-3-Clause
"""The notebook's classes on a rank, for comparisons: has the rank changed them since home sent them?

A class that came inside one variable is the same object under every variable that uses it, and home's newest state of it replaces the
older one. So a value that came earlier is compared without its classes, and each class with the state in which it came last.
"""

from __future__ import annotations

import weakref

from cloudpickle import cloudpickle

from . import caches, enums, rebuild, reducers
from .fingerprints import fingerprint

BY_ID, ID_OF = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID, cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS


class Comparing(reducers.GradPickler):
    """Pickles a class of the notebook, other than `whole`, as its id alone. classes: those that it met. A class or function of a module is its
    name alone, also one of before the module was loaded again: that changes no value which has it.

    computed: for each distribution of torch, in order, the names of what it has computed and keeps (an enum with a `_missing_`: values).
    before: the same list of the value as it came: what an object has computed since is left out."""

    def __init__(self, *args, whole=None, before=None):
        super().__init__(*args)
        self.classes, self.computed, self._whole = [], [], whole
        self._before, self._lazy = None if before is None else iter(before), {}

    def reducer_override(self, obj):
        reduced = self._reduced(obj)
        kind = type(obj)
        if obj is self._whole and isinstance(reduced, tuple) and enums.is_enum(obj) and enums.may_note_values(obj):
            return enums.without_noted(reduced, self._computed_since(enums.noted(reduced)))
        lazy = self._lazy[kind] if kind in self._lazy else self._lazy.setdefault(kind, caches.lazy_names(kind))
        if not lazy:
            return reduced
        kept = caches.kept(obj, lazy)
        since = self._computed_since(kept)
        left_out = {name: kept[name] for name in since if caches.is_only_computed(obj, name, kept[name])}
        if not left_out:
            return reduced
        if reduced is NotImplemented:
            reduce = self.dispatch_table.get(kind)
            reduced = reduce(obj) if reduce is not None else obj.__reduce_ex__(5)
        return caches.less(reduced, left_out)

    def _computed_since(self, kept):
        self.computed.append(frozenset(kept))
        return () if self._before is None else self.computed[-1] - next(self._before, frozenset())

    def _reduced(self, obj):
        name = "" if obj is self._whole else reducers.name_in_module(obj)
        if name:
            return str, (name,)
        if not isinstance(obj, type) or obj is self._whole:
            return super().reducer_override(obj)
        if obj not in ID_OF:
            reduced = super().reducer_override(obj)  # gives it an id if it is one of the notebook's
            if not isinstance(reduced, tuple) or reduced[0] is not rebuild.make_class:
                return reduced
        self.classes.append(obj)
        return str, (ID_OF[obj],)


def pickled(value, user_ns, chunks, whole=None, before=None):
    """(a value's reducers.Pickled, the classes in it, what objects in it have computed). before: as of Comparing."""
    made = []
    found = reducers.Pickled(value, user_ns, chunks=chunks, make=lambda *args: made.append(Comparing(*args, whole=whole, before=before)) or made[0])
    return (found, made[0].classes, made[0].computed) if made else (found, [], [])


class ClassStates:
    """chunks(): the destination of a pickle, which limits its size."""

    def __init__(self, user_ns, chunks):
        self._user_ns, self._chunks = user_ns, chunks
        self._came = weakref.WeakKeyDictionary()  # class -> (what identifies its content, what objects in it had computed) when home sent it last
        rebuild.on_filled = self.came

    def came(self, classes):
        """These classes have just been filled with what another process sent."""
        for cls in classes:
            if BY_ID.get(ID_OF.get(cls)) is cls:  # no copy that was made for a comparison
                try:
                    self._came[cls] = self._state(cls)[::2]
                except Exception:  # noqa: BLE001 - the user's code pickles it
                    self._came.pop(cls, None)

    def _state(self, cls, before=None):
        """(what identifies the class's content without other classes in it, these, what objects in it have computed); None in place of the first:
        it has large buffers."""
        found, others, computed = pickled(cls, self._user_ns, self._chunks(), whole=cls, before=before)
        digest, large = fingerprint(found, again=True)
        return None if large else digest, others, computed

    def are_as_sent(self, classes, copies, pulled):
        """Are these classes, and those in them, as they came last? copies: {id of a class: a copy of it as a value's bundle has it}, for
        those of which this is not known. pulled: the value was pulled from here, so that the copy may be newer."""
        queue, seen = list(classes), set()
        while queue:
            cls = queue.pop()
            if cls in seen:
                continue
            seen.add(cls)
            came, before = self._came.get(cls, (None, None))
            state, others, _ = self._state(cls, before)
            queue += others
            if came is not None and came == state:
                continue
            if (came is None or pulled) and self._is_as_copy(cls, copies.get(ID_OF[cls])):
                continue
            return False
        return True

    def _is_as_copy(self, cls, copy):
        if copy is None:
            return False
        theirs, _, computed = pickled(copy, self._user_ns, self._chunks(), whole=copy)
        ours = pickled(cls, self._user_ns, self._chunks(), whole=cls, before=computed)[0]
        (own, buffers), (digest, others) = fingerprint(ours, again=True), fingerprint(theirs, again=True)
        return own == digest and len(buffers) == len(others) and all(a.view()[0] == b.view()[0] for a, b in zip(buffers, others))
