# SPDX-License-Identifier: BSD-3-Clause
"""The rules by which variables are sent, as a model in Python: what home and each rank must have after every step.

The model does not use cellspan. It has the values, and the rules of docs/guide.md, "What is sent to the ranks".
test_random.py makes random steps in a notebook and in the model, and compares the two.
"""

from __future__ import annotations

import copy


class Kind:
    """A kind of value: how cells write it, and what the model holds for it (something that == compares).

    number is a whole number that no step used before; rank is the text of an expression, so that ranks differ.
    """

    def __init__(self, new, made, change, changed, look="{name}", also=""):
        self.new = new  # a statement that assigns
        self.made = made  # what the model holds then
        self.change = change  # a statement that changes in place, or reads the name that it assigns
        self.changed = changed  # the model's value before and after
        self.look = look  # an expression that gives what the model holds
        self.also = also  # another name that shares memory with this one, so that the two are as one: cells name both


KINDS = {
    "number": Kind("{name} = {n}", lambda n: n, "{name} += {n}", lambda old, n: old + n),
    "list": Kind("{name} = [{n}]", lambda n: [n], "{name}.append({n})", lambda old, n: old + [n]),
    "rebound": Kind("{name} = [{n}]", lambda n: [n], "{name} = {name} + [{n}]", lambda old, n: old + [n]),
    # Pickles of equal sets of text differ between processes, for the hashes of text do.
    "set": Kind(
        "{name} = {{'item %d' % ({n} + k) for k in range(20)}}",
        lambda n: {"item %d" % (n + k) for k in range(20)},
        "{name}.add('more %d' % ({n}))",
        lambda old, n: old | {"more %d" % n},
    ),
    # Large enough to be mapped where it comes.
    "array": Kind(
        "{name} = __import__('numpy').full(40000, {n})",
        lambda n: [n, n],
        "{name}[-1] = {n}",
        lambda old, n: [old[0], n],
        "[int({name}[0]), int({name}[-1])]",
    ),
    "pair": Kind(
        "{name}, {name}_of = (lambda made: (made, [made, {n}]))(__import__('numpy').full(40000, {n}))",
        lambda n: [n, n, n, True],
        "{name}, {name}_of\n{name}_of[0][-1] = {n}",
        lambda old, n: [old[0], n, old[2], True],
        "[int({name}[0]), int({name}[-1]), {name}_of[1], {name}_of[0] is {name}]",
        "{name}_of",
    ),
    "function": Kind("def {name}():\n    return {n}", lambda n: n, None, None, "{name}()"),
}
NAMES = {"a": "number", "b": "number", "p": "list", "q": "rebound", "words": "set", "grid": "array", "mem": "pair", "fun": "function"}


def words(names):
    """What a cell writes that names all of them."""
    every = [name for one in names for name in (one, KINDS[NAMES[one]].also.format(name=one)) if name]
    return ", ".join(every)


class Own:
    """A variable of home. stamp: the number of its last assignment. pulled: it came from ranks, and nothing was assigned since.
    way: how its last value travelled, "captured" or "pushed" (None: it did not). fresh: it was assigned since it last travelled."""

    def __init__(self, value, stamp, pulled=False, way=None):
        self.value, self.stamp, self.pulled, self.way, self.fresh = value, stamp, pulled, way, True

    def looked_at(self):
        if self.fresh:
            self.way, self.fresh = None, False

    def captured(self):
        self.way = self.way or "captured"


class Held:
    """A variable of a rank. stamp and base: home's assignment and value when both were last in step (None: never were)."""

    def __init__(self, value, stamp=None, base=None):
        self.value, self.stamp, self.base = value, stamp, base

    @property
    def changed(self):
        return self.stamp is None or self.value != self.base


class Conflict(Exception):
    """Home changed names in place that ranks changed as well: args[0] has them."""


class World:
    """What home and the ranks hold."""

    def __init__(self):
        self.home = {}
        self.ranks = []
        self.deleted = set()  # names that home deleted since they were last sent
        self.stamp = 0

    # ---- home

    def assign(self, name, value, pulled=False):
        self.stamp += 1
        was = self.home.get(name)
        self.home[name] = Own(copy.deepcopy(value), self.stamp, pulled, was.way if was and not pulled else None)
        self.deleted.discard(name)

    def change(self, name, value):
        self.home[name].value = copy.deepcopy(value)

    def delete(self, name):
        if self.home.pop(name).way == "captured":
            self.deleted.add(name)

    def forget_home(self):
        """A new home, or %reset: ranks keep what they have."""
        self.home.clear()
        self.deleted.clear()

    # ---- ranks

    def size_to(self, n):
        """A world of n: the missing ranks are started, those above rest."""
        self.ranks += [{} for _ in range(n - len(self.ranks))]

    def lose(self, ranks):
        for rank in ranks:
            self.ranks[rank] = {}

    def stop(self):
        self.ranks = []

    def travel(self, names, ranks):
        """A cell that reads names, before it runs. Conflict: nothing has changed."""
        todo, conflicts = [], set()
        for name in (n for n in names if n in self.home and not self.home[n].pulled):
            own = self.home[name]
            own.looked_at()
            for rank in ranks:
                held = self.ranks[rank].get(name)
                if held is not None and held.stamp == own.stamp:
                    if own.value == held.base:
                        continue
                    if held.changed:
                        conflicts.add(name)
                todo.append((rank, name, own))
        if conflicts:
            raise Conflict(conflicts)
        for rank, name, own in todo:
            own.captured()
            self.ranks[rank][name] = Held(copy.deepcopy(own.value), own.stamp, copy.deepcopy(own.value))
        self.follow(ranks)

    def follow(self, ranks):
        """What home deleted, and a cell had taken to the ranks, goes from those that have not changed it."""
        for rank in ranks:
            for name in self.deleted:
                held = self.ranks[rank].get(name)
                if held is not None and not held.changed:
                    del self.ranks[rank][name]

    def offer(self, name, rank, sent):
        """A rank's cell may assign a name without reading it. sent: home's value goes along all the same, since it is small or
        nobody knows whether the cell comes to that; over the rank's own it goes only when home has assigned it since."""
        own, held = self.home.get(name), self.ranks[rank].get(name)
        if own is None or own.pulled:
            return
        own.looked_at()
        in_step = held is not None and held.stamp == own.stamp
        if sent and not (in_step and (held.changed or own.value == held.base)):
            own.captured()
            self.ranks[rank][name] = Held(copy.deepcopy(own.value), own.stamp, copy.deepcopy(own.value))

    def bind(self, name, rank, value, sent=False):
        """A rank has assigned a name without reading it, by whatever means: that is newer than what home has."""
        self.offer(name, rank, sent)
        own, held = self.home.get(name), self.ranks[rank].get(name)
        if own is not None and not own.pulled:
            self.ranks[rank][name] = Held(value, own.stamp, copy.deepcopy(own.value))
        elif held is not None:
            held.value = value
        else:
            self.ranks[rank][name] = Held(value)

    def capture(self, names, ranks):
        """--capture: home's values go, whatever ranks did to theirs. The ranks that lose something of their own by a change in
        place of home's, or by none."""
        losers = set()
        for name in names:
            own = self.home[name]
            own.pulled = False
            own.looked_at()
            for rank in ranks:
                held = self.ranks[rank].get(name)
                if held is not None and held.stamp == own.stamp:
                    if held.changed:
                        losers.add(rank)
                    elif held.value == own.value:
                        continue
                own.captured()
                self.ranks[rank][name] = Held(copy.deepcopy(own.value), own.stamp, copy.deepcopy(own.value))
        self.follow(ranks)
        return losers

    def push(self, names, ranks):
        for name in names:
            own = self.home[name]
            own.pulled, own.way, own.fresh = False, "pushed", False
            for rank in ranks:
                self.ranks[rank][name] = Held(copy.deepcopy(own.value), own.stamp, copy.deepcopy(own.value))
