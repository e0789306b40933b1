# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that can only be read stay so, whatever their elements are; and views of objects whose elements share memory stay views."""

import sys
from pathlib import Path

import numpy
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.lib.stride_tricks import sliding_window_view as windows

sys.path.insert(0, str(Path(__file__).parent))
from cellspan._capture import reducers  # noqa: E402
from notebook import round_trip  # noqa: E402

TEXT = numpy.dtypes.StringDType() if hasattr(numpy, "dtypes") and hasattr(numpy.dtypes, "StringDType") else None
OBJECTS = numpy.array([str(k) for k in range(3000)], object)
GRID = OBJECTS.reshape(50, 60)
PAIRS = numpy.zeros(3000, "i8,O")
PAIRS["f0"], PAIRS["f1"] = numpy.arange(3000), OBJECTS

WIDE = {
    "one": numpy.broadcast_to(numpy.array("abc", object), (20_000_000,)),
    "rows": numpy.broadcast_to(OBJECTS[:5, None], (5, 4000)),
    "windows": windows(OBJECTS, 100),
    "of a grid": windows(GRID, (7, 8)),
    "backwards": windows(OBJECTS[::-1], 100),
    "of each second": windows(OBJECTS[::2], 100),
    "of pairs": windows(PAIRS, 100),
    "of a field": windows(PAIRS["f1"], 100),
    "broadcast windows": numpy.broadcast_to(windows(OBJECTS, 50), (3, 2951, 50)),
    "turned": windows(GRID, (7, 8)).T[::-1],
    **({"texts": numpy.broadcast_to(numpy.array(["a", "b"], TEXT)[:, None], (2, 40000))} if TEXT else {}),
}
NARROW = {
    "gaps": as_strided(OBJECTS, (300, 300), (16, 24), writeable=False),
    "few": numpy.broadcast_to(OBJECTS[:2], (3, 2)),
    "dates": numpy.arange(3).astype("M8[s]"),
    "many dates": numpy.arange(3000).astype("M8[s]"),
    "times": numpy.arange(3).astype("m8[s]"),
    "broadcast dates": numpy.broadcast_to(numpy.array(5, "M8[s]"), (3, 4)),
    "objects": OBJECTS,
    "few objects": OBJECTS[:3].copy(),
    "no objects": numpy.zeros((0, 3), object),
    "a scalar": numpy.array(None, object),
    "columns": GRID[:, 3:9],
    "by columns": numpy.asfortranarray(GRID),
    "pairs": PAIRS,
    "numbers": numpy.arange(5.0),
    "many numbers": numpy.arange(5000.0),
    "each second": numpy.arange(5000.0)[::2],
    **({"text": numpy.array(["a", "b"], TEXT)} if TEXT else {}),
}


def is_same(got, array):
    few = array.size > 100_000
    ends = [0, array.size // 2, array.size - 1] if array.size else []
    return got.shape == array.shape and got.dtype == array.dtype and (few or (got == array).all()) and all(got.flat[k] == array.flat[k] for k in ends)


@pytest.mark.parametrize("what", WIDE)
def test_a_view_of_objects_is_sent_with_those_that_are_in_memory(what):
    array = WIDE[what]
    assert reducers.Pickled(array).size < 100_000
    got = round_trip(array)
    assert is_same(got, array) and not got.flags.writeable
    kept = sum(step == 0 for step in array.strides)
    assert sum(step == 0 for step in got.strides) == kept
    assert reducers.Pickled(got).chunks.pieces == reducers.Pickled(round_trip(got)).chunks.pieces


@pytest.mark.parametrize("what", NARROW)
@pytest.mark.parametrize("is_writable", [False, True])
def test_what_can_only_be_read_stays_so(what, is_writable):
    array = NARROW[what][...]
    if is_writable:
        array = array.copy()
    array.flags.writeable = is_writable
    got = round_trip([array, array])
    assert got[0] is got[1] and is_same(got[0], array) and got[0].flags.writeable == is_writable


def test_a_view_of_a_class_of_the_users_stays_one():
    class Named(numpy.ndarray):
        pass

    view = numpy.broadcast_to(OBJECTS[:3], (3000, 3)).view(Named)
    view.name = "x"
    got = round_trip(view)
    assert type(got) is Named and got.name == "x" and got.strides[0] == 0 and not got.flags.writeable and (got == view).all()


def test_an_array_that_has_itself_and_can_only_be_read():
    array = numpy.array([None], object)
    array[0] = array
    array.flags.writeable = False
    got = round_trip(array)
    assert got[0] is got and not got.flags.writeable


def test_resize_is_numpys_own_for_who_looks_at_it(nb):
    """Also if it was replaced more than once."""
    nb.run("import numpy\na = numpy.zeros(3)")
    code = ("import inspect\nfrom cellspan._capture import resizing\nbefore = numpy.ndarray.resize.__doc__\nfor _ in 'ab':\n    resizing._patch()\n"
            "print(numpy.ndarray.resize.__doc__ == before, a.resize.__name__, type(numpy.ndarray.resize).__name__, numpy.ndarray.resize.__objclass__ is numpy.ndarray)\n"
            "try:\n    a.resize('x')\nexcept TypeError as error:\n    print(type(error).__name__)\nprint(a.resize(4, refcheck=False), a.size)")
    assert nb.elsewhere("a", "import numpy\n" + code) == "True resize method_descriptor True\nTypeError\nNone 4"


def test_an_array_that_came_gets_memory_of_its_own_before_it_is_resized(nb):
    nb.run("import numpy\nclass Kind(numpy.ndarray): pass\na = [numpy.arange(5000.), numpy.ones((70, 70), 'u1'), numpy.zeros(2000, 'i4, f8'), numpy.arange(600).astype('M8[s]'),\n"
           "     numpy.arange(5000.).view(Kind), numpy.ones((100, 1000))]\na[4].note = 'n'")
    code = ("from cellspan._capture import resizing\nresizing.watch(type('Holder', (), {'let_go': lambda self, array: None})())\nfor x in a:\n"
            "    want = x.ravel().tolist()[:5], x.dtype, x.ndim\n    del x.__class__ if False else want[:0]\n    x.resize((7,) + x.shape[1:], refcheck=False)\n"
            "    assert x.flags.owndata and (x.ravel().tolist()[:5], x.dtype, x.ndim) == want, want\nprint(a[4].note, a[5].sum())\n"
            "v = b[10:]\ntry:\n    b.resize(7, refcheck=False)\nexcept ValueError as error:\n    print(error, v[0])")
    code = code.replace("    del x.__class__ if False else want[:0]\n", "")
    nb.run("b = numpy.arange(5000.)")
    assert nb.elsewhere("a b", "import numpy\n" + code) == "n 7000.0\ncannot resize this array: it does not own its data 10.0"
