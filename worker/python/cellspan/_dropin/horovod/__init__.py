# SPDX-License-Identifier: BSD-3-Clause
"""HorovodRunner, with the interface of Databricks' sparkdl, and `cellspan.horovod.torch`, with that of horovod.torch.

After install(), `from sparkdl import HorovodRunner` and `import horovod.torch as hvd` find these modules, at home and on ranks, and
Lightning has strategy="horovod". `%load_ext cellspan.horovod` is the same.
"""

from __future__ import annotations

from .._dropin_api import directory
from ._install import install, load_ipython_extension, unload_ipython_extension
from ._ranks import log_to_driver
from ._refused import function as _function
from ._runner import HorovodRunner

run = _function("run")
__all__ = ["HorovodRunner", "install", "log_to_driver"]
__dir__ = directory(globals())
