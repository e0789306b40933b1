# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of torch.distributed, whose failures are HorovodInternalErrors."""

from __future__ import annotations

import os
import time
from datetime import timedelta

PAUSE = 0.5  # seconds


class HorovodInternalError(RuntimeError):
    """A collective failed: ranks disagree about it, or one of them is gone."""


def start(function, *args, **kwargs):
    """Starts a collective, and returns its work."""
    try:
        return function(*args, async_op=True, **kwargs)
    except RuntimeError as error:
        raise _failed(error) from error


def wait(works, what=""):
    """Waits until they are done. what: this rank's call, for the error if HOROVOD_STALL_SHUTDOWN_TIME_SECONDS are over."""
    limit = stall_limit() if what else 0
    began = time.monotonic()
    for work in works:
        try:
            work.wait(timedelta(seconds=limit)) if limit else work.wait()
        except RuntimeError as error:
            if limit and time.monotonic() - began >= limit:
                why = f"{what} has waited {limit:g} s for the other ranks (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)"
                raise HorovodInternalError(f"{why}: all ranks must call the same operations in the same order") from error
            raise _failed(error) from error


def stall_limit():
    """Seconds, from the environment; 0: as long as it takes, up to the time limit of the process group."""
    try:
        return max(0.0, float(os.environ.get("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS") or 0))
    except ValueError:
        return 0.0


def _failed(error):
    """The error of a collective. It comes after a pause: mostly another rank has failed, and its error is the one to be shown."""
    time.sleep(PAUSE)
    return HorovodInternalError(str(error))
