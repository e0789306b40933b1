# SPDX-License-Identifier: BSD-3-Clause
from typing import Any

__all__ = ["KerasBatchEnd", "KerasEpochEnd"]

class _Refused:
    def __init__(self, *_: Any, **__: Any) -> None: ...

class KerasBatchEnd(_Refused): ...
class KerasEpochEnd(_Refused): ...
