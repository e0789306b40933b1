# SPDX-License-Identifier: BSD-3-Clause
"""Values whose classes and functions were in a module before it was loaded again. The module has others of these names now, so a pickle holds
the older ones as a whole, in place of their names. That alone is no change of the value.
"""

from __future__ import annotations

import contextlib
import functools
import sys

from . import reducers


def pickled_as_before(value, by_value, pickle):
    """The pickle of a value as if no module had been loaded again. by_value: the classes and functions that its pickle holds as a whole.
    pickle(): makes it. None: that would be the same pickle, or it can't be made."""
    older = [obj for obj in by_value if reducers.name_in_module(obj)]
    if not older:
        return None
    try:
        with _back_in_place(older):
            return pickle(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - the user's code pickles it, and a class may not let itself be put anywhere
        return None


@contextlib.contextmanager
def _back_in_place(older):
    """Within the block their modules have these objects. pickle looks a name up in the module itself, so there is no other way."""
    with contextlib.ExitStack() as stack:
        for obj in sorted(older, key=lambda obj: obj.__qualname__.count(".")):  # a class before those in it
            *path, name = obj.__qualname__.split(".")
            place = functools.reduce(getattr, path, sys.modules[obj.__module__])
            now = getattr(place, name)
            if now is not obj:
                setattr(place, name, obj)
                stack.callback(setattr, place, name, now)
        yield
