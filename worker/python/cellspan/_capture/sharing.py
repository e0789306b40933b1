# SPDX-License-Identifier: BSD-3-Clause
"""Variables that share memory (a model and its optimizer) are sent together, so that they share it on the ranks, too. And which ones share it
is a part of their values: see Shares.

In all functions, seen: {name: Known} of what is checked for a cell; known: {name: Known} of all names; before: {name: version} before
the check.
"""

from __future__ import annotations

from .call_buffers import EACH_TIME
from .fingerprints import UNSURE

MANY = 2000  # arrays of one name; which of more are shared is not looked at


def ties(seen):
    """[[name, ...], ...]: groups of the names in {name: Known} that share memory."""
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


def others(seen, known, user_ns):
    """{name: Known} of other names that were sent before and that share memory with these: a rank that lacks one of these needs the
    others, too."""
    arrays = set().union(*(k.arrays for k in seen.values()))
    return {n: k for n, k in known.items() if arrays and n not in seen and n in user_ns and k.via is not None and _shares(k, arrays)}


def _shares(known, arrays):
    """Has it one of these arrays? Not if its own one at that address is gone."""
    if arrays.isdisjoint(known.arrays):
        return False
    known.forget_dead()
    return not arrays.isdisjoint(known.arrays)


def drop(partners, seen, wanted, before, named):
    """Takes out of `seen` and `wanted` those partners that need not be sent. named: arrays of names that must be."""
    for name in partners:
        arrays = seen[name].arrays.keys()
        # alone: it got another array, and its old address now belongs to a new array.
        alone = all(arrays.isdisjoint(k.arrays) for n, k in seen.items() if n != name)
        if alone or (seen[name].version == before.get(name) and not named & arrays):
            del seen[name], wanted[name]


class Shares:
    """Which arrays each name shared with others when its version began. Their content tells nothing of that: `target.weight = net.weight` ties
    two models, and a copy unties them, also if the weights are equal. So a name gets a new version, as of a change in place, if one of its
    arrays is another object than before, and other names share that one than shared the old one. Not those of MANY arrays, as a data set in a
    list: ranks could not tell within their time whether they have changed all of them, and that would be a conflict.

    known: {name: Known} of all names; versions: an iterator of new ones."""

    def __init__(self, known, user_ns, versions):
        self._known, self._user_ns, self._versions = known, user_ns, versions
        self._places = {}  # {name: its Known.arrays when they were looked at last}
        self._pairs = {}  # {name: {(place of an array, another name, the array's place there)}}

    def begin(self, name):
        """The name has a new version: what it shares now belongs to that."""
        self._places.pop(name, None)

    def look(self, seen, wanted):
        """Gives new versions to names of `seen`. Before that, returns the names that must be checked first: they shared what others have
        replaced, and may have replaced it, too. Adds these to `wanted`."""
        moved = [name for name, known in seen.items() if self._has_moved(name, known)]
        shared = [(other, name) for name in moved if name in self._places for _, other, _ in self._pairs.get(name, ())]
        more = {other: name for other, name in shared if other not in seen and self._is_sent(other)}
        wanted.update((other, f"shared memory with {name}") for other, name in more.items())
        if moved and not more:
            for name in [name for name in self._places if name not in self._known]:
                self._note(name, set(), {})
            holders = self._holders(seen, set().union(*(seen[name].arrays for name in moved)))
            for name in moved:
                self._look_at(name, seen[name], seen, holders)
        return list(more)

    def _has_moved(self, name, known):
        if len(known.arrays) > MANY:
            return False
        known.forget_dead(again=False)
        return self._places.get(name, None if name in self._pairs else {}) != known.arrays

    def _counts(self, name, seen):
        """May another name share what this one has?"""
        return (name in seen or self._is_sent(name)) and name in self._known and len(self._known[name].arrays) <= MANY

    def _is_sent(self, name):
        return name in self._known and name in self._user_ns and self._known[name].via is not None

    def _holders(self, seen, arrays):
        """{address: [(name, place), ...]} of those of these arrays that names have."""
        found = {}
        for name, known in self._known.items():
            if self._counts(name, seen) and _shares(known, arrays):
                for address in known.arrays.keys() & arrays:
                    found.setdefault(address, []).append((name, known.arrays[address]))
        return found

    def _look_at(self, name, known, seen, holders):
        pairs = {(place, other, there) for address, place in known.arrays.items() for other, there in holders.get(address, ()) if other != name}
        before = {pair for pair in self._pairs.get(name, ()) if self._counts(pair[1], seen)}
        unsure = {other for place, other, there in pairs | before if UNSURE in (place, there)}
        if name in self._places and any(pair[1] not in unsure for pair in pairs ^ before) and UNSURE not in known.arrays.values():
            known.version = next(self._versions)
        self._note(name, pairs, dict(known.arrays))

    def _note(self, name, pairs, places):
        before = self._pairs.pop(name, set())
        for place, other, there in before - pairs:
            self._pairs.get(other, set()).discard((there, name, place))
        for place, other, there in pairs - before:
            self._pairs.setdefault(other, set()).add((there, name, place))
        if pairs:
            self._pairs[name] = pairs
        if name in self._known:
            self._places[name] = places
        else:
            del self._places[name]


def partners(seen, known, user_ns, before, wanted, all_of_them):
    """Names that were sent before and that share memory with one that changed (all_of_them: with any that is checked), so that they
    must be sent again with it. Adds them to `wanted`."""
    for of in seen.values():
        of.forget_dead(again=False)
    changed = [n for n, k in seen.items() if all_of_them or k.version != before.get(n)]
    arrays = set().union(*(seen[n].arrays for n in changed))
    more = []
    for name, of in known.items():
        if name not in seen and name in user_ns and _shares(of, arrays):
            other = next(n for n in changed if not of.arrays.keys().isdisjoint(seen[n].arrays))
            wanted[name] = f"shares memory with {other}"
            more.append(name)
    return more


def keep_together(seen, before):
    """Warnings for names that share memory with a name that changed: they are sent to each rank that gets that one. Their version
    stays, since for other ranks they have not changed."""
    warnings, again = [], True
    changed = dict.fromkeys(n for n, k in seen.items() if k.version != before.get(n))  # those that changed come first
    while again:
        again = False
        for name, known in seen.items():
            if name in changed or not known.arrays:
                continue
            other = next((n for n in changed if seen[n].arrays and not known.arrays.keys().isdisjoint(seen[n].arrays)), None)
            if other is not None:
                changed[name] = None
                assigned = seen[other].since == seen[other].version
                why = "is new to the ranks" if other not in before else "home has assigned" if assigned else "changed"
                if not other.startswith(EACH_TIME):
                    warnings.append(f"{name} is sent again with {other}, which {why}: they share memory")
                again = True
    return warnings
