# SPDX-License-Identifier: BSD-3-Clause
from collections.abc import Sequence
from typing import Any

class RemoteError(RuntimeError):
    traceback: Sequence[str]
    item: int  # of map(): which item failed
    def __init_subclass__(cls, **given: Any) -> None: ...
