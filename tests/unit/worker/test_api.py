# SPDX-License-Identifier: BSD-3-Clause
"""cellspan from Python, with a home that only records the messages to the kernel."""

import contextlib
import importlib.util
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import cellspan  # noqa: E402
from cellspan import _api, _client, _link  # noqa: E402
from cellspan._base import own_code  # noqa: E402
from cellspan._base.errors import with_article  # noqa: E402
from cellspan._capture import vars_bundle  # noqa: E402
from cellspan._capture.capture import Capture  # noqa: E402
from cellspan._capture.lent import seen  # noqa: E402


class FakeHome:
    """Does what kernel and one rank would do, in this process: captures, ships, runs the function or the body, binds --into."""

    def __init__(self):
        self.shell = types.SimpleNamespace(user_ns=sys.modules["__main__"].__dict__)
        self.capture = Capture(self.shell.user_ns)
        self.rank = {"__name__": "__main__"}
        self.lines = []
        self.answer = {}
        self.small = 1 << 20  # bytes of a call that goes along

    def may_call(self):
        pass

    def captures(self):
        return self.capture

    def working(self):
        return contextlib.nullcontext()

    def function(self, fn, args, kw, on=False):
        rows, _, load, _ = self.capture.function((fn, args, kw), self.small)
        return None if load is None else {"names": [row[0] for row in rows], "load": load}

    def call(self, text, flags=0, function=None, gather=False, lent=None):
        line, _, body = text.partition("\n")
        self.lines.append(line)
        if function:
            self._ship(function["names"])
            fn, args, kw = vars_bundle.unpack_bytes(function["load"], self.rank)
            return dict(self.answer), fn(*args, **kw)
        words = dict(w[2:].split("=", 1) for w in line.split() if w.startswith("--") and "=" in w)
        into = words.get("into", "").strip("'")
        if line.startswith("%%distribute"):
            rows, _ = self.capture.names(body)
            self._ship([r[0] for r in rows])
            return dict(self.answer), eval(body, self.rank)
        elif line.startswith("%pull"):
            self.shell.user_ns[into] = self.rank[line.split()[1]]
        elif line.startswith("%push"):
            number = lent.call = len(self.lines)
            seen(self.capture, number, number, self._push, [w for w in line.split()[1:] if not w.startswith("-")])
        return dict(self.answer), None

    def _push(self, names):
        self.rank.update({name: self.capture.values[name] for name in names})

    def _ship(self, names):
        fd, size, _ = self.capture.pack(names)
        self.rank.update(vars_bundle.unpack(fd, size, self.rank))
        os.close(fd)


@pytest.fixture
def home(monkeypatch):
    before = dict(sys.modules["__main__"].__dict__)
    home = FakeHome()
    own_code.begin()
    monkeypatch.setitem(sys.modules, "cellspan._worker.home", types.SimpleNamespace(current=home))
    yield home
    assert not [name for name in home.shell.user_ns if name.startswith("_cellspan")]
    home.shell.user_ns.clear()
    home.shell.user_ns.update(before)


def test_what_pip_installs_is_what_the_programs_look_for():
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    with open(os.path.join(top, "worker", "python", "requirements.txt"), encoding="utf-8") as file:
        wanted = [line.strip() for line in file if not line.startswith(("#", "debugpy"))]
    assert sorted(_link.needs().values()) == sorted(wanted)


@pytest.mark.parametrize("lacking", [*sorted(_link.needs()), "traitlets"])
def test_a_worker_without_a_package_says_the_line_that_installs_what_it_needs(lacking):
    code = (
        "import sys\nfrom cellspan._worker.__main__ import main\nclass Lacks:\n    def find_spec(self, name, *rest):\n"
        f"        if name == 'cellspan._worker.home': raise ModuleNotFoundError(name={lacking!r})\n"
        "sys.meta_path.insert(0, Lacks())\nmain(['', 'home', '0'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    line = " ".join(f'"{package}"' for package in _link.needs().values())
    assert f"has no {lacking}: install it there ({sys.executable} -m pip install {line})" in done.stderr, done


@pytest.mark.parametrize("lacking", sorted(_client.NEEDS))
def test_outside_a_notebook_a_missing_package_is_named_with_the_line_that_installs_it(monkeypatch, lacking):
    monkeypatch.delitem(sys.modules, "cellspan._worker.home", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == lacking else name)
    wanted = re.escape(f'-m pip install "{_client.NEEDS[lacking]}"')
    with pytest.raises(_api.NotAtHomeError, match=wanted):
        cellspan.run(print)
    with pytest.raises(_api.NotAtHomeError, match=wanted):
        cellspan.group()


def test_outside_a_notebook_a_missing_kernel_is_told(monkeypatch):
    monkeypatch.delitem(sys.modules, "cellspan._worker.home", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(_api.NotAtHomeError, match="cellspan-kernel is neither in"):
        cellspan.run(print)


def test_run_gives_the_functions_value_and_leaves_no_names(home):
    exec("k = 10\ndef f(a, b=1): return a + b + k", home.shell.user_ns)
    assert cellspan.run(home.shell.user_ns["f"], 5, b=7, n=2) == 22
    assert home.lines == ["%%distribute --nproc='2'"]
    assert "k" in home.rank and not [name for name in home.rank if name.startswith("_cellspan")]


def test_a_large_call_is_a_variable_for_as_long_as_it_lasts(home):
    home.small = 100
    assert cellspan.run(len, b"x" * 1000) == 1000
    assert not [name for name in home.rank if name.startswith("_cellspan")]


def test_the_same_call_twice_is_shipped_twice(home):
    home.small = 0
    assert [cellspan.run(abs, -3), cellspan.run(abs, -3)] == [3, 3]


def test_calls_within_calls_have_names_of_their_own(home):
    assert cellspan.run(lambda x: x, cellspan.run(abs, -3)) == 3
    with _api._Slot() as one, _api._Slot() as two:
        assert one != two


def test_options_stand_on_the_line_quoted(home):
    options = dict(n=4, ranks=[0, -1], merge="raw", init=True, env={"A": "b c", "D": "it's"}, cwd="/a b", timeout=1.5, grace="10s", seed=0)
    cellspan.run(abs, 1, fresh=True, gather=True, **options)
    assert home.lines[0] == (
        "%%distribute --nproc='4' --ranks='0,-1' --merge='raw' --gather --init --env 'A=b c' --env \"D=it's\" --cwd='/a b'"
        " --seed='0' --timeout='1.5' --grace='10s' --fresh"
    )


@pytest.mark.parametrize("seed", [-1, 1 << 64, 1.0, "1", True, False])
def test_a_seed_is_a_number(home, seed):
    for call in (lambda: cellspan.run(abs, 1, seed=seed), lambda: cellspan.call(abs, (1,), seed=seed), lambda: cellspan.map(abs, [1], seed=seed)):
        with pytest.raises(ValueError, match=f"seed={seed!r}: a seed is a whole number from 0 to 18446744073709551615"):
            call()
    assert not home.lines


def test_a_seed_that_may_be_meant_for_the_function_is_an_error_that_names_both_ways(home):
    def train(seed=0):
        """"""

    for function in (train, lambda **hyperparameters: 1):
        with pytest.raises(TypeError, match="kwargs={'seed': 3}.* seed=3. for the ranks"):
            cellspan.run(function, seed=3)
    assert not home.lines
    cellspan.call(train, kwargs={"seed": 3})
    cellspan.call(train, seed=3)
    assert ["--seed" in line for line in home.lines] == [False, True]



@pytest.mark.parametrize("wrong, says", [
    ({"args": 2}, r"call\(\): args is of type int, not a tuple or a list"),
    ({"args": "ab"}, r"call\(\): args is of type str, .*args=\(x,\)"),
    ({"args": None}, r"args is of type NoneType"),
    ({"kwargs": 3}, r"call\(\): kwargs is of type int, not a dict"),
    ({"kwargs": [("x", 1)]}, r"kwargs is of type list"),
])
def test_arguments_of_a_call_are_a_tuple_and_a_dict(home, wrong, says):
    with pytest.raises(TypeError, match=says):
        cellspan.call(abs, **wrong)
    assert not home.lines


def test_an_option_with_a_line_break_is_refused(home):
    with pytest.raises(ValueError, match="line break"):
        cellspan.run(abs, 1, env={"A": "b\n%%bash"})


@pytest.mark.parametrize("text", ["plain", "a b", "a'b\"c", "\\", "it's \\ \" `x`", "it's $x {y}", ""])
def test_a_quoted_text_is_one_word_of_a_shell(text):
    assert shlex.split("a " + _api._quoted(text) + " b") == ["a", text, "b"]


def test_what_is_no_function_is_refused(home):
    with pytest.raises(TypeError, match="needs a function or the path of a script, not int"):
        cellspan.run(3)


def test_an_error_of_the_call_comes_out_and_leaves_no_names(home):
    with pytest.raises(ZeroDivisionError):
        cellspan.run(lambda: 1 / 0)


def test_push_sets_names_on_the_ranks_and_keeps_homes_own(home):
    home.shell.user_ns["a"] = "mine"
    cellspan.group().push(a=1, b=[2])
    assert home.rank["a"] == 1 and home.rank["b"] == [2]
    assert home.shell.user_ns["a"] == "mine" and "b" not in home.shell.user_ns
    assert home.lines == ["%push a b"]


def test_push_of_no_variable_is_refused_unless_nothing_is_given(home):
    changed = {}
    cellspan.group().push(**changed)
    cellspan.group().push(ranks=None, a=1)
    assert home.lines == ["%push a"]
    for ranks in (None, 0, [], "a"):
        with pytest.raises(TypeError, match=r"names no variable: push\(a=1\)"):
            cellspan.group().push(ranks)


def test_after_an_interrupt_a_push_lends_nothing(home, monkeypatch):
    @contextlib.contextmanager
    def working():
        yield
        raise KeyboardInterrupt

    monkeypatch.setattr(home, "working", working)
    with pytest.raises(KeyboardInterrupt):
        cellspan.group().push(a=1)
    assert home.capture.lent is None


def test_pull_gives_values_and_binds_nothing(home):
    home.rank.update(loss=[0.5, 0.25], acc=1)
    group = cellspan.group()
    assert group.pull("loss") == [0.5, 0.25]
    assert group.pull("loss", "acc", ranks="0-1") == {"loss": [0.5, 0.25], "acc": 1}
    assert home.lines[0] == "%pull loss --into='_cellspan_value1'"
    assert home.lines[1] == "%pull loss --ranks='0-1' --into='_cellspan_value1'"


def test_ranks_may_be_numpys(home):
    numpy = pytest.importorskip("numpy")
    group = cellspan.group()
    group.push(a=1, ranks=numpy.int64(1))
    group.push(a=1, ranks=numpy.array([0, 2]))
    assert home.lines == ["%push a --ranks='1'", "%push a --ranks='0,2'"]


@pytest.mark.parametrize("name", ["a b", "a.b", "", "x --into y", 3])
def test_what_is_no_name_is_refused(home, name):
    with pytest.raises(ValueError, match="is not the name of a variable"):
        cellspan.group().pull(name)


def test_the_group_knows_its_ranks(home):
    home.answer = {"ranks": [{"rank": 0, "state": "idle"}, {"rank": 1, "state": "idle"}]}
    group = cellspan.group()
    assert group.size == 2 and repr(group) == "<cellspan group of 2 ranks, 2 idle>"


def test_stop_and_restart_are_the_magics(home):
    group = cellspan.group()
    group.stop(), group.restart(ranks=1)
    assert home.lines == ["%ranks stop", "%ranks restart --ranks='1'"]


def test_a_handle_shows_the_ranks_repr_and_pulls(home):
    home.rank["_7"] = "the value"
    handle = _api.handle_from({"rank": 0, "repr": "<Thing>", "why": "80.0 MiB, over the limit of 64 MiB", "count": 7})
    assert repr(handle).startswith("<Thing>\n[stays on rank 0: 80.0 MiB") and handle.pull() == "the value"
    assert home.lines == ["%pull _7 --ranks='0' --into='_cellspan_value1'"]


def test_a_handle_does_not_travel(home):
    home.shell.user_ns["h"] = _api.Handle(0, "_7")
    assert "only a handle" in home.capture.names("h")[1][0]
    with pytest.raises(TypeError, match="only a handle"):
        pickle.dumps(home.shell.user_ns["h"])


def test_threads_have_a_slot_each():
    held, twice, interval = set(), [], sys.getswitchinterval()

    def go(_):
        for _ in range(10_000):
            with _api._Slot() as slot:
                twice.extend([slot] if slot in held else [])
                held.add(slot)
                held.discard(slot)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(go, range(8)))
    finally:
        sys.setswitchinterval(interval)
    assert not twice and not _api._slots


@pytest.mark.parametrize("article, names", [("a", "list DataFrame Net UserList uint8 ufunc UUID OneHotEncoder Euler MyModel Tensor union Sampler"),
                                            ("an", "int ndarray Area LSTM RNN MLP Item object update Unimplemented Accelerator SGD FSDPModule")])
def test_a_class_is_told_with_the_article_that_one_says(article, names):
    assert [with_article(name) for name in names.split()] == [f"{article} {name}" for name in names.split()]
