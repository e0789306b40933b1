# SPDX-License-Identifier: BSD-3-Clause
"""For reads.py: which names may a cell read whose code is nested too deeply to be followed, as a sum of a thousand terms? Each name in it
counts as read, and none as certainly assigned."""

from __future__ import annotations

import ast
import re

from .bindings import NOTHING
from .by_name import ANY, may_read_by_name
from .scopes import captured, import_names

DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)
WORD = re.compile(r"[^\W\d]\w*")


def roughly(found, tree, text, above):
    """Fills a Read."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 1) + above
        names = dict.fromkeys(captured(node))
        if isinstance(node, ast.Name):
            names[node.id] = None
            found.mentioned.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.mentioned.add(node.attr)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(dict.fromkeys(import_names(node)))
        elif isinstance(node, DEFINES) and node.name:
            names[node.name] = None
        elif isinstance(node, ast.Constant) and type(node.value) is str:
            names.update(dict.fromkeys(WORD.findall(node.value)))  # of IPython's magics, and of code that reads by name
        for name in names:
            found.reads.setdefault(name, line)
            if not isinstance(node, ast.Constant) and not isinstance(getattr(node, "ctx", None), ast.Load):
                found.assigned[name] = found.bound[name] = False
    if may_read_by_name(text):
        found.reads.setdefault(ANY, 1 + above)
    found.before = {name: NOTHING for name in found.reads}
    return found
