# SPDX-License-Identifier: BSD-3-Clause
"""PROBE and broadcasts: ranks behind sockets, without an agent and a kernel. GPUs are the double of tests/doubles/nccl_double.h."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cellspan import _link  # noqa: E402
from cellspan._capture import tensors, vars_bundle  # noqa: E402
from cellspan._worker import aborts, broadcast, check, gpu_placement, gpus  # noqa: E402
from fake_agent import end_ranks, memfd, run_on  # noqa: E402

TOP = Path(__file__).resolve().parents[3]
TOKEN = "00112233445566778899aabbccddeeff"


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    """The path of the library that plays NCCL and the driver."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the double of NCCL with")
    path = tmp_path_factory.mktemp("double") / "libnccl.so"
    sources = [str(TOP / "tests/doubles" / name) for name in ("nccl_double.c", "nccl_cuda.c")]
    command = [compiler, f"-I{TOP}", "-D_GNU_SOURCE", "-std=gnu11", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread"]
    subprocess.run([*command, "-o", str(path), *sources], check=True)
    return str(path)


@pytest.fixture
def fork(zygote):
    """fork(ranks, env={}): more ranks of this test's."""
    ends = []

    def make(numbers, **env):
        new = zygote.fork(numbers, env)
        ends.extend(new)
        return new

    yield make
    end_ranks(ends)


def gpu(double, **env):
    return dict({"CELLSPAN_NCCL_LIBRARY": double, "CELLSPAN_CUDA_LIBRARY": double}, **env)


def ask(ranks, what, content, cell=7):
    """Sends a step to all (content: one for all, or a function of the rank's end); the numbers of the cells."""
    for end in ranks:
        body = content(end) if callable(content) else content
        end.send("PROBE", cell, {"what": what, "content": json.dumps(body)}, worker=end.number + 2)


def answers(ranks, cell=7):
    return [end.expect("PROBED", cell) for end in ranks]


def step(ranks, what, content):
    """A step on all ranks, which must work: the contents."""
    ask(ranks, what, content)
    told = answers(ranks)
    assert [t.fields["status"] for t in told] == ["ok"] * len(ranks), told
    return [t.json() for t in told]


def repeat_until_told(ranks, *message):
    """Sends it to one rank after another, again and again until that one has answered: the first may come before what it is to
    end has begun, and what ends one rank ends the others in words of their own."""
    for rank in ranks:

        def told(rank=rank):
            rank.send(*message, worker=rank.number + 2)
            rank.pump(0.3)
            return any(m.kind == "PROBED" for m in rank.seen)

        rank.until(told)


def meet(ranks, nccl=False):
    """listen and connect: {"order", "nccl_id"} for the check that follows."""
    first = min(r.number for r in ranks)
    opened = step(ranks, "listen", lambda r: {"address": "127.0.0.1", "token": TOKEN, "nccl": nccl and r.number == first})
    where = [[r.number, f"127.0.0.1:{o['port']}"] for r, o in zip(ranks, opened)]
    met = step(ranks, "connect", lambda r: {"peers": [w for w in where if w[0] != r.number], "attempt": 1, "limit_s": 60})
    assert all(not p["error"] and not p["silent"] for m in met for p in m["peers"])
    return {"order": [r.number for r in ranks], "nccl_id": opened[0]["nccl_id"]}


def test_facts_tell_what_a_rank_is_made_of(fork):
    (rank,) = fork([0], CELLSPAN_CUDA_LIBRARY="/nowhere/libcuda.so.1")
    before = time.time()
    (facts,) = step([rank], "facts", {})
    assert before <= facts["clock"] <= time.time()
    assert facts["python"] == sys.version.split()[0]
    assert facts["cellspan"] == _link.VERSION
    assert facts["shm_free"] is None or 0 < facts["shm_free"] <= facts["shm_size"]
    assert facts["driver"] is None and facts["nccl"] is None and facts["gpus"] == []
    assert "no NVIDIA driver here" in facts["gpu_error"]
    assert all(not address.startswith("127.") for _, address in facts["addresses"])


def test_facts_tell_of_gpus_and_nccl(fork, double):
    (rank,) = fork([0], **gpu(double, CELLSPAN_DOUBLE_GPUS="2"))
    (facts,) = step([rank], "facts", {})
    assert (facts["driver"], facts["nccl"], facts["nccl_path"]) == ("12.4", "2.24.3", double)
    assert facts["gpus"] == [
        ["GPU-11111111-1111-1111-1111-111111111100", "Double GPU 0"],
        ["GPU-11111111-1111-1111-1111-111111111101", "Double GPU 1"],
    ]


def test_a_world_over_tcp_is_measured(fork):
    ranks = fork(range(4))
    world = meet(ranks)
    told = step(ranks, "check", dict(world, sizes=[8, 100_000], limit_s=60))
    for one in told:
        assert one["error"] == "" and one["transport"] == "tcp"
        assert {row["op"] for row in one["rows"]} == {"all_reduce", "broadcast", "send_recv"}
        assert all(row["bad"] == 0 and row["us"] > 0 and row["algbw"] > 0 for row in one["rows"])
        assert [(r["op"], r["bytes"]) for r in one["rows"]] == [(r["op"], r["bytes"]) for r in told[0]["rows"]]
    row = next(r for r in told[0]["rows"] if r["op"] == "all_reduce")
    assert row["busbw"] == pytest.approx(row["algbw"] * 2 * 3 / 4)


def test_pairs_are_measured_in_rounds(fork):
    ranks = fork(range(4))
    meet(ranks)
    for pairs in ([[0, 3], [1, 2]], [[0, 2], [1, 3]], [[0, 1]]):
        told = step(ranks, "check", {"pairs": pairs, "pair_sizes": [8, 100_000], "limit_s": 60})
        for rank, one in zip(ranks, told):
            mine = [pair for pair in pairs if rank.number in pair]
            assert [[p["a"], p["b"]] for p in one["pairs"]] == mine
            assert all(not p["error"] and p["us"] > 0 and p["gbps"] > 0 and p["bad"] == 0 for p in one["pairs"])
    ask(ranks[:1], "check", {"pairs": [[0, 1], [0, 2]]})
    assert "rank 0 is in 2 pairs" in answers(ranks[:1])[0].json()["error"]


def test_a_port_that_nobody_reaches_is_named(fork):
    ranks = fork(range(3))
    opened = step(ranks, "listen", {"address": "127.0.0.1", "token": TOKEN})
    closed = _link.mesh_open("127.0.0.1", secrets.token_bytes(16))  # takes connections, and never answers
    ports = [o["port"] for o in opened[:2]] + [_link.mesh_port(closed)]
    where = [[r.number, f"127.0.0.1:{p}"] for r, p in zip(ranks, ports)]
    met = step(ranks, "connect", lambda r: {"peers": [w for w in where if w[0] != r.number], "attempt": 1, "limit_s": 5})
    errors = {(r.number, p["rank"]): p["error"] for r, m in zip(ranks, met) for p in m["peers"]}
    assert [pair for pair, error in errors.items() if error] == [(0, 2), (1, 2)]
    assert "does not answer" in errors[0, 2]
    assert [p["rank"] for p in met[2]["peers"] if p["silent"]] == [0, 1]
    told = step(ranks, "check", {"order": [0, 1, 2], "closed": [[0, 2], [1, 2]], "sizes": [8], "limit_s": 60})
    assert all(one["error"] == "" and one["rows"] for one in told), "the way back is taken"


def test_a_dead_rank_is_named_by_those_who_wait(fork):
    ranks = fork(range(3))
    world = meet(ranks)
    os.kill(ranks[1].pid, 9)
    ask([ranks[0], ranks[2]], "check", dict(world, limit_s=10))
    told = [t.json() for t in answers([ranks[0], ranks[2]])]
    assert "rank 1" in told[1]["error"] or "rank 1" in told[0]["error"]
    assert all(one["error"] for one in told)


def test_a_check_that_nobody_closed_ends_with_the_next_cell(fork):
    ranks = fork(range(2))
    world = meet(ranks)
    run_on(ranks, "1", cell=8)
    ask(ranks, "check", world)
    assert ["listen comes first" in t.json()["error"] for t in answers(ranks)] == [True, True]


def test_an_interrupt_ends_a_step_and_the_rank_lives_on(fork):
    ranks = fork(range(2))
    world = meet(ranks)
    ask(ranks[:1], "check", dict(world, limit_s=600))  # rank 1 is not asked: rank 0 waits
    repeat_until_told(ranks[:1], "INTERRUPT", 7)
    (told,) = answers(ranks[:1])
    assert told.fields["status"] == "error" and told.json()["error"] == "interrupted"
    done = run_on(ranks[:1], "1 + 1", cell=8)
    assert done[0].fields["status"] == "ok"
    ask(ranks[:1], "check", world)
    assert "listen comes first" in answers(ranks[:1])[0].json()["error"]


def test_what_is_not_known_is_an_error(fork):
    (rank,) = fork([0])
    for what, content in (("dance", {}), ("listen", {}), ("listen", {"address": "x", "token": TOKEN}), ("check", {}), ("connect", 3)):
        ask([rank], what, content)
        (told,) = answers([rank])
        assert told.fields["status"] == "error" and told.json()["error"], (what, content)
    assert step([rank], "close", {}) == [{"strangers": 0}]


def test_a_world_of_gpus_is_measured(fork, double):
    ranks = fork(range(4), **gpu(double))
    world = meet(ranks, nccl=True)
    assert len(world["nccl_id"]) == 256
    told = step(ranks, "check", dict(world, sizes=[8, 1 << 20], limit_s=60))
    for one in told:
        assert one["error"] == "" and one["transport"] == "nccl"
        assert len(one["rows"]) == 6 and all(row["bad"] == 0 for row in one["rows"])
    assert max(check.SIZES_NCCL) == 256 << 20, "less does not show NVSwitch's bandwidth"
    told = step(ranks, "check", {"pairs": [[0, 1], [2, 3]], "nccl": True, "pair_sizes": [8, 1 << 20], "limit_s": 60})
    assert all(not p["error"] and p["gbps"] > 0 for one in told for p in one["pairs"])


def test_a_slow_gpu_shows_in_its_pairs(fork, double):
    ranks = fork(range(2), **gpu(double)) + fork([2], **gpu(double, CELLSPAN_DOUBLE_NCCL="slow"))
    meet(ranks)

    def measured():
        us = {}
        for pair in ([0, 1], [0, 2], [1, 2]):
            told = step(ranks, "check", {"pairs": [pair], "nccl": True, "pair_sizes": [8, 1 << 16], "limit_s": 60})
            us[tuple(pair)] = max(p["us"] for one in told for p in one["pairs"])
        return us

    for _ in range(10):  # a busy machine may be slower than the slow GPU for once
        us = measured()
        if us[0, 2] > us[0, 1] and us[1, 2] > us[0, 1]:
            break
    assert us[0, 2] > us[0, 1] and us[1, 2] > us[0, 1]


def test_one_gpu_is_checked_alone(fork, double):
    ranks = fork([0], **gpu(double))
    world = meet(ranks, nccl=True)
    (told,) = step(ranks, "check", dict(world, sizes=[8, 1 << 16]))
    assert told["error"] == "" and len(told["rows"]) == 6


def test_a_gpu_that_hangs_holds_nobody(fork, double):
    ranks = fork([0, 2], **gpu(double)) + fork([1], **gpu(double, CELLSPAN_DOUBLE_NCCL="hang"))
    ranks.sort(key=lambda r: r.number)
    world = meet(ranks, nccl=True)
    told = step(ranks, "check", dict(world, sizes=[8], limit_s=1))
    assert all(one["error"] for one in told)
    assert run_on(ranks, "1", cell=9)[0].fields["status"] == "ok"


def test_a_cut_with_abort_ends_a_check(fork, double):
    ranks = fork([0], **gpu(double)) + fork([1], **gpu(double, CELLSPAN_DOUBLE_NCCL="hang"))
    world = meet(ranks, nccl=True)
    ask(ranks, "check", dict(world, sizes=[8], limit_s=120))
    repeat_until_told(ranks, "CUT_SOCKETS", 0, {"inodes": b"", "abort": 1})
    told = [t.json() for t in answers(ranks)]
    assert "a rank has failed" in told[0]["error"], told


def test_a_cut_with_abort_is_harmless_elsewhere(fork):
    ranks = fork(range(2))
    for rank in ranks:
        rank.send("CUT_SOCKETS", 0, {"inodes": b"", "abort": 1})
    assert [d.fields["status"] for d in run_on(ranks, "import torch.distributed as d; d.is_nccl_available()")] == ["ok"] * 2


# ---- broadcasts ---------------------------------------------------------------------------------------------------------


def packed(value):
    fd, size = vars_bundle.pack(value, {})
    try:
        data = b""
        while len(data) < size:
            data += os.pread(fd, size - len(data), len(data))
        return data
    finally:
        os.close(fd)


def bind_by_broadcast(ranks, data, root, limit=60):
    (opened,) = step([ranks[root]], "broadcast_open", {})
    asked = {"root": root, "ranks": [r.number for r in ranks], "id": opened["nccl_id"], "size": len(data), "limit_s": limit}
    for rank in ranks:
        blob = {"blob": 5, "data": data} if rank.number == root else {}
        rank.send("BIND", 3, {"broadcast": json.dumps(asked)}, worker=rank.number + 2, **blob)


def test_variables_go_from_gpu_to_gpu(fork, double):
    numpy = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    ranks = fork(range(4), **gpu(double))
    value = {"a": numpy.arange(3_000_000), "t": torch.arange(70_000, dtype=torch.bfloat16), "s": "text"}
    bind_by_broadcast(ranks, packed(value), 2)
    told = run_on(ranks, "int(a.sum()), float(t.float().sum()), t.dtype, s", cell=4)
    want = repr((int(value["a"].sum()), float(value["t"].float().sum()), torch.bfloat16, "text"))
    assert [t.json("result")["data"]["text/plain"] for t in told] == [want] * 4
    assert run_on(ranks, "a[0] = 5; a.flags.writeable", cell=5)[1].json("result")["data"]["text/plain"] == "True"


def test_on_one_node_only_what_lay_on_a_gpu_is_broadcast(fork, double, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(tensors.Storage, "device", "cuda")
    data = packed({"t": torch.arange(9_000_000, dtype=torch.int16), "u": torch.ones(5), "s": "text"})
    ranks = fork(range(3), **gpu(double))
    (opened,) = step([ranks[1]], "broadcast_open", {})
    asked = {"root": 1, "ranks": [0, 1, 2], "id": opened["nccl_id"], "size": len(data), "mapped": True, "limit_s": 60}
    for rank in ranks:
        rank.send("BIND", 3, {"broadcast": json.dumps(asked)}, worker=rank.number + 2, blob=5, data=data)
    told = run_on(ranks, "int(t[-1]), len(t), float(u.sum()), s", cell=4)
    assert [t.json("result")["data"]["text/plain"] for t in told] == [repr((8_999_999 % 65536, 9_000_000, 5.0, "text"))] * 3
    rank = ranks[0]
    rank.send("BIND", 5, {"broadcast": json.dumps(dict(asked, size=7))}, worker=rank.number + 2, blob=5, data=data)
    (told,) = run_on([rank], "1", cell=6)
    assert told.json()["ename"] == "BroadcastError" and "bytes, not 7" in told.json()["evalue"]


def test_what_lay_on_a_gpu_lands_on_a_gpu_however_it_came(monkeypatch):
    torch = pytest.importorskip("torch")
    fd, size = memfd(packed({"t": torch.ones(3)}))
    elsewhere = torch.device("meta")  # a device that is no GPU, but not the CPU either
    monkeypatch.setattr(gpus, "torch_device", lambda: elsewhere)
    assert vars_bundle.unpack(fd, size, {}, land=gpu_placement.copied)["t"].device.type == "cpu", "it never was on one"
    os.close(fd)
    monkeypatch.setattr(tensors.Storage, "device", "cuda")
    value = torch.arange(400_000)
    fd, size = memfd(packed({"t": value[5:], "u": value.view(400, 1000)}))
    got = vars_bundle.unpack(fd, size, {}, land=gpu_placement.copied)
    assert got["t"].device == got["u"].device == elsewhere and got["t"].shape == (399_995,) and got["u"].shape == (400, 1000)
    assert vars_bundle.unpack(fd, size, {})["t"].device.type == "cpu", "at home it stays"
    monkeypatch.setattr(gpus, "torch_device", lambda: None)
    assert int(vars_bundle.unpack(fd, size, {}, land=gpu_placement.copied)["t"][-1]) == 399_999, "where there is no GPU, too"
    os.close(fd)


def test_a_rank_puts_it_there_when_it_comes_as_bytes(fork, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(tensors.Storage, "device", "cuda")
    ranks = fork([0])
    run_on(ranks, "import torch, cellspan._worker.gpus; cellspan._worker.gpus.torch_device = lambda: torch.device('meta')", cell=2)
    ranks[0].send("BIND", 3, {}, worker=2, blob=5, data=packed({"t": torch.ones(3), "s": "text"}))
    (told,) = run_on(ranks, "t.device.type, len(t), s", cell=3)
    assert told.json("result")["data"]["text/plain"] == "('meta', 3, 'text')"


def test_a_broadcast_that_fails_is_the_next_cells_error(fork, double):
    ranks = fork([0, 2], **gpu(double)) + fork([1], **gpu(double, CELLSPAN_DOUBLE_NCCL="error"))
    ranks.sort(key=lambda r: r.number)
    bind_by_broadcast(ranks, packed({"x": 1}), 0, limit=2)
    told = run_on(ranks, "1", cell=4)
    assert told[1].json()["ename"] == "BroadcastError" and told[1].fields["flags"] & _link.DONE_UNBOUND
    assert "could not be sent between GPUs" in told[1].json()["evalue"]
    assert {t.json().get("ename", "BroadcastError") for t in told} == {"BroadcastError"}, "or they had theirs before"
    assert [t.fields["status"] for t in run_on(ranks, "2", cell=5)] == ["ok"] * 3


def test_a_broadcast_to_the_wrong_rank_is_refused():
    text = json.dumps({"root": 0, "ranks": [0, 1], "id": "00" * 128, "size": 64})
    with pytest.raises(broadcast.BroadcastError, match=r"reached rank 5"):
        broadcast.receive(5, text, -1, 0, {}, None)


def test_a_bundle_tells_where_its_tensors_lay():
    torch = pytest.importorskip("torch")
    fd, size = memfd(packed({"t": torch.ones(100_000)}))
    table, meta = vars_bundle.contents(fd, size)
    assert meta["devices"] == ["cpu"] and table[meta["storages"][0][0]][1] == 400_000
    assert vars_bundle.outline(fd, size) <= table[0][0]
    placed = torch.full((100_000,), 3.0)
    value = vars_bundle.unpack(fd, size, {}, {0: placed.untyped_storage()})
    assert value["t"].data_ptr() == placed.data_ptr() and float(value["t"][5]) == 3.0
    os.close(fd)


# ---- torch's process groups ------------------------------------------------------------------------------------------


class FakeNccl:
    """What aborts.py sees of torch's ProcessGroupNCCL."""

    def __init__(self):
        self.aborts = 0
        self.begun = threading.Event()

    def abort(self):
        """As with two hung kernels on a device: neither returns before the other one is aborted."""
        self.begun.set()
        assert self.other.begun.wait(60)
        self.aborts += 1


class FakeGroup:
    def __init__(self, backend):
        self.backend = backend

    def _get_backend(self, device):
        if self.backend is None:
            raise RuntimeError("no backend for cuda")
        return self.backend


def test_each_nccl_group_is_aborted_once():
    pytest.importorskip("torch")
    first, second = FakeNccl(), FakeNccl()

    class World:
        pg_map = {FakeGroup(first): 1, FakeGroup(None): 2, FakeGroup(second): 3, FakeGroup(first): 4}

    class C10d:
        _world = World

    class Distributed:
        ProcessGroupNCCL = FakeNccl
        distributed_c10d = C10d

    first.other, second.other = second, first
    assert aborts.abort_all(Distributed) == 2
    assert first.aborts == second.aborts == 1


def test_without_nccl_nothing_is_aborted():
    assert aborts.abort_all() == 0
