"""jupyter console on a terminal of its own."""

from __future__ import annotations

import sys

import pytest
from client import KERNEL

pexpect = pytest.importorskip("pexpect")
pytest.importorskip("jupyter_console")
LIMIT = 30


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
        terminal.expect(r"In \[1\]: ")
        return terminal

    yield start
    for terminal in terminals:
        terminal.close(force=True)


def test_the_console_runs_cells_and_leaves_nobody(console):
    terminal = console()
    terminal.sendline("6 * 7")
    terminal.expect(r"Out\[1\]: 42")
    terminal.sendline("print('from the ' + 'kernel')")
    terminal.expect("from the kernel")
    terminal.sendline("input('name? ')")
    terminal.expect(r"name\? ")
    terminal.sendline("Ada")
    terminal.expect("'Ada'")
    terminal.sendline("exit()")
    terminal.expect(pexpect.EOF)


def test_the_console_shows_errors_and_interrupts(console):
    terminal = console()
    terminal.sendline("1/0")
    terminal.expect("ZeroDivisionError")
    terminal.sendline("print('be' + 'gun', flush=True); import time; time.sleep(600)")
    terminal.expect("begun")
    terminal.sendintr()
    terminal.expect("KeyboardInterrupt")
    terminal.sendline("'still ' + 'here'")
    terminal.expect("still here")
    terminal.sendeof()
    terminal.expect([pexpect.EOF, r"\[y\]/n", "exit"])
