# SPDX-License-Identifier: BSD-3-Clause
"""The first traceback, which the zygote renders for its ranks. It is alone in this file, all of which IPython analyses for it."""

from __future__ import annotations

import sys


def render():
    """Renders one traceback and discards it. The first one imports and caches much, which takes most of a second on a busy
    machine. Ranks that fail in the same way should report it at the same time."""
    from IPython.core.ultratb import AutoFormattedTB

    try:
        raise ValueError("practice")
    except ValueError:
        try:
            AutoFormattedTB(mode="Context").structured_traceback(*sys.exc_info())
        except Exception:  # noqa: BLE001 - another version of IPython; then each rank's first traceback is slow
            pass
