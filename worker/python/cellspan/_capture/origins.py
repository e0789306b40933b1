# SPDX-License-Identifier: BSD-3-Clause
"""Records what home sent to this rank, to find out later whether the rank has changed or deleted it.

To compare a value, its bundle is unpickled again and the result is pickled, as the rank's own value is: pickles of equal values
are the same within a process, but may differ between processes. Tensors of that bundle stay on the CPU. Large buffers are
compared with the mapped bundle, only where the rank has written to them. Those on a GPU are compared with a digest of when they
came (Arrived). If this takes too long or too much memory, the answer is unknown, which counts as changed.

Gradients are not sent, so no value that comes from home has any. A tensor that has one now counts as changed: replacing it would
silently undo the backward pass. Gradients that a tensor had when home pulled it are an exception.

For this, bundles are kept: small ones as bytes, others as a descriptor, whose memory all ranks of a node share.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
import types
import weakref

from .. import _link
from .._base.time_limit import TimeLimit, TooSlow
from . import arrays, class_states, mappings, only_read, rebuild, reducers, resizing, tensors, vars_bundle
from .class_states import Unknown
from .fingerprints import fingerprint, holds, is_on_device
from .memory_users import holders

LIMIT = 1.0  # seconds for all names of one question
BODY_MAX = 64 << 20  # bytes of a pickle, without its large buffers
SMALL = 64 << 10  # bytes; a bundle up to this size is kept as bytes
KEPT_MAX = 256  # number of larger bundles that are kept; each takes a descriptor
MORE = 64 << 10  # bytes by which the pickles of equal values may differ: equal texts may be one object in one value, several in the other
FACE = 16  # members of a container, or characters, that identify it
STEP = 16 << 20  # bytes compared at a time; between two steps the time limit is checked
EACH_TIME = "_cellspan_"  # names that begin so exist only during one cell

SHELLS = frozenset("In Out exit quit get_ipython open display".split())  # IPython's names in the namespace

CLASSES = (class_states.SINCE, class_states.SINCE_ARRAYS)
OWN = "the rank's own"  # why there is nothing to compare with: the rank has bound the name itself


class _Mark:
    """Says whether another value is this same object. Keeps nothing large alive."""

    def __init__(self, value):
        try:
            self._reference, self._face = weakref.ref(value), None
        except TypeError:
            self._reference, self._face = None, _face(value)

    def __call__(self, other):
        return _face(other) == self._face if self._reference is None else other is not None and other is self._reference()

    def let_go(self, array):
        if self._reference is not None and self._reference() is array:
            self._reference, self._face = None, _face(array)


def _face(value):
    """Some of an object's content, to distinguish it from another object that later has the same address. For objects without
    weak references."""
    kind, inner = type(value), None
    if kind is dict:
        inner = [id(part) for pair in itertools.islice(value.items(), FACE) for part in pair]
    elif kind in (list, tuple, set, frozenset):
        inner = [id(part) for part in itertools.islice(value, FACE)]
    elif kind in (str, bytes, bytearray):
        inner = [len(value), value[:FACE], value[-FACE:]]
    elif kind in (int, float, complex):
        inner = value
    return id(value), kind, inner


class Kept:
    """A bundle's bytes, as long as a name may be compared with them."""

    def __init__(self, fd, size):
        self.size = size
        self._fd = -1
        self._data = b""
        if size <= SMALL:
            self._data = os.pread(fd, size, 0)
        else:
            self._fd = os.dup(fd)
            self._owner = _link.owner(self._fd)

    @property
    def is_large(self):
        return self._fd >= 0

    def unpack(self, user_ns, loads):
        """Unpickles its dict again."""
        if self.is_large:
            return vars_bundle.unpack(self._fd, self.size, user_ns, loads=loads)
        fd = vars_bundle.create()
        try:
            os.write(fd, self._data)
            return vars_bundle.unpack(fd, self.size, user_ns, loads=loads)
        finally:
            os.close(fd)


class Arrived:
    """The fingerprint of a value of which parts are on this rank's GPU. size: bytes of its pickle; digest: as of fingerprint(); large:
    for each large buffer its digest, or None for one in host memory, which is compared with the bundle; computed: as of
    class_states.pickled()."""

    __slots__ = ("size", "digest", "large", "computed")

    def __init__(self, pickled, computed):
        self.size, self.computed = pickled.chunks.size, computed
        self.digest, buffers = fingerprint(pickled, again=True)
        self.large = [buffer.digest() if is_on_device(buffer) else None for buffer in buffers]

    def is_complete(self):
        """Is no bundle needed to compare?"""
        return None not in self.large


class Origin:
    """Where a name's value came from: kept: the bundle, or None; why: why there is none; arrived: its Arrived, or None; ident: the
    value's id(); pulled: home has pulled it from here; grads: the gradients that it had then, as {id: (weak reference, version)};
    by_name: a weak reference to it if reducers.is_by_name() then; held:
    the targets of its weak references, which home holds by other variables."""

    __slots__ = ("kept", "why", "arrived", "ident", "pulled", "grads", "by_name", "held")

    def __init__(self, kept, why, arrived, value, grads):
        self.kept, self.why, self.arrived, self.ident = kept, why, arrived, id(value)
        self.pulled, self.grads = grads is not None, grads or {}
        self.by_name, self.held = reducers.ref_by_name(value), ()

    def has_seen(self, grad):
        """Did it have this gradient then, with the same content?"""
        ref, version = self.grads.get(id(grad), (lambda: None, 0))
        return ref() is grad and grad._version == version


class Origins:
    """The names of one rank that came from home."""

    def __init__(self, user_ns):
        self.user_ns = user_ns
        self.deleted = {}  # names that were deleted because of home -> why
        self._of = {}  # name -> Origin
        self._classes = class_states.ClassStates(user_ns, lambda: _Chunks(BODY_MAX))
        self._watched = set()  # names that the rank has bound itself and that home has, too
        self._bound = set()  # names that the rank's cells have bound by any means; home may have them, too
        self._before = None  # marks of the names' values when the cell began; None: it has not begun
        self._held, self._of_cell = [], []  # targets of weak references: of the bundle that is being loaded; of all since the last cell's end
        self._left = []  # Origin.held of variables that were replaced; others of their bundles have the same list
        self._doubtful = {}  # name -> a _Mark of the value that the name had before the cell; None: it had none
        resizing.watch(self)
        only_read.watch()

    # ---- what comes and goes

    def holding(self):
        """A block that loads a bundle, and calls came(): what its weak references lead to is alive until its variables are replaced, or, if
        they are those of one cell, until that ends."""
        self._held = []
        return rebuild.holding(self._held)

    def came(self, names, fd=-1, size=0, grads=None, arrived=None):
        """These names now have the values of this bundle, at home as well. fd -1: its bytes are not here. grads: their grads_of(),
        if the values were here before, and home has pulled them; else None. arrived: their arrivals()."""
        names, arrived = [name for name in names if not name.startswith(EACH_TIME)], arrived or {}
        complete = {name for name in names if name in arrived and arrived[name].is_complete()}
        kept, why = self._keep(fd, size) if len(complete) < len(names) else (None, "")
        held = self._held if grads is None else []
        self._of_cell += held  # some may belong to names of one cell
        for name in names:
            before = self._of.get(name)
            if before is not None and before.held and grads is None:
                self._left.append(before.held)
            self._of[name] = Origin(None if name in complete else kept, why, arrived.get(name), self.user_ns.get(name), grads)
            self._of[name].held = held or (before.held if before is not None and grads is not None else ())
            self._watched.discard(name)
            self.deleted.pop(name, None)

    def grads_of(self, values):
        """The gradients of values that home pulls, which are not sent: {id: (weak reference, version)}."""
        if "torch" not in sys.modules:
            return {}
        found = reducers.Pickled(values, self.user_ns, chunks=_Chunks(BODY_MAX), make=reducers.GradPickler).grads
        return {id(grad): (weakref.ref(grad), grad._version) for grad in found}

    def arrivals(self, values):
        """{name: Arrived} of the values that have parts on this rank's GPU, for came(). Call it before anybody can change the values, or
        before they are packed for home: what changes later counts as changed. What takes too long is left out, and compared with the
        bundle."""
        found = {}
        if not tensors.gpu_used():
            return found
        with TimeLimit() as limit:
            try:
                limit.run(LIMIT, self._add_arrivals, found, values)
            except TooSlow:
                pass
        if limit.noted:
            raise KeyboardInterrupt
        return found

    def _add_arrivals(self, found, values):
        for name, value in values.items():
            self._add_arrival(found, name, value)

    def _add_arrival(self, found, name, value):
        try:
            pickled, _, computed = class_states.pickled(value, self.user_ns, _Chunks(BODY_MAX))
            if any(map(is_on_device, pickled.storages)):
                found[name] = Arrived(pickled, computed)
        except TooSlow:
            raise
        except BaseException:  # noqa: BLE001, S110 - the user's code pickles it
            pass

    def keeps(self, name, value):
        """Has the rank imported a different module under this name? Then it keeps its own module."""
        ours = self.user_ns.get(name)
        modules = isinstance(value, types.ModuleType) and isinstance(ours, types.ModuleType)
        return modules and name not in self._of and name in self._watched and value is not ours

    def _keep(self, fd, size):
        if fd < 0:
            return None, "it came from GPU to GPU"
        if vars_bundle.body_size(fd, size) > BODY_MAX:
            return None, f"its pickle has more than {vars_bundle.human(BODY_MAX)}"
        kept = Kept(fd, size)
        if kept.is_large and len({id(o.kept) for o in self._of.values() if o.kept is not None and o.kept.is_large}) >= KEPT_MAX:
            return None, f"too many large variables to compare: more than {KEPT_MAX}"
        return kept, ""

    def watch(self, names, doubtful=()):
        """A cell will bind these names, which home has, too: gone() must report them. doubtful: names that assigned() must
        report."""
        self._watched.update(name for name in names if name not in self._of)
        self._doubtful = {name: _Mark(self.user_ns[name]) if name in self.user_ns else None for name in doubtful}

    def let_go(self, array):
        """Before an array gets another size: see resizing.py."""
        for mark in filter(None, self._doubtful.values()):
            mark.let_go(array)
        if self._before is not None:
            resizing.let_go_of_marks(self._before[0], array)

    def begin(self):
        """The user's code begins: records the marks of all names."""
        self._before = _link.marks(self.user_ns)

    def assigned(self, ended):
        """The names that the cell has bound: those that now have another object, and doubtful names if the cell ended without an
        error (ended), so that it executed every statement that binds them."""
        held, self._doubtful = self._doubtful, {}
        before, self._before = self._before, None
        names = [
            name for name, is_it in held.items() if ended or is_it is None or name not in self.user_ns or not is_it(self.user_ns[name])
        ]
        if before is not None:
            names += [name for name in _link.rebound(self.user_ns, before) if name not in held and name.isidentifier()]
        self._bound.update(names)
        return names

    def gone(self):
        """The names that were deleted since the last call. Also frees bundles, and what holding() holds, that are not needed any more."""
        self._held, self._of_cell = [], []
        self._drop_held()  # before names are forgotten: it may be interrupted
        gone = [name for name in {*self._of, *self._watched, *self._bound} if name not in self.user_ns]
        for name in gone:
            self._of.pop(name, None)
            self._watched.discard(name)
        self._bound.difference_update(gone)
        for name, origin in self._of.items():
            if origin.kept is not None and origin.kept.is_large and id(self.user_ns[name]) != origin.ident:
                origin.kept, origin.why = None, OWN
        return gone

    def _drop_held(self):
        """Frees what only weak references of variables that are gone, or replaced, lead to."""
        for name, origin in self._of.items():
            if origin.held and (name not in self.user_ns or id(self.user_ns[name]) != origin.ident):
                self._left.append(origin.held)
                origin.held = ()
        until = time.monotonic() + LIMIT
        while self._left:
            self._let_go(self._left[-1], until)
            self._left.pop()

    def _let_go(self, held, until):
        """A variable of a bundle was replaced. The others of it keep only those targets of its weak references that they lead to. Those that
        it has no time for keep all, until they are replaced, too."""
        for name, origin in self._of.items():
            if origin.held is not held:
                continue
            reached, left = None, until - time.monotonic()
            if left <= 0:
                return
            with TimeLimit() as limit:
                try:
                    reached = limit.run(left, self._reached, self.user_ns[name])
                except TooSlow:
                    pass
            if limit.noted:
                raise KeyboardInterrupt
            if reached is not None:
                kept = set(map(id, reached))
                origin.held = [target for target in held if id(target) in kept]

    def _reached(self, value):
        """The targets of the weak references that a value leads to; None: they are not known."""
        made = []
        try:
            reducers.Pickled(value, self.user_ns, chunks=_Chunks(BODY_MAX), make=lambda *args: made.append(_Reaching(*args)) or made[0])
        except TooSlow:
            raise
        except BaseException:  # noqa: BLE001 - the user's code pickles it
            return None
        return made[0].targets if made else ()

    def home_deleted(self, names):
        """Home has deleted these names: deletes those that are unchanged. Those that the rank has changed are its own from now on, also if
        home has pulled them since."""
        for name, said in self.changed(names).items():
            origin = self._of.pop(name, None)
            self._left += [origin.held] if origin is not None and origin.held else []
            self._watched.discard(name)
            if said == "same" and not (origin and origin.pulled):
                self.deleted[name] = f"{name} was deleted at home, so it was deleted here, too; a variable sent by %push is kept"
                del self.user_ns[name]

    def home_cannot_send(self, names):
        """{name: why} of names of which home has a newer value that it can't send: deletes home's earlier values of these, if they are
        unchanged. gone() reports them. An error's text, if it is not known whether one is unchanged: code that reads it may compute with
        home's earlier value; else ""."""
        unknown = ""
        for name, said in self.changed(list(names)).items():
            if said == "same" and name in self._of and not self._of[name].pulled:
                self.deleted[name] = f"home's {name} can't be sent ({names[name]}), and its earlier value was deleted here"
                del self.user_ns[name]
            elif said not in ("same", "changed", "gone", *CLASSES):
                unknown = (f"home's {name} can't be sent ({names[name]}), and whether this rank has changed the earlier value is not known: {said}. "
                           f"Make it in a distributed cell, or --no-capture runs this one with what the ranks have")
        return unknown

    # ---- what was changed

    def compare(self, names):
        """{name: as of changed(), or "held: " and the rank's own names that use its memory}."""
        said = self.changed(names)
        for name in [name for name in said if said[name] in ("same", *CLASSES)]:
            if held := self.holders(name):
                said[name] = "held: " + ",".join(held) if said[name] == "same" else "changed"
        return said

    def holders(self, name, beside=()):
        """The names that the rank has bound itself and that use memory of this one's current value. beside: names to leave out."""
        came = {name for name, origin in self._of.items() if name in self.user_ns and origin.ident == id(self.user_ns[name])}
        own = [n for n in list(self.user_ns) if type(n) is str and n[:1] != "_" and n not in SHELLS and n not in came and n != name and n not in beside]
        return holders(name, self.user_ns, own)

    def changed(self, names):
        """{name: "same", "changed", "gone", one of CLASSES: only these classes of the notebook were changed, or why this is not known}."""
        if not names:
            return {}
        said, loaded = dict.fromkeys(names, f"comparing takes more than {LIMIT:.0f} s"), {}
        with TimeLimit() as limit:
            try:
                limit.run(LIMIT, self._say, said, loaded)
            except TooSlow:
                pass
        if limit.noted:
            raise KeyboardInterrupt
        return said

    def _say(self, said, loaded):
        places = {}
        for name in said:
            said[name] = self._said(name, loaded, places)
        for name in [name for name in said if said[name] in ("same", *CLASSES)]:
            if _shared(name, 0, places) != _shared(name, 1, places):
                said[name] = "changed"

    def _said(self, name, loaded, places):
        """places: {name: (arrays of the rank's value, of the one that home sent)}, to which it adds this one's; as of reducers.Pickler."""
        if name not in self.user_ns:
            return "gone"
        origin = self._of.get(name)
        if origin is None and isinstance(self.user_ns[name], types.ModuleType):
            return "same"  # imported here and at home; home may have imported more submodules; see keeps()
        value = self.user_ns[name]
        if origin is not None and origin.by_name is not None and origin.by_name() is value and not reducers.is_by_name(value):
            return "same"
        if origin is None or origin.why == OWN:
            return "changed"
        if origin.kept is None and not (origin.arrived and origin.arrived.is_complete()):
            return origin.why
        try:
            return self._compared(name, origin, loaded, places)
        except Unknown as error:
            return str(error)
        except TooSlow:
            raise
        except BaseException as error:  # noqa: BLE001 - the user's code pickles and unpickles it
            return vars_bundle.reason(error)

    def _compared(self, name, origin, loaded, places):
        with contextlib.nullcontext() if origin.pulled else arrays.as_they_came():
            size, digest, large, copies, computed, theirs = self._as_home_sent(name, origin, loaded)
            try:
                ours, classes, _ = class_states.pickled(self.user_ns[name], self.user_ns, _Chunks(2 * size + MORE), before=computed)
            except _Longer:
                return "changed"
        if theirs is not None:
            places[name] = ours.arrays, theirs
        own, buffers = fingerprint(ours, again=True)
        same = own == digest and len(buffers) == len(large) and all(map(origin.has_seen, ours.grads))
        if not same or not all(map(_equal, buffers, large)):
            return "changed"
        return self._classes.since_sent(classes, copies, origin.pulled)

    def _as_home_sent(self, name, origin, loaded):
        """(bytes of the pickle, its digest, [a large buffer, or the digest of one that is on a GPU], {id of a class: its copy},
        what objects in it had computed, its arrays as of reducers.Pickler or None) of the value that home sent."""
        arrived, kept = origin.arrived, origin.kept
        if arrived and arrived.is_complete():
            return arrived.size, arrived.digest, arrived.large, {}, arrived.computed, None
        if id(kept) not in loaded:
            made, held = [], []
            with rebuild.holding(held):
                values = kept.unpack(self.user_ns, lambda body, buffers: made.append(class_states.Again(body, buffers)) or made[0].load())
            loaded[id(kept)] = values, made[0].twins, held
        values, copies, _ = loaded[id(kept)]
        theirs, _, computed = class_states.pickled(values[name], self.user_ns, _Chunks(BODY_MAX))
        digest, large = fingerprint(theirs, again=True)
        if arrived and len(arrived.large) == len(large):
            large = [there or here for there, here in zip(arrived.large, large)]
        return theirs.chunks.size, digest, large, copies, computed, theirs.arrays


class _Reaching(reducers.GradPickler):
    """Collects the targets of the weak references that a value leads to."""

    def __init__(self, *args):
        super().__init__(*args)
        self.targets = []

    def reducer_override(self, obj):
        kind = type(obj)
        if kind is weakref.ref:
            self.targets.append(obj())
        elif kind in (weakref.WeakSet, weakref.WeakKeyDictionary):
            self.targets += list(obj)
        elif kind is weakref.WeakValueDictionary:
            self.targets += list(obj.values())
        return super().reducer_override(obj)


class _Longer(Unknown):
    """A pickle is longer than the one that it is compared with."""


class _Chunks(reducers.Chunks):
    """The destination of a pickle that may have at most `most` bytes."""

    def __init__(self, most):
        super().__init__()
        self._most = most

    def write(self, data):
        if self.size + len(data) > self._most:
            raise _Longer(f"its pickle has more than {vars_bundle.human(self._most)}")
        return super().write(data)


def _shared(name, side, places):
    """{(place of an array in a value, another name, the array's place there)}: what these values share. side: 0: the rank's, 1: home's. Names
    that share memory are asked about together."""
    if name not in places:
        return set()
    own = {address: at for at, (address, is_alive) in enumerate(places[name][side].items()) if holds(is_alive())}
    others = ((other, both[side]) for other, both in places.items() if other != name)
    return {(own[address], other, at) for other, found in others for at, address in enumerate(found) if address in own}


def _equal(ours, theirs):
    """Do two large buffers have the same bytes? theirs: a buffer, or its digest."""
    if isinstance(theirs, bytes):
        return ours.digest() == theirs
    (a, keep_a), (b, keep_b) = ours.view(), theirs.view()
    try:
        if a.nbytes != b.nbytes:
            return False
        return all(_link.equal(a[part], b[part]) for part in mappings.pieces(mappings.may_differ_between(a, b), STEP))
    finally:
        del a, b, keep_a, keep_b
