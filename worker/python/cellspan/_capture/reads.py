# SPDX-License-Identifier: BSD-3-Clause
"""Which names does a cell read before it assigns them? A pure function over text.

The cell's statements are followed in order, with the set of names that are certainly assigned so far. After branches, a name
is assigned if all branches assign it; a loop may not run; the body of `try` may stop anywhere. What a function or method of
the cell reads counts when the function's name is first used (or at the cell's end). In doubt a name counts as read: to send
one too many costs time, one too few is a NameError.

What reads variables by their names, as globals()["x"] does, is found in by_name.py.

IPython's syntax is analysed after IPython's transform: `{x}` and `$x` in the arguments of magics and shell commands, and
the Python inside %time, %timeit, %prun, %%time, %%capture and similar magics.
"""

from __future__ import annotations

import ast
import re
import string

from .bindings import Bindings
from .by_name import ANY, magic_of, names_in
from .mangling import mangle
from .rough_reads import roughly
from .scopes import Binds, Scope, captured, import_names

PYTHON_MAGICS = {"time", "timeit", "prun", "lprun", "mprun", "memit", "capture", "debug", "pdb", "pinfo"}
WITH_VALUE = {"-n", "-r", "-p", "-D", "-l", "-s", "-T", "-v", "-m", "-f"}  # options of these magics that have a value
DOLLAR = re.compile(r"\$\$|\$([^\W\d]\w*)")
TERMINATES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SWALLOWING = {"suppress", "ExitStack", "AsyncExitStack", "raises", "assertRaises", "assertRaisesRegex"}  # `with` these, the body may stop anywhere
FRESH = "fresh"  # in a state, in place of a scope: the name has a value that is not made from its old one
TRY = tuple(getattr(ast, name) for name in ("Try", "TryStar") if hasattr(ast, name))


class Read:
    """The result of analyse(). reads: {name: line of the first read}. assigned: {name: is it certain?} for names that the cell
    itself binds at its top level or through `global`. bound: {name: does every path give it a value that is not made from its
    old one?} for names that it binds at its top level. functions: {name: {name that its code reads: line}} for functions that it
    defines there. before: {name in reads: the Bound of names that the cell has certainly bound itself whenever it reads this one}.
    mentioned: every name and attribute in it."""

    def __init__(self):
        self.reads = {}
        self.assigned = {}
        self.bound = {}
        self.functions = {}
        self.before = {}
        self.mentioned = set()


def analyse(code, transform=None, modules=()):
    """The Read of a cell's text; None if it is not valid Python (the ranks will raise the error).

    transform: IPython's transform_cell, or None for plain Python. Lines count from 1 in the text as given. modules: variables
    that are the notebook's module.
    """
    body = code.lstrip("\n") if transform else code
    above = len(code) - len(body)
    try:
        if transform:
            body = transform(body)
        tree = parse(body)
    except Exception:  # SyntaxError, ValueError (NUL bytes), RecursionError, any exception of a user's transformer
        return None
    try:
        return Walker(transform, above, modules).module(tree, body)
    except RecursionError:
        return roughly(Read(), tree, body, above)


def refuse_what_is_no_python(code, transform):
    """Raises the SyntaxError that the ranks would raise."""
    body = code.lstrip("\n")
    try:
        body = transform(body)
    except SyntaxError:
        raise
    except Exception:  # of a user's transformer: the ranks will raise it
        return
    try:
        parse("\n" * (len(code) - len(code.lstrip("\n"))) + body)
    except (ValueError, RecursionError):  # likewise
        pass


def parse(text):
    """The ast of a text; `await` is allowed at the top level."""
    tree = compile(text, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if "__" in text and "class" in text:
        mangle(tree)
    return tree


class Walker:
    """Follows a module's statements. `state` has the names that are certainly assigned: (scope or None, name)."""

    def __init__(self, transform, above=0, modules=()):
        self.found = Read()
        self.transform = transform
        self.above = above
        self.modules = modules
        self.by_name, self.trees = {}, []  # what names_in() has found, and the trees whose nodes it names
        self.scope = None
        self.state = Bindings()
        self.latest = {}  # {name in reads: the last moment of those in `before`}
        self.deferred = {}  # function or class of the cell -> {name: line} that its code reads
        self.read_later = set()  # all names that these read
        self.fired = {}  # function or class of the cell -> the moment of its last use for which its reads were counted
        self.pending = []  # for each class that is being walked: {name: line} that its methods read
        self.sink = None  # collects reads while the body of a function is walked
        self.sources = set()  # the names that are read by the value that is being assigned

    def module(self, tree, text):
        self.mention(tree, text)
        self.block(tree.body)
        for name in list(self.deferred):
            self.fire(name)
        for name in self.found.assigned:
            self.found.assigned[name] = (None, name) in self.state
        for name in self.found.bound:
            self.found.bound[name] = (FRESH, name) in self.state
        return self.found

    def mention(self, tree, text):
        self.by_name.update(names_in(tree, text, self.modules))
        self.trees.append(tree)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Name, ast.Attribute)):
                self.found.mentioned.add(node.id if isinstance(node, ast.Name) else node.attr)

    # ---- names

    def load(self, name, line):
        """A read of `name` in the current scope."""
        scope, first = self.scope, True
        while scope is not None:
            if name in scope.globals:
                break
            if scope.is_class:
                if first and (scope, name) in self.state:
                    return
            elif name in scope.names:
                return
            scope, first = scope.parent, False
        self.load_global(name, line)

    def load_global(self, name, line):
        if self.sink is not None:
            self.sink.setdefault(name, line)
            return
        self.sources.add(name)
        if (None, name) not in self.state:
            self.found.reads.setdefault(name, line + self.above)
            self.note_bound(name)
        self.fire(name)

    def note_bound(self, name):
        """Records what is bound at a read of this name, if not all that was bound at an earlier one is."""
        before = self.found.before.get(name)
        if before is None or not self.state.has_grown_since(self.latest[name]):
            bound = self.state.bound()
            self.found.before[name] = bound if before is None else before & bound
            self.latest[name] = self.state.moment()

    def load_by_name(self, node):
        for name in self.by_name.get(id(node), ()):
            self.load_global(name, node.lineno)

    def fire(self, name):
        """A function of the cell is used: the names that its code reads count as read now. (If it was used before, with the same
        names bound or fewer, they have been counted.)"""
        if name not in self.deferred or (name in self.fired and self.state.has_grown_since(self.fired[name])):
            return
        self.fired[name] = self.state.moment()
        for inner, line in self.deferred[name].items():
            self.load_global(inner, line)

    def bind(self, name):
        """An assignment to `name` in the current scope."""
        scope = self.scope
        while scope is not None and not scope.is_class and getattr(scope, "comprehension", False):
            scope = scope.parent
        if scope is None or name in scope.globals:
            if self.sink is None:
                self.state.add((None, name))
                self.deferred.pop(name, None)
                self.fired.pop(name, None)
                self.found.bound[name] = False
                if not self.is_source(name):
                    self.state.add((FRESH, name))
                if ANY in self.sources:  # it may lead to the notebook's namespace, in later cells too
                    self.found.functions.setdefault(name, {ANY: 0})
            self.found.assigned.setdefault(name, False)
        elif scope.is_class:
            self.state.add((scope, name))

    def is_source(self, name):
        """Is the value that is being assigned made from this name's, perhaps by a function of the cell that was used before?"""
        if name in self.sources or name not in self.read_later:
            return name in self.sources
        seen, queue = set(self.sources), list(self.sources)
        for one in queue:
            more = self.deferred.get(one, {}).keys() - seen
            seen |= more
            queue.extend(more)
        return name in seen

    def assignment(self, value, *targets):
        """Targets get a value. If the value reads a target, this is a change of the old value."""
        outer, self.sources = self.sources, set()
        for part in (value, *targets):
            self.visit(part)
        self.sources |= outer

    # ---- statements

    def block(self, nodes):
        """Walks statements; true if their end is never reached."""
        for node in nodes:
            self.sources = set()
            if self.statement(node):
                return True
        return False

    def statement(self, node):
        if self.by_name:
            self.load_by_name(node)
        method = getattr(self, "on_" + type(node).__name__, None)
        if method:
            return method(node)
        self.visit(node)
        return isinstance(node, TERMINATES)

    def branches(self, ways):
        """Walks alternatives. Afterwards, a name is assigned if every alternative whose end is reached has assigned it."""
        before, ends = self.state.mark(), []
        for way in ways:
            over = way()
            changes = self.state.undo(before)
            if not over:
                ends.append(changes)
        return self.join(ends)

    def join(self, ends):
        """After alternatives: `ends` has what those have changed whose end is reached. True: there are none."""
        if ends:
            self.state.apply(set.intersection(*[added for added, _ in ends]), set().union(*[removed for _, removed in ends]))
        return not ends

    def on_If(self, node):
        steps = []  # one for each `elif`: a cell that was generated may have more than calls can be nested
        while True:
            self.visit(node.test)
            before = self.state.mark()
            over = self.block(node.body)
            steps.append((before, over, self.state.undo(before)))
            if len(node.orelse) != 1 or not isinstance(node.orelse[0], ast.If):
                break
            node, self.sources = node.orelse[0], set()
            self.load_by_name(node)
        over = self.block(node.orelse)
        for before, ended, changes in reversed(steps):
            other = self.state.undo(before)
            over = self.join([changes] * (not ended) + [other] * (not over))
        return over

    def on_For(self, node):
        self.visit(node.iter)

        def body():
            self.visit(node.target)
            self.block(node.body)

        self.branches([body, lambda: False])
        return self.after_loop(node)

    on_AsyncFor = on_For

    def on_While(self, node):
        self.visit(node.test)
        self.branches([lambda: self.block(node.body) and False, lambda: False])
        return self.after_loop(node)

    def after_loop(self, node):
        """The `else` of a loop, which `break` skips."""
        if any(isinstance(inner, ast.Break) for part in node.body for inner in ast.walk(part)):
            self.branches([lambda: self.block(node.orelse), lambda: False])
        else:
            self.block(node.orelse)
        return False

    def on_With(self, node):
        for item in node.items:
            self.assignment(item.context_expr, *([item.optional_vars] if item.optional_vars else []))
        if any(swallows(item.context_expr) for item in node.items):
            self.branches([lambda: self.block(node.body), lambda: False])
        else:
            self.block(node.body)
        return False

    on_AsyncWith = on_With

    def on_Try(self, node):
        def handler(h):
            if h.type:
                self.visit(h.type)
            if h.name:
                self.bind(h.name)
            return self.block(h.body)

        before = self.state.mark()
        ways = [lambda: self.block(node.body) or self.block(node.orelse)]
        ways += [lambda h=h: handler(h) for h in node.handlers]
        ended = self.branches(ways)
        added, removed = self.state.undo(before)  # `finally` may begin before any of it is done
        ended = self.block(node.finalbody) or ended
        more, lost = self.state.undo(before)
        self.state.apply(added | more, removed & lost)
        return ended

    on_TryStar = on_Try

    def on_Match(self, node):
        self.visit(node.subject)

        def case(c):
            self.visit(c.pattern)
            if c.guard:
                self.visit(c.guard)
            return self.block(c.body)

        last = node.cases[-1]
        catches_all = last.guard is None and getattr(last.pattern, "pattern", 0) is None
        ways = [lambda c=c: case(c) for c in node.cases]
        return self.branches(ways if catches_all else ways + [lambda: False])

    def on_Delete(self, node):
        for target in node.targets:
            for inner in ast.walk(target):
                if isinstance(inner, ast.Name):
                    self.load(inner.id, inner.lineno)
            self.visit(target)
            for inner in ast.walk(target):
                if isinstance(inner, ast.Name):
                    self.state.discard((FRESH, inner.id))

    def on_AugAssign(self, node):
        if isinstance(node.target, ast.Name):
            self.load(node.target.id, node.target.lineno)
        self.visit(node.value)
        self.visit(node.target)

    def on_Assign(self, node):
        self.assignment(node.value, *node.targets)

    def on_AnnAssign(self, node):
        if self.scope is None or self.scope.is_class:
            self.visit(node.annotation)
        if node.value:
            self.assignment(node.value, node.target)
        elif not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def on_Import(self, node):
        for name in sorted(import_names(node)):
            self.bind(name)

    on_ImportFrom = on_Import

    def on_Global(self, node):
        pass

    on_Nonlocal = on_Global

    def on_FunctionDef(self, node):
        for part in node.decorator_list:
            self.visit(part)
        self.function(node, node.name, at_once=bool(node.decorator_list))
        return False

    on_AsyncFunctionDef = on_FunctionDef

    def on_ClassDef(self, node):
        for part in node.decorator_list:
            self.visit(part)
        outer, self.scope = self.scope, self.type_scope(node)
        for part in node.bases + [k.value for k in node.keywords]:
            self.visit(part)
        scope = self.scope = Scope(self.scope, is_class=True)
        Binds(scope).body(node.body)
        methods = {}
        self.pending.append(methods)
        self.block(node.body)
        self.pending.pop()
        self.scope = outer
        self.bind(node.name)
        self.later(node.name, methods, at_once=bool(node.decorator_list))
        return False

    def on_TypeAlias(self, node):
        outer, self.scope = self.scope, self.type_scope(node)
        self.visit(node.value)
        self.scope = outer
        self.visit(node.name)

    # ---- functions

    def type_scope(self, node):
        """The scope of `[T]` after a function's, class's or type's name, or the current one."""
        params = getattr(node, "type_params", None)
        if not params:
            return self.scope
        scope = Scope(self.scope)
        scope.names.update(p.name for p in params)
        outer, self.scope = self.scope, scope
        for param in params:
            for part in (getattr(param, "bound", None), getattr(param, "default_value", None)):
                if part:
                    self.visit(part)
        self.scope = outer
        return scope

    def function(self, node, name, at_once):
        """A def: defaults and annotations are read now, the names in its body when the function is used."""
        a = node.args
        for part in a.defaults + [d for d in a.kw_defaults if d]:
            self.visit(part)
        outer = self.scope
        self.scope = self.type_scope(node)
        params = a.posonlyargs + a.args + a.kwonlyargs + [p for p in (a.vararg, a.kwarg) if p]
        for part in [p.annotation for p in params] + [node.returns]:
            if part:
                self.visit(part)
        reads = self.body_reads(node, params, node.body)
        self.scope = outer
        self.bind(name)
        if self.scope is not None and self.scope.is_class and self.sink is None and not at_once:
            for inner, line in reads.items():
                self.pending[-1].setdefault(inner, line)
        else:
            self.later(name, reads, at_once)

    def later(self, name, reads, at_once):
        """Stores what a function reads until its name is used. Within a function, or with a decorator, it counts as read now."""
        if self.sink is None and self.scope is None and reads:
            self.found.functions[name] = dict(reads)
        if at_once or self.sink is not None or self.scope is not None:
            for inner, line in reads.items():
                self.load_global(inner, line)
        elif reads:
            self.deferred[name] = dict(reads)
            self.read_later.update(reads)

    def body_reads(self, node, params, body):
        """{global name: line} that the body of a function or lambda reads."""
        scope = Scope(self.scope)
        Binds(scope).body(body)
        scope.names.update(p.arg for p in params)
        outer, sink, state = self.scope, self.sink, self.state.mark()
        self.scope, self.sink = scope, {}
        self.block(body)
        self.state.undo(state)
        reads, self.scope, self.sink = self.sink, outer, sink
        return reads

    # ---- expressions

    def visit(self, node):
        if self.by_name:
            self.load_by_name(node)
        method = getattr(self, "on_" + type(node).__name__, None)
        if method:
            method(node)
            return
        for name in captured(node):
            self.bind(name)
        for child in ast.iter_child_nodes(node):
            self.visit(child)

    def on_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            self.load(node.id, node.lineno)
        else:
            self.bind(node.id)

    def on_NamedExpr(self, node):
        self.assignment(node.value)
        self.bind(node.target.id)

    def on_IfExp(self, node):
        self.visit(node.test)
        self.branches([lambda: self.visit(node.body), lambda: self.visit(node.orelse)])

    def on_BoolOp(self, node):
        self.visit(node.values[0])
        for value in node.values[1:]:
            self.branches([lambda v=value: self.visit(v), lambda: False])

    def on_Lambda(self, node):
        a = node.args
        for part in a.defaults + [d for d in a.kw_defaults if d]:
            self.visit(part)
        params = a.posonlyargs + a.args + a.kwonlyargs + [p for p in (a.vararg, a.kwarg) if p]
        for name, line in self.body_reads(node, params, [ast.Expr(value=node.body)]).items():
            self.load_global(name, line)

    def comprehension(self, node):
        scope = Scope(self.scope)
        scope.comprehension = True
        for part in node.generators:
            for inner in ast.walk(part.target):
                if isinstance(inner, ast.Name):
                    scope.names.add(inner.id)
        self.visit(node.generators[0].iter)
        outer, self.scope, state = self.scope, scope, self.state.mark()
        for n, part in enumerate(node.generators):
            if n:
                self.visit(part.iter)
            for test in part.ifs:
                self.visit(test)
        for field in ("key", "value", "elt"):
            if hasattr(node, field):
                self.visit(getattr(node, field))
        self.scope = outer
        self.state.undo(state)

    on_ListComp = on_SetComp = on_DictComp = on_GeneratorExp = comprehension

    def on_Call(self, node):
        method = magic_of(node)
        for child in ast.iter_child_nodes(node):
            self.visit(child)
        if method:
            self.magic(method, [a.value for a in node.args if isinstance(a, ast.Constant)], node.lineno)

    # ---- IPython

    def magic(self, method, args, line):
        """Handles get_ipython().method(*args); args are texts."""
        args = [a for a in args if isinstance(a, str)]
        if method in ("run_line_magic", "run_cell_magic") and args:
            name, args = args[0], args[1:]
            if name in PYTHON_MAGICS:
                state, found = self.state.mark(), (self.found.assigned, self.found.bound)
                if name == "timeit":  # it does not bind names in the namespace
                    self.found.assigned, self.found.bound = {}, {}
                for number, text in enumerate(args):
                    self.inner(without_options(text) if not number else text, line + number)
                if name == "timeit":
                    self.state.undo(state)
                    self.found.assigned, self.found.bound = found
                return
            args = args[:1]  # IPython does not expand the body of other cell magics
        for text in args:
            self.expansions(text, line)

    def inner(self, text, line):
        """Python within a magic; its first line is `line`."""
        try:
            tree = parse(self.transform(text) if self.transform else text)
        except Exception:
            return
        ast.increment_lineno(tree, line - 1)
        self.mention(tree, text)
        self.block(tree.body)

    def expansions(self, text, line):
        """`$name` and `{expression}`, as IPython expands them."""
        for match in DOLLAR.finditer(text):
            if match.group(1):
                self.load(match.group(1), line)
        try:
            fields = [field for _, field, _, _ in string.Formatter().parse(text) if field]
        except ValueError:  # a single brace: IPython does not expand such a text
            return
        for field in fields:
            try:
                tree = parse(field)
            except (SyntaxError, ValueError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    self.load(node.id, line)


def swallows(context):
    """May a `with` of this context suppress an exception? Knows only the usual names."""
    return any(getattr(n, "attr", getattr(n, "id", None)) in SWALLOWING for n in ast.walk(context))


def without_options(text):
    """The statement after the options of a magic such as %timeit."""
    words = re.findall(r"\S+\s*", text)
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at].strip() in WITH_VALUE else 1
    return "".join(words[at:])
