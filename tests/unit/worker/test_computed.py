# SPDX-License-Identifier: BSD-3-Clause
"""What objects keep of what they have computed is no change of a rank's, if nobody can have assigned another value; else it is one."""

import os
import sys
import tracemalloc
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cellspan._capture import only_read, origins, reducers, vars_bundle  # noqa: E402
from notebook import Notebook  # noqa: E402

MAKES = """
import dataclasses, datetime, enum, functools, numpy
class cached_property:  # as others than functools make it
    def __init__(self, function):
        self.function, self.name = function, function.__name__
    def __get__(self, obj, kind=None):
        if obj is None:
            return self
        made = obj.__dict__[self.name] = self.function(obj)
        return made
class Default:
    def __get__(self, obj, kind=None):
        return 0.1
class Plain:
    rate = Default()
    n = functools.cached_property(lambda self: (numpy.float32(2), datetime.date(2024, 1, 1), None))
    @cached_property
    def other(self):
        return "x"
    net = functools.cached_property(lambda self: [0])
    state = functools.cached_property(lambda self: numpy.zeros(2))
    pair = functools.cached_property(lambda self: (1, [2]))
    mark = functools.cached_property(lambda self: Marked("a"))
    @functools.cached_property
    def hidden(self):
        return 5
class Marked(str):
    pass
class Below(Plain):
    hidden = 7
class Lazy:  # keeps its value as functools.cached_property does, and can be assigned
    def __init__(self, function):
        self.function, self.name = function, function.__name__
    def __get__(self, obj, kind=None):
        return self if obj is None else obj.__dict__.setdefault(self.name, self.function(obj))
    def __set__(self, obj, value):
        obj.__dict__[self.name] = value
class lazy_property(Lazy):
    pass
class Config:
    @lazy_property
    def path(self):
        return "default"
    device = functools.cached_property(lambda self: "cpu")
class Either(enum.Enum):
    A = 1
    @classmethod
    def _missing_(cls, value):
        cls._value2member_map_[value] = cls.A
        return cls.A
class Total(numpy.ndarray):
    total = functools.cached_property(lambda self: float(self.sum()))
    rows = functools.cached_property(lambda self: [numpy.asarray(self)[:2], {1: 2}])
class Slotted:
    __slots__ = ("a", "__dict__", "__weakref__")
    n = functools.cached_property(lambda self: 5)
class Kind(enum.Enum):
    A = 1
    B = [2]
    n = functools.cached_property(lambda self: [self.name])
    mark = functools.cached_property(lambda self: Marked("a"))
@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    n = functools.cached_property(lambda self: self.a + 1)
@functools.singledispatch
def area(x):
    return 0
area.register(numpy.ndarray, lambda x: 1)
class User:
    plain = Plain()
    either = Either.A
"""
OF_TORCH = """
import torch
from torch.distributions import Bernoulli, Categorical, MultivariateNormal
class Fair(Categorical):
    pass
"""
OF_TORCH += """
class Net(torch.nn.Module):
    n = functools.cached_property(lambda self: 5)
    mask = functools.cached_property(lambda self: torch.ones(2))
"""
OF_PANDAS = """
import pandas
class Table:
    frame = functools.cached_property(lambda self: pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
"""
SAME = [
    ("x = Categorical(probs=torch.ones(2))", "x.logits, x.entropy()"),
    ("x = [Bernoulli(0.5)]; x[0].logits", "x[0].logits, x[0].param_shape"),
    ("x = MultivariateNormal(torch.zeros(2), torch.eye(2))", "x.precision_matrix, x.covariance_matrix"),
    ("x = Either", "x(5), x('b')"),
    ("Either(4); x = [Either.A]", "Either(5), Either(4)"),
    ("x = area", "x(1), x(numpy.ones(2)), x('a')"),
    ("x = User", "Either(9), User.either"),
    ("x = Config()", "x.device"),
    ("x = Config()", "x.device; x.device = x.device"),
    ("x = Plain()", "x.n"),
    ("x = Plain()", "x.net"),
    ("x = Plain(); x.net.append(1)", "x.n"),
    ("x = Plain(); x.n", "x.n, x.net, x.hidden"),
    ("x = [Plain(), Below()]; x[0].n", "x[1].n, x[0].net"),
    ("x = Plain(); x.a = x", "x.n, x.state"),
    ("x = User", "x.plain.net"),
    ("x = numpy.ones(3).view(Total)", "x.total"),
    ("x = numpy.ones(3000).view(Total); x.a = 1", "x.total, x.rows"),
    ("x = Slotted()", "x.n"),
    ("x = Slotted(); x.a = 1", "x.n"),
    ("x = Kind", "x.A.n, x.B.n, x.A.mark"),
    ("x = [Kind.A]; Kind.B.n", "x[0].n, Kind.B.mark"),
    ("x = {'k': Frozen(1)}", "x['k'].n"),
    ("x = Net()", "x.mask, x.n"),
    ("x = Table()", "x.frame, x.frame.a.sum()"),
]
CHANGED = [
    ("x = Config()", "x.device = 'cuda'"),
    ("x = Config()", "x.device; x.device = 'cuda'"),
    ("x = Config()", "x.path"),
    ("x = Config()", "x.path = 'mine'"),
    ("x = [Config()]; x[0].device", "x[0].device = 'cuda'"),
    ("x = Plain()", "x.n; x.k = 1"),
    ("x = Plain()", "x.other"),
    ("x = Categorical(probs=torch.ones(2))", "x.logits = torch.zeros(2)"),
    ("x = Categorical(probs=torch.ones(2))", "x.logits[0] = 5"),
    ("x = Categorical(probs=torch.ones(2))", "x.logits = None"),
    ("x = Categorical(probs=torch.ones(2))", "x.logits; x.probs[0] = 0.25"),
    ("x = MultivariateNormal(torch.zeros(2), torch.eye(2))", "x.covariance_matrix = 2 * torch.eye(2)"),
    ("x = Fair(probs=torch.ones(2))", "x.logits"),
    ("x = Plain()", "x.net.append(1)"),
    ("x = Plain()", "x.net = [0, 1]"),
    ("x = Plain(); x.net", "x.net = [0]; x.net.append(1)"),
    ("x = Plain()", "x.state[0] = 1"),
    ("x = numpy.ones(3).view(Total)", "x.total; x[0] = 2"),
    ("x = numpy.ones(3).view(Total)", "x.total = 2"),
    ("x = Kind", "x.A.n = 5"),
    ("x = Kind", "x.A.n; x.A.n = 5"),
    ("x = Kind; Kind.A.n = 5", "Kind.A.n = 6"),
    ("x = Net()", "x.mask[0] = 5"),
    ("x = Net()", "x.mask; x.mask = 5"),
    ("x = Table()", "x.frame.loc[0, 'a'] = 5"),
    ("x = Slotted()", "x.n; x.a = 1"),
    ("x = Plain()", "x.pair[1].append(1)"),
    ("x = Plain()", "x.mark.note = 1"),
    ("x = Plain(); x.n", "x.n = 5"),
    ("x = Plain(); x.n", "del x.n"),
    ("x = Plain()", "x.rate = 0.2"),
    ("x = Below()", "x.hidden = 8"),
    ("x = [Plain(), Below()]; x[0].n", "x[1].n; x.reverse()"),
    ("x = area", "x.register(str, lambda x: 2)"),
    ("x = User", "x.plain.net.append(2)"),
    ("x = Either", "x.A.mark = 1"),
]


@pytest.fixture
def nb():
    notebook = Notebook()
    notebook.run(MAKES)
    yield notebook
    notebook.close()


def said(nb, make, code):
    if any(name in make for name in ("Bernoulli", "Categorical", "Normal", "Fair", "Net(")):
        pytest.importorskip("torch")
        nb.run(OF_TORCH)
    if "Table" in make:
        pytest.importorskip("pandas")
        nb.run(OF_PANDAS)
    nb.run(make)
    of = origins.Origins(nb.ns)
    fd, size = nb.pack("x")
    nb.ns.update(vars_bundle.unpack(fd, size, nb.ns))
    of.came(["x"], fd, size)
    os.close(fd)
    assert of.changed(["x"]) == {"x": "same"}
    nb.run(code)
    return of.changed(["x"])["x"]


@pytest.mark.parametrize("make, code", SAME, ids=[" ".join(row) for row in SAME])
def test_what_was_only_computed_is_no_change(nb, make, code):
    assert said(nb, make, code) == "same"


@pytest.mark.parametrize("make, code", CHANGED, ids=[" ".join(row) for row in CHANGED])
def test_what_may_have_been_changed_since_is_one(nb, make, code):
    of_class = make.startswith(("x = Kind", "x = User", "x = Either"))
    assert said(nb, make, code) == ("changed class" if of_class else "changed")


def test_what_is_computed_is_sent(nb):
    nb.run("x = Plain()\nx.n, x.net.append(1)\narea(1), area(numpy.ones(2))")
    assert nb.elsewhere("x area", "import numpy\nprint(sorted(x.__dict__), x.net, area(3), area(numpy.ones(2)))") == "['n', 'net'] [0, 1] 0 1"


def test_the_functions_that_a_dispatcher_has_found_are_not_sent(nb):
    nb.run("import collections.abc\narea.register(collections.abc.Sized, lambda x: 2)")
    before = reducers.Pickled(nb.ns["area"], nb.ns).chunks.pieces
    nb.run("area('a'), area(1)\nimport abc\nclass Other(abc.ABC): pass\nOther.register(int)\narea('a')")
    assert reducers.Pickled(nb.ns["area"], nb.ns).chunks.pieces == before
    assert nb.elsewhere("area", "print(area('a'), area(1), area.register(int, lambda x: 3)(1), area(1))") == "2 0 3 3"


def test_a_cached_property_is_functools_own_for_who_looks_at_it(nb):
    nb.run("import traceback\nclass Sub(functools.cached_property):\n    def __get__(self, instance, owner=None):\n        return super().__get__(instance, owner=owner)\n"
           "class C:\n    t = Sub(lambda self: [1])\n    e = functools.cached_property(lambda self: 1 / 0)\nc = C()\nassert c.t is c.t and C.__dict__['e'].__get__(None, C) is C.e\n"
           "try:\n    c.e\nexcept ZeroDivisionError as error:\n    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]\n"
           "try:\n    C.__dict__['e'].__get__()\nexcept TypeError as error:\n    told = str(error)")
    assert nb.ns["names"] == ["<module>", "__get__", "<lambda>"] and "instance" in nb.ns["told"]


def test_what_is_noted_of_very_many_objects_takes_little_memory(nb):
    of = origins.Origins(nb.ns)  # from now on, first reads are noted
    nb.run("class Made:\n    n = functools.cached_property(lambda self: 5)\n    part = functools.cached_property(lambda self: Plain())\nclass Bare:\n    pass")

    def grown(make):
        nb.run("many = None")
        tracemalloc.start()
        nb.run(make)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size / 5000

    made = "many = [Made() for _ in range(5000)]\nfor each in many: "
    kept, bare = grown(made + "each.n"), grown(made + "each.__dict__['n'] = 5")
    assert 0 < kept - bare < 400, "bytes of a plain value's note"
    assert abs(grown(made + "each.part") - grown(made + "each.__dict__['part'] = Plain()")) < 50, "nobody asks for the notes of other values"
    noted = len(only_read._noted)
    nb.run("many = [Made() for _ in range(5000)]\nfor each in many: each.n\nassert many[0].n == 5")
    assert len(only_read._noted) >= noted + 5000
    nb.run("many = each = None")
    assert len(only_read._noted) == noted and of.changed([]) == {}


def test_a_note_is_of_the_value_that_was_read_last(nb):
    nb.run("class Made:\n    n = functools.cached_property(lambda self: next(made))\nmade = iter([5, [6], 'a' * 5000, object(), None, 7])\nx = Made()")
    only_read.watch()
    for k in range(6):
        nb.run("x.n")
        value = nb.ns["x"].n
        assert only_read.names_of(nb.ns["x"]) == ({} if k == 3 else {"n": value}), k
        nb.run("x.n = x.n + 1 if isinstance(x.n, int) else 3")
        assert only_read.names_of(nb.ns["x"]) == {}, k
        nb.run("del x.n")
        assert only_read.names_of(nb.ns["x"]) == {}, k


def test_a_note_runs_no_code_of_objects_in_an_array(nb):
    nb.run("import numpy as np\nran = []\nclass Part:\n    def __getstate__(self):\n        ran.append(1)\n        return {}\n"
           "class Made:\n    parts = functools.cached_property(lambda self: np.array([Part(), 'text'], dtype=object))\n"
           "    texts = functools.cached_property(lambda self: np.array(['a', 'b'], dtype=object))\nx = Made()")
    only_read.watch()
    nb.run("x.parts, x.texts")
    assert nb.ns["ran"] == [] and list(only_read.names_of(nb.ns["x"])) == ["texts"]
