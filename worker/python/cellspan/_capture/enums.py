# SPDX-License-Identifier: BSD-3-Clause
"""Enums of the notebook. cloudpickle makes them anew from their members' values, and so calls no `__init__` or `__new__` of the user's with
what the members were made of, and it loses names of other members.

Here a member is sent as what it is: its value, what its data type (str, int, a date) needs, and its attributes. The receiver lets Python's
own enum machinery make the class, without any of the user's code. Then the class is filled, as any class, and each member gets its
attributes. Everywhere else a member is sent as its class and its name.
"""

from __future__ import annotations

import contextlib
import copyreg
import enum
import inspect
import pickle
import types

# What Python makes from the members; 3.10 to 3.14 have different ones
OF_PYTHON = frozenset(
    "_member_names_ _member_map_ _member_type_ _value2member_map_ _unhashable_values_ _unhashable_values_map_ _hashable_values_ _flag_mask_ "
    "_singles_mask_ _all_bits_ _inverted_ _boundary_ _value_repr_".split()
)
OF_MAKING = ("__new__", "__init__", "__new_member__", "_new_member_", "_use_args_")  # what makes members, in a class's own names
OF_MEMBER = frozenset(("_value_", "_name_", "__objclass__", "_sort_order_", "__dict__", "_inverted_"))
FILLED = (list, dict, set, bytearray)  # data types whose objects get their content from __init__


def is_enum(cls):
    return isinstance(cls, enum.EnumMeta) and issubclass(cls, enum.Enum)


def arguments(cls, number):
    """The arguments of make_enum()."""
    members = []
    for name, member in cls._member_map_.items():
        members.append((name, member._value_, *_data(member)) if member._name_ == name else (name, member._name_))
    kept = {} if issubclass(cls, enum.Flag) else cls._value2member_map_  # Python notes there how it was asked for a flag, as by -2
    others = [(value, member._name_) for value, member in kept.items() if _is_other(cls, value, member)]
    return type(cls), cls.__name__, cls.__bases__, (cls.__module__, getattr(cls, "_boundary_", None), members, others), number, None


def _is_other(cls, value, member):
    """Has the user given a member this value, too?"""
    return cls._member_map_.get(member._name_) is member and not (member._value_ is value or member._value_ == value)


def _data(member):
    """(the class whose `__new__` makes such an object, its arguments)."""
    kind = type(member)
    base = next(each for each in kind._member_type_.__mro__ if isinstance(each.__dict__.get("__new__"), types.BuiltinFunctionType))
    if base is object:
        return base, ()
    if base in FILLED:
        return base, (base(member),)
    if hasattr(base, "__getnewargs__"):
        return base, base.__getnewargs__(member)
    make, args, *_ = base.__reduce_ex__(member, 2)
    if make is kind:
        return base, args
    if make is copyreg.__newobj__ and args[0] is kind:
        return base, args[1:]
    raise pickle.PicklingError(f"the enum {kind.__name__} can't be sent: its members are of the class {base.__name__}; send their values")


def own_names(cls, names):
    """Those of a class's own names that are sent: not its members and what Python makes of them."""
    return [name for name in names if name not in OF_PYTHON and name not in cls._member_map_]


def members_state(cls):
    """{name: {attribute: value}} of what the user, or the data type, has set of each member."""
    return {name: _attributes(member) for name, member in cls._member_map_.items() if member._name_ == name}


def _attributes(member):
    found = dict(vars(member))
    for slot in _slots(type(member)):
        with contextlib.suppress(AttributeError):  # one that is not set
            found[slot] = object.__getattribute__(member, slot)
    return {name: value for name, value in sorted(found.items()) if name not in OF_MEMBER}


def _slots(kind):
    """The names in `__slots__` of a data type, as they are known to the object."""
    every = [name for base in kind.__mro__ if "__slots__" in vars(base) for name, value in vars(base).items() if isinstance(value, types.MemberDescriptorType)]
    return {name for name in every if isinstance(inspect.getattr_static(kind, name), types.MemberDescriptorType)}


def reduce_member(member):
    """A member of an enum that is sent as a whole: its class and its name. One of a module's enum, or a flag's sum, is sent as its value."""
    from .reducers import name_in_module

    kind = type(member)
    if kind._member_map_.get(member._name_) is not member or name_in_module(kind) or getattr(kind.__reduce_ex__, "__module__", None) != "enum":
        return NotImplemented
    return member_of, (kind, member._name_)


RULES = {("enum", "Enum"): reduce_member}

# ---- the side that loads ------------------------------------------------------------------------------------------


def member_of(cls, name):
    return cls._member_map_[name]


def set_attributes(member, attributes, came):
    """Sets attributes of a member, and deletes those that came with an earlier state of it and are not among them. came: their names."""
    slots = _slots(type(member))
    for name in came:
        if name not in attributes:
            if name in slots:
                with contextlib.suppress(AttributeError):
                    object.__delattr__(member, name)
            else:
                vars(member).pop(name, None)
    for name, value in attributes.items():
        if name in slots:
            object.__setattr__(member, name, value)
        else:
            vars(member)[name] = value


class _Part:
    """What stands for a member, or an alias of one, in the body of a class, until Python makes it."""

    def __init__(self, value, base, args):
        self.value, self.base, self.args = value, base, args

    def make(self, cls):
        made = self.base.__new__(cls) if self.base in FILLED else self.base.__new__(cls, *self.args)
        if self.base in FILLED:
            self.base.__init__(made, *self.args)
        made._value_ = self.value
        return made


def make_enum(native, metaclass, name, bases, parts):
    """An enum with its members, which have no attributes yet. native: the class of metaclass that makes it, as of rebuild.native_of()."""
    module, boundary, members, others = parts
    options = {} if boundary is None or not any(issubclass(base, enum.Flag) for base in bases) else {"boundary": boundary}
    body, made = native.__prepare__(name, bases), {}
    body["__module__"] = module
    if members:
        body["__new__"] = lambda cls, part: (part[0] if isinstance(part, tuple) else part).make(cls)
        body["__init__"] = lambda self, part: None
    for member, *rest in members:
        made[member] = made[rest[0]] if len(rest) == 1 else _Part(*rest)
        body[member] = made[member]
    cls = native.__new__(metaclass, name, bases, body, **options)
    for own in OF_MAKING if members else ():
        if own != "__new__" and own in cls.__dict__:  # Python puts its own in place of that one
            type.__delattr__(cls, own)
    for value, member in others:
        with contextlib.suppress(TypeError):  # one that has no hash
            cls._value2member_map_.setdefault(value, cls._member_map_[member])
    return cls
