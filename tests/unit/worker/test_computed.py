# SPDX-License-Identifier: BSD-3-Clause
"""What objects keep of what they have computed is no change of a rank's; what may have been changed since it was computed is one."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cellspan._capture import origins, reducers, vars_bundle  # noqa: E402
from notebook import Notebook  # noqa: E402

MAKES = """
import datetime, enum, functools, numpy
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
class Own:
    n = functools.cached_property(lambda self: 5)
    def __init__(self):
        self.data = 1
    def __getstate__(self):
        return {"data": self.data, "n": "of its own"}
    def __setstate__(self, state):
        self.data = state["data"]
class Slots:
    __slots__ = ("data", "__dict__")
    n = functools.cached_property(lambda self: 5)
    def __init__(self):
        self.data = [1]
class Reduced:
    n = functools.cached_property(lambda self: 5)
    def __init__(self, data):
        self.data = data
    def __reduce__(self):
        return Reduced, (self.data,), dict(self.__dict__)
class Either(enum.Enum):
    A = 1
    @classmethod
    def _missing_(cls, value):
        cls._value2member_map_[value] = cls.A
        return cls.A
@functools.singledispatch
def area(x):
    return 0
area.register(numpy.ndarray, lambda x: 1)
class User:
    plain = Plain()
    either = Either.A
"""
SAME = [
    ("x = Plain()", "x.n"),
    ("x = Plain(); x.a = 1", "x.other, x.n"),
    ("x = [Plain(), Plain(), Plain()]; x[1].n", "x[0].n, x[2].other"),
    ("x = Plain(); x.net.append(1)", "x.n"),
    ("x = {Plain(): Below()}", "[(k.n, v.n, k.hidden, v.hidden) for k, v in x.items()]"),
    ("x = Own()", "x.n"),
    ("x = Reduced(3)", "x.n"),
    ("x = Slots()", "x.n"),
    ("x = Either", "x(5), x('b')"),
    ("Either(4); x = [Either.A]", "Either(5), Either(4)"),
    ("x = area", "x(1), x(numpy.ones(2)), x('a')"),
    ("x = User", "x.plain.n, Either(9), User.either"),
]
CHANGED = [
    ("x = Plain()", "x.net"),
    ("x = Plain()", "x.state[0] = 1"),
    ("x = Plain()", "x.pair[1].append(1)"),
    ("x = Plain()", "x.mark.note = 1"),
    ("x = Plain(); x.n", "x.n = 5"),
    ("x = Plain(); x.n", "del x.n"),
    ("x = Plain()", "x.rate = 0.2"),
    ("x = Below()", "x.hidden = 8"),
    ("x = [Plain(), Below()]; x[0].n", "x[1].n; x.reverse()"),
    ("x = Own()", "x.n; x.data = 2"),
    ("x = Slots()", "x.n, x.data.append(2)"),
    ("x = area", "x.register(str, lambda x: 2)"),
    ("x = User", "x.plain.net"),
    ("x = Either", "x.A.mark = 1"),
]


@pytest.fixture
def nb():
    notebook = Notebook()
    notebook.run(MAKES)
    yield notebook
    notebook.close()


def said(nb, make, code):
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
    assert said(nb, make, code) == "changed"


def test_what_is_computed_is_sent(nb):
    nb.run("x = Plain()\nx.n, x.net.append(1)\narea(1), area(numpy.ones(2))")
    assert nb.elsewhere("x area", "import numpy\nprint(sorted(x.__dict__), x.net, area(3), area(numpy.ones(2)))") == "['n', 'net'] [0, 1] 0 1"


def test_the_functions_that_a_dispatcher_has_found_are_not_sent(nb):
    nb.run("import collections.abc\narea.register(collections.abc.Sized, lambda x: 2)")
    before = reducers.Pickled(nb.ns["area"], nb.ns).chunks.pieces
    nb.run("area('a'), area(1)\nimport abc\nclass Other(abc.ABC): pass\nOther.register(int)\narea('a')")
    assert reducers.Pickled(nb.ns["area"], nb.ns).chunks.pieces == before
    assert nb.elsewhere("area", "print(area('a'), area(1), area.register(int, lambda x: 3)(1), area(1))") == "2 0 3 3"
