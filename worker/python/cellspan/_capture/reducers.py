# SPDX-License-Identifier: BSD-3-Clause
"""Pickles Python objects to bytes and buffers: cloudpickle, with additions for notebooks.

- Functions of the notebook (their globals are the user's namespace) get the *receiver's* namespace when they are rebuilt. The
  pickler records which global names their code reads. Functions nested in importable modules get that module's globals.
- Functions that share cells of closures still share them; modules are sent as imports, with the submodules that are used.
- Large arrays and tensors are pieces outside of the pickle (see tensors.py); small ones are in it.
- Objects that must not be sent, or would change their meaning, are refused with an error text.
"""

from __future__ import annotations

import dis
import enum
import functools
import io
import pickle
import sys
import types
import typing
import weakref

import cloudpickle

from .._base.errors import is_a
from . import arrays, by_name, by_type, caches, enums, foreign, rebuild, sources, tensors

IN_BAND = 4096  # bytes; smaller buffers stay in the pickle
PLAIN = frozenset((type(None), bool, int, float))  # types whose values need no reducers; also short texts
PLAIN_TEXT_MAX = 4096  # letters of a short text
SLACK = 256 << 20  # bytes; if the pickle itself exceeds the limit by this, pickling is stopped

MEMORY_FORMATS = frozenset("bBcdefhHiIlLnNPqQ?")  # which memoryview.cast() makes
NO_FILE = "<dynamic-code>"  # what cloudpickle writes for the name of a file

# ---- the side that pickles ----------------------------------------------------------------------------------------

class Chunks:
    """The file that a pickler writes to. It keeps the pieces without joining them, so that a large bytes object is not copied."""

    def __init__(self, limit=None):
        self.pieces = []
        self.size = 0
        self.limit = limit

    def write(self, data):
        self.size += len(data)
        if self.limit is None or self.size <= self.limit:
            self.pieces.append(data if type(data) is bytes else bytes(data))
        elif self.size > self.limit + SLACK:
            raise Overflow(self.size)
        else:
            self.pieces.clear()
        return len(data)


class Overflow(Exception):
    """The pickle itself is larger than can be sent; args[0] is the size so far, in bytes."""


class Piece:
    """A buffer outside the pickle. `key` identifies the same buffer in two pickles: address and size of the original. owner: that of the
    original, if this one is a copy of it."""

    __slots__ = ("key", "nbytes", "_view", "_buffer", "_owner")

    def __init__(self, key, view, buffer, owner=None):
        self.key, self.nbytes = key, view.nbytes
        self._view, self._buffer, self._owner = view, buffer, owner

    def owner(self):
        """A function: does what owns the memory of the original still exist?"""
        return self._owner or arrays.owner_of(memoryview(self._buffer).obj)

    def view(self):
        """The bytes, as (memoryview, what keeps them alive)."""
        return self._view, self._buffer

    def views(self):
        """As Storage.views()."""
        return iter([self._view])

    def buffer(self):
        """A PickleBuffer of the bytes. It must not be one of the memoryview: if both are in a cycle (as a traceback makes one), Python's
        garbage collector crashes, before 3.12.7 and 3.13 (https://github.com/python/cpython/issues/77894)."""
        return self._buffer


class Pieces:
    """The buffer callback of a pickler: large buffers become pieces, others stay in the pickle."""

    def __init__(self):
        self.items = []
        self.copies = {}  # address of a contiguous copy made for the pickle -> (the original's place and owner, the copy)

    def __call__(self, buffer):
        numpy = sys.modules.get("numpy")
        if numpy is None:
            return True
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous: its own reducer puts it into the pickle
            return True
        if raw.nbytes < IN_BAND:
            return True
        address = numpy.frombuffer(raw, dtype=numpy.uint8).__array_interface__["data"][0]
        source = self.copies.get(address)
        self.items.append(Piece((address, raw.nbytes), raw, buffer) if source is None else Piece((source[0], raw.nbytes), raw, buffer, source[1]))
        return False


@functools.lru_cache(maxsize=4096)
def code_globals(code):
    """({name: None}, {name: None}, {name}): the globals that a code object and those nested in it read, and assign, in order, and the
    top-level modules that they import."""
    reads, writes, imports = {}, {}, set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"):
            reads[step.argval] = None
        elif step.opname == "STORE_GLOBAL":
            writes[step.argval] = None
        elif step.opname == "IMPORT_NAME":
            imports.add(step.argval.partition(".")[0])
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            inner_reads, inner_writes, inner_imports = code_globals(const)
            reads.update(inner_reads)
            writes.update(inner_writes)
            imports |= inner_imports
    reads.update(by_name.names_of(code, reads))
    return reads, writes, imports


def code_attributes(code):
    """The set of all names in a code object and those nested in it."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= code_attributes(const)
    return names


def imported_submodules(package, names):
    """Full names of the package's imported submodules that can be reached through attributes with these names."""
    found, left = [], [package]
    while left:
        parent = left.pop()
        for name in sorted(names):
            full = parent + "." + name
            if full in sys.modules and full not in found:
                found.append(full)
                left.append(full)
    return found


def is_package(value):
    """Is the value a module that can have submodules?"""
    try:
        return is_a(value, types.ModuleType) and hasattr(value, "__path__")
    except Exception:  # noqa: BLE001 - the user's class may raise anything
        return False


def is_of(value, packages):
    """Is it a function or class of one of these top-level modules, or an instance of such a class?"""
    try:
        module = getattr(value, "__module__", None)
        return isinstance(module, str) and module.split(".")[0] in packages
    except Exception:  # noqa: BLE001 - the user's class may raise anything
        return False


def is_code(value):
    """Is the value a function, class or module?"""
    try:
        return isinstance(value, (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)) or (
            callable(value) and isinstance(getattr(value, "__wrapped__", None), types.FunctionType)
        )
    except Exception:  # noqa: BLE001 - the user's class may raise anything
        return False


def module_of(namespace):
    """The name of the importable module whose globals these are, or None."""
    name = namespace.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is None or name in ("__main__", "__mp_main__") or not is_importable(module):
        return None
    return name if getattr(module, "__dict__", None) is namespace else None


def is_importable(module):
    """Can another process import this module by its name? Not if it was only put into sys.modules."""
    if sys.modules.get(module.__name__) is not module:
        return False
    if module.__name__ in sys.builtin_module_names or module.__name__ == "__main__":
        return True
    return getattr(module, "__spec__", None) is not None or getattr(module, "__file__", None) is not None


def annotations_of(function):
    """A function's annotations; none if they use a name that does not exist yet."""
    try:
        return function.__annotations__
    except NameError:
        return {}


class Found:
    """What a Pickler finds in a value. At first: nothing, as in a number."""

    def __init__(self):
        self.pieces, self.storages = Pieces(), tensors.Storages()
        self.reads, self.writes, self.arrays, self.grads, self.named = {}, {}, {}, [], []
        self.imports, self.by_value = set(), []


class Pickler(cloudpickle.Pickler, Found):
    """Pickles for cellspan. After dump(): .pieces, .storages, .reads, .writes, .imports, .named, .by_value, .arrays, .grads.

    user_ns: the namespace whose functions are the notebook's own. submodules: {package: full names} to import with it.
    reads: {global name: qualified name of the function that reads it}, for functions of the namespace, which may lack the name.
    writes: the global names that these functions assign. imports: the top-level modules that they import. named: the classes of which only
    the names are in the pickle. by_value: those, and functions of modules, that are in it as a whole. grads: empty (see GradPickler).
    arrays: {address: is it still alive?, a function} of arrays and storages, to see which values share memory.
    """

    SUBMODULES = True

    def __init__(self, chunks, user_ns, submodules=None):
        Found.__init__(self)
        cloudpickle.Pickler.__init__(self, chunks, protocol=5, buffer_callback=self.pieces)
        self._user_ns = user_ns
        self._submodules = submodules or {}
        self._sources = {}
        self._tensor = tensors.tensor_type()
        self._array = getattr(sys.modules.get("numpy"), "ndarray", None)
        self._memmap, self._files = getattr(sys.modules.get("numpy"), "memmap", None), arrays.Files()
        self._delta_table = getattr(sys.modules.get("deltalake"), "DeltaTable", None)
        self._index, self._labels = getattr(sys.modules.get("pandas"), "Index", None), set()  # ids of arrays that nobody changes in place
        shell = sys.modules.get("IPython.core.interactiveshell")
        self._shell = getattr(shell, "InteractiveShell", ())
        self._limit, self._copied = chunks.limit, 0  # bytes
        self._rules, self._in_place = {}, {}  # {class: its rule_of()}; {id of an object: what is sent in its place}

    def reducer_override(self, obj):
        kind = type(obj)
        if kind is self._tensor:
            return self._reduce_tensor(obj)
        if kind is self._array:
            return self._reduce_array(obj)
        if kind is self._memmap:
            reduced = self._files.reduce(obj)
            if reduced[0] is arrays.make_content:
                self._note_array(obj)
            return reduced
        own = _own.get(kind)
        if own is not None:
            return own(self, obj)
        if kind is self._delta_table:
            return rebuild.make_delta_table, (obj.table_uri, obj.version(), obj._storage_options)
        rule = self._rules[kind] if kind in self._rules else self._rules.setdefault(kind, by_type.rule_of(kind))
        if self._array is not None and issubclass(kind, self._array):
            self._note_array(obj)
        elif self._index is not None and issubclass(kind, self._index):
            self._labels |= arrays.labels_in(obj)
        if rule is not None and (reduced := rule(obj)) is not NotImplemented:
            return reduced
        if obj is sys.stdout or obj is sys.stderr:
            return getattr, (sys, "stdout" if obj is sys.stdout else "stderr")
        if getattr(kind, "__module__", None) == "mpi4py.MPI" and isinstance(reduced := obj.__reduce__(), str):  # COMM_WORLD: pickle may not find its module
            return getattr, (sys.modules["mpi4py.MPI"], reduced)
        if self._shell and isinstance(obj, self._shell):
            raise pickle.PicklingError("IPython's shell can't be sent; call get_ipython() on the rank")
        if kind is type and obj.__module__ == "_ctypes":  # cloudpickle would give it an id, as if it were the notebook's
            return foreign.reduce_metaclass(obj)
        is_own_enum = issubclass(kind, enum.EnumMeta) and enums.is_enum(obj) and not cloudpickle.cloudpickle._should_pickle_by_reference(obj)
        reduced = enums.reduced(obj) if is_own_enum else super().reducer_override(obj)
        if reduced is NotImplemented:
            if isinstance(obj, type):
                self.named.append(obj)
        elif isinstance(obj, type) and isinstance(reduced, tuple) and len(reduced) == 6:
            self.by_value.append(obj)
            args, state = _reduce_class(obj, reduced)
            rebuild.pickled_here.add(obj)
            return rebuild.make_class, args, state, None, None, rebuild.set_class
        return reduced

    def _reduce_tensor(self, tensor):
        reduced = tensors.reduce_tensor(tensor, self.storages)
        if reduced is NotImplemented:
            return tensors.reduce_odd(tensor)
        if reduced[1][0] is not None:
            storage = self.storages.items[reduced[1][0]]
            if storage.key not in self.arrays:
                self.arrays[storage.key] = tensors.aliveness(storage.storage)
        return reduced

    def _note_array(self, array):
        """Notes an array that is not small. Is it one? A class of the user's may have an `nbytes` of its own. Labels and
        texts of pandas, and so arrays of Python objects, are not noted: tables share them that have nothing else in common."""
        if self._array.nbytes.__get__(array) < IN_BAND:
            return False
        if not self._array.dtype.__get__(array).hasobject and id(array) not in self._labels:
            self.arrays[id(array)] = weakref.ref(array)
        return True

    def _reduce_array(self, array):
        flags, is_large = array.flags.num, self._note_array(array)
        is_writable, has_objects = flags & arrays.WRITEABLE, array.dtype.hasobject
        is_outside = is_large and not has_objects
        if is_writable and not is_outside:
            return NotImplemented if has_objects else arrays.reduce_small(array)
        if flags & arrays.CONTIGUOUS:
            return NotImplemented if is_writable else arrays.reduce_readonly(array)
        if is_large and (overlapping := arrays.reduce_overlapping(array)):
            return overlapping
        if has_objects:
            return arrays.reduce_readonly(array)
        self._copied += array.nbytes
        if self._limit is not None and self._copied > self._limit + SLACK:  # before memory is used for the copy
            raise Overflow(self._copied)
        copy = array.copy(order="C")
        copy.flags.writeable = bool(is_writable)
        place = "copy", array.__array_interface__["data"][0], array.shape, array.strides, array.itemsize
        if is_outside:
            self.pieces.copies[copy.__array_interface__["data"][0]] = place, arrays.owner_of(array), copy
        return arrays.reduce_readonly(copy)

    def _reduce_function(self, function):
        if function.__globals__ is rebuild.__dict__:  # of each pickle of a function; cloudpickle would look for its module
            return NotImplemented
        mine = function.__globals__ is self._user_ns
        module = None if mine else module_of(function.__globals__)
        if not mine and (module is None or super().reducer_override(function) is NotImplemented):
            return super().reducer_override(function)
        imports = []
        if mine:
            imports = self._note_reads(function)
        else:
            self.by_value.append(function)
            self._in_place.update(caches.of_dispatch(function) if function.__globals__ is functools.__dict__ else ())
        slots = {
            "__name__": function.__name__,
            "__qualname__": function.__qualname__,
            "__module__": function.__module__,
            "__doc__": function.__doc__,
            "__defaults__": function.__defaults__,
            "__kwdefaults__": function.__kwdefaults__,
            "__annotations__": annotations_of(function),
        }
        if getattr(function, "__type_params__", ()):
            slots["__type_params__"] = function.__type_params__
        state = (dict(function.__dict__), slots, imports)
        args = (function.__code__, function.__closure__, module, self._source(function.__code__.co_filename))
        return rebuild.make_function, args, state, None, None, rebuild.set_function

    def _reduce_code(self, code):
        """With the name of its file, from which errors and breakpoints tell the cell. cloudpickle 3.1.3 leaves it out."""
        _, args = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
        return rebuild.make_code, tuple(code.co_filename if isinstance(arg, str) and arg == NO_FILE else arg for arg in args)

    def _source(self, filename):
        """The source of a cell; the same object for each function of the cell, so that its text is in the pickle once."""
        if filename not in self._sources:
            self._sources[filename] = sources.source_of(filename)
        return self._sources[filename]

    def _note_reads(self, function):
        imports, mentioned = [], None
        reads, writes, names = code_globals(function.__code__)
        self.writes.update(writes)
        self.imports |= names
        for name in reads:
            self.reads.setdefault(name, function.__qualname__)
            if name not in self._user_ns:
                continue
            value = self._user_ns[name]
            if is_a(value, types.ModuleType) and vars(value) is self._user_ns:
                self.reads.update((read, function.__qualname__) for read in by_name.names_by_module(function.__code__) if read not in self.reads)
            elif self.SUBMODULES and is_package(value):
                mentioned = mentioned or code_attributes(function.__code__)
                imports += imported_submodules(value.__name__, mentioned)
        return imports

    def _reduce_cell(self, cell):
        try:
            value = cell.cell_contents
        except ValueError:
            return rebuild.make_cell, ()
        return rebuild.make_cell, (), (self._in_place.get(id(cell), value),), None, None, rebuild.set_cell

    def _reduce_module(self, module):
        if not is_importable(module):
            return NotImplemented if sys.modules.get(module.__name__) is not module else self._by_value(module)
        return rebuild.make_module, (module.__name__, tuple(sorted(self._submodules.get(module.__name__, ()))))

    def _by_value(self, module):
        state = {k: v for k, v in module.__dict__.items() if k not in ("__builtins__", "__loader__", "__spec__")}
        return types.ModuleType, (module.__name__,), state, None, None, rebuild.fill_module

    def _reduce_cached(self, cached):
        """With what the user has set of it. Its other attributes are those of the function in it."""
        inner = getattr(cached, "__wrapped__", None)
        if inner is None or _found_by_name(cached):
            return NotImplemented
        left_out = ("__wrapped__", "cache_parameters")  # functools sets these itself
        state = {name: value for name, value in cached.__dict__.items() if name not in left_out and not _is_same_of(inner, name, value)}
        return rebuild.make_cached, (inner, cached.cache_parameters()), state or None, None, None, rebuild.set_cached

    def _reduce_cached_property(self, prop):
        return rebuild.make_cached_property, (prop.func, prop.attrname, prop.__doc__)

    def _reduce_partial(self, partial):
        """Without the empty __dict__ that it gets when somebody looks for one."""
        make, args, (*state, attributes) = partial.__reduce__()
        return make, args, (*state, attributes or None)

    def _reduce_ref(self, ref):
        if ref.__callback__ is not None:
            return NotImplemented
        target = ref()
        return rebuild.make_ref, (() if target is None else (target,))

    def _reduce_memoryview(self, view):
        """With its shape and format, and writable if it is. cloudpickle makes bytes of it, whose items are other ones."""
        if view.format.lstrip("@") not in MEMORY_FORMATS:
            raise pickle.PicklingError(f"a memoryview of the format {view.format!r} can't be sent; send what it views")
        data = view.tobytes()
        return rebuild.make_memoryview, (data if view.readonly else bytearray(data), view.format, view.shape)

    def _reduce_weak_set(self, weak):
        return rebuild.make_weak_set, (list(weak),)

    def _reduce_weak_dict(self, weak):
        return rebuild.make_weak_dict, (type(weak), dict(() if id(weak) in self._in_place else weak))

    def _reduce_file(self, file):
        for name in ("stdout", "stderr"):
            if file is getattr(sys, name) or file is getattr(sys, f"__{name}__"):
                return getattr, (sys, name)
        raise TypeError("cannot pickle an open file" + (f" ({file.name})" if isinstance(file.name, str) else ""))

    def _reduce_coroutine(self, coroutine):
        raise TypeError(f"cannot pickle the coroutine of {coroutine.__qualname__}(), which has no value yet: send what await, or asyncio.run(), makes of it")

    def _reduce_new_type(self, new):
        return (typing.NewType, (new.__name__, new.__supertype__)) if new.__module__ == "__main__" else NotImplemented

    def _reduce_param_spec(self, spec):
        return (type(spec), (spec.__name__,)) if spec.__module__ == "__main__" else NotImplemented


def _reduce_class(cls, reduced):
    """(arguments, state) of a class that cloudpickle has reduced so."""
    _, args, (attributes, *_), *_ = reduced
    if enums.is_enum(cls):
        return (rebuild.make_enum, *enums.arguments(cls, args[5])), (_attributes(cls, attributes), cls.__qualname__, enums.state(cls))
    return (rebuild.make_plain, *_with_slots(cls, args)), (_attributes(cls, attributes), cls.__qualname__, None)


def _attributes(cls, found):
    """The attributes of a class that cloudpickle has found, and plain values that it has left out because a base has the same object: whether
    it is the same depends on how often the classes were loaded. Without __module__, which the empty class has already, and what
    Python adds by itself."""
    every = {**{name: value for name, value in cls.__dict__.items() if type(value) is str or type(value) in PLAIN}, **found}
    if enums.is_enum(cls):
        every.update((name, cls.__dict__[name]) for name in ("_generate_next_value_",) if name in cls.__dict__)
        every = {name: every[name] for name in enums.own_names(cls, every)}
    names = sorted(every.keys() - caches.of_class(every), key=lambda name: (name == "_fields_", name))  # ctypes lays a structure out when it gets these
    return {name: every[name] for name in names if not foreign.is_field(every[name])}


def _with_slots(cls, args):
    """cloudpickle's arguments for an empty class, also with its __slots__, which it can't get later."""
    slots = cls.__dict__.get("__slots__")
    named = typing.NamedTuple in cls.__dict__.get("__orig_bases__", ())  # it sets them itself, and refuses others
    if not isinstance(slots, (str, tuple, list, dict)) or named:
        return args
    return (*args[:3], {**args[3], "__slots__": slots}, *args[4:])


class GradPickler(Pickler):
    """For comparisons within one process. Also collects the gradients of the tensors, which are not pickled: .grads. Leaves out which
    submodules a function needs, since that depends on what was imported until then."""

    SUBMODULES = False

    def reducer_override(self, obj):
        if self._tensor is not None and issubclass(type(obj), self._tensor) and obj.is_leaf and obj.grad is not None:
            self.grads.append(obj.grad)
        return super().reducer_override(obj)


def is_by_name(value):
    """Is it a function or a class whose pickle holds its name alone, as its module has it now? Such a value can't be changed in place. But
    once the module was loaded again, another object has that name, and the old one would be pickled in another way."""
    try:
        return isinstance(value, (types.FunctionType, type)) and _found_by_name(value)
    except Exception:  # noqa: BLE001 - in place of a module, sys.modules may have anything
        return False


def ref_by_name(value):
    """A weak reference to it if is_by_name(), else None."""
    return weakref.ref(value) if is_by_name(value) else None


def name_in_module(obj):
    """By which name another process finds a class or function in a module, or found it before the module was loaded again; "": it does not.
    What a decorator has made of it, or a class that extends it, has the name, but is no other version of it."""
    is_class = isinstance(obj, type)
    if not is_class and type(obj) is not types.FunctionType:
        return ""
    module = sys.modules.get(getattr(obj, "__module__", None) or "")
    if module is None or module.__name__ in ("__main__", "builtins") or not is_importable(module):
        return ""
    try:
        now = functools.reduce(getattr, obj.__qualname__.split("."), module)
        same = now is obj or (_is_version_of_class if is_class else _is_version_of_function)(obj, now, module)
    except Exception:  # noqa: BLE001 - in place of a module, sys.modules may have anything
        return ""
    return f"{module.__name__}.{obj.__qualname__}" if same else ""


def _is_version_of_function(obj, now, module):
    if type(now) is not types.FunctionType or obj.__globals__ is not module.__dict__ or hasattr(obj, "__wrapped__") or hasattr(now, "__wrapped__"):
        return False
    return all(getattr(obj.__code__, name) == getattr(now.__code__, name) for name in ("co_name", "co_freevars"))


def _is_version_of_class(obj, now, _):
    if not isinstance(now, type) or rebuild.is_received(obj):
        return False
    named = [[(cls.__module__, cls.__qualname__) for cls in one.__mro__].count((obj.__module__, obj.__qualname__)) for one in (obj, now)]
    return named[0] == named[1]  # else one of them extends the other, or another version of it


def _is_same_of(function, name, value):
    """Has the function the same attribute, which a wrapper of it gets by itself?"""
    try:
        return getattr(function, name) is value
    except Exception:  # noqa: BLE001 - an object of the user's that can be called
        return False


def _found_by_name(obj):
    """Can another process find obj by its module and qualified name?"""
    module = sys.modules.get(getattr(obj, "__module__", None) or "")
    if module is None or module.__name__ == "__main__" or not is_importable(module):
        return False
    try:
        return functools.reduce(getattr, obj.__qualname__.split("."), module) is obj
    except AttributeError:
        return False


_own = {
    types.FunctionType: Pickler._reduce_function,
    types.CodeType: Pickler._reduce_code,
    types.CellType: Pickler._reduce_cell,
    types.ModuleType: Pickler._reduce_module,
    io.TextIOWrapper: Pickler._reduce_file,
    types.CoroutineType: Pickler._reduce_coroutine,
    functools._lru_cache_wrapper: Pickler._reduce_cached,
    functools.cached_property: Pickler._reduce_cached_property,
    functools.partial: Pickler._reduce_partial,
    memoryview: Pickler._reduce_memoryview,
    weakref.ref: Pickler._reduce_ref,
    weakref.WeakKeyDictionary: Pickler._reduce_weak_dict,
    weakref.WeakSet: Pickler._reduce_weak_set,
    weakref.WeakValueDictionary: Pickler._reduce_weak_dict,
}
if isinstance(typing.NewType, type):
    _own[typing.NewType] = Pickler._reduce_new_type
for _name in ("ParamSpec", "TypeVarTuple"):
    if hasattr(typing, _name):
        _own[getattr(typing, _name)] = Pickler._reduce_param_spec


class Pickled:
    """A pickled object: bytes and pieces. size: the total in bytes; reads, writes, imports, arrays, grads, named, by_value: as in Pickler.

    make: the class of the pickler.
    """

    def __init__(self, obj, user_ns=None, limit=None, submodules=None, chunks=None, make=Pickler):
        self.chunks = Chunks(limit) if chunks is None else chunks
        if type(obj) in PLAIN or (type(obj) is str and len(obj) <= PLAIN_TEXT_MAX):
            pickler = Found()
            self.chunks.write(pickle.dumps(obj, protocol=5))
        else:
            pickler = make(self.chunks, rebuild.main_namespace() if user_ns is None else user_ns, submodules)
            pickler.dump(obj)
        self.grads, self.arrays = pickler.grads, pickler.arrays
        self.pieces, self.storages = pickler.pieces.items, pickler.storages.items
        self.reads, self.writes, self.imports = pickler.reads, pickler.writes, pickler.imports
        self.named, self.by_value = pickler.named, pickler.by_value
        self.keep = pickler.pieces.copies
        self.size = self.chunks.size + sum(p.nbytes for p in self.pieces) + sum(s.span()[1] for s in self.storages)
