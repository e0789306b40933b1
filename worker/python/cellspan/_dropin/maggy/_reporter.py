# SPDX-License-Identifier: BSD-3-Clause
"""The reporter that train_fn may ask for."""

from __future__ import annotations

import datetime
import sys
import threading

from . import _values
from .core.exceptions import BroadcastMetricTypeError, BroadcastStepTypeError, BroadcastStepValueError


class Reporter:
    """Collects the metrics of one rank, and prints its messages. Threads may share it."""

    def __init__(self, rank):
        self.partition_id = rank
        self.metric = None
        self.step = -1
        self.history = []
        self.lock = threading.RLock()

    def broadcast(self, metric, step=None):
        """Records a metric, a number, for lagom()'s result. step: a number, such as the epoch's, that never decreases (None: the
        step before plus 1).

        BroadcastMetricTypeError, BroadcastStepTypeError (both TypeError), BroadcastStepValueError (a ValueError): the metric or the
        step is no number, or the step is lower than the one before.
        """
        __tracebackhide__ = True
        with self.lock:
            step = self.step + 1 if step is None else step
            if _values.number(metric) is None:
                raise BroadcastMetricTypeError(f"broadcast() takes a number as the metric, not {_values.described(metric)}")
            if _values.number(step) is None:
                raise BroadcastStepTypeError(f"broadcast() takes a number as the step, not {_values.described(step)}; "
                                             f"the metric was {metric}")
            if step < self.step:
                raise BroadcastStepValueError(f"broadcast({metric}, step={step}): the step before was {self.step}, and steps "
                                              "may not decrease")
            self.metric, self.step = _values.number(metric), _values.number(step)
            self.history.append((self.step, self.metric))

    def log(self, log_msg, jupyter=False):
        """Prints a message on this rank: with jupyter=True as "rank: message", else on stderr, with the time."""
        with self.lock:
            if jupyter:
                print(f"{self.partition_id}: {log_msg}")
            else:
                print(f"{datetime.datetime.now().isoformat()} ({self.partition_id}/0): {log_msg}", file=sys.stderr)
