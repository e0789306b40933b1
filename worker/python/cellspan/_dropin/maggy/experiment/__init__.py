# SPDX-License-Identifier: BSD-3-Clause
"""`from cellspan.maggy import experiment` and `from cellspan.maggy.experiment import experiment`: both have lagom()."""

from ..._dropin_api import directory
from . import experiment
from .experiment import lagom

__all__ = ["experiment", "lagom"]
__dir__ = directory(globals())
