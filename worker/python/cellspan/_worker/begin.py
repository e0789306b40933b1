# SPDX-License-Identifier: BSD-3-Clause
"""The first steps of a worker's process, before its shell. If a limit of the system is in the way, a line names it."""

from __future__ import annotations

import gc
import os
import sys

from .. import _link
from . import environment, stacks


def say_limit(error):
    """A process or a thread could not be started, or there is no memory: writes one line that names the limit. The agent's
    death_cause.c knows how it begins. False: no limit is known."""
    if not isinstance(error, (MemoryError, OSError, RuntimeError)):
        return False
    held = _link.limit_held()
    if held:
        os.write(2, b"cellspan: limit: %s\n" % held.encode())
    return bool(held)


def begin_within_limits(make, *args):
    """Makes the worker of this process. If a limit of the system is in its way, the process ends with a line that names the limit."""
    try:
        return make(*args)
    except (MemoryError, OSError, RuntimeError) as error:
        if not say_limit(error):
            raise
        os._exit(1)


def begin_process(role):
    """The first part of a worker's start, before its shell."""
    environment.tidy()
    if role == "home":
        environment.colour()
    sys.argv = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")]
    fd = stacks.descriptor()
    if fd is not None:
        stacks.install(fd)


def begin_collecting():
    """From now on Python looks for garbage, but not among what there is, which was imported and is kept."""
    gc.freeze()
    gc.enable()
