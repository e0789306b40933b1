# SPDX-License-Identifier: BSD-3-Clause
"""numpy's arrays that are more than their bytes, and arrays that live only while an object is pickled."""

import importlib.machinery
import itertools
import mmap
import os
import pickle
import sys
import types
import warnings
from pathlib import Path

import pytest

numpy = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).parent))
from cellspan._base import filesystems  # noqa: E402
from cellspan._capture import arrays, class_versions, fingerprints, origins, reducers, vars_bundle  # noqa: E402
from cellspan._capture.call_buffers import CallBuffers  # noqa: E402
from cellspan._capture.capture import Capture  # noqa: E402
from notebook import Notebook, round_trip  # noqa: E402


@pytest.fixture
def nb():
    notebook = Notebook()
    notebook.capture = Capture(notebook.ns)
    yield notebook
    notebook.close()


def rows(nb, code):
    """{name: (version, why it goes again)}, after what is listed was packed, as the kernel would ask."""
    found = nb.capture.names(code)[0]
    os.close(nb.capture.pack([row[0] for row in found])[0])
    return {row[0]: row[1] for row in found}


# -- arrays that die with the pickle

TEMPORARY = """
import {0}
class T:
    def __init__(self, n): self.n = n
    def __getstate__(self): return {{"n": self.n, "all": {1}}}
    def __setstate__(self, state): self.n = state["n"]
"""


@pytest.mark.parametrize("module, make", [("numpy", "[numpy.full(n, 1.0) for n in (1000, 2000)]"), ("torch", "[torch.full((n,), 1.0) for n in (1000, 2000)]")])
def test_variables_whose_arrays_live_only_in_their_pickle_share_no_memory(nb, module, make):
    pytest.importorskip(module)
    nb.run(TEMPORARY.format(module, make) + "".join(f"x{k} = T({k})\n" for k in range(8)))
    names = ", ".join(f"x{k}" for k in range(8))
    first = rows(nb, names)
    nb.run("x0.n = 9")
    found, warnings = nb.capture.names(names)
    assert warnings == []
    assert {row[0] for row in found if row[1] != first[row[0]]} == {"x0"}
    nb.run(f"import {module}\nheld = [{make}]")  # it may have their addresses
    assert nb.capture.names("held, x1")[1] == []


SWAPS = """
import {0} as module
made = 0
def full(value):
    return module.full(({1},), value)
class T:
    def __init__(self): self.n = 1.0
    def __getstate__(self):
        global made
        made += 1
        if made % 2: a = full(self.n); b = full(2.0)
        else: b = full(2.0); a = full(self.n)
        return {{"a": a, "b": b, "same": full(2.0)}}
    def __setstate__(self, state): self.n = float(state["a"][0])
x, y = T(), T()
"""


@pytest.mark.parametrize("module", ["numpy", "torch"])
@pytest.mark.parametrize("size", [8192, 40000])
def test_large_arrays_that_an_object_makes_of_itself_are_compared_with_what_was_sent(nb, module, size):
    pytest.importorskip(module)
    nb.run(SWAPS.format(module, size))

    def versions():
        found = nb.capture.names("any", only=["x", "y"])[0]
        os.close(nb.capture.pack(["x", "y"])[0])
        return {row[0]: row[1] for row in found if row[0] in ("x", "y")}

    first = versions()
    for _ in range(4):
        assert versions() == first, "nobody has changed it, wherever its arrays were then"
    nb.run("x.n = 7.0")
    changed = versions()
    assert changed["x"] != first["x"] and changed["y"] == first["y"]
    assert versions() == changed


def test_only_what_makes_arrays_of_itself_is_pickled_again_for_a_bundle(nb, monkeypatch):
    nb.run(SWAPS.format("numpy", 40000) + "base = module.arange(90000.0).reshape(300, 300)\nplain, gaps, deep = base[1:], base[:, ::2], {'a': base.T, 'b': [base[::3]]}\n"
           "class Views:\n    def __getstate__(self): return {'a': base[:, ::2], 'b': base[:, 1::2]}\n    def __setstate__(self, state): pass\nviews = Views()")
    again = []
    monkeypatch.setattr(Capture, "_again", lambda self, value, made=Capture._again: again.append(value) or made(self, value))
    first = rows(nb, "plain, gaps, deep, views, base, x")
    assert again == [nb.ns["x"]]
    assert {**rows(nb, "plain, gaps, deep, views, base, x"), "made": 0} == {**first, "made": 0}
    nb.run("base[5, 5] = 9")
    assert {name for name, version in rows(nb, "plain, gaps, deep, views, base, x").items() if version != first[name]} >= {"plain", "deep", "views", "base"}


EACH = """
import numpy
class T:
    def __init__(self, n, seed=None): self.n, self.seed = n, seed
    def __getstate__(self): return {"n": self.n, "all": list(numpy.random.default_rng(self.seed).random((self.n, 9000)))}
    def __setstate__(self, state): self.n = state["n"]
"""
LOOKED_FOR = {"other content each time": "x = T(60)", "many variables": "".join(f"x{k} = T(1, {k})\n" for k in range(60)), "the same content each time": "x = T(60, 3)",
              "beside such a one": "x, y = T(60), T(30, 3)", "as many that begin alike": "x = [numpy.arange(9000.0) + (numpy.arange(9000) == 900) * k for k in range(60)]"}


@pytest.mark.parametrize("what", LOOKED_FOR)
def test_buffers_are_looked_for_in_a_bundle_in_a_time_that_grows_with_their_number_alone(nb, monkeypatch, what):
    nb.run(EACH + LOOKED_FOR[what])
    compared, equals = [], fingerprints.Sent.equals
    names = [name for name in nb.ns if name[0] in "xy" and name[1:].isdigit() or name in "xy"]
    monkeypatch.setattr(fingerprints.Sent, "equals", lambda self, offset, view: compared.append(offset) or equals(self, offset, view))
    first = rows(nb, ", ".join(names))
    fd, size = nb.pack(*names)
    nb.ns.update(vars_bundle.unpack(fd, size, nb.ns))
    nb.capture.pulled(names, fd, size)
    os.close(fd)
    assert len(compared) <= 300
    assert first.keys() >= set(names)


def test_a_buffer_that_is_like_too_many_others_is_not_looked_for_longer():
    like = numpy.zeros((40, 20000))
    like[:, 30] = range(40)
    fd, size, spans = vars_bundle.place(reducers.Pickled(list(like)))
    contents = fingerprints.Contents(fingerprints.Sent(fd, size), list(spans.values()))
    order = [*range(40), *range(39, -1, -1)]
    buffers = reducers.Pickled([like[k].copy() for k in order]).pieces
    found = [contents.find(buffer) for buffer in buffers]
    assert [offset for _, offset in found[:40]] == [offset for offset, _ in spans.values()]
    assert found[-1] == (None, 0) and os.close(fd) is None


GAPS = ["numpy.matrix(numpy.arange(200000.0).reshape(400, 500))[:, ::2]", "[numpy.matrix(numpy.arange(200000.0).reshape(400, 500) + k)[:, ::2] for k in range(3)]",
        "numpy.arange(200000.0).reshape(400, 500)[:, ::2]", "numpy.arange(200000.0).reshape(400, 500).view(type('Own', (numpy.ndarray,), {}))[::2, ::2]"]


@pytest.mark.parametrize("make", GAPS)
def test_a_view_with_gaps_that_nobody_changes_keeps_its_version(nb, make):
    nb.run(f"import numpy\nx = {make}")
    first = rows(nb, "x")
    assert [rows(nb, "x") for _ in range(3)] == [first] * 3
    nb.run("one = x[0] if isinstance(x, list) else x\none[1, 1] = 5")
    assert rows(nb, "x") != first


@pytest.mark.parametrize("make", ["numpy.arange(200000.0)", "numpy.matrix(numpy.arange(200000.0).reshape(400, 500))[:, ::2]"])
def test_a_large_array_of_a_call_is_the_same_group_in_the_next_call(nb, make):
    nb.run(f"import numpy\nx = {make}")
    groups = CallBuffers(itertools.count(1))
    for _ in range(3):
        sent = reducers.Pickled([nb.ns["x"]], nb.ns)
        listed = groups.split(sent)[0]
        fd, size, spans = vars_bundle.place(reducers.Pickled({listed[0][0]: groups.value(listed[0][0])[0]}, nb.ns))
        groups.known(listed[0][0]).note_sent(fingerprints.Sent(fd, size), spans)
        os.close(fd)
        del sent
        groups.forget()
        assert [row[1] for row in listed] == [1] and groups.gone() == []


def called(groups, arguments, packed=True):
    """The versions of the groups of a call, in the order of its arguments; packed: a rank lacks them."""
    sent = reducers.Pickled(arguments)
    listed, _ = groups.split(sent)
    if packed:
        fd, size, spans = vars_bundle.place(reducers.Pickled({row[0]: groups.value(row[0])[0] for row in listed}))
        for row in listed:
            groups.known(row[0]).note_sent(fingerprints.Sent(fd, size), spans)
        os.close(fd)
    del sent
    groups.forget()
    return [row[1] for row in listed]


@pytest.mark.parametrize("swapped", [False, True])
def test_views_with_gaps_that_a_later_call_sends_to_a_new_rank_keep_their_groups(swapped):
    base = numpy.arange(400000.0).reshape(2, 400, 500)
    x, y = base[0][:, ::2], base[1][:, ::2]
    groups = CallBuffers(itertools.count(1))
    first = called(groups, [x, y])
    held = [numpy.empty(100000) for _ in range(3)]  # other addresses for the next copies
    again = first[::-1] if swapped else first
    assert called(groups, [y, x] if swapped else [x, y]) == again
    del held
    assert called(groups, [x, y], packed=False) == first
    x[...] = y
    changed = called(groups, [x, y], packed=False)
    assert changed[0] != first[0] and changed[1] == first[1]


@pytest.mark.parametrize("make", ["numpy.zeros(5000)", "__import__('torch').zeros(5000)", "numpy.arange(5000.0).view(type('Own', (numpy.ndarray,), {}))",
                                  "numpy.zeros(5000).view(numpy.memmap)"])
def test_variables_that_hold_one_array_share_it(nb, make):
    if "torch" in make:
        pytest.importorskip("torch")
    nb.run(f"import numpy\na = {make}\nx, y = [a], [a]\ndel a")
    rows(nb, "x, y")
    nb.run("x.append(1)")
    assert nb.capture.names("x, y")[1] == ["y is sent again with x, which changed: they share memory"]


def test_a_cell_does_not_walk_the_arrays_of_other_variables(nb, monkeypatch):
    nb.run("import numpy\nmany = [numpy.zeros(600) for _ in range(300)]\ny = numpy.zeros(5000)\nz = [y]")
    rows(nb, "many, y, z")
    asked, of = [], fingerprints.holds
    monkeypatch.setattr(fingerprints, "holds", lambda answer: asked.append(1) or of(answer))
    nb.run("y[0] = 1")
    assert {row[0] for row in nb.capture.names("y")[0]} == {"y", "z"}
    assert 0 < len(asked) < 20
    nb.run("many[0] = numpy.ones(600)")
    assert [row[0] for row in nb.capture.names("many")[0]] == ["many"]


# -- views whose elements share memory


@pytest.mark.parametrize("make", ["numpy.broadcast_to(numpy.arange(3.0), (4000, 3))", "numpy.lib.stride_tricks.sliding_window_view(numpy.arange(5000.0), 1000)",
                                  "numpy.broadcast_to(numpy.arange(6.0).reshape(2, 3)[:, ::-1], (1900, 2, 3))", "numpy.broadcast_to(numpy.array([(1, 2.0)], 'i4,f8'), (9000,))",
                                  "numpy.lib.stride_tricks.sliding_window_view(numpy.arange(5000), 100)[::-1, ::2]"])
def test_a_view_whose_elements_share_memory_stays_one(make):
    view = eval(make)
    got = round_trip(view)
    assert got.shape == view.shape and got.strides == view.strides and got.dtype == view.dtype and (got == view).all()
    assert got.flags.writeable == view.flags.writeable
    assert reducers.Pickled(view).size < 50_000 < view.nbytes


@pytest.mark.parametrize("make", ["numpy.arange(20000.0).reshape(100, 200)", "numpy.arange(40.0).reshape(4, 10)"])
@pytest.mark.parametrize("part", ["x", "x.T", "x[:, ::2]", "x[::-1]"])
def test_what_can_only_be_read_stays_so(make, part):
    x = eval(make)
    assert round_trip(eval(part)).flags.writeable
    x.flags.writeable = False
    got = round_trip(eval(part))
    assert not got.flags.writeable and (got == eval(part)).all()


@pytest.mark.parametrize("make", ["numpy.broadcast_arrays(numpy.arange(3.0), numpy.zeros((4000, 3)))[0]", "numpy.meshgrid(numpy.arange(90), numpy.arange(91), copy=False)[0]",
                                  "numpy.lib.stride_tricks.as_strided(numpy.arange(5000.0), (4000, 1000), (8, 8))"])
def test_a_view_whose_elements_share_memory_and_can_be_written_is_an_array_elsewhere(make):
    view = eval(make)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = round_trip(view)
        assert got.shape == view.shape and got.dtype == view.dtype and (got == view).all() and got.flags.writeable


def test_the_size_of_a_view_is_not_that_of_its_elements(nb):
    huge = numpy.broadcast_to(numpy.arange(3.0), (10**12, 3))
    assert reducers.Pickled(huge).size < 1000 and round_trip(huge)[10**11, 2] == 2
    nb.run("import numpy\nx = numpy.broadcast_to(numpy.arange(1000.0), (10 ** 10, 1000))")
    first = rows(nb, "x")
    assert rows(nb, "x") == first
    nb.run("x.base[-1] = 7")
    assert rows(nb, "x") != first


def test_a_copy_over_the_limit_is_not_made():
    class Gaps:  # the memory is never touched: each copy would need 320 MiB
        data = numpy.empty((1 << 16, 10240), "u1")[:, ::2]

    with pytest.raises(reducers.Overflow) as caught:
        reducers.Pickled([Gaps.data[:, :5000], Gaps.data], limit=1 << 20)
    assert caught.value.args[0] >= 300 << 20


# -- classes that derive from ndarray

DERIVED = """
import numpy
class Info(numpy.ndarray):
    def __new__(cls, values, info=None):
        made = numpy.asarray(values).view(cls)
        made.info = info
        return made
    def __array_finalize__(self, of):
        if of is not None:
            self.info = getattr(of, "info", None)
i = Info(numpy.arange(5000.0), info={"unit": "m"})
small, gaps = i[:3], i[::2]
i.me = i
objects, wide, dates = Info([{}, "a"], info=3), numpy.broadcast_to(i, (9, 5000), subok=True), Info(numpy.arange(5000).astype("M8[s]"), info=5)
"""


def test_an_array_of_a_derived_class_keeps_its_attributes(nb):
    nb.run(DERIVED)
    code = ("print(type(i) is Info, i.info, i.me is i, small.info, small.sum(), gaps.info, gaps.strides, i[1:].info, type(gaps) is Info, objects.info, "
            "objects.tolist(), i.flags.writeable)\nprint(type(wide) is Info, wide.strides, wide.shape, wide.flags.writeable, wide.info, dates.info, str(dates[7])[-2:])")
    said = nb.elsewhere("Info i small gaps objects wide dates", code).splitlines()
    assert said[0] == "True {'unit': 'm'} True {'unit': 'm'} 3.0 {'unit': 'm'} (8,) {'unit': 'm'} True 3 [{}, 'a'] True"
    assert said[1] == "True (0, 8) (9, 5000) False {'unit': 'm'} 5 07"
    big = reducers.Pickled(nb.ns["i"])
    assert big.chunks.size < 4000 and sum(piece.nbytes for piece in big.pieces) == 40000, "its bytes are beside the pickle"
    first = rows(nb, "i")
    assert rows(nb, "i") == first
    nb.run("i.info['unit'] = 'km'")
    assert rows(nb, "i") != first


UNITS = """
import numpy
class Units(numpy.ndarray):
    __slots__ = ("unit", "not_set")
    def __new__(cls, shape, unit):
        made = super().__new__(cls, shape)
        made.unit = unit
        made[...] = 3
        return made
    def __array_finalize__(self, of):
        if of is not None:
            self.unit = of.unit
x, none, one, large = Units((3,), "m"), Units((0, 2), "n"), Units((), "o"), Units((100, 100), "l")
part = large[::2, 1::2]
"""


def test_an_array_whose_class_asks_for_an_attribute_arrives_with_it(nb):
    nb.run(UNITS)
    code = ("print([(type(v).__name__, v.unit, v.shape, float(v.sum()), bool(v.flags.writeable)) for v in (x, none, one, large, part)])\n"
            "x[0], large[0, 0] = 5, 6\nprint(x.sum(), large[0, :2], hasattr(x, 'not_set'))")
    said = nb.elsewhere("x none one large part", code).splitlines()
    assert said[0] == str([(type(v).__name__, v.unit, v.shape, float(v.sum()), bool(v.flags.num & arrays.WRITEABLE)) for v in map(nb.ns.get, "x none one large part".split())])
    assert said[1] == "11.0 [6. 3.] False"


OWN = {
    "asks the array": "    def __array_finalize__(self, of):\n        self.rows = of.shape[0] if of.ndim else 0",
    "nbytes": "    nbytes = property(lambda self: f'{self.size} B')",
    "dtype": "    dtype = property(lambda self: 'metres')",
    "base": "    base = property(lambda self: self.view(numpy.ndarray).view(type(self)))",
    "flags": "    flags = property(lambda self: {'bad': []})",
    "shape": "    shape = property(lambda self: 'long')",
}


@pytest.mark.parametrize("what", OWN)
def test_an_array_of_a_class_with_attributes_of_its_own_arrives(nb, what):
    nb.run(f"import numpy\nclass Own(numpy.ndarray):\n{OWN[what]}\nfew, many = numpy.arange(5.0).view(Own), numpy.arange(9000.0).view(Own)\n"
           "read = numpy.arange(5.0)\nread.setflags(write=False)\nread, part = read.view(Own), many[::2]\nnumpy.ndarray.setflags(part, write=False)")
    first = rows(nb, "few, many, read, part")
    assert rows(nb, "few, many, read, part") == first
    code = "print([(type(v).__name__, getattr(v, 'rows', 0), float(v.view(numpy.ndarray).sum()), v.view(numpy.ndarray).flags.writeable) for v in (few, many, read, part)])"
    nb.run("import contextlib, io, numpy\nwith contextlib.redirect_stdout(io.StringIO()) as _said:\n    " + code)
    assert nb.elsewhere("few many read part", "import numpy\n" + code) == nb.ns["_said"].getvalue().strip()


def test_what_a_tracked_array_has_computed_is_no_change(nb, monkeypatch):
    module = types.ModuleType("trimesh.caching")
    module.__spec__ = importlib.machinery.ModuleSpec("trimesh.caching", None)
    monkeypatch.setitem(sys.modules, "trimesh", types.ModuleType("trimesh"))
    monkeypatch.setitem(sys.modules, "trimesh.caching", module)
    exec("import numpy\nclass TrackedArray(numpy.ndarray):\n    def __array_finalize__(self, of):\n        self._dirty_hash = True\n    def __hash__(self):\n"
         "        self._hashed, self._dirty_hash = 5, False\n        return 5", module.__dict__)
    x = nb.ns["x"] = numpy.arange(5000.0).view(module.TrackedArray)
    x.tag = 1
    of = came(nb, "x")
    x = nb.ns["x"]
    assert hash(x) == 5 and of.changed(["x"]) == {"x": "same"}
    x.tag = 2
    assert of.changed(["x"]) == {"x": "changed"}


def came(nb, *names):
    """Origins, as if this process were a rank that has just got these names from home."""
    of = origins.Origins(nb.ns)
    fd, size = nb.pack(*names)
    nb.ns.update(vars_bundle.unpack(fd, size, nb.ns))
    of.came(list(names), fd, size)
    os.close(fd)
    return of


@pytest.mark.parametrize("make", ["numpy.ma.masked_array(numpy.arange(6000.0), mask=numpy.arange(6000) % 2, fill_value=-1)[::2]", "numpy.matrix([[1, 2], [3, 4]])",
                                  "numpy.rec.array([(1, 2.0, 'a')] * 900, dtype=[('x', 'i4'), ('y', 'f8'), ('n', 'U3')])", "numpy.char.array(['a', 'b'] * 3000)"])
def test_numpys_own_classes_stay_as_they_are(make):
    value = eval(make)
    got = round_trip([value, value])
    assert got[0] is got[1] and type(got[0]) is type(value) and got[0].dtype == value.dtype and got[0].tolist() == value.tolist()


# -- files that are mapped


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data"
    numpy.arange(1 << 14).astype("f8").tofile(path)
    return path


MAPPED = {
    "all": "numpy.memmap({0!r}, 'f8', 'r+', shape=(128, 128))",
    "from an offset": "numpy.memmap({0!r}, 'f8', 'r+', 8 * 700, (50, 8))",
    "rows": "numpy.memmap({0!r}, 'f8', 'r+', 8 * 700, (50, 8))[3:9]",
    "columns": "numpy.memmap({0!r}, 'f8', 'r+', shape=(128, 128))[:, 2:5]",
    "backwards": "numpy.memmap({0!r}, 'f8', 'r+', shape=(128, 128))[::-1, ::2]",
    "broadcast": "numpy.lib.stride_tricks.as_strided(numpy.memmap({0!r}, 'f8', 'r+'), (128, 200), (8, 0), subok=True)",
    "transposed": "numpy.memmap({0!r}, 'f8', 'r+', shape=(128, 128)).T",
    "bytes": "numpy.memmap({0!r}, 'f8', 'r+').view('i4')",
    "new": "numpy.memmap({0!r} + '.new', 'f8', 'w+', shape=(300,))",
}


@pytest.mark.parametrize("what", MAPPED)
def test_a_memmap_is_one_of_the_same_file_elsewhere(nb, file, what):
    nb.run(f"import numpy\nm = {MAPPED[what].format(str(file))}\nm.reshape(-1)[:3] = 5, 6, 7")
    m = nb.ns["m"]
    assert reducers.Pickled(m).size < 1000, "the file is not read"
    code = "print(type(m).__name__, m.shape, m.dtype, float(m.reshape(-1)[:3].sum()), m.mode)\nm[-1] = 9\nm.flush()"
    assert nb.elsewhere("m", code) == f"memmap {m.shape} {m.dtype} {float(m.reshape(-1)[:3].sum())} r+"
    assert (m[-1] == 9).all(), "what is written there is written here"
    of = origins.Origins(nb.ns)
    fd, size = vars_bundle.pack({"m": m}, nb.ns)
    of.came(["m"], fd, size)
    os.close(fd)
    assert of.changed(["m"]) == {"m": "same"}


def test_a_memmap_that_can_only_be_read_stays_so(nb, file):
    nb.run(f"import numpy\nm = numpy.memmap({str(file)!r}, 'f8', 'r')\nfew = m[:3]")
    nb.run(f"all = numpy.memmap({str(file)!r}, 'f8', 'r+')\nrow = all[5:900]\nrow.flags.writeable = False\nwide = numpy.broadcast_to(all[:1000], (9, 1000), subok=True)")
    code = "print(m.mode, m.flags.writeable, m[5], few.tolist(), few.flags.writeable)\nprint([(x.mode, x.flags.writeable) for x in (all, row, wide)], wide.strides)"
    assert nb.elsewhere("m few all row wide", code) == "r False 5.0 [0.0, 1.0, 2.0] False\n[('r+', True), ('r+', False), ('r+', False)] (0, 8)"


def test_views_of_a_memmap_are_looked_up_and_mapped_once(nb, file, monkeypatch):
    nb.run(f"import numpy\nm = numpy.memmap({str(file)!r}, 'f8', 'r+', 8 * 700)\nviews = [m[i:i + 9] for i in range(300)]\nother = numpy.memmap({str(file)!r}, 'f8', 'r+')")
    asked, of = [], arrays.identity
    monkeypatch.setattr(arrays, "identity", lambda path: asked.append(path) or of(path))
    fd, size = nb.pack("views", "m", "other")
    assert len(asked) == 2, "two mappings"
    got = vars_bundle.unpack(fd, size, nb.ns)
    os.close(fd)
    assert {id(view._mmap) for view in got["views"]} == {id(got["m"]._mmap)} != {id(got["other"]._mmap)} and len(asked) == 4
    assert [view.tolist() for view in got["views"]] == [view.tolist() for view in nb.ns["views"]]


def test_an_object_of_a_class_derived_from_memmap_is_sent_as_it_is(nb, file):
    nb.run(f"import numpy\nclass M(numpy.memmap):\n    def view(self, *args):\n        raise TypeError('of the class')\nm = M({str(file)!r}, 'f8', 'r+')\nm.tag = 't'")
    assert nb.elsewhere("m", "print(type(m).__name__, m.tag, m[5], m.sum(), m.mode)") == "M t 5.0 134209536.0 None"


def test_a_file_that_became_shorter_is_not_made_longer(nb, file):
    nb.run(f"import numpy\nm = numpy.memmap({str(file)!r}, 'f8', 'r+', 8 * 512)")
    fd, size = nb.pack("m")
    os.truncate(file, 8192)
    with pytest.raises(vars_bundle.LoadError, match="has become shorter than the memmap"):
        vars_bundle.unpack(fd, size, nb.ns)
    os.close(fd)
    assert os.path.getsize(file) == 8192


@pytest.mark.parametrize("local", [True, False])
def test_a_memmap_that_a_rank_has_made_comes_home_as_its_file_if_home_finds_it(nb, file, monkeypatch, local):
    monkeypatch.setattr(filesystems, "is_local", lambda folder, points: local)
    nb.run(f"import numpy\nm = numpy.memmap({str(file)!r}, 'f8', 'r+')")
    m, large = nb.ns["m"], 1 << 17
    of_home = reducers.Pickled(m)
    monkeypatch.setattr(class_versions, "side", class_versions.RANKS)
    monkeypatch.setattr(arrays, "_senders", set())
    assert (reducers.Pickled(m).size >= large) == local, "home may be on another machine"
    pickle.loads(b"".join(of_home.chunks.pieces))
    assert reducers.Pickled(m).size < 1000, "home has sent that file"


def test_a_memmap_on_a_shared_file_system_is_written_before_other_machines_read_it(nb, file, monkeypatch):
    flushed = []

    class Mapping(mmap.mmap):
        def flush(self, *args):
            flushed.append(self)
            return super().flush(*args)

    monkeypatch.setattr(mmap, "mmap", Mapping)
    nb.run(f"import numpy\nm, n = numpy.memmap({str(file)!r}, 'f8', 'r+'), numpy.memmap({str(file)!r}, 'f8', 'r')")
    reducers.Pickled([nb.ns["m"], nb.ns["n"]])
    assert not flushed
    monkeypatch.setattr(filesystems, "is_local", lambda folder, points: False)
    reducers.Pickled([nb.ns["m"], nb.ns["m"][5:], nb.ns["n"]])
    assert flushed == [nb.ns["m"]._mmap]


def test_a_file_that_is_gone_while_it_is_looked_up_is_no_error(nb, file, monkeypatch):
    def gone(path):
        raise FileNotFoundError(path)

    nb.run(f"import numpy\nm = numpy.memmap({str(file)!r}, 'f8', 'r+')")
    monkeypatch.setattr(arrays, "identity", gone)
    assert nb.elsewhere("m", "print(m.sum())") == "134209536.0"


@pytest.mark.parametrize("then", ["", "os.rename(path, path + '.old')"])
def test_a_file_that_became_shorter_is_not_mapped_again_either(nb, file, then):
    nb.run(f"import numpy, os\npath = {str(file)!r}\nm = numpy.memmap(path, 'f8', 'r+')")
    fd, size = nb.pack("m")
    here = vars_bundle.unpack(fd, size, nb.ns)["m"]
    nb.run(f"{then}\nos.truncate(path + ('' if os.path.exists(path) else '.old'), 4096)")
    with pytest.raises(vars_bundle.LoadError, match="has become shorter than the memmap"):
        vars_bundle.unpack(fd, size, nb.ns)
    os.close(fd)
    assert here[5] == 5


@pytest.mark.parametrize("then", ["os.unlink(path)", "os.rename(path, path + '.old')", "os.rename(path, path + '.old'); numpy.zeros(1 << 14).tofile(path)",
                                  "m = numpy.memmap(path, 'f8', 'c'); m[0] = 0", "m = m.copy()", "m = m[::-1][::-1]"])
def test_a_memmap_of_what_is_in_no_file_by_its_name_is_sent_as_it_is(nb, file, then):
    nb.run(f"import numpy, os\npath = {str(file)!r}\nm = numpy.memmap(path, 'f8', 'r+')\n{then}")
    assert nb.elsewhere("m", "print(m[5], m.sum())") == "5.0 134209536.0"


@pytest.mark.parametrize("then", ["os.unlink(path)", "os.rename(path, path + '.old')", "numpy.zeros(1 << 14).tofile(path + '.new'); os.replace(path + '.new', path)"])
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_memmap_whose_file_is_gone_is_the_same_on_a_rank(nb, file, then, mode):
    nb.run(f"import numpy, os\npath = {str(file)!r}\nm = numpy.memmap(path, 'f8', {mode!r})\nd = {{'rows': [m[5:900], m[::-1]], 'n': 1}}")
    home = {name: nb.ns[name] for name in ("m", "d")}
    first = rows(nb, "m, d")
    of = came(nb, "m", "d")
    ranks = {name: nb.ns[name] for name in home}
    assert ranks["m"]._mmap is not home["m"]._mmap
    nb.run(then)
    assert of.changed(["m", "d"]) == {"m": "same", "d": "same"}
    nb.ns["d"]["n"] = 2
    assert of.changed(["m", "d"]) == {"m": "same", "d": "changed"}
    nb.ns.update(home)
    found = nb.capture.names("m, d")[0]
    assert {row[0]: row[1] for row in found} != first, "its content is sent now"
    fd, size, _ = nb.capture.pack(["m", "d"])
    got = vars_bundle.unpack(fd, size, nb.ns)
    os.close(fd)
    assert got["m"].sum() == got["d"]["rows"][1].sum() == 134209536.0


def test_a_memmap_keeps_its_attributes(nb, file):
    nb.run(f"import numpy\nm, c = numpy.memmap({str(file)!r}, 'f8', 'r+'), numpy.memmap({str(file)!r}, 'f8', 'c')\nm.tag, c.tag = 3, 4")
    assert reducers.Pickled(nb.ns["m"]).size < 1000
    assert nb.elsewhere("m c", "print(m.tag, c.tag, m.mode, c.mode, m.offset)") == "3 4 r+ None 0"


def test_a_path_with_a_new_line_is_found(nb, tmp_path):
    nb.run(f"import numpy\nm = numpy.memmap({str(tmp_path / 'a') + chr(10) + 'b'!r}, 'f8', 'w+', shape=(5000,))")
    assert reducers.Pickled(nb.ns["m"]).size < 1000 and nb.elsewhere("m", "print(m.mode, m.sum())") == "r+ 0.0"


def test_a_memmap_of_another_machine_names_its_file(nb, file):
    nb.run(f"import numpy\nm = numpy.memmap({str(file)!r}, 'f8', 'r+')")
    fd, size = nb.pack("m")
    os.rename(file, f"{file}.old")
    with pytest.raises(vars_bundle.LoadError) as caught:
        vars_bundle.unpack(fd, size, nb.ns)
    os.close(fd)
    assert f"a memmap's file, {file}, is not on this machine: send numpy.array() of it" in str(caught.value) and "m" in caught.value.labels
