# SPDX-License-Identifier: BSD-3-Clause
"""Home's part of cellspan.map, with a double for the kernel: which chunks are handed out again when a rank has died."""

from __future__ import annotations

import contextlib
import json
import types

import pytest
from cellspan import _link, _map, _scatter
from cellspan._capture import vars_bundle
from cellspan._worker import map_rank


class Home:
    """A home that keeps what it sends."""

    def __init__(self):
        self.shell = types.SimpleNamespace(user_ns={})
        self.sent = []

    def interruptible(self, function, *args):
        return function(*args)

    def refusing(self, why):
        return contextlib.nullcontext()

    def send(self, kind, cell, fields):
        assert (kind, cell) == ("HAND", 5)
        self.sent.append(fields)

    def loads(self):
        """[(number of the first item, [its items])] that were sent since the last call; what else was sent stays."""
        found, others = [], []
        for fields in self.sent:
            if fields.get("load"):
                head, data = fields["load"]
                found.append((json.loads(head)["first"], [x for (x,) in vars_bundle.unpack_bytes(data, {})]))
            else:
                others.append(fields)
        self.sent = others
        return found


def begun(count, ranks=2, **how):
    home = Home()
    tasks = _map._Tasks(home, iter([(x,) for x in range(count)]), count, **{"chunksize": 2, "retries": 1, **how})
    tasks.of = 7
    for rank in range(ranks):
        tasks.take(5, rank, {"ready": 1}, b"")
    return home, tasks


def finish(tasks, rank, first, results):
    tasks.take(5, rank, {"first": first, "seconds": 1.0}, vars_bundle.pack_bytes(results, {}))


def die(tasks, rank, *firsts):
    tasks.take(5, rank, {"died": f"rank {rank} was killed", "loads": [{"first": first} for first in firsts]}, b"")


def is_told_last(home):
    return any(fields["flags"] & _link.HAND_LAST for fields in home.sent)


def test_of_a_chunk_that_had_begun_each_item_is_tried_by_itself_and_one_that_had_not_goes_out_as_it_was():
    home, tasks = begun(8)
    assert home.loads() == [(0, [0, 1]), (2, [2, 3]), (4, [4, 5]), (6, [6, 7])] and not is_told_last(home)
    die(tasks, 0, 2, 4)
    assert home.loads() == [(2, [2]), (3, [3]), (4, [4, 5])]
    for first, results in ((0, "ab"), (2, "c"), (6, "gh"), (4, "ef")):
        finish(tasks, 1, first, list(results))
        assert not is_told_last(home)  # rank 1 may die, and then another must be there
    finish(tasks, 1, 3, ["d"])
    assert is_told_last(home) and not home.loads() and tasks.results() == list("abcdefgh")


def test_an_item_of_which_too_many_ranks_have_died_ends_it_and_those_that_had_not_begun_do_not_count():
    home, tasks = begun(8, ranks=4)
    die(tasks, 0, 0, 2)
    die(tasks, 1, 2, 0)  # item 0 waited there
    assert tasks.error is None
    die(tasks, 2, 0)
    text = "map(): item 0, (0): 2 ranks have died with it, and retries=1: rank 0 was killed, with items 0 to 1; rank 2 was killed"
    assert str(tasks.error) == text and tasks.error.item == 0 and type(tasks.error).__name__ == "RankDied"
    assert home.sent[-1]["flags"] == _link.HAND_STOP
    with pytest.raises(RuntimeError, match="item 0"):
        tasks.results()


def test_where_exceptions_are_results_such_an_item_is_given_up_and_the_others_go_on():
    home, tasks = begun(2, ranks=3, chunksize=1, keeps=True)
    die(tasks, 0, 1)
    die(tasks, 1, 1)
    assert [fields["failed"] for fields in home.sent if fields.get("failed")] == [1] and not is_told_last(home)
    finish(tasks, 2, 0, ["a"])
    first, second = tasks.results()
    assert first == "a" and type(second).__name__ == "RankDied" and second.item == 1 and is_told_last(home)


def test_without_retries_ranks_are_told_of_the_end_when_all_is_handed_out():
    home, tasks = begun(2, retries=0)
    assert is_told_last(home) and home.sent[-1]["items"] == 2


@pytest.mark.parametrize("retries", [-1, 1.5, True, "2", None, [1]])
def test_a_wrong_number_of_retries_is_named(retries):
    with pytest.raises(ValueError) as caught:
        _map.retries_of(retries)
    assert str(caught.value) == f"retries={retries!r}: it is how often an item is tried again, a whole number, 0 or more"


@pytest.mark.parametrize("ename", ["RankDied", "MachineLeaves"])
def test_when_no_rank_is_left_the_items_are_named_however_the_ranks_have_gone(ename):
    home, tasks = begun(2, chunksize=1)
    die(tasks, 0, 0)
    die(tasks, 1, 1)
    made = _map.reason(home, abs, tasks, _map.remote_error({"ename": ename, "evalue": "gone", "traceback": [ename]}))
    assert type(made).__name__ == ename and str(made).startswith("map(): no rank is left: item ")


@pytest.mark.parametrize("ename", ["RankDied", "MachineLeaves"])
def test_a_map_without_retries_says_that_they_would_help_however_a_rank_has_gone(monkeypatch, ename):
    def fail(*args):
        raise _map.remote_error({"ename": ename, "evalue": "gone", "traceback": [ename]})

    home = Home()
    home.servers, home.pieces = {}, {}
    home.captures = lambda: None
    monkeypatch.setattr(_map._api, "_run", fail)
    with pytest.raises(RuntimeError) as caught:
        _map.call(home, abs, iter([(1,)]), 1, {"chunksize": 1, "retries": 0, "keeps": False}, {}, None)
    assert caught.value.traceback == [ename, _map.RETRIES]


def test_the_item_is_noted_where_exceptions_have_no_add_note():
    error = types.SimpleNamespace()  # as an exception of Python 3.10
    map_rank.note_item(error, 3, "cellspan.map: item 3")
    map_rank.note_item(error, 3, "of two")
    assert (error.item, error.__notes__) == (3, ["cellspan.map: item 3", "of two"])


class Lengthless:
    """What has items, and a __len__ that fails as those of some lazy tables do."""

    def __len__(self):
        raise NotImplementedError

    def __iter__(self):
        return iter([1, 2])


def test_an_iterable_may_fail_to_tell_its_length():
    length, items = _map.checked(abs, [Lengthless()], None)
    assert (length, list(items)) == (None, [(1,), (2,)])


def test_numbers_may_be_numpys():
    numpy = pytest.importorskip("numpy")
    assert _map.checked(abs, [[1]], numpy.int64(2))[0] == 1
    home, tasks = begun(4, ranks=1, chunksize=numpy.int64(2))
    assert home.loads() == [(0, [0, 1]), (2, [2, 3])]
    assert type(tasks._fixed) is int
    for wrong in (numpy.int64(0), True, 1.5, "2", numpy.float64(2)):
        with pytest.raises(ValueError, match="a number of items, 1 or more"):
            _map.checked(abs, [[1]], wrong)
    assert _scatter.numbers(numpy.int64(0)) == [0] == _scatter.numbers(0) == _scatter.numbers("0")
    assert _scatter.numbers(numpy.array([2, 0])) == [0, 2]
