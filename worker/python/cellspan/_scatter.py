# SPDX-License-Identifier: BSD-3-Clause
"""Divides a sequence among the ranks, and joins what ranks have: Group.scatter() and gather(), %scatter and %gather.

A rank binds its part itself, as the line `name = ...` in a cell would. So the part belongs to the rank: a variable of home with the
same name does not replace it until home assigns that one again.
"""

from __future__ import annotations

import contextlib
import operator
import sys

from . import _api
from ._base import own_code
from ._base.errors import with_article
from ._capture import vars_bundle
from ._map import serving
from ._option_errors import InPython
from ._worker import exchange

PART = own_code.function("_worker.exchange", "receive_part") + "({0})"


def scatter(home, name, values, options, flatten=False, order=None):
    """Binds a part of `values` to `name` on each rank that takes part. options: as of %distribute, by their long names. order: the
    numbers of these ranks, the one with the first part first (None: by number); a rank that is listed twice keeps the last part."""
    __tracebackhide__ = True
    _api._check_name(name)
    length(values)
    if _api.is_far(home):
        home.do("_scatter", "scatter", None, name, values, options, flatten, order)
        return
    home = home or _api.current_home()
    parts = _Parts(home, values, flatten, order or numbers(options.get("ranks")))
    with serving(home, parts) as of:
        try:
            with InPython(options):
                home.call(_api.magic_line("%distribute", options) + f"\n{name} = " + PART.format(of), _api.CALL_SHOWN)
        except Exception:
            if parts.error is not None and not isinstance(parts.error, KeyboardInterrupt):  # home is interrupted when ranks fail
                raise parts.error from None
            raise


def length(values):
    """len(values). TypeError: it can't be divided."""
    __tracebackhide__ = True
    kind = with_article(type(values).__name__)
    if getattr(values, "shape", None) == ():
        raise TypeError(f"scatter() can't divide {kind} without dimensions: it takes one that has rows")
    try:
        if isinstance(values, (str, bytes, dict, set, frozenset)):
            raise TypeError
        found = len(values)
        if found:
            slice_of(values, 0, 1)
        return found
    except Exception:  # noqa: BLE001 - an object may refuse in any way
        raise TypeError(f"scatter() can't divide {kind}: it takes a list, a tuple, a range, an array, a tensor or a DataFrame") from None


def slice_of(values, begin, end):
    """values[begin:end]; of a pandas object, rows by their position."""
    rows = getattr(values, "iloc", None)
    return (values if rows is None else rows)[begin:end]


def bounds(length, index, count):
    """(begin, end) of part `index` of `count`: the sizes differ by at most one, and larger parts come first."""
    size, more = divmod(length, count)
    begin = index * size + min(index, more)
    return begin, begin + size + (index < more)


class _Parts:
    """Hands each rank its part."""

    def __init__(self, home, values, flatten, wanted):
        self.home, self.values, self.flatten, self.wanted = home, values, flatten, wanted
        self.error = None

    def take(self, cell, rank, head, data):
        __tracebackhide__ = True
        try:
            data = vars_bundle.pack_bytes(self._part(rank, head["world"]), self.home.shell.user_ns)
        except Exception as error:
            why = f"scatter(): the part of rank {rank} can't be sent: {vars_bundle.reason(error)}"
            exchange.send_load(self.home, cell, rank, {"failed": why})
            raise TypeError(why) from None
        exchange.send_load(self.home, cell, rank, {}, data)

    def _part(self, rank, world):
        ranks = self.wanted or range(world)
        last = max(at for at, each in enumerate(ranks) if each == rank)
        begin, end = bounds(len(self.values), last, len(ranks))
        part = slice_of(self.values, begin, end)
        if self.flatten and end - begin == 1:
            part = part[0] if getattr(part, "iloc", None) is None else part.iloc[0]
        return part

    def stop(self, error):
        self.error = self.error or error


def numbers(ranks):
    """The numbers of an option `ranks`, sorted; None: all. ValueError: text of another form than "0,2-5", or no rank at all."""
    __tracebackhide__ = True
    if ranks is None:
        return None
    with contextlib.suppress(TypeError):
        return [operator.index(ranks)]  # it may be numpy's
    if not isinstance(ranks, str):
        found = sorted({int(rank) for rank in ranks})
        if not found:
            raise ValueError(f"ranks={ranks!r}: it names no rank; such as [0, 2], or None for all ranks")
        return found
    found = set()
    for piece in ranks.split(","):
        first, dash, last = piece.strip().partition("-")
        if not (first.isdigit() and (last.isdigit() or not dash)):
            raise ValueError(f"ranks={ranks!r}: {piece.strip()!r} is no rank; such as 0,2-5")
        found.update(range(int(first), int(last or first) + 1))
    return sorted(found)


def joined(values):
    """What a list of parts was before it was divided: arrays, tensors and pandas objects one after another along their first
    dimension, lists and tuples as one. Parts of other types, or of several, stay a list."""
    kinds = {type(value) for value in values}
    first = values[0] if values else None
    module = type(first).__module__.partition(".")[0]
    if len(kinds) > 1 and not kinds <= {list, tuple, range}:
        return values
    if isinstance(first, (list, tuple, range)):
        flat = [item for value in values for item in value]
        return tuple(flat) if kinds == {tuple} else flat
    if module == "numpy" and getattr(first, "ndim", 0):
        numpy = sys.modules["numpy"]
        masked = isinstance(first, numpy.ma.MaskedArray)  # numpy.concatenate() would forget what is masked
        return (numpy.ma if masked else numpy).concatenate(values)
    if module == "torch" and getattr(first, "ndim", 0):
        return sys.modules["torch"].cat([value.cpu() for value in values])
    if module == "pandas":
        return _joined_pandas(values, sys.modules["pandas"])
    return values


def _joined_pandas(values, pandas):
    if hasattr(values[0], "iloc"):
        return pandas.concat(values)
    if isinstance(values[0], pandas.Index):
        return values[0].append(values[1:])
    if isinstance(values[0], pandas.Categorical) and any(value.dtype != values[0].dtype for value in values):
        with contextlib.suppress(TypeError):  # ordered ones, or of several types, have no union
            return pandas.api.types.union_categoricals(values)
    if isinstance(values[0], pandas.api.extensions.ExtensionArray):
        return pandas.concat([pandas.Series(value) for value in values], ignore_index=True).array
    return values
