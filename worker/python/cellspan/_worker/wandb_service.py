# SPDX-License-Identifier: BSD-3-Clause
"""W&B on ranks of home's machine: while home has an active run, they use its service process, so that home's run can be used there.

W&B connects a process to a service once. In a script, a process ends before its parent does; a rank lives on when home ends its service
or its run. So before a cell, a rank leaves a service that home has ended, and home's run when that has ended. It leaves a service of its
own when home has a run, unless a run of its own is active there. And home's run is not one of the rank's own: the rank's wandb.init()
would end it for all.
"""

from __future__ import annotations

import functools
import os
import sys

from .._base.errors import is_a, text_of
from .._base.imports import when_imported

VARIABLE = "WANDB_SERVICE"  # names the service that a process and its children use
SETUP = "wandb.sdk.wandb_setup"
ERRORS = "wandb.errors"
AUTH, KEY = "wandb.sdk.lib.wbauth.authenticate", "WANDB_API_KEY"
NOT_USED = "Unable to attach to run"  # W&B's error where a process uses another service than the run does
_homes, _before, _near = None, None, True  # what of_home() gave last; with the cell before; is this rank on home's machine?


def of_home():
    """[the service of this process, the id of its active run or None], or None without a service. Called at home."""
    service = os.environ.get(VARIABLE) if "wandb" in sys.modules else None
    if not service:
        return None
    run = _active_run()
    return [service, None if run is None else getattr(run, "id", None)]


def watch():
    """Call it in a rank, before the user's code runs."""
    when_imported(SETUP, _count_own_runs_only)


def take(homes, near):
    """homes: what of_home() gave at home. near: is this rank on home's machine?"""
    global _homes, _near
    _homes, _near = homes if near else None, near


def before_cell():
    """Makes this rank use the right service, and puts it into the environment."""
    global _before
    before, _before = _before, _homes
    service, run = _homes or (None, None)
    service_ended, run_ended = (old is not None and old != new for old, new in zip(before or (None, None), (service, run)))
    if run_ended and _is_attached(_global_run()):
        _forget_run()
    connection, login = _connection(), None
    if connection is not None and (run is not None and _active_run() is None if connection.owns_service else service_ended):
        login = _login()
        sys.modules["wandb"].teardown()
        if service_ended:
            _forget_run()
    if _owns_service():
        return
    if run is not None:
        os.environ[VARIABLE] = service
    elif os.environ.get(VARIABLE) in (service, before and before[0]):
        os.environ.pop(VARIABLE, None)  # the rank starts one of its own, which does not end with home's
    if login is not None:
        _log_in(login)


def hints(error):
    """Lines below W&B's error about a run of home that this rank can't use. The text of no other error is asked for: that may fail, or
    never come."""
    own = getattr(sys.modules.get(ERRORS), "UsageError", ())
    if not is_a(error, own) or not text_of(error).startswith(NOT_USED):
        return []
    if not _near:
        return ["cellspan: a run of home can be used on home's machine only: call wandb.init() on this rank"]
    if _homes is None or _homes[1] is None:
        return ["cellspan: that run of home has ended: begin one by wandb.init(), at home or on this rank"]
    return ["cellspan: this rank has a run of its own: call its finish(), and use home's run in the next cell"]


def _login():
    """With what this process has logged in; None: it has not. teardown() forgets it, also what no file or variable has."""
    auth = getattr(sys.modules.get(AUTH), "_session_auth", None)
    return auth if auth is not None else getattr(getattr(_setup(), "_settings", None), "api_key", None)


def _log_in(login):
    """Without a word, and without a connection."""
    module = sys.modules.get(AUTH)
    if isinstance(login, str):  # of an older W&B, which has no credentials beside its settings
        os.environ.setdefault(KEY, login)
    elif hasattr(module, "_locked_set_session_auth") and hasattr(module, "_session_auth_lock"):
        with module._session_auth_lock:
            module._locked_set_session_auth(login)


def _setup():
    """What W&B keeps for this process once it was used, or None. A forked process has its parent's, which W&B does not use."""
    setup = getattr(sys.modules.get(SETUP), "_singleton", None)
    return setup if getattr(setup, "_pid", None) == os.getpid() else None


def _connection():
    return getattr(_setup(), "_connection", None)


def _owns_service():
    connection = _connection()
    return connection is not None and connection.owns_service


def _active_run():
    """The run that this process has begun last and not finished, also one that `reinit="create_new"` has made; or None."""
    run = getattr(_setup(), "most_recent_active_run", None) or _global_run()
    return None if _is_attached(run) else run


def _global_run():
    return getattr(sys.modules.get("wandb"), "run", None)


def _is_attached(run):
    """Is it a run that another process has begun, and that this one uses? Not known of versions of W&B that don't note it: no."""
    return run is not None and getattr(run, "_init_pid", os.getpid()) != os.getpid()


def _forget_run():
    """Then wandb.log() and the like say that there is no run."""
    unset = getattr(sys.modules.get("wandb.sdk.lib.module"), "unset_globals", None)
    if unset is not None:
        unset()


def _count_own_runs_only():
    kind = getattr(sys.modules[SETUP], "_WandbSetup", None)
    add = getattr(kind, "add_active_run", None)
    if add is None:
        return

    @functools.wraps(add)
    def add_active_run(self, run):
        if not _is_attached(run):
            add(self, run)

    kind.add_active_run = add_active_run
