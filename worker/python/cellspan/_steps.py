# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.on_notice() and step(): what ranks do before their machine goes away."""

from __future__ import annotations

import sys

from . import _link


def on_notice(fn):
    """Has ranks call fn() when they hear that a machine of theirs will be gone soon, such as a spot machine: to write a checkpoint.

    fn runs on all ranks of the cell that have given one, within `cellspan.step()`, and in the same step on all of them. If no cell
    runs, it runs at once. If the notice has come before, fn runs in a next step, too. It replaces the fn before; None takes it back.
    Returns fn, so it can be a decorator. At home it does nothing.
    """
    __tracebackhide__ = True
    if fn is not None and not callable(fn):
        raise TypeError(f"cellspan.on_notice() takes a function, not {type(fn).__name__}")
    rank = getattr(sys.modules.get("cellspan._worker.rank"), "current", None)
    if rank is not None and _link.alive():
        rank.notices.set(fn)
    return fn


def step():
    """Counts a step of the training. Call it on each rank, as often as on all others: once a batch, where a checkpoint can be written.

    After a notice (see `cellspan.on_notice()`) it waits until all ranks are in the same step, and runs the function there. Without
    one it costs nothing. At home it does nothing.
    """
    number = _link.step()
    if number:
        sys.modules["cellspan._worker.rank"].current.notices.meet(number)
