# SPDX-License-Identifier: BSD-3-Clause
"""For reads.py: which names are assigned, now and at earlier moments of a walk through a text.

A walk often goes back to an earlier state, and wants to know what a name's state was when another was read. Copies of sets would take time
and memory for each name at each read. So the changes are recorded, and undone to go back.
"""

from __future__ import annotations

from bisect import bisect_right


class Bindings:
    """A set of keys, (scope, name) with None for the module's scope, that can go back. A moment is the number of a change: it stands for
    the state that was there after it. Moment 0 is the beginning, when there is no key."""

    def __init__(self):
        self._now = set()
        self._trail = []  # the changes that are not undone: (key, was it added?, its number)
        self._removals = []  # the places in it of those that remove a key
        self._places = [0]  # how long the trail was after the change with this number
        self._of_module = {}  # {name of the module's scope: the numbers of the changes that add or remove it, in turn}

    def __contains__(self, key):
        return key in self._now

    def add(self, key):
        if key not in self._now:
            self._now.add(key)
            self._trail.append((key, True, self._number(key)))

    def discard(self, key):
        if key in self._now:
            self._now.discard(key)
            self._removals.append(len(self._trail))
            self._trail.append((key, False, self._number(key)))

    def _number(self, key):
        """A new number for a change."""
        number = len(self._places)
        self._places.append(len(self._trail) + 1)
        if key[0] is None:
            self._of_module.setdefault(key[1], []).append(number)
        return number

    def mark(self):
        """Where undo() is to go back to."""
        return len(self._trail)

    def undo(self, mark):
        """Undoes the changes since mark(). Returns (the keys that they have added, those that they have removed)."""
        added, removed = set(), set()
        while len(self._trail) > mark:
            key, was_added, _ = self._trail.pop()
            if was_added:
                self._now.discard(key)
                (removed.discard if key in removed else added.add)(key)
            else:
                self._removals.pop()
                self._now.add(key)
                (added.discard if key in added else removed.add)(key)
            self._number(key)
        return added, removed

    def apply(self, added, removed):
        """Makes changes again that undo() has undone."""
        for key in removed:
            self.discard(key)
        for key in added:
            self.add(key)

    def moment(self):
        return self._trail[-1][2] if self._trail else 0

    def has_grown_since(self, moment):
        """Has it surely each key that it had then? No, if it has gone back beyond that moment, or lost a key."""
        place = self._places[moment]
        if not moment:
            return True
        return len(self._trail) >= place and self._trail[place - 1][2] == moment and (not self._removals or self._removals[-1] < place)

    def bound(self):
        """The names of the module's scope that are bound now."""
        return Bound(self._of_module, frozenset([self.moment()]))


class Bound:
    """The names of the module's scope that were bound at each of some moments."""

    def __init__(self, changes, moments):
        self._changes, self._moments = changes, moments

    def __contains__(self, name):
        changes = self._changes.get(name, ())
        return all(bisect_right(changes, moment) % 2 for moment in self._moments)

    def __le__(self, other):
        """Are all of them surely in the other one, too?"""
        return 0 in self._moments or other._moments <= self._moments

    def __and__(self, other):
        if self <= other:
            return self
        return other if other <= self else Bound(self._changes, self._moments | other._moments)


NOTHING = Bound({}, frozenset([0]))
