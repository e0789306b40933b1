# SPDX-License-Identifier: BSD-3-Clause
"""Cells say for what they wait when a process does not answer, and an interrupt ends them."""

from __future__ import annotations

import os
import re
import signal

import processes
import pytest
from client import all_print

STOPS_HOME = "%%%%distribute -n 2\nimport os, signal\nos.kill(%d, signal.SIGSTOP)\nlist(range(10000))"


@pytest.fixture
def notebook(fresh):
    nb = fresh(env={"CELLSPAN_HANG_NOTICE": "1"})
    nb.ok("x = 1\nbig = list(range(10))\n")
    nb.ok("%%distribute -n 2\nx, big")
    return nb


def held(nb, pid, code, text):
    """The cell waits for a stopped process, says so, and ends when it is interrupted."""
    if not code.startswith("%%distribute -n 2\nimport os, signal\nos.kill"):
        os.kill(pid, signal.SIGSTOP)
    try:
        cell = nb.start(code)
        nb.wait(cell, until=lambda: text in cell.shown)
        assert re.search(r"for \d+ s " + re.escape(text), cell.shown), cell.shown
        assert "SIGSTOP" in cell.shown and cell.shown.count(text) == 1, cell.shown
        nb.control("interrupt_request")
        nb.wait(cell).assert_error("KeyboardInterrupt")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert nb.ok("6 * 7").value == "42"
    assert nb.ok("%%distribute -n 2 --gather\nx").value == "[1, 1]"


def test_home_is_stopped_when_a_cell_begins(notebook):
    nb = notebook
    held(nb, nb.home_pid(), "%%distribute -n 2\nx", "home did not say which variables the cell reads")
    held(nb, nb.home_pid(), "%%distribute -n {1 + 1}\nx", "home did not say what {…} and $ on the first line mean")


def test_home_is_stopped_in_a_cell_of_its_own(notebook):
    nb = notebook
    home = nb.home_pid()
    told = r"cellspan: for over \d+ s home has been suspended, as by SIGSTOP: kill -CONT %d lets it go on\n" % home
    cell = nb.start("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nprint('went on')")
    try:
        nb.wait(cell, until=lambda: "suspended" in cell.shown)
        assert re.fullmatch(told, cell.stderr) and not cell.ended, cell.shown
    finally:
        os.kill(home, signal.SIGCONT)
    assert nb.wait(cell).assert_ok().stdout == "went on\n" and cell.shown.count("suspended") == 1
    os.kill(home, signal.SIGSTOP)  # before a cell begins
    try:
        cell = nb.start("6 * 7")
        nb.wait(cell, until=lambda: "suspended" in cell.shown)
        assert re.fullmatch(told, cell.stderr), cell.shown
    finally:
        os.kill(home, signal.SIGCONT)
    assert nb.wait(cell).assert_ok().value == "42"
    assert "suspended" not in nb.ok("import time; time.sleep(1.5)").shown


def test_home_is_stopped_when_the_result_comes(notebook):
    nb = notebook
    home = nb.home_pid()
    held(nb, home, STOPS_HOME % home, "home did not say whether it has the result")


def test_a_rank_is_stopped_that_compares(notebook):
    nb = notebook
    rank = nb.rank_pids(2)[1]
    nb.ok("big.append(1)")
    held(nb, rank, "%%distribute -n 2\nbig", "rank 1 did not say whether they changed variables of home")


@pytest.mark.parametrize("n", [1, 3])
def test_a_rank_is_stopped_that_runs_a_cell(fresh, n):
    nb = fresh(env={"CELLSPAN_HANG_NOTICE": "1"})
    nb.ok("%%%%distribute -n %d\nimport cellspan" % n)
    pid = nb.rank_pids(n)[n - 1]
    cell = nb.start("%%%%distribute\nimport os, signal\nif cellspan.rank() == %d:\n    os.kill(os.getpid(), signal.SIGSTOP)\nprint('went on')" % (n - 1))
    nb.wait(cell, until=lambda: "suspended" in cell.shown)
    told = r"for over \d+ s rank %d has been suspended, as by SIGSTOP: kill -CONT %d lets it go on" % (n - 1, pid)
    assert re.search(told, cell.shown), cell.shown
    assert "] (it is suspended, as by SIGSTOP: kill -CONT %d" % pid in nb.ok("%ranks where").shown
    assert nb.until(lambda: "suspended" in nb.ok("%ranks").shown), "the agent may take a while to tell it"
    os.kill(pid, signal.SIGCONT)
    assert all_print(nb.wait(cell).assert_ok().stdout, "went on", n) or n == 1 and "went on" in cell.stdout
    assert cell.shown.count("suspended") == 1, cell.shown


def test_the_agent_is_stopped_while_ranks_run(notebook, gate):
    nb = notebook
    (agent,) = processes.named(nb.marker, "cellspan-agent")
    cell = nb.start("%%distribute\n" + gate.code)
    nb.wait(cell, until=lambda: "running" in cell.shown)
    os.kill(agent, signal.SIGSTOP)
    try:
        nb.wait(cell, until=lambda: "nothing was heard of ranks 0-1: cellspan-agent may be stopped there" in cell.shown)
    finally:
        os.kill(agent, signal.SIGCONT)
    gate.open()
    nb.wait(cell).assert_ok()


def test_the_agent_is_stopped(notebook):
    nb = notebook
    (agent,) = processes.named(nb.marker, "cellspan-agent")
    held(nb, agent, "%%distribute -n 2\nx", "home did not say which variables")
