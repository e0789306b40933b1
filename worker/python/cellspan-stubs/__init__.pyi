# SPDX-License-Identifier: BSD-3-Clause
# What a type checker and an editor know of cellspan. Each name is in the stub of its module, beside which editors find the docstring.
from . import horovod as horovod
from . import maggy as maggy
from . import px as px
from . import tensorflow as tensorflow
from . import torch as torch
from ._api import Group as Group
from ._api import Handle as Handle
from ._api import call as call
from ._api import group as group
from ._api import run as run
from ._distributed import distributed as distributed
from ._map import map as map
from ._steps import on_notice as on_notice
from ._steps import step as step
from ._worker.remote import RemoteError as RemoteError
from ._world import local_rank as local_rank
from ._world import rank as rank
from ._world import world_size as world_size

__version__: str
__all__ = [
    "Group", "Handle", "RemoteError", "call", "distributed", "group", "local_rank", "map", "on_notice", "rank", "run", "step",
    "world_size",
]

def load_ipython_extension(ipython: object) -> None: ...
