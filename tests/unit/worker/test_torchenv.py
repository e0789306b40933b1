# SPDX-License-Identifier: BSD-3-Clause
"""torchrun's environment, and torch.distributed initialised from it."""

import json
import os
import subprocess
import sys
import types

import pytest

from cellspan._worker import torch_rendezvous, torchenv
from fake_agent import free_port


def environment(**options):
    values = dict(
        rank=3, local_rank=1, world_size=4, local_world_size=2, node_rank=1, nodes=2, master_addr="10.0.0.1", master_port=1234,
        run_id="run-1", error_file="/tmp/e.json", cores=9, environ={},
    )
    values.update(options)
    return torchenv.rank_environment(**values)


def test_the_environment_is_torchruns_and_jaxs():
    assert environment() == {
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2",
        "ROLE_RANK": "3", "ROLE_WORLD_SIZE": "4", "ROLE_NAME": "default", "NODE_RANK": "1", "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "1234", "TORCHELASTIC_RUN_ID": "run-1", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False", "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        "TORCHELASTIC_ERROR_FILE": "/tmp/e.json", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
        "TORCH_NCCL_ENABLE_MONITORING": "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1",
        "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0", "OMP_NUM_THREADS": "4",
        "JAX_COORDINATOR_ADDRESS": "10.0.0.1:1234", "JAX_PROCESS_ID": "3", "JAX_NUM_PROCESSES": "4",
    }  # fmt: skip


def test_threads_are_at_least_one_and_the_users_choice_stays():
    assert environment(cores=1)["OMP_NUM_THREADS"] == "1"
    assert environment(environ={"OMP_NUM_THREADS": "7"})["OMP_NUM_THREADS"] == "7"


def test_a_script_has_torchruns_watchdog():
    env = environment(script=True)
    assert {name: value for name, value in env.items() if "NCCL" in name} == {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}


def test_the_users_choice_of_watchdog_stays():
    env = environment(environ={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3", "TORCH_NCCL_ENABLE_MONITORING": "1"})
    assert (env["TORCH_NCCL_ASYNC_ERROR_HANDLING"], env["TORCH_NCCL_ENABLE_MONITORING"]) == ("3", "1")
    assert env["TORCH_NCCL_RETHROW_CUDA_ERRORS"] == "0"
    assert environment(given={"TORCH_NCCL_ENABLE_MONITORING": "1"})["TORCH_NCCL_ENABLE_MONITORING"] == "1"
    for old in ({"environ": {"NCCL_ASYNC_ERROR_HANDLING": "3"}}, {"given": {"NCCL_ASYNC_ERROR_HANDLING": "3"}}):
        assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" not in environment(**old), "torch would take that one"


def test_what_the_user_gives_wins():
    env = environment(given={"MASTER_PORT": "9", "SPECIAL": "x", "OMP_NUM_THREADS": "2"})
    assert (env["MASTER_PORT"], env["SPECIAL"], env["OMP_NUM_THREADS"]) == ("9", "x", "2")


def test_is_initialized_does_not_import_torch():
    code = "import sys; from cellspan._worker import torchenv; print(torchenv.is_initialized(), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_without_torch_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(torchenv.TorchError, match="-m pip install torch"):
        torchenv.init_process_group("gloo")


def own_lines(text):
    """Without those in which gloo of torch 2.7 and 2.8 counts its connections."""
    return [line for line in text.splitlines() if not line.startswith("[Gloo] ")]


RANK = """
import os, sys, json
from cellspan._worker import torch_rendezvous, torchenv
import torch, torch.distributed as dist
for turn, (world, port) in enumerate(json.loads(sys.argv[2])):
    rank = int(sys.argv[1])
    if rank >= world:
        continue
    os.environ.update(torchenv.rank_environment(rank, rank, world, world, 0, 1, "127.0.0.1", port, f"run-{port}", "/tmp/e", 2))
    backend = torchenv.init_process_group("auto")
    again = torchenv.init_process_group("gloo")
    value = torch.ones(1)
    dist.all_reduce(value)
    print(backend, again, dist.get_world_size(), int(value), torchenv.is_initialized())
torchenv.destroy_process_group()
print(torchenv.is_initialized())
"""


def test_a_group_is_made_once_per_world_and_anew_for_another(torch_programs):
    worlds = json.dumps([[2, free_port()], [2, free_port()], [1, free_port()]])
    ranks = [torch_programs.start(RANK, str(r), worlds) for r in range(2)]
    out = [own_lines(rank.finish().stdout) for rank in ranks]
    pair = ["gloo gloo 2 2 True"] * 2
    assert out == [[*pair, "gloo gloo 1 1 True", "False"], [*pair, "False"]], ranks


WORLDS = """
import os
from cellspan._worker import aborts, groups, torch_errors, torchenv
import torch, torch.distributed as dist
def enter(size, restarts="0"):
    os.environ.update(RANK="0", WORLD_SIZE=size, MASTER_ADDR="127.0.0.1", MASTER_PORT=%r, TORCHELASTIC_RESTART_COUNT=restarts)
    torchenv.enter_world()
    return dist.is_initialized()
def make():
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    return dist.new_group([0]).group_name, torchenv.note_world()
print(enter("3"), make())
first = dist.group.WORLD
print(enter("2"), len(dist.distributed_c10d._world.pg_map), len(groups.maps(dist)), make(), enter("3"), dist.group.WORLD is first)
print(enter("2"), enter("4"), *(torch_errors.explained(text, "cell")[1] for text in ("Default process group has not been initialized", "no")))
print(enter("4", "1"), groups.hidden, enter("3", "1"), make(), enter("3", "1"), enter("3", "2"))
"""


def test_torch_sees_the_groups_of_one_world_at_a_time(torch_programs):
    done = torch_programs.run(WORLDS % str(free_port()))
    assert own_lines(done.stdout) == [
        "False ('1', True)",
        "False 0 2 ('1', True) True True",
        "True False the process groups belong to worlds of 2 and 3 ranks, and this cell's world has 4: add --init ",
        "False {} False ('1', True) True False",
    ], done


FAILING = """
import os, socket
from cellspan._worker import groups, torchenv
import torch.distributed as dist
c10d = dist.distributed_c10d
with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as taken:
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(taken.getsockname()[1]))
    for make in (lambda: torchenv.init_process_group("gloo"), dist.init_process_group):
        torchenv.enter_world()
        print(c10d._world.group_count)
        try:
            make()
        except RuntimeError as error:
            print("address already in use" in str(error).lower(), c10d._world.group_count)
groups.count_anew()
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
half = dist.new_group([0])
torchenv.enter_world()
print(dist.group.WORLD.group_name, half.group_name, c10d._world.group_count)
"""


def test_groups_that_could_not_be_made_do_not_count(torch_programs):
    done = torch_programs.run(FAILING)
    assert own_lines(done.stdout) == ["0", "True 1", "0", "True 1", "0 1 2"], done


def test_nccl_without_a_gpu_is_refused_in_words(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(torchenv.TorchError, match="sees no GPU here; --init gloo works"):
        torchenv.init_process_group("nccl")


BOTH = "cpu:gloo,cuda:nccl"


@pytest.mark.parametrize("gpus, local, wanted", [(2, 2, BOTH), (1, 2, "gloo"), (0, 1, "gloo")])
def test_auto_takes_nccl_beside_gloo_where_each_rank_has_a_gpu(monkeypatch, gpus, local, wanted):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(local))
    assert torchenv.choose_backend("auto", torch) == wanted


def test_a_rank_that_sees_one_gpu_takes_that(monkeypatch):
    torch = pytest.importorskip("torch")
    taken = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setenv("LOCAL_RANK", "3")
    torchenv._take_device(torch, "nccl")
    assert taken == [0]


@pytest.mark.parametrize(
    "layout, rank, place",
    [
        ("0*4", 2, (0, 1, 2, 4)),
        ("0*2,1*2", 2, (1, 2, 0, 2)),
        ("0*1,1*3", 3, (1, 2, 2, 3)),
        ("0,1,0,1", 3, (1, 2, 1, 2)),
        ("0*2,1*2,0*1,1*1", 4, (0, 2, 2, 3)),
    ],
)
def test_a_layout_says_who_is_where(layout, rank, place):
    assert tuple(torchenv.place_of(rank, layout)) == place


@pytest.mark.parametrize("layout", ["", "x", "0*2", "0*two"])
def test_a_layout_without_the_rank_is_an_error(layout):
    with pytest.raises(ValueError):
        torchenv.place_of(2, layout)


def test_interfaces_are_named_where_a_world_spans_nodes():
    named = environment(environ={"CELLSPAN_IFNAME": "eth1"})
    assert (named["NCCL_SOCKET_IFNAME"], named["GLOO_SOCKET_IFNAME"]) == ("=eth1", "eth1"), "not eth10 as well"
    users = environment(environ={"CELLSPAN_IFNAME": "eth1", "GLOO_SOCKET_IFNAME": "eth9"})
    assert (users["NCCL_SOCKET_IFNAME"], users["GLOO_SOCKET_IFNAME"]) == ("=eth1", "eth9")
    assert "NCCL_SOCKET_IFNAME" not in environment(nodes=1, environ={"CELLSPAN_IFNAME": "eth1"})


def test_auto_takes_nccl_where_the_kernel_gave_each_rank_a_gpu(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setenv("CELLSPAN_GPUS", "1")
    assert torchenv.choose_backend("auto", torch) == BOTH
    assert torchenv.choose_backend("nccl", torch) == "nccl" and torchenv.choose_backend("gloo", torch) == "gloo"


@pytest.mark.parametrize("asked, backend", [("auto", BOTH), ("nccl", "nccl")])
def test_the_process_group_is_told_which_gpu_is_the_ranks(monkeypatch, asked, backend):
    torch = pytest.importorskip("torch")
    calls = []

    def init(backend=None, device_id=None):
        calls.append((backend, device_id))

    def init_of_old(backend=None):
        calls.append(backend)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: None)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: backend)
    monkeypatch.setattr(torchenv, "_world", None)
    monkeypatch.setenv("CELLSPAN_GPUS", "2")
    monkeypatch.setenv("CELLSPAN_LOCAL_GPUS", "2,3")
    for one in (init, init_of_old):
        monkeypatch.setattr(torch.distributed, "init_process_group", one)
        assert torchenv.init_process_group(asked) == backend
    assert calls == [(backend, torch.device("cuda", 2)), backend]


def test_a_rank_takes_its_own_gpu_among_those_of_the_node(monkeypatch):
    torch = pytest.importorskip("torch")
    taken = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setenv("LOCAL_RANK", "1")
    torchenv._take_device(torch, "nccl")
    monkeypatch.setenv("CELLSPAN_LOCAL_GPUS", "2,3")
    torchenv._take_device(torch, "nccl")
    assert taken == [1, 2]


def test_jax_is_told_which_gpus_are_the_ranks_own():
    env = environment(environ={"CELLSPAN_LOCAL_GPUS": "2,3", "JAX_LOCAL_DEVICE_IDS": "7"})
    assert (env["JAX_CUDA_VISIBLE_DEVICES"], env["JAX_LOCAL_DEVICE_IDS"]) == ("2,3", "7")


def test_a_jax_that_keeps_its_clusters_elsewhere_can_be_imported(monkeypatch):
    from cellspan._worker import library_fixes

    kept = types.SimpleNamespace(ClusterEnv=type("ClusterEnv", (), {}))
    monkeypatch.setitem(sys.modules, "jax._src.clusters.cluster", kept)
    library_fixes._join_jax()
    assert [kind.__name__ for kind in kept.ClusterEnv.__subclasses__()] == ["CellspanCluster"]


def test_accelerates_launcher_says_on_ranks_that_they_are_there_already(monkeypatch):
    """With the packages themselves it would start processes, which meet at the ranks' port and wait."""
    from cellspan._worker import library_fixes

    launchers = types.SimpleNamespace(notebook_launcher=lambda function, args=(), num_processes=None, **given: function(*args))
    monkeypatch.setitem(sys.modules, "accelerate.launchers", launchers)
    library_fixes._refuse_launcher()

    def train(rate):
        return rate

    monkeypatch.setenv("WORLD_SIZE", "2")
    for given in ({"num_processes": 2}, {"args": (1,), "num_processes": 3, "mixed_precision": "no"}):
        with pytest.raises(RuntimeError) as raised:
            launchers.notebook_launcher(train, **given)
        said = str(raised.value)
        assert said == f"notebook_launcher(num_processes={given['num_processes']}): {torch_rendezvous.ALREADY}: call train() itself in the cell"
    assert launchers.notebook_launcher(train, (1,), 1) == launchers.notebook_launcher(train, (1,)) == 1
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert launchers.notebook_launcher(train, (1,), 2) == 1


SETTLE = """
import os
os.environ["CELLSPAN_LOCAL_GPUS"] = "2,3"
from cellspan._worker import gpus
{first}
gpus.settle()
gpus.settle()
import torch
print(torch.cuda.is_initialized())
torch.cuda.set_device = print
torch._C._cuda_init = lambda: None
torch.cuda._lazy_init()
"""


@pytest.mark.parametrize("first", ["", "import torch"])
def test_plain_cuda_is_the_ranks_own_gpu_when_torch_first_uses_one(first, torch_programs):
    """In a torch that was there before, and in one that comes later; CUDA is not touched before."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch._C, "_cuda_init"):
        code = SETTLE.format(first=first).replace("torch.cuda._lazy_init()", "[call() for call, _ in torch.cuda._queued_calls[-1:]]")
    else:
        code = SETTLE.format(first=first)
    run = torch_programs.run if first else lambda code: subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    done = run(code)
    assert done.stdout.split() == ["False", "2"], done


def test_a_rank_is_told_when_local_rank_is_not_its_gpu(monkeypatch):
    from cellspan._worker import gpus

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c,GPU-d")
    monkeypatch.setenv("CELLSPAN_LOCAL_GPUS", "2,3")
    assert gpus.misplaced(1) == ""
    assert "cuda:2, though LOCAL_RANK is 0" in gpus.misplaced(0)
    assert gpus.misplaced(0) == ""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    assert gpus.misplaced(3) == ""
