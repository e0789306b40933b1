# SPDX-License-Identifier: BSD-3-Clause
"""The view of one who sees all, as Prometheus reads it (text format 0.0.4). No name of a notebook and nothing that a cell runs is in it;
only the machine names what stands in labels."""

from __future__ import annotations

import collections

from .view import least_idle

TYPE = "text/plain; version=0.0.4; charset=utf-8"

HELP = {
    "listing_up": "1 if the machine could be listed the last time; 0: all else is as old as listing_age_seconds says.",
    "listing_age_seconds": "How old the list is.",
    "listing_duration_seconds": "How long it took to make it.",
    "gpu_use_ratio": "How busy the GPU is, from 0 to 1.",
    "gpu_memory_used_bytes": "Memory of the GPU that is in use.",
    "gpu_memory_total_bytes": "Memory of the GPU.",
    "gpu_held": "1 if a lease of cellspan's holds the GPU; user: whose.",
    "gpu_held_since_timestamp_seconds": "Since when it is held.",
    "gpu_idle_seconds": "For how long the notebook that holds the GPU has run no cell.",
    "gpu_programs": "Processes that use the GPU without a lease.",
    "notebooks": "Notebooks of the user.",
    "ranks": "Ranks of the user's notebooks.",
    "busy_ranks": "Those of them that run a cell.",
    "rank_memory_bytes": "Memory of the user's ranks on this machine.",
}


def _escaped(text):
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class _Families:
    """Samples by name, as the format wants them."""

    def __init__(self):
        self._of = {name: [] for name in HELP}

    def add(self, name, value, **labels):
        """value: None: it is not known."""
        if value is not None:
            inner = ",".join('%s="%s"' % (key, _escaped(label)) for key, label in labels.items())
            self._of[name].append("cellspan_%s%s %s" % (name, "{%s}" % inner if inner else "", repr(float(value)) if isinstance(value, float) else int(value)))

    def text(self):
        lines = []
        for name, samples in self._of.items():
            if samples:
                lines += ["# HELP cellspan_%s %s" % (name, HELP[name]), "# TYPE cellspan_%s gauge" % name, *samples]
        return "\n".join(lines) + "\n"


def metrics(seen, age, took, newest):
    """seen: of view.py; None: there is no list. age and took: seconds. newest: there would be no newer list than this one."""
    families = _Families()
    families.add("listing_up", seen is not None and newest)
    if seen is not None:
        families.add("listing_age_seconds", float(age))
        families.add("listing_duration_seconds", float(took))
        for card in seen["gpus"]:
            _add_card(families, card)
        _add_users(families, seen["notebooks"])
    return families.text()


def _add_card(families, card):
    labels = {"gpu": card["gpu"], "uuid": card["uuid"]}
    families.add("gpu_use_ratio", None if card["use"] is None else card["use"] / 100, **labels)
    families.add("gpu_memory_used_bytes", card["used"], **labels)
    families.add("gpu_memory_total_bytes", card["total"], **labels)
    families.add("gpu_programs", card["programs"], **labels)
    users = sorted({one["user"] or "" for one in card["by"]}) or [""]
    for user in users if card["held"] else []:
        families.add("gpu_held", 1, user=user, **labels)
        families.add("gpu_held_since_timestamp_seconds", card["since"], user=user, **labels)
        families.add("gpu_idle_seconds", least_idle([one for one in card["by"] if (one["user"] or "") == user]), user=user, **labels)
    if not card["held"]:
        families.add("gpu_held", 0, user="", **labels)


def _add_users(families, notebooks):
    sums = collections.defaultdict(collections.Counter)
    for row in notebooks:
        sums[row["user"]].update(notebooks=1, ranks=row["ranks"], busy_ranks=row["busy"], rank_memory_bytes=row["memory"])
    for user in sorted(sums):
        for name in ("notebooks", "ranks", "busy_ranks", "rank_memory_bytes"):
            families.add(name, sums[user][name], user=user)
