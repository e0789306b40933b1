# SPDX-License-Identifier: BSD-3-Clause
from collections.abc import Callable
from typing import Any, TypeVar, overload

_F = TypeVar("_F", bound=Callable[[], Any])

@overload
def on_notice(fn: _F) -> _F: ...
@overload
def on_notice(fn: None) -> None: ...
def step() -> None: ...
