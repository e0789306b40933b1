# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on the real GPUs of this machine; tests/gpu/run runs them. Those marked `doubles` run everywhere."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import processes
import pytest
from client import values
from realgpus import ALL, MUCH_LATER, RANK, SMI, Machine, asked, book, doubles, gpu_processes, machine, needs, numa_nodes, smi, stay  # noqa: F401  (fixtures)
from test_gpus import QUICK

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "gpu" / "run"


# ---- the script


def run_script(tmp_path, gpus, *arguments, script=SCRIPT, **env):
    """tests/gpu/run on a machine whose nvidia-smi names so many GPUs, with what the tests have built."""
    (tmp_path / "smi").mkdir()
    smi_file = tmp_path / "smi" / "nvidia-smi"
    smi_file.write_text("".join(SMI.splitlines(True)[: 1 + gpus]))
    smi_file.chmod(0o755)
    (tmp_path / "nvidiactl").touch()
    env = {"PATH": "%s:%s" % (tmp_path / "smi", os.environ["PATH"]), "CELLSPAN_TEST_GPU_NO_BUILD": "1",
           "CELLSPAN_TEST_GPU_DEVICE": str(tmp_path / "nvidiactl"), **env}  # fmt: skip
    return subprocess.run([str(script), *arguments], capture_output=True, text=True, env=dict(os.environ, **env), stdin=subprocess.DEVNULL)


def test_without_a_device_the_script_says_so_and_ends_well():
    done = subprocess.run([str(SCRIPT)], capture_output=True, text=True, env=dict(os.environ, CELLSPAN_TEST_GPU_DEVICE="/nowhere/nvidiactl"))
    assert done.returncode == 0 and done.stdout.startswith("skipped: there is no /nowhere/nvidiactl"), done


def test_the_script_names_what_it_skips(tmp_path):
    done = run_script(tmp_path, 1, "-k", "barrier or eleven or survivors")
    assert done.returncode == 0 and "on 1 GPUs" in done.stdout, done.stdout + done.stderr
    assert "needs 2 GPUs, this machine has 1" in done.stdout and "needs tests/gpu/run --on with 2 machines" in done.stdout, done.stdout
    assert re.search(r"\d+ skipped", done.stdout) and "passed" not in done.stdout, done.stdout


def test_the_script_runs_its_cases(tmp_path, doubles):  # noqa: F811
    environment = Machine(tmp_path, doubles).environment
    done = run_script(tmp_path, 4, "-k", "order_of_nvidia_smi or list_is_that", **environment)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def wheel(folder, name):
    """An empty package."""
    info = "%s-1.0.dist-info/" % name
    with zipfile.ZipFile(folder / ("%s-1.0-py3-none-any.whl" % name), "w") as file:
        file.writestr(name + ".py", "")
        file.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % name)
        file.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(info + "RECORD", "")


def test_the_script_takes_what_was_packed_elsewhere(tmp_path, doubles):  # noqa: F811
    """Without a network and without a compiler: the product, wheels, and what the machine's Python has."""
    there = tmp_path / "there"
    (there / "tests" / "gpu").mkdir(parents=True)
    for name in ("setup.sh", "gpu/run"):
        shutil.copy(SCRIPT.parents[1] / name, there / "tests" / name)
    (there / "tests" / "e2e").symlink_to(SCRIPT.parents[1] / "e2e")
    (there / ".build" / "gpu" / "wheels").mkdir(parents=True)
    (there / ".build" / "gpu" / "prefix").symlink_to(pathlib.Path(shutil.which("cellspan")).resolve().parents[1])
    (there / ".build" / "gpu" / "wanted").write_text("packed_elsewhere\n")
    wheel(there / ".build" / "gpu" / "wheels", "packed_elsewhere")
    env = dict(Machine(tmp_path, doubles).environment, PYTHON=sys.executable, CELLSPAN_TEST_GPU_NO_BUILD="")
    done = run_script(tmp_path, 4, "-k", "list_is_that", script=there / "tests" / "gpu" / "run", **env)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    (python,) = there.glob(".build/gpu-venv/bin/python")
    subprocess.run([str(python), "-c", "import packed_elsewhere, pytest"], check=True)


# ---- one GPU


@pytest.mark.doubles
def test_the_list_is_that_of_nvidia_smi(book):
    program = pathlib.Path(shutil.which("cellspan")).resolve().parents[1] / "libexec" / "cellspan" / "cellspan-gpus"
    found = json.loads(subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout)["gpus"]
    whole = {(one["index"], one["parent"] or one["uuid"]) for one in found}
    assert whole == set(smi()), found
    total = {number: int(mib) << 20 for number, mib in asked("memory.total").items()}
    for one in (one for one in found if not one["parent"]):
        assert abs(one["memory"] - total[one["index"]]) < 2 << 20, (one, total)
    told = numa_nodes()  # of the doubles' GPUs Linux knows nothing
    assert all(one["numa"] == told[one["index"]] for one in found if told.get(one["index"]) is not None), (found, told)


@pytest.mark.doubles
def test_each_rank_has_its_own_in_the_order_of_nvidia_smi(book):
    nb = book()
    rows = values(nb.ok("%%distribute -n gpu --gather\nimport os\n(int(os.environ['LOCAL_RANK']), os.environ['CELLSPAN_LOCAL_GPUS'], os.environ['CUDA_VISIBLE_DEVICES'])"))
    assert [row[0] for row in rows] == list(range(len(rows)))
    if "MIG-" not in rows[0][2]:
        assert [int(row[1]) for row in rows] == list(range(len(rows))) and rows[0][2] == ",".join(str(n) for n, _ in smi())
    assert not {pid for pid, _ in gpu_processes()} & set(map(str, processes.marked(nb.marker))), "an agent, or a rank that asked for nothing"


@pytest.mark.doubles
def test_a_check_works_twice_before_torch_uses_the_gpu(book):
    nb = book(**QUICK)
    nb.ok("%%distribute -n gpu\n1")
    for _ in range(2):
        assert "all_reduce" in nb.ok("%ranks check", limit=200).shown


@pytest.mark.doubles
def test_what_is_shared_is_checked_by_tcp(book):
    nb = book()
    nb.ok("%%distribute -n 2 --share\n1")
    assert "ranks share GPUs" in nb.ok("%ranks check", limit=200).shown


@pytest.mark.doubles
def test_two_notebooks_have_different_gpus_and_what_an_agent_held_is_free(book):
    one, two = book(), book()
    one.ok("%%distribute -n gpu\n1")
    cell = two.run("%%distribute -n gpu\n1").assert_error("UsageError")
    assert "no free GPU" in cell.error["evalue"]
    for pid in processes.marked(one.marker):
        if b"cellspan-agent" in processes.read(pid, "cmdline"):
            os.kill(pid, signal.SIGKILL)
    assert processes.wait_until(lambda: two.run("%%distribute -n gpu\n1").status == "ok", 60)


@needs(1)
def test_plain_cuda_is_the_gpu_of_local_rank(book):
    nb = book()
    rows = values(nb.ok("%%distribute -n gpu --gather\nimport os, torch\n(torch.zeros(1, device='cuda').device.index, os.environ['CELLSPAN_LOCAL_GPUS'], os.getpid())"))
    uuids = dict(smi())
    for index, own, pid in rows:
        assert index == int(own)
        mine = {uuid for p, uuid in gpu_processes() if p == str(pid)}
        assert mine <= {uuids[index]}, "a context on a GPU of another rank"


@needs(1)
def test_no_rank_is_a_bad_fork(book):
    nb = book()
    for _ in range(20):
        nb.ok("%%distribute -n gpu --fresh\nimport torch\ntorch.cuda.init()")


@needs(1)
def test_full_memory_is_told_with_who_holds_it(book):
    cell = book().run("%%distribute -n 1\nimport torch\nx = torch.empty(10**12, dtype=torch.uint8, device='cuda')")
    assert cell.status == "error" and re.search(r"GPU \d+ .*now in use: \S+ \S+ of ", cell.shown), cell.shown
    who = cell.shown.rpartition("now in use:")[2]
    assert re.search(r" by .*pid \d+", who) or "which processes are on it the driver does not tell here" in who, who


def assert_others_live(nb, pids):
    """All ranks but rank 0 are the processes that they were, and have what they kept."""
    if len(pids) > 1:
        now = nb.ok("%%%%distribute -r 1-%d --gather\n(os.getpid(), kept.item())" % (len(pids) - 1))
        assert values(now) == [(pid, 1.0) for pid in pids[1:]], now.value


@needs(1)
def test_a_device_side_assert_names_the_rank_to_restart(book):
    nb = book()
    pids = values(nb.ok("%%distribute -n gpu --gather\nimport os, torch\nkept = torch.ones(1, device='cuda')\nos.getpid()"))
    cell = nb.run("%%distribute\nif os.environ['RANK'] == '0':\n    torch.zeros(4, device='cuda')[torch.tensor([9], device='cuda')]\n    torch.cuda.synchronize()")
    assert cell.status == "error" and "%ranks restart -r 0" in cell.shown, cell.shown
    assert_others_live(nb, pids)
    nb.ok("%ranks restart -r 0")
    assert_others_live(nb, pids)
    nb.ok("%%distribute -r 0\nimport torch\ntorch.zeros(1, device='cuda').item()")


@needs(1)
def test_of_a_view_only_what_is_seen_reaches_the_host(book):
    nb = book()
    nb.ok("import torch, resource\nx = torch.zeros(20 << 30 if torch.cuda.mem_get_info()[0] > 22 << 30 else 2 << 30, dtype=torch.uint8, device='cuda')")
    nb.ok("y, before = x[:1], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss")
    nb.ok("%%distribute -n 1 --share\ny.sum().item()")
    assert int(nb.ok("resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before").value) < 100 << 10


@needs(1)
def test_what_lies_on_a_gpu_is_compared_there(book):
    nb = book()
    nb.ok("import torch\nx = torch.ones(2 << 28, device='cuda')")  # 2 GiB: to compare it in host memory takes more than Origins allows
    total = "%%distribute -n 1\nx.sum().item() / (2 << 28)"
    assert nb.ok(total).value == "1.0"
    before = nb.ok("import resource\nresource.getrusage(resource.RUSAGE_SELF).ru_maxrss").value
    for value in ("2.0", "3.0"):
        nb.ok("x += 1")
        assert nb.ok(total).value == value
    assert nb.ok(total).value == "3.0"
    assert int(nb.ok("resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - %s" % before).value) < 300 << 10, "it went through host memory as a whole"
    nb.ok("%%distribute\nx[-1] = 7")
    assert nb.ok("%%distribute\nx[-1].item()").value == "7.0", "home has not changed it meanwhile"
    nb.ok("x[0] = 5")
    nb.run(total).assert_error("VariableConflict")
    nb.ok("%push x")
    assert nb.ok("%%distribute\nx[0].item(), x[-1].item()").value == "(5.0, 3.0)"


# A kernel that writes where no memory is: an index out of bounds would only fail an assertion of torch's.
ILLEGAL = """
import ctypes, os, torch
torch.zeros(1, device='cuda')
ptx = b".version 7.0 .target sm_52 .address_size 64 .visible .entry bad() { .reg .u64 %p; mov.u64 %p, 64; st.global.u64 [%p], %p; ret; }"
cuda, module, bad = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert not cuda.cuModuleLoadData(ctypes.byref(module), ptx) and not cuda.cuModuleGetFunction(ctypes.byref(bad), module, b"bad")
assert not cuda.cuLaunchKernel(bad, 1, 1, 1, 1, 1, 1, 0, None, None, None)
try:
    torch.cuda.synchronize()
finally:
    os._exit(3)
"""


@needs(1)
def test_an_illegal_access_is_an_xid_in_the_certificate(book):
    cell = book().run("%%distribute -n 1" + ILLEGAL).assert_error("RankDied")
    assert re.search(r"Xid (13|31|43)", cell.shown), cell.shown


# ---- two GPUs or more


@needs(2)
def test_init_serves_tensors_in_host_memory_and_on_gpus(book):
    nb = book()
    total = "sum(range(dist.get_world_size()))"
    code = "%%distribute " + ALL + " --init --gather\n" + RANK + "x = torch.ones(1) * rank\ndist.all_reduce(x)\ny = torch.ones(1, device='cuda') * rank\ndist.all_reduce(y)\n"
    rows = values(nb.ok(code + "x.item() == y.item() == %s" % total))
    assert rows == [True] * len(rows) and len(rows) > 1


@needs(2, own=True)
@pytest.mark.parametrize("options", ["--gpus 1", "--gpus 2 -n 1"])
def test_a_first_barrier_takes_the_ranks_own_gpu(book, options):
    rows = values(book().ok("%%%%distribute %s --init --gather\n%sdist.barrier()\n(torch.cuda.current_device(), int(os.environ['CELLSPAN_LOCAL_GPUS'].split(',')[0]))" % (options, RANK)))
    assert all(a == b for a, b in rows)


@needs(4)
def test_a_first_barrier_takes_the_first_gpu_of_a_rank_that_has_two(book):
    """torch guesses the GPU that has the rank's number: 1 for rank 1, whose own are 2 and 3."""
    rows = values(book().ok("%%distribute --gpus 2 -n 2 --init --gather\n" + RANK + "dist.barrier()\n(torch.cuda.current_device(), int(os.environ['CELLSPAN_LOCAL_GPUS'].split(',')[0]))"))
    assert rows == [(0, 0), (2, 2)]


@needs(3)
def test_a_first_barrier_of_some_ranks_takes_their_own_gpus(book):
    nb = book()
    nb.ok("%%distribute -n 3 --init\n" + RANK + "some = dist.new_group([0, 2])")
    rows = values(nb.ok("%%distribute -r 0,2 --gather\ndist.barrier(group=some)\n(torch.cuda.current_device(), int(os.environ['CELLSPAN_LOCAL_GPUS']))"))
    assert rows == [(0, 0), (2, 2)]


HANG = "if rank != 1:\n    x = torch.ones(1, device='cuda')\n    dist.all_reduce(x, group=GROUP)\n    x.item()\n"


def interrupt_soon(nb, cell, limit=3):
    """The cell ends so many seconds after an interrupt; all the others of its --grace are for telling how late it is."""
    begun = time.monotonic()
    nb.control("interrupt_request")
    nb.wait(cell, 60)
    took = time.monotonic() - begun
    assert cell.error["ename"] == "KeyboardInterrupt", cell.shown
    assert took < limit, "the interrupt took %.1f s, and %d s are what it may take" % (took, limit)


def interrupted(nb, groups, seconds):
    """Rank 1 leaves out a collective; the others come back from an interrupt, and live."""
    pids = nb.rank_pids(2)
    nb.ok("%%distribute --init\n" + RANK + "two = dist.new_group()\nx = torch.ones(1, device='cuda')\ndist.all_reduce(x), dist.all_reduce(x, group=two)\nkept = rank")
    body = "".join(HANG.replace("    x.item()\n", "").replace("GROUP", group) for group in groups)
    cell = nb.start("%%distribute --grace 60\n" + body + "print('begun', flush=True)\ntorch.cuda.synchronize()\nimport time\ntime.sleep(600)")
    nb.wait_ranks(cell, "begun", 2)
    interrupt_soon(nb, cell)
    stay(nb, pids, seconds)
    assert values(nb.ok("%%distribute --init --gather\nx = torch.ones(1, device='cuda')\ndist.all_reduce(x)\n(kept, x.item())")) == [(0, 2.0), (1, 2.0)]


@needs(2)
@pytest.mark.parametrize("groups", [["None"], ["None", "two"]])
def test_ranks_live_after_an_interrupt_in_nccl(book, groups):
    interrupted(book(), groups, 90)


@needs(2, soak=True)
def test_ranks_live_long_after_an_interrupt_in_nccl(book):
    interrupted(book(), ["None"], MUCH_LATER)


@needs(2)
def test_survivors_of_a_dead_rank_keep_their_variables(book):
    nb = book()
    pids = nb.rank_pids(2)
    nb.ok("%%distribute --init\n" + RANK + "kept = 7\nx = torch.ones(1, device='cuda')\ndist.all_reduce(x)")
    cell = nb.start("%%distribute\nprint('begun', flush=True)\nif rank == 1:\n    import time\n    time.sleep(600)\ndist.all_reduce(x)\nx.item()")
    nb.wait_ranks(cell, "begun", 2)
    os.kill(pids[1], signal.SIGKILL)
    nb.wait(cell, 60)
    cell.assert_error("RankDied")
    stay(nb, pids[:1])
    assert nb.ok("%%distribute -r 0\nkept").value == "7"


@needs(2, soak=True)
def test_a_collective_may_wait_for_eleven_minutes(book):
    nb = book()
    pids = nb.rank_pids(2)
    code = "%%distribute --init --gather\n" + RANK + "import time\nx = torch.ones(1, device='cuda')\nif rank == 1:\n    time.sleep(660)\ndist.all_reduce(x)\nx.item()"
    assert values(nb.ok(code, limit=900)) == [2.0, 2.0]
    stay(nb, pids, 30)


@needs(2, own=True)
def test_the_check_agrees_with_nccl_tests(book):
    program = shutil.which("all_reduce_perf")
    if not program:
        pytest.skip("all_reduce_perf of nccl-tests is not on PATH")
    n = len(smi())
    nb = book()
    nb.ok("%%distribute -n gpu\n1")
    ours = {int(b): (float(us), float(bus)) for b, us, bus in re.findall(r"all_reduce +(\d+) +([\d.]+) +[\d.]+ +([\d.]+)", nb.ok("%ranks check", limit=200).shown)}
    nb.close()
    for size in (8, 64 << 20):
        out = subprocess.run([program, "-b", str(size), "-e", str(size), "-g", str(n)], capture_output=True, text=True).stdout
        us, bus = next((float(row.split()[5]), float(row.split()[7])) for row in out.splitlines() if row.strip().startswith(str(size) + " "))
        if size == 8:
            assert us / 2 <= ours[size][0] <= us * 2, (ours, out)
        else:
            assert abs(ours[size][1] - bus) <= bus / 10, (ours, out)


# A kernel that takes seconds, work that waits behind it, and whether both are still to be done when the cell ends.
QUEUED = """a = torch.zeros(1 << 20, device='cuda')
a += 1  # loads the kernel, which would wait for a busy GPU
torch.cuda.synchronize()
torch.cuda._sleep(8 * 10**9)
a += 1
done = torch.cuda.Event()
done.record()
"""


@needs(2)
@pytest.mark.parametrize("queued", [False, True], ids=["idle", "queued"])
@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
def test_large_variables_go_from_gpu_to_gpu(book, queued, settings):
    nb = book(PYTORCH_CUDA_ALLOC_CONF=settings)
    nb.ok("import torch\nbig = torch.arange(16 << 20, dtype=torch.float32, device='cuda')")
    pids = nb.rank_pids(2, "--gpus 1")
    if queued:
        assert values(nb.ok("%%distribute --gather\nimport torch\n" + QUEUED + "done.query()")) == [False, False], "nothing was queued"
    cell = nb.ok("%%distribute --gather\nimport os\n(os.getpid(), big.device.type, big.sum().item() > 0)")
    assert values(cell) == [(pid, "cuda", True) for pid in pids], cell.shown
    if queued:
        assert values(nb.ok("%%distribute --gather\ntorch.cuda.synchronize()\na.sum().item() == 2 << 20")) == [True, True]


@needs(2, own=True)
def test_a_cast_onto_a_full_gpu_is_a_clear_error(book):
    nb = book()
    nb.ok("%%distribute -n 2\nimport torch\nfull = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.999), dtype=torch.uint8, device='cuda')")
    nb.ok("import torch\nbig = torch.zeros(64 << 20, dtype=torch.uint8)\nbig = big.cuda() if torch.cuda.is_available() else big")
    cell = nb.run("%%distribute\nbig.device")
    assert cell.status == "error" and "memory" in cell.shown.lower(), cell.shown


# ---- random numbers


@needs(2)
def test_what_ranks_draw_on_their_gpus_is_their_own(book):  # noqa: F811
    nb = book()

    def drawn(options=""):
        return values(nb.ok("%%%%distribute --gather %s\nimport torch\ntorch.rand((), device='cuda').item()" % options))

    assert values(nb.ok("%%distribute -n 2 --gather --seed 3\nimport torch\ntorch.cuda.is_initialized()")) == [False] * 2
    found = drawn()
    assert drawn("--seed 3") == found  # now CUDA is there already
    for _ in range(2):
        nb.ok("%ranks restart")
        found += drawn()
    assert len(set(found)) == 6, found
