# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.map(): calls on whichever rank is free, the results in order."""

from __future__ import annotations

import re
import time

import pytest
from client import is_status, values


@pytest.fixture
def two(nb):
    nb.ok("import cellspan, os, time\ncellspan.run(abs, 1, n=2)")
    return nb


def test_results_come_in_order_from_all_ranks(two):
    two.ok("factor = 3\ndef scaled(x): return factor * x, os.getpid(), time.sleep(0.0005)\nfound = cellspan.map(scaled, range(1000))")
    assert values(two.ok("[x for x, _, _ in found] == [3 * x for x in range(1000)], len({pid for _, pid, _ in found})")) == (True, 2)
    assert values(two.ok("cellspan.map(pow, [2, 3, 4], (x for x in [5, 2]))")) == [32, 9]
    assert values(two.ok("cellspan.map(abs, []), cellspan.map(abs, [-1]), cellspan.map(lambda x: x, [None] * 3, chunksize=2)")) == (
        [], [1], [None] * 3)


def test_a_slow_item_keeps_nobody_waiting(two):
    """The first item ends only when all others are done, which only the other rank can do."""
    two.ok("import tempfile; place = tempfile.mkdtemp()\n"
           "def work(k):\n    if k == 0:\n        while len(os.listdir(place)) < 30: time.sleep(0.01)\n"
           "    else: open(os.path.join(place, str(k)), 'w').close()\n    return os.getpid()\n"
           "pids = cellspan.map(work, range(31))")
    assert values(two.ok("pids.count(pids[0]), len(set(pids))")) == (1, 2)


def test_items_are_taken_only_when_a_rank_wants_them(two):
    two.ok("ahead = []\ndef items():\n    for k in range(40):\n        ahead.append(k - len(os.listdir(place)))\n        yield k\n"
           "import tempfile; place = tempfile.mkdtemp()\n"
           "def work(k):\n    time.sleep(0.06)\n    open(os.path.join(place, str(k)), 'w').close()\n"
           "cellspan.map(work, items())")
    assert values(two.ok("max(ahead)")) <= 4


def test_large_items_and_results(two):
    two.ok("import numpy as np\nbig = [np.full(9_000_000, k, dtype=float) for k in range(2)]\n"
           "doubled = cellspan.map(lambda a: 2 * a, big)")  # 72 MB each: several pieces
    assert values(two.ok("[(len(a), float(a[0]), float(a[-1])) for a in doubled]")) == [(9000000, 0.0, 0.0), (9000000, 2.0, 2.0)]


def test_classes_of_the_notebook_and_what_is_printed(two):
    cell = two.ok("class Point:\n    def __init__(self, x): self.x = x\n"
                  "def moved(p):\n    print('at', p.x)\n    return Point(p.x + 1)\n"
                  "print([p.x for p in cellspan.map(moved, [Point(1), Point(5)])])")
    assert "at 1\n" in cell.stdout and "at 5\n" in cell.stdout and cell.stdout.endswith("[2, 6]\n")


def test_an_error_names_its_item(two):
    cell = two.run("def inverse(x): return 1 / x\ncellspan.map(inverse, [4, 2, 0, 1])").assert_error("ZeroDivisionError")
    assert "item 2, (0)" in cell.traceback and "in inverse" in cell.traceback, cell.traceback
    assert not any(name in cell.traceback for name in ("map_rank.py", "exchange.py")) and "_cellspan" not in cell.traceback
    assert values(two.ok("try: cellspan.map(inverse, [1] * 500 + [0] + [1] * 500)\n"
                         "except ZeroDivisionError as e: found = e.item\nfound")) == 500
    assert values(two.ok("cellspan.map(inverse, [1, 2])")) == [1.0, 0.5]


def test_what_a_call_raises_that_is_no_exception_names_its_item(two):
    two.ok("import sys\nclass Ends(BaseException): pass\ndef leaves(k, how):\n    if k == 2: raise how\n    return k")
    for how, ename in (("SystemExit(3)", "SystemExit"), ("KeyboardInterrupt('mine')", "KeyboardInterrupt"), ("Ends('now')", "Ends")):
        cell = two.run(f"cellspan.map(leaves, range(4), [{how}] * 4)").assert_error(ename)
        assert "cellspan.map: item 2, (2, " in cell.traceback, cell.traceback
        assert values(two.ok(f"try: cellspan.map(leaves, range(4), [{how}] * 4)\n"
                             "except BaseException as e: found = e.item, type(e).__name__\nfound")) == (2, ename)
    assert values(two.ok("[getattr(x, 'code', x) for x in cellspan.map(leaves, range(4), [SystemExit(3)] * 4, return_exceptions=True)]")) == [0, 1, 3, 3]
    cell = two.run("cellspan.map(leaves, range(4), [SystemExit(3)] * 4, retries=2)").assert_error("SystemExit")
    assert "cellspan.map: item 2, (2, SystemExit(3)), tried 3 times" in cell.traceback, cell.traceback


def test_a_crash_shows_no_line_of_ours(two):
    two.ok("import ctypes\ndef crash(k): return ctypes.string_at(0)")
    for call in ("map(crash, [1])", "run(crash, 1)"):
        cell = two.run(f"cellspan.{call}", limit=60).assert_error("RankDied")
        assert "in crash" in cell.traceback and "C stack" in cell.traceback, cell.traceback
        assert "/cellspan/_worker/" not in cell.traceback and "runpy" not in cell.traceback, cell.traceback


def test_items_that_call_ranks_are_told_what_to_do(two):
    two.ok("def made():\n    for k in range(5): yield cellspan.run(abs, -k)")
    cell = two.run("cellspan.map(abs, made())").assert_error("RuntimeError")
    assert "make a list of the items before the map" in cell.reply["evalue"] and "_map.py" not in cell.traceback, cell.shown
    assert values(two.ok("cellspan.map(abs, list(made()))")) == [0, 1, 2, 3, 4]


REFUSED = [
    ("map(inverse)", "TypeError", "map() needs something to iterate over"),
    ("map(pow, [2], 5)", "TypeError", "map(): argument 3, (5), is of type int, and has no items: give a list, a range"),
    ("map(3, [1])", "TypeError", "map() needs a function, not int"),
    ("map(inverse, [1], [2])", "TypeError", "inverse(): too many positional arguments: map() gives it 2 arguments"),
    ("map(inverse, [1], chunksize=0)", "ValueError", "chunksize=0: it is a number of items, 1 or more"),
    ("map(abs, [1, 2, threading.Lock()])", "TypeError", "item 2, ("),
    ("map(holds(), [1])", "TypeError", "the function can't be sent to the ranks: "),
    ("map(lambda x: __import__('threading').Lock() if x == 3 else x, range(6))", "TypeError", "the result of item 3, a lock, can't be sent home"),
    ("map(abs, (1 / x for x in [1, 0]))", "ZeroDivisionError", "division by zero"),
]


def test_what_is_wrong_is_named(two):
    two.ok("import threading; lock = threading.Lock()\ndef inverse(x): return 1 / x\n"
           "def holds():\n    lock = threading.Lock()\n    return lambda x: lock")
    for call, ename, text in REFUSED:
        cell = two.run("cellspan." + call).assert_error(ename)
        assert text in cell.reply["evalue"], (call, cell.reply["evalue"])
    assert values(two.ok("cellspan.map(abs, [-1, -2])")) == [1, 2]


def test_an_interrupt_ends_it_and_ranks_keep_their_variables(two):
    two.ok("%%distribute\nkept = 7")
    for items in ("range(100)", "(time.sleep(60) for _ in range(9))"):
        cell = two.start("print('begun', flush=True)\ncellspan.map(time.sleep, %s)" % items.replace("range(100)", "[60] * 100"))
        two.wait_shown(cell, "begun")
        time.sleep(0.5)
        two.control("interrupt_request")
        two.wait(cell)
        cell.assert_error("KeyboardInterrupt")
    assert values(two.ok("%%distribute --gather\nkept")) == [7, 7]


@pytest.mark.parametrize("how", ["range(2000)", "(k for k in range(2000)), retries=1", "range(2000), chunksize=3"])
def test_an_interrupt_ends_it_where_the_function_catches_it(two, how):
    two.ok("%%distribute\nkept = 8")
    two.ok("def careless(k):\n    try: time.sleep(0.3)\n    except BaseException: return -1\n    return k\nfound = None")
    cell = two.start(f"print('begun', flush=True)\nfound = cellspan.map(careless, {how})")
    two.wait_shown(cell, "begun")
    time.sleep(0.5)
    two.control("interrupt_request")
    two.wait(cell)
    cell.assert_error("KeyboardInterrupt")
    assert "is killed" not in cell.stderr and values(two.ok("found is None")), cell.shown
    assert values(two.ok("%%distribute --gather\nkept")) == [8, 8]


def test_a_rank_that_dies_ends_it(two):
    cell = two.run("cellspan.map(lambda k: os._exit(3) if k == 5 else k, range(10))", limit=30)
    assert cell.status == "error" and "rank" in cell.reply["evalue"]
    assert values(two.ok("cellspan.map(abs, [-1, -2], n=2)")) == [1, 2]


def test_it_says_where_it_works(two):
    cell = two.run("%%distribute\nimport cellspan\ncellspan.map(abs, [1])").assert_error("NotAtHomeError")
    assert "this is a rank" in cell.reply["evalue"]


# ---- the count in the status --------------------------------------------------------------------------------------------------


def statuses(cell):
    """The texts of the status, one after the other, and its HTML."""
    shown = [m["content"]["data"] for m in cell.messages if is_status(m)]
    return [data["text/plain"] for data in shown if data.get("text/plain")], [data.get("text/html", "") for data in shown]


def counted(nb, code, begins):
    """The cell, and the last text of its status, of which one text begins so. A status comes once a second, so a kernel that stands
    still meanwhile has none to show: then the cell runs again."""
    cell = nb.run_until(code, lambda cell: any(re.match(begins, text) for text in statuses(cell.assert_ok())[0]))
    return cell, statuses(cell)[0][-1]


SLOW = "def slow(x):\n    time.sleep(0.15)\n    return 1 / (x % 10 - 3)\n"


def test_a_long_map_counts_and_the_count_stays(two):
    cell, last = counted(two, SLOW + "found = cellspan.map(slow, range(60), return_exceptions=True)\nsum(isinstance(x, ZeroDivisionError) for x in found)",
                         r"\d+ of 60(, \d failed)?\nranks 0-1 running ")
    assert re.fullmatch(r"60 of 60, 6 failed: ranks 0-1 done in \d+:\d+", last) and values(cell) == 6
    assert re.search(r'<progress value="\d+" max="60"></progress> \d+ of 60', "".join(statuses(cell)[1]))
    assert values(two.ok("found[13].item, found[13].__class__.__name__, str(found[13])")) == (13, "ZeroDivisionError", "division by zero")


def test_a_map_of_a_generator_counts_so_far_and_a_long_chunk_counts_meanwhile(two):
    two.ok(SLOW + "def some():\n    for k in range(40):\n        yield k // 10 * 10")
    # each rank has one chunk alone, and the generator has ended
    cell, last = counted(two, "len(cellspan.map(slow, some(), chunksize=20))", r"[1-9]\d? of 40\n")
    assert last.startswith("40 of 40: ranks 0-1 done in ") and values(cell) == 40
    counted(two, "len(cellspan.map(slow, (k * 10 for k in range(80)), chunksize=1))", r"\d+ so far\nranks 0-1 running ")


def test_a_map_in_a_thread_and_in_a_group_count(two):
    code = SLOW + "import threading\nt = threading.Thread(target=cellspan.group().map, args=(slow, [1] * 40)); t.start(); t.join()"
    assert counted(two, code, r"\d+ of 40\n")[1].startswith("40 of 40: ")


def test_a_short_map_has_no_status(two):
    cell = two.ok("cellspan.map(abs, range(100)); cellspan.map(abs, (k for k in range(10)), chunksize=1)")
    assert not [m for m in cell.messages if is_status(m)] or not statuses(cell)[0]  # a slow machine may show that ranks are called


# ---- retries ------------------------------------------------------------------------------------------------------------------

DIES = ("import signal\nplace = tempfile.mkdtemp()\n"
        "def dies(k, times=1):\n    if k == 5 and len(os.listdir(place)) < times:\n"
        "        open(os.path.join(place, str(os.getpid())), 'w').close()\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    time.sleep(0.02)\n    return k\n")


@pytest.fixture
def three(nb):
    nb.ok("import cellspan, os, tempfile, time\ncellspan.run(abs, 1, n=3)\n" + DIES)
    return nb


@pytest.mark.parametrize("chunksize", [None, 1, 4])
def test_the_items_of_a_killed_rank_are_tried_on_others(three, chunksize):
    cell = three.ok(f"cellspan.map(dies, range(40), retries=1, chunksize={chunksize}) == list(range(40)), len(os.listdir(place))")
    assert values(cell) == (True, 1)
    assert re.search(r"rank [0-2] was killed by SIGKILL .*: other ranks do its work\n", cell.stderr), cell.stderr
    cell = three.ok("cellspan.map(abs, [-1, -2], n=3)")
    assert values(cell) == [1, 2] and "its variables are gone" in cell.stderr


def test_without_retries_a_killed_rank_ends_it(three):
    cell = three.run("cellspan.map(dies, range(40))").assert_error("RankDied")
    assert "was killed by SIGKILL" in cell.reply["evalue"] and cell.traceback.endswith(
        "with retries=1 other ranks do the work of one that dies, and an item of which ranks die is named"), cell.traceback
    assert values(three.ok("len(os.listdir(place))")) == 1


@pytest.mark.parametrize("n", [2, 3])
def test_an_item_that_kills_each_rank_is_named(three, n):
    cell = three.run(f"cellspan.map(lambda k: dies(k, 9), range(40), n={n}, chunksize=2, retries=1)")
    text = cell.assert_error("RankDied").reply["evalue"]
    assert re.fullmatch(r"map\(\): item 5, \(5\): 2 ranks have died with it, and retries=1: rank (\d) was killed by SIGKILL .*, with items 4 to 5; "
                        r"rank (?!\1)\d was killed by SIGKILL .*", text), text
    assert values(three.ok("cellspan.map(dies, range(4))")) == [0, 1, 2, 3]


@pytest.mark.parametrize("how", ["retries=1", "retries=4, return_exceptions=True"])
def test_items_that_leave_no_rank_are_named(three, how):
    cell = three.run(f"def kills(k, word): os.kill(os.getpid(), 9)\ncellspan.map(kills, range(3), 'abc', {how})").assert_error("RankDied")
    text = cell.reply["evalue"]
    died = r"rank [0-2] was killed by SIGKILL [^;]*"
    assert re.fullmatch(rf"map\(\): no rank is left: item \d, [^;]*: {died}; item \d, [^;]*: {died}; item \d, [^;]*: {died}: "
                        r"try one of these items by itself, with cellspan.run\(\)", text), text
    assert "item 0, (0, 'a'): rank " in text or how != "retries=1", text
    text = three.run("cellspan.map(kills, range(6), 'abcdef', retries=4, chunksize=2)").assert_error("RankDied").reply["evalue"]
    assert re.match(r"map\(\): no rank is left: items \d to \d: rank ", text), text
    assert values(three.ok("cellspan.map(abs, [-1], n=3)")) == [1]


def test_other_items_end_at_once_when_one_has_killed_too_many(three):
    cell = three.run("cellspan.map(lambda k: time.sleep(600) if k == 0 else dies(k, 9), [0, 5], retries=1)", limit=60).assert_error("RankDied")
    assert "item 1, (5): 2 ranks have died with it" in cell.reply["evalue"]


def test_with_exceptions_as_results_the_others_go_on(three):
    cell = three.ok("found = cellspan.map(lambda k: dies(k, 9), range(12), retries=1, return_exceptions=True)\n"
                    "found[:5] + found[6:] == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11], type(found[5]).__name__, found[5].item")
    assert values(cell) == (True, "RankDied", 5)


def test_a_call_that_fails_is_made_again_with_its_item_as_it_was(two):
    two.ok("import tempfile; place = tempfile.mkdtemp()\n"
           "def once(k, seen):\n    seen.append(k)\n    path = os.path.join(place, str(k))\n"
           "    if k % 3 == 0 and not os.path.exists(path):\n        open(path, 'w').close(); raise ValueError(k)\n    return seen\n")
    assert values(two.ok("cellspan.map(once, range(7), [[] for _ in range(7)], retries=1) == [[k] for k in range(7)], len(os.listdir(place))")) == (True, 3)
    cell = two.run("def never(k): return 1 / k\ncellspan.map(never, [1, 0], retries=2)").assert_error("ZeroDivisionError")
    assert "item 1, (0), tried 3 times" in cell.traceback


def test_a_wrong_number_of_retries_is_refused_at_the_users_line(two):
    for wrong in ("-1", "1.5", "True", "'2'", "None"):
        cell = two.run(f"cellspan.map(abs, [1], retries={wrong})").assert_error("ValueError")
        assert cell.reply["evalue"] == f"retries={wrong}: it is how often an item is tried again, a whole number, 0 or more"
        assert "_map.py" not in cell.traceback and "cellspan.map(abs" in cell.traceback
