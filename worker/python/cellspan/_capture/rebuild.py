"""How what reducers.py takes apart is put together again: the functions that a pickle of ours names."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
import types
import weakref

from . import sources, tensors

_local = threading.local()


class Loading:
    """What the reconstructors below need while one parcel is being loaded: the namespace and the storages."""

    def __init__(self, user_ns, views=(), placed=None):
        self.user_ns = user_ns
        self._views = views  # [(memoryview, base)], by storage number
        self._storages = dict(placed or {})

    def storage(self, number):
        """(torch storage, the byte of the original at which it starts)."""
        view, base = self._views[number]
        if number not in self._storages:
            self._storages[number] = tensors.storage_over(view)
        return self._storages[number], base


@contextlib.contextmanager
def load_into(context):
    """Makes `context` the one that loading() gives, in this thread, for a while."""
    before = getattr(_local, "loading", None)
    _local.loading = context
    try:
        yield context
    finally:
        _local.loading = before


def loading():
    """The Loading of this thread; outside of any (pickle.loads by hand): one over __main__."""
    return getattr(_local, "loading", None) or Loading(main_namespace())


def main_namespace():
    """The namespace that is meant where none is named."""
    return sys.modules["__main__"].__dict__


def make_function(code, cells, module, source=None):
    """A function over the user's namespace (module None), or over the globals of an importable module."""
    sources.know(source)
    if module is None:
        namespace = loading().user_ns
        namespace.setdefault("__builtins__", __builtins__)
    else:
        namespace = importlib.import_module(module).__dict__
    return types.FunctionType(code, namespace, None, None, cells)


def set_function(function, state):
    """Gives a function all that is not its code. `imports` are submodules that its code reaches through a package."""
    attributes, slots, imports = state
    for name in imports:
        import_quietly(name)
    for name, value in slots.items():
        setattr(function, name, value)
    function.__dict__.update(attributes)


def set_cell(cell, state):
    """Fills the cell of a closure; apart from its making, so that a function may stand in its own closure."""
    cell.cell_contents = state[0]


def make_module(name, submodules):
    """Imports a module, and those of its submodules that were imported on the other side and are used."""
    module = importlib.import_module(name)
    for sub in submodules:
        import_quietly(sub)
    return module


def import_quietly(name):
    """Imports what may be missing here; who needs it gets the AttributeError."""
    try:
        importlib.import_module(name)
    except ImportError:
        pass


def make_cached(function, parameters):
    """functools.lru_cache or cache around a function; the cache itself starts empty."""
    return functools.lru_cache(**parameters)(function)


def make_cached_property(function, name, doc):
    """functools.cached_property, which carries a lock before Python 3.12."""
    made = functools.cached_property(function)
    made.attrname, made.__doc__ = name, doc
    return made


class _Gone:
    """Something to have a reference to that is dead."""


def make_ref(target=None):
    """A weak reference; a dead one where there is no target."""
    return weakref.ref(_Gone() if target is None else target)


shipped = weakref.WeakSet()  # classes that were pickled here
_received = weakref.WeakSet()  # classes that came from elsewhere


def set_class(cls, state):
    """Fills a class that arrives by value. One that was defined here and only comes back stays as it is."""
    setter, inner, name = state
    if cls in shipped and cls not in _received:
        return
    _received.add(cls)
    setter(cls, inner)
    type.__dict__["__qualname__"].__set__(cls, name)


def fill_module(module, state):
    """Gives a module that was made by hand its names."""
    module.__dict__.update(state)
