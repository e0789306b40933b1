"""Which of home's variables a cell needs on the ranks, whether they changed, and the parcel that carries them.

A name has a version, which changes whenever its value was found changed since it was last asked for. To find out, each
name is pickled by itself with its buffers outside; the pickle and the small buffers are hashed, the large buffers are
compared with where they stand in the parcel in which they last travelled. So the first look at an array costs nothing
but the pickle around it, and a later one reads it once. A pickle that comes out differently each time means that the
name is shipped each time, no more. What is slow: a list of ten million Python objects is pickled anew for every cell
that reads it; an array of them is not.

A version is of a value that home has assigned, or of a change in place (assigned.py); ranks that have changed theirs are
asked before a change in place goes over that. `since` is the version at which the name was assigned last; 0: it was pulled
from a rank. A change in place is proven: a name whose pickle differs in two looks in a row has not changed.

A name that the cell only assigns counts as well when home has it: the ranks that run the cell hold something newer than
home's value then, which must not be sent over it later. assigned() tells these. What is small, or not assigned for
certain, is sent nevertheless, so that the ranks have it when the cell fails before, or assigns it on some ranks only.

Names whose values share memory (a model and its optimizer) travel together, so that they share it on the ranks too.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import types

from .. import _link
from . import parcel, reads, reducers
from .assigned import Assigned, is_reset
from .known import Known, Sent, fingerprint, found_in, hashed, size_of, unchanged

LIMIT = 4 << 30  # bytes of one capture; CELLSPAN_CAPTURE_LIMIT overrides it
SPARE = 64 << 10  # bytes; a value over this is not sent when the cell assigns its name anyway
TEXT_MAX = 4096  # characters or bytes of a text that is kept as it is instead of being hashed

# IPython's and Python's own, which every worker has for itself.
OWN = frozenset(
    "In Out _ __ ___ _i _ii _iii _ih _oh _dh _sh exit quit get_ipython"
    " __name__ __doc__ __package__ __loader__ __spec__ __builtin__ __builtins__ __annotations__ __session__".split()
)
NUMBERED = re.compile(r"_i\d+$")
EACH_TIME = "_cellspan_"  # names that begin so are gone from the ranks once they were used: they are never known there
SIMPLE = (int, float, complex, bool, type(None))


class CaptureError(Exception):
    """What was asked for can't travel; the text is for the user."""


class Capture:
    """The answers to CAPTURE and PACK for one namespace.

    limit: the most bytes of one parcel (default: CELLSPAN_CAPTURE_LIMIT or 4 GiB); hidden: more names that never travel.
    """

    def __init__(self, user_ns, limit=None, hidden=()):
        self.user_ns = user_ns
        self.limit = read_limit("CELLSPAN_CAPTURE_LIMIT", LIMIT) if limit is None else limit
        self.hidden = OWN | set(hidden)
        self._known = {}
        self._submodules = {}
        self._tied = []
        self._assigned = []  # (name, version): what the last cell assigns anyway and is not sent
        self._writes = {}  # globals that the functions assign that travel with the cell
        self._versions = itertools.count(1)
        self._changes = Assigned()
        self._newer = {}  # {name: version} of what ranks have bound by themselves since
        self._theirs = {}  # {function or class of a cell on ranks: (the names that its code reads, version when it came)}
        self._deleted = {}  # names (in order) that were captured and home has deleted
        self._pushing = False
        self.refused = {}  # why what a call brings was not sent, until the call says so
        self._cells = 0  # home's that have begun

    # ---- which

    def began(self):
        """A cell of home begins."""
        self._cells += 1
        self._changes.began()

    def ran(self, code, ended):
        """A cell of home is over; ended: without an error."""
        self._changes.ran(code, ended, self._known, self.user_ns)
        if is_reset(code):
            self._forget(deletes=False)

    def names(self, code, transform=None, only=None, none=False, push=False):
        """What must travel before the ranks run `code`: ([[name, version, size in bytes, why, since, how], ...], [warnings]).

        transform: IPython's transform_cell. only: instead of looking, these names (a list, or text with commas); code
        that they need (functions, classes, modules) comes along. A name of these that is missing or does not pickle is
        listed with a new version, and pack() says why it can't be sent. none: nothing is to travel. push: for %push.
        """
        self._changes.read(self._known, transform)
        self._forget()
        self._pushing = push
        self._assigned, self._writes = [], {}
        found = reads.analyse(code, transform)
        if found is not None:
            self._follow_theirs(found)
        explicit = [] if none else None if only is None else split_names(only)
        wanted = self._wanted(found, explicit)
        seen, warnings = self._look(wanted, explicit)
        listed = [
            self._row(n, k, wanted[n], explicit) for n, k in seen.items() if k.failed is None or explicit is not None
        ]
        for name, known in seen.items():
            if known.failed is not None and name.startswith(EACH_TIME):
                self.refused[name] = known.failed
                raise CaptureError(f"a call was not sent: {known.failed}")
            if known.failed is not None and explicit is None:
                warnings.append(f"{name} was not sent: {known.failed}")
            elif push and known.failed is None:
                known.via = "pushed"  # also where the ranks have the value, so that no parcel is made
        if found is not None:
            listed += self._look_at_assigned(found, seen, explicit is not None)
        sharing = self._sharing(seen)
        listed += [[n, k.version, k.size, "shares memory", k.since, _link.CAPTURED_TIED] for n, k in sharing.items()]
        self._tied = self._ties({**seen, **sharing})
        return listed, warnings

    def _sharing(self, seen):
        """{name: Known} of other names that were sent before and share memory with these: a rank that lacks one of these
        needs them too."""
        arrays = set().union(*(k.arrays for k in seen.values()))
        return {
            n: k
            for n, k in self._known.items()
            if arrays and n not in seen and n in self.user_ns and k.via is not None and arrays.intersection(k.arrays)
        }

    def _row(self, name, known, why, explicit):
        how = _link.CAPTURED_READ
        if explicit is not None and not why.startswith("read by"):
            how = _link.CAPTURED_PUSHED if self._pushing else _link.CAPTURED_NAMED
        elif known.pulled == known.version:
            how = _link.CAPTURED_PULLED
        return [name, known.version, known.size, why, known.since, how]

    def refuse(self, listed):
        """CaptureError for a name that names() listed and pack() could not send."""
        for name in (row[0] for row in listed):
            failed = self._known[name].failed if name in self._known else None
            if failed is not None:
                raise CaptureError(f"{name} was not sent: {failed}" if name in self.user_ns else failed)

    def tied(self):
        """[[name, ...], ...]: of the names that names() gave last, those that share memory."""
        return self._tied

    def deleted(self):
        """The names that home has deleted since they were captured."""
        return list(self._deleted)

    def _ties(self, seen):
        groups = []
        for name, known in seen.items():
            arrays, names = set(known.arrays), [name]
            if not arrays:
                continue
            for group in [g for g in groups if g[0] & arrays]:
                groups.remove(group)
                arrays, names = arrays | group[0], group[1] + names
            groups.append((arrays, names))
        return [names for _, names in groups if len(names) > 1]

    def assigned(self, code=None, transform=None):
        """[[name, version], ...] of home's names that the ranks assign in the cell that names() was last asked about, and
        that it did not list: when the cell has run, the ranks hold something newer than these versions."""
        return [list(row) for row in self._assigned]

    def ranks_bound(self, names, transform=None):
        """Ranks have bound these names, of which the cell's text did not tell: home's values are older than theirs."""
        self._changes.read(self._known, transform)
        for name in names:
            if self._is_ours(name) and not self._is_list_of_ranks(name):
                self._newer[name] = self._looked_at_before_assigned(name).version

    def newer(self):
        """[[name, version], ...]: what home had of these names when ranks bound them. It is told once."""
        newer, self._newer = self._newer, {}
        return [list(row) for row in newer.items()]

    def _looked_at_before_assigned(self, name):
        """The Known of a name that ranks assign. A large value is not read when no cell of home can have changed it."""
        old = self._known.get(name)
        return old if self._is_large_as_it_was(old) else self._look_at(name, proof=hashed)[0]

    def _is_large_as_it_was(self, known):
        """Whether no cell of home has run since it was looked at, which saves another look at a large value. (A callback may have
        changed it all the same: then what ranks assign is refused later, as a conflict.)"""
        return known is not None and known.size > SPARE and known.cells == self._cells and known.is_proven()

    def _follow_theirs(self, found):
        """Adds to the reads of a cell what those functions and classes read that it uses and that cells on ranks have defined;
        notes what it defines."""
        queue = list(found.reads)
        for name in queue:
            inner, since = self._theirs.get(name, ((), 0))
            known = self._known.get(name)
            if known is not None and known.since > since and name in self.user_ns:
                continue  # home has defined it anew
            for other in inner:
                if other not in found.reads and not found.assigned.get(other):
                    found.reads[other] = found.reads[name]
                    queue.append(other)
        for name in found.assigned:
            self._theirs.pop(name, None)
        for name, inner in found.functions.items():
            self._theirs[name] = (inner, next(self._versions))

    def _look_at_assigned(self, found, seen, explicit):
        """Rows for the names that the cell, or a function that travels with it, assigns without reading them before, and
        that are to be sent; the others go into _assigned."""
        rows = []
        for name, certain in {**dict.fromkeys(self._writes, False), **found.assigned}.items():
            if name in seen or not self._is_ours(name) or self._is_list_of_ranks(name):
                continue
            old = self._known.get(name) if certain and not explicit else None
            if self._is_large_as_it_was(old):
                self._assigned.append((name, old.version))
                continue
            known, _ = self._look_at(name, proof=hashed if certain else None)
            if certain and (explicit or known.failed is not None or known.size > SPARE or is_code(self.user_ns[name])):
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
        wanted = {
            n: f"read in line {line}"
            for n, line in found.reads.items()
            if self._is_ours(n) and not self._is_list_of_ranks(n)
        }
        for name in wanted:
            if reducers.is_package(self.user_ns[name]):
                module = self.user_ns[name].__name__
                subs = reducers.imported_submodules(module, found.mentioned)
                self._submodules.setdefault(module, set()).update(subs)
        return wanted

    def _is_ours(self, name):
        if name not in self.user_ns or name in self.hidden or NUMBERED.match(name):
            return False
        module = getattr(self.user_ns[name], "__module__", None)
        return not (name in ("open", "display") and isinstance(module, str) and module.split(".")[0] in ("io", "_io", "IPython"))

    def _is_list_of_ranks(self, name):
        """Was it pulled from all ranks, and is it still that list? Then it does not travel by itself."""
        known = self._known.get(name)
        return known is not None and known.pulled == 0 and id(self.user_ns[name]) == known.ident

    # ---- whether it changed

    def _look(self, wanted, explicit):
        """{name: Known} of `wanted` and of what its code reads (added to `wanted`), and warnings."""
        only_code = explicit is not None
        before = {name: known.version for name, known in self._known.items()}
        seen, queue, partners = {}, list(wanted), set()
        while queue:
            name = queue.pop(0)
            if name in seen:
                continue
            seen[name], inner = self._look_at(name, self._writes)
            for reader, function in inner.items():
                if reader in wanted or not self._is_ours(reader) or self._is_list_of_ranks(reader):
                    continue
                if not only_code or is_code(self.user_ns[reader]):
                    wanted[reader] = f"read by {function}"
                    queue.append(reader)
            if not queue:
                more = self._partners(seen, before, wanted, only_code)
                partners.update(more)
                queue.extend(more)
        warnings = self._keep_together(seen, before)
        named = set().union(*(seen[n].arrays for n in explicit or () if n in seen))
        for name in partners:
            arrays = set(seen[name].arrays)
            # Alone: it has been given another array, and a new one stands where its old one was.
            alone = not any(arrays.intersection(k.arrays) for n, k in seen.items() if n != name)
            if alone or (seen[name].version == before.get(name) and not named & arrays):
                del seen[name], wanted[name]
        return seen, warnings

    def _look_at(self, name, writes=None, proof=None):
        """The Known of a name, renewed when its value changed, and {name: function} of what its code reads; what it
        assigns is added to `writes`. proof(buffer): what a large buffer of a new value is compared with, and where in it."""
        old = None if name.startswith(EACH_TIME) else self._known.get(name)
        if name not in self.user_ns:
            return self._note(name, old, None, failed=f"home has no variable {name}"), {}
        value = self.user_ns[name]
        assigned = old is None or old.pulled == 0 or self._changes.has(name, value, old.ident)
        known, inner = self._look_at_value(name, value, old, assigned, writes, proof)
        self._changes.looked_at(name)
        known.ident, known.cells = id(value), self._cells
        if known is not old and old is not None and not assigned:
            known.since, known.via, known.pulled = old.since, old.via, old.pulled
        return known, inner

    def _look_at_value(self, name, value, old, assigned, writes, proof):
        same = None if assigned else old  # what it may be found to be still
        if value is self.user_ns:
            return self._note(name, same, None, failed="it is the notebook's namespace itself"), {}
        simple = self._simple(value)
        if simple is not None:
            return self._note(name, same, simple, size=sys.getsizeof(value) if isinstance(value, (str, bytes)) else 8), {}
        pickled, why = self._pickled(value)
        if pickled is None:
            return self._note(name, same, None, failed=why), {}
        if writes is not None:
            writes.update(pickled.writes)
        return self._note_pickled(name, same, pickled, proof), pickled.reads

    def _pickled(self, value):
        """(what travels of the value, None), or (None, why it can't)."""
        try:
            return reducers.Pickled(value, self.user_ns, self.limit, self._submodules), None
        except reducers.Overflow as error:
            return None, f"it has more than {parcel.human(error.args[0])}, and CELLSPAN_CAPTURE_LIMIT is {parcel.human(self.limit)}"
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return None, parcel.reason(error)

    def refusal(self, value):
        """Why a value can't travel; None: it can."""
        return self._pickled(value)[1]

    def _simple(self, value):
        """A digest of what needs no pickle, or None."""
        kind = type(value)
        if kind in SIMPLE or (kind in (str, bytes) and len(value) <= TEXT_MAX):
            return kind, repr(value)
        if kind is types.ModuleType and reducers.is_importable(value):
            return kind, value.__name__, tuple(sorted(self._submodules.get(value.__name__, ())))
        return None

    def _note(self, name, old, digest, size=0, failed=None):
        if old is not None and failed is None and old.digest == digest:
            return old
        self._known[name] = Known(next(self._versions), digest, size=size, failed=failed)
        return self._known[name]

    def _note_pickled(self, name, old, pickled, proof):
        digest, large = fingerprint(pickled)
        same = old is not None and old.digest == digest and len(old.large) == len(large)
        if same and all(unchanged(was, buffer) for was, buffer in zip(old.large, large)):
            old.arrays = pickled.arrays
            for was, buffer in zip(old.large, large):
                was[0] = buffer.key
            return old
        if old is not None and old.failed is None and old.digest != digest and self._is_restless(name, digest):
            old.arrays = pickled.arrays
            return old
        rows = [[buffer.key, size_of(buffer), *(proof(buffer) if proof else (None, 0))] for buffer in large]
        self._known[name] = Known(next(self._versions), digest, rows, pickled.arrays, pickled.size)
        return self._known[name]

    def _is_restless(self, name, digest):
        """Does the value pickle differently each time? Then a new look proves no change."""
        try:
            again = reducers.Pickled(self.user_ns[name], self.user_ns, self.limit, self._submodules)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - it pickled a moment ago
            return True
        return fingerprint(again)[0] != digest

    # ---- what came from ranks

    def pulled(self, names, fd=-1, size=0):
        """Ranks' values were bound to these names. fd: the parcel in which one rank's came; -1: they are lists of all ranks'
        values."""
        sent = Sent(fd, size) if fd >= 0 else None
        spans = parcel.contents(fd, size)[0] if fd >= 0 else ()
        for name in names:
            if not self._is_ours(name) or name.startswith(EACH_TIME):
                continue
            if sent is None:
                self._known[name] = Known(next(self._versions), None)
                self._changes.looked_at(name)
                self._known[name].ident = id(self.user_ns[name])
            else:
                self._known.pop(name, None)
                self._look_at(name, proof=lambda buffer: found_in(sent, spans, buffer))
            known = self._known[name]
            known.since, known.via, known.pulled = 0, "pulled", 0 if sent is None else known.version

    def lent(self, names):
        """What is known of these names before they stand for other values for a while: for taken_back()."""
        return {name: self._known.get(name) for name in names}

    def taken_back(self, lent):
        """The names have their own values again. Ranks have what they were lent; it stays there until home's own change."""
        for name, was in lent.items():
            now = self._known.pop(name, None)
            if now is None or name not in self.user_ns:
                continue
            if was is not None:
                self._known[name] = was
            known, _ = self._look_at(name)
            known.version = now.version
            known.via = "pushed"

    # ---- what shares memory

    def _partners(self, seen, before, wanted, all_of_them):
        """Names that were sent before and share memory with one that changed (or with any that is looked at), and so must be
        sent again with it."""
        changed = [n for n, k in seen.items() if all_of_them or k.version != before.get(n)]
        arrays = set().union(*(seen[n].arrays for n in changed))
        more = []
        for name, known in self._known.items():
            if name not in seen and name in self.user_ns and arrays.intersection(known.arrays):
                other = next(n for n in changed if seen[n].arrays & known.arrays)
                wanted[name] = f"shares memory with {other}"
                more.append(name)
        return more

    def _keep_together(self, seen, before):
        """Warnings for what shares memory with a name that changed: where that goes to a rank, this goes too. Its version stays,
        for it has not changed where nothing goes."""
        warnings, again = [], True
        changed = dict.fromkeys(n for n, k in seen.items() if k.version != before.get(n))  # those that changed come first
        while again:
            again = False
            for name, known in seen.items():
                if name in changed or not known.arrays:
                    continue
                other = next((n for n in changed if seen[n].arrays and known.arrays & seen[n].arrays), None)
                if other is not None:
                    changed[name] = None
                    assigned = seen[other].since == seen[other].version
                    why = "is new to the ranks" if other not in before else "home has assigned" if assigned else "changed"
                    warnings.append(f"{name} is sent again with {other}, which {why}: they share memory")
                    again = True
        return warnings

    # ---- the parcel

    def pack(self, names):
        """A parcel with a dict of these names (a list, or text with commas): (descriptor, size in bytes, how many of them lay on a GPU).

        One pickle, so that what the values share they share on the ranks. CaptureError names what does not pickle, or
        lists the sizes when all together are over the limit.
        """
        names = split_names(names)
        missing = [n for n in names if n not in self.user_ns]
        if missing:
            raise CaptureError(f"home has no variable {', '.join(missing)}")
        values = {name: self.user_ns[name] for name in names}
        for name, value in values.items():
            if value is self.user_ns:
                raise CaptureError(f"{name} was not sent: it is the notebook's namespace itself")
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
        fd, size, spans = parcel.place(pickled)
        self._remember(names, Sent(fd, size), spans)
        return fd, size, sum(size_of(s) for s in pickled.storages if s.device == "cuda")

    def _remember(self, names, sent, spans):
        for name in names:
            known = self._known.get(name)
            for row in known.large if known else ():
                offset, size = spans.get(row[0], (0, -1))
                row[2], row[3] = (sent, offset) if size == row[1] else (None, 0)
            if known is not None:
                known.via = "pushed" if self._pushing else known.via or "captured"
        self._release_thin()

    def _release_thin(self):
        """Lets go of parcels most of whose bytes nobody compares with any more; of what is left in them a digest is kept."""
        live = {}
        for known in self._known.values():
            for row in known.large:
                if isinstance(row[2], Sent):
                    live.setdefault(row[2], {})[row[3]] = row[1]
        thin = {sent for sent, parts in live.items() if sum(parts.values()) < sent.size // 4}
        for known in self._known.values() if thin else ():
            for row in known.large:
                if row[2] in thin:
                    row[2] = row[2].digest(row[3], row[1])

    def _forget(self, deletes=True):
        """Names that are no more. deletes: those that were captured go from the ranks as well."""
        for name in [n for n in self._known if n not in self.user_ns]:
            if deletes and self._known[name].via == "captured" and not name.startswith(EACH_TIME):
                self._deleted[name] = True
            del self._known[name]
        for name in [n for n in self._deleted if n in self.user_ns]:
            del self._deleted[name]

    def _blame(self, names, error):
        for name in names:
            try:
                reducers.Pickled(self.user_ns[name], self.user_ns, self.limit, self._submodules)
            except KeyboardInterrupt:
                raise
            except BaseException as own:
                return f"{name} was not sent: {parcel.reason(own)}"
        return f"{', '.join(names)} can't be sent: {parcel.reason(error)}"

    def _too_large(self, names):
        sizes = {name: self._size(name) for name in names}
        rows = sorted(sizes.items(), key=lambda item: -item[1])
        text = ", ".join(f"{name} {parcel.human(size)}" for name, size in rows)
        total = parcel.human(sum(sizes.values()))
        return f"this cell would send {total}, more than CELLSPAN_CAPTURE_LIMIT ({parcel.human(self.limit)}): {text}"

    def _size(self, name):
        known = self._known.get(name)
        if known is not None and known.size:
            return known.size
        try:
            return reducers.Pickled(self.user_ns[name], self.user_ns, self.limit, self._submodules).size
        except reducers.Overflow as error:
            return error.args[0]


def split_names(names):
    """A list of names from one, or from text with commas."""
    if isinstance(names, str):
        names = names.split(",")
    return list(dict.fromkeys(n.strip() for n in names if n.strip()))


def is_code(value):
    """Whether a value is what code is made of: functions, classes, modules."""
    return isinstance(value, (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)) or (
        callable(value) and isinstance(getattr(value, "__wrapped__", None), types.FunctionType)
    )


def read_limit(variable, default):
    """A size in bytes from the environment: "4294967296", "512M", "4 GiB"; the default where it is unset or unreadable."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", os.environ.get(variable, ""), re.IGNORECASE)
    if match is None:
        return default
    return int(float(match.group(1)) * 1024 ** " KMGT".index(match.group(2).upper() or " "))
