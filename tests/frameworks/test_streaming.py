# SPDX-License-Identifier: BSD-3-Clause
"""Mosaic's StreamingDataset on ranks: it shards itself, also when a cell is run again."""

from __future__ import annotations

import ast

import pytest

STREAM = """
import streaming
with streaming.MDSWriter(out=%r, columns={"x": "int"}, size_limit=1 << 12) as writer:
    for x in range(2000):
        writer.write({"x": x})
"""
READ = """
import streaming, torch
data = streaming.StreamingDataset(local=%r, batch_size=4, shuffle=False)
[int(row["x"]) for row in torch.utils.data.DataLoader(data, batch_size=None)]
"""



@pytest.mark.limit(300)
def test_streaming_datasets_shard_themselves(nb, tmp_path):
    where = str(tmp_path / "stream")
    nb.ok(STREAM % where, limit=60)
    for _ in range(2):
        shards = ast.literal_eval(nb.ok("%%distribute -n 2 --gather --init\n" + READ % where, limit=120).value)
        assert [len(shard) for shard in shards] == [1000, 1000] and sorted(shards[0] + shards[1]) == list(range(2000))


@pytest.mark.limit(300)
def test_a_dataset_that_home_has_made_would_not_shard_itself(nb, tmp_path):
    where = str(tmp_path / "stream")
    nb.ok(STREAM % where + READ % where + "\nloader = torch.utils.data.DataLoader(data)", limit=120)
    for name in ("data", "loader"):
        told = nb.run("%%%%distribute -n 2\nnext(iter(%s))" % name, limit=120).assert_error("CaptureError").error["evalue"]
        assert told.startswith(name + " was not sent: ") and "a StreamingDataset" in told and told.endswith("make it in the distributed cell"), told
