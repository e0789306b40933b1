# SPDX-License-Identifier: BSD-3-Clause
"""Which of a rank's own names use the memory of a value that home would replace. For example, an optimizer that was made on the
rank holds the parameters of its model. If home replaced the model, the optimizer would continue to update the old parameters.

It walks through containers and attributes of objects, without running code. A plain tensor or array does not count, since loops
leave such variables behind.
"""

from __future__ import annotations

import sys
import time
import types
from itertools import chain, islice

MOST = 20_000  # objects to visit for one value
LIMIT = 0.3  # seconds for all of them
LEAVES = (int, float, complex, bool, str, bytes, bytearray, type(None), type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def holders(name, user_ns, own):
    """Those of the names `own`, in their order, whose values use memory of the current value of `name`."""
    end = time.monotonic() + LIMIT
    try:
        memory = _memory_of(user_ns[name], user_ns, end) if name in user_ns else set()
        bare = _bare()
        return [n for n in own if memory and not isinstance(user_ns[n], bare) and memory & _memory_of(user_ns[n], user_ns, end)]
    except Exception:  # noqa: BLE001 - a user's object that can't be walked
        return []


def _bare():
    return tuple(getattr(sys.modules[m], n) for m, n in (("torch", "Tensor"), ("numpy", "ndarray")) if hasattr(sys.modules.get(m), n))


def _memory_of(value, user_ns, end):
    """The memory addresses of the tensors and arrays in it. Does not enter the namespace itself."""
    found, seen, waiting, bare = set(), {id(user_ns)}, [value], _bare()
    for _ in range(MOST):
        if not waiting or time.monotonic() > end:
            break
        one = waiting.pop()
        if id(one) in seen or isinstance(one, LEAVES):
            continue
        seen.add(id(one))
        if isinstance(one, bare):
            found.add(_place_of(one))
        else:
            waiting.extend(islice(_inner(one), MOST))
    return found - {0}


def _place_of(one):
    try:
        return one.untyped_storage().data_ptr() if hasattr(one, "untyped_storage") else one.__array_interface__["data"][0]
    except Exception:  # noqa: BLE001 - a tensor without storage
        return 0


def _inner(one):
    if isinstance(one, dict):
        return chain(dict.keys(one), dict.values(one))
    if isinstance(one, (list, tuple, set, frozenset)):
        return iter(one)
    attributes = getattr(one, "__dict__", None)
    return iter(attributes.values()) if type(attributes) is dict else iter(())
