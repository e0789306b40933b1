# SPDX-License-Identifier: BSD-3-Clause
"""Values whose classes and functions are the notebook's: what ranks only read is not changed, and classes stay as they are."""

from __future__ import annotations

import pytest
from client import rank_values, values

ITEM = "class Item:\n    n = 0\n"
# What makes x, what ranks do with it, and home's change in place
READ = {
    "a method that names another class": (ITEM + "class Box:\n    def add(self):\n        self.item = Item()\nx = Box(); x.add()", "print(x.item)", "x.n = 1"),
    "a dataclass in a dataclass": ("from dataclasses import dataclass, field\n@dataclass\nclass Lr:\n    lr: float = 0.1\n@dataclass\nclass Run:\n"
                                   "    opt: Lr = field(default_factory=Lr)\n    name: str = 'lr'\nx = Run()", "print(x)", "x.name = 'other'"),
    "an enum": ("import enum\nclass Kind(enum.Enum):\n    A = 1\n    B = 2\nclass Of:\n    def __init__(self):\n        self.kind = Kind.A\n"
                "    def flip(self):\n        return Kind.B\nx = Of()", "x.flip(), x.kind", "x.n = 1"),
    "an enum with __init__": ("import enum\nclass Kind(str, enum.Enum):\n    A = 'a', 1\n    ALSO = 'a', 1\n    def __new__(cls, text, n):\n        o = str.__new__(cls, text)\n"
                             "        o._value_, o.n = text, n\n        return o\nclass Of:\n    def __init__(self):\n        self.kind = Kind.ALSO\nx = Of()",
                             "assert x.kind is Kind.A and x.kind.n == 1 and x.kind.upper() == 'A' and Kind('a') is Kind['ALSO']", "x.n = 1"),
    "a nested class": ("class Out:\n    class Inner:\n        pass\n    def __init__(self):\n        self.parts = [self.Inner(), Out.Inner]\nx = Out()", "print(x.parts)", "x.n = 1"),
    "callbacks": (ITEM + "def hook(o):\n    return Item()\nx = {'hooks': [hook, lambda o: Item()], 'first': Item()}", "[h(1) for h in x['hooks']]", "x['n'] = 1"),
    "a partial": (ITEM + "import functools\ndef make(kind, n):\n    return Item()\nx = [functools.partial(make, Item, n=2), Item()]", "x[0]()", "x.append(1)"),
    "slots": ("class S:\n    __slots__ = ('a', 'b')\n    def __init__(self):\n        self.a, self.b = 1, S\nx = S()", "x.a, x.b", "x.a = 2"),
    "a namedtuple": ("import collections\nPoint = collections.namedtuple('Point', 'x y')\nclass Path:\n    def __init__(self):\n"
                     "        self.x = [Point(1, 2)]\n    def add(self):\n        self.x.append(Point(3, 4))\nx = Path()", "x.x[0].x", "x.add()"),
    "a module of torch": ("import torch\nclass Conf:\n    lr = 0.1\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
                          "        self.conf, self.layer = Conf(), torch.nn.Linear(2, 2)\n    def forward(self, x):\n        return self.layer(x)\nx = Net()",
                          "x(torch.ones(2)).shape", "x.eval()"),
    "dates as an index": ("import pandas as pd\nx = pd.DataFrame({'a': range(5)}, index=pd.date_range('2020', periods=5))",
                          "print(x); x.index.min(); x.index.hour; x.resample('2D').sum()", "x.iloc[0, 0] = 7"),
    "nullable numbers and text": ("import pandas as pd\nx = {1: pd.array([1, 2, None]), 2: pd.Series(['a', None], dtype='string'), 3: pd.Categorical(list('ab'))}",
                                  "print(x); [len(v) for v in x.values() if hasattr(v, 'dtype')]", "x[4] = 1"),
    "views of memory": ("import array\nx = {1: memoryview(bytearray(b'abc')), 2: memoryview(array.array('i', [300, 4]))}", "bytes(x[1]), x[2].tolist()", "x[1][0] = 9"),
    "durations and time zones": ("import pandas as pd\nx = {1: pd.timedelta_range('1h', periods=3), 2: pd.date_range('2020', periods=3, tz='UTC'), "
                                 "3: pd.period_range('2020', periods=3)}", "print(x); [i.min() for i in x.values() if hasattr(i, 'min')]", "x[4] = 1"),
}
CHANGES = [("dict", "x[9] = 9"), ("list", "x.append(9)"), ("__import__('pandas').DataFrame", "x.iloc[1, 0] = 9"), ("object", "x.a = 9")]  # by ranks


@pytest.mark.parametrize("what", READ)
def test_what_ranks_only_read_is_no_conflict(nb, what):
    make, read, change = READ[what]
    nb.ok(make)
    nb.ok("%%distribute -n 2\n" + read)
    nb.ok(change)
    nb.ok("%%distribute -n 2\n" + read)  # home's change is sent
    nb.ok("%pull x -r 0")
    nb.ok("%%distribute -n 2\n" + read)
    nb.ok(change)
    nb.ok("y = [x]")  # the classes go along again
    nb.ok("%%distribute -n 2\ny is None")
    nb.ok(change)
    nb.ok("%%distribute -n 2\nx is None")
    theirs = next(theirs for kind, theirs in CHANGES if values(nb.ok("isinstance(x, %s)" % kind)))
    nb.ok("%%distribute -n 2\n" + theirs)
    nb.ok(theirs.replace("9)", "8)") if theirs[-1] == ")" else theirs[:-1] + "8")
    nb.run("%%distribute -n 2\nx is None").assert_error("VariableConflict")


def test_a_memoryview_stays_one(nb):
    nb.ok("import array, cellspan, numpy as np\nviews = [memoryview(np.arange(6.).reshape(2, 3)), memoryview(array.array('i', [300, 4])), memoryview(b'ab'),\n"
          "         memoryview(np.arange(6)[::2]), memoryview(bytearray(b'xyz'))[1:], memoryview(np.zeros((0, 3), 'f4')), memoryview(np.array(2.5))]\n"
          "def told(views): return [(v.tolist(), v.format, v.readonly, v.itemsize) for v in views]")
    want = values(nb.ok("told(views)"))
    assert rank_values(nb, "told(views)", 2) == [want] * 2
    assert values(nb.ok("told(cellspan.run(lambda given: given, views))")) == want, "there and back"
    nb.ok("%%distribute -n 2\nviews[1][0] = 7\nviews[4][0] = 7\nassert views[0][1, 2] == 5")
    assert values(nb.ok("told(views)")) == want
    cell = nb.run("odd = memoryview(np.zeros(2, 'c16'))\ncellspan.run(len, odd)").assert_error("TypeError")
    assert "a memoryview of the format 'Zd' can't be sent; send what it views" in cell.reply["evalue"], cell.shown


def test_ranks_write_to_the_file_of_a_memmap(nb, tmp_path):
    path = str(tmp_path / "data")
    nb.ok(f"import numpy as np\nm = np.memmap({path!r}, 'f8', 'w+', shape=(1 << 12, 8))\nhalf = m[1 << 11:]")
    nb.ok("%%distribute -n 2\nimport cellspan\nrank = cellspan.rank()\nm[rank] = rank + 1\nhalf[rank] = 10 * rank + 10")
    assert nb.ok("m[:3, 0].tolist(), half[:3, 7].tolist()").value == "([1.0, 2.0, 0.0], [10.0, 20.0, 0.0])"
    nb.ok("m[0] = 7")
    assert rank_values(nb, "float(m[0, 0]), type(m).__name__, half.shape", 2) == [(7.0, "memmap", (2048, 8))] * 2
    nb.ok("%%distribute -n 2 --into back\nm[1:1000]")
    assert nb.ok("type(back).__name__, float(back[0, 0])").value == "('memmap', 2.0)"


MAKES = """
import numpy as np
made = 0
class Makes:
    def __init__(self): self.n = 1.0
    def __getstate__(self):
        global made
        made += 1
        if made % 2: a = np.full(40000, self.n); b = np.full(40000, 2.0)
        else: b = np.full(40000, 2.0); a = np.full(40000, self.n)
        return {"a": a, "b": b}
    def __setstate__(self, state): self.n = float(state["a"][0])
x, y = Makes(), Makes()
"""
UNCHANGED = {
    "a part of a matrix": ("import numpy as np\nx = np.matrix(np.arange(200000.0).reshape(400, 500))[:, ::2]", "x[0, 0]"),
    "arrays that an object makes of itself": (MAKES, "x.n"),
}


@pytest.mark.parametrize("what", UNCHANGED)
def test_what_home_has_not_changed_never_replaces_what_ranks_have(nb, what):
    make, place = UNCHANGED[what]
    nb.ok(make)
    read = "%%distribute -n 2 --gather\nfloat(" + place + ")"
    before = values(nb.ok(read))
    for k in range(3):
        assert values(nb.ok(read)) == before
    nb.ok("%%distribute -n 2\n" + place + " = 7")
    for k in range(3):
        assert values(nb.ok(read)) == [7.0, 7.0], "no conflict, and not home's again"
    nb.ok(place + " = 8")
    nb.run(read).assert_error("VariableConflict")


@pytest.mark.parametrize("then", ["os.unlink(path)", "np.zeros(1 << 12).tofile(path + '.new'); os.replace(path + '.new', path)"])
def test_a_memmap_whose_file_is_gone_is_no_conflict(nb, tmp_path, then):
    path = str(tmp_path / "gone")
    nb.ok(f"import os, numpy as np\npath = {path!r}\nnp.arange(1 << 12, dtype='f8').tofile(path)\nm = np.memmap(path, 'f8', 'r+')\nd = {{'data': m[8:], 'n': 1}}")
    assert rank_values(nb, "float(m[8]), float(d['data'][0]), d['n']", 2) == [(8.0, 8.0, 1)] * 2
    nb.ok(then)
    for n in (1, 2):
        nb.ok(f"d['n'] = {n}")
        assert rank_values(nb, "float(m[8]), float(d['data'][0]), d['n']", 2) == [(8.0, 8.0, n)] * 2


def test_flags_lists_and_abstract_members_are_as_at_home(nb):
    nb.ok("import abc, collections, enum\nclass Meta(abc.ABCMeta, enum.EnumMeta):\n    pass\nclass Base(enum.Enum, metaclass=Meta):\n    @abc.abstractmethod\n    def f(self): ...\n"
          "class E(Base):\n    A = 1\n    def f(self):\n        return 5\nclass Bits(enum.IntFlag):\n    R = 1\n    W = 2\n    X = 4\n"
          "class Last(collections.deque, enum.Enum):\n    A = [1, 2, 3]")
    assert rank_values(nb, "E.A.f(), int(~Bits.R), list(Last.A)", 2) == [(5, 6, [1, 2, 3])] * 2


def test_what_a_weak_reference_leads_to_is_alive_on_ranks(nb):
    nb.ok("import weakref\nclass N:\n    v = 5\nclass H:\n    pass\nn, h = N(), H()\nh.ref, h.by_name, h.all = weakref.ref(n), weakref.WeakValueDictionary({'n': n}), weakref.WeakSet([n])\n"
          "others = weakref.WeakSet([kept := N()])")
    assert rank_values(nb, "h.ref().v, h.by_name['n'] is h.ref(), h.ref() in h.all, [each.v for each in others]", 2) == [(5, True, True, [5])] * 2
    nb.ok("n.v = 6")
    for _ in range(2):
        assert rank_values(nb, "__import__('gc').collect() * 0 + h.ref().v", 2) == [6] * 2
    nb.ok("h.more = 1")
    assert rank_values(nb, "h.ref().v, h.more", 2) == [(6, 1)] * 2, "no conflict"
    nb.ok("%%distribute -n 2\nh.more = 2")
    nb.ok("h.more = 3")
    nb.run("%%distribute -n 2\nh.more").assert_error("VariableConflict")


def test_home_only_looks_at_what_ranks_have_changed(nb):
    nb.ok("import pandas as pd\nx = pd.DataFrame({'a': range(5)}, index=pd.date_range('2020', periods=5))")
    nb.ok("%%distribute -n 2\nx.iloc[0, 0] = 7")
    nb.ok("print(x); x.index.min(); x.index.hour; None")
    assert rank_values(nb, "int(x.iloc[0, 0])", 2) == [7, 7]


SLOTS = """
import cellspan, dataclasses
class S:
    __slots__ = ("a", "b")
    def __init__(self, a=0):
        self.a = a
@dataclasses.dataclass(slots=True)
class D:
    x: int = 1
@dataclasses.dataclass(slots=True, frozen=True)
class F:
    x: int = 1
class T(S):
    __slots__ = ("c", "__dict__")
"""


@pytest.mark.parametrize("make, look", [("S(4)", "(v.a, hasattr(v, 'b'), type(v) is S)"), ("D(4)", "(v, type(v) is D)"), ("F(4)", "(v, type(v) is F)"), ("T(4)", "(v.a, type(v) is T)")])
def test_instances_with_slots_come_home(nb, make, look):
    nb.ok(SLOTS)
    wanted = nb.ok("v = %s\n%s" % (make, look)).value
    nb.ok("%%distribute -n 2 --into v\nmine = " + make + "\nmine")
    assert nb.ok(look).value == wanted
    nb.ok("%pull mine -r 0")
    assert nb.ok("v = mine\n" + look).value == wanted
    assert nb.ok("v = cellspan.run(lambda: %s)\n%s" % (make, look)).value == wanted
    nb.ok("v = " + make)
    assert rank_values(nb, "hasattr(v, '__dict__')", 2) == [values(nb.ok("hasattr(v, '__dict__')"))] * 2


REGISTRY = """
class Base:
    registry = {}
    made = []
    def __init_subclass__(cls, **more):
        Base.registry[cls.__name__] = cls
        Base.made.append(cls)
class One(Base):
    def go(self):
        return 1
class Reg(type):
    all = []
    def __init__(cls, name, bases, ns):
        super().__init__(name, bases, ns)
        type(cls).all.append(cls)
class P(metaclass=Reg):
    pass
o, p = One(), P()
"""
BASES = ["abc.ABC", "typing.Generic[T]", "Slotted", "object", "typing.Protocol"]


@pytest.mark.parametrize("base", BASES)
def test_hooks_of_classes_with_many_kinds_of_bases(nb, base):
    nb.ok("import abc, typing\nT = typing.TypeVar('T')\nclass Slotted:\n    __slots__ = ()\nclass Plugin(%s):\n    made = []\n"
          "    def __init_subclass__(cls, **more):\n        super().__init_subclass__(**more)\n        cls.tag = cls.__name__.lower()\n"
          "        Plugin.made.append(cls.__name__)\nclass One(Plugin):\n    def go(self):\n        return One\nx = One()" % base)
    bases = nb.ok("[c.__name__ for c in One.__mro__]").value
    assert rank_values(nb, "x.tag, x.go() is One, [c.__name__ for c in One.__mro__]", 2) == [("one", True, values(nb.ok(bases)))] * 2
    assert rank_values(nb, "Plugin.made", 2) == [["One"]] * 2
    nb.ok("x.n = 1")
    assert rank_values(nb, "x.n", 2) == [1, 1]
    assert nb.ok("Plugin.made, One.tag").value == "(['One'], 'one')"
    assert nb.ok("%%distribute -n 2\nclass Two(One):\n    pass\nTwo.tag").value == "'two'", "the hook is there for classes of ranks"


@pytest.mark.parametrize("make", ["@dataclasses.dataclass\nclass C:\n    lr: float = 0.1", "class C:\n    'A class.'\n    lr = 0.1\n    def go(self):\n        return C",
                                  "@dataclasses.dataclass(slots=True)\nclass C:\n    lr: float = 0.1\n    n: int = 0"])
def test_a_class_that_ranks_have_made_is_no_conflict(nb, make):
    nb.ok("%%distribute -n 2\nimport dataclasses\n" + make + "\nc = C()")
    nb.ok("%pull c -r 0")
    for k in range(2):
        nb.ok("c.lr = %d" % k)
        assert rank_values(nb, "c.lr", 1) == [k]


REGISTERED = "(Base.registry['One'] is One, Base.registry['One']().go(), len(Base.made), len(Reg.all), Reg.all[0] is P)"


def test_a_class_that_is_there_is_not_made_again(nb):
    nb.ok(REGISTRY)
    for _ in range(2):
        assert rank_values(nb, "mine = o, p\n" + REGISTERED, 2) == [(True, 1, 1, 1, True)] * 2
        nb.ok("%pull mine -r 0")
        assert nb.ok(REGISTERED).value == "(True, 1, 1, 1, True)"
    nb.ok("o.n = 1")
    assert rank_values(nb, "o.n, " + REGISTERED, 2) == [(1, (True, 1, 1, 1, True))] * 2
    nb.ok("class Two(Base):\n    pass\nBase.made.pop(); None")  # a change in place of Base
    assert rank_values(nb, "sorted(Base.registry), Base.registry['Two'] is Two", 2) == [(["One", "Two"], True)] * 2


def test_a_class_whose_making_needs_more_than_its_bases(nb, tmp_path):
    nb.ok("class Keyed:\n    def __init_subclass__(cls, key, **more):\n        cls.key = key\nclass K(Keyed, key='k'):\n    pass\nk = K()")
    assert rank_values(nb, "k.key, K.key, K.__bases__ == (Keyed,), isinstance(k, Keyed)", 2) == [("k", "k", True, True)] * 2
    nb.ok("import abc\nclass Keyed(abc.ABC):\n    def __init_subclass__(cls, key, **more):\n        super().__init_subclass__(**more)\n        cls.key = key\n"
          "class K(Keyed, key='k'):\n    pass\nk = K()")
    assert rank_values(nb, "k.key, K.__bases__ == (Keyed,), isinstance(k, Keyed)", 2) == [("k", True, True)] * 2
    nb.ok("k.n = 1")
    assert rank_values(nb, "k.n", 2) == [1, 1]
    (tmp_path / "plugs.py").write_text("class Keyed:\n    def __init_subclass__(cls, key, **more):\n        cls.key = key\n"
                                       "class Named:\n    def __init_subclass__(cls):\n        if not hasattr(cls, 'name'): raise TypeError('needs name')\n")
    nb.ok("import sys\nsys.path.insert(0, %r)\nimport plugs\nclass K(plugs.Keyed, key='k'):\n    pass\nclass N(plugs.Named):\n    name = 'n'\nk, n = K(), N()" % str(tmp_path))
    assert rank_values(nb, "k.key, n.name, K.__bases__ == (plugs.Keyed,)", 2) == [("k", "n", True)] * 2
    nb.ok("k.n = n.n = 1")
    assert rank_values(nb, "k.n, n.n", 2) == [(1, 1)] * 2
    nb.ok("class Root:\n    kinds = []\n    def __init_subclass__(cls):\n        Root.kinds.append(cls)\nclass Leaf(Root):\n    pass\nleaf = Leaf()")
    assert rank_values(nb, "type(leaf).__name__", 2) == ["Leaf"] * 2


# What makes x and y, which share a class; a change of that class; what ranks read of x, of y; what the change makes of it
SHARED = {
    "an instance and its class": ("class C:\n    at = 1\nx, y = C(), C", "C.at = 3", "x.at", "y.at", 3),
    "a bound method": ("class C:\n    at = 1\n    def get(self):\n        return self.at\nx = C(); y = x.get", "C.at = 3", "x.at", "y()", 3),
    "a configuration class": ("class Cfg:\n    at = 1\ndef y():\n    return Cfg.at\nx = [Cfg]", "Cfg.at = 3", "x[0].at", "y()", 3),
    "a base": ("class Base:\n    at = 1\nclass C(Base):\n    pass\nx, y = C(), Base", "Base.at = 3", "x.at", "y.at", 3),
    "an inner class": ("class C:\n    class In:\n        at = 1\nx, y = C(), [C.In]", "C.In.at = 3", "x.In.at", "y[0].at", 3),
    "a method": ("class C:\n    def at(self):\n        return 1\nx, y = C(), [C()]", "C.at = lambda self: 3", "x.at()", "y[0].at()", 3),
    "an argument of a call": ("import cellspan\nclass C:\n    at = 1\nx, y = C, [C()]", "C.at = 3", "%r", "y[0].at", 3),
}


@pytest.mark.parametrize("what", SHARED)
def test_a_class_that_came_under_one_name_is_in_step_under_all(nb, what):
    make, change, first, second, then = SHARED[what]
    nb.ok(make)
    assert rank_values(nb, "x is None, " + second, 2) == [(False, 1)] * 2

    def read(expression):
        if expression != "%r":
            return rank_values(nb, expression, 2)
        return values(nb.ok("cellspan.run(lambda one: one.at, C(), n=2, gather=True)"))

    nb.ok(change)
    for expression in (first, second, first):
        assert read(expression) == [then] * 2
    nb.ok(change.replace("3", "4"))
    for expression in (second, first):
        assert read(expression) == [4] * 2
    if what != "a method":  # what ranks change is still seen
        nb.ok("%%distribute -n 2\n" + change.replace("3", "9"))
        nb.ok(change.replace("3", "5"))
        nb.run("%%distribute -n 2\n" + second).assert_error("VariableConflict")
        nb.run("%%distribute -n 2\nx is None").assert_error("VariableConflict")


# What makes x and y, which share a class; a deletion in that class; what ranks read of x, of y: whether the attribute is there
DELETED = {
    "of a class": ("class C:\n    at, kept = 1, 2\nx, y = C(), C", "del C.at", "hasattr(x, 'at'), x.kept", "hasattr(y, 'at'), y.kept"),
    "of a base, which one overrides": ("class B:\n    at = 0\nclass C(B):\n    at, kept = 1, 2\nx, y = C(), [C]", "del C.at", "x.at == 1, x.kept", "y[0].at == 1, C.kept"),
    "a method": ("class C:\n    kept = 2\n    def __len__(self):\n        return 1\nx, y = C(), [C()]", "del C.__len__", "hasattr(x, '__len__'), x.kept", "hasattr(y[0], '__len__'), C.kept"),
    "a field of a dataclass": ("import dataclasses\n@dataclasses.dataclass\nclass C:\n    at: int = 1\n    kept: int = 2\nx, y = [C], C", "del C.at", "hasattr(x[0], 'at'), C.kept", "hasattr(y, 'at'), y.kept"),
}


@pytest.mark.parametrize("what", DELETED)
def test_an_attribute_that_a_class_has_no_more_is_gone_on_ranks(nb, what):
    make, change, first, second = DELETED[what]
    nb.ok(make)
    assert rank_values(nb, "x is None, " + second, 2) == [(False, True, 2)] * 2
    nb.ok(change)
    for expression in (first, second):
        assert values(nb.ok(expression)) == (False, 2)
        assert rank_values(nb, expression, 2) == [(False, 2)] * 2
    nb.ok("%%distribute -n 2\nC.mine = 7")
    assert rank_values(nb, first + ", C.mine", 2) == [(False, 2, 7)] * 2, "what ranks have set stays"
    nb.ok("C.other = 1")
    nb.run("%%distribute -n 2\nx is None").assert_error("VariableConflict")


def test_a_metaclass_that_notes_classes_in_a_variable_notes_them_once(nb):
    nb.ok("made = []\nclass Meta(type):\n    def __init__(cls, name, bases, body):\n        super().__init__(name, bases, body)\n        made.append(name)\n"
          "class A(metaclass=Meta):\n    pass\nclass B(A):\n    pass\nx = B()")
    for _ in range(2):
        assert rank_values(nb, "made, type(type(x)).__name__", 2) == [(["A", "B"], "Meta")] * 2
        nb.ok("x.n = 1")
    assert nb.ok("%%distribute -n 2\nclass Own(A):\n    pass\nmade").value == "['A', 'B', 'Own']"


def test_a_class_of_ranks_that_they_change_after_a_pull_stays_so(nb):
    nb.ok("%%distribute -n 2\nclass Mine:\n    at = 1\nmine = Mine()")
    nb.ok("%pull mine -r 0")
    nb.ok("mine.n = 1")
    assert rank_values(nb, "mine.n", 1) == [1]
    nb.ok("%%distribute -n 2\nMine.at = 5")
    nb.ok("mine.n = 2")
    assert rank_values(nb, "mine.n, mine.at, Mine.at, type(mine) is Mine", 1) == [(2, 5, 5, True)]
    nb.ok("type(mine).at, mine.n = 6, 3")
    refused(nb.run("%%distribute -n 1\nmine.n"), "Mine")


def test_a_class_of_a_rank_keeps_what_the_rank_has_done_to_it_since(nb):
    """Also if home sends it back under a name that the rank does not have yet."""
    nb.ok("%%distribute -n 2\nimport enum\nclass Tr:\n    count, made, lr = 0, [], 0.1\n    def __init__(self):\n        Tr.count += 1\n        Tr.made.append(self)\n"
          "class En(enum.Enum):\n    A = [1]\nt = Tr()")
    nb.ok("%pull t En -r 0")
    nb.ok("import copy\nt2, e2 = copy.copy(t), [En.A]\nt2.w = 5")
    nb.ok("%%distribute -n 2\nTr()\nTr.lr = 0.5\nEn.A.value.append(2)\nEn.A.tag = 1")
    look = "t2.w, t2.count, t2.lr, len(t2.made), Tr.lr, t in Tr.made, isinstance(t2, Tr), e2[0].value, En.A.tag, e2[0] is En.A"
    for _ in range(2):
        assert rank_values(nb, look, 2, "-r 0") == [(5, 2, 0.5, 2, 0.5, True, True, [1, 2], 1, True)]
        nb.ok("t2, e2 = copy.copy(t2), [En.A]")


def test_what_home_changes_of_a_class_of_a_rank_reaches_all(nb):
    nb.ok("%%distribute -n 2 -r 0\nclass Kr:\n    lr = 1\nkr = Kr()")
    nb.ok("%pull Kr kr -r 0")
    nb.ok("Kr.lr = 5")
    assert rank_values(nb, "kr.lr, type(kr) is Kr", 2) == [(5, True)] * 2
    nb.ok("Kr.lr = 6")
    nb.ok("%push Kr")
    assert rank_values(nb, "kr.lr, type(kr) is Kr", 2) == [(6, True)] * 2
    nb.ok("%%distribute -r 0\nKr.lr = 7")
    nb.ok("Kr.lr = 8")
    nb.run("%%distribute -r 0\nKr.lr").assert_error("VariableConflict")


def test_a_result_does_not_undo_what_home_has_done_to_a_class_of_a_rank(nb):
    nb.ok("%%distribute -n 2 -r 0\nclass Kr:\n    lr = 1\nkr = Kr()")
    nb.ok("%pull kr -r 0\n")
    nb.ok("Kr = type(kr)\nKr.lr = 5")
    read = "%%distribute -n 2 -r 0 --gather --no-capture\nkr"
    nb.ok(read)
    assert nb.ok("Kr.lr").value == "5"
    nb.ok("%%distribute -n 2 -r 0 --no-capture\nKr.lr = 7")
    assert "cellspan: the class Kr was changed at home and on a rank: home's stays (%pull Kr -r RANK fetches a rank's)" in nb.ok(read).shown
    assert nb.ok("Kr.lr").value == "5"
    refused(nb.run("x = [Kr()]\n") and nb.run("%%distribute -n 2 -r 0\nx"), "Kr")
    nb.ok("%pull kr -r 0")
    assert nb.ok("Kr.lr").value == "7"
    assert rank_values(nb, "x[0].lr, Kr.lr", 1) == [(7, 7)]


def refused(cell, name):
    """Home can tell that it has changed what a function reads by its name."""
    told = cell.assert_error("VariableConflict")
    if "in place at home" in told.shown:
        return
    text = f"the class {name} was changed at home and by this rank since home sent it: `%push {name}` sends home's, `%pull {name} -r RANK` fetches a rank's"
    assert text in told.shown and "File" not in told.shown, told.shown


# A class; what makes an object of it; a change of the class, with 5 in it; what shows this
COMES_ALONG = {
    "an attribute": ("class C:\n    lr = 1", "C()", "C.lr = 5", "{x}.lr"),
    "a counter": ("class C:\n    made = []\n    def __init__(self): self.at = len(C.made)", "C()", "C.made[:] = [5]", "{x}.made"),
    "a method": ("class C:\n    def f(self): return 1", "C()", "C.f = lambda self: 5", "{x}.f()"),
    "an array": ("import numpy\nclass C:\n    w = numpy.ones(100)", "C()", "C.w[3:] = 5", "{x}.w[2:4].tolist()"),
    "a base": ("class B:\n    lr = 1\nclass C(B):\n    pass", "C()", "C.__mro__[1].lr = 5", "{x}.lr"),
    "a dataclass": ("import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int = 1", "C(3)", "C.y = 5", "getattr({x}, 'y', 1)"),
    "an enum": ("import enum\nclass C(enum.Enum):\n    A = [1]\n    def f(self): return getattr(self, 'note', 1)", "[C.A]", "C.A.note = 5", "{x}[0].f()"),
    "a module of torch": ("import torch\nclass C(torch.nn.Linear):\n    lr = 1", "C(2, 2)", "C.lr = 5", "{x}.lr"),
}


@pytest.mark.parametrize("what", COMES_ALONG)
def test_a_class_that_comes_along_loses_nothing_that_ranks_have_done_to_it(nb, what):
    make, one, change, look = COMES_ALONG[what]
    nb.ok(f"import cellspan\n{make}\nx = {one}")
    shows = lambda name: look.replace("{x}", name)  # noqa: E731
    base = "B" if what == "a base" else "C"
    nb.ok(f"%%distribute -n 2\n{base} is None, {shows('x')}", limit=120)
    nb.ok("%%distribute -n 2\n" + change.replace("C.", "type(x)." if what != "an enum" else "type(x[0])."))
    there, here = rank_values(nb, shows("x"), 2)[0], values(nb.ok(shows("x")))
    assert there != here
    nb.ok(f"y = {one}")
    assert rank_values(nb, f"{shows('y')}, {shows('x')}", 2) == [(there, there)] * 2
    assert values(nb.ok(f"cellspan.run(lambda one: {shows('one')}, {one}, n=2, gather=True)")) == [there] * 2
    assert values(nb.ok(shows("x"))) == here, "home's stays"
    nb.ok(change.replace("5", "6") + f"\nz = {one}")
    at_home = values(nb.ok(shows("x")))
    refused(nb.run(f"%%distribute -n 2\n{shows('z')}"), base)
    nb.run(f"cellspan.run(lambda one: {shows('one')}, {one}, n=2)").assert_error("VariableConflict")
    nb.ok(f"%pull {base} -r 0")
    assert values(nb.ok(shows("x"))) == there
    assert rank_values(nb, shows("z"), 2) == [there] * 2
    nb.ok(change.replace("5", "7") + f"\nz = {one}")
    assert rank_values(nb, shows("z"), 2) == [eval(repr(at_home).replace("6", "7"))] * 2
    nb.ok("%%distribute -n 2\n" + change.replace("5", "8"))
    nb.ok(change.replace("5", "9") + f"\nz = {one}")
    nb.ok(f"%push {base}" if what != "a dataclass" else "%push z")
    assert rank_values(nb, shows("z"), 2) == [eval(repr(at_home).replace("6", "9"))] * 2


def test_a_class_of_the_cell_reads_homes_variable_with_two_underscores(nb):
    nb.ok("_A__x, _B__y = 5, 6")
    cell = "%%distribute -n 2\nclass _A:\n    def m(self):\n        return __x\n    class B:\n        y = __y\n_A().m(), _A.B.y"
    assert nb.ok(cell).value == "(5, 6)"
    nb.ok("class A:\n    def m(self):\n        return __x\na = A()")
    assert rank_values(nb, "a.m()", 2) == [5, 5]


# A class C; what makes an object of it; what both ends do then; what shows it; what it must show
ALIKE = {
    "a method that torch replaces": ("import torch\nclass C(torch.optim.Optimizer):\n    def __init__(self, p): super().__init__(p, {})\n    def step(self): return 7",
                                     "C([torch.nn.Parameter(torch.ones(1))])", "", "x.step()", 7),
    "a counter": ("class C:\n    n = 0\n    def __init__(self): C.n += 1", "C()", "", "x.n", 1),
    "a registry": ("class C:\n    made = []\n    def __init_subclass__(cls): C.made.append(cls.__name__)", "C()", "type('Sub', (C,), {})", "C.made", ["Sub"]),
    "an array": ("import numpy\nclass C:\n    w = numpy.ones(100)", "C()", "C.w[0] = 5", "float(C.w[0])", 5.0),
    "a method": ("class C:\n    def step(self): return 1\n    def other(self): return 2", "C()", "C.step = C.other", "x.step()", 2),
    "an enum": ("import enum\nclass C(enum.Enum):\n    A = [1]", "C.A", "C.A.value.append(2)", "x.value", [1, 2]),
}


@pytest.mark.parametrize("what", ALIKE)
def test_what_home_and_ranks_have_done_alike_to_a_class_is_no_conflict(nb, what):
    make, one, change, look, shown = ALIKE[what]
    nb.ok(make)
    nb.ok(f"%%distribute -n 2\nmine = {one}\n{change}\nkept = dict(vars(C))", limit=120)
    nb.ok(f"x = {one}\n{change}")
    assert rank_values(nb, f"{look}, isinstance(x, C), [name for name in kept if vars(C)[name] is not kept[name]]", 2) == [(shown, True, [])] * 2
    nb.ok("C.also = 1")  # home's later state is seen to be later
    assert rank_values(nb, f"C.also, {look}", 2) == [(1, shown)] * 2
    nb.ok("%%distribute -n 2\nC.both = 1")
    nb.ok("C.both = 1")
    assert rank_values(nb, "C.both", 2) == [1, 1]
    nb.ok("del C.both")
    assert rank_values(nb, "hasattr(C, 'both')", 2) == [False, False]
    nb.ok("%%distribute -n 2\nC.mine = 1")
    assert rank_values(nb, "C.mine", 2) == [1, 1]
    nb.ok("C.mine = 2")
    refused(nb.run("%%distribute -n 2\nC.mine"), "C")
    refused(nb.run("%%distribute -n 2\nC.mine"), "C")
    nb.ok("%push C")
    assert rank_values(nb, f"C.mine, {look}", 2) == [(2, shown)] * 2


def test_a_value_that_home_has_changed_leaves_classes_as_ranks_have_them(nb):
    nb.ok("import torch\nclass Net(torch.nn.Linear):\n    n = 0\n    def __init__(self):\n        super().__init__(2, 2)\n        Net.n += 1\n"
          "net = Net()\nopt = torch.optim.SGD(net.parameters(), lr=0.1)")
    look = "net.training, net.n, len(opt.param_groups)"
    assert rank_values(nb, look, 2) == [(True, 1, 1)] * 2
    nb.ok("%%distribute -n 2\nmine = Net()")
    nb.ok("net.eval(); None")  # opt goes along
    assert rank_values(nb, look, 2) == [(False, 2, 1)] * 2
    assert rank_values(nb, "opt.param_groups[0]['params'][0] is net.weight", 2) == [True] * 2
    nb.ok("del net, opt")
    assert rank_values(nb, "'net' in globals()", 2) == [True] * 2, "with del, a class that ranks have changed counts"


def test_arrays_of_a_class_stay_shared_or_are_a_conflict(nb):
    nb.ok("import numpy\nclass C:\n    w = numpy.ones(20000)\npart = {'of': C.w}\nboth = [part, C]")
    assert rank_values(nb, "C.w is part['of'], both is None", 2) == [(True, False)] * 2
    nb.ok("%%distribute -n 2\nC.more = 1")
    nb.ok("part['n'] = 1")
    nb.run("%%distribute -n 2\npart, C.w is part['of']").assert_error("VariableConflict")


def test_a_class_that_is_defined_again_is_no_conflict_of_its_base(nb):
    base = "class A:\n    known = {}\n    def __init_subclass__(cls): A.known[cls.__name__] = cls\n"
    again = "class C(A):\n    at = %d"
    nb.ok(base + again % 1)
    assert rank_values(nb, "C.at, list(A.known)", 2) == [(1, ["C"])] * 2
    nb.ok("%%distribute -n 2\nC.extra = 1")
    nb.ok(again % 2)
    assert rank_values(nb, "C.at, A.known['C'] is C, hasattr(C, 'extra')", 2) == [(2, True, False)] * 2
    nb.ok("%%distribute -n 2\nA.extra = 1")
    nb.ok(again % 3)
    refused(nb.run("%%distribute -n 2\nC.at, A"), "A")


@pytest.mark.parametrize("push, said", [("%push j", ""), ("%%distribute -n 2 --capture j\nj", "--capture replaces j and K on ranks 0-1, which they had changed")])
def test_a_pushed_object_brings_the_class_that_its_method_names(nb, push, said):
    nb.ok("class M:\n    at = 1\nclass K:\n    n = 0\n    def __init__(self): K.n += 1\n    def other(self): return M.at\nj = K()")
    assert rank_values(nb, "j.n, K.n, j.other()", 2) == [(1, 1, 1)] * 2
    nb.ok("%%distribute -n 2\nK.n, M.at = 10, 5")
    nb.ok("K.n, j.x = 7, 1")
    assert said in nb.ok(push).shown
    assert rank_values(nb, "j.x, j.n, K.n, K().n, j.other(), M.at", 2) == [(1, 7, 7, 8, 5, 5)] * 2
    nb.ok("M.at = 6")
    refused(nb.run("%push j"), "M")  # none of its objects' classes
