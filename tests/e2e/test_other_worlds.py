# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed's groups while cells run in worlds of other sizes than the one that made them."""

from __future__ import annotations

import socket

import pytest
from client import Notebook, rank_values
from packages import needs

needs("torch")

SUM = "import torch, torch.distributed as dist\nt = torch.ones(1)\ndist.all_reduce(t)\n(int(t), dist.get_world_size())"
IF_NEEDED = "import torch.distributed as dist\nif not dist.is_initialized():\n    dist.init_process_group('gloo')\n"
HINT = "the process group belongs to a world of 3 ranks, and this cell's world has 2: add --init"


@pytest.mark.limit(300)
def test_a_smaller_world_does_not_see_the_group_of_the_larger_one(nb):
    nb.ok("%%distribute -n 3 --fresh --init gloo\nimport torch.distributed as dist\nhalf = dist.new_group([0, 1])\n" + SUM, limit=120)
    assert rank_values(nb, "dist.is_initialized()", 2) == [False, False]
    for call in ("dist.all_reduce(t)", "dist.get_world_size()", "dist.barrier()"):
        # On one rank, where no other runs: on a busy machine it may fail so late that its connections are cut.
        error = nb.run("%%distribute -n 2 -r 0\n" + call, limit=60).assert_error("ValueError")
        assert HINT in error.error["evalue"] and HINT in error.traceback, error.error
    assert rank_values(nb, "dist.is_initialized()", 3) == [True] * 3
    assert nb.ok("%%distribute -n 3\n" + SUM, limit=60).value == "(3, 3)"
    nb.ok("%%distribute -n 3\nsome = dist.new_group([1, 2])", limit=60)
    code = "if dist.get_rank() < 2:\n    dist.all_reduce(t, group=half)\nif dist.get_rank():\n    dist.all_reduce(t, group=some)\nint(t)"
    assert nb.ok("%%distribute -n 3\nt = torch.ones(1)\n" + code, limit=60).value == "2", "its subgroups as well"
    assert nb.ok("%%distribute -n 3 -r 0,1\ndist.all_reduce(t, group=half)\n(int(t), dist.get_world_size())", limit=60).value == "(5, 3)"


def met(cell):
    """What the ranks have printed, without the lines in which gloo of torch 2.7 and 2.8 counts its connections."""
    return {line for line in cell.stdout.splitlines() if "[Gloo] " not in line}


@pytest.mark.limit(400)
def test_each_world_has_a_group_of_its_own(nb):
    port = "import os\nprint(os.environ['MASTER_PORT'], os.environ['TORCHELASTIC_RUN_ID'])\n"
    first = nb.ok("%%distribute -n 2 --fresh --init gloo --merge raw -r 0,1\n" + port + SUM, limit=120)
    pids = nb.rank_pids(2)
    for _ in range(2):
        for size in (4, 3):
            cell = nb.ok("%%%%distribute -n %d --init gloo\n" % size + SUM, limit=120)
            assert cell.value == "(%d, %d)" % (size, size)
        again = nb.ok("%%distribute -n 2 --merge raw\n" + port + SUM, limit=60)
        assert again.value == "(2, 2)" and met(again) == met(first), "it meets where it met"
    assert nb.rank_pids(2) == pids
    nb.ok("%%distribute -n 3\ndist.destroy_process_group()\ndist.init_process_group('gloo')\n" + SUM, limit=60)
    for size in (3, 2, 4):
        assert nb.ok("%%%%distribute -n %d\n" % size + SUM, limit=60).value == "(%d, %d)" % (size, size)


@pytest.mark.limit(400)
def test_cells_that_initialise_if_needed_work_in_any_world(nb):
    nb.ok("%ranks stop")
    for size in (2, 3, 2, 1, 3, 4):
        assert nb.ok("%%%%distribute -n %d\n" % size + IF_NEEDED + SUM, limit=120).value == "(%d, %d)" % (size, size)
    nb.ok("%%distribute -n 4 -r 0\ndist.destroy_process_group()")
    assert nb.ok("%%distribute -n 4 --init gloo\n" + SUM, limit=120).value == "(4, 4)", "all make another"
    nb.run("%%distribute -n 4 -r 3\nimport os\nos._exit(1)", limit=60).assert_error("RankDied")
    for size in (3, 4):
        assert nb.ok("%%%%distribute -n %d\n" % size + IF_NEEDED + SUM, limit=120).value == "(%d, %d)" % (size, size), "after a loss, too"


@pytest.mark.limit(400)
def test_a_wait_for_ranks_of_another_world_is_told():
    """Objects keep the group with which they were made; who waits in it waits for ranks that don't run the cell."""
    notebook = Notebook(env={"CELLSPAN_HANG_NOTICE": "2"})
    try:
        notebook.ok("%%distribute -n 3 --init gloo\nimport torch, torch.distributed as dist\nold = dist.group.WORLD", limit=120)
        cell = notebook.start("%%distribute -n 2\ndist.barrier(group=old)")
        notebook.wait(cell, 100, lambda: "%ranks where shows" in cell.stderr)
        assert "ranks 0-1 waited in barrier" in cell.stderr, cell.stderr
        assert "no rank of this cell is elsewhere; rank 2 does not run this cell, whose world has 2" in cell.stderr, cell.stderr
        notebook.control("interrupt_request")
        notebook.wait(cell, 60).assert_error("KeyboardInterrupt")
    finally:
        notebook.close()


@pytest.mark.limit(300)
def test_a_group_that_failed_on_a_rank_that_stays_does_not_keep_it_from_new_ones(nb):
    """torch counts the groups that it has named, also those that failed, and names the next one by that count. A new rank
    begins at 0."""
    nb.ok("%ranks stop")
    pids = nb.rank_pids(2)
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as taken:
        options = "-n 2 -r 0 --env MASTER_PORT=%d" % taken.getsockname()[1]
        cell = nb.run("%%distribute " + options + " --init gloo\nprint(1)", limit=60)
        assert "address already in use" in cell.error["evalue"].lower(), cell.error
    nb.run("%%distribute -n 2 -r 1\nimport os\nos._exit(1)", limit=60).assert_error("RankDied")
    assert nb.ok("%%distribute -n 2 --init gloo --timeout 30\n" + SUM, limit=60).value == "(2, 2)"
    assert nb.rank_pids(2)[0] == pids[0], "rank 0 is the one that failed"


AGAIN = "import time\nif dist.get_rank() == 0:\n    time.sleep(0.5)\n%sdist.destroy_process_group()\ndist.init_process_group('gloo')\n"


@pytest.mark.limit(300)
@pytest.mark.parametrize("kept", ["", "kept = dist.group.WORLD\n"], ids=["freed", "kept"])
def test_a_rank_that_is_faster_does_not_meet_in_the_store_of_the_group_that_was_destroyed(nb, kept):
    nb.ok("%%distribute -n 3 --fresh --init gloo\nimport torch.distributed as dist", limit=120)
    assert nb.ok("%%distribute -n 3\n" + AGAIN % kept + AGAIN % kept + SUM, limit=60).value == "(3, 3)"
    pids = nb.rank_pids(3)
    told = nb.run(
        "%%distribute -n 3 -r 1\nfrom datetime import timedelta\ndist.destroy_process_group()\n"
        "dist.init_process_group('gloo', timeout=timedelta(seconds=3))",
        limit=60,
    ).assert_error("DistStoreError")
    assert "rank 0 has made no new process group at 127.0.0.1:" in told.error["evalue"] and "within 3 s" in told.error["evalue"]
    assert nb.rank_pids(3) == pids


@pytest.mark.limit(400)
def test_a_cell_that_makes_the_group_runs_again(nb):
    nb.ok("%ranks stop")
    makes = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
    for size in (2, 2, 3, 2, 3):
        half = "half = dist.new_group([0])\nif dist.get_rank() == 0:\n    dist.destroy_process_group(half)\n"
        assert nb.ok("%%%%distribute -n %d\n" % size + makes + half + SUM, limit=120).value == "(%d, %d)" % (size, size)
    other = "from datetime import timedelta\ndist.init_process_group('gloo', timeout=timedelta(seconds=5))"
    for rank in range(2):  # in cells of their own: the connections of a rank that fails later than another one are cut
        told = nb.run("%%%%distribute -n 2 -r %d\n" % rank + other, limit=60).assert_error("ValueError").error["evalue"]
        assert "use it, or end it first by torch.distributed.destroy_process_group()" in told and "twice" in told, told
    nb.ok("%%distribute -n 2\ndist.destroy_process_group()\n" + makes + SUM, limit=60)
    nb.run("%%distribute -n 2 -r 1\nimport os\nos._exit(1)", limit=60).assert_error("RankDied")
    assert nb.ok("%%distribute -n 2\n" + makes + SUM, limit=120).value == "(2, 2)", "after a loss, too"
    nb.ok("import cellspan\ndef meets():\n    import torch.distributed as dist\n    dist.init_process_group('gloo')\n    return dist.get_world_size()")
    for _ in range(2):
        assert nb.ok("cellspan.run(meets, n=4)", limit=60).value == "4"
