# SPDX-License-Identifier: BSD-3-Clause
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

from typing_extensions import ParamSpec

_P = ParamSpec("_P")
_T = TypeVar("_T")

def distributed(
    num_accelerators: int | None = None, accelerator_type: Any = None, remote: bool = False, timeout: float | None = 10800, *,
    gpus: int | None = None, gpu_type: Any = None, n: int | None = None, on: str | None = None, gpus_per_rank: int | None = None,
    reuse: bool = False,
) -> Callable[[Callable[_P, _T]], DistributedFunction[_P, _T]]: ...

class DistributedFunction(Generic[_P, _T]):
    func: Callable[_P, _T]
    def __init__(self, func: Callable[_P, _T], settings: dict[str, Any]) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def distributed(self, *args: _P.args, **kwargs: _P.kwargs) -> list[_T]: ...
    def with_overrides(
        self, num_accelerators: int | None = ..., accelerator_type: Any = ..., remote: bool = ..., timeout: float | None = ..., *,
        gpus: int | None = ..., gpu_type: Any = ..., n: int | None = ..., on: str | None = ..., gpus_per_rank: int | None = ...,
        reuse: bool = ...,
    ) -> DistributedFunction[_P, _T]: ...
