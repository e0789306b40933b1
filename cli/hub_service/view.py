# SPDX-License-Identifier: BSD-3-Clause
"""Who sees what of a list: the owner all of his own rows; who has the scope, all rows, but not what a cell runs. Nothing here knows
of the web. `told` is what `cellspan ps --all --brief` has printed (docs/machines.md), always of that form."""

from __future__ import annotations

FORM = 1
KEPT = ("pid", "user", "state", "ranks", "busy", "gpus", "memory", "idle", "running", "seconds")  # of a notebook, for all who see it
RUNS = "cellspan run"  # in place of its command, which may have secrets


class Viewer:
    """uid: of the viewer's unix account; None: there is none. sees_all: of other users, too."""

    def __init__(self, uid, sees_all):
        self.uid, self.sees_all = uid, sees_all

    def owns(self, row):
        return self.uid is not None and row["uid"] == self.uid

    def sees(self, row):
        return self.sees_all or self.owns(row)


def view(told, viewer):
    """What the viewer sees: {"notebooks": […], "gpus": […], …} for JSON, the page and the metrics."""
    notebooks = {row["pid"]: _notebook(row, viewer.owns(row)) for row in told["notebooks"] if viewer.sees(row)}
    return {
        "all_users": viewer.sees_all and told["all_users"],
        "root": told["all_users"],  # else there are only notebooks of the hub's own account
        "notebooks": list(notebooks.values()),
        "left_out": told["left_out"] if viewer.sees_all else 0,
        "gpus": [_card(card, viewer, notebooks) for card in told["gpus"]],
    }


def _notebook(row, own):
    shown = {name: row[name] for name in KEPT}
    shown["own"] = own
    shown["notebook"] = row["notebook"] if own or not row["job"] else RUNS
    # Behind the engine's name there may be what an engine gets, such as variables
    shown["on"] = row["on"] if own or row["on"] is None else row["on"].partition(":")[0]
    shown["cell"] = row["cell"] if own else None
    return shown


def _card(card, viewer, notebooks):
    shown = {name: card[name] for name in ("gpu", "uuid", "name", "use", "used", "total", "held", "since", "programs")}
    seen = [holder for holder in card["holders"] if viewer.sees(holder)]
    shown["own"] = any(viewer.owns(holder) for holder in card["holders"])
    shown["by"] = [_by(holder, notebooks.get(holder["notebook"], {})) for holder in seen]
    shown["idle"] = least_idle(shown["by"])  # card["idle"] is that of a holder whom the viewer may not see
    return shown


def _by(holder, notebook):
    return {"user": holder["user"], "pid": holder["notebook"] or holder["pid"], "notebook": notebook.get("notebook"), "idle": notebook.get("idle")}


def least_idle(by):
    """Of these holders of a GPU; None: it is not known of one."""
    idle = [one["idle"] for one in by]
    return None if None in idle else min(idle, default=None)
