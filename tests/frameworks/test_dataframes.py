# SPDX-License-Identifier: BSD-3-Clause
"""TorchDistributor._train_on_dataframe with tables of Arrow and of Spark, read by cellspan's loader and by pyspark's own."""

from __future__ import annotations

import pytest
from client import values

BEGIN = """
from cellspan.torch import TorchDistributor
def read(samples, batch, whose="cellspan.torch"):
    import importlib, warnings
    warnings.simplefilter("ignore")
    loader = importlib.import_module(whose)._get_spark_partition_data_loader(samples, batch, 0)
    return [[column.tolist() for column in row] + [str(row[0].dtype)] for row in loader]

def all_ranks(samples, batch, whose):
    import os, torch.distributed as dist
    dist.init_process_group("gloo")
    every = [None] * int(os.environ["WORLD_SIZE"])
    dist.all_gather_object(every, read(samples, batch, whose))
    dist.destroy_process_group()
    return every

two = TorchDistributor(2, local_mode=False, use_gpu=False)
"""
ARROW = """
import pyarrow as pa
table = pa.table({"x": pa.array([0.5, 1.5, 2.5, 3.5], pa.float32()), "n": pa.array([1, 2, 3, 4], pa.int64()),
                  "v": pa.array([[k, k + 0.25] for k in range(4)], pa.list_(pa.float64()))})
"""
SPARK = """
import sys, os
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from pyspark.ml.linalg import Vectors
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
         .config("spark.driver.host", "127.0.0.1").getOrCreate())
rows = spark.sparkContext.parallelize([(0.5, 1, [0.0, 0.25], Vectors.dense(1.0, 2.0)), (1.5, 2, [1.0, 1.25], Vectors.sparse(2, [1], [3.0])),
                                       (2.5, 3, [2.0, 2.25], Vectors.dense(5.0, 6.0)), (3.5, 4, [3.0, 3.25], Vectors.dense(7.0, 8.0))], 2)
frame = spark.createDataFrame(rows, ["x", "n", "v", "w"])
"""
SHARDS = [
    [[[0.5, 1.5], [1, 2], [[0.0, 0.25], [1.0, 1.25]]], [[0.5], [1], [[0.0, 0.25]]]],
    [[[2.5, 3.5], [3, 4], [[2.0, 2.25], [3.0, 3.25]]], [[2.5], [3], [[2.0, 2.25]]]],
]
LOADERS = ("cellspan.torch", "pyspark.ml.torch.distributor")


@pytest.fixture(scope="module")
def book(shared_notebook):
    notebook = shared_notebook.get()
    notebook.ok(BEGIN, limit=60)
    return notebook


def without_types(shards):
    return [[row[:3] for row in shard] for shard in shards]


@pytest.mark.parametrize("whose", LOADERS)
def test_a_table_of_arrow(book, whose):
    book.ok(ARROW)
    found = values(book.ok(f"two._train_on_dataframe(all_ranks, table, 3, 2, {whose!r})", limit=120))
    assert without_types(found) == SHARDS
    batch = values(book.ok("two._train_on_dataframe(read, table.to_batches()[0], 3, 2)", limit=120))
    assert [row[:3] for row in batch] == SHARDS[0]


def test_tables_of_arrow_that_no_tensor_can_hold(book):
    book.ok(ARROW)
    for made, why in (
        ("pa.table({'n': pa.array([1, None])})", "column 'n' has no value in row 1"),
        ("pa.table({'x': pa.array([0.5, None])})", "column 'x' has no value in row 1"),
        ("pa.table({'v': pa.array([[0.5], [0.5, None]])})", "column 'v' has None in the list of row 1"),
        ("pa.table([pa.array([1, 2]), pa.array([3, 4])], names=['x', 'x'])", "two columns of the table have the name 'x'"),
        ("table[:1]", "Empty Spark partition is not allowed"),
    ):
        cell = book.run(f"two._train_on_dataframe(read, {made}, 1, 1)").assert_error("ValueError")
        assert why in cell.reply["evalue"], cell.reply["evalue"]


@pytest.mark.limit(400)
def test_a_dataframe_of_spark(book):
    book.ok(SPARK, limit=180)
    for whose in LOADERS:
        found = values(book.ok(f"two._train_on_dataframe(all_ranks, frame.drop('w'), 3, 2, {whose!r})", limit=120))
        assert without_types(found) == SHARDS, whose
    [first, _] = values(book.ok("two._train_on_dataframe(read, frame.select('w'), 3, 2)", limit=120))
    assert first == [[[1.0, 2.0], [0.0, 3.0]], "torch.float64"]
    cell = book.run("two._train_on_dataframe(read, frame.repartition(3), 1, 1)", limit=120).assert_error("ValueError")
    assert "requires setting num_processes equal to input spark dataframe partition number" in cell.reply["evalue"]
    assert "repartition(2)" in cell.reply["evalue"]
    book.ok("some = spark.createDataFrame(spark.sparkContext.parallelize([([0.5],), ([None],)], 2), 'v array<double>')")
    cell = book.run("two._train_on_dataframe(read, some, 1, 1)", limit=120).assert_error("ValueError")
    assert "column 'v' has None in the list of row 0 of partition 1" in cell.reply["evalue"], cell.reply["evalue"]
    book.ok("spark.stop()", limit=60)
