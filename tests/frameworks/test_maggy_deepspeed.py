"""cellspan.maggy with backend="deepspeed" and the real DeepSpeed, on CPUs: two ranks learn what one learns, at each stage of ZeRO."""

from __future__ import annotations

import pytest
from client import values

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


@pytest.mark.limit(600)
def test_two_ranks_learn_what_one_learns_at_each_stage(nb):
    nb.ok(SETUP, limit=240)
    for level, stage in ((0, 2), (1, 1), (3, 3)):
        nb.ok("found = ranks(2, %d)" % level, limit=240)
        assert values(nb.ok("[(rank['stage'], rank['kind'], abs(rank['out'] - one) < 1e-4 * one) for rank in found]")) == [(stage, 1.0, True)] * 2
    assert nb.ok("asked['zero_optimization'], asked['optimizer']['params']").value == "({'stage': 2}, {'lr': 0.05})"
