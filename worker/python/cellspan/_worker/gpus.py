# SPDX-License-Identifier: BSD-3-Clause
"""This rank's GPU and NCCL, for checks and broadcasts. Loads nothing before it is needed."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading

from .. import _link
from .._base import imports, threads
from . import aborts

_settled = False
_reported = None  # the LOCAL_RANK that misplaced() last reported
_nccl_read = None  # NCCL's settings when NCCL was first used; see nccl_used()
_aborted = False  # see take_aborted()
_late = set()  # the settings that too_late() has reported

# Texts of errors that end the CUDA context: after them nothing on the GPU works in this process.
CONTEXT_ENDS = (
    "device-side assert triggered",
    "an illegal memory access was encountered",
    "unspecified launch failure",
    "misaligned address",
    "an illegal instruction was encountered",
    "invalid program counter",
    "hardware stack error",
    "operation not supported on global/shared address space",
    "uncorrectable ECC error encountered",
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
)

class GpuError(Exception):
    """There is no GPU, no driver or no NCCL; the text is for the user."""


def places():
    """Paths where NCCL may be, as [bytes]; that of the wheel that torch requires is first."""
    found = []
    for name in ("nvidia.nccl", "nvidia"):
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            continue
        for folder in getattr(spec, "submodule_search_locations", None) or ():
            below = "lib" if name == "nvidia.nccl" else os.path.join("nccl", "lib")
            path = os.path.join(folder, below, "libnccl.so.2")
            if path not in found and os.path.exists(path):
                found.append(path)
    return [os.fsencode(path) for path in found]


def nccl():
    """Loads NCCL. Returns (version such as 22403, path). GpuError: there is none."""
    try:
        return _link.nccl_load(places())
    except OSError as error:
        raise GpuError(str(error)) from None


def nccl_used():
    """Call it when NCCL is first used: NCCL reads its settings from the environment only once."""
    global _nccl_read
    if _nccl_read is None:
        _nccl_read = {name: value for name, value in os.environ.items() if name.startswith("NCCL_")}


def too_late(given):
    """A sentence about settings of NCCL that have no effect any more here, each reported once; else ""."""
    if _nccl_read is None:
        return ""
    late = {(name, value) for name, value in given.items() if name.startswith("NCCL_") and _nccl_read.get(name) != value} - _late
    _late.update(late)
    if not late:
        return ""
    listed = ", ".join(f"{name}={value}" for name, value in sorted(late))
    return f"--env {listed} has no effect: NCCL has already read its settings, in an earlier cell; add --fresh"


def lost_context(text):
    """Does an error's text mean that this process can't use its GPU any more?"""
    return any(words in text for words in CONTEXT_ENDS)


def drain(seconds):
    """Waits until this rank's GPU has finished torch's work, if torch has communicators there: a collective whose peers never came
    keeps the GPU busy, so that memory can neither be allocated nor freed. After half of the time, aborts torch's process groups.

    GpuError: it is still busy.
    """
    global _aborted
    torch = sys.modules.get("torch")
    if torch is None or not aborts.backends() or not torch.cuda.is_initialized():
        return
    done, mine = threading.Event(), torch.device("cuda", device())
    threads.begin("drain", _synchronize, torch, mine, done)
    if done.wait(seconds / 2):
        return
    print(
        f"the GPU was still busy after {seconds / 2:.0f} s with a collective of an earlier cell that not all ranks are in: torch's "
        "process groups are aborted (the next --init makes new ones)",
        file=sys.stderr,
    )
    _aborted = True
    aborts.abort_all()
    if not done.wait(seconds / 2):
        raise GpuError("this rank's GPU is still busy with what an earlier cell gave it: wait, or %ranks restart ends the rank and starts a new one")


def take_aborted():
    """Has drain() aborted process groups since the last call? The kernel must know, so that all ranks make new ones."""
    global _aborted
    was, _aborted = _aborted, False
    return was


def _synchronize(torch, mine, done):
    try:
        torch.cuda.synchronize(mine)
    except Exception:  # noqa: BLE001 - an error of an earlier kernel, which the next use of the GPU will raise, too
        pass
    finally:
        done.set()


def version_text(number):
    """22403 -> "2.24.3"; before 2.9 the number was shorter, 2804 -> "2.8.4"."""
    if number < 10000:
        return f"{number // 1000}.{number // 100 % 10}.{number % 100}"
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def devices():
    """[(uuid, name)] of the GPUs that this rank sees. GpuError: there is no driver, or no GPU."""
    try:
        found = _link.cuda_devices()
    except OSError as error:
        raise GpuError(str(error)) from None
    if not found:
        raise GpuError("no GPU is visible to this rank; see its CUDA_VISIBLE_DEVICES")
    return found


def own(environ=None):
    """[int]: which of the visible GPUs are this rank's own; the others are those of other ranks on the node. [] if it has
    none. The agent sets this in CELLSPAN_LOCAL_GPUS."""
    text = (os.environ if environ is None else environ).get("CELLSPAN_LOCAL_GPUS", "")
    return [int(part) for part in text.split(",") if part.isdigit()]


def settle():
    """Makes "cuda" without a number mean this rank's own GPU in torch, even if torch is imported later. Only once in a process, so
    that a later choice of the user's is kept. Does not initialise CUDA before the user's code does."""
    global _settled
    if not _settled and own():
        imports.when_imported("torch", _prefer_own)
    _settled = True


def _prefer_own():
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    later = getattr(cuda, "_lazy_call", None)  # called when torch makes its first CUDA context
    if later is not None:
        first = own()[0]
        later(lambda: cuda.set_device(first))


def misplaced(local_rank):
    """A sentence, once, if LOCAL_RANK is not the number of this rank's GPU, because ranks have started or ended on this machine
    since this process began. Else ""."""
    global _reported
    mine, seen = own(), os.environ.get("CUDA_VISIBLE_DEVICES", "").count(",") + 1
    if not mine or seen == len(mine) or mine[0] == local_rank * len(mine) or _reported == local_rank:
        return ""
    _reported = local_rank
    return (
        f"its GPU is cuda:{mine[0]}, though LOCAL_RANK is {local_rank}, because ranks were added to this machine or have left it: "
        'use plain "cuda", or --fresh once'
    )


def device():
    """The index of this rank's GPU: torch's current device, else its own GPU, else the only one, else that of LOCAL_RANK."""
    count = len(devices())
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_initialized():
            return int(torch.cuda.current_device())
    except Exception:  # noqa: BLE001 - a torch without CUDA
        pass
    mine = own()
    if mine and mine[0] < count:
        return mine[0]
    local = os.environ.get("LOCAL_RANK", "")
    return int(local) if count > 1 and local.isdigit() and int(local) < count else 0


def torch_device():
    """This rank's GPU as a torch.device; None: it has none, or torch has no CUDA. Imports torch."""
    try:
        torch = imports.whole("torch")
        return torch.device("cuda", device()) if torch.cuda.is_available() else None
    except (ImportError, GpuError):
        return None


def facts():
    """{"driver", "nccl", "nccl_path", "gpus": [[uuid, name]], "gpu_error"}; None, "" or [] for missing ones."""
    found = {"driver": None, "nccl": None, "nccl_path": None, "gpus": [], "gpu_error": ""}
    try:
        number = _link.cuda_driver()
        found["driver"] = f"{number // 1000}.{number % 1000 // 10}"
        found["gpus"] = [list(one) for one in devices()]
        number, found["nccl_path"] = nccl()
        found["nccl"] = version_text(number)
    except (OSError, GpuError) as error:
        found["gpu_error"] = str(error)
    return found


def unique_id():
    """The id of a new communicator, as bytes; the other ranks will connect to this rank."""
    nccl()
    nccl_used()
    try:
        return _link.nccl_id()
    except OSError as error:
        raise GpuError(str(error)) from None


def check_world(identity, rank, ranks, ops, sizes, budget, seconds):
    """(rows, error) of a world: see _link.check_nccl."""
    nccl()
    nccl_used()
    return _link.check_nccl(device(), identity, rank, ranks, ops, sizes, budget, seconds)


def check_pair(check, pair, ops, sizes, budget, seconds):
    """(rows, error) of a communicator of two ranks; its id is sent from the first to the second over tcp."""
    other = pair[1] if check.rank == pair[0] else pair[0]
    try:
        gives = check.rank == pair[0]
        identity = unique_id() if gives else bytes(128)
        identity = _link.mesh_pass(check.mesh, check.rank, other, gives, identity, seconds, check.closed)
    except (OSError, GpuError) as error:
        return [], str(error)
    return check_world(identity, pair.index(check.rank), 2, ops, sizes, budget, seconds)
