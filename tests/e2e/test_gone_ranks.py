# SPDX-License-Identifier: BSD-3-Clause
"""What %ranks, a pull and a cell say of ranks that are gone, and of their variables."""

from __future__ import annotations


def test_variables_are_gone_only_of_ranks_that_were_there(fresh):
    nb = fresh()
    nb.ok("%%distribute -n 2\nx = 1")
    nb.ok("%ranks stop")
    told = nb.ok("%%distribute -n 4\npass").stderr
    assert "ranks 0-1 are new: their variables are gone, they have not run cell 1\n" in told
    assert "ranks 2-3 are new: they have not run cell 1\n" in told
    nb.ok("%%distribute -n 2 --fresh\npass")
    assert "ranks 2-3 are new: they have not run cell 4\n" in nb.ok("%%distribute -n 4\npass").stderr


def test_where_there_are_no_ranks_stop_restart_and_the_table_say_so(fresh):
    nb = fresh()
    for _ in range(2):
        assert nb.ok("%ranks stop").stderr == "cellspan: there are no ranks to stop\n"
        assert "there are no ranks" in nb.run("%ranks restart").assert_error("UsageError").error["evalue"]
        assert "there are no ranks" in nb.run("%ranks restart -r 1").assert_error("UsageError").error["evalue"]
        assert "no ranks" in nb.ok("%ranks").shown
        nb.ok("%%distribute -n 2\nx = 1")
        assert "2 ranks" in nb.ok("%ranks").shown
        assert nb.ok("%ranks stop").stderr == "cellspan: ranks 0-1: stopped\n"


def test_ranks_of_an_earlier_larger_world_are_not_there_any_more(fresh):
    nb = fresh()
    nb.ok("%%distribute -n 5\npass")
    assert "[0-4] idle" in nb.ok("%ranks where").shown
    nb.ok("%%distribute -n 2\npass")
    assert "[0-4] idle" in nb.ok("%ranks where").shown, "ranks beyond the world live on"
    assert nb.ok("%ranks stop -r 4").stderr == "cellspan: rank 4: stopped\n"
    nb.ok("%%distribute -n 3 --fresh\npass")
    assert nb.ok("%ranks where").stdout.splitlines() == ["[0-2] idle"]
    for line in ("stop -r 4", "restart -r 4", "free -r 4", "where -r 4"):
        assert nb.run("%ranks " + line).assert_error("UsageError").reply["evalue"] == "rank 4: there are 3 ranks, 0 to 2", line
    nb.ok("%ranks stop")
    assert "there are no ranks" in nb.ok("%ranks where").shown


def test_a_pull_that_starts_a_rank_says_that_its_variables_are_gone(fresh):
    nb = fresh()
    nb.ok("%%distribute -n 2\nx = 1")
    nb.ok("%ranks stop -r 1")
    pulled = nb.run("%pull x").assert_error("NameError")
    assert "rank 1 is new: its variables are gone, it has not run cell 1\n" in pulled.stderr
    assert "new" not in nb.ok("%pull x -r 0").stderr


def test_what_a_new_rank_missed_is_told_in_ranges_and_in_a_line(fresh):
    nb = fresh()
    for _ in range(12):
        nb.ok("%%distribute -n 2\npass")
    nb.ok("%ranks restart -r 1")
    assert "rank 1 is new: its variables are gone, it has not run cells 1-12\n" in nb.ok("%%distribute\n1").stderr
    for _ in range(40):
        nb.ok("%%distribute --ranks 0\npass")
        nb.ok("pass")
    nb.ok("%ranks restart -r 1")
    note = nb.ok("%%distribute\n1").stderr
    assert len(note) < 200 and "cells 1-12, 14-15, 17, " in note and "… (53 in all)" in note, note
