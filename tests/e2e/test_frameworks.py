"""Training libraries work on ranks as they do under torchrun."""

from __future__ import annotations

import pytest
from client import by_rank

LIGHTNING = """
import os, sys, torch, lightning as L, warnings, logging
warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

class Line(L.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(2, 1)

    def forward(self, batch):
        return self.layer(batch)

    def training_step(self, batch, n):
        loss = self(batch).pow(2).mean()
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05)

def loader():
    return torch.utils.data.DataLoader(torch.arange(32.0).reshape(16, 2) / 32, batch_size=2)

def trainer(folder, epochs, **more):
    return L.Trainer(accelerator="cpu", strategy="ddp", devices=2, max_epochs=epochs, default_root_dir=folder,
                     enable_progress_bar=False, enable_model_summary=False, logger=False, **more)
"""

FITS = """
from lightning.pytorch.callbacks import EarlyStopping
first = Line()
t = trainer(%r, 2)
t.fit(first, loader())
t.save_checkpoint(%r)
print(t.world_size, t.current_epoch, hasattr(sys, "ps1"))
again = trainer(%r, 4)
again.fit(Line(), loader(), ckpt_path=%r)
print("resumed", again.current_epoch, again.global_step)
stops = trainer(%r, 50, callbacks=[EarlyStopping("loss", stopping_threshold=1.0, patience=50)])
stops.fit(Line(), loader())
print("stopped", stops.current_epoch < 50)
"""


def lightning(folder):
    folder, checkpoint = str(folder), str(folder / "line.ckpt")
    return LIGHTNING + FITS % (folder, checkpoint, folder, checkpoint, folder)


def learnt(text):
    for rank in range(2):
        lines = by_rank(text)[rank]
        assert [line for line in lines if line[:1] in "2rs"] == ["2 2 False", "resumed 4 16", "stopped True"], lines


@pytest.mark.limit(400)
def test_lightnings_trainer_fits_resumes_and_stops_early_several_times(nb, tmp_path):
    for _ in range(2):
        learnt(nb.ok("%%distribute -n 2\n" + lightning(tmp_path), limit=180).stdout)
    script = tmp_path / "train.py"
    script.write_text(lightning(tmp_path))
    learnt(nb.ok("%%distribute -n 2 %s" % script, limit=180).stdout)


@pytest.mark.limit(300)
def test_lightnings_fabric(nb):
    cell = nb.ok("%%distribute -n 2 --gather\n" + LIGHTNING + """
fabric = L.Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
model = Line()
model, optimizer = fabric.setup(model, model.configure_optimizers())
for batch in fabric.setup_dataloaders(loader()):
    optimizer.zero_grad()
    fabric.backward(model(batch).pow(2).mean())
    optimizer.step()
[fabric.world_size, fabric.all_reduce(torch.tensor(1.0), reduce_op="sum").item(), fabric.global_rank]
""", limit=180)
    assert cell.value == "[[2, 2.0, 0], [2, 2.0, 1]]"


@pytest.mark.limit(300)
def test_lightning_that_would_train_alone_says_so(nb):
    alone = LIGHTNING + """
t = L.Trainer(max_epochs=1, accelerator="cpu", devices=1, enable_progress_bar=False, enable_model_summary=False, logger=False, enable_checkpointing=False)
t.fit(Line(), loader())
fabric = L.Fabric(accelerator="cpu", devices=1)
fabric.setup(Line())
print("steps", t.global_step)
"""
    cell = nb.ok("%%distribute -n 2\n" + alone, limit=180)
    assert by_rank(cell.stdout)[1][-1] == "steps 8", cell.stdout
    assert 'each of these 2 ranks trains alone, on all data' in cell.stderr and 'Trainer(strategy="ddp", devices=2, num_nodes=1)' in cell.stderr, cell.stderr
    assert 'Fabric(strategy="ddp", devices=2' in cell.stderr, cell.stderr
    assert "trains alone" not in nb.ok(alone, limit=180).stderr, "one process at home is what is wanted"


@pytest.mark.limit(300)
def test_lightnings_rich_bars_end_as_one_line_run_after_run(nb):
    for _ in range(2):
        cell = nb.ok("%%distribute -n 2\n" + LIGHTNING + """
from lightning.pytorch.callbacks import RichProgressBar
t = L.Trainer(accelerator="cpu", strategy="ddp", devices=2, max_epochs=2, logger=False, enable_checkpointing=False,
              enable_model_summary=False, callbacks=[RichProgressBar()])
t.fit(Line(), loader())
print("epochs", t.current_epoch)
""", limit=180)
        assert [line for k in range(2) for line in by_rank(cell.stdout)[k] if line.startswith("epochs")] == ["epochs 2"] * 2, cell.stdout
        assert len([line for line in cell.stdout.splitlines() if "Epoch" in line and "4/4" in line]) == 1, cell.stdout
        assert "\x1b[1A" not in cell.stdout, cell.stdout


# -- torch's own


def each(nb, tmp_path, code, *wanted):
    """As a cell and as a script, on two ranks; all of them print the wanted lines."""
    script = tmp_path / "own.py"
    script.write_text("import os, torch, torch.distributed as dist\n" + code)
    for cell in (nb.ok("%%distribute -n 2 --fresh\n" + script.read_text(), limit=150), nb.ok("%%distribute -n 2 %s" % script, limit=150)):
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


@pytest.mark.limit(200)
def test_record_names_the_error_of_the_rank_that_failed(nb, tmp_path):
    script = tmp_path / "own.py"
    script.write_text("import os\nfrom torch.distributed.elastic.multiprocessing.errors import record\n@record\ndef main():\n"
                      "    if os.environ['RANK'] == '1': raise ValueError('no good')\n    print(os.path.basename(os.environ['TORCHELASTIC_ERROR_FILE']))\nmain()\n")
    cell = nb.run("%%distribute -n 2 %s" % script).assert_error("ValueError")
    assert "no good" in cell.traceback and "rank 1" in cell.traceback and "error.json" in cell.stdout
