# SPDX-License-Identifier: BSD-3-Clause
"""What a bundle preserves of a value, and what it refuses."""

import gc
import importlib
import itertools
import os
import pickle
import struct
import sys
import threading
import weakref
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cellspan._capture import call_buffers, origins, rebuild, reducers, vars_bundle  # noqa: E402
from notebook import round_trip  # noqa: E402


# -- values


@pytest.mark.parametrize(
    "value",
    [None, True, 1, 2.5, "text", b"bytes" * 5000, [1, [2]], {"a": (1, 2)}, {1, 2}, Path("/tmp/x"), range(3), 1 << 200, "x" * 100000],
    ids=lambda v: type(v).__name__,
)
def test_a_plain_value_comes_out_equal(value):
    assert round_trip(value) == value


def test_the_bundle_is_sealed():
    import fcntl

    fd, _ = vars_bundle.pack([1])
    assert fcntl.fcntl(fd, 1034) & 0xF == 0xF
    with pytest.raises(OSError):
        os.pwrite(fd, b"x", 0)
    os.close(fd)


def test_a_large_bytes_object_is_not_copied_on_its_way():
    big = bytes(8 << 20)
    pickled = reducers.Pickled(big)
    assert any(part is big for part in pickled.chunks.pieces)


@pytest.mark.parametrize(
    "make",
    [threading.Lock, lambda: (i for i in ()), lambda: open(os.devnull), lambda: open(os.devnull, "rb"), lambda: sys._getframe()],
    ids=["lock", "generator", "text file", "binary file", "frame"],
)
def test_what_can_not_travel_is_refused_in_one_line(make):
    with pytest.raises(Exception) as caught:
        vars_bundle.pack([make()])
    assert "pickle" in vars_bundle.reason(caught.value) and "\n" not in vars_bundle.reason(caught.value)


def test_ipythons_shell_is_refused():
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    with pytest.raises(pickle.PicklingError, match="IPython's shell"):
        vars_bundle.pack({"deep": [shell.__new__(shell)]})


def test_a_failed_pack_leaves_no_descriptor_open():
    gc.collect()  # what other tests have left would close its descriptors at any time
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(TypeError):
            vars_bundle.pack(threading.Lock())
    assert len(os.listdir("/proc/self/fd")) == before


def test_standard_output_travels_as_itself():
    assert round_trip([sys.stdout])[0] is sys.stdout


# -- the limit


def test_over_the_limit_the_size_is_known():
    with pytest.raises(vars_bundle.BundleTooLarge, match="over the limit of 1 MiB") as caught:
        vars_bundle.pack(b"x" * (3 << 20), limit=1 << 20)
    assert 3 << 20 <= caught.value.size < (3 << 20) + 100 and not caught.value.at_least


def test_a_number_over_the_limit_is_refused():
    with pytest.raises(vars_bundle.BundleTooLarge, match="over the limit of 1 KiB"):
        vars_bundle.pack(1 << 100000, limit=1 << 10)


def test_an_array_over_the_limit_is_refused_by_its_size():
    numpy = pytest.importorskip("numpy")
    with pytest.raises(vars_bundle.BundleTooLarge, match=r"80\.0 MiB, over the limit of 64 MiB"):
        vars_bundle.pack(numpy.zeros(10 << 20), limit=64 << 20)


@pytest.mark.parametrize("size, text", [(0, "0 B"), (1023, "1023 B"), (1 << 20, "1 MiB"), (1536 << 10, "1.5 MiB"), (3 << 40, "3 TiB")])
def test_sizes_are_written_as_people_do(size, text):
    assert vars_bundle.human(size) == text


# -- damaged bundles


def sample():
    numpy = pytest.importorskip("numpy")
    fd, size = vars_bundle.pack({"a": numpy.arange(4096.0)})
    data = os.pread(fd, size, 0)
    os.close(fd)
    return data


def unpack_bytes(data, size=None):
    fd = os.memfd_create("test")
    try:
        os.write(fd, data)
        return vars_bundle.unpack(fd, len(data) if size is None else size)
    finally:
        os.close(fd)


def test_a_bundle_cut_anywhere_is_refused():
    data = sample()
    for cut in list(range(0, 400, 7)) + [len(data) // 2, len(data) - 1]:
        with pytest.raises(vars_bundle.BundleError):
            unpack_bytes(data[:cut])
        with pytest.raises(vars_bundle.BundleError):
            unpack_bytes(data[:cut], len(data))


def test_every_field_of_header_and_table_is_checked():
    data = sample()
    for at in list(range(0, 12)) + list(range(16, 48, 8)) + [64, 72]:
        for value in (0xFF, 0x80):
            bad = bytearray(data)
            if at < 12:
                bad[at] ^= value
            else:
                bad[at : at + 8] = struct.pack("<Q", (value << 56) | 1)
            with pytest.raises(vars_bundle.BundleError):
                unpack_bytes(bytes(bad))


def test_the_description_can_not_run_code():
    class Evil:
        def __reduce__(self):
            return os.system, ("false",)

    with pytest.raises(vars_bundle.BundleError, match="plain values"):
        vars_bundle._meta(memoryview(pickle.dumps(Evil())), 0)


# -- arrays


def test_arrays_are_writable_and_copy_on_write():
    numpy = pytest.importorskip("numpy")
    big = numpy.arange(1 << 20)
    fd, size = vars_bundle.pack(big)
    one, two = vars_bundle.unpack(fd, size), vars_bundle.unpack(fd, size)
    os.close(fd)
    one[0] = 7
    assert big[0] == 0 and two[0] == 0 and one[0] == 7 and one.flags.writeable


def test_an_array_outlives_descriptor_and_bundle():
    numpy = pytest.importorskip("numpy")
    got = round_trip({"a": numpy.ones(1 << 18), "b": 1})["a"]
    gc.collect()
    assert got.sum() == 1 << 18


@pytest.mark.parametrize("change", ["[::2]", "[:, ::3]", ".T", "[5:900]", "[::-1]"])
def test_views_come_out_equal(change):
    numpy = pytest.importorskip("numpy")
    view = eval("a" + change, {"a": numpy.random.rand(1000, 300)})
    got = round_trip(view)
    assert (got == view).all() and got.shape == view.shape and got.flags.writeable


def test_a_large_view_with_gaps_leaves_the_pickle():
    numpy = pytest.importorskip("numpy")
    pickled = reducers.Pickled(numpy.zeros((1000, 1000))[:, ::2])
    assert pickled.chunks.size < 1000 and pickled.size > 4000000


@pytest.mark.parametrize("dtype", ["f2", "f4", "c16", "?", "M8[ns]", "S7", "U5", "O", [("a", "i4"), ("b", "f8")]], ids=str)
def test_every_dtype_travels(dtype):
    numpy = pytest.importorskip("numpy")
    value = numpy.zeros(2000, dtype=dtype)
    got = round_trip(value)
    assert got.dtype == value.dtype and (got == value).all()


def test_small_arrays_stay_in_the_pickle_and_own_no_mapping():
    numpy = pytest.importorskip("numpy")
    pickled = reducers.Pickled([numpy.zeros(100), numpy.zeros(1000)])
    assert len(pickled.pieces) == 1


def test_pandas_and_its_index_come_out_equal():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": range(5000), "s": ["a", "b"] * 2500, "t": pandas.date_range("2020", periods=5000, freq="D")})
    got = round_trip(frame)
    pandas.testing.assert_frame_equal(got, frame)
    got.loc[0, "x"] = 9
    assert frame.loc[0, "x"] == 0


def test_a_fitted_estimator_predicts_the_same():
    numpy = pytest.importorskip("numpy")
    linear_model = pytest.importorskip("sklearn.linear_model")
    x = numpy.random.rand(500, 20)
    model = linear_model.LogisticRegression().fit(x, x[:, 0] > 0.5)
    assert (round_trip(model).predict(x) == model.predict(x)).all()


# -- functions and classes of the notebook, in another process


def test_a_functions_globals_are_the_other_sides_namespace(nb):
    nb.run("lr = 1\ndef f(x): return x * lr")
    assert nb.elsewhere("f", "lr = 5\nprint(f(2), f.__globals__ is globals())") == "10 True"


def test_closures_defaults_and_keywords_are_kept(nb):
    nb.run(
        "def outer(k):\n"
        "    def inner(a, b=[1], *, c={'z': 2}) -> 'int':\n        'doc'\n        return a + b[0] + c['z'] + k\n"
        "    return inner\n"
        "g = outer(10)\ng.tag = 'mine'"
    )
    assert nb.elsewhere("g", "print(g(1), g.__doc__, g.__annotations__['return'], g.tag, g.__qualname__)") == (
        "14 doc int mine outer.<locals>.inner"
    )


def test_the_name_of_a_functions_file_is_kept(nb):
    nb.run("def f():\n    def inner(): return 1\n    return inner, lambda: 2\ninner, nameless = f()")
    assert nb.elsewhere("f inner nameless", "print({g.__code__.co_filename for g in (f, *f(), inner, nameless)})") == "{'<cell>'}"


def test_functions_share_the_cell_of_their_closure(nb):
    nb.run("def make():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n    def get(): return n\n    return up, get\nup, get = make()\nup()")
    assert nb.elsewhere("up get", "up(); up(); print(get())") == "3"


def test_recursive_functions_work(nb):
    nb.run("def fact(n): return n * fact(n - 1) if n else 1\ndef make():\n    def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n    return fib\nfib = make()")
    assert nb.elsewhere("fact fib", "print(fact(5), fib(10))") == "120 55"


def test_classes_with_super_properties_and_class_attributes_work(nb):
    nb.run(
        "class A:\n    n = 1\n    def hi(self): return 'A'\n"
        "class B(A):\n    def __init__(self): super().__init__(); self.v = 3\n    def hi(self): return super().hi() + 'B'\n"
        "    @property\n    def double(self): return self.v * 2\n    @staticmethod\n    def s(): return 's'\n    @classmethod\n    def c(cls): return cls.__name__\n"
        "b = B()"
    )
    code = "print(b.hi(), b.double, b.s(), b.c(), isinstance(b, B), isinstance(b, A), type(b) is B)"
    assert nb.elsewhere("A B b", code) == "AB 6 s B True True True"


def test_dataclasses_enums_named_tuples_and_generics_work(nb):
    nb.run(
        "import dataclasses, enum, typing, collections, abc\n"
        "@dataclasses.dataclass(frozen=True)\nclass D:\n    a: int\n    b: list = dataclasses.field(default_factory=list)\n"
        "class E(enum.Enum):\n    X = 1\n    Y = 'y'\n"
        "class F(enum.IntFlag):\n    A = 1\n    B = 2\n"
        "P = collections.namedtuple('P', 'x y')\n"
        "class Q(typing.NamedTuple):\n    x: int\n    y: int = 2\n"
        "T = typing.TypeVar('T')\n"
        "class G(typing.Generic[T]):\n    def get(self) -> T: return 1\n"
        "U = typing.NewType('U', int)\n"
        "class Base(abc.ABC):\n    @abc.abstractmethod\n    def m(self): ...\n"
        "class Impl(Base):\n    def m(self): return 'm'\n"
        "d, e, f, p, q, g, i = D(1), E.Y, F.A | F.B, P(1, 2), Q(3), G[int](), Impl()\n"
    )
    code = "print(d, e, e is E.Y, int(f), p, q, g.get(), U(3), i.m(), d == D(1), isinstance(p, P))"
    assert nb.elsewhere("D E F P Q G U Base Impl d e f p q g i", code) == (
        "D(a=1, b=[]) E.Y True 3 P(x=1, y=2) Q(x=3, y=2) 1 3 m True True"
    )


def test_decorated_and_cached_functions_work(nb):
    nb.run(
        "import functools\n"
        "def deco(f):\n    @functools.wraps(f)\n    def w(*a): return f(*a) + 1\n    return w\n"
        "@deco\ndef f(x): return x\n"
        "@functools.lru_cache(maxsize=7)\ndef h(x): return x * 2\n"
        "@functools.singledispatch\ndef s(x): return 'any'\n"
        "@s.register(int)\ndef _int(x): return 'int'\n"
        "part = functools.partial(f, 1)\n"
        "class C:\n    @functools.cached_property\n    def v(self): return 5\n"
        "c = C()"
    )
    code = "print(f(1), f.__name__, h(4), h.cache_info().maxsize, s(1), s(''), part(), c.v)"
    assert nb.elsewhere("f h s part c", code) == "2 f 8 7 int any 2 5"


def test_lambdas_and_functions_in_containers_work(nb):
    nb.run("k = 2\ntable = {'a': lambda x: x + k, 'b': [lambda: 'b']}")
    assert nb.elsewhere("table k", "print(table['a'](1), table['b'][0]())") == "3 b"


def test_a_function_nested_in_a_module_keeps_that_modules_globals(nb, tmp_path, monkeypatch):
    (tmp_path / "mymod.py").write_text("import threading\nLOCK = threading.Lock()\ndef make():\n    def f():\n        with LOCK:\n            return 'in'\n    return f\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    nb.run("import mymod\nf = mymod.make()")
    assert nb.elsewhere("f mymod", "print(f(), f.__globals__ is mymod.__dict__)") == "in True"


def test_modules_travel_as_imports_with_the_submodules_in_use(nb):
    nb.run("import xml.dom.minidom\nimport xml\ndef f(): return xml.dom.minidom.parseString('<a/>').documentElement.tagName")
    assert nb.elsewhere("f xml", "print(f())") == "a"


def test_a_module_made_by_hand_travels_by_value(nb):
    nb.run("import types, sys\nm = types.ModuleType('made_by_hand')\nm.x = 4\nsys.modules['made_by_hand'] = m")
    try:
        assert nb.elsewhere("m", "print(m.x)") == "4"
    finally:
        sys.modules.pop("made_by_hand")


def test_a_class_within_a_class_keeps_its_qualified_name(nb):
    nb.run("class Outer:\n    class Inner(Exception): pass")
    assert nb.elsewhere("Outer", "print(Outer.__qualname__, Outer.Inner.__qualname__)") == "Outer Outer.Inner"


def test_a_class_is_the_same_when_it_is_shipped_again(nb):
    nb.run("class C:\n    pass\na = C()")
    fd1, size1 = nb.pack("C", "a")
    fd2, size2 = nb.pack("a")
    code = (
        "import os\nfirst, kind = a, C\n"
        f"again = vars_bundle.unpack({fd2}, {size2})['a']\nprint(type(again) is kind, type(first) is type(again))"
    )
    import subprocess

    from notebook import LOADER

    done = subprocess.run(
        [sys.executable, "-c", LOADER, str(fd1), str(size1), code], pass_fds=[fd1, fd2], capture_output=True, text=True
    )
    os.close(fd1), os.close(fd2)
    assert done.stdout.strip() == "True True", done.stderr


def test_a_class_that_comes_back_leaves_the_one_at_home_as_it_is(nb):
    nb.run("class C:\n    n = 1\na = C()")
    fd, size = nb.pack("a")
    nb.run("C.n = 2")
    got = vars_bundle.unpack(fd, size, nb.ns)["a"]
    os.close(fd)
    assert type(got) is nb.ns["C"] and got.n == 2


def test_a_method_of_an_instance_travels_with_it(nb):
    nb.run("class C:\n    def __init__(self): self.v = 1\n    def m(self): return self.v\nbound = C().m")
    assert nb.elsewhere("bound", "print(bound())") == "1"


def test_an_exception_of_the_notebook_travels(nb):
    nb.run("class Bad(ValueError):\n    def __init__(self, a, b): super().__init__(a, b); self.b = b\nerr = Bad(1, 2)")
    assert nb.elsewhere("err", "print(repr(err), err.b)") == "Bad(1, 2) 2"


def test_weak_references_and_self_reference_work(nb):
    nb.run("import weakref\nclass N: pass\nn = N()\nn.me = n\nn.ref = weakref.ref(n)\nn.dead = weakref.ref(N())\nw = weakref.WeakKeyDictionary({N: 1})")
    assert nb.elsewhere("n w", "print(n.me is n, n.ref() is n, n.dead(), list(w.values()))") == "True True None [1]"


WEAK = "import gc, weakref\nclass N:\n    pass\nclass H:\n    pass\nn, h = N(), H()\nh.ref = weakref.ref(n)"
LOADS_ANOTHER = """
from cellspan._capture import vars_bundle
class Loads:
    def __init__(self, made): self.made = made
    def __setstate__(self, state):
        fd, size = vars_bundle.pack(0)
        vars_bundle.unpack(fd, size)
        self.made = state["made"]
"""


def test_a_target_of_a_weak_reference_is_kept_only_by_who_asks_for_it(nb):
    nb.run(WEAK + LOADS_ANOTHER + "both = [h, Loads(1)]")
    fd, size = nb.pack("both")
    got = vars_bundle.unpack(fd, size, nb.ns)["both"][0]
    gc.collect()
    assert got.ref() is None, "as at home: nothing holds it"
    held = []
    with rebuild.holding(held):
        got = vars_bundle.unpack(fd, size, nb.ns)["both"][0]
    os.close(fd)
    another, more = nb.pack("h")
    vars_bundle.unpack(another, more, nb.ns)
    os.close(another)
    gc.collect()
    assert len(held) == 1 and got.ref() is held[0], "another load, within this one or after it, takes nothing away"


def test_a_rank_keeps_the_targets_of_a_variable_and_of_what_exists_for_one_cell(nb):
    nb.run(WEAK)
    names = ["h", "_cellspan_call"]
    nb.ns["_cellspan_call"] = nb.ns["h"].__class__()
    nb.run("m = N()\n_cellspan_call.ref = weakref.ref(m)")
    of = origins.Origins(nb.ns)
    for name in reversed(names):
        fd, size = nb.pack(name)
        with of.holding():
            nb.ns.update(vars_bundle.unpack(fd, size, nb.ns))
            of.came([name], fd, size)
        os.close(fd)
    h, call = nb.ns["h"], nb.ns["_cellspan_call"]
    gc.collect()
    assert h.ref() is not None and call.ref() is not None
    of.gone()
    gc.collect()
    assert h.ref() is not None and call.ref() is None, "the cell has ended"


WEAK_ONES = {
    "WeakSet": ("weakref.WeakSet([n, m])", "sorted(each.v for each in x)", "[1, 2]"),
    "WeakValueDictionary": ("weakref.WeakValueDictionary(a=n, b=m)", "sorted((k, each.v) for k, each in x.items())", "[('a', 1), ('b', 2)]"),
    "WeakKeyDictionary": ("weakref.WeakKeyDictionary({n: 'a', m: 'b'})", "sorted((each.v, w) for each, w in x.items())", "[(1, 'a'), (2, 'b')]"),
    "ref": ("[weakref.ref(n), weakref.ref(m)]", "[each().v for each in x]", "[1, 2]"),
}


@pytest.mark.parametrize("what", WEAK_ONES)
def test_a_rank_keeps_what_is_in_a_weak_collection_until_it_is_replaced(nb, what):
    make, look, wanted = WEAK_ONES[what]
    nb.run(f"{WEAK}\nn.v, m = 1, N()\nm.v = 2\nx, stays, other = {make}, [1], weakref.ref(m)")
    fd, size = nb.pack("x", "stays", "other")
    del nb.ns["n"], nb.ns["m"], nb.ns["h"]
    of = origins.Origins(nb.ns)
    with of.holding():
        nb.ns.update(vars_bundle.unpack(fd, size, nb.ns))
        of.came(["x", "stays", "other"], fd, size)
    os.close(fd)
    of.gone()
    gc.collect()
    assert str(eval(look, nb.ns)) == wanted
    seen = [weakref.ref(each) for each in (eval("[each() for each in x]" if what == "ref" else "list(x.values() if hasattr(x, 'valuerefs') else x)", nb.ns))]
    assert len(seen) == 2
    nb.run("x = 0")
    of.gone()
    gc.collect()
    kept = [each() for each in seen if each() is not None]
    assert kept == [nb.ns["other"]()] and kept[0].v == 2, "what only x led to is gone, though others of its bundle are not replaced"


def test_all_variables_of_a_bundle_together_are_looked_through_for_the_time_of_one_question(nb, monkeypatch):
    names = [f"x{k}" for k in range(9)]
    nb.run(f"{WEAK}\n" + "\n".join(f"{name} = [weakref.ref(n)]" for name in names))
    fd, size = nb.pack(*names)
    del nb.ns["n"], nb.ns["h"]
    of, walked, now = origins.Origins(nb.ns), [], [100.0]
    with of.holding():
        nb.ns.update(vars_bundle.unpack(fd, size, nb.ns))
        of.came(names, fd, size)
    os.close(fd)
    monkeypatch.setattr(origins.time, "monotonic", lambda: now[0])

    def reached(value):
        walked.append(value)
        now[0] += 0.4 * origins.LIMIT
        return [each() for each in value]

    monkeypatch.setattr(of, "_reached", reached)
    nb.run("x0 = 0")
    of.gone()
    assert len(walked) == 3
    gc.collect()
    assert nb.ns["x8"][0]() is not None


def test_the_senders_search_path_is_extended_at_the_receiver(nb, tmp_path, monkeypatch):
    (tmp_path / "faraway.py").write_text("X = 8\nclass Thing: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    nb.run("import faraway\nthing = faraway.Thing()")
    assert nb.elsewhere("thing", "print(type(thing).__module__)") == "faraway"


def test_a_search_path_that_changes_between_two_values_goes_along(monkeypatch, tmp_path):
    before = vars_bundle.pack_bytes(1)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert str(tmp_path).encode() in vars_bundle.pack_bytes(1) and str(tmp_path).encode() not in before


def test_functions_of_another_python_are_refused_in_words(monkeypatch):
    fd, size = vars_bundle.pack(lambda: 1)
    monkeypatch.setattr(vars_bundle, "same_python", lambda meta: False)
    monkeypatch.setattr(vars_bundle.pickle, "loads", lambda *a, **k: (_ for _ in ()).throw(TypeError("code() takes 3")))
    with pytest.raises(vars_bundle.BundleError, match="pickled by Python"):
        vars_bundle.unpack(fd, size)
    os.close(fd)


# -- the buffers of a call


@pytest.mark.parametrize("module", ["numpy", "torch"])
def test_nothing_holds_the_memoryviews_of_a_calls_buffers(module):
    made = pytest.importorskip(module).arange(1 << 20)
    pickled = reducers.Pickled(([made, made + 1], {"c": made[::2] + 1}))
    known = call_buffers.CallBuffers(itertools.count(1))
    rows, _ = known.split(pickled)
    sent = [reducers.Pickled(known.value(row[0])[0]) for row in rows]
    assert len(rows) == 3 and all(len(one.pieces) == 1 for one in sent)
    # Python's collector crashes on a memoryview in a cycle that another object exports; release() raises for such a one
    for piece in [*pickled.pieces, *(one.pieces[0] for one in sent)]:
        piece.view()[0].release()


def test_mpi_s_own_communicators_travel_by_name(monkeypatch, tmp_path):
    """pickle looks for the module of such a name in all modules, and may not find it."""
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").touch()
    (tmp_path / "mpi4py" / "MPI.py").write_text(
        "class Intracomm:\n    def __reduce__(self):\n        return 'COMM_WORLD'\nCOMM_WORLD = Intracomm()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("mpi4py", "mpi4py.MPI"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    mpi = importlib.import_module("mpi4py.MPI")
    assert round_trip(mpi.COMM_WORLD) is mpi.COMM_WORLD
    for name in ("mpi4py", "mpi4py.MPI"):
        del sys.modules[name]
