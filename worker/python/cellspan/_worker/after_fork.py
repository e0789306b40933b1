# SPDX-License-Identifier: BSD-3-Clause
"""Resets state that a process inherits from the zygote and must not keep: actions that would run again when it ends, and values
that depend on the zygote's environment."""

from __future__ import annotations

import logging
import multiprocessing.process
import multiprocessing.util
import sys
import tempfile
import weakref


def forget():
    """Call it in the child, before the user's code runs."""
    tempfile.tempdir = tempfile._name_sequence = None  # TMPDIR may be different here
    weakref.finalize._registry.clear()
    weakref.finalize._dirty = False
    multiprocessing.util._finalizer_registry.clear()
    multiprocessing.process._children.clear()
    _forget_tracker()
    logging._handlerList.clear()  # the zygote's handlers: only the zygote may write what they have buffered


def _forget_tracker():
    """Otherwise all ranks would share multiprocessing's tracker of shared memory, a child of the zygote."""
    tracker = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    for name in ("_fd", "_pid"):
        if hasattr(tracker, name):
            setattr(tracker, name, None)
