# SPDX-License-Identifier: BSD-3-Clause
"""The notebook's classes on a rank, for comparisons: has the rank changed them since home sent them?

A class that came inside one variable is the same object under every variable that uses it, and home's newest state of it replaces the
older one. So a value that came earlier is compared without its classes, and each class with the state in which it came last.

A class comes along with each value that has an object of it, also under a name that is new here. So what the rank has done to a class must
not be lost then: if home has not changed it since it came last, the rank's stays as it is. If both have, that is a conflict. Two states are
compared by their pickles in this process; for home's, the bundle is loaded again.
"""

from __future__ import annotations

import pickle
import sys
import weakref

from cloudpickle import cloudpickle

from . import caches, enums, only_read, rebuild, reducers
from .fingerprints import fingerprint, hashed, size_of

HASHED_MAX = 64 << 20  # bytes of large buffers in a class
SINCE, SINCE_ARRAYS = "changed class", "changed class with arrays"  # a class was changed; and has arrays

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
        if (read := only_read.names_of(obj)) and not enums.is_enum(kind):
            return self._without_read(obj, reduced, read)
        lazy = self._lazy[kind] if kind in self._lazy else self._lazy.setdefault(kind, caches.lazy_names(kind))
        if not lazy:
            return reduced
        kept = caches.kept(obj, lazy)
        since = self._computed_since(kept)
        left_out = {name: kept[name] for name in since if caches.is_only_computed(obj, name, kept[name])}
        if not left_out:
            return reduced
        return caches.less(self._made(obj, reduced), left_out)

    def _made(self, obj, reduced):
        if reduced is not NotImplemented:
            return reduced
        reduce = self.dispatch_table.get(type(obj))
        return reduce(obj) if reduce is not None else obj.__reduce_ex__(5)

    def _without_read(self, obj, reduced, read):
        """Without what only reading has given the object, as it would be if it had not been read."""
        less = caches.less(self._made(obj, reduced), read)
        if not isinstance(less, tuple) or len(less) < 3:
            return less
        make, args, state, *more = less
        if type(state) is dict and not state:
            state = None
        elif type(state) is tuple and len(state) == 2 and type(state[0]) is dict and not state[0]:
            state = (None, state[1])
        return (make, args, state, *more)

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


class Unknown(Exception):
    """It is not known whether a value was changed; the text says why."""


class _Body:
    """A pickle as a file object, so that between two reads Python can raise TooSlow."""

    def __init__(self, body):
        self._body, self._at = body, 0

    def read(self, size):
        start, self._at = self._at, min(self._at + size, len(self._body))
        return bytes(self._body[start : self._at])

    def readline(self):
        raise Unknown("its pickle is of an old kind")


class Again(pickle.Unpickler):
    """Loads a second copy of values that are here already. Classes of the notebook are loaded as new classes, so that those that
    the rank uses are not changed."""

    def __init__(self, body, buffers):
        super().__init__(_Body(body), buffers=buffers)
        self.twins = {}  # id of a class: its twin. Classes that refer to each other are made more than once

    def find_class(self, module, name):
        found = super().find_class(module, name)
        return self._make_twin if found is rebuild.make_class else found

    def _make_twin(self, make, *args):
        at = rebuild.AT
        twin = self.twins.get(args[at])
        if twin is None:
            twin = self.twins[args[at]] = rebuild.made_quietly(make, (*args[:at], None, *args[at + 1 :]))
            cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS[twin] = args[at]
        return twin


class ClassStates:
    """chunks(): the destination of a pickle, which limits its size."""

    def __init__(self, user_ns, chunks):
        self._user_ns, self._chunks = user_ns, chunks
        self._came = weakref.WeakKeyDictionary()  # class -> (what identifies its content, what objects in it had computed) when home sent it last
        rebuild.on_filled, rebuild.takes, rebuild.on_sent = self.came, self.takes, self.sent

    def sent(self, classes, keeps, forced):
        """These classes have just been sent home. keeps: home has this rank's state of those that the rank has defined from now on; else
        it may have another one. forced: the ids of others of which it has."""
        self.came([cls for cls in classes if ID_OF.get(cls) in forced or (rebuild.is_own(cls) and (keeps or cls not in self._came))])

    def takes(self, cls, loading):
        """Does this class get the state that comes, or does it stay as the rank has it? rebuild.HAS: both are equal. VariableConflict."""
        came, before = self._came.get(cls, (None, None))
        if came is None:
            return not rebuild.is_own(cls)
        own = self._known_state(cls, before)
        if own == came and not rebuild.is_own(cls):
            return True
        if own is not None and own != self._known_state(cls, before):  # a state that differs each time proves no change
            return not rebuild.is_own(cls)
        theirs = self._known_state(self._twin(cls, loading), before)
        if theirs == came:
            return False
        if theirs == own and own is not None:
            return rebuild.HAS
        if own == came or theirs is None or theirs == own:
            return True
        raise rebuild.VariableConflict(_of_both(cls, self._user_ns))

    def _known_state(self, cls, before):
        try:
            return self._state(cls, before)[0]
        except Exception:  # noqa: BLE001 - the rank has put something into it that can't be pickled, or more than is compared
            return object()

    @staticmethod
    def _twin(cls, loading):
        if loading.twins is None:  # once for all classes: this loads the whole bundle
            again = Again(*loading.pickled)
            with rebuild.load_into(loading.anew()), rebuild.holding([]):
                again.load()
            loading.twins = again.twins
        return loading.twins[ID_OF[cls]]

    def came(self, classes):
        """These classes have just been filled with what another process sent."""
        for cls in classes:
            if BY_ID.get(ID_OF.get(cls)) is cls:  # no copy that was made for a comparison
                try:
                    self._came[cls] = self._state(cls)[:3:2]
                except Exception:  # noqa: BLE001 - the user's code pickles it
                    self._came.pop(cls, None)

    def _state(self, cls, before=None):
        """(what identifies the class's content without other classes in it, these, what objects in it have computed, does it have arrays?); None
        in place of the first: it has too large buffers."""
        found, others, computed = pickled(cls, self._user_ns, self._chunks(), whole=cls, before=before)
        digest, large = fingerprint(found, again=True)
        if sum(map(size_of, large)) > HASHED_MAX:
            return None, others, computed, True
        return (digest, *(hashed(buffer)[0] for buffer in large)), others, computed, bool(found.arrays)

    def since_sent(self, classes, copies, pulled):
        """"same": these classes, and those in them, are as they came last; else SINCE or SINCE_ARRAYS. copies: {id of a class: a copy of it as a
        value's bundle has it}, for those of which this is not known. pulled: the value was pulled from here, so that the copy may be newer."""
        queue, seen, said = list(classes), set(), "same"
        while queue:
            cls = queue.pop()
            if cls in seen:
                continue
            seen.add(cls)
            came, before = self._came.get(cls, (None, None))
            state, others, _, has_arrays = self._state(cls, before)
            queue += others
            if came is not None and came == state:
                continue
            if (came is None or pulled) and self._is_as_copy(cls, copies.get(ID_OF[cls])):
                continue
            if has_arrays:
                return SINCE_ARRAYS
            said = SINCE
        return said

    def _is_as_copy(self, cls, copy):
        if copy is None:
            return False
        theirs, _, computed = pickled(copy, self._user_ns, self._chunks(), whole=copy)
        ours = pickled(cls, self._user_ns, self._chunks(), whole=cls, before=computed)[0]
        (own, buffers), (digest, others) = fingerprint(ours, again=True), fingerprint(theirs, again=True)
        return own == digest and len(buffers) == len(others) and all(a.view()[0] == b.view()[0] for a, b in zip(buffers, others))


class AtHome(ClassStates):
    """The classes that home has from ranks: a result of a rank must not undo what home has done to one. What home has defined stays as it is."""

    def __init__(self, user_ns):
        super().__init__(user_ns, reducers.Chunks)
        rebuild.on_sent = None

    def takes(self, cls, loading):
        if rebuild.is_own(cls):
            return False
        try:
            return super().takes(cls, loading)
        except rebuild.VariableConflict:
            name = cls.__qualname__
            text = f"the class {name} was changed at home and on a rank: home's stays (%pull {name} -r RANK fetches a rank's)"
            loading.say(text) if loading.say is not None else print(f"cellspan: {text}", file=sys.stderr)
            return False


def _of_both(cls, user_ns):
    name = cls.__qualname__
    text = f"the class {name} was changed at home and by this rank since home sent it: "
    if not name.isidentifier():
        return text + "`%push` of a variable with an object of it sends home's"
    return text + f"`%push {name}` sends home's" + (f", `%pull {name} -r RANK` fetches a rank's" if user_ns.get(name) is cls else "")
