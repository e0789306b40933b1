# SPDX-License-Identifier: BSD-3-Clause
"""Objects that keep what they have computed about themselves. Such an attribute is not pickled: it would look as if somebody who has only
read the object had changed it. Each one is known by its class and its name, since a name alone proves nothing.

Of other classes, those attributes are known whose descriptor says so by its name, as functools.cached_property. They are sent, for what they
compute may be random, and only a rank that compares its value leaves them out (class_states.py); not if that may have been changed since
it was computed, as a lazy network is when it is trained.
"""

from __future__ import annotations

import datetime
import enum
import numbers
import pathlib
import sys

from . import arrays

LAZY = {"cached_property", "lazy_property", "lazyproperty", "reify"}  # names of such descriptors' classes
CONSTANT = (type(None), numbers.Number, str, bytes, range, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, pathlib.PurePath)


class _Empty:
    """Its objects have no attributes."""


NO_STATE = _Empty().__reduce_ex__(5)[2]  # {} or None: it depends on Python's version


def lazy_names(kind):
    """The names of a class's attributes that are computed when they are first read."""
    names = {name for base in kind.__mro__ for name, value in vars(base).items() if _is_lazy(value)}
    return frozenset(name for name in names if _is_lazy(_in_class(kind, name)))


def _in_class(kind, name):
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _is_lazy(value):
    return any(base.__name__ in LAZY for base in type(value).__mro__)


def kept(obj, names):
    """{name: value} of those of these attributes that the object itself has."""
    try:
        own = object.__getattribute__(obj, "__dict__")
        return {name: own[name] for name in names if name in own}
    except Exception:  # noqa: BLE001 - a class without one, or with one of the user's making
        return {}


def is_only_computed(kind, name, value):
    """Is this value of such an attribute as it was computed? What nobody can change is; and what torch's distributions make of their
    parameters."""
    return type(_in_class(kind, name)).__module__ == "torch.distributions.utils" or _is_constant(value)


def _is_constant(value):
    if isinstance(value, (type, enum.Enum)):
        return True
    if getattr(value, "__dict__", None):
        return False
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_constant, value))
    numpy = sys.modules.get("numpy")
    return isinstance(value, CONSTANT) or (hasattr(numpy, "generic") and isinstance(value, numpy.generic) and not isinstance(value, numpy.void))


def without_computed(kind, reduced, computed):
    """The reduction of an object without these attributes, {name: value}; like that of one which has never had them."""
    reduced = less(reduced, computed)
    is_own = getattr(kind, "__getstate__", None) is not getattr(object, "__getstate__", None)
    if is_own or not isinstance(reduced, tuple) or len(reduced) < 3:
        return reduced
    make, args, state, *more = reduced
    if isinstance(state, tuple) and state[:1] == ({},):  # the second part has slots
        state = (NO_STATE, *state[1:])
    return (make, args, NO_STATE if state == {} else state, *more)


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
