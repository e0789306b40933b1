# SPDX-License-Identifier: BSD-3-Clause
"""Versions of packages, to compare home's with those of another machine. No package is imported for it."""

from __future__ import annotations

import functools
import importlib.util
import sys
from importlib import metadata

from .._base.modules import names_of

# Distributions whose modules have another name
DISTRIBUTIONS = {
    "attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python", "dateutil": "python-dateutil", "dotenv": "python-dotenv", "git": "GitPython",
    "jwt": "PyJWT", "OpenSSL": "pyOpenSSL", "PIL": "pillow", "pl_bolts": "lightning-bolts", "pytorch_lightning": "pytorch-lightning",
    "serial": "pyserial", "skimage": "scikit-image", "sklearn": "scikit-learn", "umap": "umap-learn", "yaml": "PyYAML", "zmq": "pyzmq",
}


def of(module):
    """The version of a top-level module's package, as text; "" if it is not known."""
    for name in (DISTRIBUTIONS.get(module, module), module.replace("_", "-")):
        try:
            return str(metadata.version(name) or "")
        except Exception:  # noqa: BLE001 - it is not there, or its metadata is broken
            continue
    for name in _distributions().get(module, ())[:1]:
        return str(metadata.version(name) or "")
    names = names_of(sys.modules.get(module))
    return names["__version__"] if isinstance(names.get("__version__"), str) else ""


@functools.lru_cache(maxsize=1)
def _distributions():
    """{top-level module: names of distributions}; it reads the metadata of all, which takes a moment."""
    try:
        return metadata.packages_distributions()
    except Exception:  # noqa: BLE001 - before Python 3.10, or some metadata is broken
        return {}


def is_there(module):
    """Can this process import it?"""
    try:
        return module in sys.modules or importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def compared(home, host):
    """Lines about packages that have another version here. home: {module: version}."""
    lines = []
    for module, there in sorted(home.items()):
        here = of(module)
        if here and there and here != there:
            lines.append(f"{module} {there} here, {here} on {host}")
    return lines
