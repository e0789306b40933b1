# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on the real GPUs of a machine where something is unusual: MIG, containers, other libraries, jobs side by side, a driver
outside of the loader's path. tests/gpu/run runs them. Those marked `doubles` run everywhere."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import processes
import pytest
from client import KERNEL, values
from jupyter_client.kernelspec import KernelSpecManager
from realgpus import RANK, SHARED, book, bus_ids, doubles, machine, needs, stay  # noqa: F401  (fixtures)
from test_gpus import FULL, in_time

CONFIG = pathlib.Path(__file__).resolve().parents[2] / ".build" / "build" / "config.h"


@needs(1)
def test_the_build_compared_its_declarations_with_this_machines_headers():
    text = CONFIG.read_text() if CONFIG.exists() else ""
    missing = [name for name in ("CUDA", "NCCL", "NVML") if "#define HAVE_%s_H 1" % name not in text]
    if missing:
        pytest.skip("%s has not found the headers of %s" % ("configure" if text else "without a build, it", ", ".join(missing)))


# ---- MIG


@pytest.fixture
def instances(machine):  # noqa: F811
    """How many MIG instances there are; skips where there is none."""
    if machine:
        machine.set("count 1", "mig 0 3")
        return 3
    out = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    found = re.findall(r"^\s+MIG .*\(UUID: (MIG-[^)]+)\)", out, re.M)
    if not found:
        pytest.skip("no GPU here is in MIG mode with instances (as root: nvidia-smi -mig 1; nvidia-smi mig -cgi 1g.10gb,1g.10gb -C)")
    return len(found)


@pytest.mark.doubles
def test_a_mig_ranks_driver_has_its_instance_alone(book, instances):  # noqa: F811
    code = "%%distribute -n gpu --gather\nimport os, cellspan._worker.gpus as gpus\n"
    rows = values(book().ok(code + "(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['CELLSPAN_LOCAL_GPUS'], len(gpus.devices()), gpus.device())"))
    mine = [row for row in rows if row[0].startswith("MIG-")]
    assert len({row[0] for row in mine}) == len(mine) == instances and all("," not in row[0] for row in mine), rows
    assert {row[1:] for row in mine} == {("0", 1, 0)}, rows


@needs(1)
def test_a_mig_ranks_cuda_0_is_its_instance(book, instances):  # noqa: F811
    n = min(instances, 2)
    nb = book()
    nb.ok("%%%%distribute -n %d\nimport os, torch" % n)
    if not all(values(nb.ok("%%distribute --gather\nos.environ['CUDA_VISIBLE_DEVICES'].startswith('MIG-')"))):
        pytest.skip("the first free GPUs are whole ones: CUDA_VISIBLE_DEVICES=MIG-… in the environment chooses instances")
    assert values(nb.ok("%%distribute --gather\n(torch.zeros(1, device='cuda').device.index, torch.cuda.device_count())")) == [(0, 1)] * n
    memory = values(nb.ok("%%distribute --gather\ntorch.cuda.get_device_properties(0).total_memory"))
    whole = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
    assert all(one <= max(map(int, whole.split())) << 20 for one in memory), (memory, whole)
    total = sum(range(n))
    code = "x = torch.ones(1) * rank\ndist.all_reduce(x)\ndist.barrier()\n(torch.cuda.current_device(), x.item())"
    assert values(nb.ok("%%distribute --init --gather\n" + RANK + code)) == [(0, total)] * n
    if n > 1:
        assert "instances of one" in nb.ok("%ranks check", limit=200).shown, "NCCL does not take two instances of one GPU"


# ---- containers


@pytest.fixture
def contained(tmp_path, monkeypatch):
    """The name of a kernelspec whose kernel has process numbers of its own, as in a container without --pid=host."""
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    unshare += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    try:
        tried = subprocess.run([*unshare, "true"], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare (util-linux) to make a pid namespace with")
    if tried.returncode:
        pytest.skip("no pid namespace can be made here: " + tried.stderr.strip())
    spec = KernelSpecManager().get_kernel_spec(KERNEL).to_dict()
    spec["argv"] = unshare + ["sh", "-c", 'unset JPY_PARENT_PID; "$@"; exit $?', "sh"] + spec["argv"]  # sh is number 1, as an init would be
    folder = tmp_path / "share" / "kernels" / "cellspan-contained"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", os.pathsep.join(filter(None, [str(tmp_path / "share"), os.environ.get("JUPYTER_PATH")])))
    return "cellspan-contained"


# Somebody else, on every GPU, until its stdin ends.
SOMEBODY = """import torch
assert torch.cuda.is_available()
kept = [torch.zeros(1 << 20, device='cuda:%d' % k) for k in range(torch.cuda.device_count())]
print('up', flush=True)
input()"""


@pytest.fixture
def somebody(machine):  # noqa: F811
    if machine:  # of whom the doubles tell nothing
        machine.set("count 4", *["memory %d 600" % k for k in range(4)])
        yield
        return
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    other = subprocess.Popen([sys.executable, "-c", SOMEBODY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if other.stdout.readline() != "up\n":
            pytest.skip("torch sees no GPU here")
        yield
    finally:
        other.communicate("\n")


@pytest.mark.doubles
def test_in_a_container_nobody_is_said_to_be_absent(book, machine, contained, somebody):  # noqa: F811
    nb = book(kernel=contained)
    assert int(nb.ok("%%distribute -n 1\nimport os\nos.getpid()").value) < 1000, "process numbers are those of this machine"
    full = FULL if machine else "import torch\nx = torch.empty(10**12, dtype=torch.uint8, device='cuda')"
    cell = in_time(lambda _: nb.run("%%distribute\n" + full))
    assert cell.status == "error" and "its memory ran out" in cell.shown, cell.shown
    told = cell.shown.rpartition("its memory ran out")[2]
    assert "no other process" not in told, told
    assert re.search(r" by .*pid \d+", told) or "which processes are on it the driver does not tell here" in told, told


# ---- other libraries


def installed(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip("%s is not installed in the Python of the tests (%s -m pip install …)" % (name, sys.executable))


@needs(1)
@pytest.mark.parametrize("name", ["vllm", "deepspeed", "cupy", "numba"])
def test_libraries_read_the_list_of_gpus(book, name):  # noqa: F811
    installed(name)
    book().ok("%%%%distribute -n 1\nimport %s" % name, limit=300)


CUPY = "import cupy, os\nown = cupy.zeros(1).device\n(own.id, cupy.cuda.Device().id, own.pci_bus_id.lower()[-12:], int(os.environ['CUDA_VISIBLE_DEVICES'].split(',')[int(os.environ['CELLSPAN_LOCAL_GPUS'])]))"


@needs(1)
def test_cupy_uses_the_ranks_gpu_where_a_rank_sees_no_other(book):  # noqa: F811
    installed("cupy")
    rows, addresses = values(book().ok("%%distribute -n gpu --gpus own --gather\n" + CUPY, limit=300)), bus_ids()
    assert [row[:2] for row in rows] == [(0, 0)] * len(rows)
    assert [row[2] for row in rows] == [addresses[row[3]] for row in rows] and len({row[2] for row in rows}) == len(rows), rows


@needs(2, own=True)
def test_cupy_takes_the_first_gpu_where_a_rank_sees_several_until_it_is_told(book):  # noqa: F811
    installed("cupy")
    nb = book()
    assert [row[0] for row in values(nb.ok("%%distribute -n 2 --gather\n" + CUPY, limit=300))] == [0, 0]
    nb.ok("%%distribute\ncupy.cuda.Device(int(os.environ['LOCAL_RANK'])).use()")
    rows, addresses = values(nb.ok("%%distribute --gather\n" + CUPY)), bus_ids()
    assert [row[0] for row in rows] == [0, 1] and [row[2] for row in rows] == [addresses[row[3]] for row in rows], rows


@needs(2, own=True)
def test_threads_take_the_first_gpu_that_they_see(book):  # noqa: F811
    nb = book()
    code = "import threading, torch\nfound = [torch.cuda.device_count(), torch.zeros(1, device='cuda').device.index]\n"
    code += "t = threading.Thread(target=lambda: found.append(torch.zeros(1, device='cuda').device.index))\nt.start(); t.join()\nfound"
    assert values(nb.ok("%%distribute -n 2 --gpus own --gather\n" + code)) == [[1, 0, 0]] * 2
    nb.ok("%ranks stop")
    assert [row[1] for row in values(nb.ok("%%distribute -n 2 --gpus 1 --gather\n" + code))] == [0, 1]


@needs(1)
def test_a_module_that_asks_for_cuda_beforehand_makes_no_rank_a_bad_fork(book, tmp_path):  # noqa: F811
    (tmp_path / "asks_for_cuda.py").write_text("import torch\nfound = torch.cuda.is_available()\n")
    nb = book(CELLSPAN_PRELOAD="asks_for_cuda", PYTHONPATH=os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))
    code = "%%distribute -n gpu --gather\nimport sys, torch\n('asks_for_cuda' in sys.modules, sys.modules['asks_for_cuda'].found, torch.zeros(1, device='cuda').item())"
    assert set(values(nb.ok(code))) == {(True, True, 0.0)}


# ---- the driver


@needs(1)
def test_the_driver_is_found_without_a_path_of_libraries(book, monkeypatch):  # noqa: F811
    """As on a host that is reached by ssh: what the container's or the session's LD_LIBRARY_PATH says is not there."""
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    rows = values(book().ok("%%distribute -n gpu --gather\nimport cellspan._worker.gpus as gpus\n(gpus.facts()['gpu_error'], len(gpus.devices()))"))
    assert rows and all(error == "" and count for error, count in rows), rows


# ---- jobs side by side


def behind(where):
    """The rank of which NCCL's counts in %ranks where say that it has launched less than others; None: they name none."""
    for line in re.findall("^NCCL #.*", where, re.M):
        counts = sorted((int(n), who) for who, n in re.findall(r"(rank \d+|\d+ ranks?) launched (\d+)", line))
        if counts and counts[0][0] < counts[-1][0] and counts[0][1].startswith("rank "):
            return int(counts[0][1].split()[1])
    return None


def test_who_is_behind_is_read_from_the_counts():
    assert behind("[0-1] x\nNCCL #0-0 (78db921d1c117b4a): 3 ranks launched 64 AllReduce; rank 1 launched 60 AllReduce\n") == 1
    assert behind("NCCL #0-0 (78db921d1c117b4a): rank 0 launched 2 AllReduce; rank 1 launched 1 AllReduce\n") == 1
    assert behind("NCCL #0-0 (78db921d1c117b4a): 3 ranks launched 4 AllReduce\n") is None and behind("[0-1] x\n") is None


def hang(nb, late, options=""):
    """Two ranks, one of which leaves out a collective."""
    nb.ok("%%%%distribute -n 2 --init nccl %s\n%sx = torch.ones(1, device='cuda')\ndist.all_reduce(x)\nx.item()" % (options, RANK))
    cell = nb.start("%%%%distribute\nprint('begun', flush=True)\nif rank == %d:\n    import time\n    time.sleep(600)\ndist.all_reduce(x)\nx.item()" % late)
    nb.wait_ranks(cell, "begun", 2)
    return cell


def assert_behind(nb, late):
    told = []
    assert processes.wait_until(lambda: told.append(nb.ok("%ranks where").stdout) or behind(told[-1]) == late, 60), told[-1]


@needs(2)
def test_a_hang_in_nccl_names_the_rank_behind(book):  # noqa: F811
    nb = book()
    cell = hang(nb, 1)
    assert_behind(nb, 1)
    nb.control("interrupt_request")
    nb.wait(cell, 60)


@needs(2)
def test_two_notebooks_are_told_of_their_own_jobs(book):  # noqa: F811
    """At NCCL's usual port, the second job would find the first one's RAS. On a machine with two GPUs both use the same ones."""
    one, two = book(), book()
    cells = [hang(one, 1), hang(two, 0, "--share")]
    for nb, late in ((one, 1), (two, 0), (one, 1)):
        assert_behind(nb, late)
    for nb, cell in zip((one, two), cells):
        nb.control("interrupt_request")
        nb.wait(cell, 60)


@needs(2)
def test_what_ranks_do_is_told_while_one_of_them_is_stopped(book):  # noqa: F811
    nb = book()
    pids = nb.rank_pids(2)
    cell = hang(nb, 1)
    os.kill(pids[1], signal.SIGSTOP)
    try:
        shown = nb.ok("%ranks where", limit=60).stdout
        assert "[0] <module>, line 7 of cell" in shown and "[1] (no answer" in shown, shown
    finally:
        os.kill(pids[1], signal.SIGCONT)
    nb.control("interrupt_request")
    nb.wait(cell, 60)
    stay(nb, pids, 10)


# ---- what an earlier cell left on a GPU


@needs(2)
def test_a_check_ends_a_collective_that_an_earlier_cell_left(book):  # noqa: F811
    nb = book()
    pids = nb.rank_pids(2)
    nb.ok("%%distribute --init\n" + RANK + "kept, x = rank, torch.ones(1, device='cuda')\ndist.all_reduce(x)\nx.item()")
    nb.ok("%%distribute\nif rank == 0:\n    dist.all_reduce(x)")  # it returns, and its kernel waits for rank 1's
    cell = nb.ok("%ranks check", limit=300)
    assert re.search(r"all_reduce +\d+", cell.shown), cell.shown
    stay(nb, pids, 10)
    assert values(nb.ok("%%distribute --init --gather\nx = torch.ones(1, device='cuda')\ndist.all_reduce(x)\n(kept, x.item())")) == [(0, 2.0), (1, 2.0)]


@needs(2)
def test_ranks_live_when_the_context_of_one_ends_in_a_collective(book):  # noqa: F811
    nb = book()
    pids = nb.rank_pids(2)
    nb.ok("%%distribute --init\n" + RANK + "kept, x = 7, torch.ones(1, device='cuda')\ndist.all_reduce(x)\nx.item()")
    code = "%%distribute\nif rank == 1:\n    torch.zeros(4, device='cuda')[torch.tensor([9], device='cuda')]\ndist.all_reduce(x)\ntorch.cuda.synchronize()"
    cell = nb.run(code, limit=120)
    assert cell.status == "error" and "%ranks restart -r 1" in cell.shown, cell.shown
    stay(nb, pids)
    nb.ok("%ranks restart -r 1")
    assert nb.ok("%%distribute -r 0\nkept").value == "7"
    assert values(nb.ok("%%distribute --init --gather\n" + RANK + "x = torch.ones(1, device='cuda')\ndist.all_reduce(x)\nx.item()")) == [2.0, 2.0]


@needs(2)
def test_settings_of_the_first_cell_are_in_place_when_it_casts(book):  # noqa: F811
    nb = book(started=False)
    nb.ok("import torch\nbig = torch.ones(16 << 20, device='cuda')")
    cell = nb.ok("%%distribute -n 2 " + ("--share" if SHARED else "--gpus 1") + " --env NCCL_DEBUG=INFO\nbig.sum().item()")
    assert "NCCL INFO" in cell.shown and "has no effect" not in cell.stderr, cell.shown
    assert "--env NCCL_DEBUG=WARN has no effect" in nb.ok("%%distribute --env NCCL_DEBUG=WARN\n1").stderr
