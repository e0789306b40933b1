# SPDX-License-Identifier: BSD-3-Clause
"""Calls of several threads run at the same time if they name different ranks."""

from __future__ import annotations

import re

import pytest
from client import is_status

# meet() ends well only if four run at the same time: each waits for the others.
MEET = """
import os, threading, time
from concurrent.futures import ThreadPoolExecutor
import cellspan
def meet(me, of, folder=%r, limit=60):
    open(os.path.join(folder, "%%s-%%s" %% (of, me)), "w").close()
    print("of", me, flush=True)
    end = time.monotonic() + limit
    while sum(name.startswith(of + "-") for name in os.listdir(folder)) < 4:
        if time.monotonic() > end: raise TimeoutError(of)
        time.sleep(0.01)
    return me, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
def together(f):
    with ThreadPoolExecutor(4) as pool: return list(pool.map(f, range(4)))
def caught(f):
    try: return f()
    except Exception as error: return type(error).__name__
def sums(x=1):
    import torch, torch.distributed as dist
    if not dist.is_initialized(): dist.init_process_group("gloo")
    t = torch.ones(1) * x; dist.all_reduce(t); return int(t)
def slow():
    print("runs", flush=True); time.sleep(600)
ends = []
def go(r):
    try: cellspan.run(slow, ranks=r)
    except KeyboardInterrupt: ends.append(r)
cellspan.run(abs, 1, n=4)
"""


@pytest.fixture
def four(nb, tmp_path):
    nb.ok(MEET % str(tmp_path))
    return nb


def test_those_on_different_ranks_run_at_the_same_time(four):
    cell = four.ok("together(lambda r: cellspan.run(meet, r, 'all', ranks=[r]))")
    assert cell.value == str([(r, r, 4) for r in range(4)])
    assert sorted(cell.stdout.splitlines()) == ["[%d] of %d" % (r, r) for r in range(4)], "each line has the label of its rank"


def test_those_on_several_ranks_each(four):
    cell = four.ok("def pair(k): return cellspan.run(lambda: meet(int(os.environ['RANK']), 'pairs'), ranks=[2 * k, 2 * k + 1], gather=True)\n"
                   "with ThreadPoolExecutor(2) as pool: found = list(pool.map(pair, range(2)))\nfound")
    assert cell.value == str([[(r, r, 4) for r in pair] for pair in ([0, 1], [2, 3])])


def test_those_on_the_same_ranks_run_one_after_the_other(four):
    four.ok("def alone(r):\n    global inside\n    inside = globals().get('inside', 0) + 1\n    time.sleep(0.02)\n    was, inside = inside, inside - 1\n    return was")
    assert four.ok("together(lambda r: cellspan.run(alone, r, ranks=[r % 2, 2]))").value == "[1, 1, 1, 1]"


def test_each_has_its_own_error_and_its_own_variables(four):
    four.ok("import numpy as np\nbig = [np.full(300_000, r) for r in range(4)]\n"
            "def one(r):\n    global mine\n    meet(r, 'errors')\n    if r == 1: raise KeyError('mine')\n    if r == 2: os._exit(5)\n"
            "    mine = int(big[r][0])\n    return mine")
    assert four.ok("together(lambda r: caught(lambda: cellspan.run(one, r, ranks=r)))").value == "[0, 'KeyError', 'RankDied', 3]"
    cell = four.ok("together(lambda r: cellspan.run(meet, r, 'again', ranks=[r]))")
    assert cell.value == str([(r, r, 4) for r in range(4)]), "rank 2 is started first, in the same world"
    assert four.ok("cellspan.group().pull('mine', ranks=0), cellspan.group().pull('mine', ranks=3)").value == "(0, 3)"


def test_they_run_beside_a_cell_of_the_notebook(four, gate, tmp_path):
    go, made = tmp_path / "go", tmp_path / "made"
    four.ok("def work():\n    while not os.path.exists(%r): time.sleep(0.02)\n    found = [cellspan.run(abs, -k, ranks=1) for k in range(50)]\n"
            "    open(%r, 'w').write(str(sum(found)))\nt = threading.Thread(target=work); t.start()" % (str(go), str(made)))
    cell = four.start("%%distribute -r 0\nprint('begun')\n" + gate.code + "'held'")
    four.wait_shown(cell, "begun")
    go.touch()
    assert four.until(lambda: made.exists() and made.read_text() == "1225", 60) and not cell.ended
    gate.open()
    assert four.wait(cell).assert_ok().value == "'held'"


def test_a_cell_of_the_notebook_runs_beside_them(four, gate):
    cell = four.ok("def held():\n    print('runs', flush=True)\n    " + gate.code.replace("\n", "\n    ") + "return 'held'\n"
                   "x = 5; got = []; t = threading.Thread(target=lambda: got.append(cellspan.run(held, ranks='0-1'))); t.start()")
    assert four.until(lambda: cell.stdout.count("runs") == 2 or "[0-1] runs" in cell.stdout), cell.shown
    assert four.ok("%%distribute -r 2-3 --gather\nx += int(os.environ['RANK'])\nx").value == "[7, 8]"
    assert four.ok("%pull x -r 3\n").stdout == "" and four.ok("x, got").value == "(8, [])"
    slow = four.start("%%distribute -r 3\nprint('begun')\ntime.sleep(600)")
    four.wait_shown(slow, "begun")
    four.control("interrupt_request")
    four.wait(slow).assert_error("KeyboardInterrupt")
    waits = four.start("%%distribute --gather\nx")
    assert four.until(lambda: "[0-1] held" in four.ok("%ranks where").shown) and not four.until(lambda: waits.ended, 0.5)
    gate.open()
    assert four.wait(waits).assert_ok().value == "[8, 8, 7, 8]" and four.ok("t.join(60); got").value == "['held']"


def waits_of(cell):
    """The last text of the status that says what a cell waits for."""
    shown = [m["content"]["data"]["text/html"] for m in cell.messages if m["msg_type"].endswith("display_data") and is_status(m)]
    shown = [re.sub("<style>.*?</style>|<[^>]*>", "", html) for html in shown]
    return next((text for text in reversed(shown) if text.startswith("waiting for") and "machines" not in text), "")


def test_a_cell_that_waits_for_a_call_says_so(four, gate):
    cell = four.ok("def held():\n    print('runs', flush=True)\n    " + gate.code.replace("\n", "\n    ") + "return 'held'\n"
                   "got = []; t = threading.Thread(target=lambda: got.append(cellspan.run(held, ranks=1))); t.start()")
    assert four.until(lambda: "runs" in cell.stdout), cell.shown
    told = re.compile(r"waiting for the call held\(\) of a thread on rank 1 \(0:\d\d\), as of 20\S+ \S+\s*")
    waits = four.start("%%distribute\n'now'")
    four.wait(waits, until=lambda: told.fullmatch(waits_of(waits)))
    behind = four.start("1")
    four.control("interrupt_request")
    assert four.wait(waits).assert_error("KeyboardInterrupt") and four.wait(behind).status == "aborted"
    assert not waits.of("display_data", "update_display_data"), "the status is gone"
    assert four.ok("t.is_alive(), got").value == "(True, [])", "the call goes on"
    calls = four.start("cellspan.run(abs, -3)")
    four.wait(calls, until=lambda: told.fullmatch(waits_of(calls)))
    gate.open()
    assert four.wait(calls).assert_ok().value == "3" and not calls.displays and four.ok("t.join(60); got").value == "['held']"


def test_a_cell_that_waits_for_its_turn_begins_without_a_status(four, gate):
    cell = four.ok("def held():\n    print('runs', flush=True)\n    " + gate.code.replace("\n", "\n    ") + "return 'held'\n"
                   "t = threading.Thread(target=lambda: cellspan.run(held, bytes(200_000))); t.start()".replace("held, bytes", "lambda x: held(), bytes"))
    assert four.until(lambda: cell.stdout.count("runs") == 4 or "[0-3] runs" in cell.stdout), cell.shown
    waits = four.start("%push ends")
    four.wait(waits, until=lambda: "the call <lambda>() of a thread on ranks 0-3" in waits_of(waits).replace("&lt;", "<").replace("&gt;", ">"))
    gate.open()
    four.wait(waits).assert_ok()
    assert not waits.of("display_data", "update_display_data"), waits.messages
    assert waits.kinds == ["execute_input"], waits.kinds


def test_a_cell_of_the_notebook_gets_its_turn(four):
    four.ok("stop, made = threading.Event(), []\n"
            "def loop():\n    while not stop.is_set(): made.append(cellspan.run(abs, -1, ranks=len(made) % 4))\n"
            "ts = [threading.Thread(target=loop) for _ in range(6)]; [t.start() for t in ts]")
    for k in range(5):
        assert four.ok("%%%%distribute\n%d" % k).value == str(k), "although calls always wait for ranks"
    assert four.ok("stop.set(); [t.join(60) for t in ts]; any(t.is_alive() for t in ts), len(made) > 5").value == "(False, True)"


def test_their_questions_have_labels(four):
    cell = four.ok("together(lambda r: cellspan.run(lambda: input('who? '), ranks=r))", answer=lambda prompt: prompt[:3])
    assert cell.value == str(["[%d]" % r for r in range(4)])


def test_a_subshells_cell_on_other_ranks(four, gate):
    from test_subshells import Subshell

    sub = Subshell(four)
    main = four.start("%%distribute -r 0-1\nprint('begun')\n" + gate.code + "'main'")
    four.wait_shown(main, "begun")
    assert sub.ok("%%distribute -r 3\nimport os\nos.environ['RANK']").value == "'3'" and not main.ended
    gate.open()
    assert four.wait(main).assert_ok().value == "'main'"


def test_their_lines_are_whole(four):
    cell = four.ok("def dots(r):\n    for _ in range(8): print('.', end='', flush=True); time.sleep(0.06)\n    print('end', r, end='')\n"
                   "together(lambda r: cellspan.run(dots, r, ranks=r))\nprint()")
    assert sorted(cell.stdout.split()) == sorted(" ".join("[%d] ........end %d" % (r, r) for r in range(4)).split()), cell.stdout
    assert {line for line in cell.stdout.splitlines() if line} == {"[%d] ........end %d" % (r, r) for r in range(4)}


def test_the_second_interrupt_of_a_cell_ends_the_calls_of_its_threads(four):
    four.ok("background = threading.Thread(target=lambda: caught(lambda: cellspan.run(meet, 0, 'never', ranks=3))); background.start()")
    cell = four.start("with ThreadPoolExecutor(3) as pool: list(pool.map(lambda r: cellspan.run(slow, ranks=r), range(3)))")
    assert four.until(lambda: cell.stdout.count("runs") == 3), cell.shown
    for _ in range(2):
        four.control("interrupt_request")
    assert four.wait(cell).ename == "KeyboardInterrupt"
    assert four.ok("background.is_alive()").value == "True", "a call of an earlier cell goes on"
    four.control("interrupt_request")
    four.ok("background.join(60)")


def test_an_interrupt_of_a_cell_leaves_the_calls_of_other_threads(four, gate):
    cell = four.ok("def held():\n    print('runs', flush=True)\n    " + gate.code.replace("\n", "\n    ") + "return 'held'\n"
                   "got, ready = [], threading.Semaphore(0)\ndef go(): ready.release(); got.append(cellspan.run(held, ranks=1))\n"
                   "ts = [threading.Thread(target=go) for _ in range(2)]; [t.start() for t in ts]; None")
    assert four.until(lambda: "runs" in cell.stdout), cell.shown
    calls = four.start("[ready.acquire() for _ in ts]\nprint('begun', flush=True)\ncellspan.run(abs, -1, ranks=1)")
    four.wait(calls, until=lambda: "waiting for the call held() of a thread on rank 1" in waits_of(calls))
    four.control("interrupt_request")
    four.wait(calls).assert_error("KeyboardInterrupt")
    gate.open()
    assert four.ok("[t.join(60) for t in ts]; got").value == "['held', 'held']"


def test_an_interrupt_ends_calls_that_wait_for_each_other(four):
    four.ok("def hangs(r):\n    global mine\n    mine = r\n    return time.sleep(600) if r == 0 else sums()\n"
            "cellspan.run(sums)\nts = [threading.Thread(target=lambda r=r: caught(lambda: cellspan.run(hangs, r, ranks=r))) for r in range(4)]\n"
            "[t.start() for t in ts]; None")
    assert four.until(lambda: re.search(r"\[1-3\] all_reduce", four.ok("%ranks where").shown)), "they wait in the collective"
    four.control("interrupt_request")
    assert four.ok("[t.join(60) for t in ts]; cellspan.group().pull('mine')").value == "[0, 1, 2, 3]", "no rank was killed"
    assert four.ok("cellspan.run(sums, 2)").value == "8"


@pytest.mark.parametrize("end", [lambda nb: nb.control("interrupt_request"), lambda nb: nb.ok("%ranks stop")], ids=["interrupt", "stop"])
def test_what_ends_all_of_them_if_home_runs_nothing(four, end):
    cell = four.ok("ts = [threading.Thread(target=go, args=(r,)) for r in range(4)]; [t.start() for t in ts]; None")
    assert four.until(lambda: cell.stdout.count("runs") == 4), cell.shown
    end(four)
    assert four.ok("[t.join(60) for t in ts]; sorted(ends)").value == "[0, 1, 2, 3]"
    assert four.ok("%%distribute -n 4 --gather\n1").value == "[1, 1, 1, 1]"


def test_processes_that_meet_on_some_ranks(four):
    assert four.ok("cellspan.run(sums)").value == "4"
    assert four.ok("together(lambda r: cellspan.run(meet, r, 'met', ranks=[r]))").value == str([(r, r, 4) for r in range(4)])
    assert four.ok("together(lambda r: cellspan.run(sums, ranks=[r]))").value == "[4, 4, 4, 4]", "they are in one world"
    assert four.ok("cellspan.run(sums, gather=True)").value == "[4, 4, 4, 4]", "which is kept"


def test_what_a_thread_pushes_is_no_variable_of_homes_meanwhile(four, gate):
    """A push waits for ranks. Other cells find home's own value, and what they assign stays."""
    four.ok("import threading\npushed, g = 1, cellspan.group()\ndef waits():\n" + "\n".join("    " + line for line in gate.code.splitlines()))
    four.ok("runs = threading.Thread(target=cellspan.run, args=(waits,)); runs.start()")
    four.ok("while g.ranks()[0]['state'] == 'idle': pass")
    four.ok("push = threading.Thread(target=g.push, kwargs={'pushed': 100, 'only_there': 'new'}); push.start()\n"
            "cellspan.group().size  # it is answered after the push has been sent")
    assert four.ok("pushed, 'only_there' in globals()").value == "(1, False)"
    four.ok("pushed = 7")
    gate.open()
    four.ok("runs.join(); push.join()")
    assert four.ok("pushed, g.pull('pushed'), g.pull('only_there')").value == "(7, [100, 100, 100, 100], ['new', 'new', 'new', 'new'])"
    four.ok("pushed = 8")
    assert four.ok("%%distribute --gather\npushed").value == "[8, 8, 8, 8]"


def test_a_push_that_waits_lends_nothing_to_other_pushes_of_the_name(four, gate):
    four.ok("import threading\npushed, g = 1, cellspan.group()\ndef waits():\n" + "\n".join("    " + line for line in gate.code.splitlines()))
    four.ok("runs = threading.Thread(target=cellspan.run, args=(waits,)); runs.start()")
    four.ok("while g.ranks()[0]['state'] == 'idle': pass")
    four.ok("push = threading.Thread(target=g.push, kwargs={'pushed': 100, 'ranks': 0}); push.start()\n"
            "g.size  # it is answered after the push has been sent")
    cell = four.start("%push pushed")  # a client's cell goes before calls that wait
    gate.open()
    four.wait(cell).assert_ok()
    four.ok("runs.join(); push.join()")
    assert four.ok("pushed, g.pull('pushed')").value == "(1, [100, 1, 1, 1])"


def test_threads_push_while_home_looks_at_the_name(four):
    four.ok("import threading\npushed, found, g = 1, set(), cellspan.group()\n"
            "push = threading.Thread(target=lambda: [g.push(pushed=100, **{f'k{n}': n}) for n in range(10)]); push.start()\n"
            "while push.is_alive(): found.add(pushed)\n"
            "push.join()")
    assert four.ok("found, g.pull('pushed', ranks=0), g.pull('k9', ranks=0)").value == "({1}, 100, 9)"
