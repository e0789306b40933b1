# SPDX-License-Identifier: BSD-3-Clause
"""Classes of the user's modules that a pickle names: an edited module may be imported in one version by home and in another one by
ranks. The sender describes each class that its pickle names, and the receiver says so if its own class of that name is another one.

A class is described by the bytecode of its methods and by plain values in its body: {name: text}. What methods assign to the class, such as
a counter, is left out: it changes while the program runs.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import enum
import functools
import hashlib
import itertools
import os
import sys
import types
import weakref

PLAIN = (type(None), bool, int, float, complex, str, bytes)
METHOD = "f"  # how the text of a method begins
MOST = 64  # classes in one description
SHOWN = 4  # names of a class that a line shows
HOME, RANKS = "the notebook", "ranks"
DEEP = 3  # levels of a value in which an instance is looked for
OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")

sides = HOME, RANKS  # this process, and the others; a rank sets it
_described = weakref.WeakKeyDictionary()  # {class: {name: text}}
_told = set()


# ---- the sender ------------------------------------------------------------------------------------------------------


def described(classes):
    """{module: {qualified name: {name: text}}} of those classes that are of the user's modules."""
    found = {}
    users = (cls for cls in classes if is_users(getattr(cls, "__module__", None)))
    for cls in itertools.islice(users, MOST):
        parts = parts_of(cls)
        if parts:
            found.setdefault(cls.__module__, {})[cls.__qualname__] = parts
    return found


def is_users(module):
    """Is the module of this name a file of the user's, neither Python's nor an installed package's?"""
    path = getattr(sys.modules.get(module), "__dict__", {}).get("__file__") if isinstance(module, str) else None
    if not isinstance(path, str) or not path.endswith(".py") or "/site-packages/" in path or "/dist-packages/" in path:
        return False
    return not path.startswith(_not_the_users())


@functools.lru_cache(maxsize=1)
def _not_the_users():
    import sysconfig

    paths = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    return (*(os.path.join(path, "") for path in paths if path), OURS)


def parts_of(cls):
    """{name: text}, of the class and of its bases in the user's modules; {} if the class does not let itself be read."""
    try:
        known = _described.get(cls)
        if known is None:
            known = _described[cls] = {}
            for base in reversed(cls.__mro__):
                if base is cls or is_users(base.__module__):
                    known.update(_own_parts(base))
        return known
    except Exception:  # noqa: BLE001 - of a metaclass
        return {}


def _own_parts(cls):
    values = dict(vars(cls))
    methods = {name: method for name, method in ((name, method_of(value)) for name, value in values.items()) if method is not None}
    methods = {name: method for name, method in methods.items() if not name.startswith("__annotate")}  # made when it is asked for
    parts = {name: METHOD + _short(_code_parts(method.__code__)) for name, method in methods.items()}
    plain = {name: getattr(value, "_value_", value) if isinstance(value, cls) and issubclass(cls, enum.Enum) else value for name, value in values.items()}
    plain = {name: value for name, value in plain.items() if name not in parts and not name.startswith("__") and is_plain(value)}
    if plain:
        assigned = set().union(*(_assigned(method.__code__) for method in methods.values()))
        parts.update((name, _short(_plain_part(value))) for name, value in plain.items() if name not in assigned)
    return parts


def method_of(value):
    """The function that a method's decorators and descriptors hold; None: it is none."""
    for _ in range(8):
        inner = next((vars(type(value)).get(name) and getattr(value, name, None) for name in ("__func__", "fget", "func") if hasattr(type(value), name)), None)
        if inner is None:
            inner = getattr(value, "__wrapped__", None) if isinstance(value, (types.FunctionType, functools.partial)) else None
        if inner is None:
            break
        value = inner
    return value if isinstance(value, types.FunctionType) else None


def is_plain(value):
    return isinstance(value, PLAIN) or (type(value) in (tuple, frozenset) and all(map(is_plain, value)))


def _plain_part(value):
    """A plain value in a form that is the same in each process."""
    if isinstance(value, types.CodeType):
        return _code_parts(value)
    if isinstance(value, frozenset):
        return ["set", *sorted(map(str, map(_plain_part, value)))]
    if isinstance(value, tuple):
        return ["tuple", *map(_plain_part, value)]
    return [type(value).__name__, repr(value)]


def _code_parts(code):
    """What code does, without where it stands in its file."""
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return [counts, code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, [_plain_part(const) for const in code.co_consts]]


def _assigned(code):
    """Names of attributes that the code assigns, other than by `self.name = value`, which leaves the class as it is."""
    found, before, own = set(), None, code.co_varnames[:1]
    for step in dis.get_instructions(code):
        if step.opname == "STORE_ATTR" and not (before.opname.startswith("LOAD_FAST") and own != ("cls",) and _names(before.argval)[-1:] == own):
            found.add(step.argval)
        before = step
    return found.union(*(_assigned(const) for const in code.co_consts if isinstance(const, types.CodeType)))


def _names(argument):
    return argument if isinstance(argument, tuple) else (argument,)


def _short(parts):
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:8]


# ---- the receiver ----------------------------------------------------------------------------------------------------


def tell(theirs, value, label="", say=None):
    """Says once of each class of a value that it is another one here. theirs: the sender's described(). label: what the value is called,
    unless it is a dict of variables. say: takes the line; None: it is printed."""
    for module, classes in theirs.items():
        for qualname, parts in classes.items() if is_users(module) else ():
            with contextlib.suppress(Exception):  # of a class that does not let itself be read
                _compare(module, qualname, parts, value, label, say or _print)


def _compare(module, qualname, theirs, value, label, say):
    cls = functools.reduce(lambda at, name: getattr(at, name, None), qualname.split("."), sys.modules[module])
    ours = parts_of(cls) if isinstance(cls, type) else {}
    differ = _differing(theirs, ours) if ours else []
    key = module, qualname, tuple((name, theirs.get(name), ours.get(name)) for name in differ)
    if differ and key not in _told:
        _told.add(key)
        say(f"{_called(value, cls, label)}: {_line(cls, differ)}")


def _print(line):
    print(f"cellspan: {line}", file=sys.stderr)


def _differing(theirs, ours):
    """Names by which two descriptions differ. Only a method can be new: other things may have been added while the program ran."""
    both = [name for name in theirs if name in ours and theirs[name] != ours[name]]
    one = [name for name in {*theirs} ^ {*ours} if (theirs.get(name) or ours[name]).startswith(METHOD)]
    return sorted(both + one)


def _line(cls, differ):
    module, names = cls.__module__, ", ".join(differ[:SHOWN]) + (", …" if len(differ) > SHOWN else "")
    newest, (own, others) = as_in_file(cls, differ), sides
    line = f"the class {module}.{cls.__qualname__} is not the same at home and on ranks ({names})"
    if newest is None:
        return f"{line}: importlib.reload({module}) loads the file again"
    old = others if newest else own
    return f"{line}: {old} {'has' if old is HOME else 'have'} imported an older {module}. importlib.reload({module}) {'at home' if old is HOME else 'there'} loads it again"


def _called(value, cls, label):
    names = [name for name, one in value.items() if isinstance(name, str) and _holds(one, cls, DEEP)] if type(value) is dict else []
    return ", ".join(names) or label or "a value"


def _holds(value, cls, deep):
    if value is cls or type(value) is cls:
        return True
    if not deep:
        return False
    inner = value.values() if type(value) is dict else value if type(value) in (list, tuple, set) else getattr(value, "__dict__", {}).values()
    return any(_holds(one, cls, deep - 1) for one in list(inner)[:1000])


def as_in_file(cls, names):
    """Has this process imported what is in the module's file now, as far as these names of the class tell? None: they don't."""
    try:
        with open(sys.modules[cls.__module__].__file__, "rb") as file:
            text = file.read()
        body, code = ast.parse(text), compile(text, "", "exec", dont_inherit=True)
        for name in cls.__qualname__.split("."):
            body = [one for one in body.body if isinstance(one, ast.ClassDef) and one.name == name][-1]
            code = [one for one in code.co_consts if isinstance(one, types.CodeType) and one.co_name == name][-1]
    except (OSError, SyntaxError, ValueError, IndexError, RecursionError):
        return None
    there = {}  # {name: texts}: a property may have several functions of its name
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            hidden = one.co_name.startswith("__") and not one.co_name.endswith("__")
            there.setdefault(f"_{cls.__name__.lstrip('_')}{one.co_name}" if hidden else one.co_name, []).append(METHOD + _short(_code_parts(one)))
    for node in body.body:
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Name):
                with contextlib.suppress(ValueError, TypeError):
                    there.setdefault(target.id, []).append(_short(_plain_part(ast.literal_eval(node.value))))
    own = parts_of(cls)
    known = [name for name in names if name in there]
    return all(own.get(name) in there[name] for name in known) if known else None
