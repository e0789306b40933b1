# SPDX-License-Identifier: BSD-3-Clause
"""Which variables are sent with a cell, when, and why."""

import os
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cellspan import _link  # noqa: E402
from cellspan._capture import capture, fingerprints, tensors, vars_bundle  # noqa: E402
from cellspan._capture.capture import Capture, CaptureError  # noqa: E402
from notebook import Notebook  # noqa: E402


@pytest.fixture
def nb():
    notebook = Notebook()
    notebook.capture = Capture(notebook.ns)
    yield notebook
    notebook.close()


def names(nb, code, **options):
    """{name: why} of what travels."""
    return {row[0]: row[3] for row in nb.capture.names(code, **options)[0]}


def versions(nb, code, send=False):
    """{name: version}; send: what changed is packed too, as the kernel would ask."""
    rows = nb.capture.names(code)[0]
    if send and rows:
        fd, _, _ = nb.capture.pack([row[0] for row in rows])
        os.close(fd)
    return {row[0]: row[1] for row in rows}


# -- which names


def test_a_name_that_the_cell_reads_and_home_has_travels_and_says_why(nb):
    nb.run("a = 1\nb = 2")
    assert names(nb, "c = b\n\nprint(a, c, missing)") == {"b": "read in line 1", "a": "read in line 3"}


def test_pythons_and_ipythons_own_names_stay(nb):
    nb.run("In = Out = _ = __ = ___ = _i = _i3 = _ih = _oh = _dh = get_ipython = exit = quit = 1\n_12 = 5")
    code = "In, Out, _, __, ___, _i, _i3, _ih, _oh, _dh, get_ipython, exit, quit, __name__, __builtins__, print, len, _12"
    assert names(nb, code) == {"_12": "read in line 1"}


def test_a_name_of_the_users_that_hides_a_builtin_travels(nb):
    nb.run("list = [1]")
    assert names(nb, "list") == {"list": "read in line 1"}


def test_what_functions_and_classes_read_travels_with_them_however_deep(nb):
    nb.run("import math\nk = 1\ndef a(): return math.pi * k\ndef b(): return a()\nclass C:\n    def m(self): return b()\nobj = {'x': [C()]}")
    assert names(nb, "obj") == {
        "obj": "read in line 1",
        "b": "read by C.m",
        "a": "read by b",
        "math": "read by a",
        "k": "read by a",
    }


def test_what_stands_in_place_of_a_module_ends_no_cell(nb, monkeypatch):
    for odd in (object(), 7):
        monkeypatch.setitem(sys.modules, "odd", odd)
        nb.run("C = type('C', (), {'__module__': 'odd'})")
        nb.capture.names("C()")
        nb.capture.names("C()")


def test_a_syntax_error_captures_nothing_and_is_not_ours_to_report(nb):
    nb.run("a = 1")
    assert nb.capture.names("a (") == ([], [])


ODD = {
    "its __getattr__ raises no AttributeError":
        "class Odd:\n    def __getattr__(self, name): raise KeyError(name)\n    def __call__(self): pass\nodd = Odd()",
    "it is a proxy of what can't be made":
        "class Odd:\n    @property\n    def __class__(self): raise OSError('unbound')\nodd = Odd()",
    "its __getattribute__ knows no __module__":
        "class Odd:\n    def __getattribute__(self, name):\n        if name == '__module__': raise OSError('no')\n"
        "        return object.__getattribute__(self, name)\nodd = Odd()",
    "its metaclass compares nothing":
        "class Meta(type):\n    def __eq__(self, other): raise OSError('never')\n    def __hash__(self): return id(self)\n"
        "class Odd(metaclass=Meta): pass\nodd = Odd()",
    "it is open()":
        "class Odd:\n    def __getattr__(self, name): raise KeyError(name)\nodd = open = Odd()",
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("code", ["odd = 1", "odd", "use()", "if a: odd = 1", "odd, open = 1, 2"])
def test_an_odd_object_ends_no_cell(nb, make, code):
    nb.run(f"a = 1\n{make}\ndef use(): return odd, a")
    for options in ({}, {"only": "odd"}):
        rows, warnings = nb.capture.names(code, **options)
        assert all(text.startswith("odd was not sent: ") for text in warnings)
        if code == "use()" and not options:
            assert "use" in [row[0] for row in rows] and "a" in [row[0] for row in rows]
    nb.run("odd = odd")
    nb.capture.ran("odd = odd", True)
    nb.capture.names(code)


def test_none_means_none(nb):
    nb.run("a = 1")
    assert nb.capture.names("a", none=True) == ([], [])


def test_named_names_travel_alone_but_for_the_code_that_they_need(nb):
    nb.run("data = [1]\ndef h(): return data\ndef f(): return h()\nother = 3")
    assert names(nb, "other", only=["f"]) == {"f": "named by --capture", "h": "read by f"}
    assert set(names(nb, "", only="data, f")) == {"data", "f", "h"}


def test_the_namespace_itself_does_not_travel(nb):
    nb.run("g = globals()")
    rows, warnings = nb.capture.names("g")
    assert rows == [] and warnings == ["g was not sent: it is the notebook's namespace itself (name the values that are needed)"]


# -- what does not pickle


def test_what_does_not_pickle_is_left_out_with_one_line(nb):
    nb.run("import threading\nlock = threading.Lock()\na = 1\nunused = lock")
    rows, warnings = nb.capture.names("lock, a")
    assert [r[0] for r in rows] == ["a"]
    assert warnings == ["lock was not sent: cannot pickle '_thread.lock' object"]


def test_what_functions_import_that_the_cell_may_call_is_known(nb):
    nb.run("def a():\n    import one.more\n    def inner(): from two import x\ndef b(): return a()\nclass C:\n    def m(self):\n        import three\nobj = {'x': [C()]}")
    nb.run("def other(): import four")
    nb.capture.names("b()")
    assert nb.capture.imports == {"one", "two"}
    nb.capture.names("obj")
    assert nb.capture.imports == {"three"}
    nb.capture.function((nb.ns["b"], (), {}), 1 << 20)
    assert nb.capture.imports == {"one", "two"}


def test_a_lock_within_a_function_is_named_by_the_name_that_was_read(nb):
    nb.run("import threading\ndef make():\n    lock = threading.Lock()\n    return lambda: lock\nf = make()")
    assert nb.capture.names("f()")[1] == ["f was not sent: lock in f: cannot pickle '_thread.lock' object"]


def test_a_named_name_that_can_not_be_sent_is_an_error(nb):
    nb.run("import threading\nlock = threading.Lock()")
    assert [r[0] for r in nb.capture.names("", only=["lock"])[0]] == ["lock"]
    with pytest.raises(CaptureError, match="lock was not sent: cannot pickle '_thread.lock' object"):
        nb.capture.pack(["lock"])


def test_a_named_name_that_is_not_there_is_an_error(nb):
    assert [r[0] for r in nb.capture.names("", only=["nope"])[0]] == ["nope"]
    with pytest.raises(CaptureError, match="home has no variable nope"):
        nb.capture.pack("nope")


def test_endless_nesting_is_refused_in_words(nb):
    nb.run("x = []\nfor _ in range(100000): x = [x]")
    assert "x was not sent" in nb.capture.names("x")[1][0]


def test_more_than_the_limit_is_refused_with_the_list_of_sizes(nb):
    nb.run("big = b'x' * (3 << 20)\nsmall = 'y' * 10000")
    nb.capture.limit = 1 << 20
    assert nb.capture.names("big, small")[0][0][2] >= 3 << 20
    with pytest.raises(CaptureError, match=r"more than CELLSPAN_CAPTURE_LIMIT \(1 MiB\): big 3\.0 MiB, small 9\.8 KiB"):
        nb.capture.pack("big,small")


@pytest.mark.parametrize("text, size", [("", 4 << 30), ("100", 100), ("2K", 2048), ("1.5 GiB", 1610612736), ("4GB", 4 << 30), ("much", 4 << 30)])
def test_the_limit_is_read_as_people_write_it(monkeypatch, text, size):
    monkeypatch.setenv("CELLSPAN_CAPTURE_LIMIT", text)
    assert _link.capture_limit() == size


# -- versions


@pytest.mark.parametrize(
    "make, change",
    [
        ("x = 1", "x = 2"),
        ("x = 1", "x = True"),
        ("x = 1.0", "x = 1"),
        ("x = 'a'", "x = 'b'"),
        ("x = [1, [2]]", "x[1].append(3)"),
        ("x = {'a': 1}", "x['a'] = 2"),
        ("x = b'x' * 100000", "x = b'x' * 99999 + b'y'"),
        ("def x(): return 1", "def x(): return 2"),
        ("def x(a=1): return a", "def x(a=2): return a"),
        ("class x: v = 1", "x.v = 2"),
        ("class C: pass\nx = C()\nx.a = 1", "x.a = 2"),
        ("import math as x", "import json as x"),
        ("def m(n): return lambda: n\nx = m(1)", "x = m(2)"),
        ("x = 0.0", "x = -0.0"),
    ],
)
def test_a_version_changes_when_the_value_does_and_only_then(nb, make, change):
    nb.run(make)
    first = versions(nb, "x", send=True)["x"]
    assert versions(nb, "x")["x"] == first
    nb.run(change)
    second = versions(nb, "x")["x"]
    assert second != first
    assert versions(nb, "x")["x"] == second


@pytest.mark.parametrize("count", [10, 1000, 1 << 20])
def test_an_array_of_any_size_is_compared_by_content(nb, count):
    pytest.importorskip("numpy")
    nb.run(f"import numpy\nx = numpy.zeros({count})")
    first = versions(nb, "x", send=True)
    assert versions(nb, "x") == first
    nb.run("x[-1] = 1")
    second = versions(nb, "x", send=True)
    assert second != first
    nb.run("x = x.copy()")
    assert versions(nb, "x") == second


def test_a_view_with_gaps_is_compared_too(nb):
    pytest.importorskip("numpy")
    nb.run("import numpy\nbase = numpy.zeros((1000, 1000))\nx = base[:, ::2]")
    first = versions(nb, "x", send=True)
    assert versions(nb, "x") == first
    nb.run("base[0, 1] = 1")
    assert versions(nb, "x") == first
    nb.run("base[0, 0] = 1")
    assert versions(nb, "x") != first


def test_a_name_that_was_deleted_and_made_again_is_new(nb):
    nb.run("x = [1]")
    first = versions(nb, "x", send=True)
    nb.run("del x")
    assert versions(nb, "x") == {}
    nb.run("x = [1]")
    assert versions(nb, "x") != first


def test_what_a_call_brings_is_new_each_time(nb):
    nb.run("_cellspan_call1 = (1,)")
    assert versions(nb, "_cellspan_call1", send=True) != versions(nb, "_cellspan_call1")


def test_a_package_changes_when_another_of_its_submodules_is_read(nb):
    nb.run("import xml.dom.minidom")
    first = versions(nb, "xml")
    assert versions(nb, "xml.dom.minidom") != first


# -- what the ranks assign themselves


def test_what_the_cell_only_assigns_is_known_to_the_ranks_from_then_on(nb):
    nb.run("x = 1")
    rows, warnings = nb.capture.names("x = 5")
    assert [(r[0], r[3]) for r in rows] == [("x", "assigned by the cell")] and warnings == []
    assert versions(nb, "x") == {"x": rows[0][1]}


def test_what_is_large_or_code_and_assigned_for_certain_stays_at_home(nb):
    nb.run("big = 'x' * 1000000\nsmall = [1]\ndef f(): return big\nimport threading\nlock = threading.Lock()")
    code = "big = 1\nsmall = 2\nlock = 3\ndef f(): pass"
    rows, warnings = nb.capture.names(code)
    assert [r[0] for r in rows] == ["small"] and warnings == []
    known = dict(nb.capture.assigned(code))
    assert set(known) == {"big", "lock", "f"} and versions(nb, "big")["big"] == known["big"]


@pytest.mark.parametrize("options", [{"none": True}, {"only": ["other"]}])
def test_what_the_cell_assigns_is_known_whatever_is_captured(nb, options):
    nb.run("x = 1\nother = 2")
    rows, _ = nb.capture.names("x = 5\nif y: other = 3", **options)
    assert "x" not in [r[0] for r in rows] and [n for n, _ in nb.capture.assigned()] == ["x"]


def test_a_large_value_that_only_some_ranks_assign_travels(nb):
    nb.run("big = 'x' * 1000000")
    rows, _ = nb.capture.names("import os\nif os.environ['RANK'] == '0': big = 1")
    assert rows[0][0] == "big" and rows[0][2] > 1000000
    fd, size, _ = nb.capture.pack("big")
    assert size > 1000000
    os.close(fd)


def test_what_a_function_assigns_is_known_to_the_ranks_too(nb):
    nb.run("model = 1\ndef setup():\n    global model\n    model = 2")
    assert names(nb, "setup()") == {"setup": "read in line 1", "model": "assigned by the cell"}


def test_what_is_assigned_and_does_not_pickle_is_no_matter(nb):
    nb.run("import threading\nlock = threading.Lock()")
    assert nb.capture.names("lock = 1") == ([], [])
    assert nb.capture.names("if a: lock = 1") == ([], [])


# -- memory


def test_the_first_look_at_a_large_array_reads_nothing_of_it(nb):
    numpy = pytest.importorskip("numpy")
    nb.run("import numpy\nx = numpy.zeros(4 << 20)")
    looked = []
    real = capture.reducers.Piece.view
    try:
        capture.reducers.Piece.view = lambda self: looked.append(self.nbytes) or real(self)
        versions(nb, "x")
    finally:
        capture.reducers.Piece.view = real
    assert looked == [] and numpy


def test_bundles_that_nobody_compares_with_are_let_go(nb):
    pytest.importorskip("numpy")
    nb.run("import numpy\nx = numpy.zeros(1 << 20)")
    before = len(os.listdir("/proc/self/fd"))
    for n in range(20):
        nb.run(f"x[0] = {n}")
        versions(nb, "x", send=True)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    nb.run("del x")
    versions(nb, "1")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_large_bundle_is_not_kept_for_the_sake_of_a_small_array(nb):
    pytest.importorskip("numpy")
    nb.run("import numpy\nbig = numpy.zeros(8 << 20)\nsmall = numpy.zeros(1 << 14)")
    before = len(os.listdir("/proc/self/fd"))
    versions(nb, "big, small", send=True)
    nb.run("big[0] = 1")
    versions(nb, "big", send=True)
    assert len(os.listdir("/proc/self/fd")) == before + 1


@pytest.mark.parametrize("size", [1, fingerprints.STEP - 1, fingerprints.STEP, fingerprints.STEP + 1, 3 * fingerprints.STEP + 5])
def test_a_bundles_bytes_are_compared_to_the_last(size):
    data = os.urandom(size)
    fd = os.memfd_create("test")
    os.pwrite(fd, data, 100)
    sent = fingerprints.Sent(fd, 100 + size)
    os.close(fd)
    assert sent.equals(100, memoryview(data))
    for at in {0, size // 2, size - 1}:
        other = bytearray(data)
        other[at] ^= 1
        assert not sent.equals(100, memoryview(other))
    assert not sent.equals(101, memoryview(data))


# -- sharing


@pytest.fixture
def training(nb):
    pytest.importorskip("torch")
    nb.run("import torch\nmodel = torch.nn.Linear(600, 600)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)\nother = torch.ones(600)")
    return nb


def test_a_model_and_its_optimizer_travel_together(training):
    nb = training
    first = versions(nb, "model, opt, other", send=True)
    nb.run("opt.param_groups[0]['lr'] = 0.5")
    rows, warnings = nb.capture.names("opt, other")
    now, why = {r[0]: r[1] for r in rows}, {r[0]: r[5] for r in rows}
    assert now["opt"] != first["opt"] and now["other"] == first["other"]
    assert now["model"] == first["model"] and why["model"] == _link.CAPTURED_TIED  # it goes to the ranks that opt goes to
    assert warnings == ["model is sent again with opt, which changed: they share memory"]
    nb.run("opt = torch.optim.SGD(model.parameters(), lr=0.1)\nfresh = list(model.parameters())")
    assert nb.capture.names("opt")[1] == ["model is sent again with opt, which home has assigned: they share memory"]
    os.close(nb.capture.pack("model,opt")[0])
    lines = nb.capture.names("fresh")[1]
    assert lines and all("with fresh, which is new to the ranks" in line for line in lines)


def test_sharing_is_kept_in_the_bundle(training):
    nb = training
    fd, size, _ = nb.capture.pack("model,opt")
    got = vars_bundle.unpack(fd, size, nb.ns)
    os.close(fd)
    assert got["opt"].param_groups[0]["params"][0] is got["model"].weight


def test_an_unchanged_pair_is_not_sent_again(training):
    nb = training
    first = versions(nb, "model, opt", send=True)
    assert versions(nb, "model, opt") == first
    assert versions(nb, "opt")["opt"] == first["opt"]


def test_a_step_at_home_is_noticed(training):
    nb = training
    first = versions(nb, "model, opt", send=True)
    nb.run("model(other).sum().backward(); opt.step()")
    now = versions(nb, "model, opt")
    assert now["model"] != first["model"]


def test_capture_survives_other_threads_of_the_user(nb):
    nb.run("x = {}")
    stop = threading.Event()

    def grow():
        n = 0
        while not stop.is_set():
            nb.ns["x"][n % 100] = n
            n += 1

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        for _ in range(50):
            nb.capture.names("x")
    finally:
        stop.set()
        thread.join()


def test_what_lies_on_a_gpu_is_counted(nb, monkeypatch):
    torch = pytest.importorskip("torch")
    nb.ns.update(x=torch.ones(1000), y=torch.ones(3, dtype=torch.float64), z="text")
    fd, _, on_gpu = nb.capture.pack("x,y,z")
    os.close(fd)
    assert on_gpu == 0
    monkeypatch.setattr(tensors.Storage, "device", "cuda")
    fd, _, on_gpu = nb.capture.pack("x,y,z")
    os.close(fd)
    assert on_gpu == 4024


def test_an_integer_of_more_digits_than_repr_writes_travels(nb):
    nb.ns["n"] = 10**5000
    assert versions(nb, "n", send=True) == versions(nb, "n")
    nb.ns["n"] += 1
    assert versions(nb, "n") != {}
