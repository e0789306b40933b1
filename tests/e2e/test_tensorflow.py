# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.tensorflow.MirroredStrategyRunner, without TensorFlow; tests/frameworks/test_tensorflow.py is with it."""

from __future__ import annotations

import ast
import json

import pytest


@pytest.fixture
def runner(nb):
    nb.ok("import os\nfrom cellspan.tensorflow import MirroredStrategyRunner\n"
          "def config(): return os.environ['TF_CONFIG'], os.getpid()\n"
          "def of_all(path):\n    import time\n    rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
          "    with open(f'{path}/{rank}.new', 'w') as f: f.write(os.environ['TF_CONFIG'])\n"
          "    os.rename(f'{path}/{rank}.new', f'{path}/{rank}')\n"
          "    while not all(os.path.exists(f'{path}/{k}') for k in range(world)): time.sleep(0.01)\n"
          "    return [open(f'{path}/{k}').read() for k in range(world)]")
    return nb


@pytest.mark.parametrize("reuse", [False, True])
def test_each_rank_has_its_port_in_tf_config(runner, tmp_path, reuse):
    cell = runner.ok("MirroredStrategyRunner(num_slots=3, use_gpu=False, use_custom_strategy=True, reuse=%r).run(of_all, path=%r)" % (reuse, str(tmp_path)))
    configs = [json.loads(text) for text in ast.literal_eval(cell.value)]
    assert [config["task"] for config in configs] == [{"type": "worker", "index": k} for k in range(3)]
    workers = configs[0]["cluster"]["worker"]
    assert len(set(workers)) == 3 and all(config["cluster"] == {"worker": workers} for config in configs)
    assert all(one.startswith("127.0.0.1:") and int(one.rpartition(":")[2]) > 0 for one in workers)
    assert "Will run with 3 tasks." in cell.stderr and "Training with 3 slots is complete!" in cell.stderr
    assert runner.ok("'TF_CONFIG' in os.environ").value == "False"


def test_ranks_that_stay_have_no_tf_config_afterwards(runner):
    runner.ok("import cellspan; MirroredStrategyRunner(num_slots=2, use_gpu=False, use_custom_strategy=True, reuse=True).run(config)")
    assert runner.ok("cellspan.run(lambda: os.environ.get('TF_CONFIG'), gather=True, n=2)").value == "[None, None]"


def test_local_mode_is_one_process_that_is_not_home(runner):
    text, pid = ast.literal_eval(runner.ok("MirroredStrategyRunner(num_slots=1, local_mode=True, use_gpu=False, use_custom_strategy=True).run(config)").value)
    assert len(json.loads(text)["cluster"]["worker"]) == 1 and str(pid) != runner.ok("os.getpid()").value


REFUSED = [
    ("MirroredStrategyRunner(num_slots=0)", "ValueError", "num_slots is set to 0 but cannot be less than or equal to 0."),
    ("MirroredStrategyRunner(num_slots='2')", "TypeError", "num_slots='2'"),
    ("MirroredStrategyRunner(2)", "TypeError", "positional argument"),
    ("MirroredStrategyRunner(num_slots=2, local_mode=True, use_gpu=False).run(config)", "ValueError", "Cannot run with more than 1 CPU machine in local mode."),
    ("MirroredStrategyRunner(num_slots=2, local_mode=True).run(config)", "ValueError", "2 slots were requested for local training with GPU training but only 0 GPUs were available."),
    ("MirroredStrategyRunner(num_slots=2).run(config)", "RuntimeError", "use_gpu=False"),
    ("MirroredStrategyRunner(num_slots=2, use_gpu=False).run(config, x=1)", "TypeError", "config(): got an unexpected keyword argument 'x'"),
    ("MirroredStrategyRunner(num_slots=2, use_gpu=False, use_custom_strategy=True).run(lambda: 1 / 0)", "ZeroDivisionError", "division"),
    ("MirroredStrategyRunner(num_slots=2, use_gpu=False).run(config)", "ModuleNotFoundError", "pip install tensorflow, or tensorflow-cpu"),
]


def test_what_is_wrong_is_named(runner):
    for code, ename, text in REFUSED:
        cell = runner.run(code)
        assert text in cell.assert_error(ename).reply["evalue"], code
