"""After a failure a training goes on: what cut the connections is told, and what makes the loop run again."""

from __future__ import annotations

import pytest
from client import rank_values

pytest.importorskip("torch")

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
    assert "add --init" in nb.run("%%distribute -n 3\n" + ones, limit=60).assert_error("ValueError").error["evalue"]
    nb.ok("import cellspan\ndef total():\n    import torch, torch.distributed as dist\n    dist.all_reduce(torch.ones(1))")
    assert "add init=True" in nb.run("cellspan.run(total, n=3)", limit=60).assert_error("ValueError").reply["evalue"]
    assert "no cell has made" not in nb.run("import torch.distributed as dist\ndist.barrier()", limit=60).traceback
    for code in ("dist.barrier()", "dist.init_process_group('gloo')"):
        error = nb.run(code, limit=60).assert_error("ValueError").error
        assert error["traceback"][-1] == "this ran at home, which is one process: put %%distribute --init on top of the cell"
