# SPDX-License-Identifier: BSD-3-Clause
"""Objects that keep what they have computed about themselves. Such an attribute is not pickled: it would look as if somebody who has only
read the object had changed it. Each one is known by its class and its name, since a name alone proves nothing.

torch's distributions keep what they compute of their parameters, too. That is sent, and only a rank that compares its value leaves it out
(class_states.py), if the distribution computes the same again: somebody may have assigned another value. Of other classes this can't be found
out so: to compute it again is to call the user's code, which may be random, wait for other ranks, or write something. Of what a
functools.cached_property keeps, only_read.py notes that somebody has only read it.
"""

from __future__ import annotations

import sys

from . import arrays

OF_TORCH = "torch.distributions."
ANNOTATIONS = ("__annotations__", "__annotations_cache__") if sys.version_info >= (3, 10) else ()


def of_class(attributes):
    """The names of a class's attributes that another process gives to it by itself: __slotnames__, which copyreg adds when an instance is pickled,
    and the empty __annotations__ that Python adds when they are read, as isinstance() with a Protocol does."""
    return {"__module__", "__slotnames__", *(name for name in ANNOTATIONS if attributes.get(name) == {})}


def lazy_names(kind):
    """The names of attributes that a class of torch's distributions computes when they are first read."""
    if not str(vars(kind).get("__module__")).startswith(OF_TORCH):
        return frozenset()
    return frozenset(name for base in kind.__mro__ for name in vars(base) if _is_lazy(_in_class(kind, name)))


def _in_class(kind, name):
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _is_lazy(value):
    return type(value).__module__.startswith(OF_TORCH) and type(value).__name__ == "lazy_property"


def kept(obj, names):
    """{name: value} of those of these attributes that the object itself has."""
    own = vars(obj)
    return {name: own[name] for name in names if name in own}


def is_only_computed(obj, name, value):
    """Is this value of such an attribute what the object computes if it does not have it?"""
    tensor, kind = sys.modules["torch"].Tensor, type(obj)
    twin = object.__new__(kind)
    vars(twin).update((own, one) for own, one in vars(obj).items() if own != name)
    again = _in_class(kind, name).__get__(twin, kind)
    return type(again) is type(value) is tensor and (again.dtype, again.device) == (value.dtype, value.device) and again.equal(value)


def of_dispatch(function):
    """{id of an object: what is sent in its place} of what functools.singledispatch keeps of its calls: the functions that it has found, and
    how many abstract classes this process knew then. function: one of functools' own."""
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    if "dispatch_cache" not in names or "cache_token" not in names:
        return {}
    cache, token = cells[names.index("dispatch_cache")], cells[names.index("cache_token")]
    return {id(cache.cell_contents): None, **({} if token.cell_contents is None else {id(token): 0})}


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
    """names: also {name: value}; then an entry of another value stays."""
    if not isinstance(part, dict):
        return part
    values = names if isinstance(names, dict) else part
    return {name: value for name, value in part.items() if name not in names or values[name] is not value}


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
