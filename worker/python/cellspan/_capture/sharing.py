# SPDX-License-Identifier: BSD-3-Clause
"""Variables that share memory (a model and its optimizer) are sent together, so that they share it on the ranks, too.

In all functions, seen: {name: Known} of what is checked for a cell; known: {name: Known} of all names; before: {name: version} before
the check.
"""

from __future__ import annotations

from .call_buffers import EACH_TIME


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
            other = next(n for n in changed if seen[n].arrays & of.arrays)
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
            other = next((n for n in changed if seen[n].arrays and known.arrays & seen[n].arrays), None)
            if other is not None:
                changed[name] = None
                assigned = seen[other].since == seen[other].version
                why = "is new to the ranks" if other not in before else "home has assigned" if assigned else "changed"
                if not other.startswith(EACH_TIME):
                    warnings.append(f"{name} is sent again with {other}, which {why}: they share memory")
                again = True
    return warnings
