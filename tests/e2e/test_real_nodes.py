# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on the GPUs of two machines or more: tests/gpu/run --on ENGINE:SPEC."""

from __future__ import annotations

import os
import re

import pytest
from client import by_rank, values
from realgpus import LATER, MUCH_LATER, ON, needs

BEGIN = "import os, torch, torch.distributed as dist\nrank = dist.get_rank()\n"


@pytest.fixture
def nb(fresh):
    """A node that stands still is lost when it would be shown as away: nobody waits for it."""
    return fresh(env={"CELLSPAN_RESUME": "0"})


# The interface that NCCL is told, and the one by which Linux reaches rank 0; None on rank 0's own machine.
INTERFACES = """import os, socket, subprocess
found = socket.getaddrinfo(os.environ['MASTER_ADDR'], 0)[0][4][0]
route = subprocess.run(['ip', 'route', 'get', found], capture_output=True, text=True).stdout.split()
usual = route[route.index('dev') + 1] if 'dev' in route and 'lo' not in route else None
(os.environ.get('NCCL_SOCKET_IFNAME', ''), usual)"""
# Is there what GPUDirect RDMA needs? By the module for it; whether a driver can do it by DMA-BUF is not told in files.
DIRECT = "import os\nany(os.path.isdir('/sys/module/' + name) for name in ('nvidia_peermem', 'nv_peer_mem'))"


@needs(0, nodes=2)
def test_the_first_check_uses_the_named_interface(fresh):
    nb = fresh(env={"NCCL_DEBUG": "INFO"})
    nb.ok("%%%%distribute -n gpu --on %s\n1" % ON, limit=400)
    shown = nb.ok("%ranks check", limit=300).shown
    assert "over nccl" in shown.lower() or "NCCL" in shown, shown
    for name, usual in values(nb.ok("%%distribute --gather\n" + INTERFACES)):
        assert name.startswith("=") and (usual is None or usual == name[1:]), "%s, and rank 0's address is reached by %s" % (name, usual)
    if "mlx5" in shown:
        assert re.search(r"NET/IB", shown), "InfiniBand is there and not used:\n" + shown
        if all(values(nb.ok("%%distribute --gather\n" + DIRECT))):
            assert "GDRDMA" in shown, "GPUDirect is there and not used:\n" + shown


def die(nb, seconds):
    rows = values(nb.ok("%%%%distribute -n gpu --on %s --init --gather\n%skept = 7\nx = torch.ones(1, device='cuda')\ndist.all_reduce(x)\n(os.getpid(), os.environ['GROUP_RANK'])" % (ON, BEGIN), limit=400))
    last = len(rows) - 1
    cell = nb.start("%%%%distribute\nprint('begun', flush=True)\nif rank == %d:\n    import signal, time\n    time.sleep(5)\n    os.kill(os.getpid(), signal.SIGKILL)\ndist.all_reduce(x)\nx.item()" % last)
    nb.wait(cell, 120)
    cell.assert_error("RankDied")
    nb.ok("import time\ntime.sleep(%d)" % seconds, limit=seconds + 60)  # their processes are on other machines: asked afterwards
    again = values(nb.ok("%%%%distribute -r 0-%d --gather\n(os.getpid(), kept)" % (last - 1)))
    assert again == [(pid, 7) for pid, _ in rows[:last]]


@needs(0, nodes=2)
@pytest.mark.parametrize("ib", ["", "1"])
def test_survivors_on_other_machines_keep_their_variables(fresh, ib):
    die(fresh(env={"NCCL_IB_DISABLE": ib} if ib else None), LATER)


@needs(0, nodes=2, soak=True)
def test_survivors_on_other_machines_live_long(nb):
    die(nb, MUCH_LATER)


# How a node is lost: its agent is killed and takes the ranks along, or all of them stand still. In the latter case the node clears
# up when its agent goes on.
LOSE = """def lose(how):
    import signal, subprocess, time
    agent = os.getppid()
    while 'cellspan-agent' not in open('/proc/%d/comm' % agent).read():
        agent = int(open('/proc/%d/stat' % agent).read().rpartition(')')[2].split()[1])
    time.sleep(5)
    if how == 'killed':
        os.kill(agent, signal.SIGKILL)
    elif os.environ['LOCAL_RANK'] == '0':
        later = ['sh', '-c', 'sleep 240; kill -CONT %d' % agent]
        subprocess.Popen(later, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.kill(agent, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def lose_node(nb, how, seconds):
    rows = values(nb.ok("%%%%distribute -n gpu --on %s --init --gather\n%s%skept = 7\nx = torch.ones(1, device='cuda')\ndist.all_reduce(x)\n(os.getpid(), int(os.environ['GROUP_RANK']))" % (ON, BEGIN, LOSE), limit=400))
    last = max(node for _, node in rows)
    pids = [pid for pid, node in rows if node != last]
    cell = nb.start("%%%%distribute\nprint('begun', flush=True)\nif os.environ['GROUP_RANK'] == '%d':\n    lose(%r)\ndist.all_reduce(x)\nx.item()" % (last, how))
    nb.wait(cell, 120)
    cell.assert_error("RankDied")
    assert "is gone" in cell.shown, cell.shown
    nb.ok("import time\ntime.sleep(%d)" % seconds, limit=seconds + 60)
    assert values(nb.ok("%%%%distribute -n %d --gather\n(os.getpid(), kept)" % len(pids))) == [(pid, 7) for pid in pids]
    again = nb.ok("%%%%distribute -n %d --init --gather\nx = torch.ones(1, device='cuda')\ndist.all_reduce(x)\nx.item()" % len(pids), limit=200)
    assert values(again) == [float(len(pids))] * len(pids)


@needs(0, nodes=2)
@pytest.mark.parametrize("how", ["killed", "silent"])
def test_a_lost_node_takes_no_other_node_along(nb, how):
    lose_node(nb, how, LATER)


@needs(0, nodes=2, soak=True)
def test_ranks_live_long_after_a_node_is_lost(nb):
    lose_node(nb, "silent", MUCH_LATER)


@needs(0, nodes=2)
def test_the_first_cell_sends_large_variables_with_its_settings(nb):
    nb.ok("import numpy\nbig = numpy.arange(2 << 20, dtype=numpy.float64)")
    cell = nb.ok("%%%%distribute -n gpu --on %s --env NCCL_DEBUG=INFO --gather\nfloat(big[-1])" % ON, limit=400)
    assert set(values(cell)) == {float((2 << 20) - 1)}
    assert "NCCL INFO" in cell.shown and "too late" not in cell.shown, cell.shown


@needs(0, nodes=2)
def test_inside_a_job_an_agent_sees_all_gpus_of_its_node(nb):
    """To be run in a job of sbatch --gpus-per-task=1 -n8, say, with --on slurm."""
    if not ON.startswith("slurm") or not os.environ.get("SLURM_JOB_ID"):
        pytest.skip("not inside a job of Slurm, with --on slurm")
    cell = nb.ok("%%%%distribute -n gpu --on %s\nimport os\nprint(os.environ['LOCAL_WORLD_SIZE'])" % ON, limit=400)
    most = max(int(lines[0]) for lines in by_rank(cell.stdout).values())
    assert most == int(os.environ.get("SLURM_GPUS_ON_NODE", most)), "one GPU a task, and not the node's"
