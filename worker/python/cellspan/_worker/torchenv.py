"""What a rank sees of its world: torchrun's environment (and JAX's), and torch.distributed initialised from it."""

from __future__ import annotations

import inspect
import os
import socket
import sys
from collections import namedtuple

from . import aborts, gpus, groups

# Which network interface to use among several. NCCL would take a plain name for the beginning of names, eth1 for eth10 as well.
INTERFACES = {"NCCL_SOCKET_IFNAME": "={}", "GLOO_SOCKET_IFNAME": "{}"}
JAX_GPUS = ("JAX_CUDA_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS")
# What keeps a rank that stays from one cell to the next alive when a collective fails: torch's watchdog and monitor would end
# the process, and with it all its variables, where cellspan ends the collective (aborts.py) and says which rank it waits for.
RESIDENT = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": 0,  # the watchdog throws nothing
    "TORCH_NCCL_ENABLE_MONITORING": 0,  # nobody kills the process when the watchdog itself waits
    "TORCH_NCCL_DUMP_ON_TIMEOUT": 0,  # nor after a dump that another rank has asked for
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": 1,  # no wait for dumps, during which aborts would have to wait as well
    "TORCH_NCCL_RETHROW_CUDA_ERRORS": 0,  # the cell raises them; the watchdog does not end the process for them
}
SCRIPT = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": 1}  # as torchrun has it
OLD_NAMES = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "NCCL_ASYNC_ERROR_HANDLING"}  # torch reads these where the others are not set
KEPT = ("OMP_NUM_THREADS", *RESIDENT, *INTERFACES, *JAX_GPUS)  # what stands there already stays
MEETS = ("MASTER_PORT", "JAX_COORDINATOR_ADDRESS")
SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"  # what torchrun's agent handles; libraries read it to know who is in charge

# Of the process groups that torch sees:
_size = None  # WORLD_SIZE of the cells that made them, and that see them; see enter_world()
_restarts = None  # TORCHELASTIC_RESTART_COUNT when torch.distributed was initialised; see look()
_world = None  # the world for which torch.distributed was initialised: world_of()

UNINITIALISED = "Default process group has not been initialized"  # torch's words

Place = namedtuple("Place", "node nodes local_rank local_world_size")


def place_of(rank, layout):
    """Where a rank stands in its world: Place(node, nodes, local_rank, local_world_size), nodes counted from 0 and local
    ranks in the order of ranks.

    layout: the node of each rank, in order, as "0*4,1*4"; a node may come up again, and nodes may have unlike numbers of
    ranks. ValueError: it is malformed, or has no such rank.
    """
    nodes = []
    for run in layout.split(","):
        node, _, count = run.partition("*")
        nodes += [int(node)] * int(count or 1)
    if rank >= len(nodes):
        raise ValueError(f"there is no rank {rank} in the layout {layout!r}")
    mine = nodes[rank]
    return Place(mine, len(set(nodes)), nodes[:rank].count(mine), nodes.count(mine))


class TorchError(RuntimeError):
    """torch.distributed could not be initialised; the text says what to do."""


def rank_environment(
    rank,
    local_rank,
    world_size,
    local_world_size,
    node_rank,
    nodes,
    master_addr,
    master_port,
    run_id,
    error_file,
    cores,
    environ=None,
    given=None,
    script=False,
):
    """{name: text}: the environment that torchrun would give this rank, and what JAX and Lightning read beside it.

    cores: of this node. environ: what the process has already (default: os.environ); KEPT are left alone where they stand
    there; CELLSPAN_IFNAME, by which this node reaches the others, becomes INTERFACES where the world has several nodes.
    given: what the user set with --env; those win. script: a script runs, which may end as it would under torchrun; else
    RESIDENT holds.
    """
    environ = os.environ if environ is None else environ
    values = {
        "RANK": rank,
        "WORLD_SIZE": world_size,
        "LOCAL_RANK": local_rank,
        "LOCAL_WORLD_SIZE": local_world_size,
        "GROUP_RANK": node_rank,
        "GROUP_WORLD_SIZE": nodes,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world_size,
        "ROLE_NAME": "default",
        "NODE_RANK": node_rank,
        "MASTER_ADDR": master_addr,
        "MASTER_PORT": master_port,
        "TORCHELASTIC_RUN_ID": run_id,
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCHELASTIC_USE_AGENT_STORE": "False",  # rank 0 hosts the store
        "TORCHELASTIC_SIGNALS_TO_HANDLE": SIGNALS,
        "TORCHELASTIC_ERROR_FILE": error_file,
        "OMP_NUM_THREADS": max(1, int(cores) // max(1, int(local_world_size))),
        "JAX_COORDINATOR_ADDRESS": f"{master_addr}:{master_port}",
        "JAX_PROCESS_ID": rank,
        "JAX_NUM_PROCESSES": world_size,
    }
    values.update(SCRIPT if script else RESIDENT)
    mine = ",".join(map(str, gpus.own(environ)))
    if mine:  # JAX would take all that it sees
        values.update({name: mine for name in JAX_GPUS})
    if ":" in str(master_addr):
        values["NCCL_SOCKET_FAMILY"] = environ.get("NCCL_SOCKET_FAMILY") or "AF_INET6"
    interface = environ.get("CELLSPAN_IFNAME")
    if interface and int(nodes) > 1:
        values.update({name: form.format(interface) for name, form in INTERFACES.items()})
    for name in KEPT:
        if environ.get(name):
            values[name] = environ[name]
    for name, old in OLD_NAMES.items():
        if not environ.get(name) and (environ.get(old) or (given or {}).get(old)):
            del values[name]  # torch would prefer it to what the user set
    values = {name: str(value) for name, value in values.items()}
    values.update(given or {})
    return values


# ---- torch.distributed --------------------------------------------------------------------------------------------


def is_initialized():
    """Whether torch.distributed has a process group here. Does not import torch."""
    distributed = sys.modules.get("torch.distributed")
    check = getattr(distributed, "is_initialized", None)
    try:
        return bool(check and check())
    except Exception:  # a torch without distributed, or one that is half imported
        return False


def look():
    """At a cell's end: is_initialized(); when and where it first was is remembered for enter_world() and init_process_group()."""
    global _restarts, _world
    if not is_initialized():
        _restarts = None
        return False
    if aborts.backends():
        gpus.nccl_used()
    if _restarts is None:
        _restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT")
    if _world is None:
        _world = world_of()
    return True


def enter_world():
    """Before a cell: torch.distributed has the process groups that cells of this world's size made, and no others: in one of
    another world those ranks would be waited for that do not run the cell.

    Ends those whose connections broke since they were made (the kernel counts up TORCHELASTIC_RESTART_COUNT when a rank died or
    its connections were cut). Nobody would answer in them, and while one is there init_process_group() refuses to make another.
    """
    size, count = os.environ.get("WORLD_SIZE"), os.environ.get("TORCHELASTIC_RESTART_COUNT")
    _leave_broken(count)
    broken = [other for other, aside in groups.hidden.items() if aside.note[0] not in (None, count)]
    if size != _size or broken:
        if is_initialized() and not groups.hide(_size, (_restarts, _world)):
            return  # torch 1
        for other in broken:  # torch ends what it sees
            _take_back(other)
            _leave_broken(count)
        _take_back(size)
    groups.count_anew()


def _leave_broken(count):
    global _restarts
    if _restarts is not None and _restarts != count:
        _restarts = None
        destroy_process_group()


def _take_back(size):
    global _size, _restarts, _world
    _size = size
    _restarts, _world = groups.show(size) or (None, None)


def explained(text):
    """What there is to say of an error with this text: torch.distributed is initialised for another world; or ""."""
    if UNINITIALISED not in text or not groups.hidden:
        return ""
    sizes = " and ".join(sorted((str(size) for size in groups.hidden), key=lambda size: (len(size), size)))
    theirs = "process groups belong to worlds" if len(groups.hidden) > 1 else "process group belongs to a world"
    return f"the {theirs} of {sizes} ranks, and this cell's world has {os.environ.get('WORLD_SIZE')}: add --init"


def world_of(environ=None):
    """What makes two worlds the same one: their size, their run, where they meet, and which rank this is in it."""
    environ = os.environ if environ is None else environ
    names = ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
    return tuple(environ.get(name) for name in names)


def choose_backend(backend, torch):
    """What init_process_group() is called with for "auto" (or an empty text): gloo; and NCCL beside it, for what lies on a GPU,
    where every rank has a GPU of its own (the kernel says so in CELLSPAN_GPUS), or sees one for each rank of the node."""
    if backend not in ("", "auto", None):
        return backend
    local = 1 if os.environ.get("CELLSPAN_GPUS") else int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    if not (torch.cuda.is_available() and torch.cuda.device_count() >= local and torch.distributed.is_nccl_available()):
        return "gloo"
    both = hasattr(torch.distributed.distributed_c10d, "BackendConfig")  # torch 2.0
    return "cpu:gloo,cuda:nccl" if both else "nccl"


def init_process_group(backend="auto"):
    """Initialises torch.distributed for the world in the environment, once; the backend that is then in use.

    A group of another world (another size, run or port) is destroyed first; one that the user's code made for this world
    stays. TorchError: there is no torch, no such backend, or too few GPUs.
    """
    global _world
    torch = _import_torch()
    distributed = torch.distributed
    world = world_of()
    if is_initialized():
        ours = _world if _world is not None else _world_in_use(distributed)
        if ours == world or (_world is None and ours == world[:2]):
            _world = world
            return distributed.get_backend()
        destroy_process_group()
    groups.count_anew()
    backend = choose_backend(backend, torch)
    options = {}
    if "nccl" in backend:
        device = _take_device(torch, backend)
        if "device_id" in inspect.signature(distributed.init_process_group).parameters:  # torch 2.3
            options["device_id"] = device  # else the first barrier() takes the GPU with the rank's number
    if "gloo" in backend:
        _meet_by_six()
    try:
        distributed.init_process_group(backend, **options)
    except (ValueError, RuntimeError) as error:
        meets = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise TorchError(f"torch.distributed.init_process_group({backend!r}) at {meets}: {error}") from error
    _world = world
    return distributed.get_backend()


def _meet_by_six():
    """Where the world meets by IPv6, for machines that have nothing else: gloo would take its interface's first address, which
    is of IPv4 wherever there is one. So groups of gloo are told this machine's address on the way to rank 0; torch gives them no
    other way to say it."""
    from torch.distributed import distributed_c10d as c10d

    real = getattr(c10d, "ProcessGroupGloo", None)
    if ":" not in os.environ.get("MASTER_ADDR", "") or real is None or getattr(real, "by_six", False):
        return

    class ProcessGroupGloo(real):
        by_six = True

        def __init__(self, store, rank, size, timeout=c10d.default_pg_timeout):
            options = real._Options()
            options._timeout = timeout
            options._devices = [real.create_device(hostname=_own_address(os.environ["MASTER_ADDR"]))]
            super().__init__(store, rank, size, options)

    c10d.ProcessGroupGloo = ProcessGroupGloo


def _own_address(other):
    """This machine's, on the way to another one."""
    with socket.socket(socket.AF_INET6 if ":" in other else socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((other, 1))
        return way.getsockname()[0]


def destroy_process_group():
    """Ends the process group, if there is one; what it raises on the way out is of no use to anybody."""
    global _world
    _world = None
    if not is_initialized():
        return
    try:
        sys.modules["torch.distributed"].destroy_process_group()
    except Exception:  # the other ranks are gone, or the backend was aborted
        pass


def _world_in_use(distributed):
    return str(distributed.get_world_size()), str(distributed.get_rank())


def _import_torch():
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        raise TorchError(f"--init needs torch in {sys.executable}: {error} ({sys.executable} -m pip install torch)") from error
    if not torch.distributed.is_available():
        raise TorchError(f"--init: this torch ({torch.__version__}) was built without torch.distributed")
    return torch


def _take_device(torch, backend):
    """Makes this rank's GPU the current one: its own, or where nobody gave it one, that of LOCAL_RANK. It, as torch names it."""
    local = int(os.environ.get("LOCAL_RANK") or 0)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise TorchError(f"--init {backend}: torch sees no GPU here; --init gloo works without")
    mine = gpus.own()
    local = mine[0] if mine else 0 if count == 1 else local
    if local >= count:
        raise TorchError(f"--init {backend}: rank {os.environ.get('RANK')} is the {local + 1}. on this node, which has {count} GPUs")
    torch.cuda.set_device(local)
    return torch.device("cuda", local)
