"""Starts of ranks under unusual conditions: many ranks, a zygote that is stopped, a folder that is gone."""

from __future__ import annotations

import ast
import os
import signal
import time

import processes
import pytest
from processes import wait_until

LIMIT = 200  # seconds, far off


def parent(pid):
    stat = processes.read(pid, "stat")
    return int(stat[stat.rindex(b")") + 2 :].split()[1]) if stat else 0


def in_between(nb, limit):
    """The process that forks ranks right now: a child of the oldest that was started as a zygote."""
    zygote = min(processes.named(nb.marker, "_worker zygote"))
    found = []

    def look():
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
        found[:] = [pid for pid in pids if parent(pid) == zygote]
        return found

    end = time.monotonic() + limit
    while not look() and time.monotonic() < end:  # as often as can be: it lives for some tenths of a second
        pass
    return found[0] if found else None


@pytest.mark.limit(400)
def test_256_ranks_start_here(fresh):
    nb = fresh()
    cell = nb.ok("%%distribute -n 256 --gather\nimport os\nint(os.environ['RANK'])", LIMIT)
    assert "RankDied" not in cell.shown, cell.shown
    assert ast.literal_eval(cell.value) == list(range(256)), cell.shown
    pids = set(nb.rank_pids(256))
    assert len(pids) == 256, pids


@pytest.mark.limit(400)
def test_ranks_whose_forking_process_stands_still_for_12_s_come_up(fresh):
    nb = fresh()
    nb.ok("%%distribute -n 2\npass", LIMIT)
    cell = nb.start("%%distribute -n 26 --fresh --gather\nimport os\nint(os.environ['RANK'])")
    between = in_between(nb, 30)
    assert between, cell.shown
    os.kill(between, signal.SIGSTOP)
    try:
        assert wait_until(lambda: processes.state(between) in "tT", 10), "it ended before it was stopped"
        nb.until(lambda: cell.ended, 12)
        assert not cell.ended, cell.shown
    finally:
        os.kill(between, signal.SIGCONT)
    nb.wait(cell, LIMIT).assert_ok()
    assert ast.literal_eval(cell.value) == list(range(26)), cell.shown
    assert len(set(nb.rank_pids(26))) == 26


def test_ranks_of_a_notebook_whose_folder_was_deleted(fresh, tmp_path):
    gone, there = tmp_path / "gone", tmp_path / "there"
    gone.mkdir()
    there.mkdir()
    nb = fresh(cwd=str(gone))
    nb.ok("1")
    gone.rmdir()
    cell = nb.ok("%%distribute -n 2\n1 + 1", LIMIT)
    assert cell.value == "2" and "the notebook's folder was deleted: the ranks are in /" in cell.stderr, cell.shown
    assert "deleted" not in nb.ok("%%distribute -n 2\n2 + 2").shown
    cell = nb.ok("%%%%distribute -n 2 --cwd %s\nimport os\nos.getcwd()" % there)
    assert cell.value == repr(str(there)) and "deleted" not in cell.stderr, cell.shown
