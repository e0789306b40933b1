# SPDX-License-Identifier: BSD-3-Clause
"""Sending variables: those that a cell reads are sent automatically, others by %push and %pull."""

from __future__ import annotations

import pytest
from client import rank_values
from packages import needs


def test_what_the_cell_reads_travels(nb):
    nb.ok("number, word = 41, 'hello'\nunused = 'stays'")
    assert rank_values(nb, "(number + 1, word)", 2) == [(42, "hello")] * 2
    assert rank_values(nb, "'un' + 'used' in globals()", 2) == [False, False]


def test_functions_and_classes_travel_with_what_they_need(nb):
    nb.ok(
        "import math\nscale = 10\n"
        "def helper(x):\n    return math.floor(x) * scale\n"
        "def outer(x):\n    return helper(x) + 1\n"
        "class Thing:\n    factor = 3\n    def times(self, x):\n        return outer(x) * self.factor\n"
    )
    assert rank_values(nb, "Thing().times(2.5)", 2) == [63, 63]


def test_the_last_writer_wins(nb):
    nb.ok("shared = 1")
    assert rank_values(nb, "shared", 2) == [1, 1]
    nb.ok("%%distribute -n 2\nshared = shared + 10")
    assert rank_values(nb, "shared", 2) == [11, 11]  # a rank's own update stays …
    nb.ok("shared = 2")
    assert rank_values(nb, "shared", 2) == [2, 2]  # … until home changes the name again


def test_a_change_in_place_travels(nb):
    nb.ok("things = [1, 2]")
    assert rank_values(nb, "len(things)", 2) == [2, 2]
    nb.ok("things.append(3)")
    assert rank_values(nb, "len(things)", 2) == [3, 3]


def test_home_is_not_changed_by_ranks(nb):
    nb.ok("model = [1, 2, 3]")
    nb.ok("%%distribute -n 2\nmodel = 'ours'")
    assert nb.ok("model").value == "[1, 2, 3]"


def test_no_capture_and_capture_choose_what_travels(nb):
    nb.ok("travels, remains = 1, 2")
    nb.run("%%distribute -n 2 --fresh --no-capture\ntravels").assert_error("NameError")
    cell = nb.ok("%%distribute -n 2 --fresh --capture travels\n'travels' in globals(), 'remains' in globals(), remains if 0 else 0")
    assert cell.value == "(True, False, 0)"


def test_what_does_not_pickle_is_left_out_with_a_warning(nb):
    nb.ok("import threading\nlatch = threading.Lock()\nfile = open('/dev/null')\nfine = 1")
    cell = nb.run("%%distribute -n 2\n_ = fine\ntry:\n    latch, file\nexcept NameError as e:\n    print('not here:', e)")
    warnings = [line for line in (cell.stderr + cell.stdout).splitlines() if "latch" in line and "not here" not in line]
    assert len(warnings) == 1, cell.shown
    assert len([line for line in cell.stderr.splitlines() if "file" in line and "not here" not in line]) == 1
    assert cell.status == "ok"


def test_arrays_are_shared_copy_on_write(nb):
    needs("numpy")
    nb.ok("import numpy\nbig = numpy.ones(1 << 22)")  # 32 MiB
    cell = nb.ok(
        "%%distribute -n 4 --gather\nimport os\nrank = int(os.environ['RANK'])\n"
        "before = float(big.sum())\nif rank == 1:\n    big[:] = 7\n(before, big.flags.writeable)"
    )
    assert cell.value == str([(float(1 << 22), True)] * 4)
    assert nb.ok("%%distribute --gather\n(float(big[0]), float(big[-1]))").value == str(
        [(1.0, 1.0), (7.0, 7.0), (1.0, 1.0), (1.0, 1.0)]
    )
    assert nb.ok("float(big.sum())").value == str(float(1 << 22))


def test_a_big_array_costs_one_copy_a_node(nb):
    needs("numpy")
    import processes

    def used():
        return sum(processes.pss(pid) for pid in processes.marked(nb.marker))

    nb.ok("%%distribute -n 4 --fresh\nimport numpy")
    nb.ok("import numpy\nvast = numpy.ones(16 << 20)")  # 128 MiB
    before = used()
    nb.ok("%%distribute -n 4\nassert float(vast.sum()) == 16 << 20")
    grown = used() - before
    nb.ok("del vast")
    nb.ok("%%distribute -n 4\nassert 'vast' not in globals()")
    assert grown < 200, "%.0f MiB for an array of 128" % grown


def test_tensors_travel_with_dtype_stride_and_ties(nb, torch):
    nb.ok(
        "import torch\nbase = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)\nturned = base.t()\n"
        "net = torch.nn.Linear(3, 3)\nnet.twin = net.weight", limit=90
    )
    cell = nb.ok(
        "%%distribute -n 2\nnet.twin is net.weight, str(turned.dtype), turned.stride(), turned.sum().item(), net.weight.requires_grad",
        limit=90,
    )
    assert cell.value == "(True, 'torch.bfloat16', (1, 4), 66.0, True)"


def test_push_sends_variables(nb):
    nb.ok("one, two = 1, 'two'")
    nb.ok("%%distribute -n 4\npass")
    nb.ok("%push one two")
    assert nb.ok("%%distribute --no-capture --gather\n(one, two)").value == str([(1, "two")] * 4)
    nb.ok("one = 5")
    nb.ok("%push one -r 1")
    assert nb.ok("%%distribute --no-capture --gather\none").value == "[1, 5, 1, 1]"


def test_pull_brings_a_list_by_rank_or_one_value(nb):
    nb.ok("%%distribute -n 4\nimport os\nloss = int(os.environ['RANK']) / 2")
    nb.ok("%pull loss")
    assert nb.ok("loss").value == "[0.0, 0.5, 1.0, 1.5]"
    nb.ok("%pull loss -r 2 --into last")
    assert nb.ok("last").value == "1.0"


def test_nothing_is_pulled_where_a_name_is_missing(nb):
    nb.ok("%%distribute -n 4\nimport os\nthere = here = 1\nif os.environ['RANK'] == '1':\n    some = 1")
    for names in ("there nowhere_at_all", "there here nowhere_at_all", "there some", "there nowhere_at_all -r 1"):
        nb.ok("there = here = 'mine'")
        nb.run("%pull " + names).assert_error("NameError")
        assert nb.ok("there, here").value == "('mine', 'mine')", names
    nb.ok("%pull there here")
    assert nb.ok("there, here").value == "([1, 1, 1, 1], [1, 1, 1, 1])"


def test_nothing_is_pulled_where_a_value_cannot_be_sent(nb):
    nb.ok("%%distribute -n 4 --fresh\nimport cellspan\nsmall, big = 1, 2\nif cellspan.rank() == 1:\n    small = (i for i in [])")
    for names, ranks in (("big small", "rank 1's"), ("small big", "rank 1's"), ("big small -r 1", "rank 1's")):
        nb.ok("small = big = 'mine'")
        told = nb.run("%pull " + names).assert_error("RuntimeError").error["evalue"]
        assert told.startswith(ranks + " small can't be sent home: it can't be pickled: ") and told.endswith("; nothing was bound"), told
        assert nb.ok("small, big").value == "('mine', 'mine')", names
    assert "bound" not in nb.run("%pull small").assert_error("RuntimeError").error["evalue"]
    nb.ok("%pull big small -r 2")
    assert nb.ok("big, small").value == "(2, 1)"


def test_pull_of_a_name_that_is_not_there_names_it(nb):
    nb.ok("%%distribute -n 2\npass")
    cell = nb.run("%pull nowhere_to_be_found")
    assert cell.status == "error" and "nowhere_to_be_found" in cell.traceback
    assert "cellspan" not in cell.traceback, "the user sees our own lines:\n" + cell.traceback


NAMES = ("globals locals vars __import__ exec eval print list dict str int type len open range map getattr isinstance repr os sys json time threading "
         "n rank env ranks args kwargs fn data home shell worker self px cellspan display IPython").split()


def test_any_name_may_be_the_users_own(clean):
    """cellspan's own cells, which run among the user's variables, use none of their names."""
    nb = clean
    nb.ok("import builtins as bi, cellspan as cs\nfrom cellspan import px as own_px\ncs.run(abs, 1, n=2)\ng, big = cs.group(), bytearray(300000)\n"
          "view = own_px.Client()[:]\nspread = own_px.Client().load_balanced_view()")
    named = "\n".join("%s = 5" % name for name in NAMES)
    try:
        for where in ("", "%%distribute\n"):
            nb.ok(where + named)
            assert nb.ok("%%distribute --gather\n(globals, len, rank)").value == "[(5, 5, 5), (5, 5, 5)]"
            assert nb.ok("cs.run(bi.len, big), cs.run(bi.len, [1, 2], gather=True), bi.list(cs.map(bi.abs, [1, -2]))").value == "(300000, [2, 2], [1, 2])"
            assert nb.ok("view.apply_sync(bi.len, big), view.map_async(bi.len, [big]).get(), spread.apply_sync(bi.abs, -3)").value == (
                "([300000, 300000], [300000], 3)")
            assert nb.ok("g.push(len=6)\ng.scatter('part', [1, 2, 3])\ng.gather('part'), g.pull('len')").value == "([1, 2, 3], [6, 6])"
            nb.ok("parts = [1, 2, 3, 4]\n%scatter parts")
            assert nb.ok("%gather parts\nparts").value == "[1, 2, 3, 4]"
            nb.ok("%pull part --into pulled\n%push big")
            nb.run("%%distribute\n1 / 0").assert_error("ZeroDivisionError")
            nb.ok("%debug -r 0", answer="q")
            assert "Out[0]: 4" in nb.ok("%%px --no-stream\n4").shown
    finally:
        nb.ok("del " + ", ".join(NAMES))
        nb.ok("%ranks stop")


def test_a_name_of_ipython_that_the_user_has_bound_travels(clean):
    nb = clean
    nb.ok("_ = 'mine {}'.format\nexit, quit, In, Out = 5, 6, [1], {1: 2}\ndef f(): return _('x'), exit, Out")
    try:
        assert nb.ok("%%distribute -n 1 --gather\n(f(), _('y'), quit, In)").value == "[(('mine x', 5, {1: 2}), 'mine y', 6, [1])]"
        assert nb.ok("cellspan_f = __import__('cellspan').run(f)\ncellspan_f").value == "('mine x', 5, {1: 2})"
    finally:
        nb.ok("del _, exit, quit, In, Out")
        nb.ok("get_ipython().init_user_ns()")  # they are IPython's again


def test_what_ipython_has_bound_itself_stays(clean):
    nb = clean
    nb.ok("'of home'")
    nb.ok("%%distribute -n 1\n'of rank'")
    nb.ok("'of home'")
    assert nb.ok("%%distribute --gather\n_").value == "['of rank']"
    assert "of home" not in nb.ok("%%distribute\nprint(Out, In, _ii)").stdout


def test_a_cell_that_is_nested_deeply_gets_its_variables(clean):
    clean.ok("late, v = 5, 290")
    elifs = "\n".join("%s v == %d: print(late + %d)" % ("elif" if i else "if", i, i) for i in range(300))
    assert "295" in clean.ok("%%distribute -n 1\n" + elifs).stdout
    clean.ok("word = 'b'")
    assert "bbc" in clean.ok("%%distribute\nprint('aac'" + ".replace('a', word)" * 300 + ")").stdout
