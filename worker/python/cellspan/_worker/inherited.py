"""What a process that is forked off the zygote must not take over from it: what would be done once more when it ends, and
what was found out for another environment."""

from __future__ import annotations

import logging
import multiprocessing.process
import multiprocessing.util
import sys
import tempfile
import weakref


def forget():
    """In the child, before anything of the user's runs."""
    tempfile.tempdir = tempfile._name_sequence = None  # TMPDIR may be another one here
    weakref.finalize._registry.clear()
    weakref.finalize._dirty = False
    multiprocessing.util._finalizer_registry.clear()
    multiprocessing.process._children.clear()
    _forget_tracker()
    logging._handlerList.clear()  # those of the zygote's: what they hold is the zygote's to write


def _forget_tracker():
    """multiprocessing's tracker of shared memory would be the zygote's child, shared by all of its ranks."""
    tracker = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    for name in ("_fd", "_pid"):
        if hasattr(tracker, name):
            setattr(tracker, name, None)
