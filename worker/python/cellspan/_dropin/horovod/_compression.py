# SPDX-License-Identifier: BSD-3-Clause
"""What gradients may be converted to while they travel."""

from __future__ import annotations

import torch


class Compressor:
    """The interface: compress(tensor) gives (tensor, context), and decompress(tensor, context) the way back."""

    @staticmethod
    def compress(tensor):
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Leaves tensors as they are."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


class FP16Compressor(Compressor):
    """Sends floating point numbers as float16. The context is the old type."""

    @staticmethod
    def compress(tensor):
        smaller = tensor.to(torch.float16) if tensor.dtype.is_floating_point else tensor
        return smaller, tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)


class Compression:
    """hvd.Compression.none and hvd.Compression.fp16."""

    none = NoneCompressor
    fp16 = FP16Compressor
