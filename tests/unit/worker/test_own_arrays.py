# SPDX-License-Identifier: BSD-3-Clause
"""Arrays and enums elsewhere: who owns an array's memory, classes whose pickles the user makes, attributes in slots of many objects."""

import copyreg
import sys
import types
from pathlib import Path

import pytest

numpy = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).parent))
from cellspan._capture import enums, reducers  # noqa: E402
from cellspan._capture.capture import Capture  # noqa: E402
from notebook import round_trip  # noqa: E402


@pytest.mark.parametrize("make", ["numpy.arange(3)", "numpy.zeros((2, 5), order='F')", "numpy.float64([[1]]).T", "numpy.zeros(3, dtype='i4, f8')", "numpy.arange(9)[::2]",
                                  "numpy.array(['ab', 'c'])", "numpy.array([1], dtype='M8[s]')", "numpy.array([None, 2])", "numpy.arange(3).astype('>i4')", "numpy.arange(9).astype('>i4')[::2]",
                                  "numpy.array(['ab', 'c']).astype('>U3').reshape(2, 1)[:, ::-1].T", "numpy.zeros(2, dtype='>i4, f8')", "numpy.array(5.)", "numpy.zeros((0, 3))"])
def test_a_small_array_owns_its_memory(make):
    array = eval(make)
    came = round_trip(array)
    assert came.flags.owndata and came.flags.writeable and came.dtype == array.dtype and came.shape == array.shape and came.tolist() == array.tolist()
    assert came.flags.f_contiguous == (array.copy().flags.f_contiguous if not array.flags.forc else array.flags.f_contiguous)
    came.resize(7, refcheck=False)


def test_a_small_array_that_two_names_have_is_one(nb):
    nb.run("import numpy\na = numpy.arange(3)\nb = [a]\nc = a[1:]")
    assert nb.elsewhere("a b c", "a.resize(9, refcheck=False)\nprint(b[0] is a, a.size, c.tolist())") == "True 9 [1, 2]"


MASKED = ["m.flags.writeable = False", "m.mask.flags.writeable = False", "m.harden_mask()", "m.harden_mask(); m.flags.writeable = False; m.mask.flags.writeable = False",
          "m = numpy.ma.masked_array(numpy.zeros(5000)); m.flags.writeable = False", "m = numpy.ma.zeros(3, 'i4, f8'); m.mask[1] = True; m.mask.flags.writeable = False; m.harden_mask()",
          "m = Q(m); m.note = 'a'; m.harden_mask()", "pass"]


@pytest.mark.parametrize("change", MASKED)
def test_what_can_not_be_written_of_a_masked_array_can_not_be_elsewhere(nb, change):
    nb.run("import numpy\nclass Q(numpy.ma.MaskedArray): pass\nm = numpy.ma.masked_array([1, 2, 3], mask=[0, 1, 0])\n" + change)
    look = "m.flags.writeable, numpy.asarray(m.mask).flags.writeable, m.hardmask, m.tolist()[:3], m.dtype.str, type(m).__name__, m.fill_value, getattr(m, 'note', '')"
    wanted = str(eval(look, nb.ns))
    assert nb.elsewhere("m", f"import numpy\nprint(({look}))") == wanted


REGISTERED = {
    "an array's class": ("class Q(numpy.ndarray): pass\ndef make(kind, a):\n    q = a.view(kind)\n    q.made = 'again'\n    return q\n"
                         "copyreg.pickle(Q, lambda q: (make, (Q, numpy.asarray(q))))\nq = numpy.arange(3000.).view(Q)\nq.lock = threading.Lock()", "q.made, q.sum(), hasattr(q, 'lock')"),
    "a class derived from it": ("class P(numpy.ndarray): pass\nclass Q(P): pass\ndef make(a):\n    raise ValueError(a)\ncopyreg.pickle(P, lambda q: (make, (1,)))\n"
                                "q = numpy.arange(3.).view(Q)\nq.made = 'again'", "q.made, q.sum()"),
    "an enum": ("class E(enum.Enum):\n    A = 1\n    B = 2\ncopyreg.pickle(E, lambda e: (E, (3 - e._value_,)))\nq = [E.A]", "q[0].name"),
    "a masked array": ("class Q(numpy.ma.MaskedArray): pass\ncopyreg.pickle(Q, lambda q: (str, ('q',)))\nq = numpy.arange(3).view(Q)", "q"),
}


@pytest.mark.parametrize("what", REGISTERED)
def test_what_somebody_has_registered_for_a_class_comes_before_our_rules(nb, what):
    make, look = REGISTERED[what]
    wanted = {"an array's class": "again 4498500.0 False", "a class derived from it": "again 3.0", "an enum": "B", "a masked array": "q"}[what]
    try:
        nb.run("import copyreg, enum, numpy, threading\n" + make)
        assert nb.elsewhere("q", f"print({look})") == wanted
    finally:
        for kind in [kind for kind in copyreg.dispatch_table if kind.__module__ == "__main__"]:
            del copyreg.dispatch_table[kind]


def test_slots_are_those_that_the_object_knows():
    class Base:
        __slots__ = ("a", "hidden", "__own")

    class Kind(Base):
        __slots__ = ("b",)
        hidden = 5

    assert enums.slots_of(Kind) == {"a", "b", "_Base__own"}
    Kind.a = property(lambda self: 1)
    assert enums.slots_of(Kind) == {"b", "_Base__own"}


def test_the_slots_of_an_enum_are_looked_up_once(nb, monkeypatch):
    nb.run("import enum\nE = enum.IntEnum('E', {f'M{k}': k for k in range(100)}, module='__main__')")
    calls, slots_of = [], enums.slots_of
    monkeypatch.setattr(enums, "slots_of", lambda kind: calls.append(kind) or slots_of(kind))
    reducers.Pickled(nb.ns["E"], nb.ns)
    assert len(calls) < 10


def test_an_enum_is_put_in_order_in_a_time_that_grows_with_its_members_alone():
    compared = []

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            compared.append(0)
            return str.__eq__(self, other)

    names = [Name(f"M{k}") for k in range(500)]
    cls = types.SimpleNamespace(_member_map_=dict.fromkeys(map(Name, names[::-1])), _member_names_=[*map(Name, names[::-1]), "Own"])
    enums._put_in_order(cls, [(name, 1) for name in names], names)
    assert list(cls._member_map_) == names and cls._member_names_ == [*names, "Own"] and len(compared) < 20 * len(names)


def test_an_attribute_that_can_not_be_sent_is_named_wherever_the_object_keeps_it(nb):
    nb.run("import numpy, threading\nclass S(numpy.ndarray):\n    __slots__ = ('lock', 'tag')\nclass U(numpy.ndarray): pass\nclass O:\n    __slots__ = ('lock', 'tag')\n"
           "class P: pass\ns, u, o, p = numpy.ones(3).view(S), numpy.ones(3).view(U), O(), P()\nfor one in s, u, o, p:\n    one.lock, one.tag = threading.Lock(), 'x'")
    rows, warnings = Capture(nb.ns).names("s, u, o, p")
    assert rows == [] and warnings == [f"{name} was not sent: {name}.lock: cannot pickle '_thread.lock' object" for name in "suop"]
    nb.run("for one in s, u, o, p:\n    del one.lock")
    assert nb.elsewhere("s u o p", "import numpy\nprint(s.tag, u.tag, o.tag, p.tag, hasattr(s, 'lock'))") == "x x x x False"
