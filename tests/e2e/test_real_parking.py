# SPDX-License-Identifier: BSD-3-Clause
"""Idle ranks are parked on real GPUs: what the driver moves is what it was, and goes on. tests/gpu/run -k parked runs them;
tests/gpu/README.md says where each has been run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys

import processes
import pytest
from client import values
from realgpus import REAL, asked, book, machine, needs  # noqa: F401  (fixtures)

IDLE = {"CELLSPAN_GPU_IDLE": "park-or-keep", "CELLSPAN_GPU_IDLE_RELEASE": "3s"}
# A process that fills the first card until a line comes.
FILLS = """
import sys, torch
free, _ = torch.cuda.mem_get_info(0)
held = torch.empty(int(free * 0.9), dtype=torch.uint8, device="cuda:0")
held.fill_(1)
torch.cuda.synchronize()
print("full", flush=True)
sys.stdin.readline()
"""


def driver():
    """0: there is none, or the doubles play it."""
    found = asked("driver_version") if REAL and shutil.which("nvidia-smi") else {}
    return int(next(iter(found.values()), "0").split(".")[0])


def parks(driver_from=570):
    return pytest.mark.skipif(driver() < driver_from, reason="needs a driver from %d on, this is %d" % (driver_from, driver()))


def parked(nb, code, n=1):
    """Runs the cell, and waits until its ranks are parked."""
    cell = nb.ok("%%%%distribute -n %d\n%s" % (n, code), limit=300)
    nb.wait_shown(cell, "free for others; the next cell on ranks brings", limit=120)
    return cell


def used(gpu=0):
    return int(asked("memory.used")[gpu])  # MiB


class Filled:
    """The first card is full as long as the block runs."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", FILLS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "full\n"

    def __exit__(self, *_):
        self.process.communicate("\n", timeout=60)


TENSORS = """
import torch
torch.manual_seed(1)
big = torch.randn(512, 1024, 1024, device="cuda")  # 2 GiB
some = [torch.arange(k * 1000, device="cuda") for k in range(1, 200)]
gone = torch.empty(1 << 30, dtype=torch.uint8, device="cuda"); del gone  # cached by torch's allocator
sums = [big.double().sum().item(), *(int(t.sum()) for t in some)]
"""


@needs(1)
@parks()
def test_a_card_that_was_full_meanwhile_gives_back_equal_values(book):  # noqa: F811
    nb = book(**IDLE)
    before = used()
    parked(nb, TENSORS)
    assert used() < before + 500, "the card is free"
    with Filled():
        pass
    assert values(nb.ok("%%distribute --gather\nsums == [big.double().sum().item(), *(int(t.sum()) for t in some)]", limit=300)) == [True]


TRAINS = """
import torch
def start():
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)).cuda()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3), torch.randn(512, 256, device="cuda")
def steps(model, optimizer, data, n):
    for _ in range(n):
        optimizer.zero_grad()
        loss = (model(data) ** 2).mean()
        loss.backward()
        optimizer.step()
    return loss.item()
torch.use_deterministic_algorithms(True)
one, two = start(), start()
all_at_once = steps(*one, 40)
half = steps(*two, 20)
"""


@needs(1)
@parks()
def test_a_parked_optimizer_goes_on_as_one_that_was_not(book):  # noqa: F811
    nb = book(CUBLAS_WORKSPACE_CONFIG=":4096:8", **IDLE)
    parked(nb, TRAINS)
    assert values(nb.ok("%%distribute --gather\nsteps(*two, 20) == all_at_once", limit=300)) == [True]


GRAPH = """
import torch
stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
pinned = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
static = torch.zeros(1 << 20, device="cuda")
with torch.cuda.stream(stream):
    for _ in range(3):
        static.copy_(pinned, non_blocking=True)
        static.mul_(2)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    result = static * 3 + 1
"""


@needs(1)
@parks()
def test_parked_graphs_streams_and_pinned_memory_work_on(book):  # noqa: F811
    nb = book(**IDLE)
    parked(nb, GRAPH)
    cell = nb.ok("""%%distribute --gather
with torch.cuda.stream(stream):
    static.copy_(pinned, non_blocking=True)
    event.record()
torch.cuda.synchronize()
graph.replay()
torch.cuda.synchronize()
(bool(torch.equal(result.cpu(), pinned * 3 + 1)), pinned.is_pinned(), event.query())""", limit=300)
    assert values(cell) == [(True, True, True)]


@needs(1)
@parks()
def test_parked_ranks_stay_so_while_the_card_is_full(book):  # noqa: F811
    nb = book(**IDLE)
    parked(nb, TENSORS)
    with Filled():
        cell = nb.run("%%distribute\nbig.sum()", limit=300)
        assert cell.ename in ("RuntimeError", "RankDied"), cell.shown
    if cell.ename == "RankDied":
        pytest.fail("the driver has lost the rank instead of leaving it parked: %s" % cell.error["evalue"])
    assert values(nb.ok("%%distribute --gather\nsums[0] == big.double().sum().item()", limit=300)) == [True]


@needs(1)
@parks()
def test_parked_ranks_can_be_killed(book):  # noqa: F811
    nb = book(**IDLE)
    parked(nb, TENSORS)
    pids = processes.marked(nb.marker)
    os.kill(nb.pid, signal.SIGKILL)
    assert processes.wait_until(lambda: not any(map(processes.alive, pids)), 60)


@needs(1)
@parks()
def test_unified_memory_is_not_parked(book):  # noqa: F811
    nb = book(**IDLE)
    cell = nb.ok("""%%distribute -n 1
import ctypes, torch
torch.zeros(1, device="cuda")
pointer = ctypes.c_void_p()
assert ctypes.CDLL("libcuda.so.1").cuMemAllocManaged(ctypes.byref(pointer), ctypes.c_size_t(1 << 20), 1) == 0
x = 7""", limit=300)
    nb.wait_shown(cell, "can't be parked (", limit=120)
    assert "so it keeps its 1 GPU" in cell.shown, cell.shown
    assert values(nb.ok("%%distribute --gather\nx, float(torch.ones(3, device='cuda').sum())")) == [(7, 3.0)]


@needs(2, own=True)
@parks()
def test_parked_ranks_with_nccl_reduce_on(book):  # noqa: F811
    nb = book(**IDLE)
    cell = nb.ok("%%distribute -n 2 --init\nimport torch, torch.distributed as dist\none = torch.ones(1 << 20, device='cuda')\ndist.all_reduce(one)", limit=300)
    if driver() < 610:
        nb.wait_shown(cell, "which driver 610 or newer can move", limit=120)
    else:
        nb.wait_shown(cell, "are parked", limit=120)
    assert values(nb.ok("%%distribute --gather\ndist.all_reduce(one)\nfloat(one[0])", limit=300)) == [4.0, 4.0]


@needs(1)
@parks()
def test_parked_memory_moves_nearly_as_fast_as_a_copy(book, tmp_path):  # noqa: F811
    """20 GiB, as the log of cellspan-gpus has the times."""
    log = tmp_path / "log"
    nb = book(CELLSPAN_LOG="info:%s" % log, **IDLE)
    parked(nb, """
import time, torch
blocks = [torch.ones(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(20)]
to = torch.empty(1 << 30, dtype=torch.uint8).pin_memory()
torch.cuda.synchronize()
began = time.perf_counter()
for block in blocks:
    to.copy_(block)
torch.cuda.synchronize()
copied = time.perf_counter() - began
del to
""")
    copied = values(nb.ok("%%distribute --gather\ncopied", limit=300))[0]
    took = {word: float(s) for word, s in re.findall(r"GPU memory of \d+ process(?:es)? (left|came back) in ([\d.]+) s", log.read_text())}
    print("a copy: %.2f s, parked: %s" % (copied, took))
    assert took["left"] <= copied / 0.8 and took["came back"] <= copied / 0.8, (copied, took)
