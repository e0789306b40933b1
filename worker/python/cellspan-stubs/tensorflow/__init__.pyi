# SPDX-License-Identifier: BSD-3-Clause
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

__all__ = ["MirroredStrategyRunner"]

class MirroredStrategyRunner:
    def __init__(
        self, *, num_slots: int, local_mode: bool = False, use_gpu: bool = True, gpu_resource_name: str = "gpu",
        use_custom_strategy: bool = False, on: str | None = None, reuse: bool = False,
    ) -> None: ...
    def get_num_tasks(self) -> int: ...
    def run(self, train_fn: Callable[..., _T], **kwargs: Any) -> _T: ...
