# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on doubles of GPUs that use the double of NCCL: %ranks check, variables from GPU to GPU, collectives that are aborted."""

from __future__ import annotations

import ast
import os
import signal

import processes
import pytest
from client import Notebook, by_rank, values
from packages import needs
from test_gpus import HOST, QUICK, SEEN, Machine, book, doubles, gpus  # noqa: F401  (fixtures)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory, doubles):
    """A notebook for tests that share it, and its machine."""
    needs("torch")
    machine = Machine(tmp_path_factory.mktemp("machine"), doubles)
    nb = Notebook(env=dict(machine.environment, **QUICK))
    yield nb, machine
    nb.close()
    assert not nb.left


@pytest.fixture
def four(kernel):
    """The shared notebook on a machine with four GPUs, and without ranks."""
    nb, machine = kernel
    machine.set("count 4")
    nb.ok("%ranks stop")
    return nb


HANGS = "%%distribute -n 4\nimport os\nos.environ['CELLSPAN_DOUBLE_NCCL'] = 'hang'"  # broadcasts end by themselves on none of these ranks


def test_the_check_measures_with_nccl(book):
    nb = book()
    nb.ok("%%distribute -n 2\n1")
    shown = nb.ok("%ranks check", limit=150).shown
    assert "NCCL" in shown and "all_reduce" in shown.replace("-", "_") and "busbw" in shown.replace(" ", "").lower().replace("(gb/s)", ""), shown


@pytest.mark.parametrize("machine, options", [(["count 4"], "-n 2 --share"), (["count 1", "mig 0 2"], "-n gpu")])
def test_ranks_that_nccl_would_refuse_are_checked_by_tcp(kernel, four, machine, options):
    kernel[1].set(*machine)
    nb = four
    nb.ok("%%%%distribute %s\n1" % options)
    shown = nb.ok("%ranks check", limit=150).shown
    assert "NCCL can't be checked: ranks share GPUs" in shown and "tcp" in shown, shown


@pytest.mark.parametrize("env, options", [({}, "--env NCCL_MULTI_RANK_GPU_ENABLE=1"), ({"NCCL_MULTI_RANK_GPU_ENABLE": "1"}, "")])
def test_ranks_on_one_gpu_use_nccl_where_it_accepts_them(book, gpus, kernel, four, env, options):
    """Since NCCL 2.30 there is such a setting. Ranks that were started without it don't use NCCL until --fresh."""
    machine = gpus if env else kernel[1]
    machine.set("count 1")
    nb = book(**env, **QUICK) if env else four
    nb.ok(BIG % 7)
    assert values(nb.ok(SEEN.replace("-n 4", "-n 2 --share " + options))) == [(True, 7.0, 2_000_000)] * 2
    assert "all 2 ranks over NCCL" in nb.ok("%ranks check", limit=150).shown
    later = "%%distribute --gather\nimport os\nos.environ['NCCL_MULTI_RANK_GPU_ENABLE'], os.environ['CELLSPAN_GPUS']"
    assert values(nb.ok(later)) == [("1", "1")] * 2, "NCCL may be first used in any cell"
    nb.ok("%%distribute -n 2 --share --fresh --env NCCL_MULTI_RANK_GPU_ENABLE=0\n1")
    nb.ok("%%distribute --env NCCL_MULTI_RANK_GPU_ENABLE=1\n1")
    assert "NCCL can't be checked: ranks share GPUs" in nb.ok("%ranks check", limit=150).shown


def test_the_first_cell_that_broadcasts_has_its_settings_in_place(four):
    """NCCL reads its settings once: those of the cell are there before its variables come by NCCL."""
    nb = four
    nb.ok(BIG % 7)
    cell = nb.ok("%%distribute -n 2 --env NCCL_DEBUG=WARN --gather\nimport cellspan._worker.gpus\nlen(big), cellspan._worker.gpus._nccl_read.get('NCCL_DEBUG')")
    assert values(cell) == [(2_000_000, "WARN")] * 2 and "too late" not in cell.stderr
    cell = nb.ok("%%distribute --env NCCL_DEBUG=INFO\n1")
    assert "--env NCCL_DEBUG=INFO has no effect" in cell.stderr and "--fresh" in cell.stderr, cell.stderr
    assert "too late" not in nb.ok("%%distribute --fresh --env NCCL_DEBUG=INFO\n1").stderr


def test_after_an_error_that_ends_the_context_it_is_said_which_rank_to_restart(four):
    nb = four
    cell = nb.run("%%distribute -n 2\nimport os\nif os.environ['RANK'] == '1':\n"
                  "    raise RuntimeError('CUDA error: device-side assert triggered')")
    cell.assert_error("RuntimeError")
    assert "rank 1 can't use its GPU any more" in cell.shown and "%ranks restart -r 1" in cell.shown, cell.shown
    assert nb.ok("%%distribute -r 0\n1").value == "1"


# No torch here has CUDA: home only says that its tensors lie on a GPU. On the ranks they are in host memory then.
BIG = """import torch, cellspan._capture.tensors
cellspan._capture.tensors.Storage.device = 'cuda'
big = torch.arange(2_000_000.0, dtype=torch.float64)
big[-1] = %d"""


def test_big_variables_go_from_gpu_to_gpu(four):
    nb = four
    nb.ok(BIG % 7 + "\nsmall = 5")
    assert values(nb.ok(SEEN)) == [(True, 7.0, 2_000_000)] * 4
    nb.ok(BIG % 8)
    assert values(nb.ok(SEEN)) == [(True, 8.0, 2_000_000)] * 4
    assert nb.ok("%%distribute\nsmall").value == "5"
    nb.ok("big[0] = 3")
    nb.ok("%push big")
    assert values(nb.ok("%%distribute --gather\nfloat(big[0])")) == [3.0] * 4


def test_small_ones_and_those_of_ranks_without_gpus_go_as_ever(four):
    nb = four
    nb.ok(BIG % 7 + "\nbig = torch.arange(10.0)")
    assert values(nb.ok(SEEN)) == [(False, 9.0, 10)] * 4
    nb.ok(BIG % 7)
    assert values(nb.ok(SEEN.replace("-n 4", "-n 4 --no-gpu --fresh"))) == [(False, 7.0, 2_000_000)] * 4
    assert values(nb.ok(SEEN.replace("-n 4", "-n 4 --share --fresh"))) == [(False, 7.0, 2_000_000)] * 4


def test_what_lies_in_host_memory_is_mapped_by_all_ranks_of_one_machine(four):
    nb = four
    nb.ok(HOST % 7)
    assert values(nb.ok(SEEN)) == [(False, 7.0, 2_000_000)] * 4


def test_a_broadcast_that_fails_is_an_error_and_the_next_cell_works(book):
    """The kernel uses NCCL no more, and is no kernel for other tests."""
    needs("torch")
    nb = book(CELLSPAN_DOUBLE_NCCL="init-error")
    nb.ok(BIG % 7)
    cell = nb.run(SEEN)
    cell.assert_error("BroadcastError")
    assert "could not be sent between GPUs" in cell.error["evalue"]
    assert values(nb.ok(SEEN)) == [(True, 7.0, 2_000_000)] * 4


def test_a_broadcast_that_hangs_can_be_interrupted(four):
    nb = four
    nb.ok(BIG % 7)
    nb.ok(HANGS)
    cell = nb.start("%%distribute\nlen(big)")
    nb.wait(cell, 60, lambda: "running" in cell.shown and len([
        p for p in processes.marked(nb.marker) if b"libnccl" in processes.read(p, "maps")]) >= 4)  # control may overtake shell
    nb.control("interrupt_request")
    nb.wait(cell)
    assert cell.status == "error"
    assert nb.ok("%%distribute\n1").value == "1"


def listens_for_nccl(pid):
    """Has this rank opened the double's socket for the next rank? The last rank has none."""
    with open("/proc/net/unix", encoding="utf-8") as file:
        inodes = {f"socket:[{line.split()[6]}]" for line in file if "@nccl-" in line}
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") in inodes for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:  # a descriptor that was closed meanwhile
        return False


def test_a_rank_that_dies_in_a_broadcast_takes_nobody_along(four):
    nb = four
    nb.ok(BIG % 7)
    nb.ok(HANGS)
    pids = nb.rank_pids(4)
    cell = nb.start("%%distribute\nlen(big)")
    nb.wait(cell, 60, lambda: b"libnccl" in processes.read(pids[3], "maps") and all(map(listens_for_nccl, pids[:3])))
    os.kill(pids[1], signal.SIGKILL)
    nb.wait(cell)
    cell.assert_error("RankDied")
    assert [processes.alive(pid) for pid in pids] == [True, False, True, True]
    assert nb.ok("%%distribute\n1").value == "1"


# A communicator over the double, as torch's would be one: its all-reduce returns when it is aborted, and not before.
COMM = """%%distribute -n 3
import os, time, cellspan._link as link, cellspan._worker.gpus as gpus
rank = int(os.environ['RANK'])
gpus.nccl()
"""


def test_a_failed_rank_aborts_the_communicators_of_the_others(four):
    nb = four
    nb.ok(COMM + "identity = gpus.unique_id().hex() if rank == 0 else ''")
    identity = ast.literal_eval(nb.ok("%%distribute --gather\nidentity").value)[0]
    nb.ok("identity = %r" % identity)
    cell = nb.start("""%%distribute --grace 90s
import signal
if rank == 2:
    names = ['@nccl-%s-%d' % (bytes.fromhex(identity)[:32].decode(), k) for k in (0, 1)]
    while not all(name in open('/proc/net/unix').read() for name in names):
        time.sleep(0.02)  # until the others are in there
    raise ValueError('out')
signal.signal(signal.SIGINT, signal.SIG_IGN)  # only an abort can get it out of there
try:
    broadcast = link.broadcast_open(gpus.device(), bytes.fromhex(identity), rank, 3, 0, 1000.0)
finally:
    print('back', flush=True)
""")
    nb.wait(cell, 150)
    cell.assert_error("ValueError")
    assert by_rank(cell.stdout) == {0: ["back"], 1: ["back"]}, "they were not killed: " + cell.shown
    assert nb.ok("%%distribute\n1").value == "1"


def test_without_nccl_big_ones_go_as_ever_and_one_line_says_why(four):
    """The last one, since the kernel that the tests share uses NCCL no more."""
    nb = four
    nb.ok(BIG % 7)
    cell = nb.ok(SEEN.replace("-n 4", "-n 4 --env CELLSPAN_NCCL_LIBRARY=/nowhere/libnccl.so"))
    assert values(cell) == [(False, 7.0, 2_000_000)] * 4
    assert cell.stderr.count("variables don't go from GPU to GPU: ") == 1 and "/nowhere/libnccl.so" in cell.stderr
    nb.ok(BIG % 8)
    again = nb.ok(SEEN)
    assert values(again) == [(False, 8.0, 2_000_000)] * 4 and "GPU to GPU" not in again.stderr
