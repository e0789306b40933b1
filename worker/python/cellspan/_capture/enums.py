# SPDX-License-Identifier: BSD-3-Clause
"""Enums of the notebook. cloudpickle makes them anew from their members' values, and so calls no `__init__` or `__new__` of the user's with
what the members were made of, and it loses names of other members.

Here a member is sent as what it is: its value, what its data type (str, int, a date) needs, and its attributes. The receiver lets Python's
own enum machinery make the class, without any of the user's code. Then the class is filled, as any class, and each member gets its
value, its content and its attributes, which may hold members. Everywhere else a member is sent as its class and its name.
"""

from __future__ import annotations

import contextlib
import copyreg
import enum
import inspect
import pathlib
import pickle
import types

from . import only_read

# What Python makes from the members; 3.10 to 3.14 have different ones. (The masks of a flag's bits are sent: 3.11.2 finds some of them in the
# class's body, which has no numbers here.)
OF_PYTHON = frozenset(
    "_member_names_ _member_map_ _member_type_ _value2member_map_ _unhashable_values_ _unhashable_values_map_ _hashable_values_ _inverted_ "
    "_boundary_ _value_repr_".split()
)
OF_MAKING = ("__new__", "__init__", "__new_member__", "_new_member_", "_use_args_")  # what makes members, in a class's own names
OF_MEMBER = frozenset(("_value_", "_name_", "__objclass__", "_sort_order_", "__dict__", "_inverted_"))
OF_PATH = {"_str", "_hash", "_pparts", "_cached_cparts"}  # what a path keeps of what it has computed
if hasattr(pathlib.PurePath, "_raw_paths"):  # since Python 3.12, the other slots follow from this one
    OF_PATH = {name for kind in pathlib.Path.__mro__ for name in vars(kind).get("__slots__", ()) if name != "_raw_paths"}
FILLED = (list, dict, set, bytearray)  # data types whose objects get their content from __init__


def is_enum(cls):
    return isinstance(cls, enum.EnumMeta) and issubclass(cls, enum.Enum)


def arguments(cls, number):
    """The arguments of make_enum(): of each member only what makes it. The rest, which may hold the members, is in state()."""
    members, base = [], _base(cls)
    for name, member in cls._member_map_.items():
        value = member._value_ if issubclass(cls, enum.Flag) else None
        members.append((name, value, *_data(member, base)[:2]) if member._name_ == name else (name, member._name_))
    parts = cls.__module__, getattr(cls, "_boundary_", None), members, list(cls._member_names_)
    return type(cls), cls.__name__, cls.__bases__, parts, number, None


def state(cls):
    """({name: (value, content, attributes)} of the members, [_others()])."""
    slots, base, members = slots_of(cls), _base(cls), {}
    for name, member in cls._member_map_.items():
        if member._name_ == name:
            members[name] = member._value_, _data(member, base)[2], _attributes(member, slots)
    return members, list(_others(cls))


def names_in(state):
    """{name of a member: names of its attributes}."""
    return {name: frozenset(own) for name, (_, _, own) in state[0].items() if own}


def _base(cls):
    """The class of C that makes the members and their content."""
    return next(each for each in cls._member_type_.__mro__ if _is_made_by(each))


def _others(cls):
    """(value, a member's name, is it an alias?) of values that the user has given a member, too: by _add_value_alias_() of Python 3.13, which
    makes an alias, or in _value2member_map_."""
    aliases = cls.__dict__.get("_hashable_values_", ())
    for value, member in cls._value2member_map_.items():
        if _is_other(cls, value, member) and not _is_of_python(cls, value):
            yield value, member._name_, value in aliases
    for name, values in cls.__dict__.get("_unhashable_values_map_", {}).items():
        yield from ((value, name, True) for value in values if name in cls._member_map_ and _is_other(cls, value, cls._member_map_[name]))


def _is_of_python(cls, value):
    """Is it a number of a flag that Python itself has noted?"""
    return issubclass(cls, enum.Flag) and isinstance(value, int) and value < 0


def _is_other(cls, value, member):
    """Has the user given a member this value, too?"""
    return cls._member_map_.get(member._name_) is member and not _is_equal(member._value_, value)


def _is_equal(one, other, unknown=False):
    """unknown: the answer for arrays, which say this of each element."""
    try:
        return one is other or bool(one == other)
    except Exception:  # noqa: BLE001 - the code of their class
        return unknown


def _data(member, base):
    """(_base(), the arguments with which it makes such an object, its content: (arguments of __init__, items of a list, pairs of a dict), or
    None if the object can't have another one)."""
    kind = type(member)
    if base is object:
        return base, (), None
    if base in FILLED:
        return base, (), ((base(member),), (), ())
    if hasattr(base, "__getnewargs__"):
        return base, base.__getnewargs__(member), None
    make, args, state, items, pairs = (*base.__reduce_ex__(member, 2), None, None, None)[:5]
    if make is copyreg.__newobj__ and args[0] is kind:
        make, args = kind, args[1:]
    if make is not kind or not _is_of_attributes(state):
        raise pickle.PicklingError(f"the enum {kind.__name__} can't be sent: its members are of the class {base.__name__}; send their values")
    return base, args, (args, list(items or ()), list(pairs or ())) if hasattr(base, "clear") else None


def _is_made_by(kind):
    """Does this class, one of C, make objects or their content?"""
    kinds = types.BuiltinFunctionType, types.WrapperDescriptorType
    return any(isinstance(kind.__dict__.get(name), kinds) for name in ("__new__", "__init__"))


def _is_of_attributes(state):
    """Are these only the attributes of an object, which state() has?"""
    return all(part is None or isinstance(part, dict) for part in (state if isinstance(state, tuple) and len(state) == 2 else (state,)))


def reduced(cls):
    """As cloudpickle reduces a class, which asks an enum's members for their names and values: a member may have others."""
    from cloudpickle import cloudpickle

    number = cloudpickle._get_or_create_tracker_id(cls)
    return None, (None, None, None, None, None, number, None), cloudpickle._class_getstate(cls), None, None, None


def own_names(cls, names):
    """Those of a class's own names that are sent: not its members and what Python makes of them."""
    return [name for name in names if name not in OF_PYTHON and name not in cls._member_map_]


def _attributes(member, slots):
    found, read = {**vars(member), **in_slots(member, slots)}, only_read.names_of(member, surely=False)  # who has only read has changed nothing
    left_out = OF_MEMBER if not isinstance(member, pathlib.PurePath) else OF_MEMBER | OF_PATH
    return {name: value for name, value in sorted(found.items()) if name not in left_out and name not in read}


def in_slots(obj, slots=None):
    """{name: value} of the attributes that an object has by the `__slots__` of its classes. slots: slots_of() its class, if it is known."""
    found = {}
    for slot in slots_of(type(obj)) if slots is None else slots:
        with contextlib.suppress(AttributeError):  # one that is not set
            found[slot] = object.__getattribute__(obj, slot)
    return found


def slots_of(kind):
    """The names in `__slots__` of a class, as they are known to the object. Asked for each object, and classes may change."""
    order = [vars(base) for base in kind.__mro__]
    every = [name for names in order if "__slots__" in names for name, value in names.items() if isinstance(value, types.MemberDescriptorType)]
    return {name for name in every if isinstance(next(names[name] for names in order if name in names), types.MemberDescriptorType)}


def reduce_member(member):
    """A member of an enum that is sent as a whole: its class and its name. One of a module's enum, or a flag's sum, is sent as its value."""
    from .reducers import name_in_module

    kind = type(member)
    if kind._member_map_.get(member._name_) is not member or name_in_module(kind) or getattr(kind.__reduce_ex__, "__module__", None) != "enum":
        return NotImplemented
    return member_of, (kind, member._name_)


RULES = {("enum", "Enum"): reduce_member}

def may_note_values(cls):
    """Has it a `_missing_` of the user's? That may note which member it gives for a value."""
    return getattr(getattr(cls._missing_, "__func__", None), "__module__", None) != "enum"


def noted(reduced):
    """The values of _others() in the reduction of an enum, other than aliases."""
    return [value for value, _, is_alias in reduced[2][2][1] if not is_alias]


def without_noted(reduced, values):
    """The reduction of an enum without these of its _others()."""
    make, args, (attributes, name, (members, others)), *more = reduced
    return (make, args, (attributes, name, (members, [row for row in others if row[2] or row[0] not in values])), *more)


# ---- the side that loads ------------------------------------------------------------------------------------------


def member_of(cls, name):
    return cls._member_map_[name]


def set_attributes(member, attributes, came):
    """Sets attributes of a member, and deletes those that came with an earlier state of it and are not among them. came: their names."""
    slots = slots_of(type(member))
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
        base = self.base
        made = base.__new__(cls, *self.args)
        if base is not object and "__init__" in base.__dict__:
            base.__init__(made, *self.args)
        # The body of a flag needs its number. Others get their values later: here, members of equal values would become one.
        made._value_ = self if self.value is None else self.value
        return made


def make_enum(native, metaclass, name, bases, parts):
    """An enum with its members, which set_state() fills. native: rebuild.native() of the metaclass."""
    module, boundary, members, names = parts
    options = {} if boundary is None or not any(issubclass(base, enum.Flag) for base in bases) else {"boundary": boundary}
    body, made = native("__prepare__")(name, bases), {}
    body["__module__"] = module
    if members:
        body["__new__"] = lambda cls, part: (part[0] if isinstance(part, tuple) else part).make(cls)
        body["__init__"] = lambda self, part: None
    for member, *rest in sorted(members, key=_is_alias):  # an __init__ may give a member an alias that comes before it
        made[member] = body[member] = made[rest[0]] if len(rest) == 1 else _Part(*rest)
    cls = native("__new__")(metaclass, name, bases, body, **options)
    for own in OF_MAKING if members else ():
        if own != "__new__" and own in cls.__dict__:  # Python puts its own in place of that one
            type.__delattr__(cls, own)
    if getattr(cls.__dict__.get("__reduce_ex__"), "__name__", "") == "_break_on_call_reduce":  # Python 3.9 and 3.10, because of our __new__
        type.__setattr__(cls, "__reduce_ex__", enum.Enum.__reduce_ex__)
        type.__setattr__(cls, "__module__", module)
    _put_in_order(cls, members, names)
    return cls


def _is_alias(row):
    return len(row) == 2


def _put_in_order(cls, members, names):
    """The order of __members__ is that of the sender, and so are the names of those members that the class lists."""
    order = {name: None for name, *_ in members}
    if list(cls._member_map_) != list(order):
        found = dict(cls._member_map_)
        cls._member_map_.clear()
        cls._member_map_.update((name, found[name]) for name in [*order, *(name for name in found if name not in order)])
    cls._member_names_[:] = [*names, *(name for name in cls._member_names_ if name not in order)]


def add_members(cls, parts):
    """Adds the members and aliases to an enum that the sender has added since it sent the class before."""
    new = [row for row in parts[2] if row[0] not in cls._member_map_]
    for name, *rest in sorted(new, key=_is_alias):
        if len(rest) == 1:
            member = cls._member_map_[rest[0]]
        else:
            member = _Part(*rest).make(cls)
            vars(member).update(_name_=name, __objclass__=cls, _sort_order_=len(cls._member_names_))
        cls._member_map_[name] = member
        if not isinstance(inspect.getattr_static(cls, name, None), types.DynamicClassAttribute):
            type.__setattr__(cls, name, member)
    _put_in_order(cls, parts[2], parts[3])


def set_state(cls, state, came):
    """Gives the members of an enum their values, content and attributes. came: names_in() their last state."""
    members, others = state
    base = _base(cls)
    for name, (value, content, attributes) in members.items():
        member = cls._member_map_[name]
        if content is not None:
            args, items, pairs = content
            base.clear(member)
            base.__init__(member, *args)
            if items:
                base.extend(member, items)
            for key, one in pairs:
                base.__setitem__(member, key, one)
        vars(member)["_value_"] = value
        set_attributes(member, attributes, came.get(name, ()))
    note_values(cls, others)


def note_values(cls, others):
    """Notes anew which values give which member; sums of flags stay. others: of _others(). Done once more when the bundle is loaded: a value that
    holds a member may get its content later, and have no hash until then, or another one."""
    members = {name: member for name, member in cls._member_map_.items() if member._name_ == name}
    noted = cls._value2member_map_
    kept = {value: member for value, member in noted.items() if members.get(member._name_) is not member or _is_of_python(cls, value)}
    noted.clear()
    noted.update(kept)
    for name in ("_hashable_values_", "_unhashable_values_", "_unhashable_values_map_"):
        cls.__dict__.get(name, []).clear()
    for member in members.values():
        _note_value(cls, member, member._value_)
    for value, name, is_alias in others:
        if is_alias:
            _note_value(cls, cls._member_map_[name], value)
        else:
            with contextlib.suppress(Exception):
                noted[value] = cls._member_map_[name]


def _note_value(cls, member, value):
    """Notes a value of a member, as Python does. The first member that has it keeps it."""
    try:
        if value not in cls._value2member_map_:
            cls._value2member_map_[value] = member
            cls.__dict__.get("_hashable_values_", []).append(value)
    except TypeError:
        for values in (cls.__dict__.get("_unhashable_values_", []), cls.__dict__.get("_unhashable_values_map_", {}).setdefault(member._name_, [])):
            values.append(value)
    except Exception:  # noqa: BLE001, S110 - the user's code makes the hash of a value that is not complete yet
        pass
