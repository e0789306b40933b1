# SPDX-License-Identifier: BSD-3-Clause
"""What objects of the user's classes keep in a functools.cached_property because somebody has read it. It looks as an attribute that was
assigned, so each first read is noted here: the object, the name, and what the value was.

A value is known as unchanged if it is still that object, and nobody can have changed it in place: a plain one; a tensor of the same version;
or data with the same pickle. Of others, such as objects of the user's classes, that is not known.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import itertools
import pickle
import sys
import weakref

from .. import _link
from . import resizing
from .class_versions import is_users

PLAIN = (type(None), bool, int, float, complex, str, bytes)
TEXTS = (str, bytes)
CONTAINERS = (list, tuple, dict, set, frozenset)
DATA = ("numpy", "pandas", "datetime", "decimal", "fractions", "pathlib", "uuid")  # modules of classes whose own pickling is no code of the user's
MOST = 1000  # members of a value that are looked at
LARGEST = 16 << 20  # bytes of a pickle
SHORT = 1000  # characters or bytes of a text that is kept itself
UNKNOWN, ITSELF = object(), object()

_noted = {}  # {id of an object: its _Noted}


class _Noted(weakref.ref):
    """A weak reference to an object of which something was read. key: the object's id. rows: ((a name, the value itself, ITSELF), or (a name, as
    of _mark() of the value, as of _content()), ...). There may be very many, so this is as small as it can be."""

    __slots__ = ("key", "rows")


def _is_gone(noted):
    if _noted.get(noted.key) is noted:
        del _noted[noted.key]


def watch():
    """From now on, first reads are noted."""
    _link.after_first_read(functools.cached_property, functools.cached_property.__get__, _note)
    resizing.watch(_LetsGo.only)


class _LetsGo:
    def let_go(self, array):
        """Before an array gets another size: see resizing.py."""
        _noted.pop(id(array), None)


_LetsGo.only = _LetsGo()


def _note(prop, instance, value):
    try:
        _note_read(type(instance), prop.attrname, instance, value)
    except Exception:  # noqa: BLE001, S110 - it is read by the user's code, which must not get an error of this; so the value counts as assigned
        pass


def _is_users(kind):
    return kind.__module__ == "__main__" or is_users(kind.__module__)


def _note_read(kind, name, instance, value):
    if not _is_users(kind):
        return
    if vars(instance).get(name, UNKNOWN) is not value:
        return
    if type(value) in PLAIN and (type(value) not in TEXTS or len(value) <= SHORT):
        row = name, value, ITSELF
    else:
        content = _content(value)
        if content is UNKNOWN and not issubclass(kind, enum.Enum):
            return  # nobody asks for it: see `surely` of names_of()
        row = name, _mark(value, content), content
    noted = _noted.get(id(instance))
    if noted is None:
        noted = _Noted(instance, _is_gone)  # if there are no weak references to it, this is a TypeError
        noted.key, noted.rows = id(instance), ()
        _noted[noted.key] = noted
    noted.rows = (*(other for other in noted.rows if other[0] != name), row) if noted.rows else (row,)


def names_of(obj, surely=True):
    """{name: value} of what was only read of an object, and is still what it was then. surely: not of values of which this is not known."""
    noted = _noted.get(id(obj))
    if noted is None or noted() is not obj:
        return {}
    found, own = {}, vars(obj)
    for row in noted.rows:
        name, mark, before = row
        value = own.get(name, UNKNOWN)
        if value is UNKNOWN or not (mark is value if before is ITSELF else mark() is value if isinstance(mark, weakref.ref) else mark == id(value)):
            noted.rows = tuple(other for other in noted.rows if other is not row)  # assigned or deleted since
        elif before is ITSELF or (not surely if before is UNKNOWN else _content(value) == before):
            found[name] = value
    return found


def _mark(value, content):
    """Identifies a value, and keeps nothing alive: it may lead to the object. What has no weak reference is told by its content, too. An array
    must have none: see resizing.py."""
    try:
        return weakref.ref(value) if content is UNKNOWN or isinstance(content, int) else id(value)
    except TypeError:
        return id(value)


def _content(value):
    """Something that is another one once the value was changed in place; UNKNOWN: that can't be told."""
    kind = type(value)
    try:
        if kind in PLAIN or isinstance(value, type):
            return kind, hash(value)
        if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
            return value._version
        if not _is_data(value, iter(range(MOST))):
            return UNKNOWN
        made = _Digest()
        _DataPickler(made, 5, buffer_callback=lambda buffer: made.write(buffer.raw())).dump(value)
        return made.digest()
    except Exception:  # noqa: BLE001 - it is too large, can't be pickled, or does not let itself be read, as a tensor of inference_mode()
        return UNKNOWN


def _is_data(value, left):
    """left: an iterator of as many as may still be looked at."""
    kind = type(value)
    if next(left, None) is None:
        return False
    if kind in PLAIN or issubclass(kind, type):
        return True
    if kind in CONTAINERS:
        parts = itertools.chain(value, value.values()) if kind is dict else value
        return all(_is_data(part, left) for part in parts)
    return str(kind.__module__).partition(".")[0] in DATA


class _DataPickler(pickle.Pickler):
    """An array or a frame may have objects of the user's in it, and to pickle them could run the user's code."""

    def reducer_override(self, obj):
        if _is_users(type(obj)):
            raise TypeError
        return NotImplemented


class _Digest:
    """A file that keeps only the digest of what is written."""

    def __init__(self):
        self._made, self._size = hashlib.blake2b(digest_size=16), 0
        self.digest = self._made.digest

    def write(self, data):
        size = memoryview(data).nbytes
        self._size += size
        if self._size > LARGEST:
            raise OverflowError
        self._made.update(data)
        return size
