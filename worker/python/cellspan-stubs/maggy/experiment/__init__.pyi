# SPDX-License-Identifier: BSD-3-Clause
from . import experiment as experiment
from .experiment import lagom as lagom

__all__ = ["experiment", "lagom"]
