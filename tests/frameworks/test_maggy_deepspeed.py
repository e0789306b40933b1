# SPDX-License-Identifier: BSD-3-Clause
"""The real DeepSpeed on CPUs, by itself and as cellspan.maggy's backend: two ranks learn what one learns, at each stage of ZeRO."""

from __future__ import annotations

import pytest
from client import by_rank, values

SETUP = """
import os
os.environ["DS_ACCELERATOR"] = "cpu"
import torch, cellspan
from cellspan.maggy import experiment
from cellspan.maggy.config import TorchDistributedConfig

torch.manual_seed(0)
x = torch.randn(64, 3)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
asked = {"zero_optimization": {"stage": 2}, "optimizer": {"type": "Adam", "params": {"lr": 0.05}}}

def train(module, train_set, hparams):
    torch.manual_seed(0)
    model = module(3, 1)
    for epoch in range(2):
        for x, y in torch.utils.data.DataLoader(train_set, batch_size=hparams["batch"]):
            loss = (model(x) - y).pow(2).mean()
            model.backward(loss)
            model.step()
    with torch.no_grad():
        return {"stage": model.zero_optimization_stage(), "kind": float("DeepSpeed" in type(model).__name__),
                "out": model(data.tensors[0]).pow(2).mean()}

def ranks(n, level):
    batch = 16 // n
    config = TorchDistributedConfig(torch.nn.Linear, train_set=data, hparams={"batch": batch}, backend="deepspeed", zero_lvl=level,
                                    deepspeed_config={**asked, "train_micro_batch_size_per_gpu": batch})
    return experiment.lagom(train, config, n=n)["results"]

one = ranks(1, 1)[0]["out"]
"""


@pytest.mark.limit(1500)
def test_two_ranks_learn_what_one_learns_at_each_stage(nb):
    nb.ok(SETUP, limit=800)  # DeepSpeed compiles deepspeed_shm_comm if the user's cache does not have it
    for level, stage in ((0, 2), (1, 1), (3, 3)):
        nb.ok("found = ranks(2, %d)" % level, limit=240)
        assert values(nb.ok("[(rank['stage'], rank['kind'], abs(rank['out'] - one) < 1e-4 * one) for rank in found]")) == [(stage, 1.0, True)] * 2
    assert nb.ok("asked['zero_optimization'], asked['optimizer']['params']").value == "({'stage': 2}, {'lr': 0.05})"


ZERO = """
import os
os.environ["DS_ACCELERATOR"], os.environ["TORCH_EXTENSIONS_DIR"] = "cpu", %r
import deepspeed, torch

def train(stage):
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    model = torch.nn.Linear(3, 1)
    zero = {"stage": stage, "offload_optimizer": {"device": "cpu"}} if stage > 1 else {"stage": stage}
    adam = {"type": "Adam", "params": {"lr": 0.05, "torch_adam": False}}
    size, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_micro_batch_size_per_gpu": 16 // size, "zero_optimization": zero, "optimizer": adam})
    for batch in x.split(16):
        mine = batch[rank::size]
        loss = (engine(mine) - mine.sum(1, keepdim=True)).pow(2).mean()
        engine.backward(loss)
        engine.step()
    with torch.no_grad():
        out = engine(x).pow(2).mean().item()
    return engine.zero_optimization_stage(), type(engine.optimizer.optimizer if stage else engine.optimizer).__name__, out
"""


@pytest.mark.limit(2400)  # what is compiled takes a processor eight minutes
def test_zero_with_deepspeeds_own_adam_which_one_rank_builds(nb, tmp_path):
    begin = ZERO % str(tmp_path)
    nb.ok("%ranks stop\n")
    cell = nb.ok("%%distribute -n 2 --gather\n" + begin + "[train(stage) for stage in (1, 2, 3)]", limit=2100)
    assert cell.shown.count("cellspan: building cpu_adam once on this machine") == 1, cell.shown
    assert cell.shown.count("cellspan: building fused_adam once on this machine") == 1, cell.shown
    again = nb.ok("%%distribute -n 1 --fresh --gather\n" + begin + "[train(stage) for stage in (1, 2, 3)]", limit=240)
    assert "building" not in again.shown
    [one] = values(again)
    for rank in values(cell):
        assert [which[:2] for which in rank] == [(1, "FusedAdam"), (2, "DeepSpeedCPUAdam"), (3, "DeepSpeedCPUAdam")], rank
        assert all(abs(mine[2] - its[2]) < 1e-3 * abs(its[2]) for mine, its in zip(rank, one)), (rank, one)


DISTRIBUTED = """
import os
os.environ["DS_ACCELERATOR"] = "cpu"
import argparse, sys
import deepspeed, torch

def main():
    words = argparse.ArgumentParser()
    deepspeed.add_config_arguments(words)
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    engine, *_ = deepspeed.initialize(args=words.parse_args(), model=model, model_parameters=model.parameters())
    return engine.zero_optimization_stage(), engine.train_micro_batch_size_per_gpu(), torch.distributed.get_world_size()
"""


@pytest.mark.limit(400)
@pytest.mark.parametrize("local", [True, False])
def test_deepspeed_torch_distributor_gives_deepspeed_its_configuration(nb, tmp_path, local):
    script = tmp_path / "train.py"
    script.write_text(DISTRIBUTED + "print('stage', *main())\n")
    nb.ok("from cellspan.torch import DeepspeedTorchDistributor\n"
          "two = DeepspeedTorchDistributor(2, 1, %s, False, deepspeedConfig={'train_micro_batch_size_per_gpu': 4, 'zero_optimization': {'stage': 1},\n"
          "    'optimizer': {'type': 'Adam', 'params': {'lr': 0.05, 'torch_adam': True}}})\n" % local
          + "def train():\n    import sys\n    sys.path.insert(0, %r)\n    import train\n    return train.main()" % str(tmp_path))
    lines = by_rank(nb.ok("two.run(%r)" % str(script), limit=300).stdout)
    assert "stage 1 4 2" in lines[0] and "stage 1 4 2" in lines[1], lines
    assert nb.ok("two.run(train)", limit=300).value == "(1, 4, 2)"


ALONE = """
import os, torch, torch.distributed as dist
os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
import deepspeed
net = torch.nn.Linear(2, 1)
engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), optimizer=torch.optim.SGD(net.parameters(), 0.1),
                                  config={"train_batch_size": 1}, dist_init_required=False)
"""


@pytest.mark.limit(300)
def test_an_engine_that_home_has_made_is_no_engine_of_ranks(nb):
    nb.ok(ALONE, limit=200)
    told = nb.run("%%distribute -n 2\nengine.train()", limit=120).assert_error("CaptureError").error["evalue"]
    assert told.startswith("engine was not sent: a DeepSpeedEngine knows only"), told
