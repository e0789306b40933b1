# SPDX-License-Identifier: BSD-3-Clause
"""HorovodRunner, with the interface of Databricks' sparkdl."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
import warnings

from .._dropin_api import OwnNames, check_call, launch, place_and_gpus, setting
from . import _install, _ranks

ALL, SELECTED = "all", "log_callback_only"
TAIL = 20  # lines of the file of a rank that failed


class HorovodRunner:
    """Calls a function that trains with Horovod on several processes.

    np: how many; if negative, -np processes on this machine, whose output is shown in the cell; 0 (deprecated): as many as
    %%distribute would take. driver_log_verbosity: "all" shows what the processes print; "log_callback_only" (of np >= 0) only what
    log_to_driver() says, and puts the rest into files.

    on: where, as in cellspan.run(); reuse: on the notebook's ranks, which stay, instead of fresh processes. The interface is that of
    the documentation of sparkdl.HorovodRunner.

    TypeError: np is not a whole number. ValueError: no such verbosity, or on= with np < 0.
    """

    def __init__(self, *, np, driver_log_verbosity=SELECTED, on=None, reuse=False):
        __tracebackhide__ = True
        if isinstance(np, bool) or not hasattr(np, "__index__"):
            raise TypeError(f"np={np!r}: the number of processes is a whole number, such as np=2, or np=-2 for this machine")
        if driver_log_verbosity not in (ALL, SELECTED):
            raise ValueError(f"driver_log_verbosity={driver_log_verbosity!r}: use {ALL!r} or {SELECTED!r}")
        np = np.__index__()
        if np < 0 and on not in (None, "local"):
            raise ValueError(f"np={np} means this machine, so on={on!r} can't be used: np={-np} runs there")
        if np == 0:
            warnings.warn("np=0 is deprecated: give the number of processes", DeprecationWarning, stacklevel=2)
        self.num_processor = np
        self.driver_log_verbosity = driver_log_verbosity
        self.on = on
        self.reuse = reuse

    def run(self, main, **kwargs):
        """Calls main(**kwargs) in each process, and returns the value of rank 0.

        Raises the exception of the first rank that fails, which is also a cellspan.RemoteError. TypeError, before anything runs: main
        is no function, kwargs do not fit it, or something can't be sent.
        """
        __tracebackhide__ = True
        if not callable(main):
            raise TypeError(f"run() needs a function, not {type(main).__name__}: HorovodRunner(np=2).run(train, learning_rate=0.1)")
        check_call(main, (), kwargs)
        np = self.num_processor
        on = "local" if np < 0 else self.on
        if np > 0:
            on, _ = place_and_gpus(on, False)
        hides = np >= 0 and self.driver_log_verbosity == SELECTED
        folder = _new_folder() if hides else ""
        choice = setting("CELLSPAN_HOROVOD")
        env = {"CELLSPAN_HOROVOD": choice} if choice else None
        try:
            with OwnNames("np"):
                return launch(_ranks.main, (main, kwargs, folder, _install.installed()), n=abs(np) or None, on=on, env=env, reuse=self.reuse)
        except Exception as error:
            _show_end(folder, error)
            raise
        finally:
            _say_files(folder)


def _new_folder():
    """A folder for the files of a run; it goes with the notebook's process."""
    folder = tempfile.mkdtemp(prefix="cellspan-horovod-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _logs(folder):
    try:
        names = sorted(os.listdir(folder), key=lambda name: (len(name), name)) if folder else ()
    except OSError:
        return []
    return [path for path in (os.path.join(folder, name) for name in names) if os.path.getsize(path)]


def _show_end(folder, error):
    """Prints the last lines that the rank that failed has printed."""
    found = re.search(r"\branks? (\d+)", "".join(getattr(error, "traceback", None) or ())[:200])
    path = _ranks.path_of(folder, found[1]) if folder and found else ""
    if path not in _logs(folder):
        return
    with open(path, errors="backslashreplace", encoding="utf-8") as file:
        lines = file.read().splitlines()
    print(f"cellspan: the last lines that rank {found[1]} printed:", *lines[-TAIL:], sep="\n", file=sys.stderr)


def _say_files(folder):
    """Says where the output is that was not shown; removes the folder if there is none."""
    if not folder:
        return
    if _logs(folder):
        print(f'cellspan: what the ranks printed is in {folder} (driver_log_verbosity="all" shows it here)', file=sys.stderr)
        return
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        os.remove(os.path.join(folder, name))
    if os.path.isdir(folder):
        os.rmdir(folder)
