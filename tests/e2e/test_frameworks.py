"""Libraries that people train with, on ranks as they are under torchrun."""

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
