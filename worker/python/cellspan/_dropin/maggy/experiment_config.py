# SPDX-License-Identifier: BSD-3-Clause
"""The module in which Maggy before 1.1 has its configurations."""

from .config import *  # noqa: F403
from .config import __all__, __dir__  # noqa: F401
