# SPDX-License-Identifier: BSD-3-Clause
"""Code that reads variables of the notebook by their names: `__main__.x`, `globals()["x"]`, `get_ipython().user_ns["x"]`, `eval("x")`.

The names count as read. Where the code does not tell them (`globals()[name]`, `exec(text)`), all its texts that are names count, and the
attributes of what leads to the notebook's module; and it may mean any other name as well, which is the name ANY. The rule is the same
for the text of a cell, of which names_in() takes the ast, and for a function, of which names_of() takes the code object.
"""

from __future__ import annotations

import ast
import re
import types

ANY = "*"  # in place of a name
MODULES = frozenset(("__main__", "user_module"))  # attributes of these are variables
WORDS = MODULES | {"globals", "get_ipython", "user_ns", "user_global_ns", "f_globals", "f_locals", "__globals__"}
EVALUATES = frozenset(("eval", "exec"))
OF_THE_TOP = ("locals", "vars")  # without arguments, outside of functions
MAGICS = frozenset(("run_line_magic", "run_cell_magic", "system", "getoutput"))  # what IPython makes of its syntax
BY_KEY = frozenset(("get", "pop", "setdefault", "__getitem__"))
NO_VALUE = frozenset(("keys", "update", "__contains__", "__setitem__"))  # methods of a namespace that take no value out of it
AT = re.compile(r"@([^\W\d]\w*)")  # in a text of pandas' query() and eval()
QUERIES = frozenset(("query", "eval"))
# How words begin in a text.
SPELLED = ("__main__", "[__name__]", "globals", "locals(", "vars(", "user_ns", "user_global_ns", "user_module", "f_locals")
IN_PART = [
    re.compile(r"eval(?<![\w.]eval)\b"),
    re.compile(r"exec(?<![\w.]exec)\b"),
    re.compile(r"get_ipython\b(?!\(\)\.(?:%s)\()" % "|".join(MAGICS)),
]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def names_in(tree, text, modules=()):
    """{id(node): [name, ...]} for the nodes of a tree, made from `text`, where such names are read. modules: variables that are the
    notebook's module."""
    if not modules and not may_read_by_name(text):
        return {}
    finder = _Finder(modules)
    finder.leads_in(tree)
    finder.visit(tree, True)
    return finder.found()


def may_read_by_name(text):
    """May such code be in it? It is quick, since each cell asks."""
    if any(word in text for word in SPELLED) or any(part.search(text) for part in IN_PART):
        return True
    return "@" in text and any(f".{word}(" in text for word in QUERIES) and any("@" in line.lstrip()[1:] for line in text.split("\n"))


class _Finder:
    def __init__(self, modules):
        self.modules = {"__main__", *modules}  # names of the notebook's module
        self.read_by = {}  # {id(node): names that it reads}
        self.texts = {}  # {id(node): a text that is a name}
        self.quiet = set()  # ids of nodes that read nothing by themselves: a node around them tells what is read
        self.any = []  # nodes that may mean any name
        self.at = {}  # {id(node): names behind an @ in its text}
        self.queries = False  # does a query take its text from elsewhere?

    def leads_in(self, tree):
        """Notes which names the code gives to the notebook's module, or to what leads there."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.modules.update(a.asname for a in node.names if a.name == "__main__" and a.asname)
            elif isinstance(node, (ast.Assign, ast.NamedExpr)) and self._leads(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self.modules.update(target.id for target in targets if isinstance(target, ast.Name))

    def found(self):
        found = {**self.read_by, **{id(node): [*self.read_by.get(id(node), ()), ANY] for node in self.any}}
        for at, text in self.texts.items() if self.any else ():
            found.setdefault(at, []).append(text)
        for at, names in self.at.items() if self.queries else ():
            found.setdefault(at, []).extend(names)
        return found

    def visit(self, node, top):
        """top: is it outside of functions and classes?"""
        method = getattr(self, "on_" + type(node).__name__, None)
        if method:
            method(node, top)
        inner = top and not isinstance(node, FUNCTIONS)
        for child in ast.iter_child_nodes(node):
            self.visit(child, inner)

    def tell(self, node, *names):
        self.read_by.setdefault(id(node), []).extend(names)

    def on_Import(self, node, top):
        if any(a.name == "__main__" and a.asname for a in node.names):
            self.any.append(node)

    def on_ImportFrom(self, node, top):
        if node.module == "__main__" and not node.level:
            self.tell(node, *sorted(a.name for a in node.names if a.name != "*"))
            self.any += [node for a in node.names if a.name == "*"]

    def on_Compare(self, node, top):
        for part in (node.left, *node.comparators):
            if isinstance(part, ast.Constant) and part.value == "__main__":
                self.quiet.add(id(part))
            elif self._is_namespace(part, top):
                self._hush(part)

    def on_AugAssign(self, node, top):
        target = node.target
        if isinstance(target, ast.Subscript) and _text(target.slice) is not None and self._is_namespace(target.value, top):
            self.tell(node, _text(target.slice))
        elif isinstance(target, ast.Attribute) and self._is_module(target.value):
            self.tell(node, target.attr)

    def on_Subscript(self, node, top):
        key = _text(node.slice)
        if not self._is_namespace(node.value, top) or (key is None and isinstance(node.ctx, ast.Load)):
            return
        self._hush(node.value)
        if key is not None:
            self._named(node, node.slice, isinstance(node.ctx, ast.Load))

    def on_Attribute(self, node, top):
        if node.attr != "__dict__" and self._is_module(node.value):
            self._hush(node.value)
            if isinstance(node.ctx, ast.Load):
                self.tell(node, node.attr)
        elif node.attr in WORDS and id(node) not in self.quiet:
            self.any.append(node)

    def on_Call(self, node, top):
        function, first = node.func, node.args[0] if node.args else None
        if magic_of(node) in MAGICS:
            self.quiet.add(id(function.value.func))
        elif isinstance(function, ast.Attribute) and self._is_namespace(function.value, top):
            if function.attr in NO_VALUE or (function.attr in BY_KEY and _text(first) is not None):
                self._hush(function.value)
                if function.attr in BY_KEY:
                    self._named(node, first, True)
        elif _is_name(function, *EVALUATES) and first is not None:
            self._evaluates(node, first, top)
        elif _is_name(function, "getattr", "hasattr", "setattr", "delattr") and len(node.args) > 1 and self._is_module(first):
            if _text(node.args[1]) is not None or function.id != "getattr":
                self._hush(first)
                self._named(node, node.args[1], function.id == "getattr")
        elif isinstance(function, ast.Attribute) and function.attr in QUERIES:
            self._queries(node, first)
        elif _is_name(function, *OF_THE_TOP) and top and not node.args and id(node) not in self.quiet:
            self.any.append(node)

    def on_Name(self, node, top):
        word = node.id in WORDS or node.id in EVALUATES or (node.id in self.modules and node.id != "__main__")
        if word and isinstance(node.ctx, ast.Load) and id(node) not in self.quiet:
            self.any.append(node)

    def on_Constant(self, node, top):
        if id(node) in self.quiet or not isinstance(node.value, str):
            return
        if node.value == "__main__":
            self.any.append(node)
        elif node.value.isidentifier():
            self.texts[id(node)] = node.value
        elif "@" in node.value:
            self.at[id(node)] = AT.findall(node.value)

    def on_JoinedStr(self, node, top):
        parts = [part for part in node.values if isinstance(part, ast.Constant)]
        self.quiet.update(id(part) for part in parts)
        self.at[id(node)] = [name for part in parts for name in AT.findall(part.value)]

    # ---- parts

    def _queries(self, node, query):
        query = next((word.value for word in node.keywords if word.arg == "expr"), query)
        texts = [text for text in map(_text, ast.walk(query)) if text is not None] if query is not None else ()
        self.tell(node, *(name for text in texts for name in AT.findall(text)))
        self.queries = self.queries or (query is not None and not texts)

    def _evaluates(self, node, text, top):
        """eval() or exec(): with a namespace of its own, it reads nothing of the notebook."""
        names = _names_of_text(_text(text)) if _text(text) is not None else None
        if names is not None:
            self.tell(node, *names)
        if names is not None or (len(node.args) > 1 and not self._is_namespace(node.args[1], top)):
            self.quiet.add(id(node.func))
            for space in node.args[1:] if names is not None else ():
                if self._is_namespace(space, top):
                    self._hush(space)

    def _named(self, node, key, reads):
        """The node reads the name in `key`, a constant, or only binds it."""
        self.quiet.add(id(key))
        if reads and _text(key) is not None:
            self.tell(node, _text(key))

    def _hush(self, node):
        self.quiet.update(id(inner) for inner in ast.walk(node))

    def _is_module(self, node):
        """Is it the notebook's module?"""
        if isinstance(node, ast.Subscript):
            named = _text(node.slice) == "__main__" or _is_name(node.slice, "__name__")
            return named and isinstance(node.value, ast.Attribute) and node.value.attr == "modules"
        return _is_name(node, *self.modules) or (isinstance(node, ast.Attribute) and node.attr == "user_module")

    def _is_namespace(self, node, top):
        """Is it the dict with the notebook's variables?"""
        if isinstance(node, ast.Attribute):
            return node.attr in ("user_ns", "user_global_ns") or (node.attr == "__dict__" and self._is_module(node.value))
        if not isinstance(node, ast.Call) or node.keywords:
            return False
        if len(node.args) == 1:
            return _is_name(node.func, "vars") and self._is_module(node.args[0])
        return not node.args and (_is_name(node.func, "globals") or (top and _is_name(node.func, *OF_THE_TOP)))

    def _leads(self, value):
        """Does an assigned value lead to the notebook's module or namespace?"""
        if isinstance(value, ast.Call) and any(_text(arg) == "__main__" for arg in value.args):
            return True
        return self._is_module(value)


def _text(node):
    """The text of a constant; None: it is none."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_name(node, *names):
    return isinstance(node, ast.Name) and node.id in names


def _names_of_text(text):
    """The names that Python in a text reads; None: it is no Python."""
    try:
        tree = ast.parse(text.lstrip(" \t"))  # as eval() does
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)})


def magic_of(node):
    """The method's name if the call is get_ipython().method(...), else None."""
    function = node.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Call):
        return None
    return function.attr if _is_name(function.value.func, "get_ipython") else None


# ---- functions


def names_of(code, reads):
    """The names, in order, that a code object and those in it read so. reads: the globals that they read."""
    names, texts = _names_and_texts(code)
    found = {}
    if not QUERIES.isdisjoint(names):
        found.update(dict.fromkeys(name for text in texts for name in AT.findall(text)))
    module = not MODULES.isdisjoint((*names, *texts)) or ("__name__" in reads and "modules" in names)  # sys.modules[__name__]
    if WORDS.isdisjoint(names) and not module and EVALUATES.isdisjoint(reads):
        return found
    return {**found, **_meant(names, texts, module, not EVALUATES.isdisjoint(reads))}


def names_by_module(code):
    """As names_of(), for code that reads a variable which is the notebook's module."""
    return _meant(*_names_and_texts(code), True, False)


def _meant(names, texts, module, evaluates):
    found = dict.fromkeys(names if module else ())
    found.update(dict.fromkeys(text for text in texts if text.isidentifier()))
    for text in texts if evaluates else ():
        found.update(dict.fromkeys(_names_of_text(text) or ()))
    return {**found, ANY: None}


def _names_and_texts(code):
    names, texts = dict.fromkeys(code.co_names), {}
    for const in code.co_consts:
        if isinstance(const, str):
            texts[const] = None
        elif isinstance(const, tuple):
            texts.update(dict.fromkeys(text for text in const if isinstance(text, str)))
        elif isinstance(const, types.CodeType):
            inner_names, inner_texts = _names_and_texts(const)
            names.update(inner_names)
            texts.update(inner_texts)
    return names, texts
