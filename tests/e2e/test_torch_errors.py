# SPDX-License-Identifier: BSD-3-Clause
"""After a failure a training goes on: what cut the connections is told, and what makes the loop run again."""

from __future__ import annotations

import socket

import pytest
from client import Notebook, rank_values, values
from packages import needs
from processes import wait_until

needs("torch")
BEFOREHAND = "torch._dynamo"  # as torch_users.py says

MAKE = (
    "import cellspan, torch\nimport torch.distributed as dist\ntorch.manual_seed(cellspan.rank())\n"
    "model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 2))\n"
    "ddp = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)\nopt = torch.optim.Adam(ddp.parameters())\n"
)
LOOP = "for step in range(%d):\n    opt.zero_grad()\n    loss = ddp(torch.rand(8, 4)).sum()\n    loss.backward()\n    opt.step()\n"
# Rank 1 fails within a backward pass: between two buckets of gradients
CUT = (
    "bad = iter([False] * 3 + [True])\ndef hook(grad):\n    if cellspan.rank() == 1 and next(bad):\n        raise ValueError('bad batch')\n"
    "handle = model[1].weight.register_hook(hook)\n"
)
AGAIN = "make DistributedDataParallel again in a cell with --init"
WEIGHTS = "torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()"


@pytest.mark.limit(400)
def test_a_training_goes_on_after_a_cell_that_failed(nb):
    nb.ok("%ranks stop")
    nb.ok("%%distribute -n 2 --init gloo\n" + MAKE, limit=120)
    failed = nb.run("%%distribute\n" + CUT + LOOP % 6, limit=60).assert_error("ValueError")
    number = failed.reply["execution_count"]
    for options in ("", " --init"):  # the corrected cell; a new process group does not help the old object
        told = nb.run("%%distribute" + options + "\nhandle.remove()\n" + LOOP % 6, limit=60).assert_error("RuntimeError")
        last = told.error["traceback"][-2 if told.error["traceback"][-1].startswith("also on") else -1]
        assert AGAIN in told.error["evalue"] and AGAIN in told.traceback, last
        assert "its optimizer, for ranks may differ by one step" in told.traceback
        assert "which cut the connections between ranks" in told.traceback
        number += not options
        if not options:
            assert "cell %d failed" % (number - 1) in told.traceback, told.traceback
    nb.ok("%%distribute --init\n" + MAKE + LOOP % 6, limit=60)
    weights = rank_values(nb, WEIGHTS, 2)
    assert weights[0] == weights[1], "no rank is a step ahead"


@pytest.mark.limit(300)
def test_torchs_own_words_get_ours(nb):
    nb.ok("%ranks stop")
    ones = "import torch, torch.distributed as dist\ndist.all_reduce(torch.ones(1))"
    nb.ok("%%distribute -n 2 --init gloo\n" + ones, limit=120)
    cell = nb.start("%%distribute\nimport time\nif dist.get_rank():\n    time.sleep(600)\n" + ones)
    nb.wait(cell, 60, lambda: "running" in cell.shown or "rank" in cell.shown)
    nb.control("interrupt_request")
    nb.wait(cell, 60).assert_error("KeyboardInterrupt")
    told = nb.run("%%distribute\n" + ones, limit=60).assert_error("ValueError").error
    assert "was interrupted, which ended the process group: add --init" in told["evalue"], told["evalue"]
    nb.ok("%%distribute --init gloo\ndist.destroy_process_group()", limit=60)  # of a group that was made since
    told = nb.run("%%distribute\ndist.destroy_process_group()", limit=60).assert_error("AssertionError").error
    assert "this cell's world has no process group: there is nothing to destroy" in told["evalue"], told["evalue"]
    assert "add --init" in nb.run("%%distribute -n 3\n" + ones, limit=60).assert_error("ValueError").error["evalue"]
    nb.ok("import cellspan\ndef total():\n    import torch, torch.distributed as dist\n    dist.all_reduce(torch.ones(1))")
    assert "add init=True" in nb.run("cellspan.run(total, n=3)", limit=60).assert_error("ValueError").reply["evalue"]
    assert "has no process group" not in nb.run("import torch.distributed as dist\ndist.barrier()", limit=60).traceback
    for code in ("dist.barrier()", "dist.init_process_group('gloo')"):
        error = nb.run(code, limit=60).assert_error("ValueError").error
        assert error["traceback"][-1] == "this ran at home, which is one process: put %%distribute --init on top of the cell"


@pytest.mark.limit(300)
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_new_group_does_not_blame_an_earlier_cell(nb, interrupted):
    shown = []

    def fails():
        """On a busy machine rank 0 may fail so late that it is interrupted instead, and is not named."""
        nb.ok("%ranks stop")
        nb.ok("%%distribute -n 2 --init gloo\nimport os, time, torch.distributed as dist", limit=120)
        cut = nb.start("%%distribute\nif dist.get_rank():\n    " + ("time.sleep(600)" if interrupted else "raise ValueError") + "\ndist.barrier()")
        if interrupted:
            nb.wait(cut, 60, lambda: "running" in cut.shown or "rank" in cut.shown)
            nb.control("interrupt_request")
        assert nb.wait(cut, 60).reply["status"] == "error"
        told = nb.run("%%distribute --init\ndist.barrier()\nif dist.get_rank():\n    os._exit(3)\ndist.barrier()", limit=60)
        shown.append(told.assert_error("RankDied").traceback)
        assert "which cut the connections between ranks" not in shown[-1], shown[-1]
        return "also on rank 0" in shown[-1]

    assert wait_until(fails, 120), shown[-1]
    assert "another rank has left the process group" in shown[-1], shown[-1]


def test_a_torch_without_nccl_says_what_to_do(nb):
    nb.ok("%ranks stop")
    if True in values(nb.ok("%%distribute -n 2 --gather\nimport torch\ntorch.distributed.is_nccl_available()", limit=120)):
        pytest.skip("this torch has NCCL")
    told = nb.run("%%distribute -n 2\nimport torch.distributed as dist\ndist.init_process_group('nccl')", limit=120).assert_error("RuntimeError")
    line = told.traceback.splitlines()[-1]
    assert "was built without NCCL: put --init gloo on the cell" in line and "built for CUDA" in line, told.traceback
    nb.ok("%%distribute --init gloo\ndist.barrier()", limit=60)


# ---- processes that ranks start -------------------------------------------------------------------------------------

HERE = "the ranks are there already, one process each"
SPAWN = (
    "import os, torch, torch.multiprocessing as mp\nimport torch.distributed as dist\n"
    "def train(i, n, port):\n    if port:\n        os.environ['MASTER_PORT'] = port\n"
    "    dist.init_process_group('gloo', rank=i, world_size=n)\n    t = torch.ones(1)\n    dist.all_reduce(t)\n    assert t.item() == n\n"
    "    dist.barrier()\n    dist.destroy_process_group()\n"  # at its end, a process with a group may abort in torch's threads
    "def plain(i, path):\n    open(path + str(i), 'w').close()\n"
)


@pytest.mark.limit(300)
@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.clients), "fork"])
def test_processes_of_ranks_do_not_meet_where_the_ranks_meet(nb, tmp_path, method):
    nb.ok("%ranks stop")
    nb.ok(SPAWN)
    start = "%%%%distribute -n 2\nmp.start_processes(%s, nprocs=%d, start_method='" + method + "')"
    count = 2 if method == "fork" else 1  # each process that is spawned imports torch
    told = nb.run(start % ("train, args=(2, '')", count), limit=100)
    assert told.reply["status"] == "error" and HERE in told.error["evalue"] and 'strategy="ddp"' in told.error["evalue"], told.error
    assert method == "fork" or "cellspan/_" not in told.error["evalue"], "no frame of ours"
    nb.ok("path = %r\nimport cellspan" % str(tmp_path / "done"))
    nb.ok(start % ("plain, args=(path + str(cellspan.rank()),)", 1), limit=100)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["done00", "done10"], "other processes are started"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    nb.ok("%%%%distribute -r 0\nmp.start_processes(train, args=(2, '%d'), nprocs=2, start_method='%s')" % (port, method), limit=100)


# ---- who had returned -----------------------------------------------------------------------------------------------


@pytest.mark.limit(300)
def test_uneven_numbers_of_collectives_name_who_had_returned(nb):
    nb.ok("import torch, cellspan\nfrom cellspan.torch import TorchDistributor\nfrom cellspan.horovod import HorovodRunner\n"
          "def train():\n    import torch.distributed as dist\n    dist.init_process_group('gloo')\n"
          "    for step in range(3 if dist.get_rank() else 2):\n        dist.all_reduce(torch.ones(1))\n"
          "def hvd_train():\n    import horovod.torch as hvd\n    hvd.init()\n"
          "    for step in range(3 if hvd.rank() else 2):\n        hvd.allreduce(torch.ones(1), name=str(step))\n")  # fmt: skip
    nb.ok("import cellspan.horovod\ncellspan.horovod.install()")
    for call in ("TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(train)", "HorovodRunner(np=-2).run(hvd_train)"):
        cell = nb.run(call, limit=120)
        assert cell.reply["status"] == "error", call
        assert "rank 0 had returned already, without that collective. Usually the ranks had unequal numbers of batches" in cell.shown, cell.shown


# ---- collectives that don't fit together ----------------------------------------------------------------------------


SMALLER = {
    "all_reduce": "dist.all_reduce(torch.ones(4, dtype=torch.float64 if r else torch.float32))",
    "broadcast": "dist.broadcast(torch.ones(4, dtype=torch.float32 if r else torch.float64), 0)",
    "recv": "dist.recv(torch.ones(2), 0) if r else dist.send(torch.ones(4), 1)",
}


@pytest.mark.limit(300)
@pytest.mark.parametrize("call", SMALLER)
def test_a_rank_that_gloo_ends_says_why(nb, call):
    nb.ok("%ranks stop")
    code = "%%distribute -n 2 --init gloo\nimport torch, torch.distributed as dist\nr = dist.get_rank()\n" + SMALLER[call]
    told = nb.run(code, limit=120).assert_error("RankDied").traceback
    line = [line for line in told.splitlines() if not line.startswith("also on")][-1]
    assert "different sizes or types" in line and "print(t.shape, t.dtype) before it on each rank" in line, told
    other = nb.run("%%distribute --init gloo\nimport os, sys\nprint('op.preamble', file=sys.stderr)\nos.abort()", limit=60)
    assert "sizes" not in other.assert_error("RankDied").traceback, "another death"


@pytest.mark.limit(400)
def test_a_rank_that_validates_alone_through_ddp_fails_with_the_others():
    notebook = Notebook(env={"CELLSPAN_HANG_NOTICE": "2", "CELLSPAN_PRELOAD": BEFOREHAND})
    make = "net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2))\nddp = torch.nn.parallel.DistributedDataParallel(net)\n"
    alone = "if dist.get_rank() == 0:\n    with torch.no_grad():\n        ddp(torch.rand(5, 4))\ndist.barrier()"
    try:
        notebook.ok("%%distribute -n 2 --init gloo\nimport torch, torch.distributed as dist\n" + make, limit=120)
        cell = notebook.run("%%distribute\n" + alone, limit=100).assert_error("TimeoutError")
        assert "one rank alone must call model.module" in cell.error["evalue"] and "in barrier" in cell.error["evalue"], cell.error
        assert "the cell fails when the ranks have waited for 10 s" in cell.stderr, cell.stderr
        notebook.ok("%%distribute --init\n" + make + alone.replace("ddp(", "ddp.module("), limit=60)
        sub = "half = dist.new_group([0])\nif dist.get_rank() == 0:\n    dist.all_reduce(torch.ones(1))\nelse:\n    dist.barrier()"
        cell = notebook.start("%%distribute\n" + sub)
        notebook.wait(cell, 100, lambda: "%ranks where shows" in cell.stderr)
        assert "the cell fails" not in cell.stderr, "who knows what the ranks do in a subgroup"
        notebook.control("interrupt_request")
        notebook.wait(cell, 60).assert_error("KeyboardInterrupt")
        cell = notebook.start("%%distribute --init\ndist.all_reduce(torch.ones(4 if dist.get_rank() else 2))")
        notebook.wait(cell, 100, lambda: "%ranks where shows" in cell.stderr)
        assert "launched as many collectives as the others" in cell.stderr and "batches" not in cell.stderr, cell.stderr
        assert "rank 1 in all_reduce of float32 (4,); rank 0 has left it" in cell.stderr, cell.stderr
        notebook.control("interrupt_request")
        notebook.wait(cell, 60).assert_error("KeyboardInterrupt")
    finally:
        notebook.close()
