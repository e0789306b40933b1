# SPDX-License-Identifier: BSD-3-Clause
"""sys.path of ranks follows home's."""

import sys

import pytest

from cellspan._worker import module_paths
from cellspan._worker.module_paths import Followed, Led, in_order, with_added

STD = ["/std", "/site"]


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    monkeypatch.setattr(sys, "path", ["", *STD])


def test_home_says_nothing_until_something_was_changed(tmp_path, monkeypatch):
    led = Led()
    assert led.change() is None
    sys.path.insert(1, "src")
    monkeypatch.chdir(tmp_path)
    sys.path.append(3)  # no entry, but Python lets it be
    assert led.change() == {"began": ["", *STD], "now": ["", str(tmp_path / "src"), *STD]}
    sys.path[:] = ["", *STD]
    assert led.change() == {"began": ["", *STD], "now": ["", *STD]}


def test_the_folder_was_deleted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    sys.path.append("src")
    assert module_paths.entries() == ["", *STD, "src"]


@pytest.mark.parametrize(
    "rank, now, then",
    [
        (["", *STD], ["/a", "", *STD, "/z"], ["/a", "", *STD, "/z"]),
        (["", *STD], ["", "/a", "/b", *STD], ["", "/a", "/b", *STD]),
        (["", *STD], STD, STD),
        (["", *STD], [*STD, ""], [*STD, ""]),
        (["/own", "", *STD, "/mine"], ["/a", "", *STD, "/z"], ["/a", "/own", "", *STD, "/z", "/mine"]),
        (["", "/other/std", "/other/site"], ["/a", "", *STD, "/z"], ["/a", "", "/z", "/other/std", "/other/site"]),
        (["", *STD, "/a"], ["/a", "", *STD], ["/a", "", *STD]),
    ],
    ids=["both ends", "between", "removed", "moved", "beside own ones", "another Python", "there already"],
)
def test_a_rank_follows(rank, now, then):
    sys.path[:] = rank
    followed = Followed()
    followed.take({"began": ["", *STD], "now": now})
    assert sys.path == then
    followed.take({"began": ["", *STD], "now": now})
    assert sys.path == then


def test_what_home_takes_back_a_rank_takes_back():
    followed = Followed()
    followed.take({"began": ["", *STD], "now": ["/a", STD[1]]})
    assert sys.path == ["/a", STD[1]]
    sys.path.append("/own")
    followed.take({"began": ["", *STD], "now": ["", *STD]})
    assert sys.path == ["", *STD, "/own"]


def test_what_a_rank_has_changed_stays():
    followed = Followed()
    followed.take({"began": ["", *STD], "now": ["/a", "", *STD]})
    sys.path.remove("/std")
    sys.path.insert(0, "/own")
    followed.take({"began": ["", *STD], "now": ["/a", "/b", "", *STD]})
    assert sys.path == ["/a", "/b", "/own", "", "/site"]


def test_nothing_is_done_before_home_has_changed_it():
    sys.path.append("/own")
    Followed().take(None)
    assert sys.path == ["", *STD, "/own"]


def test_entries_that_stand_twice():
    assert in_order(["/a", "/b", "/a"], ["/b", "/a", "/a"]) == ["/b", "/a", "/a"]
    assert with_added(["/a"], ["/x", "/a", "/x"], {"/x"}) == ["/x", "/a", "/x"]
