# SPDX-License-Identifier: BSD-3-Clause
"""Keeps Accelerate's state for each world. Accelerate stores the world's size once per process. A rank may run the next cell in a
world of another size. With the old state it would train alone or use a process group that does not exist.

All objects of such a class share one dict (`_shared_state`), so it is emptied and filled in place. An Accelerator of another world
raises Accelerate's own error, which says that it must be made again.

`accelerator.end_training()` destroys the process group, and Accelerate keeps the state that names it. In a script nothing follows. In a
notebook the cell is run again, so a new Accelerator forgets a state whose group is gone. Until then the old one still says which rank
this is.
"""

from __future__ import annotations

import functools
import sys

from .._base.imports import when_imported

CLASSES = ("PartialState", "AcceleratorState", "GradientState")  # of accelerate.state
_hidden = {}  # {world: {class name: its state}}


def watch():
    """Call it in a rank whose cells follow one another, before the user's code runs."""
    when_imported("accelerate.state", lambda: _renew("accelerate.state", "PartialState", _by_user))
    when_imported("accelerate.accelerator", lambda: _renew("accelerate.accelerator", "Accelerator", lambda: True))


def _renew(module, name, meant):
    """Lets the class's __init__ first forget a state whose group is gone, if meant()."""
    kind = getattr(sys.modules[module], name, None)
    init = getattr(kind, "__init__", None)
    if init is None:
        return

    @functools.wraps(init)
    def renewed(self, *args, **given):
        __tracebackhide__ = True
        if _is_stale() and meant():
            forget()
        init(self, *args, **given)

    kind.__init__ = renewed


def _by_user():
    """Does the notebook's code make this PartialState? Accelerate makes one wherever it asks which rank this is: its logger does that on
    some ranks only, and a new group would wait for the others."""
    return sys._getframe(2).f_globals.get("__name__") == "__main__"


def _is_stale():
    """Was the group of Accelerate's state destroyed?"""
    state = _states().get("PartialState", {})
    distributed = sys.modules.get("torch.distributed")
    return state.get("backend") not in (None, "xla") and distributed is not None and distributed.is_available() and not distributed.is_initialized()


def enter_world(before, now):
    """The cells from now on run in another world. before, now: what identifies the worlds."""
    if before == now:
        return
    kept = {name: dict(state) for name, state in _states().items()}
    if any(kept.values()):
        _hidden[before] = kept
    _fill(_hidden.pop(now, {}))


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
