# SPDX-License-Identifier: BSD-3-Clause
"""The rank's side of cellspan.run() and call(): calls the function, and then restores what it changed in the process, if the
process stays alive."""

from __future__ import annotations

import logging
import os
import sys

from .._base.modules import names_of
from .._base.own_code import forget
from . import environment, mlflow_run, torchenv


def call(fn, args, kwargs, placed=None):
    """fn's value. placed: the variable with the call, which is removed. Restores the environment, the current folder, sys.argv, loggers and torch's default dtype. Warns if fn left a process
    group or an MLflow run open, unless fn raised an exception."""
    __tracebackhide__ = True
    forget(placed)
    before = _Process()
    try:
        value = fn(*args, **kwargs)
    except BaseException:
        before.put_back("")
        raise
    before.put_back(getattr(fn, "__name__", type(fn).__name__))
    return value


def once(fn, args, kwargs, placed=None):
    """As call(), in a process that ends then."""
    __tracebackhide__ = True
    forget(placed)
    return fn(*args, **kwargs)


def script(path, words):
    """Runs a script as `python path words` would, in a process that stays. Then the modules of the script's folder are forgotten.

    SystemExit: the script left with a code that is not 0."""
    __tracebackhide__ = True
    from .scripts import find, run_file

    path = os.path.expanduser(path)
    place, before, main = list(sys.path), set(sys.modules), sys.modules.get("__main__")
    try:
        find([path])
        run_file([path, *words])
    except SystemExit as end:
        if end.code is not None and end.code != 0:
            raise
    finally:
        sys.path[:] = place
        if main is not None:
            sys.modules["__main__"] = main
        _forget(os.path.dirname(os.path.realpath(path)), before)


def _forget(folder, before):
    """Forgets the modules of a folder that were imported since `before`: the next script may have others of their names."""
    for name in set(sys.modules) - before:
        file = names_of(sys.modules.get(name)).get("__file__")
        if isinstance(file, str) and os.path.realpath(file).startswith(os.path.join(folder, "")):
            del sys.modules[name]


CODES = {call.__code__, once.__code__}  # of the frames above the user's function; pxrank.py adds its own


class _Process:
    """The state of the process that a function may change."""

    def __init__(self):
        self.environ = environment.raw()
        self.cwd = _folder()
        self.argv = list(sys.argv)
        self.loggers = _Loggers()
        self.dtype = _dtype()
        self.grouped = torchenv.is_initialized()
        self.mlflow_run = mlflow_run.own()

    def put_back(self, name):
        if not environment.is_still(self.environ):
            environment.put_back(self.environ)
        if self.cwd and _folder() != self.cwd:
            os.chdir(self.cwd)
        sys.argv[:] = self.argv
        self.loggers.put_back()
        if self.dtype is not None and _dtype() != self.dtype:
            sys.modules["torch"].set_default_dtype(self.dtype)
        if name and torchenv.is_initialized() and not self.grouped:
            print(
                f"cellspan: {name}() left its process group open: call "
                "torch.distributed.destroy_process_group() in it, or use init=True",
                file=sys.stderr,
            )
        run = mlflow_run.own()
        if name and run not in (None, self.mlflow_run):
            print(f"cellspan: {name}() left MLflow's run {run} open: call mlflow.end_run() in it, or use `with mlflow.start_run():`", file=sys.stderr)


class _Loggers:
    """What loggers do. Those of a package that the function is the first to import stay as the package has set them."""

    def __init__(self):
        root = logging.getLogger()
        self.manager, self.disable = root.manager, root.manager.disable
        self.states = [(root, *_state(root))]
        # No function is called for each: a call of an empty function must stay fast, and torch has 150 loggers.
        self.states += [
            (one, one.level, one.propagate, one.disabled, one.handlers[:], one.filters[:])
            for one in list(self.manager.loggerDict.values())
            if one.__class__ is not logging.PlaceHolder
        ]

    def put_back(self):
        changed = [
            state
            for state in self.states
            if state[1] != state[0].level
            or state[4] != state[0].handlers
            or state[2] != state[0].propagate
            or state[3] != state[0].disabled
            or state[5] != state[0].filters
        ]
        known = {state[0] for state in self.states}
        changed += [
            (one, logging.NOTSET, True, False, [], [])
            for name, one in list(self.manager.loggerDict.items())
            if one not in known and one.__class__ is not logging.PlaceHolder and not _is_of_package(name)
        ]
        if changed or self.manager.disable != self.disable:
            self.manager.disable = self.disable
            for logger, *state in changed:
                logger.level, logger.propagate, logger.disabled, logger.handlers[:], logger.filters[:] = state
            self.manager._clear_cache()  # the cache of enabled levels


def _state(logger):
    return logger.level, logger.propagate, logger.disabled, logger.handlers[:], logger.filters[:]


def _is_of_package(name):
    first = name.partition(".")[0]
    return first in sys.modules and first != "__main__"


def _folder():
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _dtype():
    get = getattr(sys.modules.get("torch"), "get_default_dtype", None)
    return get() if get is not None else None
