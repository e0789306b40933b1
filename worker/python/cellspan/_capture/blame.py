# SPDX-License-Identifier: BSD-3-Clause
"""Why a variable can't be sent, and which part of it is to blame: "net.log: cannot pickle an open file"."""

from __future__ import annotations

import pickle
import types

from . import reducers, vars_bundle

OBJECTS_MAX = 20_000  # objects that are looked at to find the part
KEY_MAX = 40  # letters of a key that is shown
PLAIN = (str, bytes, int, float, complex, bool, type(None), types.ModuleType)
TELLING = (TypeError, AttributeError, pickle.PicklingError, NotImplementedError, RecursionError, vars_bundle.BundleError)  # their texts say enough
OF_TORCH = ("_parameters", "_buffers", "_modules")  # dicts of a torch module whose members are its attributes


def reason(error, value, name, user_ns):
    """The text for the user. name: the variable's; None: the value has none."""
    text = vars_bundle.reason(error).rstrip(".")
    if isinstance(error, Exception) and not isinstance(error, TELLING):
        text = f"{type(error).__name__}: {text}"
    try:
        path = _path(value, name, _culprit(value, user_ns)) if name and not isinstance(error.__cause__ or error, RecursionError) else None
    except Exception:  # noqa: BLE001 - the user's class may raise anything
        path = None
    return f"{path}: {text}" if path else text


class _Traced(reducers.Pickler):
    """Notes the last object that it began to pickle."""

    last = None

    def reducer_override(self, obj):
        self.last = obj
        return super().reducer_override(obj)


def _fails(value, user_ns):
    """(can it not be pickled?, the pickler)."""
    made = []
    try:
        reducers.Pickled(value, user_ns, limit=0, make=lambda *args: made.append(_Traced(*args)) or made[0])
    except reducers.Overflow:
        return False, None
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - the user's code may raise anything
        return True, made[0] if made else None
    return False, None


def _culprit(value, user_ns):
    """The object in the value that can't be pickled; None: it is not clear which."""
    failed, pickler = _fails(value, user_ns)
    found = pickler.last if failed and pickler is not None else None
    return found if found is not value and _fails(found, user_ns)[0] else None


def _path(value, name, culprit):
    """How one gets from the variable to that object, as Python would write it; None: no way is known."""
    if culprit is None:
        return None
    seen, level, left = {id(value)}, [(name, value)], OBJECTS_MAX
    while level:
        following = []
        for path, owner in level:
            for label, part in _held_by(path, owner):
                if part is culprit:
                    return label
                left -= 1
                if left < 0:
                    return None
                if id(part) not in seen and not isinstance(part, PLAIN):
                    seen.add(id(part))
                    following.append((label, part))
        level = following
    return None


def _held_by(path, owner):
    """(path, object) of what an object holds. Runs no code of the user's."""
    if isinstance(owner, dict):
        yield from ((f"{path}[{_shown(key)}]", part) for key, part in list(dict.items(owner)))
    elif isinstance(owner, (list, tuple)):
        yield from ((f"{path}[{at}]", part) for at, part in enumerate(list(owner)))
    elif isinstance(owner, (set, frozenset)):
        yield from ((f"an item of {path}", part) for part in list(owner))
    elif isinstance(owner, types.FunctionType):
        yield from _held_by_function(path, owner)
        return
    elif isinstance(owner, types.MethodType):
        yield from ((f"{path}.__self__", owner.__self__), (f"{path}.__func__", owner.__func__))
        return
    if isinstance(owner, type):
        yield from ((f"{path}.{key}", getattr(part, "__func__", part)) for key, part in list(vars(owner).items()) if _is_own(owner))
        return
    yield from _attributes(path, owner)
    if _is_own(type(owner)):
        yield type(owner).__name__, type(owner)


def _held_by_function(path, function):
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield f"{variable} in {path}", cell.cell_contents
        except ValueError:  # it is empty
            pass
    for value in [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]:
        yield f"a default of {path}", value
    yield from ((f"{path}.{key}", part) for key, part in list(vars(function).items()))


def _attributes(path, owner):
    try:
        own = object.__getattribute__(owner, "__dict__")
    except (AttributeError, TypeError):
        own = {}
    for key, part in list(own.items()) if isinstance(own, dict) else ():
        if key in OF_TORCH and isinstance(part, dict):
            yield from ((f"{path}.{inner}", each) for inner, each in list(dict.items(part)))
        else:
            yield f"{path}.{key}", part
    for cls in type(owner).__mro__:
        for key, slot in list(vars(cls).items()):
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    yield f"{path}.{key}", slot.__get__(owner, cls)
                except (AttributeError, TypeError):  # it has no value
                    pass


def _is_own(cls):
    """Is it a class of the notebook, whose attributes are pickled too?"""
    return cls.__module__ == "__main__"


def _shown(key):
    text = repr(key) if isinstance(key, PLAIN) else f"<{type(key).__name__}>"
    return text if len(text) <= KEY_MAX else text[:KEY_MAX] + "…"
