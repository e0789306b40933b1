# SPDX-License-Identifier: BSD-3-Clause
"""Objects that keep what they have computed about themselves. Such an attribute is not pickled: it would look as if somebody who has only
read the object had changed it. Each one is known by its class and its name, since a name alone proves nothing.
"""

from __future__ import annotations

from . import arrays


def without(*names):
    """The rule for objects that are pickled without these attributes, which their class computes again when it needs them."""
    return lambda obj: less(obj.__reduce_ex__(5), names)


def less(reduced, names):
    """The reduction without these attributes: in its state, or in the dicts of a state that is a tuple."""
    if not isinstance(reduced, tuple) or len(reduced) < 3:
        return reduced
    make, args, state, *more = reduced
    if isinstance(state, tuple):
        return (make, args, tuple(_without(part, names) for part in state), *more)
    return (make, args, _without(state, names), *more)


def _without(part, names):
    return {name: value for name, value in part.items() if name not in names} if isinstance(part, dict) else part


def _reduce_extension_array(array):
    make, args, state, *more = less(array.__reduce_ex__(5), ("_cache",))
    # pandas 2 loads no state of two parts
    return (make, args, (*state, {}) if isinstance(state, tuple) and len(state) == 2 else state, *more)


def _reduce_coo(matrix):
    """The mark says that the entries are in order, which any of scipy's functions may find out: without it they sort them again."""
    make, args, state, *more = matrix.__reduce_ex__(5)
    return (make, args, {**state, "has_canonical_format": False} if isinstance(state, dict) else state, *more)


def _reduce_tracked(array):
    """trimesh's arrays keep a digest of their content, and whether it is still right."""
    return less(arrays.reduce_subclass(array), ("_dirty_hash", "_hashed"))


def _reduce_vectorize(function):
    """numpy.vectorize keeps a ufunc, which can't be pickled, of its first call."""
    make, args, state, *more = function.__reduce_ex__(5)
    return (make, args, {**state, "_ufunc": {}} if isinstance(state, dict) and state.get("_ufunc") else state, *more)


GRAPH = ("adj", "succ", "pred", "nodes", "edges", "out_edges", "in_edges", "degree", "in_degree", "out_degree", "__networkx_cache__")

RULES = {
    ("scipy.sparse._compressed", "_cs_matrix"): without("_has_canonical_format", "_has_sorted_indices"),
    ("scipy.sparse._coo", "_coo_base"): _reduce_coo,
    ("numpy", "vectorize"): _reduce_vectorize,
    ("pandas.core.base", "SelectionMixin"): without("_cache"),  # groupby, rolling, resample
    ("pandas.core.groupby.ops", "BaseGrouper"): without("_cache"),
    ("pandas.core.groupby.grouper", "Grouping"): without("_cache"),
    ("trimesh.caching", "TrackedArray"): _reduce_tracked,
    ("networkx.classes.graph", "Graph"): without(*GRAPH),
    ("pandas.core.arrays.base", "ExtensionArray"): _reduce_extension_array,
    ("pandas.api.extensions", "ExtensionArray"): _reduce_extension_array,  # its name since pandas 3
}
