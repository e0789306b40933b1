# SPDX-License-Identifier: BSD-3-Clause
"""Classes of packages whose objects are pickled in a way of their own.

A class is known by its module and its qualified name. So no package is imported for this, and a package that is not used costs
nothing. Subclasses are treated as their base is.
"""

from __future__ import annotations

import copyreg

from . import arrays, caches, enums, foreign, tensors, worlds


# {(module, qualified name): a function that reduces an object, or returns NotImplemented}
RULES = {**arrays.RULES, **caches.RULES, **enums.RULES, **foreign.RULES, **worlds.RULES, ("torch", "Tensor"): tensors.reduce_subclass}


def rule_of(kind):
    """The rule for objects of this class, or None. What somebody has registered for the class itself comes first, as Python has it."""
    if kind in copyreg.dispatch_table:
        return None
    for base in kind.__mro__:
        module = getattr(base, "__module__", None)
        rule = RULES.get((module, base.__qualname__)) if isinstance(module, str) else None
        if rule is not None:
            return rule
    return None
