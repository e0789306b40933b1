# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on doubles of GPUs: real kernels and ranks use the doubles of the driver's libraries and of NCCL in tests/doubles."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import shutil
import signal
import subprocess
import textwrap

import processes
import pytest
from client import Notebook, all_print, by_rank, values
from engines import HOST_TOOLS, Hosts, bring_up
from packages import needs

TOP = pathlib.Path(__file__).resolve().parents[2]
DOUBLES = {
    "libnvidia-ml.so": ("nvml.c", "control.c"),
    "libcuda.so": ("cuda.c", "checkpoint.c", "control.c"),
    "libnccl.so": ("nccl_double.c", "nccl_cuda.c"),
}
WHERE = "%%%%distribute %s --gather\nimport os, sys\n[os.environ.get(n, '') for n in ('RANK', 'LOCAL_RANK', 'CUDA_VISIBLE_DEVICES')]"
# What a user of torchrun writes: the own one is number LOCAL_RANK * K of those that are visible.
OWN = "import os\ndef own(k=1):\n    at = int(os.environ['LOCAL_RANK']) * k\n    return [int(u) for u in os.environ['CUDA_VISIBLE_DEVICES'].split(',')[at:at + k]]\n"
QUICK = {"CELLSPAN_DOUBLE_GPU_CLOCK": "300"}  # for a check that need not use all sizes
# A large variable in host memory; and whether ranks got it by NCCL, and what they see of it.
HOST = "import numpy\nbig = numpy.arange(2_000_000.0)\nbig[-1] = %d"
SEEN = """%%distribute -n 4 --gather
import cellspan, sys
('cellspan._worker.broadcast' in sys.modules, float(big[-1]), len(big))"""


@pytest.fixture(scope="session")
def doubles(tmp_path_factory):
    """The libraries, built: {name: path}."""
    cc = (os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or "").split()  # CC may have options
    assert cc, "no C compiler for the doubles"
    folder, paths = tmp_path_factory.mktemp("doubles"), {}
    for name, sources in DOUBLES.items():
        paths[name] = str(folder / name)
        subprocess.run([*cc, "-I%s" % TOP, "-D_GNU_SOURCE", "-std=gnu11", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread",
                        "-o", paths[name]] + [str(TOP / "tests" / "doubles" / source) for source in sources], check=True)
    return paths


class Machine:
    """What the doubles present, and the environment in which notebooks see it."""

    def __init__(self, folder, doubles):
        self.file = folder / "gpus"
        self.leases = folder / "leases"
        self.set("count 4")
        self.environment = {
            "CELLSPAN_NVML_LIBRARY": doubles["libnvidia-ml.so"],
            "CELLSPAN_CUDA_LIBRARY": doubles["libnccl.so"],
            "CELLSPAN_NCCL_LIBRARY": doubles["libnccl.so"],
            "CELLSPAN_DOUBLE_GPUS": str(self.file),
            "CELLSPAN_GPU_LEASES": str(self.leases),
        }

    def set(self, *lines):
        text = self.file.with_suffix(".new")
        text.write_text("".join(line + "\n" for line in lines))
        text.rename(self.file)


@pytest.fixture
def gpus(tmp_path, doubles):
    return Machine(tmp_path, doubles)


@pytest.fixture
def book(gpus, fresh):
    """Makes notebooks on that machine."""
    return lambda **more: fresh(env=dict(gpus.environment, **more))


@pytest.fixture(scope="module")
def lent(tmp_path_factory, doubles):
    """A notebook on such a machine for tests that share it, and the machine."""
    machine = Machine(tmp_path_factory.mktemp("machine"), doubles)
    nb = Notebook(env=dict(machine.environment, CELLSPAN_PRELOAD=""))
    yield nb, machine
    nb.close()
    assert not nb.left


@pytest.fixture
def four(lent):
    """The shared notebook on a machine with four GPUs, without ranks and names."""
    nb, machine = lent
    machine.set("count 4")
    nb.ok("%ranks stop")
    nb.ok("%reset_selective -f .")
    return nb


def refused(cell, *texts):
    cell.assert_error("UsageError")
    for text in texts:
        assert text in cell.error["evalue"], cell.error["evalue"]
    return cell.error["evalue"]


def measured(nb, *patterns):
    """The row of rank 1 in %ranks, once it has its GPU's memory and matches the patterns: a table is shown without what a
    machine has not told within a second."""
    rows = []

    def complete():
        table = nb.ok("%ranks").displays[0]["text/plain"]
        rows.append(next(line for line in table.splitlines() if re.match(r"\s*1 ", line)))
        return all(re.search(pattern, rows[-1]) for pattern in (r" 80 GiB",) + patterns)

    assert processes.wait_until(complete, 60), rows[-1]
    return rows[-1]


# ---- who gets which


def test_local_rank_is_the_number_of_the_ranks_gpu(four):
    nb = four
    rows = values(nb.ok(WHERE % "-n gpu"))
    assert [row[:2] for row in rows] == [[str(k), str(k)] for k in range(4)]
    assert len({row[2] for row in rows}) == 1, "all see the same"
    assert rows[0][2] == "0,1,2,3", "numbers, which every library can read"
    assert values(nb.ok("%%distribute --gather\nos.environ['CUDA_DEVICE_ORDER']")) == ["PCI_BUS_ID"] * 4
    assert values(nb.ok("%%distribute --gather\n" + OWN + "own()")) == [[0], [1], [2], [3]]


def test_a_world_is_as_large_as_there_are_gpus(four):
    assert values(four.ok("%%distribute --gather\nimport os\nos.environ['WORLD_SIZE']")) == ["4"] * 4


def test_each_rank_gets_as_many_as_it_asks_for(four):
    nb = four
    assert values(nb.ok("%%distribute --gpus 2 --gather\n" + OWN + "own(2)")) == [[0, 1], [2, 3]]
    refused(nb.run("%%distribute -n 3\n1"), "-n 3: there are 4 GPUs", "with 2 each")
    refused(nb.run("%%distribute --gpus 1\n1"), "--gpus 1: ranks 0-1 were started with 2 GPUs each", "--fresh")
    refused(nb.run("%%distribute -n 3 --gpus 2 --fresh\n1"), "-n 3: there are 4 GPUs", "with 2 each")
    assert values(nb.ok("%%distribute --gather\n" + OWN + "own(2)")) == [[0, 1], [2, 3]], "what is refused ends no ranks"
    assert values(nb.ok("%%distribute -n gpu --gpus 1 --fresh --gather\n" + OWN + "own()")) == [[0], [1], [2], [3]]


def test_ranks_see_their_own_alone_where_that_is_asked_for(four):
    nb = four
    assert [row[1:] for row in values(nb.ok(WHERE % "--gpus own"))] == [[str(k), str(k)] for k in range(4)]
    refused(nb.run("%%distribute --gpus 1\n1"), "--gpus 1: ranks 0-3 were started with GPUs that no other rank sees", "--fresh")
    assert [row[2] for row in values(nb.ok(WHERE % "--gpus 2,own --fresh -n 2"))] == ["0,1", "2,3"]
    assert values(nb.ok("%%distribute --gather\nos.environ['CELLSPAN_LOCAL_GPUS']")) == ["0,1"] * 2
    assert [row[2] for row in values(nb.ok(WHERE % "--gpus 2 --fresh -n 2"))] == ["0,1,2,3"] * 2
    assert "own" in refused(nb.run("%%distribute --gpus mine\n1"), "--gpus mine")


def test_ranks_that_start_without_since_the_driver_fails_say_so(book, gpus):
    gpus.set("count 4", "crash nvmlInit_v2")
    cell = book().ok("%%distribute -n 2\nimport os\nprint(os.environ.get('CUDA_VISIBLE_DEVICES'))")
    assert "could not be listed (" in cell.stderr, (cell.stderr, cell.stdout)


def test_ranks_do_without_where_that_is_asked_for(four):
    nb = four
    assert {row[2] for row in values(nb.ok(WHERE % "-n 6 --no-gpu"))} == {""}
    refused(nb.run("%%distribute -n gpu\n1"), "ranks 0-5 were started without GPUs", "--fresh")
    assert len(values(nb.ok(WHERE % "-n gpu --fresh"))) == 4
    refused(nb.run("%%distribute --no-gpu\n1"), "--no-gpu: ranks 0-3 were started with GPUs", "--fresh")
    assert {row[2] for row in values(nb.ok(WHERE % "-n 2 --no-gpu --fresh"))} == {""}


def test_a_script_uses_the_gpus_of_the_ranks_beside_it(four, tmp_path):
    script = tmp_path / "sees.py"
    script.write_text("import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'], os.environ.get('CELLSPAN_LOCAL_GPUS'), os.environ.get('CELLSPAN_GPUS'))\n")
    nb = four
    has = {row[1]: row[2] for row in values(nb.ok(WHERE % "-n 2"))}
    said = by_rank(nb.ok("%%distribute %s" % script).stdout)
    assert said == {0: ["%s 0 1" % has["0"]], 1: ["%s 1 1" % has["1"]]}
    assert len(by_rank(nb.ok("%%distribute -n 4 %s" % script).stdout)) == 4
    refused(nb.run("%%distribute -n 5 %s" % script), "-n 5: there are 4 GPUs")
    assert by_rank(nb.ok("%%distribute --no-gpu %s" % script).stdout)[0] == ["  None"]
    assert {row[1]: row[2] for row in values(nb.ok(WHERE % ""))} == has
    nb.ok("%ranks stop")
    assert len(by_rank(nb.ok("%%distribute -n gpu %s" % script).stdout)) == 4


def test_ranks_keep_what_they_hold_of_gpus_and_it_is_said(four, tmp_path):
    nb = four
    script = tmp_path / "runs.py"
    script.write_text("print('runs')\n")
    nb.ok("%%distribute -n 2\nimport os, types, sys\n"
          "cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 1, emptied=0, memory_reserved=lambda d: 3 << 29)\n"
          "def empty(): cuda.emptied += 1\ncuda.empty_cache = empty\n"
          "sys.modules['torch'] = types.SimpleNamespace(cuda=cuda)")
    for run in ("%%distribute -n 2 --beside\nprint('runs')", "%distribute -n 2 {}".format(script)):
        cell = nb.ok(run)
        assert "ranks 0-1 keep 3.0 GiB of GPU memory meanwhile (%ranks stop frees it)" in cell.stderr, cell.shown
        assert all_print(cell.stdout, "runs", 2), cell.shown
    assert "GPU memory" not in nb.ok("%%distribute -n 2 --beside --no-gpu\nprint('runs')").stderr
    assert nb.ok("%%distribute --gather\ncuda.emptied").value == "[2, 2]"


def test_a_gpu_for_one_process_alone_is_not_used_twice(lent, four):
    lent[1].set("count 2", "exclusive 1")
    nb = four
    assert nb.ok("%%distribute -n 2 --beside\n1").value == "1"
    nb.ok("%%distribute -n 2\n1")
    evalue = nb.run("%%distribute --beside\n1").assert_error("RankNotStarted").reply["evalue"]
    assert "GPU 1 (GPU-" in evalue and "EXCLUSIVE_PROCESS" in evalue and "%ranks stop" in evalue and "reuse=True" in evalue, evalue
    assert nb.ok("%%distribute -n 1 --beside\n1").value == "1"
    nb.ok("%ranks stop")
    assert nb.ok("%%distribute -n 2 --beside\n1").value == "1"


def test_a_distributor_counts_the_gpus_of_the_machine(four):
    nb = four
    nb.ok("from cellspan.torch import TorchDistributor\nimport os\ndef own(): return os.environ['CELLSPAN_LOCAL_GPUS']")
    cell = nb.ok("made = TorchDistributor(6)\nmade.num_processes, made.num_tasks, made.run(own)")
    assert cell.value == "(4, 4, '0')" and "available GPUs on the driver, which is 4." in cell.stderr, cell.shown
    assert nb.ok("TorchDistributor(2, local_mode=False).run(own)").value == "'0'"
    nb.ok("%%distribute -n 2 --gpus 2\n1")
    assert nb.ok("TorchDistributor(2, local_mode=False).run(own)").value == "'0,1'"


def test_too_few_are_counted_and_what_helps_is_said(four):
    nb = four
    refused(nb.run("%%distribute -n 5\n1"), "-n 5: there are 4 GPUs", "for 5 ranks", "--no-gpu", "--share")
    assert nb.ok("%%distribute -n 4\n1").value == "1"


def test_a_rank_that_comes_anew_takes_its_place_again(four):
    nb = four
    nb.ok("%%distribute -n 2\nimport os")
    nb.ok("%%distribute -n 4\nimport os")
    assert values(nb.ok("%%distribute --gather\n" + OWN + "own()")) == [[0], [1], [2], [3]]
    nb.run("%%distribute\nimport signal\nif os.environ['RANK'] == '1':\n    os.kill(os.getpid(), signal.SIGKILL)").assert_error("RankDied")
    assert values(nb.ok("%%distribute --gather\n" + OWN + "own()")) == [[0], [1], [2], [3]]


def test_the_users_choice_is_the_world(book):
    nb = book(CUDA_VISIBLE_DEVICES="3,1")
    assert values(nb.ok("%%distribute -n gpu --gather\n" + OWN + "own()")) == [[3], [1]]


# The GPU that plain "cuda" is, as far as a torch without CUDA can tell: what torch does when it first touches one.
TAKEN = """%%distribute --gather
import torch
taken = []
torch.cuda.set_device = taken.append
for call, _ in torch.cuda._queued_calls:
    if 'gpus' in call.__module__:
        call()
(taken, torch.cuda.is_initialized())"""


def test_instances_are_gpus_of_their_own(lent, four, torch):
    lent[1].set("count 1", "mig 0 3")
    nb = four
    rows = values(nb.ok(WHERE % "-n gpu"))
    assert len({row[2] for row in rows}) == 3 and all(re.fullmatch(r"MIG-[^,]+", row[2]) for row in rows)
    assert [row[1] for row in rows] == ["0", "1", "2"]
    assert values(nb.ok(TAKEN)) == [([0], False)] * 3, "cuda:0 is the own one, whatever LOCAL_RANK is"
    one = values(nb.ok("%%distribute --gather\nimport cellspan._worker.gpus as gpus\n(gpus.own(), gpus.device(), len(gpus.devices()))"))
    assert one == [([0], 0, 1)] * 3


def test_plain_cuda_is_the_own_gpu(four, torch):
    cell = four.ok(TAKEN.replace("--gather", "-n 4 --gather"))
    assert values(cell) == [([k], False) for k in range(4)]


# ---- leases


def test_notebooks_never_share_unless_asked(book, tmp_path):
    one, two = book(JPY_SESSION_NAME=str(tmp_path / "train.ipynb")), book()
    one.ok("%%distribute -n 3\n1")
    text = refused(two.run("%%distribute -n 2\n1"), "-n 2: there is 1 GPU", "1 free of 4", "held: GPU 0 by ")
    assert "train.ipynb (pid " in text and "GPU 3" not in text
    assert values(two.ok("%%distribute -n gpu --gather\n" + OWN + "own()")) == [[3]]
    refused(book().run("%%distribute -n gpu\n1"), "there is no free GPU", "held: GPU 0 by ")


def test_share_lets_notebooks_and_ranks_share(book):
    one, two = book(), book()
    one.ok("%%distribute -n 4\n1")
    rows = values(two.ok(WHERE % "-n 8 --share"))
    assert len({row[2] for row in rows}) == 4 and not any("," in row[2] for row in rows)


def test_what_a_killed_kernel_held_is_free(book):
    one, two = book(), book()
    one.ok("%%distribute -n 4\n1")
    refused(two.run("%%distribute -n 1\n1"), "0 free of 4")
    os.kill(one.pid, signal.SIGKILL)
    assert processes.gone(one.marker) == []
    assert len(values(two.ok(WHERE % "-n 4"))) == 4


def test_what_stopped_ranks_held_is_free(book):
    one, two = book(), book()
    one.ok("%%distribute -n 4\n1")
    one.ok("%ranks stop")
    assert len(values(two.ok(WHERE % "-n 4"))) == 4


def test_what_idle_ranks_held_is_free(book):
    one, two = book(CELLSPAN_GPU_IDLE_RELEASE="3s"), book()
    cell = one.ok("%%distribute -n 4\nx = 1")
    one.wait_shown(cell, "no cell has run for 3 s, so ranks 0-3 have ended, and 4 GPUs are free for others")
    assert processes.wait_until(lambda: two.run("%%distribute -n 4\n1").status == "ok", 60)
    refused(one.run("%%distribute\nx"), "0 free of 4")
    two.ok("%ranks stop")
    cell = one.run("%%distribute\nx")
    assert "ranks 0-3 are new: their variables are gone" in cell.stderr and cell.ename == "NameError", cell.stderr


def test_on_a_hub_ranks_hold_gpus_for_a_quarter_of_an_hour(book, tmp_path):
    log = tmp_path / "log"
    book(CELLSPAN_LOG="info:%s" % log, JUPYTERHUB_API_URL="http://127.0.0.1:8081/hub/api").ok("1")
    assert "ranks give up their GPUs after 900 s without a cell" in log.read_text()
    log.unlink()
    book(CELLSPAN_LOG="info:%s" % log, JUPYTERHUB_API_URL="http://127.0.0.1:8081/hub/api", CELLSPAN_GPU_IDLE_RELEASE="off").ok("1")
    assert "give up" not in log.read_text()


# ---- what is told


def test_the_table_and_the_live_status_tell_of_gpus(lent, four, tmp_path):
    lent[1].set("count 4", "memory 1 40000", "use 1 87", "process 1 1 30000")
    nb, go = four, tmp_path / "go"
    nb.ok("%%distribute -n 2\nimport os, time")
    measured(nb, r"39 GiB.* 80 GiB", "87", r"'s \S+ 29 GiB ")
    others = "import cellspan\n[row.get('gpu_others') for row in cellspan.group().ranks()]"
    assert processes.wait_until(lambda: nb.ok(others).value == "[-1, 1]", 60), "of GPU 0, 512 MiB are in use, and nobody is listed"
    cell = nb.start("%%%%distribute\nwhile not os.path.exists(%r):\n    time.sleep(0.05)" % str(go))
    nb.wait(cell, 60, lambda: any("87" in text and re.search(r"'s \S+ 29 GiB", text) for text in (one.get("text/plain", "") for one in cell.displays)))
    go.write_text("")
    nb.wait(cell).assert_ok()


def in_time(run):
    """What run(k) gives, k = 1, 2, …: a cell that tells of a GPU; anew where the driver's double did not answer within the
    0.7 s that it has to."""
    for k in range(1, 21):
        cell = run(k)
        if "the GPU driver does not answer" not in cell.shown:
            break
    return cell


def test_an_xid_is_named_in_the_death_certificate(lent, four):
    nb = four

    def die(k):
        nb.ok("%%distribute -n 2\nimport os, signal")
        measured(nb)  # and so the agent has noted what happened before
        lent[1].set("count 4", *["xid 1 79"] * k)  # one more than there were
        cell = nb.run("%%distribute\nif os.environ['RANK'] == '1':\n    os.kill(os.getpid(), signal.SIGKILL)")
        return cell.assert_error("RankDied")

    cell = in_time(die)
    assert "GPU 1 (GPU-a001" in cell.traceback and "Xid 79" in cell.traceback, cell.traceback
    assert nb.ok("%%distribute\n1").value == "1"


# What torch raises.
FULL = """class OutOfMemoryError(RuntimeError):
    pass
OutOfMemoryError.__module__ = 'torch'
raise OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 GiB')
"""


def test_who_fills_a_gpu_is_said_when_its_memory_runs_out(lent, four):
    nb = four
    nb.ok("%%distribute -n 2\nimport os")
    lent[1].set("count 4", "memory 1 80000", "process 1 1 70000")

    def fill(_):
        measured(nb)
        return nb.run("%%distribute\nif os.environ['RANK'] == '1':\n" + textwrap.indent(FULL, "    "))

    cell = in_time(fill)
    cell.assert_error("OutOfMemoryError")
    assert "68.4 GiB by" in cell.shown and "78.1 GiB of 80.0 GiB" in cell.shown, cell.shown


# ---- other machines


@pytest.fixture(scope="module")
def far_hosts(doubles, tmp_path_factory):
    """Two hosts with one GPU each, and the environment of a notebook that reaches them. Leases are in each one's own /dev/shm."""
    folder = tmp_path_factory.mktemp("far")
    agent = pathlib.Path(shutil.which("cellspan")).resolve().parents[1] / "libexec" / "cellspan" / "cellspan-agent"
    assert agent.exists(), agent
    prefix = folder / "prefix"
    wrapper = prefix / "libexec" / "cellspan" / "cellspan-agent"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text("#!/bin/sh\nexport CELLSPAN_NVML_LIBRARY=%s CELLSPAN_CUDA_LIBRARY=%s CELLSPAN_NCCL_LIBRARY=%s CELLSPAN_DOUBLE_GPUS=%s\n"
                       "export CELLSPAN_DOUBLE_NCCL_FOLDER=%s\nexec %s \"$@\"\n"
                       % (doubles["libnvidia-ml.so"], doubles["libnccl.so"], doubles["libnccl.so"], folder / "gpus", folder, agent))
    wrapper.chmod(0o755)
    (folder / "gpus").write_text("count 1\n")
    for hosts in bring_up(lambda: Hosts(2, private=["/dev/shm"]), HOST_TOOLS):
        yield hosts, dict(hosts.variables(), CELLSPAN_REMOTE_PREFIX=str(prefix))
        assert hosts.left() == []


@pytest.fixture
def far(far_hosts):
    return far_hosts[1]


@pytest.mark.limit(300)
def test_gpus_of_other_machines_are_counted_leased_and_given(far, fresh):
    one, two = fresh(env=far), fresh(env=far)
    text = refused(one.run("%%distribute -n 3 --on ssh:h1,h2\n1", limit=150), "-n 3: there are 2 GPUs (h1: 1, h2: 1) for 3 ranks", "--no-gpu")
    assert "--share" in text
    rows = values(one.ok(WHERE % "-n gpu", limit=150))
    assert [row[:2] for row in rows] == [["0", "0"], ["1", "0"]]
    assert [row[2] for row in rows] == ["0", "0"]
    text = refused(two.run("%%distribute -n 2 --on ssh:h1,h2\n1", limit=150), "there are 0 GPUs", "h1: 0 free of 1; held: GPU 0 by ", "h2: 0 free of 1; held: ")
    one.ok("%ranks stop")
    assert len(values(two.ok(WHERE % "-n gpu", limit=150))) == 2


def test_between_machines_host_memory_goes_from_gpu_to_gpu_as_well(far, fresh):
    needs("numpy")
    nb = fresh(env=far)
    nb.ok(HOST % 7 + "\nsmall = numpy.arange(10.0)")
    assert values(nb.ok(SEEN.replace("-n 4", "-n gpu --on ssh:h1,h2").replace("big", "small"), limit=150)) == [(False, 9.0, 10)] * 2
    assert values(nb.ok(SEEN.replace("-n 4", ""), limit=150)) == [(True, 7.0, 2_000_000)] * 2


# Rank 0 waits in a communicator for the other one, which says when it sees it there.
COLLECTIVE = """%%%%distribute --grace 90s
import os, signal, time, cellspan._link as link, cellspan._worker.gpus as gpus
rank, identity, kept = int(os.environ['RANK']), %r, 7
gpus.nccl()
if rank == 1:
    while not os.path.exists('%%s/%%s-0' %% (os.environ['CELLSPAN_DOUBLE_NCCL_FOLDER'], identity[:32].decode())):
        time.sleep(0.02)
    print('there', flush=True)
    time.sleep(600)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # only an abort can get it out of there
try:
    link.broadcast_open(gpus.device(), identity, rank, 2, 0, 1000.0)
finally:
    print('back', flush=True)
"""


@pytest.mark.limit(300)
def test_a_machine_that_is_lost_in_a_collective_takes_nobody_along(far_hosts, fresh):
    hosts, environment = far_hosts
    nb = fresh(env=environment)
    nb.ok("%%distribute -n gpu --on ssh:h1,h2\nimport os", limit=150)
    pids = values(nb.ok("%%distribute --gather\nos.getpid()"))
    identity = nb.ok("%%distribute -r 0\nimport cellspan._worker.gpus as gpus\ngpus.unique_id()").value
    cell = nb.start(COLLECTIVE % ast.literal_eval(identity))
    nb.wait(cell, 120, lambda: "there" in cell.stdout or cell.ended)
    assert hosts.signal("h2", "KILL", "cellspan-agent"), cell.shown
    nb.wait(cell, 120).assert_error("RankDied")
    assert "rank 1 on h2 is gone" in cell.shown and by_rank(cell.stdout)[0] == ["back"], cell.shown
    assert values(nb.ok("%%distribute -n 1 --gather\n(os.getpid(), kept)")) == [(pids[0], 7)]
    cell = nb.ok(WHERE % "-n 2", limit=150)
    assert [row[:2] for row in values(cell)] == [["0", "0"], ["1", "0"]] and "is started again" in cell.stderr, cell.shown
