# SPDX-License-Identifier: BSD-3-Clause
"""Values of ctypes: libraries, the types that ctypes makes, and values that hold pointers.

A library is sent as its name: ranks open it themselves. An address of home's process means nothing on a rank.
"""

from __future__ import annotations

import operator
import os
import pickle
import sys

OF_LIBRARY = ("_name", "_handle", "_FuncPtr")  # what ctypes itself sets
OF_FUNCTION = ("argtypes", "restype", "errcheck")  # what the user sets, in this order


def _reduce_array_type(kind):
    """`ctypes.c_int * 3`, which has no name by which another process finds it. A class with a name of its own derives from it."""
    return (operator.mul, (kind._type_, kind._length_)) if kind is kind._type_ * kind._length_ else NotImplemented


def reduce_metaclass(kind):
    """The class of all structures, or of all unions and so on, which the module _ctypes does not have by name."""
    import ctypes

    for one in (ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._SimpleCData, ctypes._Pointer, ctypes._CFuncPtr):
        if type(one) is kind:
            return type, (one,)
    raise pickle.PicklingError(f"the ctypes class {kind.__name__} can't be sent; make it in the distributed cell")


def _reduce_simple_type(kind):
    """The number of a BigEndianStructure, which has the same name as the native one."""
    here, swapped = ("__ctype_le__", "__ctype_be__") if sys.byteorder == "little" else ("__ctype_be__", "__ctype_le__")
    native = getattr(kind, here, kind)
    return (getattr, (native, swapped)) if native is not kind and getattr(native, swapped, None) is kind else NotImplemented


def _reduce_pointer_type(kind):
    """`ctypes.POINTER(ctypes.c_int)`."""
    import ctypes

    target = kind.__dict__.get("_type_")
    return (ctypes.POINTER, (target,)) if target is not None and ctypes.POINTER(target) is kind else NotImplemented


def _reduce_function_type(kind):
    """`ctypes.CFUNCTYPE(...)`."""
    if kind.__module__ != "ctypes" or "<locals>" not in kind.__qualname__:
        return NotImplemented
    if "_argtypes_" not in kind.__dict__:
        raise pickle.PicklingError("the type of a library's functions can't be sent; send the library")
    return make_function_type, (kind._flags_, kind._restype_, kind._argtypes_)


def make_function_type(flags, result, arguments):
    import ctypes

    if flags & ctypes._FUNCFLAG_PYTHONAPI:
        return ctypes.PYFUNCTYPE(result, *arguments)
    return ctypes.CFUNCTYPE(result, *arguments, use_errno=bool(flags & ctypes._FUNCFLAG_USE_ERRNO))


def _reduce_library(library):
    """Its name, and what the user has set of its functions. A call at home changes nothing of that."""
    import ctypes

    kind, own = type(library), vars(library)
    if kind not in (ctypes.CDLL, ctypes.PyDLL):
        raise pickle.PicklingError(f"a ctypes library of the class {kind.__name__} can't be sent; open it in the cell")
    functions, state = {}, {}
    for name, value in own.items():
        if name in OF_LIBRARY:
            continue
        if isinstance(value, ctypes._CFuncPtr) and type(value) is own["_FuncPtr"]:
            settings = tuple(getattr(value, part) for part in OF_FUNCTION)
            if settings != (None, ctypes.c_int, None):
                functions[name] = settings
        else:
            state[name] = value
    name = own["_name"]
    if isinstance(name, str) and "/" in name and os.path.exists(name):
        name = os.path.abspath(name)  # ranks may be in another folder
    return open_library, (kind, name, bool(own["_FuncPtr"]._flags_ & ctypes._FUNCFLAG_USE_ERRNO)), (functions, state), None, None, fill_library


def open_library(kind, name, use_errno):
    return kind(name, use_errno=use_errno)


def fill_library(library, state):
    functions, others = state
    for name, settings in functions.items():
        function = getattr(library, name)
        for part, value in zip(OF_FUNCTION, settings):
            if part != "errcheck" or value is not None:  # which can't be None
                setattr(function, part, value)
    vars(library).update(others)


def is_field(value):
    """Is it the descriptor of a field of a structure? ctypes makes them from `_fields_`."""
    return type(value).__name__ == "CField" and type(value).__module__ in ("_ctypes", "ctypes")


def _reduce_data(value):
    """An object of ctypes. One that holds pointers is refused."""
    import ctypes

    kind = type(value)
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not ctypes.c_int.__reduce__:
        return NotImplemented  # the user's own way
    try:
        return value.__reduce__()
    except ValueError:
        if isinstance(value, ctypes._CFuncPtr):
            raise pickle.PicklingError("a C function of ctypes can't be sent; send its library, or make the function in the cell") from None
        raise pickle.PicklingError(f"a ctypes {kind.__name__} that holds a pointer can't be sent; send the data, and make it in the cell") from None


RULES = {
    ("_ctypes", "PyCArrayType"): _reduce_array_type,
    ("_ctypes", "PyCSimpleType"): _reduce_simple_type,
    ("_ctypes", "PyCPointerType"): _reduce_pointer_type,
    ("_ctypes", "PyCFuncPtrType"): _reduce_function_type,
    ("_ctypes", "_CData"): _reduce_data,
    ("ctypes", "CDLL"): _reduce_library,
}
