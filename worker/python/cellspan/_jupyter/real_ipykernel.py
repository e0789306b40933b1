# SPDX-License-Identifier: BSD-3-Clause
"""If somebody imports the real ipykernel at home, its application knows this kernel, so that get_connection_file() and the like work."""

from __future__ import annotations

import os
import sys

from .._base.imports import when_imported

CONNECTION = "CELLSPAN_CONNECTION_FILE"  # kernel/kernel.h


def watch(home):
    """Call it once, at home's start."""
    when_imported("ipykernel.kernelapp", lambda: _introduce(home))


def _introduce(home):
    """Makes the application's single instance. It is not initialized: it has no sockets and starts nothing."""
    application = sys.modules["ipykernel.kernelapp"].IPKernelApp
    path = os.environ.get(CONNECTION, "")
    if path and not application.initialized():
        application.instance(connection_file=path, kernel=home.shell.kernel, shell=home.shell)
