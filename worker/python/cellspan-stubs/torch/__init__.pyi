# SPDX-License-Identifier: BSD-3-Clause
import logging
import os
from collections.abc import Callable
from typing import Any, TypeVar, overload

_T = TypeVar("_T")

__all__ = ["DeepspeedTorchDistributor", "TorchDistributor"]

class Distributor:
    spark: Any
    logger: logging.Logger
    num_processes: int
    local_mode: bool
    use_gpu: bool
    on: str | None
    reuse: bool
    ssl_conf: str | None
    num_tasks: int
    def __init__(
        self, num_processes: int = 1, local_mode: bool = True, use_gpu: bool = True, ssl_conf: str | None = None, *,
        on: str | None = None, reuse: bool = False,
    ) -> None: ...

class TorchDistributor(Distributor):
    input_params: dict[str, Any]
    def __init__(
        self, num_processes: int = 1, local_mode: bool = True, use_gpu: bool = True,
        _ssl_conf: str = "pytorch.spark.distributor.ignoreSsl", *, on: str | None = None, reuse: bool = False,
    ) -> None: ...
    @overload
    def run(self, train_object: str | os.PathLike[str], *args: object) -> None: ...
    @overload
    def run(self, train_object: Callable[..., _T], *args: Any, **kwargs: Any) -> _T: ...

class DeepspeedTorchDistributor(TorchDistributor):
    deepspeed_config: str | dict[str, Any] | None
    cleanup_deepspeed_conf: bool
    def __init__(
        self, numGpus: int = 1, nnodes: int = 1, localMode: bool = True, useGpu: bool = True,
        deepspeedConfig: str | dict[str, Any] | None = None, *, on: str | None = None, reuse: bool = False,
    ) -> None: ...
