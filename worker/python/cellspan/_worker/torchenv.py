# SPDX-License-Identifier: BSD-3-Clause
"""The environment of a rank's world, as torchrun and JAX set it, and torch.distributed initialised from it."""

from __future__ import annotations

import inspect
import os
import socket
import sys
from collections import namedtuple

from . import aborts, accelerate_state, gpus, groups

# The network interface to use. NCCL takes a name as a prefix, so that eth1 would also match eth10; "=" makes it exact.
INTERFACES = {"NCCL_SOCKET_IFNAME": "={}", "GLOO_SOCKET_IFNAME": "{}"}
JAX_GPUS = ("JAX_CUDA_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS")
# Settings that keep a notebook's rank alive when a collective fails. Otherwise torch's watchdog and monitor would end the process,
# and all its variables would be lost. cellspan itself ends the collective (aborts.py) and says for which rank it waits.
RESIDENT = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": 0,  # the watchdog throws no exceptions
    "TORCH_NCCL_ENABLE_MONITORING": 0,  # the process is not killed when the watchdog itself hangs
    "TORCH_NCCL_DUMP_ON_TIMEOUT": 0,  # nor after a dump that another rank has requested
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": 1,  # don't wait for dumps, since aborts would wait, too
    "TORCH_NCCL_RETHROW_CUDA_ERRORS": 0,  # the cell raises them, so the watchdog must not end the process for them
}
SCRIPT = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": 1}  # as with torchrun
OLD_NAMES = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "NCCL_ASYNC_ERROR_HANDLING"}  # torch reads the old name if the new one is not set
KEPT = ("OMP_NUM_THREADS", *RESIDENT, *INTERFACES, *JAX_GPUS)  # these are not changed if they are already set
SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"  # the signals that torchrun's agent handles; libraries read this

# About the process groups that torch sees:
_size = None  # WORLD_SIZE of the cells that made them and that see them; see enter_world()
_restarts = None  # TORCHELASTIC_RESTART_COUNT when torch.distributed was initialised; see note_world()
_world = None  # the world for which torch.distributed was initialised: world_of()

Place = namedtuple("Place", "node nodes local_rank local_world_size")


def place_of(rank, layout):
    """The position of a rank in its world: Place(node, nodes, local_rank, local_world_size). Nodes are counted from 0; local
    ranks are in the order of ranks.

    layout: the node of each rank, in order, such as "0*4,1*4". A node may appear again, and nodes may have different numbers of
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
    rank, local_rank, world_size, local_world_size, node_rank, nodes, master_addr, master_port, run_id, error_file, cores,
    environ=None, given=None, script=False,
):
    """{name: text}: the environment that torchrun would set for this rank, and variables for JAX and Lightning.

    cores: of this node. environ: the process's environment (default: os.environ); KEPT are not changed if they are set there.
    If the world has several nodes, CELLSPAN_IFNAME, the interface by which this node reaches the others, becomes INTERFACES.
    given: the user's --env, which override all others. script: the process may end as under torchrun, since it ends with its script
    or cell anyway; else RESIDENT are set.
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
    if mine:  # otherwise JAX would use all visible GPUs
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
            del values[name]  # torch would prefer it to the old name, which the user has set
    values = {name: str(value) for name, value in values.items()}
    values.update(given or {})
    return values


# ---- torch.distributed --------------------------------------------------------------------------------------------


def is_initialized():
    """Has torch.distributed a process group here? Does not import torch."""
    distributed = sys.modules.get("torch.distributed")
    check = getattr(distributed, "is_initialized", None)
    try:
        return bool(check and check())
    except Exception:  # torch has no distributed, or is only partly imported
        return False


def time_limit():
    """After how many seconds torch ends a collective that waits for other ranks; None: there is no process group, or it can't be told."""
    if not is_initialized():
        return None
    import torch

    limits = []
    for device in ("cpu", "cuda"):
        try:
            group = torch.distributed.distributed_c10d._get_default_group()
            limits.append(group._get_backend(torch.device(device)).options._timeout.total_seconds())
        except Exception:  # noqa: BLE001 - a group has no backend for that device, or another torch has no such attribute
            pass
    return min(limits, default=None)


def note_world():
    """Call it at a cell's end. Returns is_initialized(), and records its world for enter_world() and init_process_group()."""
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


def enter_world(environ=None):
    """Call it before a cell. Lets torch.distributed see only the process groups made by cells of this world's size: in a group of
    another world, collectives would wait for ranks that do not run the cell. environ: the variables of this world, which a dict has
    sooner than os.environ.

    Destroys groups whose connections broke after they were made (the kernel increments TORCHELASTIC_RESTART_COUNT when a rank died
    or its connections were cut). Nobody would answer in them, and with such a group init_process_group() refuses to make another.
    """
    environ = os.environ if environ is None else environ
    size, count = environ.get("WORLD_SIZE"), environ.get("TORCHELASTIC_RESTART_COUNT")
    _leave_broken(count)
    broken = [other for other, each in groups.hidden.items() if each.note[0] not in (None, count)]
    if size != _size or broken:
        if is_initialized() and not groups.hide(_size, (_restarts, _world)):
            return  # torch 1
        for other in broken:  # torch can destroy only groups that it sees
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
    accelerate_state.enter_world(_size, size)
    _size = size
    _restarts, _world = groups.show(size) or (None, None)


def world_of(environ=None):
    """Identifies a world: its size, its run, the address where ranks meet, and this rank's number."""
    environ = os.environ if environ is None else environ
    names = ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
    return tuple(environ.get(name) for name in names)


def choose_backend(backend, torch):
    """The backend for init_process_group() if it is "auto" or empty: gloo; and also NCCL, for tensors on a GPU, if every rank has its
    own GPU (the kernel sets CELLSPAN_GPUS) or sees one for each rank of the node."""
    if backend not in ("", "auto", None):
        return backend
    local = 1 if os.environ.get("CELLSPAN_GPUS") else int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    if not (torch.cuda.is_available() and torch.cuda.device_count() >= local and torch.distributed.is_nccl_available()):
        return "gloo"
    both = hasattr(torch.distributed.distributed_c10d, "BackendConfig")  # torch 2.0
    return "cpu:gloo,cuda:nccl" if both else "nccl"


def init_process_group(backend="auto"):
    """Initialises torch.distributed for the world in the environment, once. Returns the backend.

    First destroys a group of another world (another size, run or port); keeps one that the user's code made for this world.
    TorchError: there is no torch, no such backend, or too few GPUs.
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
            options["device_id"] = device  # otherwise the first barrier() would use the GPU with the rank's number
    if "gloo" in backend:
        _meet_by_six()
    try:
        distributed.init_process_group(backend, **options)
    except (ValueError, RuntimeError) as error:
        address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise TorchError(f"torch.distributed.init_process_group({backend!r}) at {address}: {error}") from error
    _world = world
    return distributed.get_backend()


def _meet_by_six():
    """For worlds that meet by IPv6, on machines that have nothing else. gloo would use its interface's first address, which is IPv4
    if there is one. So this patches gloo's groups to use this machine's address on the route to rank 0; torch has no option for
    that."""
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
    """This machine's address on the route to another one."""
    with socket.socket(socket.AF_INET6 if ":" in other else socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((other, 1))
        return way.getsockname()[0]


def destroy_process_group():
    """Destroys the process group, if there is one. Ignores its exceptions."""
    global _world
    _world = None
    accelerate_state.forget()
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
    """Makes this rank's GPU the current one: its own, or if it has none, that of LOCAL_RANK. Returns the torch.device."""
    local = int(os.environ.get("LOCAL_RANK") or 0)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise TorchError(f"--init {backend}: torch sees no GPU here; --init gloo works without")
    mine = gpus.own()
    local = mine[0] if mine else 0 if count == 1 else local
    if local >= count:
        raise TorchError(f"--init {backend}: rank {os.environ.get('RANK')} is number {local + 1} on this node, which has {count} GPU{'s' if count > 1 else ''}: run fewer ranks there, or use --init gloo")
    torch.cuda.set_device(local)
    return torch.device("cuda", local)
