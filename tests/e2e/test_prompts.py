"""Lines that users type, and interrupts while they are waited for."""

from __future__ import annotations

import pytest

LIMIT = 90  # seconds, far off


@pytest.mark.parametrize("code", [
    "import pdb\npdb.set_trace()\nprint('went', 'on')",
    "breakpoint()\nprint('went', 'on')",
    "from IPython.core.debugger import Pdb\nPdb().set_trace()\nprint('went', 'on')",
    "def f():\n    breakpoint()\n    print('went', 'on')\nf()\nprint('went', 'on')",
])
def test_an_interrupt_at_a_debuggers_prompt_ends_the_cell(nb, code):
    cell = nb.start(code, answer=lambda prompt: None)
    assert nb.until(lambda: cell.prompts, LIMIT), cell.shown
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert cell.error["ename"] == "KeyboardInterrupt" and len(cell.prompts) == 1 and "went on" not in cell.stdout, cell.shown
    assert nb.ok("for k in range(3):\n    k\nk").value == "2"


def test_an_interrupt_of_post_mortem_debugging_ends_the_cell(nb):
    nb.run("1 / 0", LIMIT).assert_error("ZeroDivisionError")
    cell = nb.start("%debug", answer=lambda prompt: None)
    assert nb.until(lambda: cell.prompts, LIMIT), cell.shown
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert nb.ok("1 + 1").value == "2"
