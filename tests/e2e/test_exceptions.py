# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions that do not derive from Exception, in all places where the user's code is called: the cell fails with them, all
processes live, and the next cell runs."""

from __future__ import annotations

import os
import signal

import pytest

LIMIT = 90  # seconds, far off
ENDS = ("SystemExit(3)", "GeneratorExit('g')", "KeyboardInterrupt()", "Odd('o')")
ODD = "class Odd(BaseException):\n    pass\n"


def same_ranks(nb, pids, n=2):
    """The ranks are who they were, and do what they are told."""
    assert nb.rank_pids(n) == pids


# -- KeyboardInterrupt that nobody asked for


def test_a_keyboard_interrupt_that_ranks_raise_is_an_error_as_any(nb):
    pids = nb.rank_pids(2)
    cell = nb.run_until("%%distribute -n 2\nraise KeyboardInterrupt('mine')",
                        lambda cell: "KeyboardInterrupt on ranks 0-1 of 2" in cell.assert_error("KeyboardInterrupt").traceback, LIMIT)
    assert cell.reply["evalue"] == "mine" and cell.error["ename"] == "KeyboardInterrupt", cell.reply
    same_ranks(nb, pids)


def test_a_keyboard_interrupt_of_one_rank_stops_the_others(nb):
    pids = nb.rank_pids(2)
    cell = nb.run("%%distribute -n 2 --grace 60s\nimport os, time\n"
                  "if os.environ['RANK'] == '1':\n    raise KeyboardInterrupt('mine')\ntime.sleep(600)", LIMIT)
    cell.assert_error("KeyboardInterrupt")
    assert "KeyboardInterrupt on rank 1 of 2" in cell.traceback, cell.traceback
    same_ranks(nb, pids)


def test_sigint_from_outside_at_one_rank_ends_the_cell(nb):
    pids = nb.rank_pids(2)
    cell = nb.start("%%distribute -n 2 --grace 60s\nimport time\nprint('in')\ntime.sleep(600)")
    nb.wait_ranks(cell, "in", 2, LIMIT)
    os.kill(pids[0], signal.SIGINT)
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert "KeyboardInterrupt on rank 0 of 2" in cell.traceback and "time.sleep(600)" in cell.traceback, cell.traceback
    same_ranks(nb, pids)


# -- on ranks, outside a cell's own text


@pytest.mark.parametrize("end", ENDS)
def test_a_module_that_raises_where_it_is_imported_for_a_captured_name(nb, tmp_path, end):
    name = "leaving_%d" % abs(hash(end))
    (tmp_path / (name + ".py")).write_text(
        "%simport os\nif 'RANK' in os.environ:\n    raise %s\ndef f():\n    return 1\n" % (ODD, end))
    pids = nb.rank_pids(2)
    nb.ok("import sys; sys.path.insert(0, %r)\nfrom %s import f" % (str(tmp_path), name))
    cell = nb.run("%%distribute -n 2\nf()", LIMIT).assert_error(end.partition("(")[0])
    assert name + ".py" in cell.traceback, cell.traceback
    nb.ok("f = None")
    same_ranks(nb, pids)


@pytest.mark.parametrize("end", ENDS)
def test_a_class_whose_setstate_raises_on_ranks(nb, end):
    pids = nb.rank_pids(2)
    nb.ok("import os\nclass Box:\n    def __setstate__(self, state):\n        class Odd(BaseException): pass\n"
          "        if 'RANK' in os.environ: raise %s\n    def __getstate__(self): return {'x': 1}\nbox = Box()" % end)
    nb.run("%%distribute -n 2\nbox", LIMIT).assert_error(end.partition("(")[0])
    nb.run("%push box", LIMIT).assert_error(end.partition("(")[0])
    nb.ok("del box")
    same_ranks(nb, pids)


@pytest.mark.parametrize("end", ENDS)
def test_a_result_whose_pickle_raises_on_its_rank(nb, end):
    pids = nb.rank_pids(2)
    nb.ok("%%%%distribute -n 2\n%simport os\nclass Box:\n    def __reduce__(self): raise %s\nbox = Box()" % (ODD, end))
    if "Keyboard" in end:
        nb.run("%%distribute -n 2\nbox", LIMIT).assert_error("KeyboardInterrupt")
        nb.run("%pull box", LIMIT).assert_error("KeyboardInterrupt")
    else:  # as any value that does not pickle: it stays where it is
        assert "Box at" in nb.ok("%%distribute -n 2\nbox", limit=LIMIT).value
        nb.run("%pull box", LIMIT).assert_error("RuntimeError")
    nb.ok("%%distribute -n 2\ndel box")
    same_ranks(nb, pids)


@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
@pytest.mark.parametrize("end", ENDS)
def test_an_exception_whose_text_raises(nb, where, end):
    pids = nb.rank_pids(2)
    code = ODD + "class Bad(Exception):\n    def __str__(self): raise %s\nraise Bad(1)" % end
    nb.run(where + code, LIMIT).assert_error("Bad")
    same_ranks(nb, pids)


@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
@pytest.mark.parametrize("end", ENDS)
def test_an_exception_that_cannot_be_shown(nb, where, end):
    pids = nb.rank_pids(2)
    code = ODD + "class Bad(Exception):\n    def _render_traceback_(self): raise %s\nraise Bad(1)" % end
    nb.run(where + code, LIMIT).assert_error("Bad")
    same_ranks(nb, pids)


@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
@pytest.mark.parametrize("end", ENDS)
def test_a_cell_that_raises_it_itself(nb, where, end):
    pids = nb.rank_pids(2)
    nb.run(where + ODD + "raise " + end, LIMIT).assert_error(end.partition("(")[0])
    nb.run(where + ODD + "import asyncio\nawait asyncio.sleep(0)\nraise " + end, LIMIT).assert_error(end.partition("(")[0])
    same_ranks(nb, pids)


@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
def test_a_hook_of_the_shell_that_exits(nb, where):
    pids = nb.rank_pids(2)
    hook = ("def leave(*a):\n    get_ipython().events.unregister('post_run_cell', leave)\n    raise SystemExit(4)\n"
            "get_ipython().events.register('post_run_cell', leave)")
    nb.run(where + hook, LIMIT).assert_error("SystemExit")
    same_ranks(nb, pids)


# -- at home


@pytest.mark.parametrize("end", ENDS)
def test_a_value_whose_reduce_raises_at_home(nb, end):
    pids = nb.rank_pids(2)
    nb.ok(ODD + "class Box:\n    def __reduce__(self): raise %s\nsent_box = Box()" % end)
    if "Keyboard" not in end:
        cell = nb.run("%%distribute -n 2\nsent_box", LIMIT).assert_error("NameError")
        assert "sent_box" in cell.stderr and end.partition("(")[0] in cell.stderr, cell.stderr
    cell = nb.run("%push sent_box", LIMIT)
    assert cell.status == "error" and cell.ename in ("CaptureError", "KeyboardInterrupt"), cell.shown
    nb.ok("del sent_box")
    same_ranks(nb, pids)


@pytest.mark.parametrize("end", ENDS)
def test_a_result_that_raises_where_home_takes_it(nb, end):
    pids = nb.rank_pids(2)
    nb.ok(ODD + "class Box:\n    def __init__(self): self.x = 1\n    def __setstate__(self, state): raise %s" % end)
    nb.run("%%distribute -n 2\nBox()", LIMIT).assert_error(end.partition("(")[0])
    same_ranks(nb, pids)


@pytest.mark.parametrize("end", ENDS)
def test_requests_that_are_no_cells_are_answered(nb, end):
    nb.ok(ODD + "class Odd_dir:\n    def __dir__(self): raise %s\n    def __repr__(self): raise %s\nodd = Odd_dir()" % (end, end))
    assert nb.request("complete_request", {"code": "odd.", "cursor_pos": 4}, limit=LIMIT)["status"] in ("ok", "error")
    assert nb.request("inspect_request", {"code": "odd", "cursor_pos": 3}, limit=LIMIT)["status"] in ("ok", "error")
    cell = nb.run("1", LIMIT, user_expressions={"a": "odd"})
    assert cell.reply["user_expressions"]["a"]["status"] in ("ok", "error"), cell.reply
    nb.ok("del odd")


@pytest.mark.parametrize("where, error", [("%%distribute -n 2\n", "RankDied"), ("", "HomeDied")], ids=["ranks", "home"])
def test_the_last_lines_before_a_death_are_the_cells_own(fresh, where, error):
    nb = fresh()
    nb.ok(where + "import os, sys\nprint('of an earlier cell', file=sys.stderr)")
    assert "last lines" not in nb.run(where + "os._exit(3)").assert_error(error).traceback
    dies = where + "import os, sys\nprint('of this one', file=sys.stderr, flush=True)\nos._exit(4)"
    assert "Its last lines on stderr:\n  of this one" in nb.run(dies).assert_error(error).traceback.replace("[0-1] ", "")


@pytest.mark.parametrize("where, error, told", [("%%distribute -n 2\n", "RankDied", " new: "), ("", "HomeDied", "")], ids=["ranks", "home"])
@pytest.mark.parametrize("name", ["isinstance", "type"])
def test_a_process_that_cannot_answer_any_more_ends_and_says_why(nb, name, where, error, told):
    """Rank 0 needs the name at the end of the cell, whose value it shows; another rank, or home, may need it at the next one only."""
    nb.ok(f"{where}1", LIMIT)
    cells = [nb.run(f"{where}import builtins\nbuiltins.{name} = None", LIMIT)]
    while len(cells) < 4 and (len(cells) == 1 or cells[-1].status != "ok"):
        cells.append(nb.run(f"{where}1 + 1", LIMIT))
    failed = [cell.assert_error(error) for cell in cells if cell.status != "ok"]
    assert failed and all("no cell can run in this process any more: TypeError" in cell.traceback for cell in failed), [cell.shown for cell in cells]
    cell = nb.ok(f"{where}1 + 1", LIMIT) if cells[-1].status != "ok" else cells[-1]
    assert cell.value == "2" and told in cell.stderr, cell.shown


@pytest.mark.parametrize("where", ["%%distribute -n 2\n", ""], ids=["ranks", "home"])
def test_cells_are_answered_where_len_is_gone(fresh, where):
    nb = fresh()
    nb.ok(f"{where}1", LIMIT)
    nb.run(f"{where}import builtins\nbuiltins.len = None", LIMIT)
    nb.run(f"{where}1 + 1", LIMIT).assert_error("TypeError")
    nb.run(f"{where}1 + 1", LIMIT).assert_error("TypeError")
