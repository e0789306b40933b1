# SPDX-License-Identifier: BSD-3-Clause
"""The text of cells that are cellspan's own. They run among the user's variables, of which any may have the name of a builtin: where
`globals` or `__import__` is the user's, IPython's and Python's functions are not found under these names. So this text uses a name that
nobody else has."""

from __future__ import annotations

import builtins
import importlib
import sys

_NAME = "__cellspan__"


def begin():
    """Gives this process the name."""
    setattr(builtins, _NAME, importlib.import_module)


def function(module, name):
    """An expression for a function of one of cellspan's modules: function("_worker.exchange", "send")."""
    return f"{module_named('cellspan.' + module)}.{name}"


def module_named(name):
    """An expression for a module."""
    return f"{_NAME}({name!r})"


def forget(name):
    """For a function that such a cell calls: removes the variable with its arguments. None: there is none."""
    if name is not None:
        sys._getframe(2).f_globals.pop(name, None)
