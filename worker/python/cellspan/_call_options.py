# SPDX-License-Identifier: BSD-3-Clause
"""The options of run(), call(), map() and launch(): those of %%distribute, as the kernel's table (magics/distribute.c) has them. So an
option that is added there is one of these calls, too. This module says only what is different in a call of Python."""

from __future__ import annotations

import inspect
from typing import NamedTuple

from . import _link

# Options of a cell that no call has.
_OF_CELLS = frozenset((
    "nproc-per-node",  # n is the size of the world
    "into",  # the call returns the value
    "capture",  # what travels is what the function reads
    "no-capture",
    "beside",  # launch() says it by reuse=False
))


class Option(NamedTuple):
    name: str  # on the line of the magic: "no-gpu"
    argument: str  # in a call: "no_gpu"
    is_flag: bool
    words: tuple  # those that its value may be

    @property
    def default(self):
        return False if self.is_flag else None


ALL = tuple(
    Option(row["name"], row["argument"] or row["name"].replace("-", "_"), row["value"] is None, tuple(row["words"]))
    for magic in _link.magics() if magic["name"] == "distribute" for row in magic["options"]
)
OF_CALLS = {row.argument: row for row in ALL if row.name not in _OF_CELLS}


def split(given, known=OF_CALLS):
    """({name on the magic's line: value} of the keyword arguments that are options, the others), in the order of the table."""
    options = {row.name: given[argument] for argument, row in known.items() if argument in given}
    others = given if not options else {name: value for name, value in given.items() if name not in known}
    return options, others


def named(function, given, known=OF_CALLS):
    """split() where there must be no others. TypeError: one is no option."""
    __tracebackhide__ = True
    options, others = split(given, known)
    for name in others:
        raise TypeError(f"{function}() has no option {name!r}: help(cellspan.{function}) lists them")
    return options


def documented(function, known=OF_CALLS, keeps=False):
    """Gives a function the signature that has these options in place of its **options. keeps: it takes other keyword arguments, too."""
    found = inspect.signature(function)
    named = [one for one in found.parameters.values() if one.kind is not one.VAR_KEYWORD]
    options = [inspect.Parameter(row.argument, inspect.Parameter.KEYWORD_ONLY, default=row.default) for row in known.values()]
    rest = [one for one in found.parameters.values() if one.kind is one.VAR_KEYWORD and keeps]
    function.__signature__ = found.replace(parameters=[*named, *options, *rest])
    return function
