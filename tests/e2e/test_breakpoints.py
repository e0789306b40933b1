# SPDX-License-Identifier: BSD-3-Clause
"""breakpoint() before, while and after a client's debugger is switched on."""

from __future__ import annotations

import pytest
from client import by_rank
from processes import wait_until
from test_debugger import NOTEBOOK, nb  # noqa: F401 - what its kernel is made by, and a fixture

LIMIT = 90  # seconds, far off


@pytest.mark.parametrize("head", ["", "%%distribute -n 1 --no-gpu\n"])
def test_breakpoint_asks_again_when_the_debugger_is_off(nb, head):  # noqa: F811
    code = head + "x = 1\nbreakpoint()\ny = 2\nprint('went', 'on')"
    asked = nb.run(code, LIMIT, answer="c").assert_ok()
    assert asked.prompts and "went on" in asked.stdout, asked.shown
    nb.attach()
    cell = nb.start(code, answer="c")
    nb.go_on(*nb.wait_stopped())  # the client's debugger stops there, and the cell asks nothing
    nb.wait(cell, LIMIT).assert_ok()
    assert not cell.prompts and "went on" in cell.stdout, cell.shown
    nb.fine_ask("disconnect")
    asked = nb.run(code, LIMIT, answer="c").assert_ok()
    assert asked.prompts and "went on" in asked.stdout and "WARNING" not in asked.shown, asked.shown

def test_all_that_stand_go_on_at_once_to_their_next_breakpoint(nb):  # noqa: F811
    nb.run("%ranks debug --continue all").assert_error("UsageError")  # no debugger is switched on
    nb.attach()
    assert "neither a rank nor home is stopped" in nb.run("%ranks debug --continue all").assert_error("UsageError").shown
    code = "%%distribute -n 3 --no-gpu\nfor i in range(2):\n    x = i\nprint('x', x)"
    nb.breakpoints(code, 3)
    cell = nb.start(code)
    for turn in ("0", "1"):
        assert wait_until(lambda: len(now := nb.state()["stoppedThreads"]) == 3 and {nb.locals(t)["i"] for t in now} == {turn}, LIMIT)
        nb.ok("%ranks debug --continue all")
    assert by_rank(nb.wait(cell, LIMIT).assert_ok().stdout) == {r: ["x 1"] for r in range(3)}
    assert nb.nobody_stands()


def test_home_goes_on_with_all(nb):  # noqa: F811
    nb.attach()
    code = "x = 1\nprint('went on')"
    nb.breakpoints(code, 2)
    cell = nb.start(code)
    nb.wait_stopped()
    nb.ok("%ranks debug --continue all")
    assert nb.wait(cell, LIMIT).assert_ok().stdout == "went on\n"


def test_an_interrupt_ends_a_loop_with_a_breakpoint_on_ranks(nb):  # noqa: F811
    nb.attach()
    code = "%%distribute -n 3 --no-gpu\nfor i in range(1000):\n    x = i"
    nb.breakpoints(code, 3)
    cell = nb.start(code)
    nb.wait_stopped(3, LIMIT)
    nb.ok("%ranks debug --continue all")
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert nb.nobody_stands()


def test_an_interrupt_ends_homes_cell_at_a_breakpoint(nb):  # noqa: F811
    nb.attach()
    code = "import time\nx = 1\ntime.sleep(60)"
    nb.breakpoints(code, 2)
    cell = nb.start(code)
    nb.wait_stopped()
    nb.control("interrupt_request")
    nb.wait(cell, 60).assert_error("KeyboardInterrupt")
    assert nb.ok("1 + 1").value == "2"


@pytest.mark.parametrize("head", ["", "%%distribute -n 2 --no-gpu\n"])
def test_an_interrupt_at_a_breakpoint_ends_the_cell_there(nb, tmp_path, head):  # noqa: F811
    nb.attach()
    body = f"import os\nx = int(os.environ.get('RANK', 0))\ny = x + 1\nopen({str(tmp_path)!r} + f'/{{x}}', 'w').close()\nprint('went on')"
    code = head + body
    nb.breakpoints(code, 3 + bool(head), 4 + bool(head))
    for k in range(4):
        cell = nb.start(code)
        threads = nb.wait_stopped(2 if head else 1)
        if k == 2:  # also after a step
            for thread in threads:
                nb.fine_ask("next", {"threadId": thread})
            assert wait_until(lambda threads=threads: {nb.line(thread) for thread in threads} == {4 + bool(head)}, 60)
            nb.wait_stopped(len(threads))
        nb.control("interrupt_request")
        nb.wait(cell, 60).assert_error("KeyboardInterrupt")
        assert "went on" not in cell.stdout and list(tmp_path.iterdir()) == []
        shown = cell.shown + cell.traceback
        assert "y = x + 1" in shown and "contextlib" not in shown, shown
        assert "pydevd" not in shown and "debugger.py" not in shown
        assert nb.nobody_stands()
    assert not [e for e in nb.events("output") if "settrace" in e["body"].get("output", "")]
    cell = nb.start(code)  # and nothing is lost
    nb.go_on(*nb.wait_stopped(2 if head else 1))
    nb.go_on(*nb.wait_stopped(2 if head else 1))
    nb.wait(cell, 60).assert_ok()
