# SPDX-License-Identifier: BSD-3-Clause
from collections.abc import Callable
from typing import Any

from ...config import LagomConfig

__all__ = ["lagom"]

def lagom(
    train_fn: Callable[..., Any], config: LagomConfig, *, n: int | None = None, on: str | None = None, reuse: bool = False
) -> dict[str, Any]: ...
