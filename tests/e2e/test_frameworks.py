# SPDX-License-Identifier: BSD-3-Clause
"""What torch has for training works on ranks as it does under torchrun."""

from __future__ import annotations

import ast
import subprocess

import pytest
from client import by_rank

pytestmark = pytest.mark.clients
BEFOREHAND = "torch._dynamo"  # as torch_users.py says


def each(nb, tmp_path, code, *wanted):
    """As a cell and as a script, on two ranks; all of them print the wanted lines. Tests share the ranks and what these have imported,
    so each code ends its process group."""
    script = tmp_path / "own.py"
    script.write_text("import os, torch, torch.distributed as dist\n" + code)
    for cell in (nb.ok("%%distribute -n 2\n" + script.read_text(), limit=150), nb.ok("%%distribute -n 2 %s" % script, limit=150)):
        lines = by_rank(cell.stdout)
        for rank in range(2):
            assert [line for line in lines[rank] if line.startswith("=")] == ["= " + text for text in wanted], cell.shown


DONE = "dist.destroy_process_group()\n"


@pytest.mark.limit(300)
def test_ddp(nb, tmp_path):
    each(nb, tmp_path, """dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.ones(1, 2) * dist.get_rank()).sum().backward()
print("=", model.module.weight.grad.tolist())
""" + DONE, "[[0.5, 0.5]]")


@pytest.mark.limit(300)
def test_fsdp2(nb, tmp_path):
    each(nb, tmp_path, """from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
mesh = init_device_mesh("cpu", (2,))
model = torch.nn.Linear(4, 2, bias=False)
fully_shard(model, mesh=mesh)
model(torch.ones(1, 4)).sum().backward()
print("=", list(model.weight.to_local().shape), model.weight.grad.full_tensor().sum().item())
""" + DONE, "[1, 4] 8.0")


@pytest.mark.limit(300)
def test_dcp(nb, tmp_path):
    each(nb, tmp_path, """import torch.distributed.checkpoint as dcp
dist.init_process_group("gloo")
dcp.save({"w": torch.arange(4.0)}, checkpoint_id=%r)
state = {"w": torch.zeros(4)}
dcp.load(state, checkpoint_id=%r)
print("=", state["w"].tolist())
""" % (str(tmp_path / "kept"), str(tmp_path / "kept")) + DONE, "[0.0, 1.0, 2.0, 3.0]")


@pytest.mark.limit(300)
def test_dtensor(nb, tmp_path):
    each(nb, tmp_path, """from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
whole = distribute_tensor(torch.arange(6.0).reshape(2, 3), init_device_mesh("cpu", (2,)), [Shard(0)])
print("=", list(whole.to_local().shape), (whole @ whole.T).full_tensor().tolist())
""" + DONE, "[1, 3] [[5.0, 14.0], [14.0, 50.0]]")


# The shape of PyTorch's own example.
TENSOR_PARALLEL = """from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(4, 16), torch.nn.Linear(16, 3)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

def losses(model):
    optimizer, found = torch.optim.SGD(model.parameters(), 0.1), []
    for step in range(4):
        torch.manual_seed(step)
        loss = model(torch.rand(20, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return torch.tensor(found)

alone = losses(Layers())
model = parallelize_module(Layers(), init_device_mesh("cpu", (2,)), {"first": ColwiseParallel(), "second": RowwiseParallel()})
print("=", list(model.first.weight.to_local().shape), torch.allclose(alone, losses(model)), alone[0].item() > alone[-1].item())
"""


@pytest.mark.limit(300)
def test_tensor_parallel(nb, tmp_path):
    """Each rank has half of a layer, and the losses are those of one process that has the whole model."""
    each(nb, tmp_path, TENSOR_PARALLEL + DONE, "[8, 4] True True")


@pytest.mark.limit(300)
def test_rpc(nb, tmp_path):
    each(nb, tmp_path, """from torch.distributed import rpc
rank = int(os.environ["RANK"])
rpc.init_rpc("worker%d" % rank, rank=rank, world_size=2)
print("=", rpc.rpc_sync("worker%d" % (1 - rank), torch.add, args=(torch.ones(1), 2)).item())
rpc.shutdown()
""", "3.0")


@pytest.mark.limit(300)
def test_torch_compile(nb, tmp_path):
    each(nb, tmp_path, """@torch.compile
def double(x):
    return x * 2 + 1
print("=", double(torch.arange(3.0)).tolist())
""", "[1.0, 3.0, 5.0]")


SHARDED = """
import os, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

def sharded():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
    mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.Adam(model.parameters(), 0.01)

def train(model, optimizer, steps):
    x = torch.arange(32.0).reshape(8, 4) / 32
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()

def states(model, optimizer):
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments}

def told(model, optimizer):
    step = {int(of["step"]) for of in optimizer.state.values()}
    return dist.get_world_size(), step, [round(p.full_tensor().sum().item(), 4) for p in model.parameters()]
"""
SAVES = """
model, optimizer = sharded()
train(model, optimizer, 3)
dcp.save(states(model, optimizer), checkpoint_id=%r)
told(model, optimizer)
"""
LOADS = """
model, optimizer = sharded()
kept = states(model, optimizer)
dcp.load(kept, checkpoint_id=%r)
set_state_dict(model, optimizer, model_state_dict=kept["model"], optim_state_dict=kept["optimizer"])
loaded = told(model, optimizer)
train(model, optimizer, 2)
loaded, told(model, optimizer)
"""


def ranks_say(nb, options, code):
    """What the last line is on each rank; it is the same on all."""
    found = ast.literal_eval(nb.ok("%%%%distribute %s --gather\n%s" % (options, code), limit=150).value)
    assert found == found[:1] * len(found), found
    return found[0]


@pytest.mark.limit(400)
def test_fsdp2_with_checkpoints_twice_in_a_notebook_and_after_growing(nb, tmp_path):
    kept = str(tmp_path / "kept")
    saved = ranks_say(nb, "-n 2", SHARDED + SAVES % kept)
    assert saved[:2] == (2, {3})
    assert ranks_say(nb, "", SAVES % kept) == saved, "again, over the first checkpoint"
    loaded, on = ranks_say(nb, "", LOADS % kept)
    assert loaded == saved and on[:2] == (2, {5}) and on[2] != saved[2]
    loaded, grown = ranks_say(nb, "-n 3", SHARDED + LOADS % kept)
    assert loaded == (3, *saved[1:]) and grown == (3, *on[1:])
    again = str(tmp_path / "again")
    assert ranks_say(nb, "", SAVES % again) == loaded
    assert ranks_say(nb, "--fresh -n 2", SHARDED + LOADS % again) == (saved, on)


# A script with the shape of torchrun's examples: it has a module beside it, reads its rank from the environment, takes its options
# from the command line, keeps a snapshot in the working directory, and goes on from it.

DATA = """
import torch

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, k):
        return torch.tensor([k / 32]), torch.tensor([k / 16])
"""
TORCHRUNS = """
import argparse, os, torch, torch.distributed as dist
from numbers_data import Numbers
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

class Trainer:
    def __init__(self, model, data, optimizer, every, snapshot):
        self.rank, self.data, self.optimizer = int(os.environ["RANK"]), data, optimizer
        self.every, self.snapshot, self.done = every, snapshot, 0
        if os.path.exists(snapshot):
            kept = torch.load(snapshot)
            model.load_state_dict(kept["model"])
            self.done = kept["done"]
            print("= resumes at epoch", self.done)
        self.model = DDP(model)

    def train(self, epochs):
        for epoch in range(self.done, epochs):
            self.data.sampler.set_epoch(epoch)
            for x, y in self.data:
                self.optimizer.zero_grad()
                torch.nn.functional.mse_loss(self.model(x), y).backward()
                self.optimizer.step()
            print("= rank", self.rank, "epoch", epoch, "steps", len(self.data))
            if self.rank == 0 and (epoch + 1) % self.every == 0:
                torch.save({"model": self.model.module.state_dict(), "done": epoch + 1}, self.snapshot)
        dist.barrier()

def main(epochs, every, batch):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model, data = torch.nn.Linear(1, 1), Numbers()
    loader = DataLoader(data, batch_size=batch, sampler=DistributedSampler(data))
    Trainer(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), every, "snapshot.pt").train(epochs)
    dist.destroy_process_group()

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("epochs", type=int)
    parser.add_argument("every", type=int)
    parser.add_argument("--batch", type=int, default=4)
    given = parser.parse_args()
    main(given.epochs, given.every, given.batch)
"""


def epochs(text, first, last, resumes):
    for rank in range(2):
        said = [line for line in by_rank(text)[rank] if line.startswith("=")]
        assert said == ["= resumes at epoch %d" % first] * resumes + ["= rank %d epoch %d steps 2" % (rank, k) for k in range(first, last)], text


@pytest.mark.limit(300)
def test_a_script_of_torchruns_shape_resumes_from_its_snapshot(nb, jupyter_env, tmp_path):
    (tmp_path / "numbers_data.py").write_text(DATA)
    script = tmp_path / "train.py"
    script.write_text(TORCHRUNS)
    at_work = tmp_path / "work"
    at_work.mkdir()
    line = "%%%%distribute -n 2 --cwd %s %s %%d 1 --batch 8" % (at_work, script)
    epochs(nb.ok(line % 2, limit=150).stdout, 0, 2, 0)
    epochs(nb.ok(line % 4, limit=150).stdout, 2, 4, 1)
    run = subprocess.run(["cellspan", "run", "-n", "2", str(script), "6", "1", "--batch=8"], cwd=at_work,
                         env=dict(jupyter_env, CELLSPAN_PRELOAD=BEFOREHAND), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=150)
    assert run.returncode == 0, run.stdout + run.stderr
    epochs(run.stdout, 4, 6, 1)


@pytest.mark.limit(200)
def test_record_names_the_error_of_the_rank_that_failed(nb, tmp_path):
    script = tmp_path / "own.py"
    script.write_text("import os\nfrom torch.distributed.elastic.multiprocessing.errors import record\n@record\ndef main():\n"
                      "    if os.environ['RANK'] == '1': raise ValueError('no good')\n    print(os.path.basename(os.environ['TORCHELASTIC_ERROR_FILE']))\nmain()\n")
    cell = nb.run("%%distribute -n 2 %s" % script).assert_error("ValueError")
    assert "no good" in cell.traceback and "rank 1" in cell.traceback and "error.json" in cell.stdout
