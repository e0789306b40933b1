# SPDX-License-Identifier: BSD-3-Clause
"""The exceptions of Maggy's distributed training, with its names and base classes."""

from __future__ import annotations

from ..._dropin_api import directory

__all__ = [
    "BroadcastMetricTypeError",
    "BroadcastStepTypeError",
    "BroadcastStepValueError",
    "EarlyStopException",
    "MetricTypeError",
    "ReturnTypeError",
]
__dir__ = directory(globals())


class EarlyStopException(Exception):
    """Maggy raises it to stop a trial of a hyperparameter search. Nothing raises it here; code that catches it works."""

    def __init__(self, metric=None):
        super().__init__()
        self.metric = metric


class ReturnTypeError(TypeError):
    """The training function returned something that is neither a number nor a dict of numbers."""


class MetricTypeError(TypeError):
    """A value in the dict that the training function returned is no number."""


class BroadcastMetricTypeError(TypeError):
    """The metric given to reporter.broadcast() is no number."""


class BroadcastStepTypeError(TypeError):
    """The step given to reporter.broadcast() is no number."""


class BroadcastStepValueError(ValueError):
    """The step given to reporter.broadcast() is lower than the one before."""
