# SPDX-License-Identifier: BSD-3-Clause
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Union

__all__ = [
    "AblationConfig", "BaseConfig", "HyperparameterOptConfig", "LagomConfig", "Searchspace", "TfDistributedConfig",
    "TorchDistributedConfig",
]

_Module = Callable[..., Any]

class LagomConfig:
    name: str
    description: str
    hb_interval: float
    def __init__(self, name: str, description: str = "", hb_interval: float = 1) -> None: ...

class TorchDistributedConfig(LagomConfig):
    BACKENDS: ClassVar[list[str]]
    module: Union[_Module, Sequence[_Module]]
    dataset: Any
    train_set: Any
    test_set: Any
    hparams: dict[str, Any]
    backend: str
    mixed_precision: bool
    zero_lvl: int
    ds_config: dict[str, Any] | None
    find_unused_parameters: bool
    def __init__(
        self, module: Union[_Module, Sequence[_Module]], dataset: Any = None, hparams: dict[str, Any] | None = None,
        backend: str = "torch", mixed_precision: bool = False, zero_lvl: int = 0, deepspeed_config: dict[str, Any] | None = None,
        name: str = "torchDist", hb_interval: float = 1, description: str = "", *, train_set: Any = None, test_set: Any = None,
        find_unused_parameters: bool = False,
    ) -> None: ...
    def check(self) -> None: ...

class _Refused(LagomConfig):
    INSTEAD: ClassVar[str]
    def __init__(self, *_: Any, **__: Any) -> None: ...

class HyperparameterOptConfig(_Refused): ...
class AblationConfig(_Refused): ...
class TfDistributedConfig(_Refused): ...
class BaseConfig(_Refused): ...
class Searchspace(_Refused): ...
