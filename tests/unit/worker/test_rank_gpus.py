# SPDX-License-Identifier: BSD-3-Clause
"""What ranks do with GPUs, with stubs of torch and NCCL where these would be needed."""

import os
import subprocess
import sys
import threading
import types

import pytest

from cellspan._capture import tensors
from cellspan._worker import aborts, gpus, host_facts, zygote


# ---- NCCL's settings, which it reads once


@pytest.fixture
def settings(monkeypatch):
    monkeypatch.setattr(gpus, "_nccl_read", None)
    monkeypatch.setattr(gpus, "_late", set())
    for name in [name for name in os.environ if name.startswith("NCCL_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_a_setting_of_nccl_that_comes_too_late_is_told_once(settings):
    given = {"NCCL_DEBUG": "INFO", "NCCL_ALGO": "Ring", "MASTER_PORT": "1"}
    assert gpus.too_late(given) == "", "NCCL was not used yet"
    settings.setenv("NCCL_ALGO", "Ring")
    gpus.nccl_used()
    text = gpus.too_late(given)
    assert "NCCL_DEBUG=INFO has no effect" in text and "--fresh" in text and "ALGO" not in text and "PORT" not in text
    assert gpus.too_late(given) == ""
    assert "NCCL_DEBUG=WARN" in gpus.too_late({"NCCL_DEBUG": "WARN"})


# ---- a device that is busy with a collective which never ends


class Cuda:
    """What drain() sees of torch: `busy` until the backend is aborted."""

    def __init__(self, ends_by_abort=True):
        self.free, self.aborted, self.ends = threading.Event(), 0, ends_by_abort
        self.cuda = types.SimpleNamespace(
            is_initialized=lambda: True, current_device=lambda: 0, synchronize=lambda device: self.free.wait(60)
        )
        self.device = lambda kind, index: (kind, index)

    def abort(self):
        self.aborted += 1
        if self.ends:
            self.free.set()


@pytest.fixture
def hung(monkeypatch):
    def make(**options):
        torch = Cuda(**options)
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setattr(gpus, "devices", lambda: [("GPU-0", "")])
        monkeypatch.setattr(aborts, "backends", lambda distributed=None: [torch])
        return torch

    return make


def test_a_hung_collective_is_aborted_before_gpu_memory_is_touched(hung, capsys):
    torch = hung()
    gpus.drain(0.4)
    assert torch.aborted == 1 and "process groups are aborted" in capsys.readouterr().err
    assert gpus.take_aborted() and not gpus.take_aborted(), "the kernel is told once"


def test_what_is_done_in_time_is_not_aborted(hung, capsys):
    torch = hung()
    threading.Timer(0.2, torch.free.set).start()
    gpus.drain(60)
    assert torch.aborted == 0 and capsys.readouterr().err == "" and not gpus.take_aborted()


def test_a_gpu_that_stays_busy_is_an_error_and_no_hang(hung):
    torch = hung(ends_by_abort=False)
    with pytest.raises(gpus.GpuError, match="still busy"):
        gpus.drain(0.4)
    torch.free.set()
    assert gpus.take_aborted()


def test_without_communicators_nothing_is_waited_for(hung, monkeypatch):
    hung()
    monkeypatch.setattr(aborts, "backends", lambda distributed=None: [])
    gpus.drain(60)


# ---- contexts that are lost


@pytest.mark.parametrize(
    "text, lost",
    [
        ("CUDA error: device-side assert triggered\nCUDA kernel errors might be", True),
        ("CUDA error: an illegal memory access was encountered", True),
        ("CUDA driver error: CUDA_ERROR_LAUNCH_FAILED", True),
        ("CUDA out of memory. Tried to allocate 20.00 GiB", False),
        ("NCCL error: unhandled system error", False),
    ],
)
def test_errors_after_which_a_gpu_is_of_no_use_are_known(text, lost):
    assert gpus.lost_context(text) is lost


# ---- views of large storages


def test_of_a_storage_on_a_gpu_only_what_is_seen_is_copied(monkeypatch):
    torch = pytest.importorskip("torch")
    whole = torch.arange(1 << 20, dtype=torch.uint8)
    part = tensors.part_of(whole.untyped_storage(), 4096, 256)
    assert part.numel() == 256 and part.data_ptr() == whole.data_ptr() + 4096

    class OnGpu:
        """A storage that is not in host memory: whoever copies all of it has no room for it."""

        device = types.SimpleNamespace(type="cuda")

        def nbytes(self):
            return whole.untyped_storage().nbytes()

        def cpu(self):
            raise MemoryError

    asked = []
    monkeypatch.setattr(tensors, "part_of", lambda storage, low, size: asked.append((low, size)) or part)
    seen = tensors.Storage(OnGpu(), None)
    seen.cover(4096, 4352)
    view, _ = seen.view()
    assert asked == [(4096, 256)] and bytes(view) == bytes(whole[4096:4352].tolist())


# ---- what the zygote imports


def test_a_module_that_uses_the_gpu_while_it_is_imported_is_named(monkeypatch, capsys, tmp_path):
    here = tmp_path / "nvidia0"
    here.write_text("")
    monkeypatch.setattr(zygote, "GPU_FILES", str(here))
    held = zygote._tell_of_gpus("good", zygote.gpu_files())
    with open(here):
        held = zygote._tell_of_gpus("bad", held)
        zygote._tell_of_gpus("good too", held)
    told = capsys.readouterr().err
    assert told.startswith("bad uses the GPU while it is imported") and "good" not in told and "CELLSPAN_PRELOAD" in told


def test_what_is_imported_beforehand_counts_gpus_without_cuda(tmp_path):
    (tmp_path / "counts.py").write_text("import os\nprint(os.environ.get('PYTORCH_NVML_BASED_CUDA_CHECK'))")
    done = preloaded("counts", (), path=str(tmp_path))
    assert done.stdout.split() == ["1", "None"], done


def preloaded(setting, ours, path=""):
    """A process that has done what a zygote does with this CELLSPAN_PRELOAD, if cellspan itself wants the modules `ours`."""
    code = (f"import os\nfrom cellspan._worker import wanted, zygote\nwanted.PRELOAD = {ours!r}\nzygote.preload()\n"
            "print(os.environ.get('PYTORCH_NVML_BASED_CUDA_CHECK'))")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([path, os.environ.get("PYTHONPATH", "")]), CELLSPAN_PRELOAD=setting)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)


@pytest.mark.parametrize("setting, told", [
    ("", []),
    ("json.tool,-absent_two", []),
    ("absent_tree,json.absent_leaf", ["absent_tree could not be imported beforehand: ModuleNotFoundError: No module named 'absent_tree'",
                                      "json.absent_leaf could not be imported beforehand: ModuleNotFoundError: No module named 'json.absent_leaf'"]),
    ("absent_one", ["absent_one could not be imported beforehand: ModuleNotFoundError: No module named 'absent_one'"]),
    ("json,-jsn,-json.tool", ["%s leaves nothing out. The packages that are imported beforehand are absent_one, absent_two, json" % word
                              for word in ("-jsn", "-json.tool")]),
    ("json,-absent_two,-jsn", ["-jsn leaves nothing out. The packages that are imported beforehand are absent_one, json"]),
])
def test_a_name_that_preloads_nothing_is_told_unless_it_is_one_of_ours(setting, told):
    done = preloaded(setting, ("absent_one", "absent_two.leaf"))
    assert done.stderr.splitlines() == ["CELLSPAN_PRELOAD: " + line for line in told], done


# ---- the network, for %ranks check


def test_links_and_infiniband_devices_are_told(tmp_path):
    def put(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    put("net/eth0/speed", "25000\n")
    put("net/eth1/speed", "-1\n")
    put("net/lo/mtu", "65536\n")
    put("ib/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n")
    put("ib/mlx5_0/ports/1/state", "4: ACTIVE\n")
    put("ib/mlx5_1/ports/1/rate", "10 Gb/sec (4X SDR)\n")
    put("ib/mlx5_1/ports/1/state", "1: DOWN\n")
    assert host_facts.speeds(tmp_path / "net") == {"eth0": 25000}
    assert host_facts.infiniband(tmp_path / "ib") == ["mlx5_0: 400 Gb/sec (4X NDR)", "mlx5_1: down"]
    assert host_facts.speeds(tmp_path / "none") == {} and host_facts.infiniband(tmp_path / "none") == []
