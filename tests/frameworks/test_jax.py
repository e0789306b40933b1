# SPDX-License-Identifier: BSD-3-Clause
"""JAX over the processes of the ranks: jax.distributed.initialize() finds them without arguments."""

from __future__ import annotations

import ast

import pytest
from client import by_rank

SUM = """
import jax, numpy as np
jax.distributed.initialize()
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def total(shard):
    return jax.lax.psum(shard, "ranks")

mesh = Mesh(np.array(jax.devices()), ("ranks",))
mine = np.full((1, 2), jax.process_index() + 1.0, np.float32)
whole = jax.make_array_from_process_local_data(NamedSharding(mesh, P("ranks")), mine)
summed = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P("ranks"), out_specs=P()))(whole)
from jax.experimental import multihost_utils
everyone = multihost_utils.process_allgather(np.array([jax.process_index()]))
"""
FACTS = "jax.process_index(), jax.process_count(), len(jax.devices()), len(jax.local_devices()), np.asarray(summed).tolist(), everyone.ravel().tolist()\n"


def told(n):
    return [(k, n, n, 1, [[n * (n + 1) / 2] * 2], list(range(n))) for k in range(n)]


def of_ranks(nb, options, code):
    return ast.literal_eval(nb.ok("%%%%distribute %s --gather\n%s" % (options, code), limit=150).value)


@pytest.mark.limit(300)
def test_psum_over_processes_also_in_another_world(nb):
    nb.ok("%ranks stop")
    for n in (2, 3):
        assert of_ranks(nb, "--fresh -n %d" % n, SUM + FACTS) == told(n)
    nb.ok("%ranks stop")
    assert of_ranks(nb, "-n 2", SUM + FACTS) == told(2)
    assert of_ranks(nb, "", "np.asarray(jax.jit(jnp.sum)(whole)).item()") == [6.0, 6.0], "JAX stays between cells"


@pytest.mark.limit(300)
def test_a_script(nb, tmp_path):
    script = tmp_path / "sum.py"
    script.write_text(SUM + "print('=', [" + FACTS.strip() + "])\n")
    cell = nb.ok("%%distribute -n 2 %s" % script, limit=150)
    for rank, of_rank in enumerate(told(2)):
        assert [line for line in by_rank(cell.stdout)[rank] if line.startswith("=")] == ["= %s" % list(of_rank)], cell.shown


@pytest.mark.limit(300)
def test_beside_torch_distributed(nb):
    code = SUM + "import torch, torch.distributed as dist\nt = torch.ones(1)\ndist.all_reduce(t)\njax.process_count(), t.item()"
    nb.ok("%ranks stop")  # JAX of the tests before
    assert of_ranks(nb, "-n 2 --init", code) == [(2, 2.0)] * 2
