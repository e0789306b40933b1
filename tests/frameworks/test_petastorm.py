"""Petastorm's readers by shard, without Spark: make_batch_reader() reads plain Parquet."""

from __future__ import annotations

import ast

import pytest

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
