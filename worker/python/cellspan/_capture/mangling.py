# SPDX-License-Identifier: BSD-3-Clause
"""For reads.py: the names that begin with two underscores within classes, as Python's compiler changes them: `__x` is `_A__x` in A."""

from __future__ import annotations

import ast

# The fields that hold names, of the nodes that have some. Names of modules and of keyword arguments are no variables.
NAMES = {
    "Name": ("id",),
    "arg": ("arg",),
    "FunctionDef": ("name",),
    "AsyncFunctionDef": ("name",),
    "ClassDef": ("name",),
    "Global": ("names",),
    "Nonlocal": ("names",),
    "ExceptHandler": ("name",),
    "MatchAs": ("name",),
    "MatchStar": ("name",),
    "MatchMapping": ("rest",),
    "TypeVar": ("name",),
    "ParamSpec": ("name",),
    "TypeVarTuple": ("name",),
}


def mangle(tree):
    """Changes the names in an ast."""
    left = [(tree, "")]  # nodes, each with the name of the innermost class around it, without leading underscores
    while left:
        node, of = left.pop()
        inside = node.name.lstrip("_") if isinstance(node, ast.ClassDef) else of
        outside = [*node.decorator_list, *node.bases, *node.keywords] if isinstance(node, ast.ClassDef) else ()
        if of:
            _change(node, of)
        left += [(child, of if child in outside else inside) for child in ast.iter_child_nodes(node)]


def _change(node, of):
    for field in NAMES.get(type(node).__name__, ()):
        value = getattr(node, field)
        setattr(node, field, [_mangled(name, of) for name in value] if isinstance(value, list) else _mangled(value, of))
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            alias.asname = _mangled(alias.asname or alias.name, of) if alias.asname or "." not in alias.name else None


def _mangled(name, of):
    if not name or not name.startswith("__") or name.endswith("__") or "." in name:
        return name
    return f"_{of}{name}"
