# SPDX-License-Identifier: BSD-3-Clause
"""Starts of ranks under unusual conditions: many ranks, a zygote that is stopped, a folder that is gone."""

from __future__ import annotations

import ast
import os
import signal

import processes
import pytest
from processes import wait_until

LIMIT = 200  # seconds, far off


def parent(pid):
    stat = processes.read(pid, "stat")
    return int(stat[stat.rindex(b")") + 2 :].split()[1]) if stat else 0


def in_between(nb, cell):
    """The process that forks ranks for the cell right now: a child of the oldest that was started as a zygote. It is stopped;
    None where the cell ended before that."""
    zygote = min(processes.named(nb.marker, "_worker zygote"))
    while not cell.ended:  # as often as can be: it lives for some tenths of a second
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            if parent(pid) == zygote:
                os.kill(pid, signal.SIGSTOP)
                wait_until(lambda pid=pid: processes.state(pid) in ("t", "T", "Z", ""), 10)
                if processes.alive(pid):
                    return pid
        nb.turn(0)
    return None


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
    cells = []

    def stopped():
        """On a busy machine it may have ended before it is seen."""
        cells.append(nb.start("%%distribute -n 26 --fresh --gather\nimport os\nint(os.environ['RANK'])"))
        return in_between(nb, cells[-1])

    between = wait_until(stopped, LIMIT)
    cell = cells[-1]
    assert between, cell.shown
    try:
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
