"""An exception of a rank's on its way home: what is told of it there, and what is raised at home in its place.

Home has an instance of its own, of a class that is RemoteError and the exception's class as well, so that `except` takes it for
what it is. The class is looked for where home has it already: who names one in an `except` has imported it. It is not called,
for nobody knows with what; its text is that of the rank, and of arguments and attributes it has those that are plain values.
"""

from __future__ import annotations

import base64
import builtins
import io
import pickle
import sys
import types

from .._base.errors import text_of

SIZE = 16 << 10  # bytes that arguments and attributes of one exception may take, pickled
INSIDE = 64  # exceptions of a group that are told of
_TEXT = "_cellspan_told"  # of a RemoteError: what was told of it
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that Python code, or a module's, has made
_GROUP = getattr(builtins, "BaseExceptionGroup", ())


class RemoteError(RuntimeError):
    """What failed on the ranks. It is of the remote exception's class as well, where home has that, or of those above it.

    traceback: the lines of the rank's, with those that tell which ranks failed alike."""

    __module__ = "cellspan"
    traceback = ()

    def __init_subclass__(cls, **given):
        """The user's class is not to take it for one that somebody wrote."""

    def __str__(self):
        told = self.__dict__.get(_TEXT)
        return RuntimeError.__str__(self) if told is None else told.get("evalue", "")

    def __reduce__(self):
        return remote_error, (self.__dict__[_TEXT],)

    def _render_traceback_(self):
        """IPython's way to show it: as it was highlighted where it happened."""
        return list(self.traceback) or [f"{type(self).__name__}: {self}"]


# ---- on the rank ------------------------------------------------------------------------------------------------------


def described(error):
    """What home needs to raise the like: {"classes": [[module, name], ...], "plain": its arguments and attributes, pickled}, of a
    group also "message" and "inside". {} where its class does not allow to look."""
    try:
        said = {"classes": [[c.__module__, c.__qualname__] for c in type(error).__mro__ if issubclass(c, BaseException)]}
        said["plain"] = base64.b64encode(pickle.dumps(_plain_parts(error), protocol=4)).decode()
        if isinstance(error, _GROUP):
            said["message"] = str(error.message)
            said["inside"] = [_inside(one) for one in error.exceptions[:INSIDE]]
        return said
    except BaseException:  # noqa: BLE001 - a class of the user's may do anything; the error itself is told of all the same
        return {}


def _inside(error):
    return {"ename": type(error).__name__, "evalue": text_of(error), "raised": described(error)}


def _plain_parts(error):
    """{name: a plain value's pickle} of what the exception holds, as much as there is room for."""
    parts, room = {}, SIZE
    for name, value in _parts(error):
        pickled = _plain(value, room)
        if pickled is not None:
            parts[name] = pickled
            room -= len(pickled)
    return parts


def _parts(error):
    """(name, value) of the arguments, of what a class in C or with slots keeps, and of the attributes."""
    yield "args", error.args
    for kind in type(error).__mro__:
        for name, known in vars(kind).items():
            if isinstance(known, (types.MemberDescriptorType, types.GetSetDescriptorType)) and _is_theirs(name):
                value = getattr(error, name, None)
                if value is not None:
                    yield name, value
    for name, value in vars(error).items():
        if _is_theirs(name):
            yield name, value


def _is_theirs(name):
    return not name.startswith("__") and name != _TEXT and not hasattr(RemoteError, name)


class _Plain(pickle.Pickler):
    """Takes numbers, text, bytes, and lists, tuples, dicts and sets of these: no object of a class."""

    def reducer_override(self, value):
        raise pickle.PicklingError("it is no plain value")


class _Loads(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError("an exception's attribute is no plain value")


def _plain(value, room):
    """Its pickle; None: it is not plain, or longer than that."""
    if isinstance(value, (str, bytes, list, tuple, dict, set)) and len(value) > room:
        return None
    file = io.BytesIO()
    try:
        _Plain(file, 4).dump(value)
    except Exception:  # noqa: BLE001 - nested too deeply, for instance
        return None
    return file.getvalue() if file.tell() <= room else None


# ---- at home ----------------------------------------------------------------------------------------------------------


def remote_error(content):
    """The exception for an error reply's content."""
    ename = content.get("ename") or "RuntimeError"
    if ename == "KeyboardInterrupt":
        return KeyboardInterrupt(content.get("evalue", ""))
    raised = content.get("raised") or {"classes": [["builtins", ename]]}
    rows = [row for row in raised.get("classes", ()) if len(row) == 2]
    ours = [row for row in rows if row[0] == "builtins"]
    for classes in (rows, ours):  # where a class of others allows no instance, what stands above it may
        try:
            return _built(_made(ename, rows, _known(classes)), content, raised)
        except Exception:  # noqa: BLE001 - see above
            continue
    return _built(_made(ename, rows, []), content, raised)


def _built(made, content, raised):
    error = _instance(made, raised)
    error.__dict__[_TEXT] = content
    BaseException.args.__set__(error, (content.get("evalue", ""),))
    _give_back(error, raised.get("plain"))
    error.__dict__["traceback"] = content.get("traceback") or ()
    return error


def _known(rows):
    """The classes that home has of these, without those that are above one of the others, or above RemoteError."""
    found = []
    for module, name in rows:
        known = _found(module, name)
        if known is not None and not any(issubclass(one, known) for one in [RemoteError, *found]):
            found.append(known)
    return found


def _found(module, name):
    """The class, where its module is there; None: it is not."""
    known = sys.modules.get(module)
    for part in name.split("."):
        known = getattr(known, part, None)
    return known if isinstance(known, type) and issubclass(known, BaseException) else None


def _made(ename, rows, known):
    module, name = rows[0] if rows else ("builtins", ename)
    return type(ename, (RemoteError, *known), {"__module__": module, "__qualname__": name})


def _instance(made, raised):
    """Made by what is built in of the class: an __init__ of the user's would want its arguments."""
    base = made
    while base.__flags__ & _HEAP:
        base = base.__base__
    if issubclass(made, _GROUP):
        return base.__new__(made, raised["message"], [remote_error(one) for one in raised["inside"]])
    return base.__new__(made)


def _give_back(error, plain):
    """Sets what came along of its arguments and attributes, as far as its class lets that be done."""
    if not plain:
        return
    for name, pickled in _load(base64.b64decode(plain)).items():
        try:
            value = _load(pickled)
            if name == "args":
                BaseException.args.__set__(error, value)
            else:
                object.__setattr__(error, name, value)
        except Exception:  # noqa: BLE001 - a property, for instance
            continue


def _load(pickled):
    return _Loads(io.BytesIO(pickled)).load()
