# SPDX-License-Identifier: BSD-3-Clause
"""Lightning on ranks: Trainer and Fabric as under torchrun, its notebook's strategy, that of Horovod, and what home has made. Each
process that imports it needs a processor for 4 s, so these tests share ranks where they can, and these don't import it themselves."""

from __future__ import annotations

import os
import subprocess

import pytest
from client import by_rank
from test_torch_errors import HERE
from test_worlds_of_values import WHY

pytestmark = pytest.mark.clients
BEFOREHAND = "torch._dynamo,lightning"  # as torch_users.py says
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
def test_lightnings_trainer_fits_resumes_and_stops_early_several_times(nb, jupyter_env, tmp_path):
    for _ in range(2):
        learnt(nb.ok("%%distribute -n 2\n" + lightning(tmp_path), limit=180).stdout)
    script = tmp_path / "train.py"
    script.write_text(lightning(tmp_path))
    learnt(nb.ok("%%distribute -n 2 %s" % script, limit=180).stdout)
    run = subprocess.run(["cellspan", "run", "-n", "2", str(script)], cwd=tmp_path, env=dict(jupyter_env, CELLSPAN_PRELOAD=BEFOREHAND), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180)
    assert run.returncode == 0, run.stdout + run.stderr
    learnt(run.stdout)


@pytest.mark.limit(300)
def test_lightnings_fabric(nb):
    cell = nb.ok("%%distribute -n 2 --gather\n" + LIGHTNING + """
for _ in range(2):
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
def test_an_interrupt_and_an_error_in_lightnings_fit(nb, tmp_path):
    slow = LIGHTNING + """
import time
class Slow(Line):
    def training_step(self, batch, n):
        print("steps", flush=True)
        time.sleep(%s)
        raise ValueError("the shape is wrong")
"""
    fit = "trainer(%r, 500, enable_checkpointing=False).fit(Slow(), loader())" % str(tmp_path)
    cell = nb.start("%%distribute -n 2\n" + slow % 600 + fit)
    nb.wait_ranks(cell, "steps", 2, 180)
    nb.control("interrupt_request")
    nb.wait(cell, 60).assert_error("KeyboardInterrupt")
    assert "SystemExit" not in cell.shown and "/cellspan/_" not in cell.traceback, cell.shown
    cell = nb.run("%%distribute -n 2\n" + slow % 0 + fit, 180).assert_error("ValueError")
    assert "the shape is wrong" in cell.traceback and "/cellspan/_" not in cell.traceback and "trains alone" not in cell.traceback, cell.traceback


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


@pytest.mark.limit(300)
def test_lightnings_tqdm_bars_end_as_one_line_run_after_run(nb):
    for _ in range(2):
        cell = nb.ok("%%distribute -n 2\n" + LIGHTNING + """
from lightning.pytorch.callbacks import TQDMProgressBar
t = L.Trainer(accelerator="cpu", strategy="ddp", devices=2, max_epochs=2, logger=False, enable_checkpointing=False,
              enable_model_summary=False, callbacks=[TQDMProgressBar()])
t.fit(Line(), loader())
print("epochs", t.current_epoch)
""", limit=180)
        assert [line for k in range(2) for line in by_rank(cell.stdout)[k] if line.startswith("epochs")] == ["epochs 2"] * 2, cell.stdout
        # a bar that moves is a display, which ends empty; its last state is text
        left = cell.stdout + cell.stderr + "".join(data.get("text/plain", "") for data in cell.displays)
        assert len([line for line in left.splitlines() if "Epoch 1: 100%" in line and "4/4" in line]) == 1, cell.shown
        assert "Epoch 0" not in left, cell.shown


@pytest.mark.limit(300)
def test_lightnings_ddp_notebook_says_that_the_ranks_are_there(nb):
    nb.ok("%ranks stop")
    told = nb.run(
        "%%distribute -n 2\nimport lightning as L\nfrom lightning.pytorch.demos.boring_classes import BoringModel\n"
        "L.Trainer(strategy='ddp_notebook', devices=2, accelerator='cpu', max_steps=1, logger=False, enable_checkpointing=False,\n"
        "    enable_progress_bar=False, enable_model_summary=False).fit(BoringModel())",
        limit=200,
    )
    assert told.reply["status"] == "error" and HERE in told.error["evalue"] and 'strategy="ddp"' in told.error["evalue"], told.error


# -- what home has made


MADE_AT_HOME = """
import torch, lightning as L, logging, warnings
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.simplefilter("ignore")
class Line(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def training_step(self, batch, n):
        return self.layer(batch).pow(2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
class Data(L.LightningDataModule):
    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.rand(8, 1))
quiet = dict(accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False, max_epochs=1)
trainer, model, data = L.Trainer(devices=1, **quiet), Line(), Data()
trainer.fit(model, data)
fabric = L.Fabric(accelerator="cpu", devices=1)
fabric.launch()
wrapped, optimizer = fabric.setup(torch.nn.Linear(1, 1), torch.optim.SGD(model.parameters(), 0.1))
batches = fabric.setup_dataloaders(torch.utils.data.DataLoader(torch.rand(8, 1)))
strategy = L.pytorch.strategies.DDPStrategy()
"""
FITS_THERE = "trainer = L.Trainer(devices=2, strategy='ddp', **quiet)\ntrainer.fit(model, data)\n(trainer.world_size, trainer.global_step)"


@pytest.mark.limit(400)
def test_lightnings_trainers_and_fabrics_are_made_on_ranks_and_their_models_travel(nb):
    nb.ok(MADE_AT_HOME, limit=120)
    nb.ok("%ranks stop")
    for name in ("trainer", "fabric", "strategy", "wrapped", "optimizer", "batches"):
        cell = nb.run("%%%%distribute -n 2\n%s" % name, limit=120).assert_error("CaptureError")
        assert "%s was not sent: " % name in cell.error["evalue"] and WHY in cell.error["evalue"], cell.shown
    assert nb.ok("%%distribute -n 2 --gather\n" + FITS_THERE, limit=200).value == "[(2, 4), (2, 4)]", "also those that home has trained"


# -- Horovod's strategy


LIT = """\
import cellspan.horovod; cellspan.horovod.install()
import logging, torch
logging.getLogger("{package}").setLevel(logging.ERROR)
import {package} as pl
from sparkdl import HorovodRunner
import horovod.torch as hvd

X = torch.randn(48, 5, generator=torch.Generator().manual_seed(1)); Y = X.sum(1, keepdim=True)

class Lit(pl.LightningModule):
    def __init__(self, learning_rate):
        super().__init__()
        torch.manual_seed(0 if hvd.is_initialized() and hvd.rank() else 3)
        self.layer, self.learning_rate = torch.nn.Linear(5, 1), learning_rate
    def training_step(self, batch, _):
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.log("train_loss", loss, on_epoch=True, on_step=False, sync_dist=True)
        return loss
    def validation_step(self, batch, _):
        self.log("val_loss", torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1]), sync_dist=True)
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.learning_rate, momentum=0.5)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

def fit(model, strategy, batch, folder, **options):
    data = torch.utils.data.TensorDataset(X, Y)
    # Lightning's own sampler would shuffle; that of val is Lightning's
    sampler = torch.utils.data.DistributedSampler(data, hvd.size(), hvd.rank(), shuffle=False) if strategy == "horovod" else None
    train = torch.utils.data.DataLoader(data, batch_size=batch, sampler=sampler)
    val = torch.utils.data.DataLoader(data, batch_size=batch)
    trainer = pl.Trainer(max_epochs=2, accelerator="cpu", devices=1, strategy=strategy, default_root_dir=folder, logger=False,
                         enable_progress_bar=False, enable_model_summary=False, **options)
    trainer.fit(model, train, val)
    assert strategy != "horovod" or len(trainer.val_dataloaders) == 48 // hvd.size() // batch
    return trainer

def train_hvd(folder, options):
    hvd.init()
    model = Lit(0.05 / hvd.size())
    trainer = fit(model, "horovod", 12 // hvd.size(), folder, **options)
    gathered = trainer.strategy.all_gather(torch.tensor([float(hvd.rank())])).shape
    return model.state_dict(), trainer.callback_metrics["val_loss"].item(), tuple(gathered), trainer.optimizers[0].param_groups[0]["lr"], trainer.global_step
"""


@pytest.mark.parametrize("package, options", [("lightning.pytorch", "dict(accumulate_grad_batches=2, gradient_clip_val=0.5)"), ("pytorch_lightning", "{}")])
def test_lightning_has_the_strategy_again(fresh, tmp_path, package, options):
    nb = fresh(cwd=str(tmp_path), env={"CELLSPAN_PRELOAD": "torch._dynamo," + package})
    nb.ok(LIT.replace("{package}", package))
    nb.ok("result = HorovodRunner(np=-2).run(train_hvd, folder='ranks', options=%s); result[1:]" % options)
    cell = nb.ok(
        "import warnings; warnings.simplefilter('ignore')\n"
        "one = Lit(0.05)\ntrainer = fit(one, 'auto', 12, 'one', **%s)\n"
        "torch.equal(Lit(1).layer.weight, one.layer.weight), max((a - result[0][name]).abs().max().item() for name, a in one.state_dict().items()) < 1e-6, "
        "abs(trainer.callback_metrics['val_loss'].item() - result[1]) < 1e-6, result[2:4], result[4] == trainer.global_step" % options)
    assert cell.value == "(False, True, True, ((2, 1), 0.0125), True)"
    assert any(name.endswith(".ckpt") for _, _, names in os.walk(tmp_path / "ranks") for name in names)
