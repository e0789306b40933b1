"""Scripts on ranks of their own, beside the notebook's: `%distribute script.py`, as torchrun runs them."""

from __future__ import annotations

import os


def test_scripts_of_two_folders_have_their_own_modules(nb, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "utils.py").write_text("WHOSE = %r" % name)
        (tmp_path / name / "main.py").write_text("import utils; print(utils.WHOSE)")
    for name in ("one", "two"):
        assert "[0-1] %s\n" % name in nb.ok("%%distribute -n 2 %s" % (tmp_path / name / "main.py")).stdout
    (tmp_path / "one" / "utils.py").write_text("WHOSE = 'edited'")
    assert "[0-1] edited\n" in nb.ok("%%distribute -n 2 %s" % (tmp_path / "one" / "main.py")).stdout


def test_a_script_leaves_nothing_behind_and_finds_nothing(nb, tmp_path):
    script = tmp_path / "messy.py"
    script.write_text(
        "import logging, os, sys, torch, torch.distributed as dist\n"
        "print(os.environ.get('MESS'), os.getcwd() == '/', torch.get_default_dtype(), 'kept' in globals(), dist.is_initialized())\n"
        "os.environ['MESS'] = '1'; os.chdir('/'); torch.set_default_dtype(torch.float64); sys.argv = ['x']\n"
        "dist.init_process_group('gloo'); one = torch.ones(1); dist.all_reduce(one); print(one.item())\n"
    )
    nb.ok("%%distribute -n 2\nkept = 7\nimport os; mine = os.getpid()")
    for _ in range(2):
        said = nb.ok("%%distribute -n 2 %s" % script).stdout
        assert "[0-1] None False torch.float32 False False\n" in said and "[0-1] 2.0\n" in said
    cell = nb.ok("%%distribute\nimport torch\n(kept, mine == os.getpid(), os.environ.get('MESS'), torch.get_default_dtype())")
    assert cell.value == "(7, True, None, torch.float32)"


def test_handlers_of_atexit_run_and_threads_are_waited_for(nb, tmp_path):
    script = tmp_path / "late.py"
    script.write_text(
        "import atexit, threading, time\n"
        "atexit.register(print, 'flushed')\n"
        "threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start()\n"
    )
    assert nb.ok("%%distribute -n 2 %s" % script).stdout.split("\n")[:2] == ["[0-1] thread", "[0-1] flushed"]


def test_a_script_is_main_with_an_absolute_file(nb, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "main.py").write_text(
        "import asyncio, __main__, os, pickle, sys\n"
        "class Kept: pass\n"
        "async def two(): return 2\n"
        "print(__file__, sys.argv, sys.path[0], __main__.Kept is Kept)\n"
        "print(type(pickle.loads(pickle.dumps(Kept()))) is Kept, asyncio.run(two()), os.isatty(0), sys.stdin.read() == '')\n"
    )
    said = nb.ok("%%distribute -n 1 --cwd %s sub/main.py a" % tmp_path).stdout
    assert "%s ['sub/main.py', 'a'] %s True\n" % (tmp_path / "sub" / "main.py", tmp_path / "sub") in said
    assert "True 2 False True\n" in said


def test_a_module_runs_as_main(nb, tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__main__.py").write_text("import sys; print(__name__, __spec__.name, sys.argv[1:])")
    assert "[0-1] __main__ pack.__main__ ['x']\n" in nb.ok("%%distribute -n 2 --cwd %s -m pack x" % tmp_path).stdout


def test_only_some_ranks_of_a_scripts_world(nb, tmp_path):
    script = tmp_path / "who.py"
    script.write_text("import os; print(os.environ['RANK'], os.environ['WORLD_SIZE'], os.environ['LOCAL_WORLD_SIZE'])")
    assert "1 4 4\n" in nb.ok("%%distribute -n 4 -r 1 --merge raw %s" % script).stdout


def test_a_script_can_be_larger_than_the_group(nb, tmp_path):
    script = tmp_path / "who.py"
    script.write_text("import os; print('of', os.environ['WORLD_SIZE'])")
    nb.ok("%%distribute -n 2\nx = 1")
    assert "[0-2] of 3\n" in nb.ok("%%distribute -n 3 %s" % script).stdout
    assert "[0-1] of 2\n" in nb.ok("%%distribute %s" % script).stdout
    assert nb.ok("%%distribute --gather\nx").value == "[1, 1]"


def test_a_script_is_interrupted_alone(nb, tmp_path):
    script = tmp_path / "waits.py"
    script.write_text("import time\nprint('waits', flush=True)\ntime.sleep(600)\n")
    nb.ok("%%distribute -n 2\nkept = 1")
    cell = nb.start("%%distribute %s" % script)
    nb.wait_shown(cell, "waits")
    nb.control("interrupt_request")
    nb.wait(cell)
    assert cell.ename == "KeyboardInterrupt"
    assert nb.ok("%%distribute\nkept").value == "1"


def test_the_death_of_a_scripts_rank_is_told(nb, tmp_path):
    script = tmp_path / "dies.py"
    script.write_text("import os, signal, time\nif os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGSEGV)\ntime.sleep(600)")
    nb.ok("%%distribute -n 2\nkept = 1")
    evalue = nb.run("%%distribute %s" % script).assert_error("RankDied").reply["evalue"]
    assert "rank 1" in evalue and "SIGSEGV" in evalue
    assert nb.ok("%%distribute --gather\nkept").value == "[1, 1]"


def test_ranks_where_shows_the_script(nb, tmp_path):
    script = tmp_path / "waits.py"
    script.write_text("import time\ndef lingers():\n    print('waits', flush=True)\n    time.sleep(600)\nlingers()\n")
    cell = nb.start("%%distribute -n 2 %s" % script)
    nb.wait_shown(cell, "waits")
    assert "lingers" in nb.ok("%ranks where").stdout
    nb.control("interrupt_request")
    nb.wait(cell)


def test_ranks_end_as_python_ends(nb, tmp_path):
    nb.ok("%%%%distribute -n 2\nimport atexit, os\natexit.register(lambda: open(%r + os.environ['RANK'], 'w').close())" % str(tmp_path / "end"))
    nb.ok("%ranks stop")
    assert sorted(os.listdir(tmp_path)) == ["end0", "end1"]
