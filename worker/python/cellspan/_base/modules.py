# SPDX-License-Identifier: BSD-3-Clause
"""Modules, looked at without running anything of theirs."""

from __future__ import annotations

import os

INSTALLED = frozenset(("site-packages", "dist-packages"))  # folders of this name have what is installed
_OTHERS = tuple(os.path.join(path, "") for path in (os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def names_of(module):
    """What a module defines, as a dict. The module itself is not called: with importlib.util.LazyLoader, and some others, each access to an
    attribute imports. {}: it is None, or something else without names, or a proxy of something that is not there."""
    try:
        names = object.__getattribute__(module, "__dict__")
    except Exception:  # noqa: BLE001 - from a proxy's own code
        return {}
    return names if isinstance(names, dict) else {}


def is_users_file(path):
    """Is it the source of a module that users edit: neither Python's, nor of an installed package, nor ours? (sysconfig would know the same,
    and takes longer to load than all this module does.)"""
    return path.endswith(".py") and not path.startswith(_OTHERS) and INSTALLED.isdisjoint(path.split(os.sep))
