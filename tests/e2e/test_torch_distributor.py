# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.torch: TorchDistributor and DeepspeedTorchDistributor, as users of pyspark know them."""

from __future__ import annotations

import os
import platform
import re

import pytest
from client import ANSI, Notebook, all_print, values

BEFOREHAND = "torch._dynamo"  # what the first DistributedDataParallel imports, in seconds: torch_users.py
IMPORTS = "import cellspan, os, sys\nfrom cellspan.torch import DeepspeedTorchDistributor, TorchDistributor\n"
FAILED = "TorchDistributor failed during training.View stdout logs for detailed error message."
CPU = "TorchDistributor(num_processes=2, local_mode=True, use_gpu=False)"


@pytest.fixture
def book(nb):
    nb.ok(IMPORTS)
    return nb


def test_the_value_of_rank_0_and_the_words_about_it(book):
    book.ok("import torch\nassert torch.Tensor\n"
            "def train(base, *, n, env=None):\n    import torch.distributed as dist\n    dist.init_process_group('gloo')\n"
            "    one = torch.ones(1); dist.all_reduce(one); dist.destroy_process_group()\n"
            "    print('ranks', os.environ['WORLD_SIZE'], os.environ['LOCAL_WORLD_SIZE'])\n    return base + n + one.item(), dist.is_initialized(), os.environ['RANK']")
    cell = book.ok(CPU + ".run(train, 10, n=5, env=1)")
    assert cell.value == "(17.0, False, '0')" and all_print(cell.stdout, "ranks 2 2", 2), cell.shown
    assert cell.stderr == "Started local training with 2 processes\nFinished local training with 2 processes\n"
    cell = book.ok("TorchDistributor(2, False, False).run(train, 10, n=5)")
    assert "Started distributed training with 2 executor processes\n" in cell.stderr and "on this one" in cell.stderr
    assert values(book.ok("d = TorchDistributor(2, use_gpu=False)\n[d.num_processes, d.num_tasks, d.local_mode, d.input_params['use_gpu'], d.spark]")) == [
        2, 2, True, False, None]


def test_the_ranks_that_stay_are_used_on_request(book):
    book.ok("%%distribute -n 2\nimport os; mine = os.getpid()")
    book.ok("def pid():\n    return os.getpid()")
    assert book.ok("TorchDistributor(2, use_gpu=False, reuse=True).run(pid) == cellspan.group().pull('mine')[0]").value == "True"
    assert book.ok("TorchDistributor(2, use_gpu=False).run(pid) == cellspan.group().pull('mine')[0]").value == "False"


def test_checks_in_the_originals_order(book):
    for made, ename, text in (
        ("TorchDistributor(2)", "RuntimeError", "GPUs were unable to be found on the driver."),
        ("TorchDistributor(0)", "RuntimeError", "GPUs were unable to be found on the driver."),
        ("TorchDistributor(0, use_gpu=False)", "ValueError", "num_processes has to be a positive integer"),
        ("TorchDistributor(2.5, use_gpu=False)", "ValueError", "num_processes has to be a positive integer"),
        ("DeepspeedTorchDistributor(2, 0, useGpu=False)", "ValueError", "num_processes has to be a positive integer"),
        ("TorchDistributor(1, False, True)", "RuntimeError", "gpu usage is unavailable"),
        ("TorchDistributor(0, False)", "RuntimeError", "gpu usage is unavailable"),
        ("DeepspeedTorchDistributor(2, 0, False)", "RuntimeError", "gpu usage is unavailable"),
        (CPU + ".run('x.py', lr=1)", "ValueError", "does not support key-word type arguments"),
        (CPU + "._train_on_dataframe(print, None)", "ValueError", "requires setting TorchDistributor.local_mode to False."),
    ):
        assert text in book.run(made).assert_error(ename).reply["evalue"], made


ELSEWHERE = """#!/bin/sh
while [ "$1" != -- ]; do shift; done; shift
echo "nodes 1"
CELLSPAN_AGENT=0 exec "$@" >&2
"""


@pytest.fixture
def elsewhere(tmp_path):
    """A notebook with an engine of this name."""
    (tmp_path / "cellspan-launch-elsewhere").write_text(ELSEWHERE)
    (tmp_path / "cellspan-launch-elsewhere").chmod(0o755)
    nb = Notebook(env={"PATH": "%s:%s" % (tmp_path, os.environ["PATH"])})
    try:
        yield nb
    finally:
        nb.close()
    assert nb.left == []


def test_machines_without_gpus_are_told_by_the_users_own_arguments(elsewhere):
    """With an engine, whose machines home can't ask itself; each drop-in that has such an argument."""
    nb = elsewhere
    nb.ok(IMPORTS + "from cellspan.tensorflow import MirroredStrategyRunner\ndef train(): return 1\n"
          "def runs(**given): return cellspan.distributed(on='elsewhere', **given)(train).distributed()")
    for call, told in (
        ("TorchDistributor(2, False, on='elsewhere').run(train)", "use_gpu=True: there is no GPU on %s (use_gpu=False trains on processors)"),
        ("DeepspeedTorchDistributor(2, 1, False, on='elsewhere').run('train.py')",
         "useGpu=True: there is no GPU on %s (useGpu=False trains on processors)"),
        ("MirroredStrategyRunner(num_slots=2, on='elsewhere').run(train)",
         "use_gpu=True: there is no GPU on %s (use_gpu=False trains on processors)"),
        ("runs(num_accelerators=2)", "num_accelerators=2: there is no GPU on %s (use @cellspan.distributed(n=2) to run on processors)"),
        ("runs(n=2, gpus_per_rank=1)", "gpus_per_rank=1: there is no GPU on %s (use @cellspan.distributed(n=2) to run on processors)"),
    ):
        said = nb.run(call).assert_error("RuntimeError").reply["evalue"]
        assert said.startswith(told % platform.node()), said
    nb.ok("%%distribute -n 1 --on elsewhere\n1")
    said = nb.run("TorchDistributor(1, False, reuse=True).run(train)").assert_error("ValueError").reply["evalue"]
    assert said.startswith("use_gpu=True: rank 0 was started without GPUs (without reuse=True, new ones start)"), said


def test_agents_that_stay_without_ranks_are_told(elsewhere):
    """Spark gives their slots to nobody else."""
    nb = elsewhere
    assert nb.ok(IMPORTS + "TorchDistributor(2, False, False, on='elsewhere').run(abs, -1)").value == "1"
    shown = nb.ok("%ranks").shown
    assert "group default: no ranks\n" in shown and re.search(r"^--on elsewhere holds 1 machine since \d\d:\d\d:\d\d: %ranks stop frees them$", shown, re.M), shown
    nb.ok("%ranks stop")
    assert "holds" not in nb.ok("%ranks").shown


@pytest.mark.parametrize("call, cause", [
    ("fails, 0", "ZeroDivisionError"), ("fails", "TypeError"), ("os._exit, 0", "RankDied"), ("sys.exit", "SystemExit"), ("3", "TypeError"),
])
def test_a_failing_function(book, call, cause):
    count = book.ok("def fails(x):\n    return 1 / x").reply["execution_count"]
    code = "try: %s.run(%s)\nexcept RuntimeError as e: print(); print([str(e), type(e).__name__, type(e.__cause__).__name__])" % (CPU, call)
    cell = book.run_until(code, lambda cell: call != "fails, 0" or "ZeroDivisionError on ranks 0-1 of 2" in ANSI.sub("", cell.stdout)).assert_ok()
    assert cell.stdout.splitlines()[-1] == str([FAILED, "RuntimeError", cause]) and "Finished" not in cell.stderr, cell.shown
    if call == "fails, 0":
        told = ANSI.sub("", cell.stdout)
        assert f"Cell In[{count}], line 2, in fails(x)" in told, told


def test_what_can_not_be_sent_says_so(book):
    book.ok("import threading\ndef locked(lock): pass\ndef back(): return threading.Lock()")
    assert "can't be sent" in book.run(CPU + ".run(locked, threading.Lock())").assert_error("TypeError").reply["evalue"]
    assert "can't be pickled" in book.run(CPU + ".run(back)").assert_error("RuntimeError").reply["evalue"]


@pytest.mark.parametrize("reuse", [False, True])
def test_scripts(book, tmp_path, reuse):
    (tmp_path / "helper.py").write_text("HELPED = 'helped'")
    script = tmp_path / "train.py"
    script.write_text("import os, sys, helper\nprint(helper.HELPED, __name__, sys.argv[1:], os.environ['WORLD_SIZE'])\n"
                      "os.environ['LEFT'] = '1'\nif '--bad' in sys.argv: sys.exit(3)\nif '--fail' in sys.argv: raise KeyError('k')\n")
    run = "TorchDistributor(2, use_gpu=False, reuse=%s).run(%r, " % (reuse, str(script))
    cell = book.ok(run + "'--lr=0.1', 64) is None")
    assert cell.value == "True" and all_print(cell.stdout, "helped __main__ ['--lr=0.1', '64'] 2", 2), cell.shown
    for words, code in (("'--bad'", 3), ("'--fail'", 1)):
        evalue = book.run(run + words + ")").assert_error("RuntimeError").reply["evalue"]
        assert evalue.startswith("Command [") and "failed with return code %d" % code in evalue, evalue
        assert "KeyError" in evalue or code == 3
    evalue = book.run(run.replace("train.py", "none.py") + ")").assert_error("RuntimeError").reply["evalue"]
    assert evalue.startswith("Command [") and "none.py" in evalue and "no such file" in evalue and "return code 2" in evalue, evalue
    assert book.ok("%%distribute -n 2\nimport sys, os\n('helper' in sys.modules, os.environ.get('LEFT'))").value == "(False, None)"


def test_the_current_folder_is_that_of_home(book, tmp_path):
    (tmp_path / "here.py").write_text("import os; print(os.getcwd())")
    book.ok("before = os.getcwd(); os.chdir(%r)" % str(tmp_path))
    try:
        assert book.ok(CPU + ".run(os.getcwd)").value == repr(str(tmp_path))
        assert all_print(book.ok(CPU + ".run('here.py')").stdout, str(tmp_path), 2)
    finally:
        book.ok("os.chdir(before)")


def test_deepspeeds_options_are_in_argv(book, tmp_path):
    book.ok("def words():\n    import json\n    return sys.argv[1:3], json.load(open(sys.argv[3]))")
    run = "DeepspeedTorchDistributor(2, 1, True, False, deepspeedConfig=%s).run("
    assert book.ok(run % "{'train_batch_size': 8}" + "words)").value == "(['--deepspeed', '--deepspeed_config'], {'train_batch_size': 8})"
    (tmp_path / "s.py").write_text("import sys; print(sys.argv[1:])")
    said = book.ok(run % "'c.json'" + "%r, 'a')" % str(tmp_path / "s.py")).stdout
    assert all_print(said, "['a', '--deepspeed', '--deepspeed_config', 'c.json']", 2), said
    assert all_print(book.ok(run % "None" + "%r)" % str(tmp_path / "s.py")).stdout, "['--deepspeed']", 2)


def test_deepspeeds_configuration_reaches_scripts_where_there_are_no_files_of_home(book, tmp_path):
    (tmp_path / "s.py").write_text("import base64, json, sys\nprint(json.loads(base64.urlsafe_b64decode(sys.argv[-1])))")
    made = "DeepspeedTorchDistributor(2, 1, False, False, deepspeedConfig={'train_batch_size': 8, 'a': '>>>???'})"
    said = book.ok(made + ".run(%r)" % str(tmp_path / "s.py")).stdout
    assert all_print(said, "{'train_batch_size': 8, 'a': '>>>???'}", 2), said


def test_without_deepspeed_the_line_of_pip_is_told(book, tmp_path):
    if book.ok("import importlib.util\nimportlib.util.find_spec('deepspeed') is None").value != "True":
        pytest.skip("deepspeed is installed")
    (tmp_path / "s.py").write_text("import deepspeed")
    book.ok("def needs():\n    import deepspeed")
    for what in ("needs", repr(str(tmp_path / "s.py"))):
        assert "pip install deepspeed" in book.run("DeepspeedTorchDistributor(2, useGpu=False).run(%s)" % what).assert_error("RuntimeError").reply["evalue"]


def test_tables_of_pandas_by_parts(book):
    book.ok("import pandas, numpy\nframe = pandas.DataFrame({'x': numpy.arange(5, dtype='float32'), 'y': range(5), 'v': [[k, k + .5] for k in range(5)]})\n"
            "def read(samples, workers=0):\n    from cellspan.torch import _get_spark_partition_data_loader as loader\n"
            "    return [[t.tolist() if t.ndim else t for t in row] + [str(row[0].dtype)] for row in loader(samples, 2, workers)]\n"
            "two = TorchDistributor(2, local_mode=False, use_gpu=False)")
    assert values(book.ok("two._train_on_dataframe(read, frame, 3)")) == [
        [[0.0, 1.0], [0, 1], [[0.0, 0.5], [1.0, 1.5]], "torch.float64"], [[0.0], [0], [[0.0, 0.5]], "torch.float64"]]
    assert values(book.ok("two._train_on_dataframe(read, frame[['y']], samples=2, workers=1)"))[0][0] == [0, 1]
    assert "Empty Spark partition" in book.run("two._train_on_dataframe(read, frame[:1], 1)").assert_error("ValueError").reply["evalue"]
    assert "not list" in book.run("two._train_on_dataframe(read, [1], 1)").assert_error("TypeError").reply["evalue"]
    for columns, why in (
        ("{'n': pandas.array([1, None], dtype='Int64')}", "column 'n' has no value in row 1"),
        ("{'v': [[0.5]] * 200 + [[None]]}", "column 'v' has None in the list of row 200"),
        ("{'v': [[0.5], None]}", "column 'v' has no value in row 1"),
        ("[[1, 2], [3, 4]], columns=['x', 'x']", "two columns of the table have the name 'x'"),
    ):
        cell = book.run(f"two._train_on_dataframe(read, pandas.DataFrame({columns}), 1)").assert_error("ValueError")
        assert why in cell.reply["evalue"], cell.reply["evalue"]
    cell = book.run("two._train_on_dataframe(read, pandas.DataFrame({'s': ['a', 'b']}), 1)").assert_error("RuntimeError")
    assert cell.reply["evalue"] == FAILED and "does not support loading data from field of type" in cell.stdout


@pytest.mark.parametrize("reuse", (False, True))
def test_a_rank_is_sent_its_own_rows_of_a_table_alone(book, reuse):
    book.ok("import pandas\nframe = pandas.DataFrame({'v': [[float(k), -12345.5] for k in range(7)]})\n"
            "def here():\n    import gc\n    return sorted(one[0] for one in gc.get_objects() if type(one) is list and len(one) == 2 and one[1] == -12345.5)")
    made = "TorchDistributor(2, local_mode=False, use_gpu=False, reuse=%s)" % reuse
    assert book.ok(made + "._train_on_dataframe(here, frame)").value == "[0.0, 1.0, 2.0]"


def test_an_interrupt_and_no_run_on_a_rank(book):
    cell = book.start("import time\ndef waits():\n    print('waits', flush=True)\n    time.sleep(600)\n" + CPU + ".run(waits)")
    book.wait_shown(cell, "waits")
    book.control("interrupt_request")
    book.wait(cell)
    assert cell.ename == "KeyboardInterrupt"
    nested = "def nested(): return TorchDistributor(1, use_gpu=False).run(print)\n" + CPU + ".run(nested)"
    assert "this is a rank" in book.run(nested).assert_error("RuntimeError").stdout


@pytest.mark.limit(400)
def test_a_model_that_outlives_its_process_group_is_freed(book):
    """torch.distributed frees a group of gloo with Python's lock, if it is DistributedDataParallel that frees it."""
    nb = book
    nb.ok("import torch\n"
          "def train():\n    import torch.distributed as dist\n    dist.init_process_group('gloo')\n"
          "    wrapped = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))\n    wrapped(torch.ones(4, 2)).sum().backward()\n"
          "    dist.destroy_process_group()\n    return wrapped.module.weight.grad.sum().item()\n" + CPU + ".run(os.getpid)", limit=120)
    for reuse in (False, True):
        assert values(nb.ok("d = TorchDistributor(2, use_gpu=False, reuse=%s)\n[d.run(train) for _ in range(8)]" % reuse)) == [16.0] * 8


@pytest.mark.limit(400)
def test_ranks_that_wait_or_die_beside_those_that_stay_are_named(fresh):
    nb = fresh(env={"CELLSPAN_HANG_NOTICE": "2"})
    nb.ok(IMPORTS + "import signal, time\n"
          "def meets():\n    import torch.distributed as dist\n    dist.init_process_group('gloo')\n"
          "    if os.environ['RANK'] == '1':\n        time.sleep(600)\n    dist.barrier()\n"
          "def dies():\n    if os.environ['RANK'] == '1':\n        print('last words', file=sys.stderr, flush=True)\n"
          "        os.kill(os.getpid(), signal.SIGSEGV)\n    time.sleep(600)", limit=120)
    pids = nb.rank_pids(3)
    cell = nb.start(CPU + ".run(meets)")
    nb.wait(cell, 100, lambda: "%ranks where shows" in cell.stderr)
    assert "rank 0 waited in barrier" in cell.stderr and "rank 1" in cell.stderr and "rank 2" not in cell.stderr, cell.stderr
    nb.control("interrupt_request")
    nb.wait(cell, 60).assert_error("KeyboardInterrupt")
    cell = nb.run(CPU + ".run(dies)", limit=60).assert_error("RuntimeError")
    told = ANSI.sub("", cell.stdout)
    assert "RankDied: rank 1 was killed by signal 11 (SIGSEGV)" in told and "last words" in cell.stderr, cell.shown
    assert "killed by signal 11 (SIGSEGV)" in ANSI.sub("", cell.traceback), cell.traceback
    assert nb.rank_pids(3) == pids and nb.ok("%%distribute --gather\n1").value == "[1, 1, 1]"
