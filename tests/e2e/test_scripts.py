# SPDX-License-Identifier: BSD-3-Clause
"""Scripts on ranks of their own, beside the notebook's ranks: `%distribute script.py`, as torchrun runs them."""

from __future__ import annotations

import os

import pytest
from client import all_print, by_rank, values


def test_scripts_of_two_folders_have_their_own_modules(nb, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "utils.py").write_text("WHOSE = %r" % name)
        (tmp_path / name / "main.py").write_text("import utils; print(utils.WHOSE)")
    for name in ("one", "two"):
        nb.ok_folded("%%distribute -n 2 %s" % (tmp_path / name / "main.py"), "[0-1] %s\n" % name)
    (tmp_path / "one" / "utils.py").write_text("WHOSE = 'edited'")
    assert all_print(nb.ok("%%distribute -n 2 %s" % (tmp_path / "one" / "main.py")).stdout, "edited", 2)


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
        assert all_print(said, "None False torch.float32 False False", 2) and all_print(said, "2.0", 2), said
    cell = nb.ok("%%distribute\nimport torch\n(kept, mine == os.getpid(), os.environ.get('MESS'), torch.get_default_dtype())")
    assert cell.value == "(7, True, None, torch.float32)"


def test_handlers_of_atexit_run_and_threads_are_waited_for(nb, tmp_path):
    script = tmp_path / "late.py"
    script.write_text(
        "import atexit, threading, time\n"
        "atexit.register(print, 'flushed')\n"
        "threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start()\n"
    )
    said = nb.ok("%%distribute -n 2 %s" % script).stdout
    assert by_rank(said) == {rank: ["thread", "flushed"] for rank in range(2)}, said


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
    said = nb.ok("%%distribute -n 2 --cwd %s -m pack x" % tmp_path).stdout
    assert all_print(said, "__main__ pack.__main__ ['x']", 2), said


def test_only_some_ranks_of_a_scripts_world(nb, tmp_path):
    script = tmp_path / "who.py"
    script.write_text("import os; print(os.environ['RANK'], os.environ['WORLD_SIZE'], os.environ['LOCAL_WORLD_SIZE'])")
    assert "1 4 4\n" in nb.ok("%%distribute -n 4 -r 1 --merge raw %s" % script).stdout


def test_a_script_can_be_larger_than_the_group(nb, tmp_path):
    script = tmp_path / "who.py"
    script.write_text("import os; print('of', os.environ['WORLD_SIZE'])")
    nb.ok("%%distribute -n 2\nx = 1")
    assert by_rank(nb.ok("%%distribute -n 3 %s" % script).stdout) == {rank: ["of 3"] for rank in range(3)}
    assert by_rank(nb.ok("%%distribute %s" % script).stdout) == {rank: ["of 2"] for rank in range(2)}
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
    assert nb.until(lambda: "lingers" in nb.ok("%ranks where").stdout), "no stack came"
    nb.control("interrupt_request")
    nb.wait(cell)


def test_ranks_end_as_python_ends(nb, tmp_path):
    nb.ok("%%%%distribute -n 2\nimport atexit, os\natexit.register(lambda: open(%r + os.environ['RANK'], 'w').close())" % str(tmp_path / "end"))
    nb.ok("%ranks stop")
    assert sorted(os.listdir(tmp_path)) == ["end0", "end1"]


# -- functions on the ranks that stay


MESSY = """
import cellspan
def messy(open_group):
    import logging, os, sys, torch, torch.distributed as dist
    seen = os.environ.get("MESS"), os.getcwd() == "/", sys.argv[-1] == "mess", torch.get_default_dtype(), logging.getLogger().level
    os.environ["MESS"] = "1"; os.chdir("/"); sys.argv.append("mess"); torch.set_default_dtype(torch.float64)
    logging.basicConfig(level=5)
    if open_group:
        dist.init_process_group("gloo")
    return str(seen)
"""


def test_a_function_leaves_loggers_as_they_were(nb):
    nb.ok("%%distribute -n 1\nimport logging\nlogging.getLogger('before').setLevel(20); logging.getLogger('before.below')")
    nb.ok("""
import cellspan
def logs():
    import logging, sys
    seen = []
    for name in ("before.below", "before", "mine.too", "mine", "%s", "__main__"):
        logger = logging.getLogger(name)
        seen.append((logger.level, len(logger.handlers), logger.propagate, logger.disabled, logger.isEnabledFor(10)))
        logger.setLevel(10); logger.addHandler(logging.StreamHandler(sys.stdout)); logger.propagate = False; logger.isEnabledFor(10)
    logging.getLogger("before.below").disabled = True
    logging.disable(15)
    return seen
""" % "json.decoder")
    fresh, was = (0, 0, True, False, False), (20, 0, True, False, False)
    wanted = [fresh, was, fresh, fresh, fresh, fresh]
    first = values(nb.ok("cellspan.run(logs, n=1)"))
    assert first == wanted, first
    again = values(nb.ok("cellspan.run(logs, n=1)"))
    assert again[:4] + again[5:] == wanted[:4] + wanted[5:] and again[4][:2] == (10, 1), again  # json is a package, which may have set it


def test_a_function_leaves_its_rank_as_it_was(nb):
    nb.ok(MESSY)
    wanted = "'(None, False, False, torch.float32, 30)'"
    assert nb.ok("cellspan.run(messy, False, n=2)").value == wanted
    cell = nb.ok("cellspan.run(messy, True, n=2)")
    assert cell.value == wanted and "messy() left its process group open" in cell.stderr and "destroy_process_group" in cell.stderr
    assert "left its process group" not in nb.ok("cellspan.run(messy, False, init=True, fresh=True, n=2)").stderr


def test_a_run_of_mlflow_that_a_function_leaves_open_is_named(nb):
    nb.ok("%%distribute -n 2\nimport sys, types\nclass info: run_id = 'r1'\nclass Run: info = info\nopened = []\n"
          "sys.modules['mlflow'] = types.SimpleNamespace(active_run=lambda: Run if opened else None)")
    nb.ok("import cellspan\ndef tracks(): import __main__; __main__.opened.append(1)\ndef uses(): import mlflow")
    assert "left MLflow" not in nb.ok("cellspan.run(uses)").stderr
    cell = nb.ok("cellspan.run(tracks)")
    told = {rank: "\n".join(lines) for rank, lines in by_rank(cell.stderr).items()}
    assert all("cellspan: tracks() left MLflow's run r1 open: call mlflow.end_run() in it" in told.get(rank, "") for rank in range(2)), cell.shown
    assert "left MLflow" not in nb.ok("cellspan.run(uses)").stderr


def test_a_function_gets_arguments_of_any_name(nb):
    nb.ok("import cellspan\ndef f(n, env, cwd=None):\n    return [n, env, cwd]")
    assert nb.ok("cellspan.call(f, (1,), {'env': {}, 'cwd': 'x'}, n=2)").value == "[1, {}, 'x']"
    nb.run("cellspan.call(f, (1, 2), nn=3)").assert_error("TypeError")


def test_a_wrong_signature_is_the_functions_own_error(nb):
    nb.ok("import cellspan\ndef f(a):\n    return a")
    cell = nb.run("cellspan.run(f, 1, 2, n=2)").assert_error("TypeError")
    assert "f(): too many positional arguments" in cell.error["evalue"] and "_cellspan" not in cell.traceback


def test_a_path_is_run_as_a_script(nb, tmp_path):
    script = tmp_path / "a script.py"
    script.write_text("import sys; print(__name__, sys.argv[1:])")
    cell = nb.ok("import cellspan, pathlib\ncellspan.run(pathlib.Path(%r), '-n', 3, n=2)" % str(script))
    assert all_print(cell.stdout, "__main__ ['-n', '3']", 2), cell.stdout


def test_a_ddp_model_in_the_value_names_what_to_take(nb):
    nb.ok("import cellspan\ndef f():\n    import torch\n    return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))")
    for value in ("f", "lambda: (f(), [0.5])", "lambda: {'model': f()}"):
        assert "send the state_dict() of its module" in nb.run("cellspan.run(%s, n=2, init='gloo')" % value).error["evalue"], value
    nb.ok("%%distribute\nkept = {'model': f()}")
    assert "kept can't be sent home" in (told := nb.run("cellspan.group().pull('kept')").error["evalue"]) and "state_dict()" in told, told


def test_code_where_a_script_belongs_names_the_cell_magic(nb):
    for code in ("%distribute print(\"hi\")", "%px 1", "%%px\n1"):
        cell = nb.run(code)
        assert "%%distribute" in cell.shown and "UsageError" in cell.shown


JAX = '''
class ClusterEnv:
    _cluster_types = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._cluster_types.append(cls)

    @classmethod
    def get_local_process_id(cls):
        return None

class SlurmCluster(ClusterEnv):
    @classmethod
    def is_env_present(cls):
        return True
'''


def test_jax_finds_the_ranks_before_it_asks_slurm(nb, tmp_path):
    """With a module that has the interface of jax's own."""
    package = tmp_path / "jax" / "_src" / "clusters"
    package.mkdir(parents=True)
    (package / "cluster.py").write_text(JAX)
    cell = nb.ok(
        "%%%%distribute -n 2 --gather --cwd %s\nfrom jax._src.clusters.cluster import ClusterEnv\nimport os\n"
        "env = next(e for e in ClusterEnv._cluster_types if e.is_env_present())\n"
        "(env.name, env.get_process_count(), env.get_process_id(), env.get_local_process_id(),\n"
        " env.get_coordinator_address(timeout_secs=3, override_coordinator_port=None) == os.environ['JAX_COORDINATOR_ADDRESS'],\n"
        " os.environ['JAX_COORDINATOR_ADDRESS'] != '127.0.0.1:' + os.environ['MASTER_PORT'],\n"
        " env.get_coordinator_address(timeout_secs=3, override_coordinator_port='77'))" % tmp_path
    )
    assert values(cell) == [("cellspan", 2, rank, None, True, True, "127.0.0.1:77") for rank in range(2)]


MPI = """
import os, socket
server = socket.socket(fileno=int(os.environ["PMI_FD"]))
answers = server.makefile("r")
def ask(line):
    server.sendall((line + "\\n").encode())
    return answers.readline().rstrip("\\n")
assert ask("cmd=init pmi_version=1 pmi_subversion=1") == "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
table = ask("cmd=get_my_kvsname").split("kvsname=")[1]
rank, size = os.environ["PMI_RANK"], int(os.environ["PMI_SIZE"])
ask("cmd=put kvsname=%s key=at%s value=here %s" % (table, rank, rank))
assert ask("cmd=barrier_in") == "cmd=barrier_out"
met = [ask("cmd=get kvsname=%s key=at%d" % (table, other)).split("value=")[1] for other in range(size)]
class COMM_WORLD:
    Get_size = staticmethod(lambda: size)
    Barrier = staticmethod(lambda: ask("cmd=barrier_in"))
def Is_initialized():
    return True
def abort(status):
    server.sendall(b"cmd=abort exitcode=%d message=why\\n" % status)
    import time
    time.sleep(600)  # the launcher ends the process
"""
PROCESS_MANAGER = """
import threading
def serve():
    put = ""
    for line in far.makefile("r"):
        if "cmd=init" in line: say = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
        elif "cmd=put" in line: put, say = line.split(" value=")[1].strip(), "cmd=put_result rc=0"
        elif "cmd=get " in line: say = "value=" + put
        elif "cmd=barrier_in" in line: say = "cmd=barrier_out"
        else: say = "kvsname=a"
        far.sendall((say + "\\n").encode())
threading.Thread(target=serve, daemon=True).start()
"""
ALONE = """
class COMM_WORLD:
    def Get_size():
        assert initialized, "MPICH would end the process"
        return 1
def Is_initialized():
    return initialized
import mpi4py
initialized = mpi4py.rc.initialize
"""


def mpi4py(folder, text):
    """As the package would be in that folder."""
    (folder / "mpi4py").mkdir()
    (folder / "mpi4py" / "__init__.py").write_text("class rc:\n    initialize = True\n    finalize = None\n")
    (folder / "mpi4py" / "MPI.py").write_text(text)
    return folder


def test_ranks_that_import_mpi_are_one_world_of_mpi(nb, tmp_path):
    code = "\nimport mpi4py, os\nfrom mpi4py import MPI\n(MPI.rank, MPI.met, 'PMI_FD' in os.environ, mpi4py.rc.finalize)"
    met = ["here 0", "here 1", "here 2"]
    cell = nb.ok("%%%%distribute -n 3 --fresh --gather --cwd %s" % mpi4py(tmp_path, MPI) + code)
    assert values(cell) == [(str(rank), met, False, False) for rank in range(3)]
    beside = nb.ok("%%%%distribute -n 2 --beside --gather --cwd %s" % tmp_path + code)
    assert values(beside) == [(str(rank), met[:2], False, False) for rank in range(2)]
    assert "MPI" not in cell.stderr + beside.stderr


def test_an_import_of_mpi_that_is_interrupted_can_be_made_again(nb, tmp_path):
    cwd = "%%%%distribute -n 2 --cwd %s" % mpi4py(tmp_path, MPI)
    waits = nb.start(cwd + " --fresh -r 1\nprint('waits', flush=True)\nfrom mpi4py import MPI")
    nb.wait(waits, 60, lambda: "waits" in waits.stdout)
    nb.control("interrupt_request")
    nb.wait(waits, 60).assert_error("KeyboardInterrupt")
    assert nb.ok(cwd + "\nfrom mpi4py import MPI\nMPI.met").value == "['here 0', 'here 1']"


def test_mpi_that_makes_no_world_is_told_of(nb, tmp_path):
    cell = nb.ok("%%%%distribute -n 2 --fresh --cwd %s\nfrom mpi4py import MPI" % mpi4py(tmp_path, ALONE))
    assert "for MPI each of these 2 ranks is rank 0 of 1" in cell.stderr
    left_alone = nb.ok("%%%%distribute -n 2 --beside -r 0 --cwd %s\nimport mpi4py\nmpi4py.rc.initialize = False\nfrom mpi4py import MPI" % tmp_path)
    assert left_alone.stderr == ""


def test_a_name_of_home_that_imports_mpi_joins_the_cell_s_world(fresh, tmp_path):
    nb = fresh()
    (mpi4py(tmp_path, MPI + "COMM_WORLD.rank = rank\n") / "uses_mpi.py").write_text("from mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\n")
    at_home = "import os, socket, sys\nsys.path.insert(0, %r)\n" % str(tmp_path)
    server = "near, far = socket.socketpair()\nos.environ.update(PMI_FD=str(near.fileno()), PMI_RANK='0', PMI_SIZE='1')\n" + PROCESS_MANAGER
    nb.ok(at_home + server + "import uses_mpi\nfrom mpi4py import MPI\nother = 5", limit=60)
    cell = nb.ok("%%distribute -n 2 --gather\n(uses_mpi.rank, MPI.met, other)", limit=60)
    assert values(cell) == [(str(rank), ["here 0", "here 1"], 5) for rank in range(2)] and "MPI" not in cell.stderr


def test_a_process_that_a_rank_forks_is_no_part_of_its_world(nb, tmp_path):
    forks = "import os\npid = os.fork()\nif not pid:\n    try:\n        from mpi4py import MPI\n        os._exit(3)\n    finally:\n        os._exit(4)\n"
    code = "%%%%distribute -n 2 --fresh --gather --cwd %s\n" % mpi4py(tmp_path, ALONE) + forks + "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    cell = nb.ok(code, limit=100)
    assert values(cell) == [3, 3] and "MPI" not in cell.stderr  # it has not looked for other ranks


def test_a_rank_that_aborts_mpi_ends_all_with_its_status(nb, tmp_path):
    nb.ok("%%%%distribute -n 2 --fresh --cwd %s\nfrom mpi4py import MPI" % mpi4py(tmp_path, MPI))
    cell = nb.run("%%distribute -n 2\nimport os, time\nif os.environ['RANK'] == '1':\n    MPI.abort(3)\ntime.sleep(600)", limit=60)
    cell.assert_error("RankDied")
    assert "exit status 3" in cell.error["evalue"] and "MPI_Abort(3) was called" in cell.stderr


@pytest.mark.parametrize("end", ["shutdown_kernel", "restart_kernel"])
def test_shutdown_and_restart_let_home_and_ranks_end_as_python_ends(fresh, tmp_path, end):
    nb = fresh()
    nb.ok("import atexit\n_ = atexit.register(open, %r, 'w')" % str(tmp_path / "home"))
    nb.ok("%%%%distribute -n 2\nimport atexit, os\n_ = atexit.register(open, %r + os.environ['RANK'], 'w')" % str(tmp_path / "rank"))
    nb.km.shutdown_wait_time = 60  # seconds until this client kills the kernel: its 5 are few on a busy machine
    getattr(nb.km, end)()
    nb.until(lambda: len(os.listdir(tmp_path)) == 3, 60)
    assert sorted(os.listdir(tmp_path)) == ["home", "rank0", "rank1"]


def test_a_script_has_random_numbers_of_its_own_in_each_run_and_rank(nb, tmp_path):
    script = tmp_path / "draws.py"
    script.write_text("import os, random, numpy\nprint(random.random(), numpy.random.rand(), sep='\\n')")
    drawn = []
    for _ in range(2):
        drawn += nb.ok("%%distribute -n 2 --merge prefix %s" % script).stdout.split("\n")[:-1]
    numbers = [line.split()[-1] for line in drawn]
    assert len(numbers) == len(set(numbers)) == 8, drawn


def test_a_script_runs_as_torchrun_would_run_it(nb, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys\nprint('rank', os.environ['RANK'], 'args', sys.argv[1:], __name__)\n"
        "assert os.path.basename(sys.argv[0]) == 'train.py'\n"
    )
    cell = nb.ok("%%distribute -n 2 --merge prefix %s --epochs 3 -n 7" % script)
    for rank in range(2):
        assert "[%d] rank %d args ['--epochs', '3', '-n', '7'] __main__" % (rank, rank) in cell.stdout


def test_a_module_runs_with_m(nb, tmp_path):
    package = tmp_path / "cellspan_e2e_pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "main.py").write_text("import sys\nprint('module', sys.argv[1:], __name__)\n")
    cell = nb.ok("%%distribute -n 2 --cwd %s -m cellspan_e2e_pkg.main a b" % tmp_path)
    assert by_rank(cell.stdout) == {rank: ["module ['a', 'b'] __main__"] for rank in range(2)}


def test_a_script_that_is_not_there_is_named(nb, tmp_path):
    cell = nb.run("%%distribute -n 2 %s/missing.py" % tmp_path)
    assert cell.status == "error" and "missing.py" in cell.traceback


def test_a_script_that_fails_fails_the_cell(nb, tmp_path):
    (tmp_path / "bad.py").write_text("import sys\nsys.exit(3)\n")
    cell = nb.run("%%distribute -n 2 %s/bad.py" % tmp_path)
    assert cell.status == "error" and cell.ename == "SystemExit"


def test_the_text_with_which_a_script_ends_stands_once_under_the_cell(nb, tmp_path):
    (tmp_path / "ends.py").write_text("import os, sys\nsys.exit('no data for ' + os.environ['RANK'])\n")
    for code in ("%distribute -n 2 {0}", "import cellspan\ncellspan.run({0!r}, n=2)"):
        cell = nb.run(code.format(str(tmp_path / "ends.py"))).assert_error("SystemExit")
        assert 1 <= cell.shown.count("SystemExit: no data for ") == cell.shown.count("no data for "), cell.shown
    package = tmp_path / "cellspan_e2e_bare"
    package.mkdir()
    (package / "__init__.py").write_text("")
    cell = nb.run("%%distribute -n 2 --cwd %s -m cellspan_e2e_bare" % tmp_path).assert_error("UsageError")
    assert cell.shown.count("cellspan_e2e_bare: it is a package without __main__.py") == 1, cell.shown
