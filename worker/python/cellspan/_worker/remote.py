# SPDX-License-Identifier: BSD-3-Clause
"""Sends a rank's exception to home: the rank describes it, and home raises an exception in its place.

Home's exception is an instance of a new class that derives from RemoteError and from the exception's own class, so that `except`
works as usual. The own class is used only if home has imported it, which is the case if an `except` names it. Its __init__ is not
called, since its arguments are not known. The exception has the rank's text, and those arguments and attributes that are plain
values.
"""

from __future__ import annotations

import base64
import builtins
import io
import pickle
import sys
import types

from .._base.errors import is_a, text_of

SIZE = 16 << 10  # bytes that the pickled arguments and attributes of one exception may have
INSIDE = 64  # exceptions of a group that are described
_TEXT = "_cellspan_description"  # attribute of a RemoteError: the description
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that was created at run time
_GROUP = getattr(builtins, "BaseExceptionGroup", ())


class RemoteError(RuntimeError):
    """An exception of the ranks. It is also an instance of the remote exception's class, or of its base classes, if home has these.

    traceback: the lines of the rank's traceback, and lines that say which other ranks failed in the same way."""

    __module__ = "cellspan"
    traceback = ()

    def __init_subclass__(cls, **given):
        """Does not call __init_subclass__ of the user's class, which expects only written classes."""

    def __str__(self):
        description = self.__dict__.get(_TEXT)
        return RuntimeError.__str__(self) if description is None else description.get("evalue", "")

    def __reduce__(self):
        if _TEXT not in self.__dict__:  # made by the user's code
            return super().__reduce__()
        added = {name: self.__dict__[name] for name in ("item", "traceback") if name in self.__dict__}  # by cellspan.map, at home
        return _made_again, (self.__dict__[_TEXT], added)

    def _render_traceback_(self):
        """Called by IPython: the traceback with the rank's highlighting."""
        return list(self.traceback) or [f"{type(self).__name__}: {self}"]


# ---- on the rank ------------------------------------------------------------------------------------------------------


def described(error):
    """The description of an exception for home: {"classes": [[module, name], ...], "plain": its pickled arguments and attributes};
    for a group also "message" and "inside". {} if its class raises an error here."""
    try:
        said = {"classes": [[c.__module__, c.__qualname__] for c in type(error).__mro__ if issubclass(c, BaseException)]}
        said["plain"] = base64.b64encode(pickle.dumps(_plain_fields(error), protocol=4)).decode()
        if isinstance(error, _GROUP):
            said["message"] = str(error.message)
            said["inside"] = [_inside(one) for one in error.exceptions[:INSIDE]]
        return said
    except BaseException:  # noqa: BLE001 - a user's class may do anything; the error's text is sent nevertheless
        return {}


def _inside(error):
    return {"ename": type(error).__name__, "evalue": text_of(error), "raised": described(error)}


def _plain_fields(error):
    """{name: a plain value's pickle} of the exception's parts, up to SIZE bytes."""
    parts, room = {}, SIZE
    for name, value in _fields(error):
        pickled = _plain(value, room)
        if pickled is not None:
            parts[name] = pickled
            room -= len(pickled)
    return parts


def _fields(error):
    """Yields (name, value) of the arguments, of members of classes in C or with slots, and of the attributes."""
    yield "args", error.args
    for kind in type(error).__mro__:
        for name, known in vars(kind).items():
            if isinstance(known, (types.MemberDescriptorType, types.GetSetDescriptorType)) and _is_sent(name):
                value = getattr(error, name, None)
                if value is not None:
                    yield name, value
    for name, value in vars(error).items():
        if _is_sent(name):
            yield name, value


def _is_sent(name):
    return not name.startswith("__") and name != _TEXT and not hasattr(RemoteError, name)


class _Plain(pickle.Pickler):
    """Pickles only numbers, text, bytes, and lists, tuples, dicts and sets of these."""

    def reducer_override(self, value):
        raise pickle.PicklingError("it is no plain value")


class _Room(io.BytesIO):
    """A pickle that may have so many bytes."""

    def __init__(self, most):
        super().__init__()
        self._most = most

    def write(self, data):
        if self.tell() + len(data) > self._most:
            raise pickle.PicklingError("it is too long")
        return super().write(data)


class _Loads(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError("an exception's attribute is no plain value")


def _plain(value, room):
    """The pickle of a plain value; None: it is not plain, or longer than `room`."""
    if isinstance(value, (str, bytes, list, tuple, dict, set)) and len(value) > room:
        return None
    file = _Room(room)
    try:
        _Plain(file, 4).dump(value)
    except Exception:  # noqa: BLE001 - for example, nested too deeply
        return None
    return file.getvalue()


# ---- at home ----------------------------------------------------------------------------------------------------------


def remote_error(content):
    """The exception for an error reply's content."""
    ename = content.get("ename") or "RuntimeError"
    if ename == "KeyboardInterrupt":
        error = KeyboardInterrupt(content.get("evalue", ""))
        error.__dict__[_TEXT] = content
        return error
    raised = content.get("raised") or {"classes": [["builtins", ename]]}
    rows = [row for row in raised.get("classes", ()) if len(row) == 2]
    ours = [row for row in rows if row[0] == "builtins"]
    for classes in (rows, ours):  # if one of the classes allows no instance, try only the built-in ones
        try:
            return _built(_made(ename, rows, _known(classes)), content, raised)
        except Exception:  # noqa: BLE001 - see above
            continue
    return _built(_made(ename, rows, []), content, raised)


def _made_again(content, added):
    error = remote_error(content)
    error.__dict__.update(added)
    return error


def as_of_ranks(error):
    """The exception that has ended what ranks ran. An interrupt is_of_ranks() from now on."""
    if isinstance(error, KeyboardInterrupt):
        error.__dict__.setdefault(_TEXT, {"ename": "KeyboardInterrupt", "evalue": ""})
    return error


def is_of_ranks(error):
    """Is this KeyboardInterrupt what came of a call, and not an interrupt of the code that asks for it?"""
    return _TEXT in error.__dict__


def interrupted_lines(error):
    """The lines of the ranks' traceback, if the error is an interrupt of what they ran; else None."""
    description = error.__dict__.get(_TEXT) if is_a(error, KeyboardInterrupt) else None
    return description.get("traceback") if description else None


def _built(made, content, raised):
    error = _instance(made, raised)
    error.__dict__[_TEXT] = content
    BaseException.args.__set__(error, (content.get("evalue", ""),))
    _give_back(error, raised.get("plain"))
    error.__dict__["traceback"] = content.get("traceback") or ()
    return error


def _known(rows):
    """Those of the classes that home has, without base classes of the others or of RemoteError."""
    found = []
    for module, name in rows:
        known = _found(module, name)
        if known is not None and not any(issubclass(one, known) for one in [RemoteError, *found]):
            found.append(known)
    return found


def _found(module, name):
    """The class, if its module is imported; else None."""
    known = sys.modules.get(module)
    for part in name.split("."):
        known = getattr(known, part, None)
    return known if isinstance(known, type) and issubclass(known, BaseException) else None


def _made(ename, rows, known):
    module, name = rows[0] if rows else ("builtins", ename)
    return type(ename, (RemoteError, *known), {"__module__": module, "__qualname__": name})


def _instance(made, raised):
    """Creates an instance by __new__ of the built-in base class: a user's __init__ would need its arguments."""
    base = made
    while base.__flags__ & _HEAP:
        base = base.__base__
    if issubclass(made, _GROUP):
        return base.__new__(made, raised["message"], [remote_error(one) for one in raised["inside"]])
    return base.__new__(made)


def _give_back(error, plain):
    """Sets the arguments and attributes that were sent, if its class allows it."""
    if not plain:
        return
    for name, pickled in _load(base64.b64decode(plain)).items():
        try:
            value = _load(pickled)
            if name == "args":
                BaseException.args.__set__(error, value)
            else:
                object.__setattr__(error, name, value)
        except Exception:  # noqa: BLE001 - for example, a property
            continue


def _load(pickled):
    return _Loads(io.BytesIO(pickled)).load()
