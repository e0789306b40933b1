# SPDX-License-Identifier: BSD-3-Clause
"""%scatter and %gather, and those of cellspan.group(): parts of a sequence on each rank, and the whole again."""

from __future__ import annotations

import pytest
from client import rank_values, values


@pytest.fixture
def three(nb):
    nb.ok("import cellspan, numpy as np, pandas as pd, torch\ngroup = cellspan.group()\ncellspan.run(abs, 1, n=3)")
    return nb


WHOLES = {
    "list(range(8))": ("xs", [[0, 1, 2], [3, 4, 5], [6, 7]], "back == whole"),
    "tuple('abcd')": ("xs", [("a", "b"), ("c",), ("d",)], "back == whole"),
    "range(7)": ("list(xs)", [[0, 1, 2], [3, 4], [5, 6]], "back == list(whole)"),
    "np.arange(10.).reshape(5, 2)": ("xs.shape", [(2, 2), (2, 2), (1, 2)], "np.array_equal(back, whole)"),
    "torch.arange(4)": ("xs.tolist()", [[0, 1], [2], [3]], "torch.equal(back, whole)"),
    "pd.DataFrame({'a': [1, 2, 3, 4]}, index=list('wxyz'))": ("list(xs.index)", [["w", "x"], ["y"], ["z"]], "back.equals(whole)"),
    "np.ma.array([1, 2, 3, 4], mask=[0, 1, 0, 1])": ("xs.mask.tolist()", [[False, True], [False], [True]], "back.mask.tolist() == whole.mask.tolist()"),
    "[]": ("xs", [[], [], []], "back == whole"),
    "np.zeros((0, 2))": ("xs.shape", [(0, 2)] * 3, "back.shape == (0, 2)"),
    "torch.zeros(0, 2)": ("tuple(xs.shape)", [(0, 2)] * 3, "back.shape == (0, 2)"),
    "pd.DataFrame({'a': [1]})[:0]": ("(len(xs), list(xs))", [(0, ["a"])] * 3, "back.equals(whole)"),
    "[7]": ("xs", [[7], [], []], "back == whole"),
    "pd.Index([1, 2, 3, 4])": ("list(xs)", [[1, 2], [3], [4]], "back.equals(whole) and type(back) is type(whole)"),
    "pd.date_range('2020', periods=4, tz='UTC')": ("len(xs)", [2, 1, 1], "back.equals(whole)"),
    "pd.MultiIndex.from_product([[1, 2], list('ab')])": ("list(xs)", [[(1, "a"), (1, "b")], [(2, "a")], [(2, "b")]], "back.equals(whole)"),
    "pd.Categorical(list('abca'))": ("list(xs)", [["a", "b"], ["c"], ["a"]], "back.equals(whole)"),
    "pd.array([1, 2, None, 4])": ("len(xs)", [2, 1, 1], "back.equals(whole)"),
}


@pytest.mark.parametrize("whole", WHOLES)
def test_the_parts_make_the_whole_again(three, whole):
    expression, parts, same = WHOLES[whole]
    three.ok("whole = %s\ngroup.scatter('xs', whole)" % whole)
    assert rank_values(three, expression, 3) == parts
    assert values(three.ok("back = group.gather('xs')\n" + same)) is True


def test_a_rank_keeps_its_part_though_home_has_the_name(three):
    three.ok("data = list(range(6))")
    assert three.ok("%scatter data").stdout == ""
    assert rank_values(three, "sum(data)", 3) == [1, 5, 9]
    three.ok("%%distribute\ndata = [10 * x for x in data]")
    three.ok("%gather data --into tens")
    assert values(three.ok("tens, data")) == ([0, 10, 20, 30, 40, 50], [0, 1, 2, 3, 4, 5])
    three.ok("data = [1]")
    assert rank_values(three, "data", 3) == [[1]] * 3


def test_magics_in_the_middle_of_a_cell_and_their_options(three):
    three.ok("words = ['a', 'b']\nfor _ in range(2):\n    %scatter words -r 0,2 --into w --flatten\n    %gather w -r 0,2")
    assert three.ok("w").value == "['a', 'b']"
    assert three.ok("%gather -r 2 w\nw").value == "['b']"
    assert "Divides a list" in three.ok("%scatter --help").stdout


def test_large_parts(three):
    three.ok("big = np.arange(30_000_000.)\ngroup.scatter('big', big)")  # 80 MB each: several pieces
    assert rank_values(three, "(big.shape, float(big[-1]))", 3) == [((10000000,), k * 1e7 - 1) for k in (1, 2, 3)]


def test_parts_of_categories_that_differ(three):
    three.ok("cats = pd.Categorical(list('abc'))\ngroup.scatter('cats', cats)")
    three.ok("%%distribute\ncats = cats.remove_unused_categories()")
    assert three.ok("back = group.gather('cats')\nlist(back), type(back).__name__").value == "(['a', 'b', 'c'], 'Categorical')"
    three.ok("%%distribute\ncats = cats.as_ordered()")
    assert three.ok("list(group.gather('cats'))").value == "['a', 'b', 'c']"


def test_apply_and_map_of_a_group(three):
    assert values(three.ok("group.apply(lambda x, y=0: x + y + cellspan.rank(), 1, y=2)")) == [3, 4, 5]
    assert values(three.ok("group.map(lambda x: x * x, range(5), ranks=[1, 2])")) == [0, 1, 4, 9, 16]
    assert values(three.ok("group.apply(lambda timeout=3, n=1: (timeout, n), timeout=50, n=2)")) == [(50, 2)] * 3, "no option of ours"
    told = three.run("cellspan.run(lambda timeout: timeout, timeout=5)").assert_error("TypeError").reply["evalue"]
    assert "missing a required argument: 'timeout'" in told and "cellspan.call(<lambda>, kwargs={'timeout': 5}) passes it on" in told


REFUSED = [
    ("group.scatter('xs', {1, 2})", "TypeError", "scatter() can't divide a set"),
    ("group.scatter('xs', (x for x in []))", "TypeError", "scatter() can't divide a generator"),
    ("seven = 7; group.scatter('seven', seven)", "TypeError", "scatter() can't divide an int: it takes a list"),
    ("import threading\nclass Area:\n    def __init__(self): self.lock = threading.Lock()\ncellspan.map(lambda x: Area(), [1])", "TypeError",
     "the result of item 0, an Area, can't be sent home"),
    ("group.scatter('x s', [1])", "ValueError", "'x s' is not the name of a variable"),
    ("import threading; group.scatter('xs', [1, 2, threading.Lock()])", "TypeError", "the part of rank 2 can't be sent: cannot pickle"),
    ("class Odd(list):\n    def __getitem__(self, k):\n        return list(self)[k] if k.start < 2 else 1 / 0\ngroup.scatter('xs', Odd([1, 2, 3]))", "TypeError",
     "the part of rank 2 can't be sent: division by zero"),
    ("group.scatter('xs', np.array(5))", "TypeError", "scatter() can't divide an ndarray without dimensions"),
    ("group.scatter('xs', torch.tensor(5))", "TypeError", "scatter() can't divide a Tensor without dimensions"),
    ("group.scatter('xs', [1], ranks=[])", "ValueError", "ranks=[]: it names no rank; such as [0, 2], or None for all ranks"),
    ("group.gather('xs', ranks=())", "ValueError", "ranks=(): it names no rank"),
    ("group.scatter('xs', [1], ranks='one')", "ValueError", "'one' is no rank"),
    ("%scatter nothing", "NameError", "name 'nothing' is not defined"),
    ("%scatter", "UsageError", "%scatter takes one name, not none"),
    ("%scatter --no x", "UsageError", "%scatter: --no: unknown option"),
    ("%scatter x --into", "UsageError", "--into needs a value"),
    ("%gather nowhere", "NameError", "name 'nowhere' is not defined"),
]


@pytest.mark.parametrize("code, again", [("%gather some", "%gather some -r 0,2"), ("group.gather('some')", "group.gather('some', ranks='0,2')"),
                                         ("group.pull('some')", "group.pull('some', ranks='0,2')")])
def test_a_name_that_some_ranks_lack_says_which_have_it(three, code, again):
    three.ok("%%distribute -r 0,2\nsome = [4]")
    cell = three.run(code).assert_error("NameError")
    assert cell.reply["traceback"][-1].endswith("ranks 0,2 have some: -r 0,2, or ranks='0,2', takes these"), cell.shown
    assert "_cellspan" not in cell.shown
    assert three.ok(again).status == "ok"


def test_what_is_wrong_is_named(three):
    for code, ename, text in REFUSED:
        cell = three.run(code)
        if ename == "UsageError":  # IPython prints these
            assert text in cell.stderr, (code, cell.shown)
        else:
            assert cell.status == "error" and text in cell.assert_error(ename).reply["evalue"], (code, cell.reply)
