"""cellspan.map(): calls on whichever rank is free, the results in order."""

from __future__ import annotations

import time

import pytest
from client import values


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
    cell = two.run("def inverse(x): return 1 / x\ncellspan.map(inverse, [4, 2, 0, 1])", limit=20).assert_error("ZeroDivisionError")
    assert "item 2, (0)" in cell.traceback and "in inverse" in cell.traceback, cell.traceback
    assert "hands.py" not in cell.traceback and "_cellspan" not in cell.traceback
    assert values(two.ok("try: cellspan.map(inverse, [1] * 500 + [0] + [1] * 500)\n"
                         "except ZeroDivisionError as e: found = e.item\nfound")) == 500
    assert values(two.ok("cellspan.map(inverse, [1, 2])")) == [1.0, 0.5]


REFUSED = [
    ("map(inverse)", "TypeError", "map() needs something to iterate over"),
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
        cell = two.run("cellspan." + call, limit=20).assert_error(ename)
        assert text in cell.reply["evalue"], (call, cell.reply["evalue"])
    assert values(two.ok("cellspan.map(abs, [-1, -2])")) == [1, 2]


def test_an_interrupt_ends_it_and_ranks_keep_their_variables(two):
    two.ok("%%distribute\nkept = 7")
    for items in ("range(100)", "(time.sleep(60) for _ in range(9))"):
        cell = two.start("print('begun', flush=True)\ncellspan.map(time.sleep, %s)" % items.replace("range(100)", "[60] * 100"))
        two.wait_shown(cell, "begun")
        time.sleep(0.5)
        two.control("interrupt_request")
        two.wait(cell, limit=20)
        cell.assert_error("KeyboardInterrupt")
    assert values(two.ok("%%distribute --gather\nkept")) == [7, 7]


def test_a_rank_that_dies_ends_it(two):
    cell = two.run("cellspan.map(lambda k: os._exit(3) if k == 5 else k, range(10))", limit=30)
    assert cell.status == "error" and "rank" in cell.reply["evalue"]
    assert values(two.ok("cellspan.map(abs, [-1, -2], n=2)")) == [1, 2]


def test_it_says_where_it_works(two):
    cell = two.run("%%distribute\nimport cellspan\ncellspan.map(abs, [1])").assert_error("NotAtHomeError")
    assert "this is a rank" in cell.reply["evalue"]
