# SPDX-License-Identifier: BSD-3-Clause
"""Output of a distributed cell that must be the same as that of a cell at home."""

from __future__ import annotations

import pytest
from processes import wait_until

LIMIT = 90  # seconds, far off
ODD = ("class Odd:\n    def __repr__(self): return 'odd'\n    def _repr_html_(self): raise ValueError('no page')\n"
       "    def _repr_latex_(self): return '$x$'\nOdd()")


def test_a_representation_that_fails_leaves_the_others(nb):
    for where in ("", "%%distribute -n 2\n"):
        cell = nb.run(where + ODD, LIMIT).assert_ok()
        assert cell.value == "odd" and cell.result.get("text/latex") == "$x$" and "text/html" not in cell.result, cell.shown
        assert "no page" in cell.shown, cell.shown


def test_a_silent_cell_publishes_neither_result_nor_error(nb):
    nb.rank_pids(2)
    for where in ("", "%%distribute -n 2\n"):
        cell = nb.run(where + "print('text')\n6 * 7", LIMIT, silent=True).assert_ok()
        assert "text" in cell.stdout and not cell.of("execute_result", "execute_input"), cell.kinds
        cell = nb.run(where + "1 / 0", LIMIT, silent=True).assert_error("ZeroDivisionError")
        assert not cell.of("error"), cell.kinds


def test_a_rank_whose_traceback_takes_its_time_is_told_too(nb):
    nb.ok("%%distribute -n 2\nimport os, time\nclass Late(Exception):\n    def _render_traceback_(self):\n"
          "        if os.environ['RANK'] == '1':\n            time.sleep(2)\n        return ['Late: ' + str(self)]")
    nb.run_until("%%distribute -n 2\nraise Late('both')",
                 lambda cell: "Late on rank 0 of 2" in cell.assert_error("Late").traceback and "also on rank 1: Late: both" in cell.stderr, LIMIT)


def test_a_rank_that_had_raised_before_it_was_interrupted_is_told_with_its_own_error(nb):
    """Its interrupt comes while its error is turned into text."""
    nb.ok("%%distribute -n 2\nimport cellspan, time\nrank = cellspan.rank()\nclass Slow(Exception):\n    def __str__(self):\n        while True:\n            time.sleep(0.01)")
    nb.run_until("%%distribute -n 2\nif rank == 0:\n    raise Slow\nraise ValueError('quick')",
                 lambda cell: "ValueError on rank 1 of 2" in cell.shown and "also on rank 0: Slow: <str() failed>" in cell.stderr, LIMIT)
    cell = nb.run("%%distribute -n 2\nif rank == 0:\n    try:\n        time.sleep(1000)\n    finally:\n        raise OSError('not its own')\nraise ValueError('first')", LIMIT)
    assert "also on" not in cell.assert_error("ValueError").shown, cell.shown


def test_what_a_question_mark_shows_is_printed(nb):
    cell = nb.ok("%%distribute -n 2\nlen?")
    assert "Return the number of items in a container" in cell.stdout and "[0-1]" in cell.stdout, cell.shown


REDIRECTED = ("import contextlib, io\ntaken = io.StringIO()\nwith contextlib.redirect_stdout(taken):\n    print('before')\n    !echo from a command\n"
              "    print('after')\ntaken.getvalue()")


def test_what_a_command_writes_goes_where_print_writes(nb):
    for where, value in (("", "%s"), ("%%distribute -n 2\n", "[0-1] %s")):
        nb.run(where + "%%capture cap\nprint('one')\n!echo two; echo three >&2\n%pip --version", LIMIT).assert_ok()
        cell = nb.ok(where + "assert cap.stdout.startswith('one\\ntwo\\npip '), cap.stdout\ncap.stderr", LIMIT)
        assert cell.value == r"'three\n'" and cell.stdout == "", cell.shown
        cell = nb.ok(where + REDIRECTED, LIMIT)
        assert cell.value == r"'before\nfrom a command\nafter\n'" and "command" not in cell.stdout, cell.shown
        assert value % "seen" in nb.ok(where + "!echo seen", LIMIT).stdout  # what is not redirected goes the direct way


def test_a_captured_command_can_be_interrupted(nb, tmp_path):
    begun = tmp_path / "begun"
    cell = nb.start("%%%%capture cap\n!touch %s; sleep 1000 & wait" % begun)
    nb.wait(cell, LIMIT, begun.exists)
    nb.km.interrupt_kernel()
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")


@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
def test_a_captured_command_in_the_background_is_not_awaited(nb, gate, tmp_path, where):
    go, wrote = tmp_path / "go", tmp_path / "wrote"
    command = f"!echo now; (while [ ! -e {go} ]; do sleep 0.1; done; echo late; echo x >> {wrote}) &"
    cell = nb.run(where + "import io, contextlib\ntaken = io.StringIO()\nwith contextlib.redirect_stdout(taken):\n    " + command
                  + "\nprint('taken', [taken.getvalue()])", LIMIT).assert_ok()
    assert "taken ['now\\n']" in cell.stdout, cell.shown
    cell = nb.start(where + f"open({str(go)!r}, 'w').close()\n" + gate.code)
    nb.wait_shown(cell, "late")
    gate.open()
    nb.wait(cell, LIMIT).assert_ok()
    assert wait_until(wrote.exists, LIMIT), "its pipe was closed"


def test_a_command_that_fails_raises_if_the_user_wants_it(nb):
    assert nb.ok("!exit 3\n_exit_code").value == "3"
    try:
        if "True" in nb.ok("hasattr(get_ipython(), 'system_raise_on_error')").value:
            nb.ok("get_ipython().system_raise_on_error = True")
            nb.run("!exit 3").assert_error("CalledProcessError")
    finally:
        nb.ok("get_ipython().system_raise_on_error = False")


RUNS = ["get_ipython().run_cell('1 / 0')", "%run {file}", "await get_ipython().run_cell_async('1 / 0', transformed_cell='1 / 0')",
        "get_ipython().safe_execfile({file!r}, {{}})", "%run {exits}"]


@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
@pytest.mark.parametrize("run", RUNS)
def test_a_run_within_a_cell_shows_its_error_and_the_cell_goes_on(nb, where, run, tmp_path):
    """As in ipykernel: the reply is about the cell itself. On ranks the cell fails, since others may wait for the rank that has failed."""
    file, exits = tmp_path / "fails.py", tmp_path / "exits.py"
    file.write_text("1 / 0\n")
    exits.write_text("import sys\nsys.exit(3)\n")
    run = run.format(file=str(file), exits=str(exits))
    cell = nb.run(where + run + "\nprint('after')", LIMIT)
    if where:
        assert cell.status == "error", cell.shown
    else:
        cell.assert_ok()
    assert ("ZeroDivisionError" in cell.shown or "SystemExit: 3" in cell.shown) and "after" in cell.stdout, cell.shown
    assert "mine" in nb.run(where + run + "\nraise ValueError('mine')", LIMIT).assert_error("ValueError").traceback


def test_a_cell_has_its_value_after_a_run_within_it(nb):
    assert nb.ok("%%distribute -n 2 --gather\nget_ipython().run_cell('two = 2')\n7", LIMIT).value == "[7, 7]"
    assert nb.ok("%%distribute -n 2 --gather\nget_ipython().run_cell('5')\n7", LIMIT).value == "[7, 7]"


def test_a_cell_has_its_value_after_a_run_in_a_thread(nb):
    nb.ok("import threading, time\nran = []\nget_ipython().events.register('post_run_cell', lambda result: ran.append(result.result))\nrun = get_ipython().run_cell", LIMIT)
    nb.ok("t = threading.Thread(target=run, args=('time.sleep(0.1)',)); t.start(); t.join()\n41", LIMIT)
    assert "41" in nb.ok("print(ran)", LIMIT).stdout, "the thread has left it alone"
    nb.ok("go = threading.Event()\nt = threading.Thread(target=run, args=('go.wait(60)',)); t.start(); time.sleep(0.5)", LIMIT)
    nb.ok("go.set(); t.join()\n43", LIMIT)
    assert "43" in nb.ok("print(ran)", LIMIT).stdout, "a thread of an earlier cell, too"


@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
def test_an_error_under_capture_is_shown(nb, where):
    cell = nb.run(where + "%%capture kept\nprint('text')\n1 / 0", LIMIT)
    if where:
        cell.assert_error("ZeroDivisionError")
    else:
        cell.assert_ok()
    assert "ZeroDivisionError" in cell.shown and "text" not in cell.stdout, cell.shown
    assert nb.ok(where + "print(kept.stdout)", LIMIT).stdout.count("text"), cell.shown


@pytest.mark.parametrize("line", ["%px 1 / 0", "%%px --no-stream\n1 / 0", "%%px --local\n1 / 0"])
def test_an_error_of_px_is_that_of_its_cell_and_shown_once(nb, line):
    nb.ok("from cellspan import px\npx.Client(n=2)", LIMIT)
    cell = nb.run(line, LIMIT).assert_error("ZeroDivisionError")
    assert cell.shown.count("ZeroDivisionError: division by zero") == 1, cell.shown
