"""The GPU of this rank and its NCCL, as checks and casts use them. Nothing is loaded before somebody asks."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

from . import _link, imports

_settled = False
_told = None  # the place that misplaced() last told

class GpuError(Exception):
    """There is no GPU, no driver or no NCCL to work with; the text is for the user."""


def places():
    """Where NCCL may be, the wheel that torch brings along first: [bytes]."""
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
    """(version as 22403, path) of NCCL, which is then loaded. GpuError: there is none."""
    try:
        return _link.nccl_load(places())
    except OSError as error:
        raise GpuError(str(error)) from None


def version_text(number):
    """22403 -> "2.24.3"; before 2.9 the code was shorter, 2804 -> "2.8.4"."""
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
        raise GpuError("no GPU is visible to this rank")
    return found


def own(environ=None):
    """[int]: which of the GPUs that this rank sees are its own; the others are those of the ranks beside it. [] where nobody
    gave it any. The agent says it in CELLSPAN_LOCAL_GPUS."""
    text = (os.environ if environ is None else environ).get("CELLSPAN_LOCAL_GPUS", "")
    return [int(part) for part in text.split(",") if part.isdigit()]


def settle():
    """Makes plain "cuda" mean this rank's own GPU in torch, also in one that is imported later. Once in a process: what the
    user chooses then stays. CUDA is not touched before the user's code does."""
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
    """A sentence, once, where LOCAL_RANK is not the number of this rank's GPU: ranks came to this machine, or left it, after
    this process began. Else ""."""
    global _told
    mine, seen = own(), os.environ.get("CUDA_VISIBLE_DEVICES", "").count(",") + 1
    if not mine or seen == len(mine) or mine[0] == local_rank * len(mine) or _told == local_rank:
        return ""
    _told = local_rank
    return (
        f"its GPU is cuda:{mine[0]}, though LOCAL_RANK is {local_rank}, for ranks came to this machine or left it: "
        'plain "cuda" is right, and --fresh puts the numbers in order'
    )


def device():
    """The index of this rank's GPU: torch's current one, else its own, else the only one, else that of LOCAL_RANK."""
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
    """This rank's GPU as torch names it, or None: it has none, or a torch without CUDA. Imports torch."""
    try:
        torch = importlib.import_module("torch")
        return torch.device("cuda", device()) if torch.cuda.is_available() else None
    except (ImportError, GpuError):
        return None


def facts():
    """{"driver", "nccl", "nccl_path", "gpus": [[uuid, name]], "gpu_error"}; None, "" and [] for what is not there."""
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
    """A new communicator's id, bytes; this rank is the one that the others will look for."""
    nccl()
    try:
        return _link.nccl_id()
    except OSError as error:
        raise GpuError(str(error)) from None


def check_world(identity, rank, ranks, ops, sizes, budget, seconds):
    """(rows, error) of a world: see _link.check_nccl."""
    nccl()
    return _link.check_nccl(device(), identity, rank, ranks, ops, sizes, budget, seconds)


def check_pair(check, pair, ops, sizes, budget, seconds):
    """(rows, error) of a communicator of two; its id goes from the first to the second over tcp."""
    other = pair[1] if check.rank == pair[0] else pair[0]
    try:
        gives = check.rank == pair[0]
        identity = unique_id() if gives else bytes(128)
        identity = _link.mesh_pass(check.mesh, check.rank, other, gives, identity, seconds, check.closed)
    except (OSError, GpuError) as error:
        return [], str(error)
    return check_world(identity, pair.index(check.rank), 2, ops, sizes, budget, seconds)
