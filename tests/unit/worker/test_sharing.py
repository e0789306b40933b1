# SPDX-License-Identifier: BSD-3-Clause
"""Which names share memory is a part of their values: a change of that alone is a change in place, and nothing else is one."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cellspan._capture import vars_bundle  # noqa: E402
from cellspan._capture.capture import Capture  # noqa: E402
from cellspan._capture.origins import Origins  # noqa: E402
from notebook import Notebook  # noqa: E402

COPIED = """
class Copied:
    def __init__(self):
        self.a = numpy.ones(1000)
    def __getstate__(self):
        return {"a": self.a.copy()}
class Odd:
    def __init__(self, a):
        self.a = a
    def __getstate__(self):
        return {"a": self.a, "odd": os.urandom(int(os.environ.get("ODD", 8)))}
"""


@pytest.fixture
def nb():
    notebook = Notebook()
    notebook.capture = Capture(notebook.ns)
    notebook.run("import os, numpy\n" + COPIED)
    yield notebook
    notebook.close()


def rows(nb, code):
    """{name: (version, since)}, after the names were sent."""
    found = nb.capture.names(code)[0]
    fd, _, _ = nb.capture.pack([row[0] for row in found])
    os.close(fd)
    return {row[0]: (row[1], row[4]) for row in found}


CHANGES = [  # made at home; home's change; names that have changed in place
    ("a = numpy.zeros(1000); b = {'w': a}", "b['w'] = a.copy()", "b"),
    ("a = numpy.zeros(1000); b = {'w': a}", "b['w'] = numpy.zeros(1000); del a; a = b['w'].copy()", "b"),
    ("a = numpy.zeros(1000); b = [numpy.zeros(1000)]", "b[0] = a", "b"),
    ("a = numpy.zeros(9000); b = [a]", "b[0] = a.copy()", "b"),
    ("a = [numpy.zeros(1000), numpy.zeros(1000)]; b = [a[0]]", "b[0] = a[1]", "b"),
    ("a = numpy.array([None] * 1000); b = [a]", "b[0] = a.copy()", ""),
    ("a = numpy.zeros(1000, 'i8,O'); b = [numpy.zeros(1000, 'i8,O')]", "b[0] = a", ""),
    ("a = numpy.zeros(1000); b = [a]", "b.append(b.pop())", ""),
    ("a = [numpy.zeros(1000)]; b = [a[0]]", "a[0] = b[0] = a[0].copy()", ""),
    ("a = [numpy.zeros(1000)]; b = [numpy.zeros(1000)]", "a[0] = a[0].copy()", ""),
    ("a = Copied(); b = [a]", "keep = [numpy.ones(1000) for _ in range(99)]", ""),
    ("a = numpy.zeros(1000); b = Odd(a)", "b.a = a.copy()", ""),
]


@pytest.mark.parametrize("make, change, changed", CHANGES, ids=[row[1] for row in CHANGES])
def test_tied_and_untied_names_count_as_changed_in_place(nb, make, change, changed):
    nb.run(make)
    rows(nb, "a, b")
    before = rows(nb, "a, b")
    assert rows(nb, "a, b") == before
    nb.run(change)
    after = rows(nb, "a, b")
    in_place = {name for name in "ab" if after[name][0] != before[name][0] and after[name][1] == before[name][1]}
    assert in_place == set(changed.split()), (before, after)
    assert rows(nb, "a, b") == after


def test_a_cell_that_reads_one_of_them_says_what_has_changed(nb):
    nb.run("a = numpy.zeros(1000); b = [a]; c = [numpy.zeros(1000)]")
    before = rows(nb, "a, b, c")
    nb.run("b[0] = a.copy()\nc[0] = a")
    assert rows(nb, "a") == {"a": before["a"], "b": before["b"]}  # home has not looked at b
    after = rows(nb, "b")
    assert set(after) == {"b"} and after["b"] != before["b"]
    after = rows(nb, "c")
    assert set(after) == {"a", "c"} and after["c"] != before["c"] and after["a"] == before["a"]


def test_names_that_move_together_stay_as_they_are_if_only_one_is_read(nb):
    nb.run("a = [numpy.zeros(1000)]; b = [a[0]]")
    before = rows(nb, "a, b")
    nb.run("a[0] = b[0] = a[0].copy()")
    assert rows(nb, "a")["a"] == before["a"]
    assert rows(nb, "b")["b"] == before["b"]


def test_values_that_were_lent_or_pulled_leave_no_change(nb):
    nb.run("a = numpy.zeros(1000); b = [a]")
    before = rows(nb, "a, b")
    lent, own = nb.capture.lend(["b"]), nb.ns["b"]
    nb.ns["b"] = [nb.ns["numpy"].ones(1000, "f4")]
    pushed = rows(nb, "b")["b"][0]
    nb.ns["b"] = own
    nb.capture.taken_back(lent)
    assert rows(nb, "a, b") == {"a": before["a"], "b": (pushed, before["b"][1])}
    fd, size, _ = nb.capture.pack(["a", "b"])
    nb.run("a = numpy.zeros(1000); b = [a]")
    nb.capture.pulled(["a", "b"], fd, size)
    os.close(fd)
    pulled = rows(nb, "a, b")
    nb.run("b[0] = a.copy()")
    after = rows(nb, "a, b")
    assert after["a"] == pulled["a"] and after["b"][0] > pulled["b"][0] and after["b"][1] == 0


def test_a_list_of_all_ranks_values_shares_what_its_name_shared_before_no_more(nb):
    nb.run("a = [numpy.zeros(1000)]; b = [a[0]]")
    rows(nb, "a, b")
    nb.run("b = [1, 2]")
    nb.capture.pulled(["b"])
    nb.run("a[0] = a[0].copy()")
    assert set(rows(nb, "a")) == {"a"}
    assert rows(nb, "b") == {}, "it is not sent by itself"


def came(nb, *names):
    """The origins of a rank that home has sent these names in one bundle."""
    of = Origins(nb.ns)
    fd, size = nb.pack(*names)
    nb.ns.update(vars_bundle.unpack(fd, size, nb.ns))
    of.came(names, fd, size)
    os.close(fd)
    return of


@pytest.mark.parametrize("make, change, changed", [
    ("a = numpy.zeros(1000); b = {'w': a}", "b['w'] = a.copy()", "ab"),
    ("a = numpy.zeros(1000); b = {'w': numpy.zeros(1000)}; c = a", "b['w'] = a", "abc"),
    ("a = numpy.zeros(1000); b = {'w': a}; c = 1", "a = b['w'] = a.copy()", ""),
    ("a = [numpy.zeros(1000), numpy.zeros(1000)]; b = [a[0]]", "b[0] = a[1]", "ab"),
    ("a = Copied(); b = [a]; c = numpy.ones(1000)", "b[0] = Copied()", ""),
    ("a = torch.nn.Linear(2, 2); b = torch.nn.Linear(2, 2); b.weight = a.weight; c = 1", "b.weight = copy.deepcopy(a.weight)", "ab"),
])
def test_what_a_rank_ties_or_unties_is_a_change_of_the_ranks(nb, make, change, changed):
    if "torch" in make:
        pytest.importorskip("torch")
        nb.run("import copy, torch")
    names = [name for name in "abc" if name + " = " in make]
    nb.run(make)
    of = came(nb, *names)
    assert of.changed(names) == dict.fromkeys(names, "same")
    nb.run(change)
    assert of.changed(names) == {name: "changed" if name in changed else "same" for name in names}


def test_a_name_that_was_deleted_was_shared_with_nobody(nb):
    nb.run("a = [numpy.zeros(1000)]; b = [a[0]]")
    before = rows(nb, "a, b")
    nb.run("del b\na[0] = a[0].copy()")
    assert rows(nb, "a") == {"a": before["a"]}


def test_a_value_whose_pickle_differed_for_a_time_has_not_changed(nb, monkeypatch):
    monkeypatch.setenv("ODD", "0")
    nb.run("a = numpy.zeros(1000); b = Odd(a); c = [a]")
    before = rows(nb, "a, b, c")
    for odd in (8, 0, 8):
        monkeypatch.setenv("ODD", str(odd))
        assert rows(nb, "a, b, c") == before
    nb.run("c[0] = a.copy()")
    after = rows(nb, "a, b, c")
    assert {name for name in "abc" if after[name] != before[name]} == {"c"}
    monkeypatch.setenv("ODD", "0")
    assert rows(nb, "a, b, c") == after


def test_what_names_of_very_many_arrays_share_is_not_looked_at(nb):
    nb.run("a = [numpy.zeros(512) for _ in range(3000)]; b = list(a); c = [a[0], a[1]]; d = a[0]")
    before = rows(nb, "a, b, c, d")
    nb.run("a[0] = a[0].copy()")
    assert rows(nb, "a, b, c, d") == before
    nb.run("c[1] = c[1].copy()")
    assert rows(nb, "a, b, c, d") == before
    nb.run("c[0] = c[0].copy()")
    after = rows(nb, "a, b, c, d")
    assert {name for name in "abcd" if after[name] != before[name]} == {"c"}
    nb.run("a[:] = a[:3]; b[:] = a")
    rows(nb, "a, b")
    nb.run("b[0] = a[0].copy()")
    before, after = after, rows(nb, "a, b")
    assert after["a"] != before["a"] and rows(nb, "a, b") == after
