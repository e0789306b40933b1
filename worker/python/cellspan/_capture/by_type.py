# SPDX-License-Identifier: BSD-3-Clause
"""Classes of packages whose objects are pickled in a way of their own.

A class is known by its module and its qualified name. So no package is imported for this, and a package that is not used costs
nothing. Subclasses are treated as their base is.
"""

from __future__ import annotations

import operator

from . import caches, tensors, worlds


def _reduce_array_type(kind):
    """`ctypes.c_int * 3`, which has no name by which another process finds it. A class with a name of its own derives from it."""
    return (operator.mul, (kind._type_, kind._length_)) if kind is kind._type_ * kind._length_ else NotImplemented


# {(module, qualified name): a function that reduces an object, or returns NotImplemented}
RULES = {**caches.RULES, **worlds.RULES, ("torch", "Tensor"): tensors.reduce_subclass, ("_ctypes", "PyCArrayType"): _reduce_array_type}


def rule_of(kind):
    """The rule for objects of this class, or None."""
    for base in kind.__mro__:
        module = getattr(base, "__module__", None)
        rule = RULES.get((module, base.__qualname__)) if isinstance(module, str) else None
        if rule is not None:
            return rule
    return None
