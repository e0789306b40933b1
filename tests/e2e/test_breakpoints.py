"""breakpoint() before, while and after a client's debugger is switched on."""

from __future__ import annotations

import pytest
from test_debugger import nb  # noqa: F401 - a fixture

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
    assert asked.prompts and "went on" in asked.stdout, asked.shown
