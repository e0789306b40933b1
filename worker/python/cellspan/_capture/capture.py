# SPDX-License-Identifier: BSD-3-Clause
"""Finds out which of home's variables a cell needs on the ranks and whether they changed, and makes the bundle with them.

Each name has a version, which changes whenever a check finds that its value has changed. For a check, each name is pickled
alone, with its buffers outside of the pickle. The pickle and the small buffers are hashed. The large buffers are compared with
the bundle in which they were last sent. So the first check of an array costs only the pickle around it, and a later one reads
the array once. If a value's pickle differs each time, the value is sent each time. A list of ten million Python objects is slow:
it is pickled again for every cell that reads it. An array of ten million elements is not.

A new version comes from an assignment at home, or from a change in place (assigned.py). Before a change in place replaces a
value of a rank, the rank is asked whether it has changed its own. `since` is the version of the last assignment; 0: the value
was pulled from a rank. A change in place must be proven: if two pickles in a row differ, the name does not count as changed.

A name that the cell only assigns matters, too, if home has it: afterwards the ranks have a newer value, which home's must not
replace later. assigned() lists these names. Small values, and those that may not be assigned, are sent nevertheless, so that
the ranks have them if the cell fails before the assignment, or assigns them on some ranks only. Names whose values share memory (a
model and its optimizer) are sent together, so that they share it on the ranks, too.
"""

from __future__ import annotations

import functools
import itertools
import sys
import types

from .. import _link
from .._base.errors import is_a, near
from . import blame, only_read, reads, reducers, reloaded, resizing, sharing, vars_bundle, worlds
from .assigned import Assigned, is_reset
from .bindings import NOTHING
from .by_name import ANY
from .call_buffers import EACH_TIME, CallBuffers, is_group
from .fingerprints import SENT_MAX, Contents, Known, Sent, fingerprint, hashed, proven, size_of, unchanged
from .own_names import OWN_UNTIL_BOUND, is_own
from .rank_definitions import RankDefinitions
from .unseen import Unseen

SPARE = 64 << 10  # bytes; a larger value is not sent if the cell assigns its name anyway
TEXT_MAX = 4096  # characters or bytes; a shorter text is kept itself instead of a hash

MAY = "may be read"  # the reason that is shown if the name is not in the code, as with globals()[name]: see by_name.py
SIMPLE = (int, float, complex, bool, type(None))


class CaptureError(Exception):
    """A requested variable can't be sent; the text is for the user."""


class Capture:
    """The answers to CAPTURE and PACK for one namespace.

    limit: the most bytes of one bundle (default: CELLSPAN_CAPTURE_LIMIT or 4 GiB); hidden: more names that are never sent.
    """

    def __init__(self, user_ns, limit=None, hidden=()):
        self.user_ns = user_ns
        self.limit = _link.capture_limit() if limit is None else limit
        self.hidden = frozenset(hidden)
        self._known, self._submodules = {}, {}
        self._tied, self._writes = [], {}  # _writes: globals that functions assign which are sent with the cell
        self._assigned = []  # (name, version) of names that the last cell assigns and that are not sent
        self._versions = itertools.count(1)
        self._shares = sharing.Shares(self._known, user_ns, self._versions)
        self._changes = Assigned()
        self._call_buffers = CallBuffers(self._versions)
        self._newer = {}  # {name: home's version} of names that ranks have bound by themselves
        self._rank_definitions = RankDefinitions(self._known, user_ns, self._versions)
        self._unseen = Unseen(user_ns)
        self._deleted = {}  # names (in order) that were captured and that home has deleted
        self._pushing, self._forced, self._classes = False, (), {}  # _forced: as of vars_bundle.place(); _classes: {name: ids of those in it}
        self.values, self.lent = user_ns, None  # see lent.py: where names are looked up; the push() of values that is under way
        self.lists = set()  # names that the last cell reads and that are lists of all ranks' values
        self.imports = set()  # top-level modules that functions import which the last cell or call needs
        self.unsent = []  # rows of names that the last cell reads and whose new value can't be sent: CAPTURED in protocol/README.md
        self.refused = {}  # {name of a call's arguments: why they can't be sent}, until the call reports it
        self.cells = 0  # number of home's cells that have begun
        resizing.watch(self), only_read.watch()

    # ---- which

    def began(self, hidden=False):
        """A cell of home begins; hidden: a request that is not recorded in the history."""
        self.cells += 1
        self._changes.began()
        if hidden:
            self._unseen.began()

    def ran(self, code, ended, hidden=False):
        """A cell of home is over; ended: without an error. The text of a hidden one, which may be long, proves no assignment."""
        if hidden:
            self._unseen.ran()
        else:
            self._changes.ran(code, ended, self._known, self.user_ns)
            self._unseen.seen(code)
        if is_reset(code):
            self._forget(deletes=False)

    def names(self, code, transform=None, only=None, none=False, push=False):
        """What must be sent before the ranks run `code`: ([[name, version, size in bytes, why, since, how, assigned], ...], [warnings]).

        transform: IPython's transform_cell. only: take these names (a list, or comma-separated text) instead of analysing
        the code; functions, classes and modules that they need are added. If one of these is missing or can't be pickled, it
        is listed with a new version, and pack() says why it can't be sent. none: send nothing. push: for %push.
        """
        self._begin(transform, push)
        found = reads.analyse(code, transform)
        modules = [name for name in found.reads if self._is_module(name)] if found is not None else ()
        found = reads.analyse(code, transform, modules) if modules else found
        own = set(found.reads) if found is not None else ()
        if found is not None:
            self._rank_definitions.add_reads(found)
        explicit = [] if none else None if only is None else split_names(only)
        wanted = self._wanted(found, explicit)
        seen, warnings = self._check_names(wanted, explicit, found.before if found is not None and explicit is None else {})
        self._forced, self._classes = [number for name in explicit or () for number in self._classes.get(name, ())], {}
        never = {n for n, k in seen.items() if isinstance(k.failed, worlds.Reason) and explicit is None and n in own and n not in found.assigned}
        shown = [(n, k) for n, k in seen.items() if k.failed is None or explicit is not None or n in never]
        listed = [self._row(n, k, wanted[n], explicit) for n, k in shown]  # pack() fails if a rank needs one of `never`
        for name, known in seen.items():
            if known.failed is not None and name.startswith(EACH_TIME):
                self.refused[name] = known.failed
                raise CaptureError(f"a call was not sent: {known.failed}")
            if known.failed is not None and explicit is None and name not in never:
                self._note_unsent(name, known, wanted[name], name in own, warnings)
            elif push and known.failed is None:
                known.via = "pushed"  # even if the ranks have the value, so that no bundle is made
        if found is not None:
            listed += self._check_assigned(found.assigned, seen, explicit is not None)
            self._rank_definitions.record(found)
        return listed + self._tie(seen), warnings

    def function(self, call, size):
        """As names(), for a call (function, arguments, keyword arguments): (names, warnings, the pickled call as a bundle's bytes, what must
        live until the call is over). The bundle is None if it has more than `size` bytes beside its large buffers, or shares memory with
        variables that the function reads. CaptureError: the call can't be sent."""
        self._begin(None, False)
        pickled, why = self._pickled(call)
        if pickled is None:
            raise CaptureError(why)
        load, groups = vars_bundle.flat(pickled, size), []
        if load is None:
            groups, places = self._call_buffers.split(pickled) if pickled.size <= self.limit else ([], [])
            load = vars_bundle.flat(pickled, size, places) if groups else None
        if load is None:
            return [], [], None, None
        self._writes.update(pickled.writes)
        reads = self._rank_definitions.with_reads(pickled.reads)
        wanted = {n: f"read by {by}" for n, by in reads.items() if self._is_ours(n) and not self._is_list_of_ranks(n)}
        wanted.update(self._meant(reads, wanted))
        seen, warnings = self._check_names(wanted, None, {})
        listed = [self._row(n, k, wanted[n], None) for n, k in seen.items() if k.failed is None]
        for name, known in seen.items():
            if known.failed is not None:
                self._note_unsent(name, known, wanted[name], False, warnings)
        listed += self._check_assigned({}, seen, False)
        if pickled.arrays and any(not known.arrays.keys().isdisjoint(pickled.arrays) for known in seen.values()):
            return [], [], None, None
        listed += [[*row, _link.CAPTURED_READ] for row in groups]
        return listed + self._tie(seen), warnings, load, pickled if groups else None

    def digest(self, name):
        """Stands for the value of a name that names() or function() listed, apart from its large buffers."""
        return self._known[name].digest

    def _begin(self, transform, push):
        self._changes.read(self._known, transform)
        self._unseen.read(transform)
        self._forget()
        self._pushing, self._forced, self._classes = push, (), {}
        self._assigned, self._writes, self.lists, self.imports, self.unsent = [], {}, set(), set(), []

    def _tie(self, seen):
        """Notes which of these names share memory. Returns rows for others that share it with them."""
        others = sharing.others(seen, self._known, self.user_ns)
        self._tied = sharing.ties({**seen, **others})
        return [[n, k.version, k.size, "shares memory", k.since, _link.CAPTURED_TIED] for n, k in others.items()]

    def _note_unsent(self, name, known, why, in_text, warnings):
        """The name can't be sent. in_text: the cell's own text reads it. What was pulled from a rank is not sent by itself anyway."""
        warnings.append(f"{name} was not sent: {known.failed}")
        if known.since and not why.startswith("shares"):
            self.unsent.append([name, known.failed, in_text])

    def _row(self, name, known, why, explicit):
        how = _link.CAPTURED_READ
        if explicit is not None and (not why.startswith("read by") or set(vars_bundle.ids_of_classes([self.values[name]])) & {*self._forced}):
            how = _link.CAPTURED_PUSHED if self._pushing else _link.CAPTURED_NAMED
        elif known.pulled == known.version:
            how = _link.CAPTURED_PULLED
        elif why == MAY:
            how = _link.CAPTURED_COMPUTED
        return [name, known.version, known.size, why, known.since, how] + ([known.assigned] if known.assigned else [])

    def refuse(self, listed):
        """Raises CaptureError if a name that names() listed can't be sent to new ranks, or all of them together are too large."""
        listed = [row for row in listed if row[5] not in (_link.CAPTURED_TIED, _link.CAPTURED_COMPUTED)]  # these go only to ranks that have them
        names = [row[0] for row in listed]
        for name in names:
            failed = self._known[name].failed if name in self._known else None
            if failed is not None:
                raise CaptureError(f"{name} was not sent: {failed}" if name in self.values else failed)
        if sum(row[2] for row in listed) > self.limit:
            self._together(names)  # which may be less: values share memory

    def tied(self):
        """[[name, ...], ...]: groups of names that share memory, from the last result of names()."""
        return self._tied

    def deleted(self):
        """The names that home has deleted since they were captured."""
        return [*self._deleted, *self._call_buffers.gone()]

    def assigned(self, code=None, transform=None):
        """[[name, version], ...] of home's names that the ranks assign in names()'s last cell and that it did not list. After
        the cell, the ranks have newer values than these versions."""
        return [list(row) for row in self._assigned]

    def ranks_bound(self, names, transform=None):
        """Ranks have bound these names, which the cell's text did not show: home's values are older than theirs."""
        self._changes.read(self._known, transform)
        self._unseen.ranks_bind.update(names)
        for name in names:
            ours = self._is_ours(name) and not self._is_list_of_ranks(name)
            self._newer[name] = self._checked_before_assigned(name).version if ours else 0

    def newer(self):
        """[[name, version], ...]: home's versions of these names when ranks bound them; 0: home does not have it. Returned only once."""
        newer, self._newer = self._newer, {}
        return [list(row) for row in newer.items()]

    def _checked_before_assigned(self, name):
        """The Known of a name that ranks assign. Does not read a large value that no cell of home can have changed."""
        old = self._known.get(name)
        return old if self._is_large_as_it_was(old) else self._check_name(name, proof=hashed)[0]

    def _is_large_as_it_was(self, known):
        """Has no cell of home run since it was last checked? This saves another check of a large value. (If a callback has
        changed it nevertheless, this later gives an error about a conflict.)"""
        return known is not None and known.size > SPARE and known.cells == self.cells and known.is_proven()

    def _check_assigned(self, assigned, seen, explicit):
        """For names that the cell, or a function that is sent with it, assigns without reading them before: returns rows for those
        that must be sent, and adds the others to _assigned."""
        rows = []
        assigned = {**dict.fromkeys(self._writes, False), **assigned}
        self._unseen.ranks_bind.update(assigned)
        for name, certain in assigned.items():
            if name in seen or name in OWN_UNTIL_BOUND or not self._is_ours(name) or self._is_list_of_ranks(name):
                continue  # `_` is often a name for what nobody needs
            old = self._known.get(name) if certain and not explicit else None
            if self._is_large_as_it_was(old):
                self._assigned.append((name, old.version))
                continue
            known, _ = self._check_name(name, proof=hashed if certain else None)
            if certain and (explicit or known.failed is not None or known.size > SPARE or reducers.is_code(self.values[name])):
                self._assigned.append((name, known.version))
            elif known.failed is None and not explicit:
                how = _link.CAPTURED_SPARE if certain else _link.CAPTURED_MAYBE
                rows.append([name, known.version, known.size, "assigned by the cell", known.since, how])
        return rows

    def _wanted(self, found, explicit):
        if explicit is not None:
            return {name: "named by --capture" for name in explicit}
        if found is None:
            return {}
        wanted = {n: f"read in line {line}" for n, line in found.reads.items() if self._is_ours(n) and not self._is_list_of_ranks(n)}
        wanted.update(self._meant(found.reads, wanted))
        for name in wanted:
            if reducers.is_package(self.user_ns[name]):
                module = self.user_ns[name].__name__
                subs = reducers.imported_submodules(module, found.mentioned)
                self._submodules.setdefault(module, set()).update(subs)
        return wanted

    def _is_module(self, name):
        """Is it a variable that is the notebook's module?"""
        value = self.user_ns.get(name)
        return is_a(value, types.ModuleType) and vars(value) is self.user_ns

    def _meant(self, reads, wanted):
        """{name: why} of what ranks have from home, if code that has these reads may mean any name."""
        if ANY not in reads:
            return {}
        sent = [n for n, k in self._known.items() if k.via in ("captured", "pushed") and n not in wanted and not n.startswith(EACH_TIME)]
        return {n: MAY for n in sent if self._is_ours(n) and not self._is_list_of_ranks(n)}

    def _is_ours(self, name):
        if name not in self.values or name in self.hidden or is_own(name, self.values[name], self.user_ns) or self._unseen.hides(name):
            return False
        return name not in ("open", "display") or not reducers.is_of(self.values[name], ("io", "_io", "IPython"))

    def _none(self, *names):
        other = near(names[0], [name for name in self.values if isinstance(name, str) and self._is_ours(name) and name[:1] != "_"])
        return f"home has no variable {', '.join(names)}" + (f"; did you mean {other}?" if other and len(names) == 1 else "")

    def _is_list_of_ranks(self, name):
        """Was it pulled from all ranks, and is it still that list? Then it is not sent automatically."""
        known = self._known.get(name)
        it_is = known is not None and known.pulled == 0 and id(self.values[name]) == known.ident
        self.lists.update([name] if it_is else [])
        return it_is

    # ---- whether it changed

    def _check_names(self, wanted, explicit, bound):
        """{name: Known} of `wanted` and of the names that their code reads (added to `wanted`), and warnings.

        bound: {name: Bound of names that the cell binds itself before it uses this one}. If the name's code reads those, it finds the
        cell's values, so home's are not needed for it."""
        only_code = explicit is not None
        before = {name: known.version for name, known in self._known.items()}
        bound = {name: bound.get(name, NOTHING) for name in wanted}
        seen, inner, queue, partners = {}, {}, list(wanted), set()
        while queue:
            name = queue.pop(0)
            if name not in seen:
                seen[name], inner[name] = self._check_name(name, self._writes)
            own = bound.setdefault(name, NOTHING)
            for reader, function in inner[name].items():
                if reader in own or not self._is_ours(reader) or self._is_list_of_ranks(reader):
                    continue
                if reader in wanted and bound.get(reader, NOTHING) <= own:
                    continue
                if reader in wanted or not only_code or reducers.is_code(self.values[reader]):
                    wanted.setdefault(reader, f"read by {function}")
                    bound[reader] = bound.get(reader, own) & own
                    queue.append(reader)
            if not only_code and (more := self._meant(inner[name], wanted)):
                wanted.update(more)
                queue.extend(more)
            if not queue:
                more = self._shares.look(seen, wanted) or sharing.partners(seen, self._known, self.user_ns, before, wanted, only_code)
                partners.update(more)
                queue.extend(more)
        warnings = sharing.keep_together(seen, before)
        named = set().union(*(seen[n].arrays for n in explicit or () if n in seen))
        sharing.drop(partners, seen, wanted, before, named)
        return seen, warnings

    def _check_name(self, name, writes=None, proof=None):
        """The Known of a name, with a new version if its value changed, and {name: function} of the names that its code reads.
        Adds what its code assigns to `writes`. proof(buffer): with what, and where in it, a large buffer of a new value can be
        compared."""
        old = None if name.startswith(EACH_TIME) else self._known.get(name)
        if name not in self.values:
            known = self._known[name] = self._note(old, None, failed=self._none(name))
            return known, {}
        value = self.values[name]
        assigned = old is None or old.pulled == 0 or self._changes.has(name, value, old.ident)
        if not assigned and old is not None and old.by_name is not None and old.by_name() is value and not reducers.is_by_name(value):
            known, inner = old, {}
        else:
            known, inner = self._check_value(name, value, old, assigned, writes, proof)
        if known is not old:
            self._shares.begin(name)
            known.by_name = reducers.ref_by_name(value)
        if known is not old and old is not None and not assigned:
            known.since, known.via, known.pulled, known.assigned = old.since, old.via, old.pulled, old.assigned
        elif known.failed is not None and old is not None:
            known.via = old.via  # ranks may have the value that was sent before
        known.ident, known.cells = id(value), self.cells
        self._known[name] = known  # whole: an interrupt may come before and after
        self._changes.checked(name)
        return known, inner

    def _check_value(self, name, value, old, assigned, writes, proof):
        same = None if assigned else old  # the Known that the value may still match
        if value is self.user_ns:
            return self._note(same, None, failed="it is the notebook's namespace itself (name the values that are needed)"), {}
        simple = self._simple(value)
        if simple is not None:
            return self._note(same, simple, size=sys.getsizeof(value) if isinstance(value, (str, bytes)) else 8), {}
        pickled, why = self._pickled(value, name)
        if pickled is None:
            return self._note(same, why if isinstance(why, worlds.Reason) else None, failed=why), {}
        if writes is not None:
            writes.update(pickled.writes)
        try:
            return self._note_pickled(name, same, pickled, proof), self._rank_definitions.with_reads(pickled.reads)
        except Exception as error:  # torch's: a GPU is full, or can't be used any more; or one of the user's class
            return self._note(same, None, failed=vars_bundle.reason(error)), {}

    def _pickled(self, value, name=None):
        """(the pickled value, None), or (None, why it can't be sent). name: of the variable with this value."""
        try:
            pickled = reducers.Pickled(value, self.user_ns, self.limit, self._submodules)
            self.imports |= pickled.imports
            self._classes[name] = vars_bundle.ids_of_classes(pickled.by_value)
            return pickled, None
        except reducers.Overflow as error:
            return None, f"it has more than {vars_bundle.human(error.args[0])}, and CELLSPAN_CAPTURE_LIMIT is {vars_bundle.human(self.limit)}"
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return None, worlds.reason(error, blame.reason(error, value, name, self.user_ns))

    def refusal(self, value):
        """Why a value can't be sent; None: it can."""
        return self._pickled(value)[1]

    def _simple(self, value):
        """A digest of a value that needs no pickle, or None."""
        kind = type(value)
        if type(kind) is not type or (kind is int and value.bit_length() > 4096):  # a metaclass may have an __eq__ that fails; repr() may refuse an int
            return None
        if kind in SIMPLE or (kind in (str, bytes) and len(value) <= TEXT_MAX):
            return kind, repr(value)
        if kind is types.ModuleType and reducers.is_importable(value):
            return kind, value.__name__, tuple(sorted(self._submodules.get(value.__name__, ())))
        return None

    def _note(self, old, digest, size=0, failed=None):
        if old is not None and digest is not None and old.digest == digest:
            return old
        return Known(next(self._versions), digest, size=size, failed=failed)

    def _note_pickled(self, name, old, pickled, proof):
        digest, large = fingerprint(pickled)
        if old is not None and self._is_as_noted(name, old, pickled, digest, large):
            return old
        if old is not None and old.failed is None and old.digest != digest and self._pickles_differ(name, digest):
            old.note_arrays(pickled.arrays, sure=False)
            return old
        rows = [[buffer.key, size_of(buffer), *proven(buffer, proof), buffer.owner()] for buffer in large]
        return Known(next(self._versions), digest, rows, pickled.arrays, pickled.size)

    def _is_as_noted(self, name, old, pickled, digest, large):
        """Is it the value that is known, perhaps with classes of modules that were loaded again? Then notes where its arrays are now."""
        before = None if old.failed or old.digest == digest else reloaded.pickled_as_before(self.values[name], pickled.by_value, self._again)
        noted, rows = (digest, large) if before is None else fingerprint(before)
        if old.digest != noted or len(old.large) != len(rows) or not all(map(unchanged, old.large, rows)):
            return False
        old.note_arrays(pickled.arrays)
        if len(large) == len(rows):
            old.digest = digest
        for was, buffer in zip(old.large, rows):
            was[0], was[4] = buffer.key, buffer.owner()
        return True

    def _again(self, value):
        return reducers.Pickled(value, self.user_ns, self.limit, self._submodules)

    def _pickles_differ(self, name, digest):
        """Does the value's pickle differ each time? Then a different pickle does not prove a change."""
        try:
            again = self._again(self.values[name])
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - it pickled a moment ago
            return True
        return fingerprint(again)[0] != digest

    # ---- what came from ranks

    def pulled(self, names, fd=-1, size=0):
        """Ranks' values were bound to these names. fd: the bundle with the values of one rank; -1: they are lists of all ranks'
        values."""
        sent = Sent(fd, size) if fd >= 0 else None
        contents = Contents(sent, vars_bundle.contents(fd, size)[0]) if fd >= 0 else None
        for name in names:
            if not self._is_ours(name) or name.startswith(EACH_TIME):
                continue
            old = self._known.pop(name, None)
            if sent is None:
                known = self._known[name] = Known(next(self._versions), None)
                self._shares.begin(name)
                self._changes.checked(name)
                known.ident = id(self.user_ns[name])
            else:
                known, _ = self._check_name(name, proof=contents.find)
            known.since, known.via, known.pulled = 0, "pulled", 0 if sent is None else known.version
            known.assigned = 0 if old is None else max(old.since, old.assigned)
        self._shares.look({name: self._known[name] for name in names if name in self._known}, {})

    def let_go(self, array):
        """Before an array gets another size: see resizing.py."""
        for known in [*self._known.values(), *self._call_buffers.all_known()]:
            known.let_go(array)
        self._call_buffers.let_go(array)

    def lend(self, names):
        """The Knowns of these names before they get other values temporarily; for taken_back()."""
        return {name: self._known.get(name) for name in names}

    def taken_back(self, lent):
        """The names have their own values again. Ranks keep the temporary ones until home's own values change."""
        for name, was in lent.items():
            now = self._known.pop(name, None)
            if now is None or name not in self.user_ns:
                continue
            if was is not None:
                self._known[name] = was
            known, _ = self._check_name(name)
            self._shares.begin(name)
            known.version = now.version
            known.via = "pushed"

    # ---- the bundle

    def pack(self, names):
        """A bundle with a dict of these names (a list, or comma-separated text): (descriptor, size in bytes, bytes that were on a GPU).

        It is one pickle, so that shared objects are shared on the ranks, too. CaptureError names what can't be pickled, or lists the sizes if
        the total is over the limit."""
        names = sorted(split_names(names), key=is_group, reverse=True)
        pickled = self._together(names)
        fd, size, spans = vars_bundle.place(pickled, self._forced)
        self._remember(names, Sent(fd, size), spans)
        return fd, size, sum(size_of(s) for s in pickled.storages if s.device == "cuda")

    def _together(self, names):
        """These names in one pickle. May raise CaptureError, as pack()."""
        groups = {name: self._call_buffers.value(name) for name in names if is_group(name)}
        if None in groups.values():
            raise CaptureError("the call that needs it is over: run it again")
        missing = [n for n in names if n not in self.values and n not in groups]
        if missing:
            raise CaptureError(self._none(*missing))
        values = {name: groups[name][0] if name in groups else self.values[name] for name in names}
        for name, value in values.items():
            if value is self.user_ns:
                raise CaptureError(f"{name} was not sent: it is the notebook's namespace itself (name the values that are needed)")
        try:
            pickled = reducers.Pickled(values, self.user_ns, self.limit, self._submodules)
        except reducers.Overflow:
            raise CaptureError(self._too_large(names)) from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise CaptureError(self._blame(names, error)) from error
        if pickled.size > self.limit:
            raise CaptureError(self._too_large(names))
        return pickled

    def _remember(self, names, sent, spans):
        contents = Contents(sent, list(spans.values()))
        for name in names:
            known = self._known.get(name) or self._call_buffers.known(name)
            if known is not None:
                known.note_sent(sent, spans)
                if name in self.values and not known.is_proven():
                    known.find_sent(contents, functools.partial(self._again, self.values[name]))
                known.via = "pushed" if self._pushing else known.via or "captured"
        self._close_mostly_unused()

    def _close_mostly_unused(self):
        """Closes bundles of which most bytes are not needed for comparison any more, and those over SENT_MAX; keeps a digest of the rest."""
        live, everything = {}, [*self._known.values(), *self._call_buffers.all_known()]
        for known in everything:
            for row in known.large:
                if isinstance(row[2], Sent):
                    live.setdefault(row[2], {})[row[3]] = row[1]
        thin = {sent for sent, parts in live.items() if sum(parts.values()) < sent.size // 4} | {*list(live)[: max(0, len(live) - SENT_MAX)]}
        for known in everything if thin else ():
            for row in known.large:
                if row[2] in thin:
                    row[2] = row[2].digest(row[3], row[1])

    def _forget(self, deletes=True):
        """Forgets names that no longer exist. deletes: the ranks must delete those that were captured, too."""
        self._call_buffers.forget()
        for name in [n for n in self._known if n not in self.user_ns and (self.lent is None or n not in self.lent)]:
            if deletes and self._known[name].via == "captured" and not name.startswith(EACH_TIME):
                self._deleted[name] = True
            del self._known[name]
        for name in [n for n in self._deleted if n in self.user_ns]:
            del self._deleted[name]

    def _blame(self, names, error):
        for name in (name for name in names if not is_group(name)):
            try:
                reducers.Pickled(self.values[name], self.user_ns, self.limit, self._submodules)
            except KeyboardInterrupt:
                raise
            except BaseException as own:
                return f"{name} was not sent: {blame.reason(own, self.values[name], name, self.user_ns)}"
        return f"{', '.join(names)} can't be sent: {vars_bundle.reason(error)}"

    def _too_large(self, names):
        sizes = {name: self._size(name) for name in names if not is_group(name)}
        sizes["the call's arguments"] = sum(self._call_buffers.known(name).size for name in names if is_group(name))
        rows = sorted(sizes.items(), key=lambda item: -item[1])
        text = ", ".join(f"{name} {vars_bundle.human(size)}" for name, size in rows if size)
        total = vars_bundle.human(sum(sizes.values()))
        return f"this cell would send {total}, more than CELLSPAN_CAPTURE_LIMIT ({vars_bundle.human(self.limit)}): {text}"

    def _size(self, name):
        if (known := self._known.get(name)) is not None and known.size:
            return known.size
        try:
            return reducers.Pickled(self.values[name], self.user_ns, self.limit, self._submodules).size
        except reducers.Overflow as error:
            return error.args[0]


def split_names(names):
    """A list of names, from a list or from comma-separated text, without duplicates."""
    return list(dict.fromkeys(n.strip() for n in (names.split(",") if isinstance(names, str) else names) if n.strip()))
