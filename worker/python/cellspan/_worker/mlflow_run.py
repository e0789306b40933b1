# SPDX-License-Identifier: BSD-3-Clause
"""MLflow on ranks: while home has an active run, all ranks log into that run; and only rank 0 logs automatically.

Home's tracking server and experiment need nothing here, since MLflow keeps them in the environment, which ranks follow. The run is
not there. But mlflow.start_run() joins the run that MLFLOW_RUN_ID names (see its documentation).
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys

from .._base.imports import when_imported

VARIABLE = "MLFLOW_RUN_ID"
PARENT = "mlflow.parentRunId"  # the tag that makes a run the child of another one: MLflow's documentation of system tags
_lasting = contextlib.ExitStack()  # holds what stays disabled until the process ends
_joined = None  # home's run


def of_home():
    """The id of the run that is active in this process's main thread, or None. Called at home."""
    run = _active_run()
    return None if run is None else run.info.run_id


def own():
    """The id of this rank's active run, unless it is home's; or None."""
    run = of_home()
    return None if run == _joined else run


def watch():
    """Call it in a rank, before the user's code runs."""
    when_imported("mlflow.tracking.fluent", _join_homes_run)
    when_imported("mlflow.utils.autologging_utils", _leave_autologging_to_rank_0)


def follow(run):
    """Call it before every cell. run: the id of home's run; None: home has none. A cell before may have left home's run active in
    this process; MLflow would then refuse to start one."""
    global _joined
    before, _joined = _joined, run
    active = _active_run() if before is not None else None
    if active is not None and active.info.run_id == before:
        _leave(before)


def _active_run():
    """The process's active run. None also if `mlflow` is another module of that name."""
    get = getattr(sys.modules.get("mlflow"), "active_run", None)
    try:
        run = get() if get is not None else None
        return run if isinstance(getattr(run.info, "run_id", None), str) else None
    except Exception:  # noqa: BLE001 - a module that is half imported, or not MLflow
        return None


def _leave(run):
    """Ends the run in this process, without a change of the state that home gave it."""
    mlflow = sys.modules["mlflow"]
    try:
        mlflow.end_run(mlflow.get_run(run).info.status)
    except Exception as error:  # noqa: BLE001 - the cell may not need MLflow
        print(f"cellspan: MLflow's run {run} could not be left on this rank: {error}", file=sys.stderr)


def _join_homes_run():
    """A rank's first run, also the one that mlflow.log_metric() starts, is home's. A nested run is a child of home's."""
    fluent = sys.modules["mlflow.tracking.fluent"]
    start = getattr(fluent, "start_run", None)
    if start is None:
        return

    @functools.wraps(start)
    def start_run(*args, **given):
        if _joined is not None and _active_run() is None:
            if given.get("nested"):
                os.environ.pop(VARIABLE, None)
                given["tags"] = {PARENT: _joined, **(given.get("tags") or {})}
            else:
                os.environ.setdefault(VARIABLE, _joined)
        return start(*args, **given)

    fluent.start_run = start_run


def _leave_autologging_to_rank_0():
    """Otherwise each rank would write the same parameters, and a model of its own, into the run."""
    disable = getattr(sys.modules["mlflow.utils.autologging_utils"], "disable_autologging", None)
    if disable is not None and os.environ.get("RANK", "0") != "0":
        _lasting.enter_context(disable())
