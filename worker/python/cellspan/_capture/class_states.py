# SPDX-License-Identifier: BSD-3-Clause
"""The notebook's classes on a rank, for comparisons: has the rank changed them since home sent them?

A class that came inside one variable is the same object under every variable that uses it, and home's newest state of it replaces the
older one. So a value that came earlier is compared without its classes, and each class with the state in which it came last.
"""

from __future__ import annotations

import weakref

from cloudpickle import cloudpickle

from . import rebuild, reducers
from .fingerprints import fingerprint

BY_ID, ID_OF = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID, cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS


class Comparing(reducers.GradPickler):
    """Pickles a class of the notebook, other than `whole`, as its id alone. classes: those that it met. A class or function of a module is its
    name alone, also one of before the module was loaded again: that changes no value which has it."""

    def __init__(self, *args, whole=None):
        super().__init__(*args)
        self.classes, self._whole = [], whole

    def reducer_override(self, obj):
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


def pickled(value, user_ns, chunks, whole=None):
    """(a value's reducers.Pickled, the classes in it)."""
    made = []
    found = reducers.Pickled(value, user_ns, chunks=chunks, make=lambda *args: made.append(Comparing(*args, whole=whole)) or made[0])
    return found, made[0].classes if made else []


class ClassStates:
    """chunks(): the destination of a pickle, which limits its size."""

    def __init__(self, user_ns, chunks):
        self._user_ns, self._chunks = user_ns, chunks
        self._came = weakref.WeakKeyDictionary()  # class -> _state() when home sent it last
        rebuild.on_filled = self.came

    def came(self, classes):
        """These classes have just been filled with what another process sent."""
        for cls in classes:
            if BY_ID.get(ID_OF.get(cls)) is cls:  # no copy that was made for a comparison
                try:
                    self._came[cls] = self._state(cls)[0]
                except Exception:  # noqa: BLE001 - the user's code pickles it
                    self._came.pop(cls, None)

    def _state(self, cls):
        """(what identifies the class's content without other classes in it, these); None in place of the first: it has large buffers."""
        found, others = pickled(cls, self._user_ns, self._chunks(), whole=cls)
        digest, large = fingerprint(found, again=True)
        return None if large else digest, others

    def are_as_sent(self, classes, copies, pulled):
        """Are these classes, and those in them, as they came last? copies: {id of a class: a copy of it as a value's bundle has it}, for
        those of which this is not known. pulled: the value was pulled from here, so that the copy may be newer."""
        queue, seen = list(classes), set()
        while queue:
            cls = queue.pop()
            if cls in seen:
                continue
            seen.add(cls)
            state, others = self._state(cls)
            queue += others
            came = self._came.get(cls)
            if came is not None and came == state:
                continue
            if (came is None or pulled) and self._is_as_copy(cls, copies.get(ID_OF[cls])):
                continue
            return False
        return True

    def _is_as_copy(self, cls, copy):
        if copy is None:
            return False
        (ours, _), (theirs, _) = (pickled(each, self._user_ns, self._chunks(), whole=each) for each in (cls, copy))
        (own, buffers), (digest, others) = fingerprint(ours, again=True), fingerprint(theirs, again=True)
        return own == digest and len(buffers) == len(others) and all(a.view()[0] == b.view()[0] for a, b in zip(buffers, others))
