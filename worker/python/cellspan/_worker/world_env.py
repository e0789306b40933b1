# SPDX-License-Identifier: BSD-3-Clause
"""The environment of a rank: what the world of its cell sets, and how that is undone for the next one."""

from __future__ import annotations

import os
import sys

from . import environment, gpus, torchenv

# Processors of the node that we may use. Counted in the zygote, which imports this, before a rank is bound to those near its GPU.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class RankWorld:
    """The variables of the world in which a rank's cell runs. error_file: for TORCHELASTIC_ERROR_FILE."""

    def __init__(self, rank, error_file):
        self.env = {}  # the last RUN's env
        self._rank = rank
        self._error_file = error_file
        self._before = {}  # the values before the world set its own
        self._values = {}  # those that it set
        self._stands = None  # the world for which the environment is set
        self._environ = {}  # and that environment
        self._threads = None

    def before(self):
        """{name: text or None}: the values to which the world's variables will be reset. The caller may change them."""
        self._stands = None
        return self._before

    def enter(self, env, master, layout, script):
        """Sets the environment of this cell's world, and what depends on it.

        env, master, layout: as in RUN; an empty layout: all ranks are on one node. script: as in torchenv.rank_environment().
        """
        world = env, layout, script
        master = {name: value for name, value in master.items() if name not in env}
        if self._stands != world or not environment.is_still(self._environ):
            self._change({**master, **env}, layout, script)
            self._environ = environment.raw()
        else:
            self._change_master(master)
        self._stands = world
        torchenv.enter_world(self._values)

    def _change_master(self, master):
        """As enter(), if nothing else than the address of rank 0 has changed."""
        changed = {name: value for name, value in master.items() if self._values[name] != value}
        if changed:
            self._values.update(changed)
            for name, value in changed.items():
                os.environ[name] = value
            self._environ = environment.raw()

    def _change(self, given, layout, script):
        """As enter(), for another world or another environment than the last cell's."""
        place = torchenv.place_of(self._rank, layout or f"0*{max(_size(given), self._rank + 1)}")
        self._leave()
        self._set(given, place, script)
        gpus.settle()
        misplaced = gpus.misplaced(place.local_rank)
        if misplaced:
            print(f"rank {self._rank}: {misplaced}", file=sys.stderr)
        late = gpus.too_late(given)
        if late:
            print(late, file=sys.stderr)
        self._set_threads(self._values.get("OMP_NUM_THREADS", ""))

    def _leave(self):
        """Resets the variables that the last world has set."""
        for name, value in self._before.items():
            if name in torchenv.KEPT and os.environ.get(name) != self._values[name]:
                continue  # the user's code has changed it
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def _set(self, given, place, script):
        values = torchenv.rank_environment(
            self._rank,
            place.local_rank,
            _size(given),
            place.local_world_size,
            place.node,
            place.nodes,
            given.get("MASTER_ADDR", "127.0.0.1"),
            given.get("MASTER_PORT", "0"),
            given.get("TORCHELASTIC_RUN_ID", ""),
            self._error_file,
            CORES,
            given=given,
            script=script,
        )
        self._values = values
        self._before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)

    def enter_of(self, asked):
        """Sets the world that comes with a broadcast or a step of a check: NCCL reads its settings when it is first used, which may be
        before the first cell."""
        if asked.get("env"):
            self.enter(asked["env"], asked["master"], asked.get("layout", ""), False)

    def _set_threads(self, text):
        """Tells torch the number of threads: it was imported before the fork and read OMP_NUM_THREADS then."""
        torch = sys.modules.get("torch")
        if torch is None or not text.isdigit() or text == self._threads or not hasattr(torch, "set_num_threads"):
            return
        self._threads = text
        torch.set_num_threads(max(1, int(text)))


def _size(given):
    return int(given.get("WORLD_SIZE") or 1)
