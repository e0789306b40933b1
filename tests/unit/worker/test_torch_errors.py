# SPDX-License-Identifier: BSD-3-Clause
"""The table of texts of torch, gloo, NCCL and Accelerate, walked over with errors that the installed torch really raises. Those of NCCL,
which needs a GPU for each rank, and of older versions are given as text: they were copied from these versions. Accelerate is not installed
here: its texts of an older version are given, and tests/frameworks/test_huggingface.py raises those of the pinned one, and of the newest."""

import importlib
import json
import threading
import types

import pytest

from cellspan._worker import groups, torch_errors
from fake_agent import free_port
from test_torchenv import own_lines

# (row, from, text)
COPIED = [
    ("closed", "torch 2.13, gloo", "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
     "[127.0.0.1]:45981. This is typically caused by a remote worker crashing. Check the logs of the remote worker before reporting an error."),
    ("closed", "torch 2.4, gloo", "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:2131"),
    ("closed", "torch 2.4, gloo", "[../third_party/gloo/gloo/transport/tcp/pair.cc:446] writev [127.0.0.1]:3232: Broken pipe"),
    ("closed", "torch 2.4, gloo", "[../third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error [127.0.0.1]:1729: Connection reset by peer"),
    ("closed", "torch 2.4, NCCL", "NCCL communicator was aborted on rank 1. "),
    ("closed", "torch 2.4, NCCL", "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, remote process exited or there was a "
     "network error, NCCL version 2.20.5\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."),
    ("closed", "torch 2.4, a store", "failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"),
    ("backend", "torch 2.13, CPU", "Distributed package doesn't have NCCL built in"),
    ("backend", "torch 2.13", "Distributed package doesn't have MPI built in."),
    ("backend", "torch 2.4, CUDA without a GPU", "ProcessGroupNCCL is only supported with GPUs, no GPUs found!"),
    ("gpu", "NCCL 2.20", "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000"),
    ("late", "torch 2.4, NCCL", "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE) ran for 60001 ms"),
    ("late", "torch 2.4, gloo", "[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"),
    ("differ", "torch 2.4, gloo", "[enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 16 vs 8"),
    ("differ", "torch 2.4, TORCH_DISTRIBUTED_DEBUG=DETAIL", "Detected mismatch between collectives on ranks. Rank 0 is running collective: ..."),
    ("store", "torch 2.4", "wait timeout after 300000ms, keys: /default_pg/0//cuda//0"),
    ("store", "torch 1.13", "Timeout waiting for key: default_pg/0/0 after 1800000 ms"),
    ("store", "torch 2.0", "Socket Timeout"),
    ("key", "torch 2.13, a store of one's own", "wait timeout after 2000ms, keys: /zzz"),
    ("store", "torch 2.13, a store of one's own", "The client socket has timed out after 2000ms while trying to connect to (no.such.host, 29993)."),
    ("port", "torch 2.4", "The server socket has failed to listen on any local network address. useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use"),
    ("gone", "torch 2.4", "Could not resolve the process group registered under the name 0"),
    ("gone", "torch 2.4, a destroyed group", "Invariant encountered: value was None when it should not be"),
    ("launcher", "Accelerate 1.10", "To launch a multi-GPU training from your notebook, the `Accelerator` should only be initialized inside your training function. Restart"),
    ("accelerate", "Accelerate 1.10", "Please make sure to properly initialize your accelerator via `accelerator = Accelerator()` before using any functionality"),
    ("accelerate", "Accelerate 1.10", "`AcceleratorState` object has no attribute `device`. This happens if `AcceleratorState._reset_state()` was called and an `Accelerator` or `PartialState` was not reinitialized."),
]  # fmt: skip

# Two ranks raise the errors of the table. Each prints a list of [row, text, where the error is known to be raised].
RAISES = """
import json, os, socket, sys, time
from datetime import timedelta
import torch, torch.distributed as dist
from cellspan._worker import groups, torch_errors
rank, port, later, found = int(sys.argv[1]), sys.argv[2], sys.argv[3], []
def raises(row, call):
    try:
        call()
    except Exception as error:
        found.append([row, str(error), torch_errors.explained(str(error), "cell", error=error)])
    else:
        found.append([row, "no error", ["", ""]])
def init(**given):
    dist.init_process_group("gloo", **given)
t, few = torch.ones(4), timedelta(seconds=2)
raises("uninitialised", lambda: dist.all_reduce(t))
raises("destroy", dist.destroy_process_group)
raises("environment", init)
raises("parameter", lambda: init(init_method="tcp://127.0.0.1:1"))
raises("parameter", lambda: init(init_method="file:///tmp/no", rank=0))
os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
if rank == 0:
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as taken:
        raises("port", lambda: init(init_method="tcp://127.0.0.1:%d" % taken.getsockname()[1], rank=0, world_size=2))
    raises("store", lambda: init(init_method="tcp://127.0.0.1:" + later, rank=0, world_size=2, timeout=few))
groups.count_anew()  # a failed init_process_group() counts, too
init()
raises("twice", init)
old = int(torch.__version__.split(".")[1]) < 13  # in torch 2.4, _set_pg_timeout() leaves gloo's time limit as it was
short = dist.new_group(timeout=timedelta(seconds=20) if old else None)
if rank == 0:
    dist.distributed_c10d._set_pg_timeout(few, short)  # not before: rank 1 may be late for the group itself
    raises("late", lambda: dist.all_reduce(t, group=short))
other = dist.new_group()
dist.barrier()
if rank == 1:
    os._exit(print(json.dumps(found), flush=True) or 0)
time.sleep(1)
raises("closed", lambda: dist.all_reduce(t))
dist.destroy_process_group(other)
raises("gone", lambda: dist.all_reduce(t, group=other))
print(json.dumps(found), flush=True)
os._exit(0)
"""


def test_the_rows_know_what_the_installed_torch_raises(torch_programs):
    ports = str(free_port()), str(free_port())
    ranks = [torch_programs.start(RAISES, str(r), *ports) for r in range(2)]
    told = [json.loads(own_lines(rank.finish().stdout)[-1]) for rank in ranks]
    for row, text, (about, line) in [one for rank in told for one in rank]:
        assert about == row and line, (row, text, about, line)
    lines = {row: line for row, _, (_, line) in told[0]}
    assert "add --init" in lines["uninitialised"] and "without -r" in lines["store"] and "MASTER_PORT" in lines["port"]
    assert "rank 0 has waited in all_reduce of float32 (4,)" in lines["late"], lines["late"]
    assert "make DistributedDataParallel again in a cell with --init" in lines["closed"]


@pytest.mark.parametrize("row, source, text", COPIED, ids=[f"{row}-{source}" for row, source, _ in COPIED])
def test_texts_of_other_versions_and_libraries_are_known(row, source, text):
    about, line = torch_errors.explained(text, torch_errors.CELL, "cell 3 failed")
    assert (about, bool(line)) == (row, True), (about, line)


def test_each_row_is_tried():
    raised = {"loader", "twice", "uninitialised", "destroy", "environment", "parameter", "store cut"}
    assert {row.about for row in torch_errors.ROWS} == raised | {row for row, _, _ in COPIED}


# Workers that are kept from loop to loop get a signal meanwhile.
LOADER = """
import os, sys, torch
from torch.utils.data import DataLoader, TensorDataset
from cellspan._worker import torch_errors
if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.arange(9.0)), batch_size=2, num_workers=2, persistent_workers=True)
    list(loader)
    try:
        for worker in loader._iterator._workers:
            os.kill(worker.pid, int(sys.argv[1]))
            worker.join(60)  # torch may raise its error here, if a signal has killed the worker
        list(loader)
    except RuntimeError as error:
        print([torch_errors.explained(str(error), begun, error=error) for begun in ("cell", "home")])
"""


@pytest.mark.parametrize("signum, told", [
    (2, [("loader", "an interrupt, or the error of another rank, has ended the DataLoader's workers: make the DataLoader again"),
         ("loader", "an interrupt has ended the DataLoader's workers: make the DataLoader again")]),
    (9, [("", ""), ("", "")]),
])
def test_workers_that_an_interrupt_has_ended_are_told_from_others(signum, told, torch_programs):
    done = torch_programs.run(LOADER, str(signum))
    assert done.stdout.splitlines()[-1:] == [repr(told)], done


def test_a_group_that_is_not_there_is_not_destroyed(tmp_path):
    text = "Process group cannot be None"
    assert torch_errors.explained(text, torch_errors.CELL, "cell 3 failed")[1].startswith("cell 3 failed, which ended the process group: there is nothing")
    assert "put %%distribute --init on top" in torch_errors.at_home(AssertionError(text))[0]
    older = tmp_path / "torch" / "distributed" / "distributed_c10d.py"
    names = {}
    exec(compile("def destroy_process_group():\n    assert False\n", str(older), "exec"), names)
    with pytest.raises(AssertionError) as raised:
        names["destroy_process_group"]()
    assert "this cell's world has no process group: there is nothing" in torch_errors.explained("", torch_errors.CELL, error=raised.value)[1]
    assert torch_errors.explained("", torch_errors.CELL, error=AssertionError()) == ("", "")


class Group(str):
    """A process group as groups.py reads it."""

    def _get_sequence_number_for_group(self):
        return 7


def asked_in(name, *args, folder):
    """What waiting() says while the main thread is in this function of torch's."""
    names, told = {"go": threading.Lock()}, []
    file = folder / "torch" / "distributed" / "distributed_c10d.py"
    exec(compile(f"def {name}(tensor, group=None):\n    go.acquire()\n", str(file), "exec"), names)
    names["go"].acquire()

    def ask():
        while not told:
            told.extend(filter(None, [torch_errors.waiting()]))
        names["go"].release()

    thread = threading.Thread(target=ask)
    thread.start()
    names[name](*args)
    thread.join()
    return told[0]


def test_another_thread_says_which_collective_waits(tmp_path):
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.distributed.distributed_c10d")

    class Own(torch.Tensor):
        def __torch_function__(self, *args, **given):
            raise AssertionError("the user's code runs on another thread")

    assert asked_in("all_reduce", torch.ones(3, 2), folder=tmp_path) == "call all_reduce of float32 (3, 2)\n"
    assert asked_in("broadcast", torch.nn.Parameter(torch.ones(1)), folder=tmp_path) == "call broadcast of float32 (1,)\n"
    two = [torch.ones(2, dtype=torch.int8)] * 2
    assert asked_in("all_gather", two, folder=tmp_path) == "call all_gather of 2 tensors, the first int8 (2,)\n"
    assert asked_in("all_to_all_single", torch.ones(3), folder=tmp_path) == "call all_to_all_single\n", "shapes may differ"
    assert asked_in("all_reduce", torch.ones(2).as_subclass(Own), folder=tmp_path) == "call all_reduce\n"
    assert torch_errors.waiting() == ""


def test_where_there_are_several_groups_the_collective_has_its_own(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.distributed.distributed_c10d")
    whole, low, other = "012"
    ranks = {whole: dict.fromkeys(range(4)), low: dict.fromkeys([0, 1, 3])}
    state = types.SimpleNamespace(pg_names={Group(whole): "0", Group(low): "1"}, pg_group_ranks={Group(k): v for k, v in ranks.items()},
                                  default_pg=Group(whole), group_count=2)
    monkeypatch.setattr(groups, "_c10d", lambda: types.SimpleNamespace(_world=state))
    for group, words, name in ((Group(low), " with ranks 0-1,3", "1/3"), (None, "", "0/4"), (Group(whole), "", "0/4")):
        call, line = asked_in("all_reduce", torch.ones(2), group, folder=tmp_path).splitlines()
        assert call == "call all_reduce of float32 (2,)" + words and line.startswith("called in %s/" % name)
        assert line.removeprefix("called in ") + " 7\n" in groups.launched(), "the kernel compares them"
    for group in (Group(other), "default", [0, 1]):
        assert asked_in("all_reduce", torch.ones(2), group, folder=tmp_path) == "call all_reduce of float32 (2,)\n"
    state.pg_names = {Group(whole): "0"}
    assert asked_in("barrier", None, None, folder=tmp_path) == "call barrier\n", "there is one group"


def closed(begun, cause="cell 3 failed"):
    return torch_errors.explained(COPIED[0][2], begun, cause)[1]


def test_what_cut_the_connections_is_named_and_what_to_make_again():
    line = closed(torch_errors.CELL)
    assert line.startswith("cell 3 failed, which cut the connections between ranks: make DistributedDataParallel again in a cell with --init")
    assert "its optimizer, for ranks may differ by one step" in line and "FSDP, DTensor and DeepSpeed" in line
    assert "in a call with init=True" in closed(torch_errors.CALL)
    assert closed(torch_errors.PASSING, "") == "", "the kernel says which ranks had returned"


@pytest.mark.parametrize("text", ["Broken pipe", "Connection reset by peer", "recvValue failed on SocketImpl(fd=9, addr=[::1]:2, remote=[::1]:3): Broken pipe"])
def test_a_store_whose_connection_was_cut_is_to_be_made_again(text):
    error = type("DistNetworkError", (RuntimeError,), {})(text)
    line = torch_errors.explained(text, torch_errors.CELL, "cell 3 failed", error)[1]
    assert line == "cell 3 failed, which cut the connections between ranks: make the TCPStore again, on all ranks that use it"
    assert "the process that hosts the store is gone" in torch_errors.explained(text, torch_errors.PASSING, error=error)[1]


def test_a_store_of_ones_own_is_not_where_ranks_meet(monkeypatch):
    monkeypatch.setenv("MASTER_PORT", "29500")
    says = lambda text: torch_errors.explained(text, torch_errors.CELL)[1]  # noqa: E731
    assert says("wait timeout after 2000ms, keys: /zzz").startswith("no process has set the key 'zzz' in this store")
    assert "set all of the keys 'a', 'b' in this store" in says("wait timeout after 900ms, keys: /a, /b")
    assert "set the key 'mine/a' in" in says("wait timeout after 900ms, keys: /mine/a")
    assert "set the key 'mine/my_barrier' in" in says("wait timeout after 900ms, keys: /mine/my_barrier")
    there = "The client socket has timed out after 2000ms while trying to connect to (%s, %d)."
    assert says(there % ("gpu9", 29993)).startswith("no store answers at gpu9:29993: check the name") and "not all" in says(there % ("gpu9", 29500))
    taken = "The server socket has failed to listen on any local network address. port: %d, useIpv6: false, code: -98, name: EADDRINUSE, message: in use"
    assert "perhaps by a store that the code has made" in says(taken % 29993) and "set no MASTER_PORT" in says(taken % 29500)


def test_a_torch_without_the_backend_has_a_way():
    texts = [text for row, _, text in COPIED if row == "backend"]
    ways = [(torch_errors.CELL, "put --init gloo"), (torch_errors.CALL, 'init="gloo"'), (torch_errors.HOME, 'init_process_group("gloo")')]
    for begun, way in ways:
        lines = [torch_errors.explained(text, begun)[1] for text in texts]
        assert all(way in line for line in lines), lines
        assert ["built for CUDA" in line for line in lines] == [True, False, False], lines


@pytest.mark.parametrize("text", ["[Errno 98] Address already in use", "Broken pipe", "[Errno 104] Connection reset by peer", "timed out", ""])
def test_errors_of_others_get_no_line(text):
    assert torch_errors.explained(text, torch_errors.CELL, "cell 3 failed") == ("", "")


class Told(ValueError):
    def _render_traceback_(self):
        return ["of ranks"]


def test_home_says_that_it_is_no_rank():
    text = "Default process group has not been initialized, please make sure to call init_process_group."
    missing = "Error initializing torch.distributed using tcp:// rendezvous: rank parameter missing"
    for each in (text, missing):
        assert "put %%distribute --init on top" in torch_errors.at_home(ValueError(each))[0]
    assert torch_errors.at_home(Told(text)) == [] and torch_errors.at_home(ValueError("no")) == []


def test_a_cell_that_had_no_group_has_ended_none(monkeypatch):
    monkeypatch.setattr(groups, "_gone", {})
    told = []
    for world, cause in (("2", ""), ("2", "cell 3 failed"), ("2", "cell 4 failed"), ("3", "cell 5 failed"), ("2", "cell 6 failed")):
        monkeypatch.setenv("WORLD_SIZE", world)
        groups.cell_begins(cause)
        told.append(groups.cause())
    assert told == ["", "cell 3 failed", "cell 3 failed", "cell 5 failed", "cell 3 failed"]
    groups._made_again()
    groups.cell_begins("cell 6 failed")
    assert groups.cause() == "cell 3 failed", "the cell that makes it"
    groups.cell_begins("cell 8 failed")
    assert groups.cause() == "cell 8 failed"
