# SPDX-License-Identifier: BSD-3-Clause
"""Maggy's callbacks for Keras: they say what to use instead."""

from __future__ import annotations

from .._dropin_api import directory

__all__ = ["KerasBatchEnd", "KerasEpochEnd"]
__dir__ = directory(globals())


class _Refused:
    def __init__(self, *_, **__):
        __tracebackhide__ = True
        raise NotImplementedError(f"{type(self).__name__} does not work here: call reporter.broadcast(metric, step) in the loop of a training of "
                                  "PyTorch; for TensorFlow use cellspan.tensorflow.MirroredStrategyRunner")


class KerasBatchEnd(_Refused):
    """Not available: raises NotImplementedError."""


class KerasEpochEnd(_Refused):
    """Not available: raises NotImplementedError."""
