"""Interrupts while something of the user's runs that is no cell's text: values are pickled, rebuilt, imported."""

from __future__ import annotations

import pytest

LIMIT = 90  # seconds, far off; what is interrupted sleeps for 600 s, and is killed after 60
GRACE = "--grace 60s"


def interrupt(nb, cell, gate):
    """When `gate` exists: what sleeps has begun."""
    assert nb.until(gate.exists, LIMIT), cell.shown
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")


def all_well(nb, pids):
    """Home answers, and the ranks are who they were."""
    assert nb.ok("1 + 1").value == "2"
    assert nb.rank_pids(2) == pids
    assert nb.ok("1 + 1").value == "2"


@pytest.mark.parametrize("line", ["%%distribute -n 2 " + GRACE + "\nslow", "%push slow", "import cellspan\ncellspan.group().push(slow=slow)"])
def test_while_home_looks_at_what_travels(nb, tmp_path, line):
    pids = nb.rank_pids(2)
    begun = tmp_path / "begun"
    nb.ok("import time, pathlib\nclass Slow:\n    def __reduce__(self):\n        pathlib.Path(%r).touch()\n"
          "        time.sleep(600)\nslow = Slow()" % str(begun))
    interrupt(nb, nb.start(line), begun)
    nb.ok("del slow")
    all_well(nb, pids)


def test_while_home_pickles_what_travels(nb, tmp_path):
    pids = nb.rank_pids(2)
    begun = tmp_path / "begun"
    nb.ok("import time, pathlib\nlooked = []\nclass Slow:\n    def __reduce__(self):\n        looked.append(1)\n"
          "        if len(looked) > 1:\n            pathlib.Path(%r).touch()\n            time.sleep(600)\n"
          "        return Slow, ()\nslow = Slow()" % str(begun))
    cell = nb.start("%%distribute -n 2 " + GRACE + "\nslow")
    interrupt(nb, cell, begun)
    nb.ok("del slow, Slow")
    all_well(nb, pids)


def test_while_home_expands_the_option_line(nb, tmp_path):
    pids = nb.rank_pids(2)
    begun = tmp_path / "begun"
    nb.ok("import time, pathlib\nclass Slow:\n    def __format__(self, spec):\n        pathlib.Path(%r).touch()\n"
          "        time.sleep(600)\nslow = Slow()" % str(begun))
    interrupt(nb, nb.start("%%distribute -n {slow}\npass"), begun)
    nb.ok("del slow")
    all_well(nb, pids)


def test_while_ranks_import_what_a_captured_name_needs(nb, tmp_path):
    pids = nb.rank_pids(2)
    begun = tmp_path / "begun"
    (tmp_path / "slow_import.py").write_text(
        "import os, pathlib, time\nif 'RANK' in os.environ:\n    pathlib.Path(%r).touch()\n    time.sleep(600)\n"
        "def f():\n    return 1\n" % str(begun))
    nb.ok("import sys; sys.path.insert(0, %r)\nfrom slow_import import f as slow" % str(tmp_path))
    interrupt(nb, nb.start("%%distribute -n 2 " + GRACE + "\nslow()"), begun)
    nb.ok("slow = None")
    all_well(nb, pids)


@pytest.mark.parametrize("line", ["%%distribute -n 2 " + GRACE + "\nslow", "%push slow"])
def test_while_ranks_rebuild_a_value(nb, tmp_path, line):
    pids = nb.rank_pids(2)
    begun = tmp_path / "begun"
    nb.ok("import os, time, pathlib\nclass Slow:\n    def __init__(self): self.x = 1\n    def __setstate__(self, state):\n        import pathlib, time\n"
          "        pathlib.Path(%r).touch()\n        time.sleep(600)\nslow = Slow()" % str(begun))
    interrupt(nb, nb.start(line), begun)
    nb.ok("del slow")
    all_well(nb, pids)


@pytest.mark.parametrize("line", ["%%distribute -n 2 " + GRACE + "\nSlow()", "%pull slow -r 0", "%%distribute -n 2 --gather\nslow"])
def test_while_a_rank_pickles_its_result(nb, tmp_path, line):
    pids = nb.rank_pids(2)
    begun = tmp_path / "begun"
    nb.ok("%%%%distribute -n 2\nimport os, time, pathlib\nclass Slow:\n    def __reduce__(self):\n"
          "        pathlib.Path(%r).touch()\n        time.sleep(600)\nslow = Slow()" % str(begun))
    interrupt(nb, nb.start(line), begun)
    nb.ok("%%distribute -n 2\ndel slow, Slow")
    all_well(nb, pids)


@pytest.mark.parametrize("line", ["%%distribute -n 2\nSlow()", "%%distribute -n 2 --gather\nSlow()", "%pull slow"])
def test_while_home_rebuilds_what_ranks_answered(nb, tmp_path, line):
    pids = nb.rank_pids(2)
    begun = tmp_path / "begun"
    nb.ok("%%%%distribute -n 2\nimport os, time, pathlib\nclass Slow:\n    def __init__(self): self.x = 1\n"
          "    def __setstate__(self, state):\n        import pathlib, time\n        pathlib.Path(%r).touch()\n        time.sleep(600)\nslow = Slow()" % str(begun))
    interrupt(nb, nb.start(line), begun)
    nb.ok("%%distribute -n 2\ndel slow, Slow")
    all_well(nb, pids)


def test_home_works_no_more_for_a_cell_whose_time_is_over(nb, tmp_path):
    pids = nb.rank_pids(2)
    begun = tmp_path / "begun"
    nb.ok("import time, pathlib\nclass Slow:\n    def __reduce__(self):\n        pathlib.Path(%r).touch()\n"
          "        time.sleep(600)\nslow = Slow()" % str(begun))
    nb.run("%%distribute -n 2 --timeout 2s\nslow", LIMIT).assert_error("TimeoutError")
    nb.ok("del slow")
    all_well(nb, pids)
