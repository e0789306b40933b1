# SPDX-License-Identifier: BSD-3-Clause
"""For reads.py: which names the body of a function or class binds."""

from __future__ import annotations

import ast


class Scope:
    """The names of a function, lambda, comprehension or class. In a class, a name is its own only after it is assigned."""

    def __init__(self, parent, is_class=False):
        self.parent = parent
        self.is_class = is_class
        self.names = set()
        self.globals = set()
        self.nonlocals = set()


class Binds(ast.NodeVisitor):
    """Collects the names that the body of a function or class binds, into a Scope."""

    def __init__(self, scope):
        self.scope = scope

    def body(self, nodes):
        for node in nodes:
            self.visit(node)
        self.scope.names -= self.scope.globals | self.scope.nonlocals

    def visit_Name(self, node):
        if not isinstance(node.ctx, ast.Load):
            self.scope.names.add(node.id)

    def visit_Global(self, node):
        self.scope.globals.update(node.names)

    def visit_Nonlocal(self, node):
        self.scope.nonlocals.update(node.names)

    def visit_Import(self, node):
        self.scope.names.update(import_names(node))

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node):
        if node.name:
            self.scope.names.add(node.name)
        self.generic_visit(node)

    def visit_FunctionDef(self, node):
        self.scope.names.add(node.name)
        for part in node.decorator_list + node.args.defaults + [d for d in node.args.kw_defaults if d]:
            self.visit(part)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        self.scope.names.add(node.name)
        for part in node.decorator_list + node.bases + [k.value for k in node.keywords]:
            self.visit(part)

    def visit_Lambda(self, node):
        for part in node.args.defaults + [d for d in node.args.kw_defaults if d]:
            self.visit(part)

    def _comprehension(self, node):
        # A comprehension's targets are its own; `:=` in it binds a name in the enclosing scope.
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self.scope.names.add(inner.target.id)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def generic_visit(self, node):
        self.scope.names.update(captured(node))
        super().generic_visit(node)


def import_names(node):
    """The names that an import statement binds; not those of `import *`."""
    return {a.asname or a.name.split(".")[0] for a in node.names if a.name != "*"}


def captured(node):
    """The names that a pattern of `match` binds: a list of none or one."""
    kind = type(node).__name__
    if kind in ("MatchAs", "MatchStar"):
        return [node.name] if node.name else []
    if kind == "MatchMapping":
        return [node.rest] if node.rest else []
    return []
