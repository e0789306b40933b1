# SPDX-License-Identifier: BSD-3-Clause
"""MLflow from a notebook with ranks: one run for the whole job, in the server and the experiment that home has chosen."""

from __future__ import annotations

import ast

import pytest

HOME = """
import mlflow, logging, os, warnings
logging.disable(logging.INFO)
warnings.simplefilter("ignore")
os.chdir(%r)  # MLflow puts the folder mlruns there
mlflow.set_tracking_uri("sqlite:///%s/runs.db")
mlflow.set_experiment("flowers")
"""
RUNS = """
[(run.info.run_name, run.info.status, run.data.metrics, len(run.data.params), run.data.tags.get("mlflow.parentRunId"))
 for run in mlflow.search_runs(experiment_names=["flowers"], output_format="list")]
"""
FIT = """
import torch, lightning as L, mlflow.pytorch
mlflow.pytorch.autolog(log_models=False)

class Line(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, n):
        loss = self.layer(batch[0]).pow(2).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(16, 1)), batch_size=4)
L.Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_progress_bar=False,
          enable_model_summary=False, enable_checkpointing=False).fit(Line(), data)
"""


def runs(nb):
    """{name: (status, metrics, number of parameters, id of the parent)}"""
    return {name: tuple(rest) for name, *rest in ast.literal_eval(nb.ok(RUNS, limit=60).value)}


@pytest.fixture
def tracked(nb, tmp_path):
    nb.ok(HOME % (str(tmp_path), tmp_path), limit=120)
    nb.ok("%%distribute -n 2\nimport mlflow, cellspan, logging\nlogging.disable(logging.INFO)", limit=120)
    return nb


def test_what_ranks_log_goes_into_homes_run(tracked):
    tracked.ok("mlflow.start_run(run_name='job')")
    tracked.ok("%%distribute\nmlflow.log_metric(f'loss{cellspan.rank()}', 0.5 + cellspan.rank())")
    tracked.ok("%%distribute\nwith mlflow.start_run():\n    mlflow.log_metric(f'again{cellspan.rank()}', 1)\n"
               "with mlflow.start_run():\n    mlflow.log_metric(f'twice{cellspan.rank()}', 2)")
    tracked.ok("mlflow.end_run()")
    assert runs(tracked) == {"job": ("FINISHED", {"loss0": 0.5, "loss1": 1.5, "again0": 1, "again1": 1, "twice0": 2, "twice1": 2}, 0, None)}


def test_the_next_run_of_home_is_the_next_one_of_the_ranks(tracked):
    for name, status in (("first", "FAILED"), ("second", "FINISHED")):
        tracked.ok("mlflow.start_run(run_name=%r)" % name)
        tracked.ok("%%%%distribute\nmlflow.log_metric('in %s', cellspan.world_size())" % name)  # leaves the run active on the ranks
        tracked.ok("mlflow.end_run(%r)" % status)
    assert runs(tracked) == {"first": ("FAILED", {"in first": 2}, 0, None), "second": ("FINISHED", {"in second": 2}, 0, None)}
    assert tracked.ok("%%distribute --gather\nmlflow.active_run()").value == "[None, None]"


def test_nested_runs_of_ranks_are_children_of_homes(tracked):
    parent = ast.literal_eval(tracked.ok("mlflow.start_run(run_name='search').info.run_id").value)
    tracked.ok("%%distribute\nwith mlflow.start_run(nested=True, run_name=f'trial {cellspan.rank()}'):\n    mlflow.log_metric('score', cellspan.rank())")
    tracked.ok("mlflow.end_run()")
    assert runs(tracked) == {
        "search": ("FINISHED", {}, 0, None),
        "trial 0": ("FINISHED", {"score": 0}, 0, parent),
        "trial 1": ("FINISHED", {"score": 1}, 0, parent),
    }


@pytest.mark.limit(400)
def test_only_rank_0_logs_automatically(tracked):
    tracked.ok("mlflow.start_run(run_name='lightning')")
    tracked.ok("%%distribute\n" + FIT, limit=300)
    tracked.ok("mlflow.end_run()")
    (status, metrics, parameters, _), = runs(tracked).values()
    assert status == "FINISHED" and parameters > 5 and "train_loss" in metrics, (status, metrics, parameters)


def test_a_script_logs_into_homes_run(tracked, tmp_path):
    (tmp_path / "log.py").write_text("import mlflow, os\nmlflow.log_metric('rank' + os.environ['RANK'], 1)\n")
    tracked.ok("mlflow.start_run(run_name='script')")
    tracked.ok(f"%distribute -n 2 {tmp_path / 'log.py'}", limit=120)
    tracked.ok("mlflow.end_run()")
    assert runs(tracked)["script"][:2] == ("FINISHED", {"rank0": 1, "rank1": 1})
