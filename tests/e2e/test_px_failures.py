# SPDX-License-Identifier: BSD-3-Clause
"""What ranks showed before a cell of cellspan.px failed."""

from __future__ import annotations

import textwrap

import pytest
from client import by_rank, is_status
from processes import wait_until
from test_failures import Meeting
from test_px import four  # noqa: F401 - a fixture

KEPT = "import sys\nimport cellspan\nprint('out of', cellspan.rank())\nprint('err', file=sys.stderr)\n"


def fails_on_three(gate):
    """Code that fails on rank 3 when the gate is open, and ends at once on the others."""
    return KEPT + "if cellspan.rank() == 3:\n" + textwrap.indent(gate.code + "raise ValueError('three')", "    ")


@pytest.mark.parametrize("options", ["--no-stream", "--group-outputs=engine", "--group-outputs=type"])
def test_what_ranks_showed_before_they_failed_is_shown_and_logged(four, tmp_path, options):
    code = "%%%%px %s\n%sdisplay('shown')\n%s1 / 0" % (options, KEPT, Meeting(tmp_path).code(4))  # nobody fails before all have shown
    cell = four.run(code).assert_error("ZeroDivisionError")
    assert {k: lines[0] for k, lines in by_rank(cell.stdout).items()} == {k: "out of %d" % k for k in range(4)}, cell.shown
    assert "err" in cell.stderr and sum("shown" in data["text/plain"] for data in cell.displays_of_code) == 4, cell.shown
    assert "1 / 0" in cell.traceback and "__import__" not in cell.traceback and "captured" not in cell.traceback, cell.traceback
    assert "Cell In[%d], line %d" % (cell.reply["execution_count"], code.count("\n") + 1) in cell.traceback, cell.traceback
    assert "out of 2" in four.ok("%ranks logs -r 2").shown


def test_what_ranks_showed_is_there_though_another_failed(four, gate):
    cell = four.start("%%px --no-stream\n" + fails_on_three(gate))
    four.wait(cell, until=lambda: any(is_status(m) and "ranks 0-2 done" in str(m["content"]) for m in cell.messages))
    gate.open()
    four.wait(cell).assert_error("ValueError")
    for k in range(3):
        assert "[stdout:%d] out of %d" % (k, k) in cell.stdout, cell.shown
    assert "out of 3" in cell.stdout, cell.shown


def test_a_result_that_failed_is_shown_later(four, gate):
    four.ok("%%px --noblock\n" + fails_on_three(gate))
    assert wait_until(lambda: four.ok("%ranks").displays[0]["text/plain"].count(" idle ") == 3, 60), four.ok("%ranks").shown
    gate.open()
    cell = four.run("%pxresult").assert_error("ValueError")
    assert "[stdout:1] out of 1" in cell.stdout and "__import__('cellspan" not in cell.traceback, cell.shown
    assert "out of 3" in four.ok("%ranks logs -r 3").shown
