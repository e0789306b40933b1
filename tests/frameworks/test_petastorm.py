# SPDX-License-Identifier: BSD-3-Clause
"""Petastorm's readers by shard, without Spark: make_batch_reader() reads plain Parquet."""

from __future__ import annotations

import ast

import pytest
from client import values

TABLE = """
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.table({"x": np.arange(30)}), %r, row_group_size=10)
url = "file://" + %r
"""
# The pool is "dummy", since Petastorm's own threads may end a short read before its first row, without an error, also outside of
# cellspan: they ask whether the workers are done, and then whether all was handed to them, which may have happened in between.
READ = """
import cellspan
from petastorm import make_batch_reader
with make_batch_reader(url, cur_shard=cellspan.rank(), shard_count=cellspan.world_size(), num_epochs=1, reader_pool_type="dummy") as reader:
    mine = sorted(int(x) for batch in reader for x in batch.x)
"""


@pytest.fixture
def table(nb, tmp_path):
    path = str(tmp_path / "table" / "part.parquet")
    (tmp_path / "table").mkdir()
    nb.ok(TABLE % (path, str(tmp_path / "table")), limit=60)


def test_ranks_read_a_table_by_shard_cell_after_cell(nb, table):
    for options in ("-n 2", "", "-n 3", "--fresh -n 2"):
        shards = ast.literal_eval(nb.ok("%%%%distribute %s --gather\n%s\nmine" % (options, READ), limit=120).value)
        assert all(shards) and sorted(sum(shards, [])) == list(range(30)), shards


@pytest.mark.limit(200)
def test_more_shards_than_row_groups_are_refused_in_petastorms_words(nb, table):
    cell = nb.run("%%distribute -n 4\n" + READ, 120).assert_error("NoDataAvailableError")
    assert "Number of row-groups in the dataset must be greater or equal to the number of requested shards" in cell.traceback, cell.traceback


SPARK = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from petastorm.spark import SparkDatasetConverter, make_spark_converter
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
         .config("spark.driver.host", "127.0.0.1").config(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file://" + %r).getOrCreate())
flowers = spark.createDataFrame([(float(k), [float(k), 2.0 * k], k %% 2) for k in range(64)], ["x", "pair", "label"])
converter = make_spark_converter(flowers.repartition(4))
len(converter)
"""
LOADER = """
import cellspan, torch
with converter.make_torch_dataloader(batch_size=8, num_epochs=1, cur_shard=cellspan.rank(), shard_count=cellspan.world_size(),
                                     reader_pool_type="dummy") as loader:
    batches = [(batch["x"].tolist(), tuple(batch["pair"].shape), batch["label"].sum().item()) for batch in loader]
[int(x) for xs, _, _ in batches for x in xs], batches[0][1]
"""


@pytest.fixture
def converter(fresh, tmp_path):
    notebook = fresh()
    assert notebook.ok(SPARK % str(tmp_path), limit=180).value == "64"
    yield notebook
    notebook.ok("converter.delete(); spark.stop()", limit=60)


TRAIN = """
from petastorm import TransformSpec

def doubled(frame):
    frame["y"] = frame["x"] * 2 / 64
    frame["x"] = frame["x"] / 64
    return frame[["x", "y"]]

def train_hvd():
    import horovod.torch as hvd, torch
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(1, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5), named_parameters=model.named_parameters())
    spec = TransformSpec(doubled, edit_fields=[("y", "float32", (), False)], selected_fields=["x", "y"])
    with converter.make_torch_dataloader(batch_size=8, num_epochs=None, cur_shard=hvd.rank(), shard_count=hvd.size(), transform_spec=spec,
                                         reader_pool_type="dummy") as loader:
        for step, batch in zip(range(200), loader):
            optimizer.zero_grad()
            loss = (model(batch["x"][:, None]) - batch["y"][:, None]).pow(2).mean()
            loss.backward()
            optimizer.step()
    return model.weight.item(), hvd.allgather(model.weight).flatten().tolist()

import cellspan.horovod
cellspan.horovod.install()
from sparkdl import HorovodRunner
HorovodRunner(np=-2).run(train_hvd)
"""


@pytest.mark.limit(400)
def test_a_converter_of_sparks_dataframe_on_ranks(converter):
    """The article's way: by shard, then in a loop of HorovodRunner with a function that transforms the rows."""
    for options in ("-n 2", "-n 4", "-n 2 --fresh"):
        found = values(converter.ok("%%%%distribute %s --gather\n%s" % (options, LOADER), limit=120))
        assert sorted(sum((rows for rows, _ in found), [])) == list(range(64)), found
        assert all(len(rows) == 64 // len(found) and shape == (8, 2) for rows, shape in found), found
    weight, all_weights = values(converter.ok(TRAIN, limit=180))
    assert abs(weight - 2) < 0.05 and all_weights == [weight] * 2


LIGHTNING = """
import logging, torch, lightning.pytorch as pl
import cellspan.horovod
cellspan.horovod.install()
import horovod.torch as hvd
from sparkdl import HorovodRunner

class Classifier(pl.LightningModule):
    def __init__(self, learning_rate, device_id):
        super().__init__()
        torch.manual_seed(device_id)
        self.layer, self.learning_rate = torch.nn.Linear(2, 2), learning_rate

    def loss(self, batch):
        return torch.nn.functional.cross_entropy(self.layer(batch["pair"] / 64), batch["label"])

    def training_step(self, batch, n):
        return self.loss(batch)

    def validation_step(self, batch, n):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.learning_rate)

class Flowers(pl.LightningDataModule):
    def __init__(self, converter, device_id, device_count):
        super().__init__()
        self.converter, self.place, self.open = converter, {"cur_shard": device_id, "shard_count": device_count}, []

    def train_dataloader(self):
        self.open.append(self.converter.make_torch_dataloader(batch_size=8, num_epochs=None, reader_pool_type="dummy", **self.place))
        return self.open[-1].__enter__()

    val_dataloader = train_dataloader

    def teardown(self, stage=None):
        while self.open:
            self.open.pop().__exit__(None, None, None)

def train(model, data, strategy):
    trainer = pl.Trainer(accelerator="cpu", devices=1, strategy=strategy, max_epochs=2, limit_train_batches=4, limit_val_batches=2, logger=False,
                         num_sanity_val_steps=0, reload_dataloaders_every_n_epochs=1, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(model, data)
    return model, trainer.global_step, hvd.allgather(model.layer.bias.detach()[None]).tolist()

def train_hvd():
    hvd.init()
    model = Classifier(1e-2 * hvd.size(), device_id=hvd.rank())
    return train(model, Flowers(converter, hvd.rank(), hvd.size()), "horovod")

hvd_model, steps, biases = HorovodRunner(np=-2).run(train_hvd)
type(hvd_model).__name__, steps, len(biases), biases[0] == biases[1]
"""


@pytest.mark.limit(400)
def test_lightning_with_a_converter_for_its_data(converter):
    assert values(converter.ok(LIGHTNING, limit=240)) == ("Classifier", 8, 2, True)
