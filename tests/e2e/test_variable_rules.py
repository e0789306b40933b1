# SPDX-License-Identifier: BSD-3-Clause
"""No change that ranks or home have made to a variable is silently undone: what is sent, what is kept, and what is an error."""

from __future__ import annotations

import pytest
from client import rank_values, values

CONFLICT = "VariableConflict"
BEFOREHAND = "torch._dynamo"  # as torch_users.py says


@pytest.fixture(scope="module", autouse=True)
def started(shared_notebook):
    shared_notebook.get().ok("%%distribute -n 2\nimport os\nrank = int(os.environ['RANK'])", limit=120)


# -- a change in place


@pytest.mark.parametrize(
    "cell, refused",
    [
        ("config = dict(lr=3)\ntrain()", False),
        ("def twice():\n    return train()\nconfig = dict(lr=3)\ntwice()", False),
        ("config, other = dict(lr=3), 1\nouter()", False),
        ("train()\nconfig = dict(lr=3)", True),
        ("outer()\nconfig = dict(lr=3)\ntrain()", True),
        ("if rank >= 0:\n    config = dict(lr=3)\ntrain()", True),
        ("if rank:\n    config = dict(lr=3)\n    train()\nelse:\n    train()", True),
        ("config['lr'] = 3\ntrain()", True),
        ("config = dict(config, lr=3)\ntrain()", True),
    ],
)
def test_a_name_that_the_cell_binds_before_a_function_reads_it_is_no_conflict(nb, cell, refused):
    nb.ok("def train():\n    return config['lr']\ndef outer():\n    return train()\nconfig = {'lr': 1}")
    assert nb.ok("%%distribute -n 2\nouter()").value == "1"
    nb.ok("%%distribute -n 2\nconfig['more'] = rank")
    nb.ok("config['lr'] = 2")
    ran = nb.run("%%distribute -n 2\n" + cell)
    if refused:
        conflict(ran, "config")
        nb.ok("%push config")
    else:
        assert ran.assert_ok().value == "3"
        assert nb.ok("%%distribute -n 2\ntrain()").value == "3", "the ranks' own is the newer one"


def conflict(cell, *names, ranks="ranks 0-1", lowest=0):
    """The cell failed in one line that names the variables, who changed them, and both ways out."""
    cell.assert_error(CONFLICT)
    text, listed = cell.error["evalue"], " ".join(names)
    assert "\n" not in text and ranks in text, text
    assert f"`%push {listed}`" in text and f"`%pull {listed} -r {lowest}`" in text, text
    return text


def of_class(cell, name):
    """The cell failed on ranks, each of which has compared the class that came with its own."""
    cell.assert_error(CONFLICT)
    text = f"the class {name} was changed at home and by this rank since home sent it: `%push {name}` sends home's, `%pull {name} -r RANK` fetches a rank's"
    assert cell.error["evalue"] == text and "VariableConflict on ranks 0-1 of 2" in cell.shown, cell.shown


@pytest.mark.parametrize(
    "make, theirs, ours, look",
    [
        ("v = [1]", "v.append(rank)", "v.append(5)", "len(v)"),
        ("v = {'a', 'bb', 'ccc', 'dddd'}", "v.add('e' * 5)", "v.add('home')", "len(v)"),
        ("v = {'a': {'b': 1}}", "v['a']['b'] = 2", "v['c'] = 3", "len(v)"),
        ("import numpy\nv = numpy.zeros(9)", "v[0] = 1", "v[1] = 1", "float(v.sum())"),
        ("import numpy\nv = numpy.zeros(1 << 20)", "v[0] = 1", "v[-1] = 1", "float(v.sum())"),
        ("class v:\n    n = 1", "v.n = 2", "v.m = 3", "v.n"),
        ("v = 1", "v += 1", "v += 5", "v"),
    ],
    ids=["list", "set", "nested", "array", "large", "class", "number"],
)
def test_what_both_changed_in_place_is_a_conflict_and_push_or_pull_settle_it(nb, make, theirs, ours, look):
    refused = of_class if "class" in make else conflict
    nb.ok(make)
    nb.ok("%%distribute -n 2\n" + theirs)
    before = rank_values(nb, look, 2)
    nb.ok(ours)
    ran = nb.run("%%distribute -n 2\nprint('ran')\n" + look)
    refused(ran, "v")
    assert "ran" not in ran.stdout
    assert rank_values(nb, look, 2, "--no-capture") == before
    nb.ok("%push v")
    assert rank_values(nb, look, 2) == [values(nb.ok(look))] * 2
    nb.ok(make)
    nb.ok("%%distribute -n 2\n" + theirs)
    nb.ok(ours)
    refused(nb.run("%%distribute -n 2\n" + look), "v")
    theirs_now = rank_values(nb, look, 2, "--no-capture")
    nb.ok("%pull v -r 0")
    assert rank_values(nb, look, 2) == theirs_now
    if "class" not in make:  # a class of home's stays as it is when it comes back
        assert values(nb.ok(look)) == theirs_now[0]


@pytest.mark.parametrize(
    "make, ours, look",
    [
        ("u = {'a', 'bb', 'ccc', 'dddd'}", "u.add('home')", "sorted(u)"),
        ("import numpy\nu = [numpy.zeros(1 << 20), {'x': 'y'}]", "u[0][3] = 4", "float(u[0].sum())"),
        ("class u:\n    n = 1\n    def m(self):\n        return self.n", "u.n = 8", "u().m()"),
        ("import enum\nclass u(enum.Enum):\n    CFG = {'lr': .1}\n    OTHER = [1]", "u.CFG.value['lr'] = u.OTHER.value[0] = u.CFG.value['lr'] + 1", "u.CFG.value, u.OTHER.value"),
        ("import enum\nclass E(dict, enum.Enum):\n    A = {'a': 1}\n    B = {}\nu = [E.A]", "u[0]['b'] = u[0].get('b', 0) + 1", "dict(u[0])"),
    ],
    ids=["set", "large", "class", "member's value", "member"],
)
def test_what_only_home_changed_in_place_travels(nb, make, ours, look):
    nb.ok(make)
    for _ in range(3):
        assert rank_values(nb, look, 2) == [values(nb.ok(look))] * 2
        nb.ok(ours)


def test_only_the_ranks_that_run_the_cell_are_asked(nb):
    nb.ok("picked = [1]")
    nb.ok("%%distribute -n 2\npicked.append(2) if rank == 1 else picked")
    nb.ok("picked.append(3)")
    assert nb.ok("%%distribute -r 0\npicked").value == "[1, 3]"
    conflict(nb.run("%%distribute\npicked"), "picked", ranks="rank 1", lowest=1)
    assert nb.ok("%%distribute -r 1 --no-capture\npicked").value == "[1, 2]"


def test_training_survives_a_glance_at_the_model(nb, torch):
    nb.ok("import torch\nmodel = torch.nn.Linear(4, 1)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)", limit=120)
    step = "import torch\nmodel(torch.ones(1, 4)).sum().backward(); opt.step(); opt.zero_grad()\n"
    nb.ok("%%distribute -n 2\n" + step + "trained = model.weight.sum().item()", limit=120)
    nb.ok("model.eval(); None")
    text = conflict(nb.run("%%distribute\nmodel.weight"), "model", "opt")
    assert "share memory" in text
    same = "model.weight.sum().item() == trained, opt.param_groups[0]['params'][0] is model.weight"
    assert rank_values(nb, same, 2, "--no-capture") == [(True, True)] * 2
    nb.ok("%pull model opt -r 0")
    assert nb.ok("opt.param_groups[0]['params'][0] is model.weight").value == "True"
    assert rank_values(nb, same, 2) == [(True, True)] * 2
    nb.ok("%push model")
    assert rank_values(nb, "opt.param_groups[0]['params'][0] is model.weight", 2) == [True] * 2


@pytest.mark.parametrize("change", ["net.weight.data = net.weight.data + 1", "net.weight.data.mul_(3)"])
def test_a_tensor_that_was_changed_behind_its_version_is_changed(nb, torch, change):
    nb.ok("import torch\nnet = torch.nn.Linear(200, 200)", limit=120)
    nb.ok("%%distribute -n 2\n" + change + "\nNone", limit=120)
    nb.ok("net.eval(); None")
    conflict(nb.run("%%distribute\nnet.weight"), "net")


def test_who_cannot_tell_says_so(nb):
    nb.ok(
        "class Odd:\n    n = 0\n"
        "    def __reduce__(self):\n        import os\n"
        "        if 'RANK' in os.environ: raise ValueError('no reason')\n"
        "        return (type(self), (), dict(self.__dict__))\n"
        "odd = Odd()"
    )
    assert rank_values(nb, "odd.n", 2) == [0, 0]
    nb.ok("odd.n = 5")
    text = conflict(nb.run("%%distribute\nodd.n"), "odd")
    assert "can't tell" in text and "no reason" in text


@pytest.mark.parametrize("setting, told", [("BODY_MAX = 1000", "its pickle has more than"), ("KEPT_MAX = 0", "too many large variables to compare: more than 0")])
def test_what_takes_too_much_memory_to_compare_is_a_conflict(nb, setting, told):
    name, before = setting.partition(" = ")[0], {"BODY_MAX": 64 << 20, "KEPT_MAX": 256}
    nb.ok("big = [str(k) for k in range(20_000)]")
    nb.ok("%%distribute -n 2 --no-capture\nimport cellspan._capture.origins as o\no." + setting)
    try:
        assert rank_values(nb, "len(big)", 2) == [20_000] * 2
        nb.ok("big.append('home')")
        assert told in conflict(nb.run("%%distribute\nlen(big)"), "big")
        nb.ok("%push big")
        assert rank_values(nb, "len(big)", 2, "--no-capture") == [20_001] * 2
    finally:
        nb.ok("%%%%distribute --no-capture\no.%s = %d\ndel big" % (name, before[name]))
        nb.ok("del big")


def test_a_pickle_that_is_never_the_same_is_no_change(nb):
    nb.ok(
        "import time\nclass Restless:\n    n = 1\n    def __reduce__(self):\n"
        "        return (setattr_all, (Restless, {'at': time.perf_counter_ns()}))\n"
        "def setattr_all(cls, values):\n    made = cls(); made.__dict__.update(values); return made\nr = Restless()"
    )
    nb.ok("%%distribute -n 2\nr.n = 7")
    assert rank_values(nb, "r.n", 2) == [7, 7]


def test_a_variable_that_a_rank_could_not_take_costs_no_other(nb):
    nb.ok("kept = [1]\nclass Bad:\n    def __setstate__(self, state):\n        import os\n        if 'RANK' in os.environ: raise ValueError('not here')\nbad = Bad()\nbad.x = 1")
    nb.ok("%%distribute -n 2\nkept.append(2)")
    assert nb.run("%%distribute\nbad").status == "error"
    assert rank_values(nb, "kept", 2) == [[1, 2]] * 2


SLOW = (
    "class Slow:\n    n = 1\n    def __getstate__(self):\n        import os, time\n"
    "        if 'RANK' in os.environ:\n            print('asked', flush=True)\n            time.sleep(600)\n"
    "        return dict(self.__dict__)\nslow = Slow()"
)


def test_what_takes_too_long_to_compare_is_a_conflict(nb):
    nb.ok(SLOW)
    pids = nb.rank_pids(2)
    assert rank_values(nb, "slow.n", 2) == [1, 1]
    nb.ok("slow.n = 2")
    assert "comparing takes more than 1 s" in conflict(nb.run("%%distribute\nslow.n"), "slow")
    nb.ok("del slow")  # that is compared as well, and kept
    assert rank_values(nb, "slow.n", 2) == [1, 1] and nb.rank_pids(2) == pids
    nb.ok("%%distribute\ndel slow")


def test_an_interrupt_ends_the_comparison_and_costs_nothing(nb):
    nb.ok(SLOW)
    nb.ok("%%distribute -n 2\nimport cellspan._capture.origins\ncellspan._capture.origins.LIMIT = 5.0")
    pids = nb.rank_pids(2)
    assert rank_values(nb, "slow.n", 2) == [1, 1]
    nb.ok("slow.n = 2")
    told = len(nb.strays)
    cell = nb.start("%%distribute\nslow.n")
    nb.until(lambda: any("asked" in str(m["content"].get("text")) for m in nb.strays[told:] + cell.messages))
    nb.km.interrupt_kernel()
    nb.wait(cell).assert_error("KeyboardInterrupt")
    assert nb.rank_pids(2) == pids and rank_values(nb, "slow.n", 2, "--no-capture") == [1, 1]
    nb.ok("%%distribute --no-capture\nimport cellspan._capture.origins\ncellspan._capture.origins.LIMIT = 1.0\ndel slow")
    nb.ok("del slow")


# -- an assignment


@pytest.mark.parametrize(
    "assign", ["w = 0", "w = [0][0]", "exec('w = 0.0')", "globals().update(w=0.0)", "x0 = w = 0", "%time w = 0", "for w in [3]: pass\nw = 0"]
)
def test_what_home_assigns_again_wins_also_when_it_is_equal(nb, assign):
    nb.ok("w = 0")
    assert rank_values(nb, "w", 2) == [0, 0]
    for _ in range(2):
        nb.ok("%%distribute -n 2\nw = w + 5")
        nb.ok(assign)
        assert rank_values(nb, "w", 2) == [0, 0]


@pytest.mark.parametrize(
    "assign",
    [
        "%run {folder}/assigns.py",
        "import sys\nsys.modules.pop('assigns', None)\nfrom assigns import *",
        "def setter():\n    global w\n    w = 0.0\nsetter()",
        "import threading\ndef work():\n    global w\n    w = 0.0\nt = threading.Thread(target=work)\nt.start()\nt.join()",
        "import asyncio\nasync def later():\n    global w\n    w = 0.0\nawait asyncio.create_task(later())",
        "import gc\ndef called(*_):\n    global w\n    w = 0.0\ngc.callbacks.append(called)\n_ = gc.collect()\ngc.callbacks.remove(called)",
    ],
    ids=["run", "import star", "global", "thread", "task", "callback"],
)
def test_what_home_assigns_elsewhere_than_in_a_cells_lines_wins(nb, tmp_path, assign):
    """Another object, and equal: by the value alone nobody could tell."""
    (tmp_path / "assigns.py").write_text("w = 0.0\n")
    nb.ok("import sys\nsys.path.insert(0, %r)\nw = 0" % str(tmp_path))
    try:
        assert rank_values(nb, "w", 2) == [0, 0]
        for _ in range(2):
            nb.ok("%%distribute -n 2\nw = w + 5")
            nb.ok(assign.format(folder=tmp_path))
            assert rank_values(nb, "w", 2) == [0, 0]
    finally:
        nb.ok("sys.path.pop(0)\n_ = sys.modules.pop('assigns', None)")


def test_a_list_and_an_array_that_are_made_again_win(nb):
    for _ in range(3):
        nb.ok("import numpy\nlosses, grid = [], numpy.zeros(1000)")
        nb.ok("%%distribute -n 2\nlosses.append(1); grid += 1")
        assert rank_values(nb, "(len(losses), float(grid[0]))", 2) == [(1, 1.0)] * 2


@pytest.mark.parametrize(
    "change",
    [
        "y += [1]",
        "y = y + [1]",
        "y.append(1); y = (lambda v: v)(y)",
        "if True: y = [9]",
        "try: y\nexcept NameError: y = []\ny.append(1)",
        "y = list(v for v in y); y.append(2)",
    ],
)
def test_what_comes_from_the_old_value_is_a_change_in_place(nb, change):
    nb.ok("y = [0]")
    nb.ok("%%distribute -n 2\ny.append('rank')")
    nb.ok(change)
    conflict(nb.run("%%distribute\ny"), "y")
    nb.ok("y = [0]")
    assert rank_values(nb, "y", 2) == [[0], [0]]


def test_what_ranks_assign_after_a_conflict_is_theirs(nb):
    nb.ok("import numpy\nv = numpy.zeros(1 << 16)")
    nb.ok("%%distribute -n 2\nv[0] = 1")
    nb.ok("v[1] = 2")
    conflict(nb.run("%%distribute -n 2\nv.sum()"), "v")
    nb.ok("%%distribute -n 2\nv = rank")
    assert rank_values(nb, "v", 2) == [0, 1]


@pytest.mark.parametrize(
    "make, theirs, ours, anew, look",
    [
        ("v = 1000", "v += 1", "v += 5", "v = 3000 + rank", "v"),
        ("v = [1000]", "v.append(rank)", "v.append(5)", "v = [rank]", "v"),
        ("v = list(range(1 << 15))", "v.append(rank)", "v.append(5)", "v = [rank]", "len(v)"),
        ("import numpy\nv = numpy.zeros(1 << 16)", "v[0] = 1", "v[1] += 2", "import numpy\nv = numpy.full(3, rank)", "float(v.sum())"),
    ],
    ids=["number", "list", "large list", "large array"],
)
def test_what_a_cell_assigns_is_the_ranks_once_it_has_assigned_it(nb, make, theirs, ours, anew, look):
    def both_change():
        nb.ok(make)
        nb.ok("%%distribute -n 2\n" + theirs)
        nb.ok(ours)

    def assign_and_fail():  # a rank that is late would be interrupted before it assigns
        nb.run_until("%%distribute -n 2\n" + anew + "\n1 / 0", lambda cell: "ZeroDivisionError on ranks 0-1 of 2" in cell.shown)

    both_change()
    nb.ok("%%distribute -n 2\n" + anew)
    wanted = rank_values(nb, look, 2)
    both_change()
    nb.run("%%distribute -n 2\n1 / 0\n" + anew).assert_error("ZeroDivisionError")
    conflict(nb.run("%%distribute -n 2\nv"), "v")
    assign_and_fail()
    assert rank_values(nb, look, 2) == wanted
    nb.ok(ours)
    conflict(nb.run("%%distribute -n 2\nv"), "v")
    nb.ok(make)
    home = values(nb.ok(look))
    nb.run("%%distribute -n 2\n1 / 0\n" + anew).assert_error("ZeroDivisionError")
    assert rank_values(nb, look, 2) == [home] * 2
    nb.ok(make)
    assign_and_fail()
    assert rank_values(nb, look, 2) == wanted


@pytest.mark.parametrize("before", ["", "%%distribute -n 2\nm"], ids=["never sent", "sent"])
@pytest.mark.parametrize(
    "train",
    [
        "exec('m = [rank]')",
        "globals().update(m=[rank])",
        "get_ipython().user_ns['m'] = [rank]",
        "get_ipython().run_cell('m = [rank]')",
        "train()",
        "Trainer().train()",
        "import threading\nt = threading.Thread(target=train); t.start(); t.join()",
    ],
)
def test_what_ranks_bind_by_other_means_than_the_cells_text_is_theirs(nb, before, train):
    nb.ok("%%distribute -n 2\ndef train():\n    global m\n    m = [rank]\nclass Trainer:\n    def train(self):\n        train()")
    nb.ok("m = ['home']")
    nb.ok(before or "pass")
    nb.ok("%%distribute -n 2\n" + train)
    assert rank_values(nb, "m", 2) == [[0], [1]]
    nb.ok("m.append(1)")
    conflict(nb.run("%%distribute -n 2\nm"), "m")
    nb.ok("m = ['anew']")
    assert rank_values(nb, "m", 2) == [["anew"]] * 2
    nb.run("%%distribute -n 2 -r 1\n" + train + "\n1 / 0").assert_error("ZeroDivisionError")
    assert rank_values(nb, "m", 2) == [["anew"], [1]]


@pytest.mark.parametrize(
    "code",
    [
        "%timeit -n1 -r1 h = 'x'",
        "%%timeit -n1 -r1\nh = 'x'",
        "import contextlib\nwith contextlib.suppress(Exception):\n    1 / 0\n    h = 'x'",
        "for i in [1]:\n    break\nelse:\n    h = 'x'",
    ],
)
def test_an_assignment_at_home_that_did_not_happen_is_none(nb, code):
    nb.ok("h = 'home'")
    nb.ok("%%distribute -n 2\nh = 'rank'")
    nb.ok(code)
    assert rank_values(nb, "h", 2) == ["rank"] * 2


def test_what_home_makes_of_a_pulled_list_travels(nb):
    nb.ok("%%distribute -n 2\ng = float(rank)")
    nb.ok("%pull g")
    assert rank_values(nb, "g", 2) == [0.0, 1.0]
    nb.ok("g = sum(g) / len(g)")
    assert rank_values(nb, "g", 2) == [0.5, 0.5]


def test_an_instance_that_travels_changes_no_class(nb):
    made = "from dataclasses import dataclass\n@dataclass\nclass C:\n    lr: float = %d\nc = C()"
    nb.ok(made % 1)
    assert rank_values(nb, "c.lr", 2) == [1, 1]
    nb.ok((made % 2).replace("c = C()", ""))
    assert rank_values(nb, "C().lr", 2) == [2, 2]
    nb.ok("c = C()")
    assert rank_values(nb, "c.lr, C().lr", 2) == [(2, 2)] * 2
    nb.ok("%%distribute -n 2\nclass Res:\n    n = 1")
    nb.ok("%pull Res -r 0\nres = Res()")
    assert rank_values(nb, "res.n + Res.n", 2) == [2, 2]


def test_what_ranks_run_from_a_file_binds_their_names(nb, tmp_path):
    (tmp_path / "train.py").write_text("m = 'trained'\n")
    nb.ok("m = 'home'")
    nb.ok("%%distribute -n 2\n%run " + str(tmp_path / "train.py"))
    assert rank_values(nb, "m", 2) == ["trained"] * 2


def test_what_functions_of_the_ranks_read_goes_along(nb):
    nb.ok("lr, decay = 1, 10")
    nb.ok("%%distribute -n 2\ndef step():\n    return lr\nclass Trainer:\n    def train(self):\n        return step() + decay\nstep()")
    nb.ok("lr, decay = 2, 20")
    assert rank_values(nb, "step()", 2) == [2, 2]
    nb.ok("lr = 3")
    assert rank_values(nb, "Trainer().train()", 2) == [23, 23]
    nb.ok("def step():\n    return 5")
    assert rank_values(nb, "step()", 2) == [5, 5]
    nb.ok("lr = 4")
    assert rank_values(nb, "step()", 2) == [5, 5]
    assert rank_values(nb, "lr", 2, "--no-capture") == [3, 3], "home's function does not read it"
    nb.ok("del step, lr, decay")


def test_what_a_failed_cell_has_bound_to_none_is_bound(nb):
    nb.ok("import numpy\nv = numpy.zeros(1 << 16)")
    nb.ok("%%distribute -n 2\nv.sum()")
    nb.ok("v = numpy.ones(1 << 16)")
    nb.run_until("%%distribute -n 2\nv = None\n1 / 0", lambda cell: "ZeroDivisionError on ranks 0-1 of 2" in cell.shown)
    assert rank_values(nb, "v is None", 2) == [True, True]


def test_a_refused_cell_changes_nothing_of_what_shares_memory(nb):
    """The optimizer made anew is refused beside a model that ranks have trained; the model alone is as it was."""
    nb.ok("import numpy\nv = numpy.zeros(1 << 14)\nw = [v]")
    nb.ok("%%distribute -n 2\nv[0] = 7\nassert w[0] is v")
    nb.ok("w = [v, 1]")
    for _ in range(2):
        text = conflict(nb.run("%%distribute -n 2\nw"), "w", "v")
        assert text.startswith("home has assigned w, which shares memory with v, which ranks 0-1 have changed: "), text
        assert rank_values(nb, "float(v[0])", 2) == [7.0, 7.0]
    nb.ok("%push w v")
    assert rank_values(nb, "w[0] is v, len(w), float(v[0])", 2) == [(True, 2, 0.0)] * 2


def test_what_did_not_change_anything_is_no_conflict(nb):
    nb.ok("z = [0]")
    nb.ok("%%distribute -n 2\nz.append('rank')")
    nb.ok("if False: z = []")
    nb.ok("try:\n    z\nexcept NameError:\n    z = []")
    nb.ok("z = (lambda v: v)(z)")
    assert rank_values(nb, "z", 2) == [[0, "rank"]] * 2


def test_a_module_that_both_import_is_no_conflict(nb):
    nb.ok("import xml, json as other")
    nb.ok("%%distribute -n 2\nimport xml\nimport csv as other")
    nb.ok("import xml.dom.minidom, json.decoder")
    nb.ok("%%distribute -n 2\nxml.dom.minidom.parseString('<a/>')\nassert other.__name__ == 'csv', other")
    nb.ok("%%distribute -n 2\nother.decoder if other.__name__ == 'json' else other.reader")


def test_a_cell_that_calls_the_ranks_does_not_assign_twice(nb):
    nb.ok("import cellspan\nm = 0\ndef bump():\n    global m\n    m += 1\n    return m\nm = 3\ngot = cellspan.run(bump, n=2)")
    assert rank_values(nb, "m", 2) == [4, 4]


# -- what is deleted


AGAIN = [  # binds {n} several times, unseen: the last object may stand where the one before the cell stood
    "exec('for k in range(4): {n} = [k, rank]')",
    "for k in range(4):\n    globals()['{n}'] = None\n    globals()['{n}'] = [k, rank]",
]


@pytest.mark.parametrize("name", ["often", "_often"])
@pytest.mark.parametrize("bind", AGAIN)
def test_what_ranks_bind_unseen_several_times_in_a_cell_is_newer_than_homes(nb, bind, name):
    nb.ok(f"{name} = [7]")
    nb.ok(f"%%distribute -n 2\n{name} = [8]")
    nb.ok(f"%%distribute -n 2\n{name}")
    nb.ok(f"{name} = [9]")
    nb.ok("%%distribute -n 2\n" + bind.format(n=name))
    assert rank_values(nb, name, 2) == [[3, 0], [3, 1]]


@pytest.mark.parametrize("bind", ["exec('lost = rank')", "global_lost()"])
def test_what_ranks_have_bound_unseen_and_deleted_comes_again(nb, bind):
    nb.ok("%%distribute -n 2\ndef global_lost():\n    global lost\n    lost = rank")
    nb.ok("lost = 'home'")
    nb.ok("%%distribute -n 2\n" + bind)
    nb.ok("%%distribute -n 2\nlost\ndel lost")
    assert rank_values(nb, "lost", 2) == ["home", "home"]
    nb.ok("del lost")

def test_what_ranks_delete_comes_again(nb):
    nb.ok("import numpy\nlarge, little = numpy.ones(1 << 18), 'x'")
    for _ in range(2):
        assert nb.ok("%%distribute -n 2\ngot = float(large.sum()), little\ndel large, little\ngot").value == "(262144.0, 'x')"


def test_what_home_deletes_goes_from_ranks_that_have_not_changed_it(nb):
    nb.ok("def sum(x):\n    return 'ours'\nhelper, notes = {'a': 1}, [1]")
    assert rank_values(nb, "(sum([1]), helper, notes)", 2) == [("ours", {"a": 1}, [1])] * 2
    nb.ok("%%distribute -r 1\nnotes.append(2)")
    nb.ok("del sum, helper, notes")
    assert rank_values(nb, "(sum([1]), 'helper' in globals(), 'notes' in globals())", 2) == [(1, False, False), (1, False, True)]
    gone = nb.run("%%distribute\nhelper").assert_error("NameError")
    assert "helper was deleted at home, so it was deleted here, too; a variable sent by %push is kept" in gone.traceback
    nb.ok("helper = 5")
    assert rank_values(nb, "helper", 2) == [5, 5]


def test_a_module_and_a_class_that_home_deletes_go_as_well(nb):
    nb.ok("import json as mod\nclass Thing:\n    n = 1\n    def __init__(self):\n        self.own = 2")
    assert rank_values(nb, "(mod.dumps([1]), Thing.n)", 2) == [("[1]", 1)] * 2
    nb.ok("%%distribute -r 1\nThing.n = 5")
    nb.ok("del mod, Thing")
    assert rank_values(nb, "('mod' in globals(), 'Thing' in globals())", 2) == [(False, False), (False, True)]
    nb.run("%%distribute -r 0\nThing()").assert_error("NameError")
    nb.ok("%%distribute -r 1\ndel Thing")


def test_what_was_pushed_stays_and_so_does_all_at_reset(fresh):
    one = fresh()
    one.ok("%%distribute -n 1\npass", limit=120)
    one.ok("data = [1, 2]\nother = 3")
    one.ok("%push data")
    assert one.ok("%%distribute\ndata, other").value == "([1, 2], 3)"
    one.ok("del data")
    assert one.ok("%%distribute\ndata, other").value == "([1, 2], 3)"
    one.ok("%reset -f")
    assert one.ok("%%distribute\ndata, other").value == "([1, 2], 3)"


def test_what_ranks_had_before_it_was_pushed_stays_as_well(nb):
    nb.ok("kept = [1, 2]")
    assert rank_values(nb, "kept", 2) == [[1, 2]] * 2
    nb.ok("%push kept")
    nb.ok("del kept")
    assert rank_values(nb, "kept", 2) == [[1, 2]] * 2


@pytest.mark.parametrize(
    "make, theirs, ours, look",
    [
        ("v = [1]", "v.append(cellspan.rank())", "v.append(2)", "v"),
        ("import torch\nv = torch.ones(3)", "v += cellspan.rank() + 1", "v += 1", "v.tolist()"),
    ],
)
def test_a_rank_keeps_what_home_pulled_from_it_before_it_pulled_from_another(nb, make, theirs, ours, look):
    nb.ok(make)
    nb.ok("%%distribute -n 3\nimport cellspan\n" + theirs)
    before = rank_values(nb, look, 3)
    nb.ok("%pull v -r 0")
    nb.ok("%pull v -r 1")
    nb.ok(ours)
    conflict(nb.run("%%distribute -n 3\n" + look), "v", ranks="by ranks 0,2")
    assert rank_values(nb, look, 3, "--no-capture") == before
    nb.ok("%pull v -r 0\n" + ours)
    conflict(nb.run("%%distribute -n 3\n" + look), "v", ranks="by ranks 1-2", lowest=1)
    nb.ok("%push v")
    assert rank_values(nb, look, 3) == [values(nb.ok(look))] * 3
    nb.ok(ours)  # what was sent is home's again
    assert rank_values(nb, look, 3) == [values(nb.ok(look))] * 3
