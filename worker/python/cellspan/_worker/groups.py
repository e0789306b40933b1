"""torch.distributed's process groups while cells run in another world than theirs: torch gets to see those of one world at a time.

Which world that is says torchenv.py. A group whose members do not all run the cell would wait for those that are elsewhere, so
torch's state is put aside, whole: the default group, subgroups, and the counter that names them, which must be equal on all ranks.
"""

from __future__ import annotations

import sys

# What torch.distributed.distributed_c10d._world holds (torch 2.0 on); what an older torch lacks is passed over.
TABLES = ("pg_map", "pg_names", "pg_group_ranks", "pg_backend_config", "tags_to_pg", "pg_to_tag", "pg_coalesce_state", "comms")

hidden = {}  # {world: Aside}


class Aside:
    """torch's groups of one world, which torch does not see; `note` is the owner's."""

    def __init__(self, c10d, note):
        state = c10d._world
        self.note = note
        self.default, self.count = state.default_pg, state.group_count
        self.tables = {name: _emptied(getattr(state, name)) for name in TABLES if hasattr(state, name)}
        self._each_name(c10d, "_unregister_process_group", lambda name, group: (name,))
        _set_default(c10d, None)
        state.group_count = 0

    def back(self, c10d):
        """torch sees them; what it had is to be put aside before, or gone."""
        state = c10d._world
        for name, kept in self.tables.items():
            table = getattr(state, name)
            table.update(kept) if isinstance(table, dict) else table.extend(kept)
        self._each_name(c10d, "_register_process_group", lambda name, group: (name, group))
        _set_default(c10d, self.default)
        state.group_count = self.count

    def _each_name(self, c10d, call, arguments):
        """torch 2.2 knows groups by name in C++ as well, each name once."""
        call = getattr(c10d, call, None)
        for group, name in self.tables.get("pg_names", {}).items() if call else ():
            try:
                call(*arguments(name, group))
            except RuntimeError:  # the user's code has registered or removed it
                pass


def hide(world, note):
    """Puts aside what torch has, as that of this world. False: this torch keeps it elsewhere, and goes on seeing it."""
    c10d = _c10d()
    if c10d is None:
        return False
    hidden[world] = Aside(c10d, note)
    return True


def show(world):
    """Torch sees that world's groups again; the note with which they were put aside, or None where there are none."""
    aside = hidden.pop(world, None)
    if aside is None:
        return None
    aside.back(_c10d())
    return aside.note


def count_anew():
    """Where torch has no group, it gives the next one the name that a new process would give it.

    Torch names a default group by the number of groups before it, and ranks meet in the store under that name. A call of
    init_process_group() that failed is counted as well; so a rank that stayed and one that is new would wait for each other.
    """
    c10d = _c10d()
    if c10d is not None and c10d._world.default_pg is None and not getattr(c10d._world, "pg_names", None):
        c10d._world.group_count = 0


def maps(distributed):
    """The group tables {group: …} of all worlds, that which torch (its module torch.distributed) sees first."""
    state = getattr(getattr(distributed, "distributed_c10d", None), "_world", None)
    return [getattr(state, "pg_map", {})] + [aside.tables.get("pg_map", {}) for aside in list(hidden.values())]


def _c10d():
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    state = getattr(c10d, "_world", None)
    return c10d if hasattr(state, "default_pg") and hasattr(state, "group_count") else None


def _set_default(c10d, group):
    update = getattr(c10d, "_update_default_pg", None)
    if update is not None:
        update(group)
    else:
        c10d._world.default_pg = group


def _emptied(table):
    """A copy of what was in it."""
    kept = table.copy()
    table.clear()
    return kept
