# SPDX-License-Identifier: BSD-3-Clause
"""Lines that users type, and interrupts during input()."""

from __future__ import annotations

import os
import signal

import pytest
from client import Notebook, by_rank
from packages import needs

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


@pytest.mark.parametrize("where", ["", "%%distribute -n 2 -r 0\n"])
def test_an_interrupt_ends_a_cell_that_a_debugger_let_go_on_and_the_next(nb, where):
    nb.ok("%%distribute -n 2\nimport time")
    for code in ("breakpoint()\n", ""):
        cell = nb.start(where + code + "import time\nprint('sleeps')\ntime.sleep(600)", answer="c")
        assert nb.until(lambda: "sleeps" in cell.stdout, LIMIT), cell.shown
        nb.control("interrupt_request")
        nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
        assert "killed" not in cell.shown, cell.shown


def test_a_handler_of_an_earlier_cell_does_not_take_the_interrupt(nb):
    nb.ok("import signal\n_ = signal.signal(signal.SIGINT, lambda *a: print('mine'))")
    cell = nb.start("import time\nprint('sleeps')\ntime.sleep(600)")
    assert nb.until(lambda: "sleeps" in cell.stdout, LIMIT), cell.shown
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")


def test_an_interrupt_of_post_mortem_debugging_ends_the_cell(nb):
    nb.run("1 / 0", LIMIT).assert_error("ZeroDivisionError")
    cell = nb.start("%debug", answer=lambda prompt: None)
    assert nb.until(lambda: cell.prompts, LIMIT), cell.shown
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert nb.ok("1 + 1").value == "2"


def test_a_threads_prompt_is_not_in_the_way_of_the_next_cells(nb):
    nb.run("import threading\nthreading.Thread(target=input, args=('late? ',), daemon=True).start()", answer=lambda prompt: None)
    assert nb.ok("input('next? ')", answer="here").value == "'here'"


# -- of ranks

RANK = "import os, time\nrank = int(os.environ['RANK'])\n"
GO = "%%distribute -n 4\n" + RANK


def asked(cell):
    return [content["prompt"] for content in cell.prompts]


def run_in_order(nb, code, want, **options):
    """A cell that ends well and whose prompts come as wanted. A prompt waits 100 ms for those of lower ranks, which may come later
    on a busy machine: then the cell runs again. Each time all are asked."""
    def in_order(cell):
        assert sorted(asked(cell.assert_ok())) == sorted(want), cell.prompts
        return asked(cell) == want

    return nb.run_until(code, in_order, LIMIT, **options)


def test_prompts_of_ranks_queue_in_their_order(nb):
    nb.ok(GO)
    cell = run_in_order(nb, GO + "time.sleep(0.02 * (3 - rank))\nname = input('who? ')\nprint('got', name)", ["[%d] who? " % k for k in range(4)],
                        answer=lambda prompt: "abcd"[int(prompt[1])])
    assert not any(p["password"] for p in cell.prompts), cell.prompts
    assert by_rank(cell.stdout) == {k: ["got " + "abcd"[k]] for k in range(4)}, cell.stdout
    cell = run_in_order(nb, GO + "import getpass\nprint(getpass.getpass(), getpass.getpass('again? '))",
                        ["[%d] %s" % (k, what) for k in range(4) for what in ("Password: ", "again? ")], answer=lambda prompt: prompt.strip())
    assert all(p["password"] for p in cell.prompts)
    assert by_rank(cell.stdout) == {k: ["[%d] Password: [%d] again?" % (k, k)] for k in range(4)}, cell.stdout


def test_a_rank_that_runs_alone_has_no_label(nb):
    nb.ok(GO)
    for code in ("%%distribute -n 4 -r 2\nprint('got', input('who? '))", "%%distribute -n 1 --fresh\nprint('got', input('who? '))"):
        cell = nb.ok(code, answer="Ada")
        assert asked(cell) == ["who? "] and "got Ada" in cell.stdout, cell.shown


def test_breakpoint_on_ranks_asks_one_after_the_other(nb):
    nb.ok(GO)
    cell = nb.run_until(GO + "x = rank * 10\nbreakpoint()\nprint('went on')",
                        lambda cell: [p.split("]")[0] for p in asked(cell.assert_ok())] == ["[%d" % k for k in range(4) for _ in range(2)], LIMIT,
                        answer=lambda prompt: "p x + 1" if asked(cell_of(nb)).count(prompt) == 1 else "c")
    for rank, lines in by_rank(cell.stdout).items():
        assert str(rank * 10 + 1) in lines and "went on" in lines, cell.stdout


def cell_of(nb):
    """The cell that was sent last."""
    return list(nb.cells.values())[-1]


def test_an_interrupt_ends_all_that_wait(nb):
    nb.ok(GO)
    for code in ("input('who? ')", "breakpoint()\nx = 1"):
        cell = nb.start(GO + code + "\nprint('went', 'on')", answer=lambda prompt: None)
        assert nb.until(lambda: cell.prompts, LIMIT), cell.shown
        nb.control("interrupt_request")
        nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
        assert len(cell.prompts) == 1 and "went on" not in cell.stdout, cell.shown
        run_in_order(nb, GO + "print(input('again? '))", ["[%d] again? " % k for k in range(4)], answer="x")


def test_a_rank_that_fails_or_dies_ends_those_that_wait(nb):
    nb.ok(GO)
    cell = nb.run_until(GO + "if rank == 3:\n    time.sleep(1)\n    1 / 0\ninput('who? ')",
                        lambda cell: asked(cell.assert_error("ZeroDivisionError")) == ["[0] who? "], LIMIT, answer=lambda prompt: None)
    assert "StdinNotImplementedError" not in cell.shown, cell.shown

    def first_asks():
        """On a busy machine another rank may be the first."""
        cell = nb.start(GO + "print(os.getpid())\ninput('who? ')", answer=lambda prompt: None)
        assert nb.until(lambda: cell.prompts and len(by_rank(cell.stdout)) == 4, LIMIT), cell.shown
        if asked(cell) == ["[0] who? "]:
            return cell
        nb.control("interrupt_request")
        nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
        return None

    cell = nb.until(first_asks, LIMIT)
    os.kill(int(by_rank(cell.stdout)[0][0]), signal.SIGKILL)
    nb.wait(cell, LIMIT)
    assert cell.status == "error" and "rank 0" in cell.traceback and asked(cell)[0] == "[0] who? ", cell.shown
    assert nb.ok("input('home? ')", answer="here").value == "'here'"


def test_without_a_client_that_takes_prompts_all_ranks_raise(nb):
    nb.ok(GO)
    for code in ("input()", "import getpass\ngetpass.getpass()", "breakpoint()\nx = 1"):
        nb.run(GO + code).assert_error("StdinNotImplementedError")
        caught = "try:\n    %s\nexcept Exception as error:\n    print(type(error).__name__)" % code.replace("\n", "\n    ")
        shown = by_rank(nb.ok(GO + caught).stdout)
        assert len(shown) == 4 and all(lines[-1] == "StdinNotImplementedError" for lines in shown.values()), shown


def test_waiting_for_a_line_is_no_hang():
    needs("torch")
    notebook = Notebook(env={"CELLSPAN_HANG_NOTICE": "1"})
    try:
        gloo = "%%distribute -n 2 --init gloo\n" + RANK + "import torch, torch.distributed as dist\n"
        notebook.ok(gloo + "dist.barrier()", limit=120)
        cell = notebook.start(
            gloo + "x = torch.tensor([float(input('lr? ')) if rank == 0 else 0.0])\ndist.broadcast(x, 0)\nprint(x.item())",
            answer=lambda prompt: None)
        assert notebook.until(lambda: cell.prompts, LIMIT), cell.shown
        assert not notebook.until(lambda: "waited in" in cell.stderr, 5), cell.shown
        notebook.kc.input("0.5")
        notebook.wait(cell, LIMIT).assert_ok()
        assert by_rank(cell.stdout) == {0: ["0.5"], 1: ["0.5"]} and "waited in" not in cell.stderr, cell.shown
    finally:
        notebook.close()


FAILS = "%%distribute -n 3 --gather\nimport cellspan\ndef loss(step):\n    scale = 10 * cellspan.rank() + step\n    return scale / (cellspan.rank() - 1 - step)\nloss(1)"


def test_debug_looks_at_a_ranks_error_until_the_next_cell(nb):
    nb.run(FAILS).assert_error("ZeroDivisionError")
    for _ in range(2):  # also once more
        cell = nb.start("%debug -r 2", answer=["p scale", "up", "p cellspan.rank()", "q"])
        nb.wait(cell, LIMIT)
        assert cell.status == "ok" and cell.prompts[0]["prompt"] == "rank 2 ipdb> " and "21" in cell.shown and "loss(1)" in cell.shown, cell.shown
    nb.ok("1 + 1")  # home's cells leave it
    assert nb.ok("%debug --ranks 2", answer="q").prompts and nb.ok("%debug -r2", answer="q").prompts
    for words in ("-r", "-r 0,1", "--ranks=all"):
        assert "such as %debug -r 2" in nb.run(f"%debug {words}").assert_error("UsageError").shown
    nb.ok("%%distribute\npass")
    nothing = nb.run("%debug -r 2").assert_error("UsageError")
    assert "rank 2 has no error to look at" in nothing.shown and not nothing.prompts, nothing.shown


def test_an_interrupt_ends_the_debugger_of_a_ranks_error(nb):
    nb.run(FAILS).assert_error("ZeroDivisionError")
    cell = nb.start("%debug -r 2", answer=lambda prompt: None)
    assert nb.until(lambda: cell.prompts, LIMIT), cell.shown
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert nb.ok("%debug -r 2", answer="q").prompts


def test_what_a_failed_cell_holds_is_freed_by_the_next_one_or_at_once(nb):
    nb.ok("%ranks restart")
    nb.ok("%%distribute -n 2\nimport weakref\nclass Big: pass\nalive = []\ndef fails():\n    big = Big()\n    alive.append(weakref.ref(big))\n    raise ValueError('x')\n"
          "def count(): return sum(ref() is not None for ref in alive)")
    nb.run("%%distribute -n 2\nfails()").assert_error("ValueError")
    assert nb.ok("%%distribute -n 2 --gather\ncount()").value == "[0, 0]"
    nb.run("%%distribute -n 2\nfails()").assert_error("ValueError")
    freed = nb.ok("%ranks free")
    assert not freed.shown.strip()
    assert "no error to look at" in nb.run("%debug -r 0").shown
    assert nb.run("%ranks free -r 7").assert_error("UsageError").shown.count("7")
    nb.ok("%ranks stop")
    assert "there are no ranks yet" in nb.run("%ranks free").assert_error("UsageError").shown


@pytest.mark.only_names
def test_an_error_says_that_gpu_memory_stays(nb):
    nb.ok("%%distribute -n 2\nimport sys, types\n"
          "cuda = types.SimpleNamespace(is_initialized=lambda: True, memory_allocated=lambda: 1 << 20)")
    play = "%%distribute -n 2\nsys.modules['torch'] = types.SimpleNamespace(cuda=cuda)\n"
    failed = nb.run(play + "def f():\n    1 / 0\nf()").assert_error("ZeroDivisionError")
    assert failed.traceback.strip().splitlines()[-1].endswith("%ranks free frees it now"), failed.traceback
    nb.ok("import cellspan\ndef fails():\n    1 / 0")
    assert "%ranks free frees it now" in nb.run("cellspan.run(fails, n=2)").assert_error("ZeroDivisionError").shown
    for code, error in (("1 / 0", "ZeroDivisionError"), ("import (", "SyntaxError"), ("int('x')", "ValueError")):
        assert "GPU's memory" not in nb.run(play + code).assert_error(error).traceback, "no function keeps anything"
    nb.ok("%ranks restart")
