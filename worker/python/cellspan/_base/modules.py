# SPDX-License-Identifier: BSD-3-Clause
"""Modules, looked at without running anything of theirs."""

from __future__ import annotations


def names_of(module):
    """What a module defines, as a dict. The module itself is not called: with importlib.util.LazyLoader, and some others, each access to an
    attribute imports. {}: it is None, or something else without names, or a proxy of something that is not there."""
    try:
        names = object.__getattribute__(module, "__dict__")
    except Exception:  # noqa: BLE001 - from a proxy's own code
        return {}
    return names if isinstance(names, dict) else {}
