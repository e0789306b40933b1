"""Keeps Accelerate's state for each world. Accelerate stores the world's size once per process. A rank may run the next cell in a
world of another size. With the old state it would train alone or use a process group that does not exist.

All objects of such a class share one dict (`_shared_state`), so it is emptied and filled in place. An Accelerator of another world
raises Accelerate's own error, which says that it must be made again.
"""

from __future__ import annotations

import sys

CLASSES = ("PartialState", "AcceleratorState", "GradientState")  # of accelerate.state
_aside = {}  # {world: {class name: its state}}


def enter_world(before, now):
    """The cells from now on run in another world. before, now: what identifies the worlds."""
    if before == now:
        return
    kept = {name: dict(state) for name, state in _states().items()}
    if any(kept.values()):
        _aside[before] = kept
    _fill(_aside.pop(now, {}))


def forget():
    """The world's process group was destroyed: the next Accelerator makes another one."""
    _fill({})


def _fill(kept):
    for name, state in _states().items():
        state.clear()
        state.update(kept.get(name, {}))


def _states():
    """{class name: the dict of all its objects}; empty if Accelerate is not imported."""
    module = sys.modules.get("accelerate.state")
    states = {name: getattr(getattr(module, name, None), "_shared_state", None) for name in CLASSES}
    return {name: state for name, state in states.items() if isinstance(state, dict)}
