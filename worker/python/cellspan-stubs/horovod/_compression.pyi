# SPDX-License-Identifier: BSD-3-Clause
from typing import Any

import torch

class Compressor:
    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]: ...
    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor: ...

class NoneCompressor(Compressor): ...
class FP16Compressor(Compressor): ...

class Compression:
    none: type[NoneCompressor]
    fp16: type[FP16Compressor]
