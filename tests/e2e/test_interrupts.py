# SPDX-License-Identifier: BSD-3-Clause
"""Interrupts while the user's code runs outside of a cell's text: while values are pickled, rebuilt, imported."""

from __future__ import annotations

import random

import pytest
from packages import needs
from processes import wait_until

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


# -- while a module is imported


def package(folder, name, part):
    """A package whose module `part` runs that code; what comes after it needs the whole package. Returns the folder for sys.path."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("from . import part\ndef f():\n    return part.last\n")
    (folder / name / "part.py").write_text(part + "\nlast = 5\n")
    return str(folder)


@pytest.mark.parametrize("name, where", [("slow_h", ""), ("slow_a", "import asyncio\nawait asyncio.sleep(0)\n"), ("slow_r", "%%distribute -n 2 " + GRACE + "\n")])
def test_a_library_is_imported_to_its_end(nb, tmp_path, name, where):
    pids = nb.rank_pids(2)
    begun = tmp_path / "begun"
    path = package(tmp_path / "site-packages", name, "import pathlib, time\npathlib.Path(%r).touch()\ntime.sleep(2)" % str(begun))
    cell = nb.start(where + "import sys; sys.path.insert(0, %r)\nimport %s\nprint('went', 'on')" % (path, name))
    interrupt(nb, cell, begun)
    assert "went on" not in cell.stdout and "killed" not in cell.shown and "part.py" not in cell.shown, cell.shown
    at = where if where.startswith("%%") else ""
    cell = nb.ok(at + "import sys\nprint('%s.part' in sys.modules)\nimport %s\nprint(%s.f())" % (name, name, name))
    assert "True" in cell.stdout and "False" not in cell.stdout and "5" in cell.stdout, cell.shown
    all_well(nb, pids)


def test_a_library_is_imported_to_its_end_where_another_rank_fails(nb, tmp_path):
    pids = nb.rank_pids(2)
    begun = tmp_path / "begun"
    path = package(tmp_path / "site-packages", "slow_f", "import os, pathlib, time\nif os.environ.get('RANK') == '1':\n"
                   "    pathlib.Path(%r).touch()\n    time.sleep(2)" % str(begun))
    nb.ok("import sys; sys.path.insert(0, %r)\nfrom slow_f import f as of_library" % path)
    nb.ok("%%%%distribute -n 2\nimport sys; sys.path.insert(0, %r)" % path)
    nb.run("%%%%distribute -n 2\nimport os, pathlib, time\nwhile not pathlib.Path(%r).exists():\n    time.sleep(0.01)\n"
           "if os.environ['RANK'] == '0':\n    nosuch\nof_library()" % str(begun), LIMIT).assert_error("NameError")
    assert nb.ok("%%distribute -r 1\nimport sys\n'slow_f.part' in sys.modules").value == "True"
    assert nb.ok("%%distribute -r 1\nof_library()").value == "5"
    all_well(nb, pids)


def test_a_module_of_the_user_is_interrupted_at_once(nb, tmp_path):
    pids = nb.rank_pids(2)
    begun = tmp_path / "begun"
    path = package(tmp_path / "mine", "trains", "import pathlib, time\npathlib.Path(%r).touch()\ntime.sleep(600)" % str(begun))
    cell = nb.start("import sys; sys.path.insert(0, %r)\nimport trains" % path)
    interrupt(nb, cell, begun)
    assert "part.py" in cell.shown, cell.shown
    all_well(nb, pids)


@pytest.mark.parametrize("name, where", [("asks_h", ""), ("asks_r", "%%distribute -n 2 -r 0\n")])
def test_an_interrupt_ends_a_prompt_of_a_library_that_is_imported(nb, tmp_path, name, where):
    pids = nb.rank_pids(2)
    path = package(tmp_path / "site-packages", name, "import time\ntry:\n    breakpoint()\n    x = 1\n    time.sleep(600)\nfinally:\n    print('left', flush=True)")
    cell = nb.start(where + "import sys; sys.path.insert(0, %r)\nimport %s" % (path, name), answer=lambda prompt: None)
    assert nb.until(lambda: cell.prompts, LIMIT), cell.shown
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert "left" in cell.stdout and "part.py" in cell.shown, cell.shown
    all_well(nb, pids)


# -- how an interrupt is told


LEAVES = """import builtins, sys, time, types
trainer = types.ModuleType('trainer')
exec('''
import sys, time
def fit():
    try:
        print('fits', flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        sys.exit(1)
''', trainer.__dict__)
trainer.fit()
"""


@pytest.mark.parametrize("where", ["", "%%distribute -n 2 " + GRACE + "\n"])
def test_a_library_that_meets_an_interrupt_with_exit(nb, where):
    pids = nb.rank_pids(2)
    cell = nb.start(where + LEAVES)
    nb.wait_shown(cell, "fits", LIMIT)
    if where:
        nb.wait_ranks(cell, "fits", 2, LIMIT)
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert "SystemExit" not in cell.shown and "To exit" not in cell.shown and "trainer.fit()" in cell.traceback, cell.shown
    all_well(nb, pids)
    cell = nb.run(where + "raise SystemExit(1)", LIMIT).assert_error("SystemExit")


def test_a_script_that_meets_an_interrupt_with_exit(nb, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(LEAVES)
    cell = nb.start("%%distribute -n 2 %s %s" % (GRACE, script))
    nb.wait_ranks(cell, "fits", 2, LIMIT)
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert "SystemExit" not in cell.shown, cell.shown


@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
def test_a_forked_process_ends_by_sigterm_even_before_it_has_begun(nb, where):
    """As the processes of a Pool do, which is ended when its work is done."""
    nb.ok(where + "import os, signal, time\ndef ended():\n    pid = os.fork()\n    if not pid:\n        time.sleep(300)\n        os._exit(0)\n"
          "    os.kill(pid, signal.SIGTERM)\n    return os.waitpid(pid, 0)[1]\nassert {ended() for _ in range(40)} == {signal.SIGTERM}", 120)
    nb.ok(where + "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool:\n    assert pool.map(abs, [-1, 2]) == [1, 2]", 120)


def test_ranks_that_are_killed_for_not_heeding_it_are_told_as_an_interrupt(nb):
    cell = nb.start("%%distribute -n 2 --grace 1s\nimport time\nprint('in')\nwhile True:\n    try:\n        time.sleep(600)\n"
                    "    except KeyboardInterrupt:\n        pass")
    nb.wait_ranks(cell, "in", 2, LIMIT)
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert cell.reply["evalue"].startswith("interrupted, and rank 0 was killed by signal 9 (SIGKILL)"), cell.reply
    assert cell.error["evalue"] == cell.reply["evalue"] and "RankDied" not in cell.shown, cell.shown
    assert "KeyboardInterrupt on ranks 0-1 of 2" in cell.traceback and "it was in" in cell.stderr, cell.shown


def test_a_rank_that_is_killed_beside_one_that_heeds_it_is_told_as_an_interrupt(nb):
    cells = []

    def heeds():
        """On a busy machine rank 0 may need more than its second, and is killed as well."""
        cell = nb.start("%%distribute -n 2 --grace 1s\nimport time, cellspan\nprint('in')\nwhile True:\n    try:\n        time.sleep(600)\n"
                        "    except KeyboardInterrupt:\n        if cellspan.rank() == 0:\n            raise")
        nb.wait_ranks(cell, "in", 2, LIMIT)
        nb.control("interrupt_request")
        cells.append(nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt"))
        assert "RankDied" not in cell.shown, cell.shown
        return "also on rank 1: KeyboardInterrupt: interrupted, and was killed by signal 9 (SIGKILL)" in cell.traceback

    assert wait_until(heeds, LIMIT), cells[-1].shown


# What IPython does for seconds on a busy machine.
SLOW = """import time, IPython.core.ultratb as ultratb
for kind in (ultratb.VerboseTB, ultratb.AutoFormattedTB, ultratb.FormattedTB):
    if 'structured_traceback' in vars(kind):
        def slowly(*args, _kind=kind, _real=kind.structured_traceback, **options):
            time.sleep(%s)
            return _real(*args, **options)
        kind.structured_traceback = slowly
"""


def test_the_time_that_a_traceback_takes_does_not_count_towards_the_grace(fresh):
    nb = fresh()
    pids = nb.rank_pids(2)
    nb.ok("%%distribute -n 2\n" + SLOW % 1.2)
    cell = nb.start("%%distribute -n 2 --grace 1s\nimport time\nprint('in')\ntime.sleep(600)")
    nb.wait_ranks(cell, "in", 2, LIMIT)
    nb.control("interrupt_request")
    nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
    assert "killed" not in cell.shown and "time.sleep(600)" in cell.traceback, cell.shown
    assert nb.rank_pids(2) == pids


def test_a_new_ranks_error_costs_no_rank_that_waits_for_it(fresh):
    needs("torch")
    nb = fresh()
    nb.ok("%%distribute -n 2 --no-capture\nmine = 1", limit=120)
    kept = nb.rank_pids(2)[0]
    nb.ok("%ranks restart -r 1")
    pids = nb.rank_pids(2)
    assert pids[0] == kept != pids[1]
    meets = "import torch.distributed as dist\nmine\ndist.barrier()"
    nb.ok("%%distribute -r 1\n" + SLOW % 1.2)  # as on a busy machine
    cell = nb.run("%%distribute -n 2 --init --grace 10s\n" + meets, LIMIT).assert_error("NameError")
    assert "mine" in cell.traceback and "killed" not in cell.shown, cell.shown
    assert nb.rank_pids(2) == pids and nb.ok("%%distribute -r 0\nmine").value == "1"


@pytest.mark.parametrize("where", ["", "%%distribute -n 2\n"])
def test_a_traceback_that_takes_too_long_is_shown_plainly(fresh, where):
    nb = fresh()
    pids = nb.rank_pids(2)
    nb.ok(where + SLOW % 600)
    cell = nb.run(where + "1 / 0", LIMIT).assert_error("ZeroDivisionError")
    assert "Traceback (most recent call last)" in cell.traceback and "1 / 0" in cell.traceback, cell.shown
    assert nb.rank_pids(2) == pids


def test_while_ranks_end_so_that_they_are_restarted(fresh, tmp_path):
    nb = fresh()
    cells = []

    def interrupted():
        """The ranks heed no SIGTERM, and are killed 2 s later; on a busy machine the interrupt may come after that."""
        begun = tmp_path / ("begun%d" % len(cells))
        nb.ok("%%%%distribute -n 2\nimport pathlib, signal\n"
              "signal.signal(signal.SIGTERM, lambda *_: pathlib.Path(%r).touch())\nkept = 1" % str(begun))
        cells.append(nb.start("%ranks restart"))
        assert nb.until(begun.exists, LIMIT), cells[-1].shown
        nb.control("interrupt_request")
        return nb.wait(cells[-1], LIMIT).status == "error"

    assert wait_until(interrupted, LIMIT), cells[-1].shown
    told = cells[-1].assert_error("KeyboardInterrupt").error["evalue"]
    assert "started by the next cell" in told, told
    assert nb.ok("%%distribute -n 2\n'kept' in globals()", limit=LIMIT).value == "False"


@pytest.mark.soak
@pytest.mark.limit(3000)
def test_an_interrupt_at_any_moment_of_a_fresh_homes_first_cell(fresh):
    """Home imports much in its first cell, and the interrupt may come in any line of it."""
    moments = random.Random(1)
    for k in range(100):
        nb = fresh()
        cell = nb.start("import asyncio\nawait asyncio.sleep(600)")
        after = 2 * moments.random()
        nb.until(lambda: cell.ended, after)
        nb.km.interrupt_kernel()
        nb.wait(cell, 60).assert_error("KeyboardInterrupt")
        assert len(cell.of("error")) == 1, "kernel %d, after %.3f s: %s" % (k, after, cell.shown)
        assert nb.ok("1 + 1").value == "2"
        nb.close()
