# SPDX-License-Identifier: BSD-3-Clause
"""The functions and classes that cells on ranks have defined. Home does not have them, but it must
send its variables that their code reads."""

from __future__ import annotations

from .bindings import NOTHING


class RankDefinitions:
    """known, user_ns, versions: as in Capture."""

    def __init__(self, known, user_ns, versions):
        self._known, self._user_ns, self._versions = known, user_ns, versions
        self._of = {}  # {function or class: (names that its code reads, version at that time)}

    def add_reads(self, found):
        """found: the Read of a cell on ranks. Adds what the functions and classes that it uses read to its reads."""
        queue = list(found.reads)
        for name in queue:
            for other in self._read_by(name):
                if other not in found.reads and other not in found.before.get(name, NOTHING):
                    found.reads[other], found.before[other] = found.reads[name], found.before.get(name, NOTHING)
                    queue.append(other)

    def record(self, found):
        """Records what the cell defines. Home's own values of these names must have their versions already: they are older."""
        for name in found.assigned:
            self._of.pop(name, None)
        for name, inner in found.functions.items():
            self._of[name] = (inner, next(self._versions))

    def with_reads(self, reads):
        """What a function of home reads, {name: function}, and what functions and classes of ranks among these names read."""
        if self._of.keys().isdisjoint(reads):
            return reads
        reads = dict(reads)
        queue = list(reads)
        for name in queue:
            for other in self._read_by(name):
                if other not in reads:
                    reads[other] = name
                    queue.append(other)
        return reads

    def _read_by(self, name):
        inner, since = self._of.get(name, ((), 0))
        known = self._known.get(name)
        if known is not None and known.since > since and name in self._user_ns:
            return ()  # home has a newer definition
        return inner
