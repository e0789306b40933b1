# SPDX-License-Identifier: BSD-3-Clause
"""Names that a client's hidden requests leave behind in home's namespace."""

import pytest

pytest.importorskip("cloudpickle")
from cellspan._capture.capture import Capture  # noqa: E402
from notebook import Notebook  # noqa: E402


@pytest.fixture
def nb():
    nb = Notebook()
    nb.capture = Capture(nb.ns)
    yield nb
    nb.close()


def hidden(nb, code):
    nb.capture.began(hidden=True)
    exec(compile(code, "<cell>", "exec"), nb.ns)
    nb.capture.ran(code, True, hidden=True)


def sent(nb, code):
    return [row[0] for row in nb.capture.names(code)[0]]


def test_what_a_hidden_request_binds_travels_where_ranks_have_not_bound_it(nb):
    hidden(nb, "file = 'left'")
    assert sent(nb, "file") == ["file"]


def test_it_does_not_replace_what_a_cell_on_ranks_has_bound(nb):
    sent(nb, "file = 1")
    hidden(nb, "file = 'left'")
    assert sent(nb, "file") == [] and sent(nb, "file = 2") == [] and nb.capture.assigned() == []
    assert sent(nb, "def f(): return file\nf()") == []


def test_it_does_not_replace_what_ranks_bind_by_other_means(nb):
    nb.capture.ranks_bound(["file"])
    assert nb.capture.newer() == [["file", 0]]
    hidden(nb, "file = 'left'")
    assert sent(nb, "file") == []


def test_a_cell_that_only_looks_at_it_changes_nothing(nb):
    sent(nb, "file = 1")
    hidden(nb, "file = 'left'")
    nb.run("print(file)")
    assert sent(nb, "file") == []


@pytest.mark.parametrize("bind", ["file = 'mine'", "file = 'left'", "for file in ['mine']: pass", "import os as file", "global file\nfile = 3"])
def test_a_cell_that_binds_it_makes_it_the_users(nb, bind):
    sent(nb, "file = 1")
    hidden(nb, "file = 'left'")
    nb.run(bind)
    assert sent(nb, "file") == ["file"]


def test_what_binds_it_without_its_name_in_the_text_makes_it_the_users(nb):
    sent(nb, "file = 1")
    hidden(nb, "file = 'left'")
    nb.run("globals()['fi' + 'le'] = ['mine']")
    assert sent(nb, "file") == ["file"]


def test_the_users_own_value_stays_the_users(nb):
    nb.run("file = ['mine']")
    sent(nb, "file = 1")
    nb.run("file = ['anew']")
    hidden(nb, "print(len(file)); other = file")
    assert sent(nb, "file") == ["file"]


def test_the_text_of_a_hidden_request_proves_no_assignment(nb):
    nb.run("x = 0")
    before = nb.capture.names("x")[0][0]
    hidden(nb, "x = 0")
    assert nb.capture.names("x")[0][0] == before
    nb.run("x = 0")
    assert nb.capture.names("x")[0][0][1] > before[1]


def test_a_request_that_began_before_the_first_cell_on_ranks(nb):
    nb.capture.ran("file = 'left'", True, hidden=True)
    sent(nb, "file = 1")
    nb.run("pass")
    assert sent(nb, "file") == []
