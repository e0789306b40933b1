# SPDX-License-Identifier: BSD-3-Clause
"""Which world this process belongs to, as init() found it: rank, size, the line of its collectives."""

from __future__ import annotations

import os
import sys

import cellspan

_states = []  # a _State for each world in which init() was called; a notebook's rank may be in several by turns
KEPT = 16

NOT_YET = "Horovod has not been initialized; use hvd.init()."


class _State:
    """group: torch.distributed's default group, or None if this process is alone. own: init() made the group."""

    def __init__(self, rank, size, local_rank, local_size, node, group, own):
        self.rank, self.size = rank, size
        self.local_rank, self.local_size, self.node = local_rank, local_size, node
        self.group, self.own = group, own
        self.line = None
        self.crosses = None

    def holds(self):
        """Does torch still see the group? It does not in a cell of another world, or when a rank has died."""
        if self.group is None:
            return cellspan.world_size() == 1
        dist = sys.modules["torch.distributed"]
        return dist.is_initialized() and dist.group.WORLD is self.group


def init(comm=None, process_sets=None):
    """Joins the world of this cell or script; makes torch.distributed's process group if there is none. All ranks must call it.
    At home, and in a process without a world, the size is 1. A second call does nothing.

    NotImplementedError: comm or process_sets was given. RuntimeError: there is no torch, or the ranks do not meet.
    """
    from ._refused import refuse

    if comm is not None:
        refuse("init(comm=...)")
    if process_sets:
        refuse("init(process_sets=...)")
    if is_initialized():
        return
    del _states[:-KEPT]  # those of groups that are gone
    size = cellspan.world_size()
    place = cellspan.rank(), size, cellspan.local_rank(), int(_environ("LOCAL_WORLD_SIZE", size)), int(_environ("GROUP_RANK", 0))
    if size == 1:
        _states.append(_State(0, 1, 0, 1, 0, None, False))
        return
    from .._dropin_api import has_group, init_group

    own = not has_group()
    init_group("auto")
    import torch.distributed as dist

    from ._line import Line

    state = _State(*place, dist.group.WORLD, own)
    state.line = Line(dist.group.WORLD)
    state.crosses = _meet(place)
    _states.append(state)


def _environ(name, otherwise):
    return otherwise if cellspan.world_size() == 1 else os.environ.get(name) or otherwise


def _meet(place):
    """(This node's number among those that have a process with this local rank, their number). Nodes may have different numbers of
    ranks, so all ranks say where they are."""
    rank, size, local_rank, _, node = place
    store = _store()
    rows = _by_store(store, rank, size, f"{node} {local_rank}") if store is not None else _by_group(size, f"{node} {local_rank}")
    places = [row.split() for row in rows]
    nodes = sorted({int(other) for other, local in places if int(local) == local_rank})
    return nodes.index(node), len(nodes)


def _store():
    """The group's store. None: this torch hides it; torch has no public function for it."""
    from torch.distributed import distributed_c10d as c10d

    get = getattr(c10d, "_get_default_store", None)
    return get() if get is not None else None


def _by_store(store, rank, size, text):
    """The texts of all ranks. It needs no collective, and so no GPU."""
    times = store.add(f"cellspan-horovod/times/{rank}", 1)  # init() may come again, after a shutdown(); equal on all ranks
    prefix = f"cellspan-horovod/{times}"
    store.set(f"{prefix}/{rank}", text)
    rows = [store.get(f"{prefix}/{other}").decode() for other in range(size)]
    store.set(f"{prefix}/{rank}/met", "")
    for other in range(size) if rank == 0 else ():  # the store ends with rank 0, and others may still read
        store.get(f"{prefix}/{other}/met")
    return rows


def _by_group(size, text):
    import torch.distributed as dist

    rows = [None] * size
    dist.all_gather_object(rows, text)
    return rows


def shutdown():
    """Leaves the world. Destroys the process group if init() made it."""
    state = _find()
    if state is None:
        return
    _states.remove(state)
    if state.own:
        from .._dropin_api import destroy_group

        destroy_group()


def _find():
    return next((state for state in reversed(_states) if state.holds()), None)


def current():
    """The _State. ValueError: init() was not called in the world of this cell."""
    state = _find()
    if state is None:
        raise ValueError(NOT_YET)
    return state


def is_initialized():
    """Has init() been called in this world?"""
    return _find() is not None


def rank():
    """This process's number in its world, from 0."""
    return current().rank


def size():
    """The number of processes."""
    return current().size


def local_rank():
    """This process's number on its machine, from 0."""
    return current().local_rank


def local_size():
    """The number of processes on this machine."""
    return current().local_size


def cross_rank():
    """The number of this machine among those that have a process with this local rank, from 0."""
    state = current()
    return state.crosses[0] if state.crosses else 0


def cross_size():
    """The number of machines that have a process with this local rank."""
    state = current()
    return state.crosses[1] if state.crosses else 1
