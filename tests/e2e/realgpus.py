# SPDX-License-Identifier: BSD-3-Clause
"""Helpers of the cases on real GPUs (tests/gpu/run). A case marked `doubles` also runs in the ordinary tests, with doubles of the
driver's libraries. A case marked `gpu` runs only where there is a device and a torch with CUDA."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import processes
import pytest
from test_gpus import Machine, doubles  # noqa: F401  (a fixture)

REAL = os.environ.get("CELLSPAN_TEST_GPUS") in ("real", "shared")
SHARED = os.environ.get("CELLSPAN_TEST_GPUS") == "shared"  # two ranks on one GPU play those on two
ON = os.environ.get("CELLSPAN_TEST_GPUS_ON", "")  # an engine with at least two machines that have GPUs
SOAK = bool(os.environ.get("CELLSPAN_TEST_SOAK"))
LATER = 90  # seconds after which torch's own watchdog would have ended a rank
MUCH_LATER = 20 * 60
ALL = "-n 2" if SHARED else "-n gpu"  # a rank on each GPU
RANK = "import os, torch, torch.distributed as dist\nrank = dist.get_rank()\n"

# What nvidia-smi would say of the doubles' machine: a line for each GPU.
SMI = "#!/bin/sh\n" + "".join(
    "case \"$*\" in *memory.total*) echo '%d, 81920' ;; *) echo 'GPU %d: double (UUID: GPU-a00%d1234-0000-4000-8000-0123456789ab)' ;; esac\n" % (k, k, k)
    for k in range(4))


@pytest.fixture
def machine(tmp_path, request, monkeypatch):
    """The doubles' machine; None: this one."""
    if REAL:
        return None
    made = Machine(tmp_path, request.getfixturevalue("doubles"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").write_text(SMI)
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path / "bin", os.environ["PATH"]))
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def book(fresh, machine):
    """Makes notebooks on this machine's GPUs, or on the doubles. kernel: the name of another kernelspec. started: where two ranks
    share a GPU, whether they are there at once (otherwise the test starts them)."""

    def make(kernel=None, started=True, **more):
        shared = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if SHARED else {}
        nb = fresh(env={**(machine.environment if machine else {}), **shared, **more}, **({"kernel": kernel} if kernel else {}))
        if SHARED and started:
            nb.ok("%%distribute -n 2 --share\nNone")
        return nb

    return make


def smi():
    """[(number, uuid)] of this machine's GPUs, by nvidia-smi; instances are left out."""
    out = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    return [(int(number), uuid) for number, uuid in re.findall(r"^GPU (\d+): .*\(UUID: (GPU-[^)]+)\)", out, re.M)]


def asked(field):
    """{number: this field} of this machine's GPUs, by nvidia-smi."""
    out = subprocess.run(["nvidia-smi", "--query-gpu=index," + field, "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
    rows = [row.split(", ") for row in out.splitlines() if ", " in row]
    return {int(number): value.strip() for number, value in rows}


def bus_ids():
    """{number: PCI address} of this machine's GPUs, as "0000:3b:00.0"."""
    return {number: address.lower()[-12:] for number, address in asked("pci.bus_id").items()}


def numa_nodes():
    """{number: NUMA node} of this machine's GPUs, by Linux; None: it has none, or Linux does not know."""
    found = {}
    for number, address in bus_ids().items():
        try:
            with open("/sys/bus/pci/devices/%s/numa_node" % address, encoding="ascii") as file:
                node = int(file.read())
        except OSError:
            node = -1
        found[number] = node if node >= 0 else None
    return found


def needs(gpus=1, nodes=1, soak=False, own=False):
    """Marks a case for real GPUs; it is skipped, with the reason, where there are fewer, or it would take too long. own: two ranks on
    one GPU can't play it."""

    def mark(function):
        function = pytest.mark.gpu(function)
        function = pytest.mark.limit(2000 if soak else 500)(function)
        found = len(smi()) if REAL and shutil.which("nvidia-smi") else 0
        if SHARED:
            unfit = pytest.mark.skipif(gpus < 2, reason="tests/gpu/run without --shared has it")
            function = pytest.mark.skipif(own, reason="needs a GPU for each rank")(unfit(function))
            found = max(found, 2)
        function = pytest.mark.skipif(nodes > 1 and not ON, reason="needs tests/gpu/run --on with %d machines" % nodes)(function)
        function = pytest.mark.skipif(found < gpus, reason="needs %d GPUs, this machine has %d" % (gpus, found))(function)
        return pytest.mark.skipif(soak and not SOAK, reason="takes long: CELLSPAN_TEST_SOAK=1")(function)

    return mark


def stay(nb, pids, seconds=LATER):
    """Ranks' processes are there for so long, and the kernel answers meanwhile."""
    assert not processes.wait_until(lambda: not all(map(processes.alive, pids)), seconds), "a rank ended by itself"
    assert nb.ok("%ranks").reply["status"] == "ok"


def gpu_processes():
    """{(pid, uuid)} of what computes on this machine's GPUs."""
    command = ["nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader"]
    rows = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return {tuple(part.strip() for part in row.split(",")) for row in rows if "," in row}
