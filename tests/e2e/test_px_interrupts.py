# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.px: interrupts that come while home makes, pickles or loads for what runs beside its cells."""

from __future__ import annotations

import pytest

PAUSE_S = 1.5  # seconds; a second interrupt gets through a second after the first
LAST_S = 20  # then the cell ends soon; far off, for a busy machine


@pytest.fixture
def two(nb, tmp_path):
    nb.ok(f"%reload_ext cellspan.px\nimport os, threading, time\nimport cellspan, cellspan.px as ipp\nrc = ipp.Client(n=2)\ndv = rc[:]\nat = {str(tmp_path)!r}\n"
          "def stands(name):\n    open(at + '/begun', 'w').close()\n    while not os.path.exists(at + '/' + name): time.sleep(0.01)\n%px 1")
    return nb


def presses(nb, cell, most=10):
    """Interrupts until the cell has ended; how often."""
    for n in range(1, most + 1):
        nb.control("interrupt_request")
        if nb.until(lambda: cell.ended, PAUSE_S if n == 1 else LAST_S):
            return n
    raise AssertionError(f"{most} interrupts have not ended it: {cell.shown}")


def begun(nb, tmp_path):
    assert nb.until((tmp_path / "begun").exists)


def test_a_cell_behind_an_item_that_hangs_can_be_interrupted(two, tmp_path):
    """Home rested when it began to make the item."""
    two.ok("def items():\n    for i in range(200):\n        if i == 12: stands('never')\n        yield i\n"
           "def slow(x): time.sleep(0.3)\nm = dv.map_async(slow, items(), chunksize=1)")
    begun(two, tmp_path)
    cell = two.start("print('hi')")
    presses(two, cell)  # one that came before the cell may have ended the map, and not the cell
    two.run("m.get()", limit=30).assert_error("KeyboardInterrupt")


def test_a_result_that_has_come_is_not_lost_while_a_thread_pickles(two, tmp_path):
    two.ok("class Slow:\n    def __reduce__(self):\n        stands('go')\n        return int, ()\n"
           "thread = threading.Thread(target=lambda: cellspan.run(abs, Slow(), n=1))\n"
           "def gives(x):\n    while not os.path.exists(at + '/give'): time.sleep(0.01)\n    return x\n"
           "m = dv.map_async(gives, [5], chunksize=1)")
    cell = two.start("thread.start()\nwhile not os.path.exists(at + '/begun'): time.sleep(0.01)\n"
                     "open(at + '/give', 'w').close()\nprint('asks', flush=True); m.get()")
    two.wait_shown(cell, "asks")
    two.turn(1)  # what the rank gives has come
    assert presses(two, cell) <= 2
    cell.assert_error("KeyboardInterrupt")
    (tmp_path / "go").touch()
    assert two.ok("thread.join(); m.get()", limit=60).value == "[5]"


@pytest.mark.parametrize("code", ["await asyncio.sleep(600)", "while True: m.wait(0.1)", "while True: time.sleep(0.01)"])
def test_the_second_interrupt_ends_a_cell_while_a_thread_pickles(two, tmp_path, code):
    """The cell runs when a rank brings something, which waits for the thread."""
    two.ok("import asyncio\nclass Hangs:\n    def __reduce__(self):\n        stands('go')\n        return int, ()\n"
           "def gives(x):\n    while not os.path.exists(at + '/give'): time.sleep(0.01)\n    return x\n"
           "m = dv.map_async(gives, range(9), chunksize=1)\n"
           "thread = threading.Thread(target=lambda: cellspan.run(abs, Hangs(), n=1))")
    cell = two.start("thread.start()\nwhile not os.path.exists(at + '/begun'): time.sleep(0.01)\nprint('goes on', flush=True)\n" + code)
    two.wait_shown(cell, "goes on")
    (tmp_path / "give").touch()
    two.turn(1)  # what the ranks give has come
    assert presses(two, cell) <= 2
    cell.assert_error("KeyboardInterrupt")
    (tmp_path / "go").touch()
    assert two.ok("thread.join(); m.get()", limit=60).value == str(list(range(9)))


@pytest.mark.parametrize("code", ["await asyncio.sleep(600)", "while True: m.wait(0.1)"])
def test_the_second_interrupt_ends_a_cell_while_an_item_is_pickled(two, tmp_path, code):
    two.ok("import asyncio\nclass Hangs:\n    def __reduce__(self):\n        stands('never')\n        return int, ()\n"
           "def items():\n    for i in range(200): yield Hangs() if i == 12 else i\n"
           "def slow(x): time.sleep(0.2)\nm = dv.map_async(slow, items(), chunksize=1)")
    cell = two.start(code)
    begun(two, tmp_path)
    assert presses(two, cell) <= 2
    cell.assert_error("KeyboardInterrupt")


@pytest.mark.parametrize("code", ["await asyncio.sleep(600)", "while True: r.wait(0.1)"])
def test_the_second_interrupt_ends_a_cell_while_a_large_value_loads(two, tmp_path, code):
    two.ok("import asyncio\nclass Hangs:\n    def __init__(self): self.a = 1\n    def __setstate__(self, state): stands('never')\n"
           "def makes():\n    while not os.path.exists(at + '/give'): time.sleep(0.01)\n    return bytes(8 << 20), Hangs()\nr = dv.apply_async(makes)")
    cell = two.start("print('goes on', flush=True)\n" + code)
    two.wait_shown(cell, "goes on")
    (tmp_path / "give").touch()
    begun(two, tmp_path)
    assert presses(two, cell) <= 2
    cell.assert_error("KeyboardInterrupt")
    two.run("r.get()", limit=30).assert_error("KeyboardInterrupt")


def test_a_thread_and_a_cell_may_wait_for_the_same_end(two):
    two.ok("def slow(x):\n    time.sleep(0.3)\n    return x\nsaid = []")
    for then in "%px 1", "assert m.get() == [0, 1, 2, 3]":
        for _ in range(4):
            two.ok("m = dv.map_async(slow, range(4), chunksize=1)\nthread = threading.Thread(target=lambda: said.append(m.get())); thread.start()")
            two.ok(then, limit=30)
            two.ok("thread.join()", limit=30)
    assert two.ok("said == [[0, 1, 2, 3]] * 8").value == "True"
