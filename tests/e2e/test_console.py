# SPDX-License-Identifier: BSD-3-Clause
"""jupyter console on a pseudo-terminal."""

from __future__ import annotations

import sys

import pytest
from client import KERNEL
from packages import needs

pexpect = pytest.importorskip("pexpect")
needs("jupyter_console")
LIMIT = 60
pytestmark = [pytest.mark.clients, pytest.mark.limit(400)]


@pytest.fixture
def console(jupyter_env):
    terminals = []

    def start(*options):
        terminal = pexpect.spawn(
            sys.executable,
            ["-m", "jupyter", "console", "--kernel=" + KERNEL, "--simple-prompt", *options],
            env=dict(jupyter_env, TERM="dumb"),
            dimensions=(40, 200),
            timeout=LIMIT,
            encoding="utf-8",
        )
        terminals.append(terminal)
        prompted(terminal, 1)
        return terminal

    yield start
    for terminal in terminals:
        terminal.close(force=True)


def prompted(terminal, n):
    """Waits for the prompt of cell n. The console takes an idle that comes late, of what ran before, for the end of the
    cell that it just sent, and then asks for no input; an empty cell makes it read what has come."""
    terminal.expect(r"In \[%d\]: " % n)
    terminal.sendline(" ")
    terminal.expect(r"In \[%d\]: " % n)


def interrupted(terminal):
    """Presses Ctrl-C until the cell ends, as a user does: on a busy machine, the console was seen to send nothing for one."""
    for _ in range(8):
        terminal.sendintr()
        if terminal.expect(["KeyboardInterrupt", pexpect.TIMEOUT], timeout=5) == 0:
            return
    raise AssertionError(f"no KeyboardInterrupt: {terminal.before}")


def test_the_console_runs_cells_and_leaves_nobody(console):
    terminal = console()
    terminal.sendline("6 * 7")
    terminal.expect(r"Out\[1\]: 42")
    prompted(terminal, 2)
    terminal.sendline("print('from the ' + 'kernel')")
    terminal.expect("from the kernel")
    prompted(terminal, 3)
    terminal.sendline("input('na' + 'me? ')")
    terminal.expect(r"name\? ")
    terminal.sendline("Ada")
    terminal.expect("'Ada'")
    prompted(terminal, 4)
    terminal.sendline("exit()")
    terminal.expect(pexpect.EOF)


def test_the_console_shows_every_line_of_a_cell_with_tabs(console, tmp_path):
    """It shows the first state of a display only, so there are no tabs."""
    script = tmp_path / "prints.py"
    script.write_text("import os, time\nprint('first', 'of', os.environ['RANK'])\ntime.sleep(1)\nprint('last', 'of', os.environ['RANK'])\n")
    terminal = console()
    terminal.sendline("%%distribute -n 2 --merge panel %s" % script)
    for line in ("first of", "first of", "last of", "last of"):
        terminal.expect(r"\[[01]\] %s [01]" % line)
    prompted(terminal, 2)


def test_the_console_shows_errors_and_interrupts(console):
    terminal = console()
    terminal.sendline("1/0")
    terminal.expect("ZeroDivisionError")
    prompted(terminal, 2)
    terminal.sendline("print('be' + 'gun', flush=True); import time; time.sleep(600)")
    terminal.expect("begun")
    interrupted(terminal)
    prompted(terminal, 3)
    terminal.sendline("'still ' + 'here'")
    terminal.expect("still here")
    terminal.sendeof()
    terminal.expect([pexpect.EOF, r"\[y\]/n", "exit"])


def test_the_console_prints_no_status_for_it_can_not_update_it(console, gate, tmp_path):
    script = tmp_path / "waits.py"
    script.write_text("print('be' + 'gun', flush=True)\n" + gate.code + "\nprint('all ' + 'done')\n")
    terminal = console()
    terminal.sendline("%%distribute -n 2 %s" % script)
    terminal.expect("begun")
    with pytest.raises(pexpect.TIMEOUT):
        terminal.expect(r"ranks? 0(-1)? ", timeout=5)
    gate.open()
    terminal.expect("all done")
    prompted(terminal, 2)
    assert "running" not in terminal.before and " in 0:" not in terminal.before, terminal.before
