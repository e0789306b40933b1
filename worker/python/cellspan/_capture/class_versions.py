# SPDX-License-Identifier: BSD-3-Clause
"""Classes of the user's modules that a pickle names: an edited module may be imported in one version by home and in another one by
ranks. The sender describes each class that its pickle names, and says whether a class's file has changed since it was imported. The
receiver says so if its own class of that name is another one, and one of the two has imported an older file.

A class is described by the bytecode of its methods and by plain values in its body: {name: text}. Where both sides have imported what is in
the file now, nothing is said: then what differs was assigned while the program ran.
"""

from __future__ import annotations

import contextlib
import dis
import enum
import functools
import hashlib
import itertools
import re
import sys
import types
import weakref

from .._base.errors import text_of
from .._base.modules import is_users_file, names_of

PLAIN = (type(None), bool, int, float, complex, str, bytes)
MOST_PLAIN = 1000  # items, or characters, of a value that is described
METHOD = "f"  # how the text of a method begins
MOST = 64  # classes in one description
SHOWN = 4  # names of a class that a line shows
HOME, RANKS = "the notebook", "ranks"  # sides
DEEP = 3  # levels of a value in which an instance is looked for
SCANNED = 10000  # objects in which instances are looked for, for one line

MISSING = re.compile(r"attribute '[\w.]+' on <module '([\w.]+)'")  # an AttributeError of pickle's

side = ""  # what this process is; "": another one, such as one that the notebook has started
rank = None  # its number, if it is one
_described = weakref.WeakKeyDictionary()  # {class: (the spec by which its module was loaded, {name: text})}
_reported = set()


def is_older(module):
    """Has the file of this module changed since this process imported it? Home and ranks, which note that, replace it."""
    return False


# ---- the sender ------------------------------------------------------------------------------------------------------


def described(classes):
    """{"by": this side, "rank": its number or None, "older": [names of modules whose files have changed], "of": {module: {qualified name:
    {name: text}}}} of those classes, and of their bases, that are of the user's modules; None if none is."""
    found, count = {}, 0
    for cls in itertools.chain.from_iterable(_bases(cls) for cls in classes):
        if count < MOST and cls.__qualname__ not in found.get(cls.__module__, ()):
            members = members_of(cls)
            if members:
                found.setdefault(cls.__module__, {})[cls.__qualname__] = members
                count += 1
    return {"by": side, "rank": rank, "older": [module for module in found if is_older(module)], "of": found} if found else None


def _bases(cls):
    """The class and its bases, those of them that are of the user's modules."""
    try:
        return [base for base in cls.__mro__ if is_users(base.__module__)]
    except Exception:  # noqa: BLE001 - of a metaclass
        return []


def is_users(module):
    """Is the module of this name a file of the user's, neither Python's nor an installed package's?"""
    path = names_of(sys.modules.get(module)).get("__file__") if isinstance(module, str) else None
    return isinstance(path, str) and is_users_file(path)


def members_of(cls):
    """{name: text} of what the class's own body has; {} if the class does not let itself be read."""
    spec = names_of(sys.modules.get(cls.__module__)).get("__spec__")  # another one after the module was loaded again, which may change the class in place
    try:
        known = _described.get(cls)
        if known is None or known[0] is not spec:
            known = _described[cls] = spec, _own_members(cls)
        return known[1]
    except Exception:  # noqa: BLE001 - of a metaclass
        return {}


def _own_members(cls):
    values = dict(vars(cls))
    methods = {name: method for name, method in ((name, method_of(value)) for name, value in values.items()) if method is not None}
    methods = {name: method for name, method in methods.items() if not name.startswith("__annotate")}  # made when it is asked for
    members = {name: METHOD + _short(_function_facts(method)) for name, method in methods.items()}
    members.update((f"{name}.setter", METHOD + _short(_function_facts(value.fset))) for name, value in values.items() if _has_setter(value))
    plain = {name: getattr(value, "_value_", value) if isinstance(value, cls) and issubclass(cls, enum.Enum) else value for name, value in values.items()}
    plain = {name: value for name, value in plain.items() if name not in members and not name.startswith("__") and is_plain(value)}
    if plain:
        assigned = set().union(*(_assigned(method.__code__) for method in methods.values()))
        members.update((name, _short(_plain_facts(value))) for name, value in plain.items() if name not in assigned)
    return members


def method_of(value):
    """The function that a method's decorators and descriptors hold; None: it is none."""
    for _ in range(8):
        if isinstance(value, property):
            value = value.fget
        elif isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, (functools.cached_property, functools.partialmethod, functools.partial, functools.singledispatchmethod)):
            value = value.func
        elif hasattr(value, "__wrapped__") and isinstance(value, (types.FunctionType, functools._lru_cache_wrapper)):
            value = value.__wrapped__
        else:
            break
    return value if isinstance(value, types.FunctionType) else None


def is_plain(value, deep=2):
    if type(value) in (tuple, frozenset):
        return deep > 0 and len(value) <= MOST_PLAIN and all(is_plain(one, deep - 1) for one in value)
    return isinstance(value, PLAIN) and (not isinstance(value, (str, bytes)) or len(value) <= MOST_PLAIN)


def _plain_facts(value):
    """A plain value in a form that is the same in each process."""
    if isinstance(value, types.CodeType):
        return _code_facts(value)
    if isinstance(value, frozenset):
        return ["set", *sorted(map(str, map(_plain_facts, value)))]
    if isinstance(value, tuple):
        return ["tuple", *map(_plain_facts, value)]
    return [type(value).__name__, repr(value)]


def _has_setter(value):
    return isinstance(value, property) and isinstance(value.fset, types.FunctionType)


def _function_facts(function):
    if function.__code__.co_filename.startswith("<"):  # made by a decorator from what is described already
        return [_code_facts(function.__code__)]
    defaults = [*(function.__defaults__ or ()), *(value for _, value in sorted((function.__kwdefaults__ or {}).items()))]
    return [_code_facts(function.__code__), [_plain_facts(value) if is_plain(value) else "" for value in defaults]]


def _code_facts(code):
    """What code does, without where it stands in its file."""
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return [counts, code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, [_plain_facts(const) for const in code.co_consts]]


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


def _short(facts):
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogatepass")).hexdigest()[:8]


# ---- the receiver ----------------------------------------------------------------------------------------------------


def is_description(theirs):
    """Has it the form of described()?"""
    return (
        isinstance(theirs["by"], str)
        and isinstance(theirs["rank"], (int, type(None)))
        and all(isinstance(module, str) for module in theirs["older"])
        and all(isinstance(members, dict) for classes in theirs["of"].values() for members in classes.values())
    )


def tell(theirs, value, label="", say=None):
    """Says once of each class of a value that it is another one here; of an Enum, whose members are found by number, once of each variable.
    theirs: the sender's described(). label: what the value is called, unless it is a dict of variables. say: takes the line; None: it is
    printed."""
    for module, classes in theirs["of"].items():
        older = _older_sides(theirs, module)
        for qualname, members in classes.items() if older and is_users(module) else ():
            with contextlib.suppress(Exception):  # of a class that does not let itself be read
                cls = functools.reduce(lambda at, name: getattr(at, name, None), qualname.split("."), sys.modules[module])
                line = _line(cls, _differing(members, members_of(cls)), theirs["by"])
                called = _called(value, cls, label) if line else ""
                about = line, called if isinstance(cls, enum.EnumMeta) else "", *older
                if line and about not in _reported:  # of several ranks, the first is named
                    _reported.add(about)
                    (say or _print)(f"{called}: {line}: {_cause(module, theirs, older)}")


def advice(theirs, error):
    """A sentence about a class that its module does not have here; "": one that is older is not the reason. theirs: described(), or None."""
    found = MISSING.search(text_of(error)) if theirs and isinstance(error, AttributeError) else None
    older = _older_sides(theirs, found.group(1)) if found else ()
    if not older:
        return ""
    cause = _cause(found.group(1), theirs, older)
    return cause[0].upper() + cause[1:]


def _older_sides(theirs, module):
    """The sides that have imported an older file than the one that is there now."""
    return tuple(dict.fromkeys(name for name, is_old in ((side, is_older(module)), (theirs["by"], module in theirs["older"])) if is_old))


def _print(line):
    print(f"cellspan: {line}", file=sys.stderr)


def _differing(theirs, ours):
    """Names by which two descriptions differ. Only a method can be new: other things may have been added while the program ran."""
    both = [name for name in theirs if name in ours and theirs[name] != ours[name]]
    one = [name for name in {*theirs} ^ {*ours} if (theirs.get(name) or ours[name]).startswith(METHOD)]
    return sorted(both + one) if ours else []


def _line(cls, differ, sender):
    if not differ:
        return None
    names = ", ".join(differ[:SHOWN]) + (", …" if len(differ) > SHOWN else "")
    places = "at home and on ranks" if {side, sender} == {HOME, RANKS} else "here and where it comes from"
    return f"the class {cls.__module__}.{cls.__qualname__} is not the same {places} ({names})"


def _cause(module, theirs, older):
    """Who has imported an older file, and what to do. older: of _older_sides()."""
    who = {HOME: "the notebook has", RANKS: "ranks have"}.get(older[0], "the process that began earlier has")
    where = {HOME: " at home", RANKS: " on ranks"}.get(older[0], " there")
    if len(older) > 1:
        who, where = "both have", " in both places"
    elif older[0] == theirs["by"] == RANKS and theirs["rank"] is not None:
        who = f"rank {theirs['rank']} has"  # a rank's own lines begin with its number
    return f"{who} imported an older {module}. importlib.reload({module}){where} loads it again"


def _called(value, cls, label):
    if type(value) is not dict:
        return label or "a value"
    left = [SCANNED]

    @functools.lru_cache(maxsize=None)
    def has(kind):  # by name: after the module was loaded again, there are two classes of the name
        return any((base.__module__, base.__qualname__) == (cls.__module__, cls.__qualname__) for base in kind.__mro__)

    return ", ".join(name for name, one in value.items() if isinstance(name, str) and _holds(one, has, DEEP, left)) or label or "a value"


def _holds(value, has, deep, left):
    left[0] -= 1
    if has(value if issubclass(type(value), type) else type(value)):  # isinstance() may ask the value itself
        return True
    if not deep or left[0] <= 0:
        return False
    inner = value.values() if type(value) is dict else value if type(value) in (list, tuple, set) else names_of(value).values()
    return any(_holds(one, has, deep - 1, left) for one in itertools.islice(inner, max(0, min(left[0], MOST_PLAIN))))
