# SPDX-License-Identifier: BSD-3-Clause
from .config import Searchspace as Searchspace

__all__ = ["Searchspace"]
