# SPDX-License-Identifier: BSD-3-Clause
"""Articles' code, tables and an example on the notebook's Spark session, on a standalone cluster of two workers: imports and data differ,
nothing else. `tests/engines/run spark-session spark-connect` runs it; elsewhere there is no cluster."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import clusters
import pytest
from client import KERNEL, Notebook, all_print, values
from clusters import LIMIT

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
NAMES = clusters.named("spark-session", "spark-connect")
pytestmark = clusters.marks(NAMES, "tests/engines/run spark-session")
# The class of the MNIST article, in a smaller size; the images are made, for nothing is downloaded.
MNIST = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from time import time

batch_size, num_epochs, momentum = 50, 3, 0.5
LOG_DIR = os.path.join(PYTORCH_DIR, str(time()), 'MNISTDemo')
os.makedirs(LOG_DIR)
torch.manual_seed(1)
images, labels = torch.randn(200, 1, 28, 28), torch.arange(200) % 10

class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.fc1 = nn.Linear(1440, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        return F.log_softmax(self.fc1(x.view(-1, 1440)), dim=1)

def train_one_epoch(model, device, data_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(data_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
    print('Train Epoch: {} Loss: {:.6f}'.format(epoch, loss.item()))

def save_checkpoint(model, optimizer, epoch):
    torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, LOG_DIR + '/checkpoint-{epoch}.pth.tar'.format(epoch=epoch))
"""
HVD = """
def train_hvd(learning_rate):
    hvd.init()
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    if device.type == 'cuda':
        torch.cuda.set_device(hvd.local_rank())
    train_dataset = torch.utils.data.TensorDataset(images, labels)
    from torch.utils.data.distributed import DistributedSampler
    train_sampler = DistributedSampler(train_dataset, num_replicas=hvd.size(), rank=hvd.rank())
    train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=batch_size, sampler=train_sampler)
    model = Net().to(device)
    optimizer = optim.SGD(model.parameters(), lr=learning_rate * hvd.size(), momentum=momentum)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for epoch in range(1, num_epochs + 1):
        train_one_epoch(model, device, train_loader, optimizer, epoch)
        if hvd.rank() == 0:
            save_checkpoint(model, optimizer, epoch)
    return sorted(hvd.allgather_object(float(sum(p.abs().sum() for p in model.parameters()))))
"""


engine = clusters.fixture(NAMES)


@pytest.fixture(scope="module")
def nb(engine, tmp_path_factory):
    """A notebook with a session of the cluster."""
    notebook = Notebook(env=engine.variables())
    try:
        notebook.ok(engine.first, limit=LIMIT)
        notebook.ok("import os\nfrom cellspan.torch import TorchDistributor\nPYTORCH_DIR = %r" % str(tmp_path_factory.mktemp("checkpoints")))
        yield notebook
    finally:
        notebook.close()
    assert notebook.left == []


@pytest.mark.skipif("spark-session" not in NAMES, reason="it makes a classic session")
@pytest.mark.parametrize("engine", ["spark-session"], indirect=True)
def test_the_example_on_a_cluster(engine, jupyter_env, tmp_path):
    """The first one: later the notebook's session has the cores."""
    words = ["-m", "jupyter", "nbconvert", "--execute", "--to", "notebook", "--output-dir", tmp_path, "--ExecutePreprocessor.timeout=300",
             "--ExecutePreprocessor.kernel_name=" + KERNEL, EXAMPLES / "torch_distributor_spark.ipynb"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, env={**jupyter_env, **engine.variables()}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    assert done.returncode == 0, done.stdout
    assert "image/png" in (tmp_path / "torch_distributor_spark.ipynb").read_text()


@pytest.mark.skipif("spark-session" not in NAMES, reason="it makes a classic session")
@pytest.mark.parametrize("engine", ["spark-session"], indirect=True)
def test_a_call_on_a_session_that_was_made_just_now(engine):
    """Its executors come while it waits. lagom() says no number of ranks."""
    code = ("import os, torch\nfrom cellspan.maggy import experiment\nfrom cellspan.maggy.config import TorchDistributedConfig\n"
            "def train(module): return {'world': int(os.environ['WORLD_SIZE'])}\n"
            "experiment.lagom(train, TorchDistributedConfig(torch.nn.Linear))['results']")
    notebook = Notebook(env=engine.variables())
    try:
        cell = notebook.ok(engine.first + "\n" + code, limit=LIMIT)
        assert values(cell) == [{"world": 3}] * 3, cell.shown  # as many as the session may have
        assert re.search(r"^--on spark holds 3 slots since \d\d:\d\d:\d\d: %ranks stop frees them$", notebook.ok("%ranks", limit=LIMIT).shown, re.M)
        said = notebook.run("from cellspan.torch import TorchDistributor\nTorchDistributor(2, local_mode=False).run(abs, -1)", limit=LIMIT)
        assert said.assert_error("RuntimeError").reply["evalue"].startswith("use_gpu=True: there is no GPU on "), said.shown
    finally:
        notebook.close()
    assert notebook.left == []


def test_the_article_about_torch_distributor(nb, tmp_path):
    nb.ok("from cellspan.torch import TorchDistributor\ndistributor = TorchDistributor(\n    num_processes=1,\n    local_mode=False,\n    use_gpu=False)")
    nb.ok("def train(a, b, c):\n    print(f'Got a={a}, b={b}, c={c}')\n    return 'success'")
    words = "'--learning-rate=1e-3', '--batch-size=64', '--my-key=my-value')"
    cell = nb.ok("distributor.run(\n    train,\n    " + words, limit=LIMIT)
    assert cell.value == "'success'" and "Got a=--learning-rate=1e-3, b=--batch-size=64, c=--my-key=my-value\n" in cell.stdout, cell.shown
    assert "Started distributed training with 1 executor processes\n" in cell.stderr
    assert "the ranks are on the notebook's Spark session, spark://127.0.0.1:" in cell.stderr, cell.stderr
    script = tmp_path / "train.py"
    script.write_text("import os, sys\nprint(os.environ['RANK'], os.environ['LOCAL_RANK'], os.environ['WORLD_SIZE'], sys.argv[1:])\n")
    cell = nb.ok("distributor.run(%r, %s" % (str(script), words), limit=LIMIT)
    assert "0 0 1 ['--learning-rate=1e-3', '--batch-size=64', '--my-key=my-value']" in cell.stdout, cell.shown
    nb.ok("%ranks stop", limit=LIMIT)


def test_more_processes_than_the_run_before(nb):
    run = "TorchDistributor(%d, local_mode=False, use_gpu=False).run(lambda: __import__('os').environ['WORLD_SIZE'])"
    assert nb.ok(run % 1, limit=LIMIT).value == "'1'"
    cell = nb.ok(run % 2, limit=LIMIT)
    assert cell.value == "'2'" and "spark was started for 1 rank: it is started again, for 2\n" in cell.stderr, cell.shown
    nb.ok("%ranks stop", limit=LIMIT)


def test_two_executors_have_a_process_each(nb):
    nb.ok("def train_func(arg1):\n    import os, torch, torch.distributed as dist\n    dist.init_process_group('gloo')\n    t = torch.ones(1) * arg1\n"
          "    dist.all_reduce(t)\n    every = [None, None]\n    dist.all_gather_object(every, os.getcwd())\n    dist.destroy_process_group()\n"
          "    print('rank', os.environ['LOCAL_RANK'])\n    return t.item(), len(every)")
    cell = nb.ok("result = TorchDistributor(num_processes=2, \n    local_mode=False, \n    use_gpu=False).run(train_func, 21)\nresult", limit=LIMIT)
    assert cell.value == "(42.0, 2)" and all_print(cell.stdout, "rank 0", 2), cell.shown


def test_the_article_about_horovod_runner(nb):
    nb.ok("import cellspan.horovod; cellspan.horovod.install()")
    nb.ok(MNIST, limit=LIMIT)
    nb.ok("import horovod.torch as hvd\nfrom sparkdl import HorovodRunner\n" + HVD)
    cell = nb.ok("hr = HorovodRunner(np=2) \nsums = hr.run(train_hvd, learning_rate = 0.001)\nlen(sums), sums[0] == sums[1], sorted(os.listdir(LOG_DIR))",
                 limit=LIMIT)
    assert values(cell) == (2, True, ["checkpoint-%d.pth.tar" % epoch for epoch in (1, 2, 3)]), cell.shown


def test_a_warm_run_uses_the_agents_that_are_there(nb):
    """The second run starts no stage: the agents, which are tasks, are the same."""
    nb.ok("def parent():\n    import os\n    return os.getppid()")
    run = "TorchDistributor(2, local_mode=False, use_gpu=False, reuse=%s).run(parent)"
    assert nb.ok(run % True, limit=LIMIT).value == nb.ok(run % True, limit=LIMIT).value
    nb.ok("%ranks stop", limit=LIMIT)


def test_ranks_read_the_partitions_of_a_table_where_they_are(nb):
    nb.ok("import importlib\nimportlib.import_module('cellspan.torch._dataframes')._of_spark = lambda *_: 1 / 0  # that way the rows would come here\n"
          "rows = [(k + 0.5, k, [float(k), 0.25]) for k in range(6)]\n"
          "frame = spark.createDataFrame(rows, ['x', 'n', 'v']).repartition(2)", limit=LIMIT)
    nb.ok("def read(samples):\n    import os, torch.distributed as dist\n    from cellspan.torch import _get_spark_partition_data_loader as loader\n"
          "    dist.init_process_group('gloo')\n    every = [None, None]\n"
          "    mine = [[column.tolist() for column in row] for row in loader(samples, 1, 0)]\n"
          "    dist.all_gather_object(every, mine)\n    dist.destroy_process_group()\n    return every")
    two = "TorchDistributor(2, local_mode=False, use_gpu=False)._train_on_dataframe("
    first, second = values(nb.ok(two + "read, frame, 6)", limit=LIMIT))
    assert len(first) == len(second) == 6  # after the last row of a part, the first one follows
    seen = {tuple(row[1]): row for row in first + second}
    assert sorted(seen) == [(k,) for k in range(6)] and seen[4,] == [[4.5], [4], [[4.0, 0.25]]]
    assert not {tuple(row[1]) for row in first} & {tuple(row[1]) for row in second}
    why = nb.run(two + "read, spark.createDataFrame([(1.0,), (None,)], 'x double').repartition(2), 1)", limit=LIMIT).assert_error("ValueError").reply["evalue"]
    assert "column 'x' has no value in row " in why or "Empty Spark partition" in why, why  # as Spark divides them
    nb.ok("%ranks stop", limit=LIMIT)


# Where a function runs: Spark's standalone workers give their executors this variable.
HERE = "import json, os, sys\ndef on_executor(): return 'SPARK_EXECUTOR_DIRS' in os.environ\n"
WHICH = re.compile(r"^cellspan: the ranks are on (the notebook's Spark session, spark://127\.0\.0\.1:|spark, where the notebook's are)", re.M)


@pytest.mark.parametrize(("code", "result"), [
    ("from cellspan.torch import DeepspeedTorchDistributor\ndef words(): return on_executor(), sys.argv[1], json.load(open(sys.argv[3]))\n"
     "DeepspeedTorchDistributor(2, 1, localMode=False, useGpu=False, deepspeedConfig={'train_batch_size': 8}).run(words)",
     (True, "--deepspeed", {"train_batch_size": 8})),
    ("from cellspan.tensorflow import MirroredStrategyRunner\n"
     "def config(): return on_executor(), len(set(json.loads(os.environ['TF_CONFIG'])['cluster']['worker']))\n"
     "MirroredStrategyRunner(num_slots=2, local_mode=False, use_gpu=False, use_custom_strategy=True).run(config)", (True, 2)),
    ("import torch\nfrom cellspan.maggy import experiment\nfrom cellspan.maggy.config import TorchDistributedConfig\n"
     "def train(module): return {'there': float(on_executor()), 'world': int(os.environ['WORLD_SIZE'])}\n"
     "experiment.lagom(train, TorchDistributedConfig(torch.nn.Linear), n=2)['results']", [{"there": 1.0, "world": 2}] * 2),
], ids=["deepspeed", "mirrored", "lagom"])
def test_the_other_drop_ins_take_the_session(nb, code, result):
    """Also where their packages are not installed. The first call starts the agents, and the next ones find the notebook's ranks there."""
    cell = nb.ok(HERE + code, limit=LIMIT)
    assert values(cell) == result and WHICH.search(cell.stderr), cell.shown


def test_what_is_local_stays_here(nb):
    nb.ok("%ranks stop", limit=LIMIT)
    nb.ok(HERE + "from cellspan.horovod import HorovodRunner\nfrom cellspan.tensorflow import MirroredStrategyRunner")
    for code in ("TorchDistributor(2, local_mode=True, use_gpu=False)", "HorovodRunner(np=-2)",
                 "MirroredStrategyRunner(num_slots=1, local_mode=True, use_gpu=False, use_custom_strategy=True)"):
        cell = nb.ok(code + ".run(on_executor)", limit=LIMIT)
        assert cell.value == "False" and not WHICH.search(cell.stderr), cell.shown


def test_the_session_is_the_notebooks_again(nb):
    assert nb.ok("spark.range(1000).selectExpr('sum(id)').first()[0]", limit=LIMIT).value == "499500"


@pytest.mark.skipif("spark-session" not in NAMES, reason="it makes a classic session")
@pytest.mark.parametrize("engine", ["spark-session"], indirect=True)
def test_a_call_right_after_the_end_of_the_session(nb, engine):
    """The ranks end with the session, and the kernel need not know it yet."""
    nb.ok("%%distribute -n 2 --on spark\nkept = 1", limit=LIMIT)
    call = "TorchDistributor(2, local_mode=False, use_gpu=False).run(lambda: __import__('os').environ['WORLD_SIZE'])"
    cell = nb.ok("spark.stop()\n%s\n%s" % (engine.first, call), limit=LIMIT)
    assert cell.value == "'2'" and " are lost: spark is started again\n" in cell.stderr, cell.shown
