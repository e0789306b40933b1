# SPDX-License-Identifier: BSD-3-Clause
"""Keeps torch.distributed's process groups while cells run in another world than theirs: torch sees the groups of one world at a
time.

torchenv.py chooses the world. If not all members of a group run the cell, a collective would wait for the others. So torch's whole
state is hidden from it: the default group, subgroups, and the counter for their names, which must be equal on all ranks.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
import zlib

from .._base.imports import when_imported
from . import torch_rendezvous
from .idle_questions import ranges

# The tables of torch.distributed.distributed_c10d._world (since torch 2.0); those that an older torch lacks are skipped.
TABLES = ("pg_map", "pg_names", "pg_group_ranks", "pg_backend_config", "tags_to_pg", "pg_to_tag", "pg_coalesce_state", "comms")

hidden = {}  # {world: HiddenGroups}
_made = {}  # {world size: the id of its default group, the world and the arguments with which it was made}
GROUPS_MAX = 16  # of which launched() tells
STORE = 6  # init_process_group() with this many arguments has a store
_sent = []  # not empty: this process has sent to a rank or received from one, or has not waited for a barrier, so its counts prove little
_destroyed = []  # groups that the user's code has destroyed, for a while: see watch()
_gone = {}  # {world size: of groups that were ended: see cause()}
_outlived = set()  # causes after which the user's code has made groups, and has destroyed them itself
_ended = weakref.WeakSet()  # groups that were destroyed, as long as an object such as DistributedDataParallel has them


class HiddenGroups:
    """torch's groups of one world while torch does not see them; `note` belongs to the caller."""

    def __init__(self, c10d, note):
        state = c10d._world
        self.note = note
        self.default, self.count = state.default_pg, state.group_count
        self.tables = {name: _emptied(getattr(state, name)) for name in TABLES if hasattr(state, name)}
        self._each_name(c10d, "_unregister_process_group", lambda name, group: (name,))
        _set_default(c10d, None)
        state.group_count = 0

    def back(self, c10d):
        """Gives them back to torch, which must have no other groups now."""
        state = c10d._world
        for name, kept in self.tables.items():
            table = getattr(state, name)
            table.update(kept) if isinstance(table, dict) else table.extend(kept)
        self._each_name(c10d, "_register_process_group", lambda name, group: (name, group))
        _set_default(c10d, self.default)
        state.group_count = self.count

    def _each_name(self, c10d, call, arguments):
        """Since torch 2.2, C++ also has a table of groups by name, where each name must be unique."""
        call = getattr(c10d, call, None)
        for group, name in self.tables.get("pg_names", {}).items() if call else ():
            try:
                call(*arguments(name, group))
            except RuntimeError:  # the user's code has already registered or removed it
                pass


def hide(world, note):
    """Hides torch's groups, as those of this world. False: this version of torch stores them elsewhere and still sees them."""
    c10d = _c10d()
    if c10d is None:
        return False
    hidden[world] = HiddenGroups(c10d, note)
    return True


def show(world):
    """Gives that world's groups back to torch. Returns the note with which they were hidden; None: there are none."""
    groups = hidden.pop(world, None)
    if groups is None:
        return None
    groups.back(_c10d())
    return groups.note


def count_anew():
    """If torch has no group, resets its counter, so that the next group gets the same name as in a new process.

    torch names a default group by the number of groups before it, and ranks find each other in the store by that name. A failed
    init_process_group() counts, too; so an old rank and a new one would wait for each other for ever.
    """
    state = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
    if getattr(state, "group_count", 0) and hasattr(state, "default_pg") and state.default_pg is None and not getattr(state, "pg_names", None):
        state.group_count = 0


def maps(distributed):
    """The group tables {group: …} of all worlds; first that of the world that torch sees. distributed: torch.distributed."""
    state = getattr(getattr(distributed, "distributed_c10d", None), "_world", None)
    return [getattr(state, "pg_map", {})] + [groups.tables.get("pg_map", {}) for groups in list(hidden.values())]


def seen():
    """The process groups that torch sees."""
    c10d = _c10d()
    return [] if c10d is None else list(getattr(c10d._world, "pg_map", ()))


def kept():
    """Has the user's code objects with groups that torch does not know any more?"""
    there = maps(sys.modules.get("torch.distributed"))
    return any(not any(group in table for table in there) for group in list(_ended))


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
    """Empties the table and returns a copy of its content."""
    kept = table.copy()
    table.clear()
    return kept


def launched():
    """How many collectives this process has launched in each group that torch sees: lines "launched GROUP N" for the kernel, and a line
    "cpu MS" with the main thread's CPU time. A line "alone": there is only one group, and counts prove where it is.

    GROUP is the same on all ranks of a group. A thread calls it while the main thread may wait in torch. torch also counts what is sent
    from one rank to another, so ranks that have done that may have other counts than the rest.
    """
    c10d = _c10d()
    if c10d is None:
        return ""
    lines = []
    for group, name in list(getattr(c10d._world, "pg_names", {}).items())[:GROUPS_MAX]:
        try:
            lines.append(f"launched {_label(c10d, group, name)} {group._get_sequence_number_for_group()}\n")
        except Exception:  # noqa: BLE001 - a backend that does not count, or a group that is being destroyed
            continue
    alone = "alone\n" if len(lines) == 1 and len(c10d._world.pg_map) == 1 and not hidden and not _sent else ""
    return "".join([*lines, alone, "sent\n" if _sent else "", f"cpu {_cpu_ms()}\n"]) if lines else ""


def _label(c10d, group, name):
    ranks = sorted(c10d._world.pg_group_ranks[group])
    return "%s/%d/%08x" % ("_".join(str(name).split()), len(ranks), zlib.crc32(repr(ranks).encode()))


def called(group):
    """For a collective of this group, None: torch's default one, if there are several groups: (" with ranks 0-1", a line "called in GROUP"
    for the kernel). The first is "" for the default group."""
    c10d = _c10d()
    names = getattr(c10d._world, "pg_names", {}) if c10d is not None else {}
    default = c10d._world.default_pg if c10d is not None else None
    group = default if group is None else group
    if len(names) < 2 or type(group) is str or group not in names:
        return "", ""
    members = c10d._world.pg_group_ranks[group]
    words = "" if len(members) == len(c10d._world.pg_group_ranks.get(default, ())) else f" with ranks {ranges(members)}"
    return words, f"called in {_label(c10d, group, names[group])}\n"


def _cpu_ms():
    """CPU time of the main thread in ms. 0: unknown, or CUDA is in use: a GPU may compute while the thread uses no CPU time."""
    cuda = sys.modules.get("torch.cuda")
    clock = getattr(time, "pthread_getcpuclockid", None)
    if clock is None or (cuda is not None and cuda.is_initialized()):
        return 0
    return int(time.clock_gettime(clock(threading.main_thread().ident)) * 1000)


# ---- groups that are made again, and destroyed ones -----------------------------------------------------------------


def watch(stays):
    """Call it in a rank, before the user's code runs. stays: cells follow one another in this process.

    From then on a destroyed group is freed a little later. torch (2.13) can hang when DistributedDataParallel has the last reference to
    a group of gloo. It then frees the group while it holds Python's lock, and waits for a thread of the group, which may need the lock
    to free its last work. With a last reference in Python, torch releases the lock first.

    If the process stays, init_process_group() with the arguments of the call that made the group does nothing: people run a cell again.
    """
    when_imported("torch.distributed.distributed_c10d", lambda: _wrap(stays))


def cell_begins(cause):
    """cause: what cut the connections between this world's ranks last, such as "cell 3 failed", as the kernel has it; or "". That cell
    has ended no group if none was made since the cell before it that did."""
    if not cause and not _gone:
        return
    gone = _of_world()
    if cause != gone["last"]:
        if gone["made"] or not (cause and gone["cause"]):
            gone.update(cause=cause, made=False)
        gone["last"] = cause


def _of_world():
    return _gone.setdefault(os.environ.get("WORLD_SIZE"), {"cause": "", "last": "", "made": False})


def cause():
    """What ended this world's groups; "" if the user's code has made some since, and has destroyed them itself."""
    cause = _of_world()["cause"]
    return "" if cause in _outlived else cause


def free_destroyed():
    """Frees the groups that were destroyed."""
    _destroyed.clear()


def _wrap(stays):
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    for name, first in (("destroy_process_group", _keep), ("init_process_group", _made_again)):
        real = getattr(c10d, name, None)
        if real is None:
            continue
        wrapped = _preceded(torch_rendezvous.making(real) if name == "init_process_group" else torch_rendezvous.destroying(real), first)
        if stays and name == "init_process_group":
            wrapped = _once(wrapped)
        setattr(c10d, name, wrapped)
        outer = sys.modules.get("torch.distributed")
        if getattr(outer, name, None) is real:
            setattr(outer, name, wrapped)


    for name in ("send", "recv", "isend", "irecv", "barrier"):
        real = getattr(c10d, name, None)
        if real is not None:
            wrapped = _noting_async(real) if name == "barrier" else _preceded(real, _note_sent)
            setattr(c10d, name, wrapped)
            if getattr(sys.modules.get("torch.distributed"), name, None) is real:
                setattr(sys.modules["torch.distributed"], name, wrapped)


def _note_sent():
    if not _sent:
        _sent.append(True)


def _noting_async(barrier):
    """barrier(): a rank that goes on before it has ended tells nothing by its counts."""

    @functools.wraps(barrier)
    def noting(*args, **given):
        __tracebackhide__ = True
        work = barrier(*args, **given)
        if work is not None:
            _note_sent()
        return work

    return noting


def _made_again():
    _destroyed.clear()
    _of_world()["made"] = True


def _keep():
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    groups = getattr(getattr(c10d, "_world", None), "pg_map", None) or ()
    _destroyed.extend(groups)
    _ended.update(groups)
    if groups:
        _outlived.add(_of_world()["cause"])


def _preceded(real, first):
    """A function that calls first() and then the real one."""

    @functools.wraps(real)
    def called(*args, **given):
        __tracebackhide__ = True
        first()
        return real(*args, **given)

    return called


def _once(make):
    """init_process_group() for a process that stays: see watch()."""

    @functools.wraps(make)
    def init_process_group(*args, **given):
        __tracebackhide__ = True
        world = [os.environ.get(name) for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT")]
        call = (world, args, given)
        if _default() is not None and _equal(_made.get(world[0]), (id(_default()), call)):
            return
        make(*args, **given)
        if len(args) < STORE and given.get("store") is None:  # a store must end with its group
            _made[world[0]] = (id(_default()), call)

    return init_process_group


def _default():
    """The default group, or None."""
    c10d = _c10d()
    return None if c10d is None else c10d._world.default_pg


def _equal(a, b):
    try:
        return bool(a == b)
    except Exception:  # noqa: BLE001 - an argument of the user's
        return False
