# SPDX-License-Identifier: BSD-3-Clause
"""Packages of others that tests need. Each process of pytest-xdist loads all files of tests: where one of them imported torch or
nbformat, each process would need 2 s more for it. So files import neither, and the functions that use nbformat do."""

from __future__ import annotations

import importlib.util

import pytest


def needs(*names):
    """Skips the test, or the file, where one of the packages is not installed. Imports none: the kernels of a test do that."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)
