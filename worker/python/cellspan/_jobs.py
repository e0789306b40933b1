# SPDX-License-Identifier: BSD-3-Clause
"""What the modules of _dropin/ share: functions and scripts on ranks, either in fresh processes or on the notebook's ranks."""

from __future__ import annotations

import os

from . import _api


def launch(fn, args=(), kwargs=None, *, reuse=False, **options):
    """Calls fn(*args, **kwargs) on ranks. Returns rank 0's value, or with gather=True the list of all ranks' values.

    options: as of cellspan.call(); on="local" is this machine even if the group is elsewhere, in the current folder. reuse: on the
    notebook's ranks, which stay; else in fresh processes.

    Raises the exception of the first rank that fails, which is also a RemoteError (see _worker/remote.py). TypeError, before
    anything runs: the function or an argument can't be sent, or the arguments do not fit the function.
    """
    __tracebackhide__ = True
    if reuse:
        return _api.call(fn, args, kwargs, **options)
    return _api.beside(fn, args, kwargs, **{"cwd": _folder(options), **options})


def launch_script(path, words=(), *, reuse=False, **options):
    """Runs a script, with these arguments, as launch() runs a function. Raises RemoteError: see exit_code()."""
    __tracebackhide__ = True
    if reuse:
        from ._worker.rank_calls import script

        launch(script, (path, list(words)), reuse=True, **options)
        return
    _api.script(path, words, **{"cwd": _folder(options), **options})


def _folder(options):
    """The folder for fresh processes of this machine: the notebook's current one, as for any child process. None: where ranks start."""
    try:
        return os.getcwd() if options.get("on") == "local" else None
    except OSError:  # it was deleted
        return None


# ---- errors ---------------------------------------------------------------------------------------------------------


def is_of_rank(error):
    """Did a rank fail with this RemoteError? Otherwise the kernel refused the call, or could not start ranks."""
    description = _description(error)
    return "raised" in description or "exit_status" in description


def exit_code(error):
    """The exit status that a shell would see of a script whose rank failed with this RemoteError."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    return 2 if type(error).__name__ == "UsageError" else _description(error).get("exit_status", 1)  # 2: there is no such script


def _description(error):
    return error.__dict__.get("_cellspan_description") or {}
