# SPDX-License-Identifier: BSD-3-Clause
"""Versions of packages that are known not to work together."""

from __future__ import annotations

import functools
import re
import sys

from .imports import before_import

# {package: (its last version that was tried, {another package: its first version that does not work})}
LIMITS = {
    "petastorm": ("0.13.1", {"pyarrow": "15", "numpy": "2", "setuptools": "70"}),
}


def watch():
    """Prints a line when a package is about to be imported that does not work with the versions of others. Its import, or a call, will
    fail, and the error says nothing of versions."""
    for package in LIMITS:
        before_import(package, functools.partial(_tell, package))


def _tell(package):
    mismatch = wrong(package, version_of)
    if mismatch:
        print(f"cellspan: {mismatch}", file=sys.stderr)


def wrong(package, version_of):
    """What does not work with this package, and what to install, as one line; None: nothing is known. version_of: a function that gives
    a package's version or None."""
    tried, others = LIMITS[package]
    here = version_of(package)
    if here is None or _numbers(here) > _numbers(tried):
        return None
    bad = {other: version_of(other) for other, limit in others.items() if _numbers(version_of(other) or "0") >= _numbers(limit)}
    if not bad:
        return None
    found = ", ".join(f"{other} {version}" for other, version in bad.items())
    line = " ".join(f"'{other}<{others[other]}'" for other in bad)
    return f"{package} {here} does not work with {found}: pip install {line}"


def _numbers(version):
    """The numbers at its beginning: (2, 13, 0) of "2.13.0+cpu"."""
    return tuple(int(part) for part in re.match(r"\d+(?:\.\d+)*|", version)[0].split(".") if part)


def version_of(package):
    """The version that is installed, or None."""
    from importlib import metadata  # takes long to import, and most notebooks never ask

    module = sys.modules.get(package)
    try:
        return str(getattr(module, "__version__", None) or metadata.version(package))
    except Exception:  # noqa: BLE001 - it is not installed, or its files are damaged
        return None
