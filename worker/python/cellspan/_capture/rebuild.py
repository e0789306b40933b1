# SPDX-License-Identifier: BSD-3-Clause
"""Rebuilds the objects that reducers.py pickles: the functions that our pickles call."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
import types
import weakref

from .._base.imports import when_imported
from . import caches, enums, sources, tensors

_local = threading.local()
on_filled = None  # on a rank, a function that is called with the classes that a bundle has filled, once it is loaded
on_sent = None  # on a rank, a function that is called with the classes that were packed for home: see ClassStates.sent()
takes = None  # on a rank, a function of a class that is here and a Loading: is it filled with what another process sends?
HAS = "has it"  # takes() says so if the class has that state already: it is not filled, since something may refer to its own attributes


class VariableConflict(Exception):
    """Home and this rank have both changed it; the text is for the user."""


class Loading:
    """What the functions below need while a bundle is loaded: the namespace and the storages. pickled: (its pickle, its buffers), for who has
    to load it again. forced: the ids of the classes that it replaces. say: as of class_versions.tell()."""

    def __init__(self, user_ns, views=(), placed=None, pickled=None, forced=(), say=None):
        self.user_ns, self.pickled, self.forced, self.say = user_ns, pickled, forced, say
        self.taken = {}  # {class that is here: does it get the state that comes?}
        self.twins = None  # {id of a class: a copy of it with the state that comes}, once somebody has needed one
        self._views = views  # [(memoryview, base)], by storage number
        self._storages = dict(placed or {})

    def anew(self):
        """The same without what is on a device, to load the bundle again."""
        return Loading(self.user_ns, self._views)

    def storage(self, number):
        """(torch storage, the byte of the original at which it starts)."""
        view, base = self._views[number]
        if number not in self._storages:
            self._storages[number] = tensors.storage_over(view)
        return self._storages[number], base


class load_into:
    """Within the block, loading() returns `context` in this thread."""

    def __init__(self, context):
        self._context = context

    def __enter__(self):
        self._before, self._filled = getattr(_local, "loading", None), getattr(_local, "filled", None)
        _local.loading, _local.filled = self._context, None

    def __exit__(self, *error):
        filled = _local.filled
        _local.loading, _local.filled = self._before, self._filled
        if not filled or any(error):
            return
        for cls, of_enum in filled:
            if of_enum:
                enums.note_values(cls, of_enum[1])
        if on_filled is not None:
            on_filled([cls for cls, _ in filled])


class holding:
    """Within the block, the targets of weak references that this thread loads are put into `held`. At home something else holds them; here
    they are alive as long as the caller keeps this list, if nothing else holds them."""

    def __init__(self, held):
        self._held = held

    def __enter__(self):
        self._before = getattr(_local, "held", None)
        _local.held = self._held

    def __exit__(self, *error):
        _local.held = self._before


def loading():
    """The Loading of this thread. If there is none (a user calls pickle.loads), a new one for __main__."""
    return getattr(_local, "loading", None) or Loading(main_namespace())


def main_namespace():
    """The default namespace."""
    return sys.modules["__main__"].__dict__


def make_function(code, cells, module, source=None):
    """A function whose globals are the user's namespace (module None) or those of an importable module."""
    sources.know(source)
    if module is None:
        namespace = loading().user_ns
        namespace.setdefault("__builtins__", __builtins__)
    else:
        namespace = importlib.import_module(module).__dict__
    return types.FunctionType(code, namespace, None, None, cells)


def set_function(function, state):
    """Sets everything of a function except its code. imports: submodules that its code reaches through a package."""
    attributes, slots, imports = state
    for name in imports:
        import_quietly(name)
    for name, value in slots.items():
        setattr(function, name, value)
    function.__dict__.update(attributes)


def make_code(*args):
    """A code object. (A pickle has no name for its type that is as fast to write and to load as that of this function.)"""
    return types.CodeType(*args)


def make_cell():
    """The cell of a closure, still empty."""
    return types.CellType()


def set_cell(cell, state):
    """Fills the cell of a closure. A separate step, so that a function can be in its own closure."""
    cell.cell_contents = state[0]


def make_module(name, submodules):
    """Imports a module, and the submodules that the sender has imported and uses."""
    module = importlib.import_module(name)
    for sub in submodules:
        import_quietly(sub)
    return module


def import_quietly(name):
    """Imports a module that may be missing here; if so, code that needs it gets an AttributeError later."""
    try:
        importlib.import_module(name)
    except ImportError:
        pass


def make_cached(function, parameters):
    """A function with functools.lru_cache or cache; the cache itself starts empty."""
    return functools.lru_cache(**parameters)(function)


def set_cached(cached, attributes):
    """Sets what the user has set of it. A separate step, since the attributes may hold the function."""
    cached.__dict__.update(attributes)


def make_cached_property(function, name, doc):
    """A functools.cached_property, which can't be pickled before Python 3.12 because it has a lock."""
    made = functools.cached_property(function)
    made.attrname, made.__doc__ = name, doc
    return made


def make_memoryview(data, format, shape):
    view = memoryview(data)
    return view.cast(format, shape) if 0 not in shape else view.cast(format)  # cast() makes no shape with a 0


def make_delta_table(uri, version, options):
    """A table of the package deltalake, which holds files and connections: it is opened again, in the version that the sender has."""
    return importlib.import_module("deltalake").DeltaTable(uri, version=version, storage_options=options)


class _FoundOut:
    """An attribute that transformers' TrainingArguments set when they first look for their device."""

    def __get__(self, arguments, kind=None):
        if arguments is not None:
            arguments._setup_devices
            return arguments.__dict__.get("distributed_state")
        return self


def make_arguments(kind):
    """transformers' TrainingArguments, still empty. They find out their device and their world here, when they are asked for it: that
    may make a process group."""
    base = importlib.import_module("transformers.training_args").TrainingArguments
    if not hasattr(base, "distributed_state"):
        base.distributed_state = _FoundOut()
        when_imported("transformers.trainer", _find_out_first)
    return object.__new__(kind)


def _find_out_first():
    """transformers' Trainer makes its Accelerator before it asks the arguments for their device. To find that out resets Accelerate's
    state, so it has to come first. Arguments that were made here know it already."""
    trainer = sys.modules["transformers.trainer"].Trainer
    make = getattr(trainer, "create_accelerator_and_postprocess", None)
    if make is None:
        return

    @functools.wraps(make)
    def found_out_first(self):
        __tracebackhide__ = True
        self.args._setup_devices
        make(self)

    trainer.create_accelerator_and_postprocess = found_out_first


class _Gone:
    """A class whose instances are used for dead references."""


def make_ref(target=None):
    """A weak reference; without a target, a dead one."""
    return weakref.ref(_Gone() if target is None else _hold(target))


def make_weak_set(items):
    return weakref.WeakSet(map(_hold, items))


def make_weak_dict(kind, items):
    for pair in items.items():
        _hold(pair[0 if kind is weakref.WeakKeyDictionary else 1])
    return kind(items)


def _hold(target):
    """Keeps the target of a weak reference: see holding."""
    if getattr(_local, "held", None) is not None:
        _local.held.append(target)
    return target


AT = 4  # index of the argument of make_plain() and make_enum() with the class's id


def is_native(metaclass):
    """Is none of the classes of this metaclass's MRO from another process?"""
    return not any(kind in _received for kind in metaclass.__mro__)


def native(metaclass, name, cls=None):
    """The attribute of this name that a metaclass, or a class `cls` of it, has from the first class of its MRO that is not from another process.
    These make the class: what code of the user's metaclass has done to a class, or noted, is in the state of the class, of its metaclass or of a
    variable, which travels. (Only a package's metaclass that comes before the user's may call that one, by super().)"""
    if is_native(metaclass):
        return getattr(metaclass, name)
    order = metaclass.__mro__
    at = next(k for k, kind in enumerate(order) if k and kind not in _received and name in vars(kind))
    return getattr(super(order[at - 1], metaclass if cls is None else cls), name)


def make_plain(metaclass, name, bases, namespace, number, extra):
    """An empty class. number: its id; None: it gets none."""
    from cloudpickle import cloudpickle

    if is_native(metaclass):
        return _not_abstract(cloudpickle._make_skeleton_class(metaclass, name, bases, namespace, number, extra))
    resolved = types.resolve_bases(bases)
    body = native(metaclass, "__prepare__")(name, resolved)
    body.update(namespace)
    if resolved is not bases:
        body["__orig_bases__"] = bases
    cls = native(metaclass, "__new__")(metaclass, name, resolved, body)
    native(metaclass, "__init__", cls)(name, resolved, body)
    return cloudpickle._lookup_class_or_track(number, _not_abstract(cls))


def _not_abstract(cls):
    """An empty class, of which an object that is in its own state can be made. Which of its methods are abstract is in that state."""
    if vars(cls).get("__abstractmethods__"):
        type.__setattr__(cls, "__abstractmethods__", frozenset())
    return cls


def make_enum(metaclass, name, bases, parts, number, extra):
    """An enum with its members. number: as of make_plain()."""
    from cloudpickle import cloudpickle

    return cloudpickle._lookup_class_or_track(number, enums.make_enum(functools.partial(native, metaclass), metaclass, name, bases, parts))


def make_class(make, *args):
    """An empty class, by `make`, which is make_plain() or make_enum(). If a class with the id args[AT] is here already, it is that one: to
    make another would call its __init_subclass__ and metaclass again, which may note each class that is made."""
    from cloudpickle import cloudpickle

    known = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.get(args[AT])
    if known is not None:
        if _is_taken(known, args[AT]) and make is make_enum:
            enums.add_members(known, args[3])
        return known
    try:
        hooks = _hooks(args)
        if any(cls in _received for cls in hooks):  # the classes that a hook notes are in the state of the hook's own class, which travels
            return made_quietly(make, args, hooks)
        return make(*args)
    except Exception:  # a hook may want arguments, attributes, or names that have not come yet
        return made_quietly(make, args)


def _hooks(args, of_packages=False):
    """The classes whose __init_subclass__ is called for this new class: those of the notebook, or also those of packages."""
    every = {cls for base in types.resolve_bases(args[2]) for cls in getattr(base, "__mro__", ()) if "__init_subclass__" in cls.__dict__}
    return [cls for cls in every if cls in _received or cls.__module__ == "__main__" or (of_packages and cls.__module__.partition(".")[0] not in PYTHONS)]


PYTHONS = ("builtins", "typing", "typing_extensions", "abc", "enum", "collections")  # modules whose hooks a class needs
_making = threading.RLock()


def made_quietly(make, args, hooks=None):
    """make(*args), an empty class, without a call of these classes' __init_subclass__. hooks None: of all but Python's own."""
    with _making:
        kept = [(cls, cls.__dict__["__init_subclass__"]) for cls in (_hooks(args, True) if hooks is None else hooks)]
        try:
            for cls, _ in kept:
                with contextlib.suppress(TypeError):  # a class of C, or whose metaclass is
                    type.__setattr__(cls, "__init_subclass__", _silent(cls))
            return make(*args)
        finally:
            for cls, hook in kept:
                with contextlib.suppress(TypeError):
                    type.__setattr__(cls, "__init_subclass__", hook)


def _silent(owner):
    def __init_subclass__(cls, **kwargs):
        super(owner, cls).__init_subclass__()

    return classmethod(__init_subclass__)


pickled_here = weakref.WeakSet()  # classes
_received = weakref.WeakSet()  # classes that came from another process
_came = weakref.WeakKeyDictionary()  # such a class -> names_in() the state that came last


def is_received(cls):
    """Did this class come from another process by value?"""
    return cls in _received


def is_own(cls):
    """Was it defined here, and only comes back?"""
    return isinstance(cls, type) and cls in pickled_here and cls not in _received


def _is_taken(cls, number=None):
    """Does a class that is here get the state that comes? number: its id. At home, what home has defined stays as it is."""
    context = getattr(_local, "loading", None)
    if context is None:
        return not is_own(cls)
    if cls not in context.taken:
        if number in context.forced:
            context.taken[cls] = True
        else:
            context.taken[cls] = not is_own(cls) if takes is None or number is None else takes(cls, context)
    return context.taken[cls]


def names_in(state):
    """{"": names of a class's attributes, an enum's member: names of its attributes}."""
    attributes, _, of_enum = state
    return {"": frozenset(attributes), **(enums.names_in(of_enum) if of_enum else {})}


def set_class(cls, state):
    """Fills a class that was sent by value."""
    attributes, name, of_enum = state
    taken = _is_taken(cls)
    if not taken:
        return
    if "_fields_" in cls.__dict__ and any(base.__module__ == "_ctypes" for base in cls.__mro__):
        attributes = {name: value for name, value in attributes.items() if name != "_fields_"}  # a structure gets its fields only once
    came = _came.get(cls, {})
    if is_own(cls):
        came = came or {"": _own_names(cls)}
    else:
        _received.add(cls)
    _came[cls] = names_in(state)
    _local.filled = [*(getattr(_local, "filled", None) or ()), (cls, of_enum)]
    if taken is HAS:
        return
    _delete(cls, came.get("", ()), attributes)
    _fill(cls, attributes)
    if of_enum:
        enums.set_state(cls, of_enum, came)
    if cls.__qualname__ != name:  # else it stays the same object, so that the class's next pickle has the same bytes
        type.__dict__["__qualname__"].__set__(cls, name)


def _own_names(cls):
    """The names of attributes of a class that was defined here, of those that are sent."""
    from cloudpickle import cloudpickle

    found = cloudpickle._class_getstate(cls)[0]
    names = [name for name in found.keys() - caches.of_class(found) if type(found[name]).__module__ != "_ctypes"]
    return enums.own_names(cls, names) if enums.is_enum(cls) else names


def _delete(cls, came, now):
    """Deletes what came with an earlier state of a class and is not in the newest one."""
    delete = native(type(cls), "__delattr__")
    for name in came:
        if name not in now and name in vars(cls) and name not in ("_fields_", "_abc_impl"):
            with contextlib.suppress(AttributeError, TypeError):  # a class of C
                delete(cls, name)


def _fill(cls, attributes):
    """Sets the attributes of a class, without code of the user's metaclass."""
    set_attribute = native(type(cls), "__setattr__")
    for name, value in attributes.items():
        if name != "_abc_impl":
            set_attribute(cls, name, value)
    if "__firstlineno__" in attributes:  # Python 3.13 deletes it when another attribute is set
        set_attribute(cls, "__firstlineno__", attributes["__firstlineno__"])
    for registered in attributes.get("_abc_impl", ()):
        cls.register(registered)


def fill_module(module, state):
    """Sets the names of a module that has no file."""
    module.__dict__.update(state)
