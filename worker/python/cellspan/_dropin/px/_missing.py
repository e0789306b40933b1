# SPDX-License-Identifier: BSD-3-Clause
"""Names of ipyparallel's objects that those of cellspan.px have not: what to use in their place."""

from __future__ import annotations

_CELL = "use an interrupt, also while no cell runs: it ends what the ranks do"
_TABLE = "%ranks shows what each rank does, and cellspan.group().ranks() has it as a list"
_STORE = "there is no database of tasks: keep the AsyncResult, or bind the value to a name"
_DASK = "start Dask's own workers (dask.distributed.LocalCluster, SSHCluster)"

INSTEAD = {
    "abort": _CELL,
    "become_dask": _DASK,
    "become_distributed": _DASK,
    "broadcast_view": "use a direct view such as client[:], which sends to many ranks at once",
    "db_query": _STORE,
    "executor": "use concurrent.futures.ThreadPoolExecutor, whose functions call cellspan.run(f, ranks=[r]); or cellspan.map(f, items)",
    "get_result": _STORE,
    "hub_history": _STORE,
    "metadata": "use the attributes submitted, elapsed, engine_id, stdout and stderr",
    "purge_everything": _STORE,
    "purge_hub_results": _STORE,
    "purge_local_results": _STORE,
    "purge_results": _STORE,
    "queue_status": _TABLE,
    "register_joblib_backend": "use cellspan.map(f, items)",
    "resubmit": "call the function again",
    "result_status": _STORE,
    "send_signal": "interrupt the cell, or end ranks by %ranks stop",
    "serial_time": "use elapsed, or time the function itself",
    "set_flags": "set view.block",
    "spin": "results come by themselves",
    "spin_thread": "results come by themselves",
    "stop_dask": _DASK,
    "stop_distributed": _DASK,
    "stop_spin_thread": "results come by themselves",
    "temp_flags": "set view.block",
    "timestamp": "use the attributes submitted and elapsed",
    "wall_time": "use elapsed",
}


class Names:
    """A base class: an attribute that ipyparallel has, and this has not, is an AttributeError that says what to use."""

    def __getattr__(self, name):
        __tracebackhide__ = True
        kind = type(self).__name__
        if name in INSTEAD:
            raise AttributeError(f"cellspan.px: {kind} has no {name}: {INSTEAD[name]}")
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")


def of_key(result, key):
    """The error for result["submitted"], which in ipyparallel gives a list of metadata."""
    return TypeError(f"cellspan.px: {type(result).__name__}[{key!r}]: metadata are attributes, such as ar.submitted, ar.elapsed, ar.stdout")
