# SPDX-License-Identifier: BSD-3-Clause
"""What objects of the user's classes keep in a functools.cached_property because somebody has read it. It looks as an attribute that was
assigned, so each first read is noted here: the object, the name, and what the value was.

A value is known as unchanged if it is still that object, and nobody can have changed it in place: a plain one; a tensor of the same version;
or data with the same pickle. Of others, such as objects of the user's classes, that is not known.
"""

from __future__ import annotations

import contextlib
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
CONTAINERS = (list, tuple, dict, set, frozenset)
DATA = ("numpy", "pandas", "datetime", "decimal", "fractions", "pathlib", "uuid")  # modules of classes whose pickles run no code of the user's
MOST = 1000  # members of a value that are looked at
LARGEST = 16 << 20  # bytes of a pickle
UNKNOWN = object()

_noted = {}  # {id of an object: (a weak reference to it, {name: (as of _mark() of the value, as of _content())})}


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
    with contextlib.suppress(Exception):  # it is read by the user's code, which must not get an error of this; so the value counts as assigned
        _note_read(type(instance), id(instance), prop.attrname, instance, value)


def _note_read(kind, key, name, instance, value):
    if kind.__module__ != "__main__" and not is_users(kind.__module__):
        return
    if vars(instance).get(name, UNKNOWN) is not value:
        return
    if key not in _noted:  # if there are no weak references to it, this is a TypeError
        _noted[key] = weakref.ref(instance, lambda _: _noted.pop(key, None)), {}
    content = _content(value)
    _noted[key][1][name] = _mark(value, content), content


def names_of(obj, surely=True):
    """{name: value} of what was only read of an object, and is still what it was then. surely: not of values of which this is not known."""
    if id(obj) not in _noted:
        return {}
    reference, noted = _noted[id(obj)]
    if reference() is not obj:
        return {}
    found, own = {}, vars(obj)
    for name, (mark, before) in list(noted.items()):
        value = own.get(name, UNKNOWN)
        if value is UNKNOWN or (mark() is not value if isinstance(mark, weakref.ref) else mark != id(value)):
            del noted[name]  # assigned or deleted since
        elif not surely if before is UNKNOWN else _content(value) == before:
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
            return kind, hash(value) if kind not in PLAIN or kind in (str, bytes) else repr(value)
        if isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ())):
            return value._version
        if not _is_data(value, iter(range(MOST))):
            return UNKNOWN
        made = _Digest()
        pickle.Pickler(made, 5, buffer_callback=lambda buffer: made.write(buffer.raw())).dump(value)
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
