# SPDX-License-Identifier: BSD-3-Clause
"""Objects that home has made for its own world: ranks would train alone with them, without a word. So they are an error."""

from __future__ import annotations

import pytest
from packages import needs

needs("torch")

HOME = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Shard, distribute_tensor
data = torch.arange(8.)
sampler = torch.utils.data.DistributedSampler(data, num_replicas=1, rank=0)
loader = torch.utils.data.DataLoader(data, sampler=sampler)
class Divided(torch.utils.data.DistributedSampler):
    pass
divided = {"train": [Divided(data, 1, 0)]}
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
net = torch.nn.Linear(1, 1)
ddp = torch.nn.parallel.DistributedDataParallel(net)
group = dist.group.WORLD
mesh = init_device_mesh("cpu", (1,))
spread = distribute_tensor(torch.ones(4), mesh, [Shard(0)])
sharded = torch.nn.Linear(1, 1)
fully_shard(sharded, mesh=mesh)
zero = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1)
class Holder:
    pass
tied = Holder()
tied.net, tied.ddp = net, ddp
def uses():
    return len(sampler)
"""
MADE = {
    "sampler": "a DistributedSampler",
    "loader": "loader.sampler: a DistributedSampler",
    "divided": "divided['train'][0]: a DistributedSampler",
    "ddp": "a DistributedDataParallel",
    "group": "a ProcessGroup",
    "mesh": "a DeviceMesh",
    "spread": "a DTensor",
    "sharded": "an FSDPModule",
    "tied": "tied.ddp: a DistributedDataParallel",
    "zero": "a ZeroRedundancyOptimizer",
}
WHY = "knows only the world in which it was made, and that is home: make it in the distributed cell"


@pytest.mark.limit(400)
def test_what_home_made_for_its_own_world_is_an_error(nb):
    nb.ok(HOME, limit=120)
    nb.ok("%%distribute -n 2\nran = 1", limit=120)
    for name, what in MADE.items():
        cell = nb.run("%%%%distribute -n 2\nran = 2\n%s" % name, limit=60).assert_error("CaptureError")
        assert cell.error["evalue"] == "%s was not sent: %s %s" % (name, what, WHY), cell.shown
        assert "was not sent" not in cell.stderr, "it is said once"
    assert nb.ok("%%distribute -n 2 --gather\nran").value == "[1, 1]", "nothing has run"
    cell = nb.run("import cellspan\ncellspan.run(lambda given: 1, ddp, n=2)", limit=60).assert_error("TypeError")
    assert "a DistributedDataParallel " + WHY in cell.error["evalue"]
    cell = nb.run("%push sampler", limit=60).assert_error("CaptureError")
    assert "sampler was not sent: a DistributedSampler" in cell.error["evalue"]


# Stand-ins for classes of datasets and transformers, which are known by module and name.
ELSEWHERE = '''
import sys, types
def stand_in(module, name):
    sys.modules[module] = types.ModuleType(module)
    setattr(sys.modules[module], name, type(name, (), {"__module__": module}))
    return getattr(sys.modules[module], name)()
class Stream:
    pass
split, shard, sampler_of_hf = Stream(), Stream(), Stream()
split._distributed = stand_in("datasets.iterable_dataset", "DistributedConfig")
shard.of = stand_in("transformers.trainer_pt_utils", "IterableDatasetShard")
sampler_of_hf.of = stand_in("transformers.trainer_pt_utils", "ShardSampler")
'''


def test_parts_of_datasets_that_libraries_made_for_homes_world_are_an_error(nb):
    nb.ok(ELSEWHERE)
    for name, what in {"split": "_distributed: a DistributedConfig", "shard": "of: an IterableDatasetShard", "sampler_of_hf": "of: a ShardSampler"}.items():
        cell = nb.run("%%%%distribute -n 2\n%s" % name, limit=60).assert_error("CaptureError")
        assert cell.error["evalue"] == "%s was not sent: %s.%s %s" % (name, name, what, WHY), cell.shown


@pytest.mark.limit(400)
def test_ranks_use_what_they_have_made_themselves(nb):
    nb.ok("%ranks stop")
    nb.ok("import torch\nsampler = torch.utils.data.DistributedSampler(range(8), 1, 0)\ndef uses():\n    return len(sampler)", limit=120)
    nb.ok("%%distribute -n 2\nimport torch, cellspan\nrank = cellspan.rank()\nsampler = torch.utils.data.DistributedSampler(range(8), 2, rank)", limit=120)
    for _ in range(2):
        cell = nb.ok("%%distribute -n 2 --gather\n(len(sampler), uses())", limit=60)
        assert cell.value == "[(4, 4), (4, 4)]" and "not sent" not in cell.stderr, cell.shown
    nb.ok("sampler.set_epoch(3)")
    assert nb.ok("%%distribute -n 2 --gather\nlen(sampler)", limit=60).value == "[4, 4]", "a change in place never replaces theirs"
    assert nb.ok("%%distribute -n 2 --gather\nif rank < 2:\n    sampler = list(range(rank))\nlen(sampler)", limit=60).value == "[0, 1]"
    assert nb.ok("%pull sampler -r 1\nsampler").value == "[0]"
    nb.ok("sampler = torch.utils.data.DistributedSampler(range(8), 1, 0)")
    told = nb.run("%%distribute -n 2\nlen(sampler)", limit=60).assert_error("CaptureError")
    assert "sampler was not sent" in told.error["evalue"], "assigned anew, it would replace theirs"
    nb.ok("%ranks stop")
    cell = nb.run("%%distribute -n 2\nuses()", limit=60).assert_error("NameError")
    assert "sampler was not sent: a DistributedSampler " + WHY in cell.stderr
    nb.ok("%%distribute -n 2\nimport torch, cellspan\nmine = torch.utils.data.DistributedSampler(range(8), 2, cellspan.rank())", limit=60)
    assert nb.ok("%pull mine -r 1\n(mine.rank, len(mine))", limit=60).value == "(1, 4)", "home can look at it"
