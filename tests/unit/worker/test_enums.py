# SPDX-License-Identifier: BSD-3-Clause
"""Enums of the notebook, and functions with a cache: another process has the same members, aliases, values and attributes."""

import os
import pickle
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cellspan._capture import enums, origins, reducers, vars_bundle  # noqa: E402


# What defines the enum E and a member e of it; what is printed at home and elsewhere, which must be the same
ENUMS = {
    "__init__": ("class E(enum.Enum):\n    A = (1, 2)\n    B = (3, 4)\n    def __init__(self, m, r):\n        self.m, self.r = m, r\n    def sum(self):\n"
                 "        return self.m + self.r\ne = E.B", "e.m, e.sum(), e.value, E((1, 2)) is E.A"),
    "__new__ of text": ("class E(str, enum.Enum):\n    A = ('a', 1)\n    B = ('b', 2)\n    def __new__(cls, v, n):\n        o = str.__new__(cls, v)\n"
                        "        o._value_, o.n = v, n\n        return o\ne = E.B", "e == 'b', E('a') is E.A, e.n, e.upper()"),
    "text": ("class E(str, enum.Enum):\n    A = 'a'\n    title = 'b'\ne = E.A", "e == 'a', e.upper(), E('b').name, isinstance(e, str)"),
    "aliases": ("class E(enum.Enum):\n    A = 1\n    ALSO = 1\n    B = 2\ne = E.ALSO", "E['ALSO'] is E.A, list(E.__members__), [m.name for m in E]"),
    "IntFlag": ("class E(enum.IntFlag):\n    R = 1\n    W = 2\n    RW = 3\ne = E.R | E.W", "e is E.RW, int(e), E.R in e, [m.name for m in E], list(E.__members__), int(~E.R)"),
    "Flag": ("class E(enum.Flag):\n    R = enum.auto()\n    W = enum.auto()\n    X = enum.auto()\n    RW = R | W\ne = E.R | E.X", "e == E.R | E.X, E.RW.name, e.value, E.W in e"),
    "flags of three bits": ("class E(enum.IntFlag):\n    R = 1\n    W = 2\n    X = 4\ne = E.R", "int(~E.R), E(-1), int(E.R ^ E(-1))"),
    "strict flags": ("class E(enum.Flag, **({'boundary': enum.STRICT} if hasattr(enum, 'STRICT') else {})):\n    R = 1\n    W = 2\n    X = 4\ne = E.R | E.W", "~e, E.X in e"),
    "a deque": ("import collections\nclass E(collections.deque, enum.Enum):\n    A = [1, 2, 3], 2\ne = E.A", "list(e), e.maxlen, e.value"),
    "a dict in order": ("import collections\nclass E(collections.OrderedDict, enum.Enum):\n    A = {'b': 1, 'a': 2}\ne = E.A", "list(e.items()), len(e)"),
    "a dict with a default": ("import collections\nclass E(collections.defaultdict, enum.Enum):\n    A = int,\ne = E.A", "e.default_factory, len(e)"),
    "a text's class": ("class S(str):\n    pass\nclass E(S, enum.Enum):\n    A = 'a'\ne = E.A", "__import__('copy').deepcopy([e])[0] is e, E.__module__, type(e.__reduce_ex__(2)[0]).__name__"),
    "its own name": ("class E(enum.Enum):\n    A = 1\n    @property\n    def name(self):\n        return 'A'\n    @property\n    def value(self):\n        return 2\ne = E.A", "e.value, E(1) is e"),
    "an alias before its member": ("class E(enum.Enum):\n    A = 1\n    B = 2\n    def __init__(self, v):\n        if hasattr(self, '_add_alias_'):\n            self._add_alias_(f'AN{v}')\ne = E.B",
                                   "list(E.__members__), list(E)"),
    "values of aliases": ("class E(enum.Enum):\n    A = 1\n    B = 2\n    def __init__(self, v):\n        for value in (f'v{v}', [v]) if hasattr(self, '_add_value_alias_') else ():\n"
                          "            self._add_value_alias_(value)\ne = E.B", "(E('v1'), 'v1' in E, E([2]), [2] in E) if hasattr(e, '_add_value_alias_') else 0"),
    "an abstract one": ("import abc\nclass Meta(abc.ABCMeta, enum.EnumMeta):\n    pass\nclass Base(enum.Enum, metaclass=Meta):\n    @abc.abstractmethod\n    def f(self): ...\n"
                        "class E(Base):\n    A = 1\n    def f(self):\n        return 5\ne = E.A", "e.f(), E.A.f(), type(E).__name__, isinstance(3, E.__base__)"),
    "what it has computed": ("import functools\nclass E(enum.Enum):\n    A = 1\n    @functools.cached_property\n    def twice(self):\n        return self.value * 2\ne = E.A", "e.twice"),
    "functions": ("def f(x):\n    return x\nclass E(enum.Enum):\n    A = '+', f\n    B = '-', lambda x: -x\n    def __init__(self, sign, fn):\n        self.sign, self.fn = sign, fn\n"
                  "    @classmethod\n    def of(cls, sign):\n        return next(one for one in cls if one.sign == sign)\ne = E.B", "E.of('-') is e, e.fn(3), E.A.fn(4)"),
    "a dataclass": ("@dataclasses.dataclass\nclass M:\n    a: int\n    b: str\nclass E(M, enum.Enum):\n    A = 1, 'x'\n    B = 2, 'y'\n    __reduce_ex__ = enum.Enum.__reduce_ex__\n"
                    "e = E.B", "e.a, e.b, e.value"),
    "a date": ("class E(datetime.date, enum.Enum):\n    A = 2020, 1, 2\n    B = 2021, 1, 3\ne = E.B", "e.year, str(e.value), E.A < E.B"),
    "a dict": ("class E(dict, enum.Enum):\n    A = {'a': 1}\ne = E.A", "e['a'], e.value"),
    "a tuple": ("class E(tuple, enum.Enum):\n    A = 1, 2\ne = E.A", "e[1], e.value, E((1, 2)) is e"),
    "a dataclass with slots": ("@dataclasses.dataclass(slots=True)\nclass M:\n    a: float\n    b: str = 'b'\nclass E(M, enum.Enum):\n    A = 1.5\n    B = 2, 'y'\ne = E.B",
                               "e.a, e.b, e.value, E.A.a"),
    "slots": ("class S:\n    __slots__ = ('x', '__hidden', 'not_set')\n    def __init__(self, x):\n        self.x, self.__hidden = x, -x\n    def hidden(self):\n        return self.__hidden\n"
              "class E(S, enum.Enum):\n    A = 1\n    B = 2\n    def __init__(self, x):\n        super().__init__(x)\n        self.more = 3\ne = E.B",
              "e.x, e.hidden(), e.more, hasattr(e, 'not_set'), E.A.x"),
    "an address": ("import ipaddress\nE = enum.Enum('E', {'A': '1.2.3.4', 'B': '5.6.7.8'}, type=ipaddress.IPv4Address)\ne = E.B", "str(e.value), int(e), e.is_private"),
    "two values": ("class E(enum.Enum):\n    A = 1, 'one'\n    def __new__(cls, n, word):\n        o = object.__new__(cls)\n        o._value_ = n\n        cls._value2member_map_[word] = o\n"
                   "        return o\ne = E.A", "E('one') is e, E(1) is e"),
    "a base": ("class Base(enum.Enum):\n    def __init__(self, v):\n        self.b = v\nclass E(Base):\n    A = 1\n    def __init__(self, v):\n        super().__init__(v)\n        self.w = v + 1\n"
               "e = E.A", "e.b, e.w"),
    "its own values": ("class Auto(enum.Enum):\n    def _generate_next_value_(name, start, count, last):\n        return name.lower()\nclass E(Auto):\n    A = enum.auto()\ne = E.A",
                       "e.value, enum.Enum.__new__ is Auto.__new__, Auto._generate_next_value_('Q', 1, 1, [])"),
    "set later": ("class E(enum.Enum):\n    A = 1\nE.A.extra = {'n': [E.A]}\ne = E.A", "e.extra['n'][0] is e"),
    "by a function": ("E = enum.Enum('E', 'A B')\ne = E.B", "[m.name for m in E], e.value"),
    "effects": ("made = []\nclass Meta(enum.EnumMeta):\n    def __new__(kind, name, bases, body, **more):\n        made.append(name)\n        return super().__new__(kind, name, bases, body)\n"
                "class E(enum.Enum, metaclass=Meta):\n    A = 1\n    def __init__(self, v):\n        made.append(v)\ne = E.A", "made"),
}


@pytest.mark.parametrize("what", ENUMS)
def test_members_are_the_same_elsewhere(nb, what):
    make, look = ENUMS[what]
    nb.run("import dataclasses, datetime, enum\n" + make)
    print_it = f"print((e is E[e.name] if e.name in E.__members__ else e == E(e.value), {look}))"
    names = [name for name in ("E", "e", "Auto", "made") if name in nb.ns]
    nb.run("import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as _said:\n    " + print_it)
    wanted = nb.ns["_said"].getvalue().strip()
    assert wanted.startswith("(True, ")
    assert nb.elsewhere(" ".join(names), "import enum\n" + print_it) == wanted


def test_a_member_is_the_same_when_it_is_sent_alone_and_again(nb):
    nb.run("import enum\nclass E(enum.Enum):\n    A = 1\n    def __init__(self, v):\n        self.n = 0\nkept, other = {E.A: 1}, [E.A]")
    fd, size = nb.pack("kept")
    nb.run("E.A.n = 5\nE.A.new = 6")
    again, more = nb.pack("other")
    try:
        code = ("import os, sys\nfirst = next(iter(kept))\nfrom cellspan._capture import vars_bundle\n"
                f"second = vars_bundle.unpack({again}, {more})['other'][0]\nprint(first is second, first.n, first.new, kept[second])")
        assert load(fd, size, again, code) == "True 5 6 1"
    finally:
        os.close(again)


def load(fd, size, other, code):
    import subprocess

    from notebook import LOADER

    done = subprocess.run([sys.executable, "-c", LOADER, str(fd), str(size), code], pass_fds=[fd, other], capture_output=True, text=True, timeout=120)
    os.close(fd)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


STEPS = """
import dataclasses, enum
@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    more: dict = dataclasses.field(default_factory=dict, compare=False)
class Named:
    def __init__(self, name):
        self.name = name
    def __hash__(self):
        return hash(getattr(self, "name", 0))
    def __eq__(self, other):
        return self.name == getattr(other, "name", 0)
class E(enum.Enum):
    A = Step("a")
    B = Step("b")
    C = Named("c")
    D = ["d"]
E.A.value.more["next"], E.C.value.next = E.B, E.C
E.D.value.append(E.A)
"""


@pytest.mark.parametrize("first", ["E.A.value", "E.C.value", "E.D.value", "E", "E.D"])
def test_a_value_with_a_hash_of_its_own_holds_members(nb, first):
    nb.run(STEPS + f"first, value, named = {first}, E.A.value, E.C.value")
    look = "print(E(value) is E.A, E(type(value)('b')) is E.B, value.more['next'], E(type(named)('c')) is E.C, E(['d', E.A]) is E.D, E.A.value is value, named.next)"
    assert nb.elsewhere("first E value named", look) == "True True E.B True True True E.C"
    assert nb.elsewhere("first", "print(len(str(first)) > 2)") == "True"


@pytest.mark.parametrize("what", ENUMS)
def test_a_rank_that_only_reads_members_has_not_changed_them(nb, what):
    make, look = ENUMS[what]
    nb.run("import dataclasses, datetime, enum\n" + make)
    ns = {name: nb.ns[name] for name in ("E", "e")}
    of = origins.Origins(nb.ns)
    fd, size = vars_bundle.pack(dict(ns), nb.ns)
    of.came(list(ns), fd, size)
    os.close(fd)
    nb.run(f"({look}, e.name, list(E))")
    assert of.changed(list(ns)) == dict.fromkeys(ns, "same")


def test_the_bits_of_a_flag_are_those_of_the_sender(nb):
    nb.run("import enum\nclass E(enum.Flag):\n    R = 1\n    W = 2\n    X = 4")
    masks = {"_flag_mask_", "_singles_mask_", "_all_bits_"} & vars(nb.ns["E"]).keys()
    assert masks <= set(enums.own_names(nb.ns["E"], vars(nb.ns["E"]))), "3.11.2 finds them in a class's body, which has no numbers elsewhere"


def test_members_whose_content_can_not_be_sent_are_refused(nb):
    nb.run("import enum, functools\nclass E(functools.partial, enum.Enum):\n    A = max, 3")
    with pytest.raises(pickle.PicklingError, match="the enum E can't be sent: its members are of the class partial; send their values"):
        reducers.Pickled(nb.ns["E"], nb.ns)


def test_a_member_that_was_added_later_is_there_elsewhere(nb):
    nb.run("import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\nx, y = [E], [E]")
    fd, size = nb.pack("x")
    nb.run("new = object.__new__(E)\nnew._value_, new._name_, new.__objclass__, new.tag = 3, 'C', E, 't'\nE._member_map_.update(C=new, ALSO=E.A)\nE._member_names_.append('C')\n"
           "E._value2member_map_[3] = new\ntype.__setattr__(E, 'C', new)\ntype.__setattr__(E, 'ALSO', E.A)")
    again, more = nb.pack("y")
    code = (f"A = x[0].A\nfrom cellspan._capture import vars_bundle\nE = vars_bundle.unpack({again}, {more})['y'][0]\n"
            "print(E is x[0], E.A is A, list(E), E(3) is E.C, E.C.tag, E.ALSO is A, list(E.__members__))")
    try:
        assert load(fd, size, again, code) == "True True [<E.A: 1>, <E.B: 2>, <E.C: 3>] True t True ['A', 'B', 'C', 'ALSO']"
    finally:
        os.close(again)


LATER = {
    "a value": ("class E(enum.Enum):\n    A = 1\n    B = 2", "E._value2member_map_['x'] = E.A", "E('x'), list(E)"),
    "a value that was another's": ("class E(enum.Enum):\n    A = 1\n    B = 2\nE._value2member_map_['x'] = E.A", "E._value2member_map_['x'] = E.B", "E('x')"),
    "aliases by value": ("class E(enum.Enum):\n    A = 1\n    B = 2", "if ALIASES:\n    E.A._add_value_alias_('x')\n    E.B._add_value_alias_([1])",
                         "(E('x'), E([1]), 'x' in E) if ALIASES else 0"),
    "a name beside aliases": ("class E(enum.Enum):\n    A = 1\n    B = 2\nif ALIASES:\n    E.B._add_value_alias_([1])", "if ALIASES:\n    E.A._add_alias_('Q')",
                              "(E.Q, E([1]), E._unhashable_values_map_) if ALIASES else 0"),
    "flags": ("class E(enum.IntFlag):\n    A = 1\n    B = 2", "add('C', 4)\nadd('AB', 3)\nadd('NONE', 0)", "list(E), len(E), list(E.__members__), E.C, E(3), E(7)"),
    "a member's dict": ("class E(enum.Enum):\n    A = {'lr': .1}\n    B = {'lr': .2}", "E.A.value['lr'] = .5", "E.A.value, E({'lr': .5}), E({'lr': .2})"),
    "two members that become equal": ("class E(enum.Enum):\n    A = {'lr': .1}\n    B = {'lr': .2}", "E.B.value['lr'] = .1", "list(E), E.B.value, list(E.__members__)"),
    "two numbers that become equal": ("class E(enum.Enum):\n    A = 1\n    B = 2", "E.B._value_ = 1", "list(E), E.B.value, E(1), E(2)"),
    "a member's list": ("class E(enum.Enum):\n    A = [1]\n    B = 2", "E.A.value.append(5)", "E.A.value, E([1, 5]), E(2)"),
    "a member's dataclass": ("import dataclasses\n@dataclasses.dataclass\nclass D:\n    x: int\nclass E(enum.Enum):\n    A = D(1)", "E.A.value.x = 7", "E.A.value.x, E(E.A.value)"),
    "a member's array": ("import numpy\nclass E(enum.Enum):\n    A = numpy.arange(3)", "E.A.value[0] = 7", "E.A.value.sum(), list(E.__members__)"),
    "a member that is a dict": ("class E(dict, enum.Enum):\n    A = {'a': 1}", "E.A['b'] = 2\ndel E.A['a']\nE.A.value['c'] = 3", "dict(E.A), E.A.value, E({'a': 1, 'c': 3})"),
    "a member that is a list": ("class E(list, enum.Enum):\n    A = [1, 2]", "E.A[:] = [3]", "list(E.A), E.A.value"),
    "a member that is a deque": ("import collections\nclass E(collections.deque, enum.Enum):\n    A = [1, 2, 3], 2", "E.A.append(4)", "list(E.A), E.A.maxlen, E.A.value"),
    "a member that is a dict in order": ("import collections\nclass E(collections.OrderedDict, enum.Enum):\n    A = {'b': 1, 'a': 2}", "E.A.move_to_end('b')\nE.A['c'] = 1", "list(E.A.items())"),
    "a member that is an object of the user's": ("class Box:\n    def __init__(self, v):\n        self.v = v\nclass E(Box, enum.Enum):\n    A = 1", "E.A.v = 5", "E.A.v, E(E.A.value) is E.A"),
    "members that hold members": ("class E(dict, enum.Enum):\n    A = {'next': None}\n    B = {}\nE.A.value['next'] = E.B", "E.A['next'], E.B.value['back'], E.B['all'] = E.B, E.A, E",
                                  "E.A['next'] is E.B, E.A.value['next'] is E.B, E.B.value['back'] is E.A, E.B['all'] is E"),
    "another value": ("class E(enum.Enum):\n    A = 1\n    B = 2\n    ALSO = 1", "E.A._value_ = 5", "E.A.value, E(1), E(2), E.ALSO"),
    "another value with a __setattr__": ("class E(enum.Enum):\n    A = 1\n    B = 2\n    def __setattr__(self, name, value):\n        if hasattr(self, '_sort_order_') or hasattr(self, 'fixed'):\n"
                                          "            raise TypeError('fixed')\n        super().__setattr__(name, value)", "vars(E.A)['_value_'] = 5", "E.A.value"),
    "a flag's sum": ("class E(enum.Flag):\n    A = 1\n    B = 2\nE.A | E.B", "E.A.tag = 1", "E.A | E.B, (E.A | E.B) is (E.A | E.B), E.A.tag, E(3)"),
    "a value beside an array": ("import numpy\nclass E(enum.Enum):\n    A = numpy.arange(3)\n    B = 2", "E._value2member_map_['a'] = E.A", "E('a').value.sum()"),
}
ADD = """
import enum
ALIASES = hasattr(enum.Enum, '_add_value_alias_')
def add(name, value):
    new = int.__new__(E, value)
    new._value_, new._name_, new.__objclass__, new._sort_order_, new._inverted_ = value, name, E, len(E._member_names_), None
    E._member_map_[name] = E._value2member_map_[value] = new
    if value and not value & (value - 1):
        E._member_names_.append(name)
    for mask in ('_flag_mask_', '_all_bits_', '_singles_mask_'):
        if mask in vars(E):
            type.__setattr__(E, mask, getattr(E, mask) | value)
    type.__setattr__(E, name, new)
"""


@pytest.mark.parametrize("what", LATER)
def test_what_an_enum_gets_later_is_there_elsewhere(nb, what):
    make, then, look = LATER[what]
    nb.run(f"{ADD}{make}\nx, y, z = [E], [E], [E]")
    fd, size = nb.pack("x")
    nb.run(then)
    again, more = nb.pack("y", "z")
    nb.run(f"E = y[0]\nwanted = str(({look},))")
    code = (f"{ADD}\nfrom cellspan._capture import vars_bundle\nfor _ in range(2):\n    E = vars_bundle.unpack({again}, {more})['y'][0]\n"
            f"assert E is x[0]\nprint(({look},))")
    try:
        assert load(fd, size, again, code) == nb.ns["wanted"]
    finally:
        os.close(again)


# -- functions with a cache

CACHED = {
    "an attribute": ("@functools.lru_cache(maxsize=3)\ndef f(x):\n    'doc'\n    return x\nf.tag = ['t']", "f(2), f.tag, f.__doc__, f.cache_parameters(), f.__name__"),
    "itself as an attribute": ("@functools.cache\ndef f(x):\n    return x\nf.me = f", "f.me is f, f(1)"),
    "a method": ("class C:\n    @functools.lru_cache\n    def f(self, x):\n        return x\n    f.tag = 5\nf = C().f", "f(2), f.tag"),
    "a builtin": ("f = functools.lru_cache(len)", "f('ab')"),
    "a function of a module": ("import os.path\nf = functools.lru_cache(os.path.basename)", "f('a/b')"),
    "a class": ("@functools.lru_cache\nclass f:\n    def __init__(self, a):\n        self.a = a\nf.tag = 4", "f(1).a, f.tag, f(1) is f(1)"),
    "a partial": ("def g(a, b):\n    return a + b\nf = functools.lru_cache(functools.partial(g, 1))", "f(2)"),
}


@pytest.mark.parametrize("what", CACHED)
def test_a_function_with_a_cache_keeps_its_attributes(nb, what):
    make, look = CACHED[what]
    nb.run("import functools\n" + make)
    nb.run(f"wanted = str(({look},))")
    assert nb.elsewhere("f", f"print(({look},))") == nb.ns["wanted"]


def test_what_functools_sets_of_a_function_with_a_cache_is_not_sent(nb):
    nb.run("import functools\n@functools.lru_cache(maxsize=3)\ndef f(x):\n    return x")
    assert reducers.Pickled(nb.ns["f"], nb.ns).by_value == []


# -- classes that a metaclass or a later line has changed

METACLASSES = {
    "a list of classes": ("made = []\nclass Meta(type):\n    def __init__(cls, name, bases, body):\n        super().__init__(name, bases, body)\n        made.append(name)\n"
                          "class A(metaclass=Meta):\n    pass\nclass B(A):\n    pass\nx = B()", "made, type(type(x)) is Meta"),
    "a registry of its own": ("class Meta(type):\n    known, count = {}, 0\n    def __init__(cls, name, bases, body):\n        super().__init__(name, bases, body)\n"
                              "        Meta.known[name] = cls\n        Meta.count += 1\nclass A(metaclass=Meta):\n    pass\nclass B(A):\n    pass\nx = B()",
                              "sorted(Meta.known), Meta.count, Meta.known['B'] is type(x)"),
    "a count in each class": ("import abc\nclass Meta(abc.ABCMeta):\n    def __init__(cls, *parts, **more):\n        super().__init__(*parts)\n        cls.n = getattr(cls, 'n', 0) + 1\n"
                              "class A(metaclass=Meta):\n    pass\nA.register(int)\nclass B(A):\n    pass\nx = B()", "type(x).n, isinstance(3, A), A.n"),
    "one that lets nothing be set": ("class Meta(type):\n    def __setattr__(cls, name, value):\n        raise AttributeError('read only')\nclass A(metaclass=Meta):\n    n = 1\n"
                                     "    def f(self):\n        return 2\nx = A()", "x.n, x.f()"),
    "one with a keyword": ("class Meta(type):\n    def __new__(kind, name, bases, body, key):\n        cls = super().__new__(kind, name, bases, body)\n        cls.key = key\n        return cls\n"
                           "    def __init__(cls, name, bases, body, key):\n        pass\nclass A(metaclass=Meta, key='k'):\n    pass\nx = A()", "x.key"),
}


@pytest.mark.parametrize("what", METACLASSES)
def test_a_metaclass_of_the_notebook_is_not_called_again(nb, what):
    make, look = METACLASSES[what]
    nb.run(make)
    nb.run(f"wanted = str(({look},))")
    names = " ".join(name for name in ("x", "made", "A", "Meta") if name in nb.ns)
    assert nb.elsewhere(names, f"print(({look},))") == nb.ns["wanted"]


def test_a_metaclass_with_two_bases_of_packages_has_what_both_do(nb, tmp_path, monkeypatch):
    (tmp_path / "counting_meta.py").write_text(
        "class Body(dict):\n    made = 0\nclass Meta(type):\n    __prepare__ = classmethod(lambda kind, name, bases: Body())\n"
        "    def __new__(kind, name, bases, body):\n        cls = super().__new__(kind, name, bases, dict(body))\n        type.__setattr__(cls, 'body', type(body).__name__)\n        return cls\n"
        "    def __init__(cls, name, bases, body):\n        super().__init__(name, bases, body)\n        known.append(name)\n    def __setattr__(cls, name, value):\n"
        "        type.__setattr__(cls, name, value)\n        seen.append(name)\nknown, seen = [], []\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    nb.run("import abc, counting_meta\nclass Meta(abc.ABCMeta, counting_meta.Meta):\n    def __init__(cls, *args):\n        super().__init__(*args)\n        cls.own = 1\n"
           "class C(metaclass=Meta):\n    def f(self):\n        return 5\nC.register(int)\nx = C()")
    code = "import counting_meta\nprint(x.f(), type(x).own, type(x).body, isinstance(3, type(x)), counting_meta.known, 'f' in counting_meta.seen)"
    assert nb.elsewhere("x", code) == "5 1 Body True ['C'] True"


BEHIND = {
    "ABCMeta": ("class Singleton(type):\n    def __call__(cls, *args):\n        if '_one' not in vars(cls):\n            cls._one = super().__call__(*args)\n        return cls._one\n"
                "class Meta(abc.ABCMeta, Singleton):\n    pass\nclass Base(metaclass=Meta):\n    @abc.abstractmethod\n    def f(self): ...\n"
                "class C(Base):\n    def f(self):\n        return 1\nx = C()", "x.f(), isinstance(3, C), C() is x, bool(Base.__abstractmethods__)"),
    "EnumMeta": ("class Look(type):\n    def __call__(cls, *args):\n        return super().__call__(*args)\n    def all(cls):\n        return list(cls)\n"
                 "class Meta(enum.EnumMeta, Look):\n    pass\nclass E(enum.Enum, metaclass=Meta):\n    A = 1\n    B = 2\nx = E.B", "x.value, type(x).all(), type(x)(2) is x"),
}


@pytest.mark.parametrize("what", BEHIND)
def test_a_metaclass_of_the_notebook_may_come_behind_one_of_a_package(nb, what):
    make, look = BEHIND[what]
    nb.run(f"import abc, enum\n{make}")
    nb.run(f"wanted = str(({look},))")
    names = " ".join(name for name in ("x", "C", "Base", "E") if name in nb.ns)
    assert nb.elsewhere(names, f"print(({look},))") == nb.ns["wanted"]


def test_an_attribute_that_was_deleted_from_a_class_is_deleted_elsewhere(nb):
    nb.run("import enum\nclass Base:\n    at = 'base'\nclass C(Base):\n    at, n, mine = 'own', 1, 2\n    def f(self):\n        return 1\nclass E(enum.Enum):\n    A = 1\n    text = property(str)\n"
           "E.A.tag = 4\nx, y = [C, E], [C, E]")
    fd, size = nb.pack("x")
    nb.run("del C.at, C.f, C.n, E.A.tag, E.text")
    again, more = nb.pack("y")
    code = ("C, E = x\nC.added = 5\nfrom cellspan._capture import vars_bundle\n"
            f"vars_bundle.unpack({again}, {more})\nprint(C.at, hasattr(C, 'f'), hasattr(C, 'n'), C.mine, C.added, hasattr(E.A, 'tag'), hasattr(E.A, 'text'))")
    try:
        assert load(fd, size, again, code) == "base False False 2 5 False False"
    finally:
        os.close(again)


def test_a_slot_of_a_member_that_was_deleted_is_deleted_elsewhere(nb):
    nb.run("import enum\nclass S:\n    __slots__ = ('a', 'b')\nclass E(S, enum.Enum):\n    A = 1\n    def __init__(self, v):\n        self.a = self.b = v\nx, y = [E], [E]")
    fd, size = nb.pack("x")
    nb.run("del E.A.a\nE.A.b = 5")
    again, more = nb.pack("y")
    try:
        code = f"from cellspan._capture import vars_bundle\nvars_bundle.unpack({again}, {more})\nprint(hasattr(x[0].A, 'a'), x[0].A.b)"
        assert load(fd, size, again, code) == "False 5"
    finally:
        os.close(again)


def test_an_attribute_that_was_deleted_from_a_structure_is_deleted_elsewhere(nb):
    nb.run("import ctypes\nclass S(ctypes.Structure):\n    _fields_ = [('a', ctypes.c_int)]\n    n, tag = 1, 2\nx, y = [S], [S]")
    fd, size = nb.pack("x")
    nb.run("del S.n")
    again, more = nb.pack("y")
    try:
        code = f"from cellspan._capture import vars_bundle\nvars_bundle.unpack({again}, {more})\nprint(hasattr(x[0], 'n'), x[0].tag, x[0](3).a, x[0]._fields_[0][0])"
        assert load(fd, size, again, code) == "False 2 3 a"
    finally:
        os.close(again)


def test_an_attribute_that_becomes_the_same_as_the_bases_is_so_elsewhere(nb):
    nb.run("class Base:\n    at = 1\nclass C(Base):\n    at = 2\nx, y = C(), C()")
    fd, size = nb.pack("x")
    nb.run("C.at = 1")
    again, more = nb.pack("y")
    try:
        assert load(fd, size, again, f"from cellspan._capture import vars_bundle\nvars_bundle.unpack({again}, {more})\ntype(x).__base__.at = 9\nprint(x.at)") == "1"
    finally:
        os.close(again)
