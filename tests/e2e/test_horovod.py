# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.horovod: HorovodRunner from a notebook, and hvd on ranks. What hvd computes is in tests/unit/worker/."""

from __future__ import annotations

import os
import re

import pytest

BEFOREHAND = "torch._dynamo"  # as torch_users.py says
TRAIN = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

torch.manual_seed(0)
X = torch.randn(64, 8); y = (X.sum(1) > 0).long()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)
    def forward(self, x):
        return self.layer(x)

def steps(model, optimizer, rank=0, size=1, epochs=3):
    data = TensorDataset(X, y)
    sampler = DistributedSampler(data, num_replicas=size, rank=rank, shuffle=False)
    for epoch in range(epochs):
        for a, b in DataLoader(data, batch_size=16 // size, sampler=sampler):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(a), b).backward()
            optimizer.step()
        print(f"epoch {epoch} of rank {rank}")

def alone(learning_rate):
    model = Net()
    steps(model, torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.5))
    return model
"""
TRAIN_HVD = """\
def train_hvd(learning_rate):
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(START, root_rank=0) if START else None
    model.load_state_dict(START)
    steps(model, optimizer, hvd.rank(), hvd.size())
    log_to_driver(f"rank {hvd.rank()} of {hvd.size()}")
    return model
"""


@pytest.fixture
def two(nb):
    """A notebook with the functions of an article."""
    if not nb.run("TRAIN_HVD_IS_HERE").error:
        return nb
    nb.ok(TRAIN)
    nb.ok("import cellspan, cellspan.horovod.torch as hvd\nfrom cellspan.horovod import HorovodRunner, log_to_driver")
    nb.ok("START = Net().state_dict()\n" + TRAIN_HVD + "TRAIN_HVD_IS_HERE = True")
    return nb


def folder_of(text):
    return re.search(r"what the ranks printed is in (\S+)", text)[1]


@pytest.mark.parametrize("reuse", [False, True])
def test_the_result_is_that_of_one_process(two, reuse):
    cell = two.ok(f"trained = HorovodRunner(np=2, reuse={reuse}).run(train_hvd, learning_rate=0.1)")
    assert "rank 0 of 2" in cell.stdout and "rank 1 of 2" in cell.stdout and "epoch" not in cell.stdout
    folder = folder_of(cell.stderr)
    assert sorted(os.listdir(folder)) == ["rank-0.log", "rank-1.log"]
    with open(os.path.join(folder, "rank-1.log"), encoding="utf-8") as file:
        assert file.read() == "".join(f"epoch {epoch} of rank 1\n" for epoch in range(3))
    cell = two.ok(
        "import contextlib, io\n"
        "one = Net(); one.load_state_dict(START)\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    steps(one, torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.5))\n"
        "max((a - b).abs().max().item() for a, b in zip(one.parameters(), trained.parameters())) < 1e-6, type(trained) is Net, hvd.is_initialized()")
    # Each rank takes every second row of a batch of 16, so both together take the batch of one process.
    assert cell.value == "(True, True, False)"


def test_all_output_is_shown_if_it_is_wanted(two):
    cell = two.ok("_ = HorovodRunner(np=2, driver_log_verbosity='all').run(train_hvd, learning_rate=0.1)")
    assert "epoch 2 of rank 1" in cell.stdout and "rank 1 of 2" in cell.stdout and "what the ranks printed" not in cell.stderr


def test_on_this_machine_output_is_shown(two):
    cell = two.ok("_ = HorovodRunner(np=-2).run(train_hvd, learning_rate=0.1)")
    assert "epoch 2 of rank 1" in cell.stdout and "no other machines" not in cell.stderr
    cell = two.ok("HorovodRunner(np=-1).run(lambda: (hvd.init(), hvd.size(), hvd.allreduce(torch.ones(1)).item()))")
    assert cell.value == "(None, 1, 1.0)"


def test_zero_is_deprecated(two):
    two.ok("cellspan.run(abs, 1, n=2)")
    cell = two.ok("HorovodRunner(np=0).run(lambda: (hvd.init(), hvd.size())[1])")
    assert "np=0 is deprecated" in cell.stderr and int(cell.value) >= 1


@pytest.mark.parametrize(
    "code, ename, words",
    [
        ("HorovodRunner(2)", "TypeError", "positional argument"),
        ("HorovodRunner()", "TypeError", "np"),
        ("HorovodRunner(np=1.5)", "TypeError", "np=1.5: the number of processes is a whole number"),
        ("HorovodRunner(np=True)", "TypeError", "np=True"),
        ("HorovodRunner(np=2, driver_log_verbosity='loud')", "ValueError", "driver_log_verbosity='loud': use 'all' or 'log_callback_only'"),
        ("HorovodRunner(np=-2, on='ssh:a')", "ValueError", "np=-2 means this machine, so on='ssh:a' can't be used"),
        ("HorovodRunner(np=2).run(3)", "TypeError", "run() needs a function, not int"),
        ("HorovodRunner(np=2).run(train_hvd)", "TypeError", "train_hvd(): missing a required argument: 'learning_rate'"),
        ("HorovodRunner(np=2).run(train_hvd, 0.1)", "TypeError", "positional argument"),
        ("HorovodRunner(np=2).run(train_hvd, learning_rate=open('/dev/null'))", "TypeError", "can't be sent"),
        ("hvd.rank()", "ValueError", "Horovod has not been initialized; use hvd.init()."),
    ],
)
def test_wrong_arguments(two, code, ename, words):
    cell = two.run(code)
    cell.assert_error(ename)
    assert words in cell.error["evalue"], cell.error["evalue"]
    assert "_runner.py" not in cell.traceback, cell.traceback


@pytest.mark.parametrize("reuse", [False, True])
def test_a_failing_rank_is_raised_at_home_with_what_it_printed(two, reuse):
    cell = two.run(
        "class Mine(Exception): pass\n"
        "def fails():\n    hvd.init(); print('before the end')\n    if hvd.rank() == 1: raise Mine('of rank 1')\n    hvd.allreduce(torch.ones(1))\n"
        "try: HorovodRunner(np=2, reuse=%s).run(fails)\nexcept Mine as error: print('caught', error, isinstance(error, cellspan.RemoteError))" % reuse)
    cell.assert_ok()
    assert "caught of rank 1 True" in cell.stdout
    assert "left its process group" not in cell.stderr
    assert "the last lines that rank 1 printed:\nbefore the end\n" in cell.stderr
    cell = two.run("def dies():\n    import os\n    hvd.init()\n    if hvd.rank(): os._exit(3)\n    hvd.barrier()\nHorovodRunner(np=2, reuse=%s).run(dies)" % reuse)
    assert cell.error and "rank 1" in cell.error["evalue"]
    cell = two.ok("HorovodRunner(np=2, reuse=%s).run(lambda: (hvd.init(), hvd.allreduce(torch.ones(1)).item())[1])" % reuse)
    assert cell.value == "1.0"


def test_ranks_of_the_notebook_use_hvd_from_cell_to_cell(two):
    two.ok("%%distribute -n 2\nimport cellspan.horovod.torch as hvd\nhvd.init()\nhvd.local_rank()")
    cell = two.ok("%%distribute -n 2 --gather\nhvd.allgather(torch.full((hvd.rank() + 1,), hvd.rank())).tolist()")
    assert cell.value == "[[0, 1, 1], [0, 1, 1]]"
    cell = two.run("%%distribute -n 1\nhvd.size()")  # another world
    cell.assert_error("ValueError")
    assert two.ok("%%distribute -n 1\nhvd.init()\nhvd.size()").value == "1"
    assert two.ok("%%distribute -n 2\nhvd.allreduce(torch.ones(1), op=hvd.Sum).item()").value == "2.0"  # that world is still there
    cell = two.run("%%distribute -n 2\nhvd.allreduce(torch.ones(2 + hvd.rank()), name='loss')")
    cell.assert_error("HorovodInternalError")
    assert "rank 0 calls allreduce 'loss' of float32 (2,), rank 1 calls allreduce 'loss' of float32 (3,)" in cell.error["evalue"]


def test_a_cell_that_wraps_the_same_model_runs_again(two):
    two.ok("%%distribute -n 2\nmodel = Net(); hvd.init()")
    for _ in range(2):
        two.ok("%%distribute -n 2\noptimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))\nsteps(model, optimizer, hvd.rank(), 2, 1)")


def test_log_to_driver_cuts_long_messages_and_works_at_home(two):
    cell = two.ok("log_to_driver('at home')\nHorovodRunner(np=2).run(lambda: log_to_driver('x' * 5000))")
    assert cell.stdout.startswith("at home\n") and "x" * 4000 in cell.stdout and "x" * 4001 not in cell.stdout


REFUSED = [
    ("horovod.tensorflow.keras", "MirroredStrategyRunner"), ("sparkdl.horovod.tensorflow.keras", "log_to_driver"),
    ("horovod.keras", "Keras's own callbacks"), ("horovod.spark", "cellspan.run"),
]


def test_what_horovod_has_beside_torch_is_refused_by_its_name(nb):
    for name, use in REFUSED:
        name = f"cellspan.{name.removeprefix('sparkdl.')}"
        package, _, last = name.rpartition(".")
        for code in (f"import {name}", f"from {package} import {last}", f"from {name} import LogCallback"):
            assert use in nb.run(code).assert_error("ModuleNotFoundError").error["evalue"], code
    assert nb.ok("import cellspan.horovod; hasattr(cellspan.horovod, 'tensorflow')").value == "False"
    assert "No module named" in nb.run("import cellspan.horovod.none").assert_error("ModuleNotFoundError").error["evalue"]


def test_installed_names_are_found_at_home_and_on_ranks(fresh):
    nb = fresh()
    nb.run("import horovod.torch").assert_error("ModuleNotFoundError")
    folder = folder_of(nb.ok("from cellspan.horovod import HorovodRunner\nHorovodRunner(np=1).run(lambda: print('hidden'))").stderr)
    nb.ok("import cellspan.horovod; cellspan.horovod.install(); cellspan.horovod.install()")
    cell = nb.ok(
        "from sparkdl import HorovodRunner\nfrom sparkdl.horovod import log_to_driver\nimport horovod.torch as hvd, horovod\n"
        "from horovod.torch.mpi_ops import allreduce\n"
        "def f():\n    import horovod.torch as inner\n    from horovod.torch.compression import Compression\n    inner.init()\n    return inner.size(), Compression is hvd.Compression\n"
        "HorovodRunner(np=2).run(f), hvd.__name__, allreduce is hvd.allreduce, horovod.torch is hvd")
    assert cell.value == "((2, True), 'cellspan.horovod.torch', True, True)"
    cell = nb.ok("%%distribute -n 2\nimport horovod.torch as mine\nfrom sparkdl import HorovodRunner as theirs\nmine.__name__, theirs.__module__")
    assert cell.value == "('cellspan.horovod.torch', 'cellspan.horovod._runner')"
    for name, use in REFUSED:
        assert use in nb.run(f"import {name} as hvd").assert_error("ModuleNotFoundError").error["evalue"]
    nb.ok("import horovod.torch.elastic as elastic")
    cell = nb.run("@elastic.run\ndef f(): pass")
    cell.assert_error("NotImplementedError")
    assert os.listdir(folder) == ["rank-0.log"]
    nb.close()
    assert not os.path.exists(folder)


@pytest.mark.only_names
def test_the_real_one_is_used_if_it_is_wanted(fresh, tmp_path):
    """A package that is named horovod stands for it."""
    package = tmp_path / "horovod" / "torch"
    package.mkdir(parents=True)
    (tmp_path / "horovod" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("def init(): pass\ndef size(): return 1\nrank = lambda: 'the real one'\n")
    nb = fresh(env={"CELLSPAN_HOROVOD": "real", "PYTHONPATH": str(tmp_path)})
    cell = nb.ok("import cellspan.horovod; cellspan.horovod.install()\nimport horovod.torch, cellspan.horovod.torch as hvd\nhvd is horovod.torch, hvd.rank()")
    assert cell.value == "(True, 'the real one')"
    assert nb.ok("cellspan.horovod.HorovodRunner(np=1).run(lambda: __import__('horovod.torch').torch.rank())").value == "'the real one'"
    nb = fresh(env={"CELLSPAN_HOROVOD": "real"})
    cell = nb.run("import cellspan.horovod; cellspan.horovod.install()")
    cell.assert_error("ModuleNotFoundError")
    assert "pip install horovod" in cell.error["evalue"]


def test_an_interrupt_ends_a_training_and_the_next_one_runs(two):
    cell = two.start("def waits():\n    hvd.init(); log_to_driver('began')\n    hvd.barrier() if hvd.rank() else __import__('time').sleep(1000)\nHorovodRunner(np=2).run(waits)")
    two.wait_shown(cell, "began")
    two.control("interrupt_request")
    two.wait(cell)
    cell.assert_error("KeyboardInterrupt")
    assert two.ok("HorovodRunner(np=2).run(lambda: (hvd.init(), hvd.size())[1])").value == "2"
