# SPDX-License-Identifier: BSD-3-Clause
"""Maggy's interface for distributed training, on cellspan's ranks: plain training code for one GPU is distributed.

`experiment.lagom(train_fn, config)` runs train_fn on every rank. While it runs, modules, DataLoaders and optimizers that it makes
are distributed. The interface is that of Maggy 1.0 and 1.1.2 (https://github.com/logicalclocks/maggy, its README and docstrings).
"""

from .._dropin_api import directory
from .config import Searchspace

__all__ = ["Searchspace"]
__dir__ = directory(globals())
