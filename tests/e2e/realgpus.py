"""Helpers of the cases on real GPUs (tests/gpu/run). A case marked `doubles` also runs in the ordinary tests, with doubles of the
driver's libraries. A case marked `gpu` runs only where there is a device and a torch with CUDA."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import processes
import pytest

REAL = os.environ.get("CELLSPAN_TEST_GPUS") == "real"
ON = os.environ.get("CELLSPAN_TEST_GPUS_ON", "")  # an engine with at least two machines that have GPUs
SOAK = bool(os.environ.get("CELLSPAN_TEST_SOAK"))
LATER = 90  # seconds after which torch's own watchdog would have ended a rank
MUCH_LATER = 20 * 60


def smi():
    """[(number, uuid)] of this machine's GPUs, by nvidia-smi; instances are left out."""
    out = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    return [(int(number), uuid) for number, uuid in re.findall(r"^GPU (\d+): .*\(UUID: (GPU-[^)]+)\)", out, re.M)]


def needs(gpus=1, nodes=1, soak=False):
    """Marks a case for real GPUs; it is skipped, with the reason, where there are fewer, or it would take too long."""

    def mark(function):
        function = pytest.mark.gpu(function)
        function = pytest.mark.limit(2000 if soak else 500)(function)
        found = len(smi()) if REAL and shutil.which("nvidia-smi") else 0
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
