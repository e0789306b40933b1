# SPDX-License-Identifier: BSD-3-Clause
"""The cases that every engine must pass, for Slurm: its clusters don't run beside one another, so conftest.py groups their files."""

import os
import sys

from test_gpus import doubles  # noqa: F401  (a fixture)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "engines"))

import conformance  # noqa: E402

session = conformance.fixture(["slurm"])


class TestConformance(conformance.Cases):
    pass
