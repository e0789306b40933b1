# SPDX-License-Identifier: BSD-3-Clause
"""Variables whose new value home can't send: no cell computes with the value that ranks had before."""

from __future__ import annotations

import pytest
from client import rank_values


@pytest.fixture(scope="module", autouse=True)
def started(shared_notebook):
    shared_notebook.get().ok("%%distribute -n 2\nimport os\nrank = int(os.environ['RANK'])", limit=120)


CLASS = "import threading\nclass Net:\n    def __init__(self, n):\n        self.n = n\n"
UNSENDABLE = {
    "an open file": ("v = Net(2); v.log = open('/dev/null', 'w')", "v.log: cannot pickle an open file (/dev/null)"),
    "a coroutine": ("async def later():\n    pass\nv = [later()]", "v[0]: cannot pickle the coroutine of later(), which has no value yet: send what await"),
    "the value itself": ("v = threading.Lock()", "cannot pickle '_thread.lock' object"),
    "in place": ("v.parts = {'a': [1, threading.Lock()]}", "v.parts['a'][1]: cannot pickle '_thread.lock' object"),
    "in the class": ("Net.lock = threading.Lock()", "Net.lock: cannot pickle '_thread.lock' object"),
    "by an error of its own": ("class Bad:\n    def __getstate__(self):\n        raise KeyError('key')\nv = [Bad()]", "v[0]: KeyError: 'key'"),
    "without sense": ("class Bad:\n    def __reduce__(self):\n        return 5\nv = (Bad(),)", "v[0]: __reduce__ must return a string or tuple"),
    "too deep": ("v = []\nfor _ in range(100000):\n    v = [v]", "it is nested too deeply"),
}


@pytest.mark.parametrize("what", UNSENDABLE)
def test_a_cell_whose_text_reads_it_fails_before_it_runs_and_names_the_part(nb, what):
    change, part = UNSENDABLE[what]
    nb.ok(CLASS + "v = Net(1)")
    nb.ok("%%distribute -n 2\nv.n")
    nb.ok(change)
    ran = nb.run("%%distribute -n 2\nprint('ran')\nv.n").assert_error("CaptureError")
    assert "ran" not in ran.stdout
    assert ran.error["evalue"].startswith("v can't be sent, and ranks 0-1 have home's earlier value of it: " + part), ran.error["evalue"]
    assert rank_values(nb, "v.n", 2, "--no-capture") == [1, 1], "the way that the error names"
    nb.ok("v = Net(3); vars(Net).get('lock') and delattr(Net, 'lock')")
    assert rank_values(nb, "v.n", 2) == [3, 3]


def test_what_a_rank_has_bound_itself_stays(nb):
    nb.ok("import threading\nown = 1")
    nb.ok("%%distribute -n 2\nown")
    nb.ok("%%distribute -r 0\nown = 7")
    nb.ok("own = threading.Lock()")
    assert nb.ok("%%distribute -r 0\nown").value == "7"
    ran = nb.run("%%distribute\nown").assert_error("CaptureError")
    assert "rank 1 has home's earlier value" in ran.error["evalue"]
    nb.ok("%%distribute\nown = 8 + rank")
    assert rank_values(nb, "own", 2) == [8, 9]


@pytest.mark.parametrize("call", ["%%distribute -n 2\nlook()", "import cellspan\ncellspan.run(look, n=2)", "%%distribute -n 2\ndef through():\n    return look()\nthrough()"])
def test_a_name_that_only_a_function_reads_is_deleted_and_the_error_says_why(nb, call):
    nb.ok("import threading\nseen = mine = 1\ndef look(which=True):\n    return seen if which else mine")
    nb.ok("%%distribute -n 2\nlook()")
    nb.ok("%%distribute -n 2\nmine = rank")
    nb.ok("seen, mine = {'a': threading.Lock()}, threading.Lock()")
    ran = nb.run(call).assert_error("NameError")
    assert ran.reply["traceback"][-1] == ("home's seen can't be sent (seen['a']: cannot pickle '_thread.lock' object), and its earlier value "
                                          "was deleted here"), ran.shown
    assert "seen was not sent" in ran.stderr
    nb.run(call).assert_error("NameError")
    assert rank_values(nb, "look(False)", 2) == [0, 1], "what ranks have bound stays"
    nb.ok("seen = 2")
    assert rank_values(nb, "look()", 2) == [2, 2]


def test_a_cell_fails_if_nobody_knows_whether_the_ranks_have_changed_it(nb):
    """So much text is not compared."""
    nb.ok("import threading\nlong = 'x' * (65 << 20)\ndef measured():\n    return len(long) >> 20")
    assert rank_values(nb, "measured()", 2) == [65, 65]
    nb.ok("long = threading.Lock()")
    for _ in range(2):
        ran = nb.run("%%distribute -n 2\nmeasured()").assert_error("CaptureError")
        assert "home's long can't be sent" in ran.error["evalue"] and "is not known" in ran.error["evalue"], ran.error["evalue"]
    assert rank_values(nb, "measured()", 2, "--no-capture") == [65, 65], "the way that the error names"
    nb.ok("%%distribute -n 2\nlong = 'mine'")
    assert rank_values(nb, "measured()", 2) == [0, 0]


def test_what_ranks_never_had_is_not_sent_and_a_line_says_so(nb):
    nb.ok("import threading\nlock = [threading.Lock()]")
    ran = nb.ok("%%distribute -n 2\nprint('lock' in globals(), [None for _ in () if lock])")
    assert "False" in ran.stdout and "lock was not sent: lock[0]: cannot pickle" in ran.stderr
    for code in ("%%distribute -n 2\nprint(lock)", "import cellspan\ncellspan.run(lambda: len(lock))", "list(cellspan.map(lambda i: lock, [1]))"):
        ran = nb.run(code).assert_error("NameError")
        assert ran.traceback.splitlines()[-1] == "home's lock can't be sent (lock[0]: cannot pickle '_thread.lock' object)", ran.shown


def test_what_can_no_longer_be_sent_is_deleted_on_ranks_with_home(nb):
    nb.ok("import threading\ngone = 1\ndef reads():\n    return gone")
    nb.ok("%%distribute -n 2\ngone")
    nb.ok("gone = threading.Lock()")
    nb.run("%%distribute -n 2\ngone").assert_error("CaptureError")
    nb.ok("del gone")
    ran = nb.run("%%distribute -n 2\ngone").assert_error("NameError")
    assert "gone was deleted at home" in ran.traceback


FAILS = "class Half:\n    def __reduce__(self): return int, ('x',)\n"
NOT_LOADED = {
    "a part": ("v = [1, {'a': Half()}]", "v[1]['a']", ""),
    "an attribute": ("class Net: pass\nv = Net(); v.parts = (Half(),)", "v.parts[0]", ""),
    "by an error of its own": ("class Own:\n    def __getstate__(self): return {}\n    def __setstate__(self, state): raise ValueError('no')\nv = Own()", "v",
                               "in __setstate__"),
}


@pytest.mark.parametrize("what", NOT_LOADED)
def test_a_value_that_does_not_load_is_named_without_frames_of_ours(nb, what):
    make, part, frame = NOT_LOADED[what]
    nb.ok(FAILS + make)
    ran = nb.run("%%distribute -n 2\nprint('ran')\nv").assert_error("LoadError")
    assert ran.error["evalue"].startswith(part + " can't be loaded here: ValueError: "), ran.error
    assert "cellspan/_" not in ran.shown and frame in ran.shown and "ran" not in ran.stdout, ran.shown
    nb.ok("v = 5")
    assert rank_values(nb, "v", 2) == [5, 5]


def test_what_does_not_load_of_a_call_is_named(nb):
    nb.ok(FAILS + "import cellspan\nv = {'a': Half()}")
    for call, part in (("cellspan.run(abs, v, n=2)", "['a'] of argument 0"), ("cellspan.run(dict, n=2, args=v)", "['a'] of argument args"),
                       ("cellspan.map(abs, [1, v], n=2)", "map(): ['a'] of item 1")):
        ran = nb.run(call).assert_error("TypeError")
        assert ran.error["evalue"].startswith(part + " can't be loaded here: ValueError: invalid literal"), ran.error
        assert "cellspan/_" not in ran.shown, ran.shown


def test_a_module_that_ranks_lack_is_named_without_frames_of_ours(nb):
    nb.ok("import importlib.machinery, sys, types\nm = types.ModuleType('only_at_home')\nm.__spec__ = importlib.machinery.ModuleSpec('only_at_home', None)\n"
          "class K: pass\nK.__module__ = 'only_at_home'; m.K = K; sys.modules['only_at_home'] = m\nk = K()\ndel m, K")
    ran = nb.run("%%distribute -n 2\nk").assert_error("ModuleNotFoundError")
    assert ran.error["evalue"] == "No module named 'only_at_home'" and "cellspan/_" not in ran.shown, ran.shown


def test_arrays_of_ctypes_travel(nb):
    nb.ok("import ctypes\nc = (ctypes.c_int * 3)(1, 2, 3)")
    assert rank_values(nb, "(list(c), type(c) is ctypes.c_int * 3)", 2) == [([1, 2, 3], True)] * 2


CTYPES = {
    "a library": ("v = ctypes.CDLL(None); v.abs(1); v.atof.argtypes, v.atof.restype = [ctypes.c_char_p], ctypes.c_double",
                  "(v.abs(-3), v.atof(b'2.5'), v is not None)", (3, 2.5, True)),
    "a library with errno": ("v = ctypes.CDLL(None, use_errno=True)", "(v.close(-1), ctypes.get_errno())", (-1, 9)),
    "a type of functions": ("v = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)", "(v(lambda n: n + 1)(1), v is ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int))", (2, True)),
    "a type of pointers": ("v = ctypes.POINTER(ctypes.c_int)", "v is ctypes.POINTER(ctypes.c_int)", True),
    "a structure": ("class P(ctypes.Structure):\n    _fields_ = [('x', ctypes.c_int), ('y', ctypes.c_double * 2)]\nv = P(1, (2, 3))", "(v.x, list(v.y), type(v) is P)", (1, [2.0, 3.0], True)),
    "a packed structure": ("class Q(ctypes.Structure):\n    _pack_ = 1\n    _layout_ = 'ms'\n    _fields_ = [('x', ctypes.c_char), ('y', ctypes.c_int)]\nv = Q(b'a', 2)",
                           "(v.x, v.y, ctypes.sizeof(v))", (b"a", 2, 5)),
    "a class of numbers": ("class M(ctypes.c_int): pass\nv = M(4)", "(v.value, type(v) is M)", (4, True)),
    "a structure in the other byte order": ("class O(ctypes.BigEndianStructure):\n    _fields_ = [('x', ctypes.c_int)]\nv = O(3)", "(v.x, bytes(v))", (3, bytes([0, 0, 0, 3]))),
    "a union": ("class U(ctypes.Union):\n    _fields_ = [('x', ctypes.c_int), ('y', ctypes.c_ubyte)]\nv = (U * 2)(U(1), U(2))", "[u.y for u in v]", [1, 2]),
    "a list of itself": ("class N(ctypes.Structure): pass\nN._fields_ = [('x', ctypes.c_int), ('next', ctypes.POINTER(N))]\nv = N", "(v(5).x, bool(v(5).next))", (5, False)),
}


@pytest.mark.parametrize("what", CTYPES)
def test_libraries_and_types_of_ctypes_travel(nb, what):
    code, reads, there = CTYPES[what]
    nb.ok("import ctypes\n" + code)
    assert rank_values(nb, reads, 2) == [there] * 2


@pytest.mark.parametrize("code, why", [
    ("v = ctypes.CDLL(None).abs", "a C function of ctypes can't be sent; send its library, or make the function in the cell"),
    ("v = ctypes.CFUNCTYPE(None)(print)", "a C function of ctypes can't be sent; "),
    ("v = ctypes.pointer(ctypes.c_int(3))", "a ctypes LP_c_int that holds a pointer can't be sent; send the data, and make it in the cell"),
    ("v = ctypes.c_char_p(b'text')", "a ctypes c_char_p that holds a pointer can't be sent; "),
    ("class P(ctypes.Structure):\n    _fields_ = [('text', ctypes.c_char_p)]\nv = P(b'text')", "a ctypes P that holds a pointer can't be sent; "),
])
def test_a_pointer_of_ctypes_is_named_and_the_error_says_what_to_do(nb, code, why):
    nb.ok("import ctypes\nv = 1")
    nb.ok("%%distribute -n 2\nv")
    nb.ok(code)
    ran = nb.run("%%distribute -n 2\nv").assert_error("CaptureError")
    assert ran.error["evalue"].startswith("v can't be sent, and ranks 0-1 have home's earlier value of it: " + why), ran.error["evalue"]


def test_a_structure_and_a_library_of_another_folder_are_sent_again(nb, tmp_path):
    (tmp_path / "half.c").write_text("double half(int n) { return n / 2.0; }")
    nb.ok("import ctypes, os, subprocess\nbefore = os.getcwd(); os.chdir(%r)\nsubprocess.run('cc -shared -fPIC -o half.so half.c', shell=True, check=True)\n"
          "class S(ctypes.Structure):\n    _fields_ = [('x', ctypes.c_int)]\nv = [S(1)]; lib = ctypes.CDLL('./half.so'); lib.half.restype = ctypes.c_double" % str(tmp_path))
    try:
        assert rank_values(nb, "(lib.half(5), v[0].x)", 2) == [(2.5, 1)] * 2
        nb.ok("v = [S(2), S(3)]")
        assert rank_values(nb, "[s.x for s in v]", 2) == [[2, 3]] * 2
        nb.ok("v[0].x = 4; lib.half.argtypes = [ctypes.c_int]")
        assert rank_values(nb, "([s.x for s in v], lib.half(3))", 2) == [([4, 3], 1.5)] * 2, "a change in place"
    finally:
        nb.ok("os.chdir(before)")
