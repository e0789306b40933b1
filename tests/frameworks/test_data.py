# SPDX-License-Identifier: BSD-3-Clause
"""Data that ranks read by shard, with the real packages."""

from __future__ import annotations

import ast

import pytest

TABLE = """
import deltalake, numpy as np, pyarrow as pa
for part in range(5):
    deltalake.write_deltalake(%r, pa.table({"x": np.arange(part * 10, part * 10 + 10)}), mode="append")
table = deltalake.DeltaTable(%r)
"""
SHARD = """
import cellspan
fragments = list(table.to_pyarrow_dataset().get_fragments())
mine = [x for part in fragments[cellspan.rank()::cellspan.world_size()] for x in part.to_table()["x"].to_pylist()]
"""
UNEVEN = """
import torch, torch.distributed as dist
from torch.distributed.algorithms.join import Join
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
steps = 0
with Join([model]):
    for x in torch.tensor(mine).float().reshape(-1, 10, 1):
        model(x).mean().backward()
        steps += 1
steps
"""


def of_ranks(nb, code, limit=120):
    return ast.literal_eval(nb.ok("%%distribute -n 2 --gather\n" + code, limit=limit).value)


def test_a_delta_table_travels_by_path_and_version(nb, tmp_path):
    where = str(tmp_path / "table")
    nb.ok(TABLE % (where, where), limit=60)
    assert of_ranks(nb, "table.version(), table.to_pyarrow_dataset().count_rows()") == [(4, 50)] * 2
    nb.ok("deltalake.write_deltalake(%r, pa.table({'x': [50]}), mode='append')" % where)
    assert of_ranks(nb, "table.version(), table.to_pyarrow_dataset().count_rows()") == [(4, 50)] * 2, "home's object is as before"
    nb.ok("table.update_incremental()")
    assert of_ranks(nb, "table.version(), table.to_pyarrow_dataset().count_rows()") == [(5, 51)] * 2


def test_ranks_read_a_delta_table_by_shard(nb, tmp_path):
    where = str(tmp_path / "table")
    nb.ok(TABLE % (where, where), limit=60)
    shards = of_ranks(nb, SHARD + "sorted(mine)")
    assert [len(shard) for shard in shards] == [30, 20] and sorted(shards[0] + shards[1]) == list(range(50))


@pytest.mark.limit(300)
def test_uneven_shards_leave_no_rank_waiting(nb, tmp_path):
    where = str(tmp_path / "table")
    nb.ok(TABLE % (where, where), limit=60)
    assert ast.literal_eval(nb.ok("%%distribute -n 2 --gather --init\n" + SHARD + UNEVEN, limit=120).value) == [3, 2]


@pytest.mark.parametrize("kind", ["", ".to_iterable_dataset(num_shards=2)"])
def test_datasets_are_split_by_rank(nb, kind):
    nb.ok("import datasets\nfrom datasets.distributed import split_dataset_by_node\n"
          "data = datasets.Dataset.from_dict({'x': list(range(12))})" + kind, limit=60)
    shards = of_ranks(nb, "import cellspan\n"
                          "[row['x'] for row in split_dataset_by_node(data, rank=cellspan.rank(), world_size=cellspan.world_size())]")
    assert [len(shard) for shard in shards] == [6, 6] and sorted(shards[0] + shards[1]) == list(range(12))
