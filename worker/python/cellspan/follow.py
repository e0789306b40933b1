"""What ranks follow home in: the changes of its environment since it started. Home tells them with each distributed cell."""

from __future__ import annotations

import json
import os

from . import torchenv

LARGEST = 1 << 20  # bytes of what a FOLLOW can bring
# What a machine, or its Slurm, sets for itself; on home's own machine the ranks take it all the same.
MACHINES_OWN = ("PATH", "LD_LIBRARY_PATH", *torchenv.INTERFACES, *torchenv.JAX_GPUS)


class Lead:
    """Home's side. Made when home's process looks as the user's first line finds it."""

    def __init__(self):
        self._began = dict(os.environ)
        self._seen = self._environ()
        self._text = ""

    @staticmethod
    def _environ():
        """The environment as the operating system has it: what compares quickly."""
        return dict(getattr(os.environ, "_data", os.environ))

    def text(self):
        """(what FOLLOW brings, lines for the user)."""
        now = self._environ()
        if now == self._seen:
            return self._text, []
        text = json.dumps({"env": self._changes()}, sort_keys=True)
        if len(text) > LARGEST:
            return self._text, [f"the changes of home's environment have over {LARGEST >> 20} MiB: ranks don't get them"]
        self._seen, self._text = now, text
        return text, []

    def _changes(self):
        """{name: value} of what was set since home started, with None for what was deleted."""
        now = dict(os.environ)
        names = {name for name in {*self._began, *now} if self._began.get(name) != now.get(name)}
        return {name: now.get(name) for name in names if not name.startswith("CELLSPAN_")}


class Follower:
    """A rank's side. What home does not say any more goes back to what it was here."""

    def __init__(self, fixed):
        """fixed: names of the environment that are this rank's own."""
        self._fixed = {*fixed, "CUDA_VISIBLE_DEVICES"}
        self._followed = {}  # what home said last
        self._before = {}  # what stood there before home said anything

    def take(self, text, near, world):
        """Follows what home says. world: what the environment of the last cell's world goes back to, {name: text or None};
        names in it change there, since the next cell puts them in place."""
        wanted = json.loads(text)["env"] if text else {}
        wanted = {name: value for name, value in wanted.items() if self._is_ours(name, near)}
        for name in {*self._followed, *wanted}:
            if name in wanted and name in self._followed and wanted[name] == self._followed[name]:
                continue
            if name in wanted:
                self._before.setdefault(name, world[name] if name in world else os.environ.get(name))
                self._put(name, wanted[name], world)
            else:
                self._put(name, self._before.pop(name), world)
        self._followed = wanted

    def _is_ours(self, name, near):
        if name in self._fixed:
            return False
        return near or not (name in MACHINES_OWN or name.startswith("SLURM_"))

    @staticmethod
    def _put(name, value, world):
        if name in world:
            world[name] = value
        elif value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
