# SPDX-License-Identifier: BSD-3-Clause
"""horovod.torch's names, on torch.distributed: gloo for tensors of the CPU, NCCL for those of GPUs.

`import cellspan.horovod.torch as hvd` takes the place of `import horovod.torch as hvd`. At home the size is 1.
"""

from __future__ import annotations

import sys as _sys

try:
    import torch as _torch
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    raise ModuleNotFoundError("cellspan.horovod.torch needs torch, at home and on the ranks: pip install torch", name="torch") from None

from .._dropin_api import directory as _directory
from . import _install, _refused
from ._autograd import allgather, allreduce, alltoall, broadcast, grouped_allgather, grouped_allreduce, grouped_reducescatter, reducescatter
from ._batchnorm import SyncBatchNorm
from ._compression import Compression
from ._functions import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from ._ops import (
    Adasum,
    Average,
    HorovodInternalError,
    Max,
    Min,
    Product,
    ProcessSet,
    Sum,
    allgather_async,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    barrier,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    global_process_set,
    grouped_allgather_async,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter_async,
    join,
    poll,
    reducescatter_async,
    sparse_allreduce_async,
    synchronize,
)
from ._optimizer import DistributedOptimizer
from ._state import cross_rank, cross_size, init, is_initialized, local_rank, local_size, rank, shutdown, size

add_process_set = _refused.function("add_process_set")
remove_process_set = _refused.function("remove_process_set")
start_timeline = _refused.function("start_timeline")
stop_timeline = _refused.function("stop_timeline")
mpi_threads_supported = _refused.function("mpi_threads_supported")
elastic = _sys.modules[f"{__name__}.elastic"] = _refused.Part(f"{__name__}.elastic", "elastic")
__path__ = []  # so that Python imports horovod.torch.elastic, and the like


def gloo_built():
    """Is gloo there, for tensors of the CPU?"""
    return _torch.distributed.is_available() and _torch.distributed.is_gloo_available()


def gloo_enabled():
    """As gloo_built()."""
    return gloo_built()


def nccl_built():
    """NCCL's version as a number, such as 22304; 0 if this torch has no NCCL."""
    if not (_torch.distributed.is_available() and _torch.distributed.is_nccl_available()):
        return 0
    major, minor, patch = (*_torch.cuda.nccl.version(), 0, 0)[:3]
    return major * 10000 + minor * 100 + patch


def cuda_built():
    """Was this torch built with CUDA?"""
    return _torch.version.cuda is not None


def rocm_built():
    """Was this torch built with ROCm?"""
    return _torch.version.hip is not None


def mpi_built():
    """False: there is no MPI."""
    return False


def mpi_enabled():
    """False: there is no MPI."""
    return False


def ddl_built():
    """False: there is no DDL."""
    return False


def ccl_built():
    """False: there is no oneCCL."""
    return False


__all__ = sorted(name for name in globals() if not name.startswith("_") and name != "annotations")
__dir__ = _directory(globals())

if _install.real():
    import horovod.torch as _real

    _sys.modules[__name__] = _real  # Python's import takes what sys.modules has now
