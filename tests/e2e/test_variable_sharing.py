# SPDX-License-Identifier: BSD-3-Clause
"""Values that share memory are sent together or reported as such: arrays, a model and its optimizer, gradients."""

from __future__ import annotations

import pytest
from client import rank_values, values
from test_variable_rules import CONFLICT, conflict

BEFOREHAND = "torch._dynamo"  # as torch_users.py says


@pytest.fixture(scope="module", autouse=True)
def started(shared_notebook):
    shared_notebook.get().ok("%%distribute -n 2\nimport os\nrank = int(os.environ['RANK'])", limit=120)


def test_what_shares_memory_is_said_to_go_along_only_where_it_goes(shared_notebook):
    nb = shared_notebook.get()
    nb.ok("import numpy\nmodel = {'w': numpy.ones(1 << 17)}\nopt = {'params': model['w'], 'lr': 1}")
    nb.ok("%%distribute\nmodel['w'][0] = rank + 6 + opt['lr']")
    nb.ok("opt['lr'] = 2")
    cell = nb.run("%%distribute\nmodel, opt")
    assert "%push " in cell.assert_error(CONFLICT).error["evalue"] and "they share memory" not in cell.stderr, cell.shown
    nb.ok("%push model opt")
    nb.ok("opt['lr'] = 3")
    assert "model is sent again with opt, which changed: they share memory" in nb.ok("%%distribute\nmodel, opt").stderr


def test_a_new_array_at_the_place_of_an_old_one_takes_no_other_name_along(nb):
    nb.ok("import numpy\nfirst = numpy.ones(1 << 14)")
    nb.ok("%%distribute -n 2\nfirst[0]")
    nb.ok("%%distribute -n 2\nfirst = rank")
    nb.ok("was = id(first)\nfirst = numpy.zeros(3)\nmade = [numpy.zeros(1 << 14) for k in range(200)]\nsecond = [m for m in made if id(m) == was][0]")
    assert rank_values(nb, "float(second[0])", 2) == [0.0, 0.0]
    assert rank_values(nb, "first", 2, "--no-capture") == [0, 1]
    nb.ok("del was, made")


def test_a_name_that_the_cell_may_assign_beside_what_shares_memory_is_named_once(nb):
    nb.ok("import numpy\nmem = numpy.ones(1 << 14)\nhold = [mem]")
    nb.ok("%%distribute -n 2\nmem, hold\nmem[0] = 6")
    nb.ok("mem[1] = 7")
    nb.ok("%%distribute -n 2 -r 0\nexec('mem = [0]')")
    conflict(nb.run("%%distribute -n 2\nif mem[0] > 100:\n    hold = [1]"), "mem", "hold", ranks="rank 1", lowest=1)


def test_an_array_can_be_resized_on_ranks_and_at_home(nb):
    nb.ok("import cellspan, numpy\nclass Holds:\n    pass\nholds, large, mapped, used = Holds(), numpy.arange(1000.0), numpy.ones((500, 1000)), numpy.ones(1 << 17)\n"
          "holds.small, holds.inner = numpy.arange(3), [numpy.ones(5000, 'u1')]")
    resize = ("holds.small.resize(5)\nholds.inner[0].resize(4, 2)\nlarge.resize(2000)\nmapped.resize((501, 1000))\nused.resize(7)\n"
              "holds.small.tolist(), holds.inner[0].tolist(), int(large.sum()), large.size, int(mapped.sum()), mapped.shape, used.tolist()")
    wanted = [0, 1, 2, 0, 0], [[1, 1]] * 4, 499500, 2000, 500000, (501, 1000), [1] * 7
    assert rank_values(nb, resize, 2) == [wanted] * 2
    assert values(nb.ok("cellspan.run(lambda a: (a.resize(3, refcheck=False), a.tolist())[1], used, n=2)")) == [1, 1, 1], "an argument of a call"
    assert values(nb.ok(resize)) == wanted
    nb.run("%%distribute -n 2\nlarge").assert_error("VariableConflict")
    nb.ok("%push large mapped")
    nb.ok("%%distribute -n 2\nlarge[0] = 5")
    nb.ok("%pull large mapped -r 1")
    assert values(nb.ok("large.resize(3), mapped.resize(2)\nlarge.tolist(), mapped.tolist()")) == ([5, 1, 2], [1, 1])


def test_an_array_that_something_else_uses_is_not_resized(nb):
    nb.ok("import numpy, weakref\na, b, c, d = (numpy.arange(1000.0) for _ in range(4))\nf = numpy.ones((99, 99), order='F')")
    fails = ("view, listed, ref = a[1:], [b], weakref.ref(c)\nbare = numpy.frombuffer(bytearray(80))\ntold = []\n"
             "for text in 'a', 'b', 'c', 'view', 'bare', 'd':\n    try:\n        exec(text + '.resize(3)')\n        told.append('resized')\n"
             "    except ValueError as error:\n        told.append(str(error)[:24])\n"
             "[text[:13] for text in told], int(a.sum() + view.sum() + b.sum() + c.sum() + sum(bare))")
    told, total = values(nb.ok(fails))
    assert told == ["cannot resize"] * 5 + ["resized"]
    assert rank_values(nb, fails, 2) == [(told, total)] * 2


TRAINER = "import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))"
BACKWARD = "model(torch.ones(1, 2)).sum().backward()"
OPT = "opt = torch.optim.SGD(model.parameters(), lr=.1)"
LIVES = "all(p.grad is not None for p in model.parameters())"
TOTAL = "round(sum(p.sum().item() for p in model.parameters()), 4)"
ONE = "opt.param_groups[0]['params'][0] is model[0].weight"


def anew(cell, new, old, ranks="ranks 0-1", push=None, pull=None):
    """The cell failed in one line that says which names of home's are new, and what they share memory with."""
    cell.assert_error(CONFLICT)
    text = cell.error["evalue"]
    assert "\n" not in text and "changed in place at home" not in text and "keeps theirs" in text, text
    assert new in text and f"memory with {old}, which {ranks} ha" in text, text
    assert ("`%pull" in text) == (pull is not None) and (pull is None or f"`%pull {pull}`" in text), text
    assert push is None or f"`%push {push}`" in text, text
    return text


@pytest.fixture
def lab(nb, torch):
    """Nobody has these names yet."""
    away = "for _name in ('model', 'opt', 'sd', 'ps'): globals().pop(_name, None)"
    nb.ok(away)
    nb.ok("%%distribute -n 2 --no-capture\n" + away, limit=120)
    return nb


def test_gradients_are_a_change_by_ranks(lab):
    nb = lab
    nb.ok(TRAINER, limit=120)
    nb.ok("%%distribute -n 2\n" + BACKWARD + "\nbefore = " + TOTAL, limit=120)
    nb.ok("model.eval(); None")
    conflict(nb.run("%%distribute\nmodel.training"), "model")
    assert rank_values(nb, LIVES, 2, "--no-capture") == [True, True]
    nb.ok("params = list(model.parameters())")
    nb.ok("%push params")
    nb.ok("%%distribute\n(params[0] * 2).sum().backward()")
    nb.ok("params.append(1)")
    assert "params" in conflict(nb.run("%%distribute\nlen(params)"), "params", "model")


def test_gradients_are_not_lost_to_an_optimizer_that_is_new(lab):
    nb = lab
    nb.ok(TRAINER + "\n" + OPT, limit=120)
    assert rank_values(nb, "(" + BACKWARD + ", " + LIVES + ")[1]", 2) == [True, True]
    step = "%%distribute\nopt.step()\nprint(" + ONE + ", opt.param_groups[0]['params'][0].grad is not None)"
    for _ in range(2):
        cell = nb.run(step)
        anew(cell, "opt is new to ranks 0-1", "model", push="opt model")
        assert "they share memory" not in cell.stderr
    nb.ok("%%distribute\n" + OPT)  # the way out that keeps theirs
    was = rank_values(nb, TOTAL, 2)
    assert nb.ok(step).stdout.split("\n")[0].endswith("True True")
    assert all(a != b for a, b in zip(was, rank_values(nb, TOTAL, 2)))
    nb.ok(OPT)
    text = anew(nb.run(step), "home has assigned opt", "model", push="opt model", pull="opt model -r 0")
    nb.ok("%" + text.split("`%")[1].split("`")[0])
    assert rank_values(nb, ONE + ", " + TOTAL, 2) == [values(nb.ok(ONE + ", " + TOTAL))] * 2


def test_what_is_new_and_shares_memory_goes_along_where_nothing_was_changed(lab):
    nb = lab
    nb.ok(TRAINER + "\n" + OPT, limit=120)
    rank_values(nb, TOTAL, 2)
    cell = nb.ok("%%distribute\n" + BACKWARD + "; opt.step()\nassert " + ONE)
    assert "model is sent again with opt, which is new to the ranks: they share memory" in cell.stderr
    nb.ok(TRAINER + "\n" + OPT)
    rank_values(nb, TOTAL, 2)
    assert "model is sent again with opt, which home has assigned: they share memory" in nb.ok("%%distribute\nassert " + ONE).stderr


def test_a_name_that_ranks_have_not_seen_is_not_called_changed(lab):
    nb = lab
    nb.ok(TRAINER + "\nsd = model.state_dict()\nps = list(model.parameters())", limit=120)
    nb.ok("%%distribute -n 2\nlen(sd)\nwith torch.no_grad(): model[0].weight.add_(1)", limit=120)
    anew(nb.run("%%distribute\nlen(ps)"), "ps is new to ranks 0-1", "sd and model", push="ps sd model")
    nb.ok("%push ps sd model")
    nb.ok("%%distribute\nassert ps[0] is model[0].weight and sd['0.weight'].data_ptr() == ps[0].data_ptr()")


def test_an_optimizer_over_a_model_that_was_pulled(lab):
    nb = lab
    nb.ok(TRAINER, limit=120)
    nb.ok("%%distribute -n 2\n" + BACKWARD + "\nwith torch.no_grad(): model[0].weight.add_(rank + 1)", limit=120)
    nb.ok("%pull model -r 0")
    assert rank_values(nb, LIVES, 2) == [True, True]
    nb.ok(OPT)
    anew(nb.run("%%distribute\n" + ONE), "opt is new to rank 1", "model", ranks="rank 1")
    nb.ok("%push opt model")
    assert rank_values(nb, ONE + ", " + TOTAL, 2) == [values(nb.ok(ONE + ", " + TOTAL))] * 2


def test_gradients_that_home_left_behind_by_a_pull_are_in_nobodys_way(lab):
    nb = lab
    nb.ok(TRAINER, limit=120)
    nb.ok("%%distribute -n 2\n" + BACKWARD, limit=120)
    nb.ok("%pull model -r 0")
    nb.ok("model.eval(); None")
    assert nb.ok("%%distribute -r 0\nmodel.training").value == "False"
    nb.ok("%%distribute -r 0\n" + BACKWARD)
    nb.ok("model.train(); None")
    conflict(nb.run("%%distribute -r 0\nmodel.training"), "model", ranks="rank 0")
    nb.ok("%pull model -r 0")
    nb.ok("%%distribute -r 0\n" + BACKWARD)
    nb.ok("model.train(); None")
    conflict(nb.run("%%distribute -r 0\nmodel.training"), "model", ranks="rank 0")


def test_what_was_changed_at_home_and_by_ranks_beside_a_name_that_is_new(lab):
    nb = lab
    nb.ok(TRAINER, limit=120)
    nb.ok("%%distribute -n 2\n" + BACKWARD, limit=120)
    nb.ok("model.eval(); None")
    nb.ok(OPT)
    cell = nb.run("%%distribute\n" + ONE).assert_error(CONFLICT)
    text = cell.error["evalue"]
    assert "were changed in place at home and by ranks 0-1" in text and "`%pull model -r 0`" in text, text
    assert text.endswith("of which opt has to be made again"), text
    nb.ok("%pull model -r 0")
    nb.ok(OPT)
    nb.ok("%push model opt")
    assert rank_values(nb, ONE, 2) == [True, True]


# -- what is shared


SHARED = [  # made at home, (a, b) in one cell: shared?; after this change at home and a cell that reads a alone: still shared?
    ("a = [1]; b = a", "a is b", True, "a.append(2)", False),
    ("a = [1]; b = {'a': a}", "b['a'] is a", True, "a.append(2)", False),
    ("a = numpy.arange(20.); b = [a]", "b[0] is a", True, "a[0] = 5", False),
    ("a = numpy.arange(2000.); b = [a]", "b[0] is a", True, "a[0] = 5", True),
    ("a = numpy.array([None] * 1000); b = [a]", "b[0] is a", True, "a[0] = 5", False),
    ("a = numpy.zeros(1000, 'i8,O'); b = [a]", "b[0] is a", True, "a['f0'][0] = 5", False),
    ("a = numpy.arange(2000.); b = a[10:]", "numpy.shares_memory(a, b)", False, "a[0] = 5", False),
    ("a = torch.arange(20.); b = a[10:]", "b.data_ptr() == a.data_ptr() + 40", True, "a[0] = 5", True),
    ("a = numpy.arange(2000.); b = torch.from_numpy(a)", "b.data_ptr() == a.__array_interface__['data'][0]", False, "a[0] = 5", False),
]


@pytest.mark.parametrize("make, is_shared, first, change, later", SHARED, ids=[row[0] for row in SHARED])
def test_what_is_one_at_home_is_one_on_ranks_or_not(nb, torch, make, is_shared, first, change, later):
    nb.ok("import numpy, torch\n" + make, limit=120)
    assert nb.ok("%%distribute -n 2\nbool(" + is_shared + ")", limit=120).value == str(first)
    nb.ok(change)
    assert rank_values(nb, "len(a)", 2) == [values(nb.ok("len(a)"))] * 2
    assert nb.ok("%%distribute\nbool(" + is_shared + ")").value == str(later)


def test_views_and_arrays_that_can_only_be_read_stay_so_there_and_back(nb):
    nb.ok("import numpy\ndates = numpy.arange(3).astype('M8[s]')\ndates.flags.writeable = False\nwords = numpy.array(['a', 'b', None] * 2000, object)\n"
          "words.flags.writeable = False\nwide = numpy.broadcast_to(words, (10 ** 4, 6000))\nslid = numpy.lib.stride_tricks.sliding_window_view(words, 3000)")
    look = "[x.flags.writeable for x in (dates, words, wide, slid)], wide.strides, slid.strides, wide[7, 5999], list(slid[1, :2])"
    wanted = [False] * 4, (0, 8), (8, 8), None, ["b", None]
    assert rank_values(nb, look, 2) == [wanted] * 2
    nb.ok("%pull dates words wide slid -r 1")
    assert values(nb.ok(look)) == wanted
    assert rank_values(nb, look, 2) == [wanted] * 2


TIES = [  # made at home; shared?; home's change, of no content; shared after it?
    ("a = numpy.zeros(1000); b = {'w': a}", "b['w'] is a", "b['w'] = a.copy()", False),
    ("a = numpy.zeros(1000); b = {'w': numpy.zeros(1000)}", "b['w'] is a", "b['w'] = a", True),
    ("a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2); b.weight = a.weight", "b.weight is a.weight", "b.weight = copy.deepcopy(a.weight)", False),
    ("a = torch.nn.Linear(2, 2); b = copy.deepcopy(a)", "b.weight is a.weight", "b.weight = a.weight", True),
]


@pytest.mark.parametrize("make, is_shared, change, later", TIES, ids=[row[2] for row in TIES])
def test_what_home_ties_or_unties_is_so_on_ranks_too(nb, torch, make, is_shared, change, later):
    nb.ok("import copy, numpy, torch\n" + make, limit=120)
    read = f"%%distribute -n 2\na, b\n{is_shared}"
    assert nb.ok(read, limit=120).value == str(not later)
    nb.ok(change)
    assert nb.ok(read).value == str(later)


LABELS = ["pandas.Index(names, dtype=object)", "pandas.Index(numpy.arange(2000) * 3)", "pandas.date_range('2024', periods=2000, freq='h')",
          "pandas.MultiIndex.from_arrays([numpy.arange(2000), names])", "pandas.CategoricalIndex(names)"]


@pytest.mark.parametrize("labels", LABELS)
def test_tables_with_the_same_labels_and_texts_are_no_conflict(nb, labels):
    """They share these arrays, and nothing else."""
    nb.ok("import numpy, pandas\nnames = ['s%d' % i for i in range(2000)]\nX = pandas.DataFrame({'a': numpy.arange(2000.), 'name': names, 'g': "
          f"pandas.Categorical(names)}}, index={labels})", limit=120)
    assert rank_values(nb, "X.shape", 2) == [(2000, 3)] * 2
    nb.ok("%%distribute -n 2\nX['pred'] = X.a * 2")
    nb.ok("y, name, g = X.a > .5, X['name'], X['g']")
    look = "bool(y.iloc[0]), name.iloc[1], g.iloc[2], "
    assert rank_values(nb, look + "X.shape", 2) == [(False, "s1", "s2", (2000, 4))] * 2
    assert rank_values(nb, look + "y.index.equals(X.index)", 2) == [(False, "s1", "s2", True)] * 2


# -- what ranks made over home's value


def test_an_optimizer_that_was_made_on_ranks_keeps_the_model_that_it_steps(lab):
    """Home glances at a model that ranks have not changed yet, but have made their optimizer of."""
    nb = lab
    nb.ok(TRAINER, limit=120)
    nb.ok("%%distribute -n 2\nimport torch\n" + OPT + "\nfor p in model.parameters():\n    pass", limit=120)
    nb.ok("model.eval(); None")
    text = nb.run("%%distribute\n" + ONE).assert_error(CONFLICT).error["evalue"]
    assert text == (
        "model was changed in place at home, and opt on ranks 0-1 uses theirs: `%push model` sends home's, after which opt has to be made again,"
        " `%pull model -r 0` fetches rank 0's"
    )
    assert rank_values(nb, ONE, 2, "--no-capture") == [True, True]
    nb.ok("%pull model -r 0")
    assert rank_values(nb, ONE, 2) == [True, True]
    cell = nb.ok("%push model")
    assert "cellspan: opt still uses the old model: make opt again" in cell.stderr, cell.shown
    assert rank_values(nb, ONE, 2) == [False, False]


def test_what_still_uses_a_value_that_home_has_assigned_anew_is_named(nb):
    nb.ok("import numpy\nmem = numpy.ones(1 << 14)")
    nb.ok("%%distribute -n 2\nbox, also = {'a': [mem]}, (mem,)\nbare = mem")
    nb.ok("mem = numpy.zeros(1 << 14)")
    cell = nb.ok("%%distribute\nmem[0]")
    assert "cellspan: box, also still use the old mem: make them again" in cell.stderr, cell.shown
    nb.ok("mem = numpy.zeros(1 << 14)")
    assert "still" not in nb.ok("%%distribute\nmem[0]").stderr
