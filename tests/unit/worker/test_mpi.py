# SPDX-License-Identifier: BSD-3-Clause
"""The world of MPI: cellspan._worker.mpi and its server."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
import threading
import types

import pytest
from cellspan._base import imports
from cellspan._worker import mpi, pmi_server


class Rank:
    """A connection to the server, as a rank has it."""

    def __init__(self, address, hello="cellspan-mpi a run"):
        self.connection = socket.create_connection(address, timeout=30)
        self.lines = self.connection.makefile("r", newline="\n")
        assert self.line() == hello

    def line(self):
        return self.lines.readline().rstrip("\n")

    def say(self, text):
        self.connection.sendall(text.encode() + b"\n")
        return self

    def ask(self, text):
        return self.say(text).line()

    def close(self):
        self.lines.close()
        self.connection.close()


def started():
    """The address of a server for two ranks, and its process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-I", "-S", pmi_server.__file__, str(listener.fileno()), "2", "a run"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
        return listener.getsockname(), process


def ended(process):
    process.stdin.close()
    assert process.wait(30) == 0


@pytest.fixture
def server():
    made = started()
    yield made
    ended(made[1])


@pytest.fixture
def pair(server):
    ranks = [Rank(server[0]).say(f"{rank} 2") for rank in range(2)]
    assert [rank.line() for rank in ranks] == ["go", "go"]
    yield ranks
    for rank in ranks:
        rank.close()


def test_values_of_one_rank_are_there_for_the_other_after_a_barrier(pair):
    first, second = pair
    name = first.ask("cmd=get_my_kvsname").removeprefix("cmd=my_kvsname kvsname=")
    assert second.ask("cmd=get_my_kvsname").endswith(name)
    assert first.ask(f"cmd=put kvsname={name} key=a value=one two=3") == "cmd=put_result rc=0 msg=success"
    first.say("cmd=barrier_in")
    assert second.ask("cmd=barrier_in") == first.line() == "cmd=barrier_out"
    assert second.ask(f"cmd=get kvsname={name} key=a") == "cmd=get_result rc=0 msg=success value=one two=3"
    assert second.ask(f"cmd=get kvsname={name} key=b") == "cmd=get_result rc=-1 msg=key_not_found value=unknown"


def test_what_mpi_asks_first_and_last(pair):
    first = pair[0]
    assert first.ask("cmd=init pmi_version=1 pmi_subversion=1") == "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
    assert first.ask("cmd=get_maxes").startswith("cmd=maxes kvsname_max=")
    assert first.ask("cmd=get_appnum") == "cmd=appnum appnum=0"
    assert first.ask("cmd=get_universe_size") == "cmd=universe_size size=2"
    for asked, told in (("mcmd=spawn", "spawn"), ("cmd=publish_name service=a port=b", "publish"), ("cmd=new", "new")):
        assert first.ask(asked) == f"cmd={told}_result rc=-1 msg=not_supported"
    assert first.ask("cmd=finalize") == "cmd=finalize_ack"


def test_each_world_has_a_name_of_its_own(pair):
    """MPICH names its shared memory after it."""
    address, process = started()
    others = [Rank(address).say(f"{rank} 2") for rank in range(2)]
    assert [rank.line() for rank in others] == ["go", "go"]
    assert others[0].ask("cmd=get_my_kvsname") != pair[0].ask("cmd=get_my_kvsname")
    for rank in others:
        rank.close()
    ended(process)


@pytest.mark.parametrize("said, why", [
    ("1 3", "rank 1 is in a world of 3, and rank 0 in one of 2"),
    ("0 2", "rank 0 is here already"),
    ("2 2", "rank 2 is here already"),
    ("GET /", "no rank"), ("² 2", "no rank"), ("9" * 5000 + " 2", "no rank"),
])
def test_a_rank_of_another_world_is_refused_and_keeps_nobody_out(server, said, why):
    first = Rank(server[0]).say("0 2")
    silent = Rank(server[0])
    refused = Rank(server[0])
    assert refused.ask(said) == why and refused.line() == ""
    second = Rank(server[0]).say("1 2")
    assert first.line() == second.line() == "go" and silent.line() == ""
    with pytest.raises(OSError):
        socket.create_connection(server[0], timeout=5)
    for rank in (first, silent, refused, second):
        rank.close()


def test_a_rank_that_leaves_before_the_others_came_may_come_again(server):
    second = Rank(server[0]).say("1 2")
    other = Rank(server[0])
    assert other.ask("1 2") == "rank 1 is here already"  # so the server has read what the first one said
    second.close()
    first, again = Rank(server[0]).say("0 2"), Rank(server[0]).say("1 2")
    assert first.line() == again.line() == "go"
    for rank in (other, first, again):
        rank.close()


def test_all_ranks_read_that_one_has_aborted(pair):
    pair[1].say("cmd=abort exitcode=3 message=why")
    assert [rank.line() for rank in pair] == ["cellspan-mpi-abort 3"] * 2


@pytest.mark.parametrize("last", [False, True])
def test_a_barrier_that_a_rank_has_left_has_an_end(pair, last):
    first, second = pair
    if last:
        second.close()
    first.say("cmd=barrier_in")
    second.close()
    assert first.line() == ""


def test_a_line_without_an_end_ends_the_connection(pair):
    pair[0].connection.sendall(b"x" * (pmi_server.LINE_MAX + 5000))
    with pytest.raises(OSError):  # reset, for not all of it was read
        if pair[0].line() == "":
            raise OSError
    assert pair[1].ask("cmd=get_appnum") == "cmd=appnum appnum=0"


def test_the_server_ends_with_the_last_rank(server):
    for rank in [Rank(server[0]).say(f"{rank} 2") for rank in range(2)]:
        assert rank.line() == "go"
        rank.close()
    assert server[1].wait(30) == 0


@pytest.fixture
def world(monkeypatch):
    """A free address in the environment, as of a world of two."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        jax, master = one.getsockname()[1], other.getsockname()[1]
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", f"127.0.0.1:{jax}")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(master))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "a run")
    return jax, master


def met(size=2):
    """The _World of each rank, or its error."""
    got = {}

    def meet(rank):
        try:
            got[rank] = mpi._World(rank, size)
        except OSError as error:
            got[rank] = str(error)

    threads = [threading.Thread(target=meet, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got[0], got[1]


@pytest.mark.parametrize("taken", [[], [0], [1]], ids=["free", "JAX uses its port", "torch uses its port"])
def test_ranks_meet_at_a_port_that_is_free(world, taken):
    held = [socket.create_server(("127.0.0.1", world[which])) for which in taken]
    parts = met()
    for part in parts:
        part.connection.sendall(b"cmd=get_appnum\n")
        assert mpi._line(part.connection) == "cmd=appnum appnum=0"
    for part in parts:
        part.end()
    for listener in held:
        listener.close()


def test_two_ports_that_are_in_use_are_an_error(world, monkeypatch):
    monkeypatch.setattr(mpi, "WAIT_S", 1)
    held = [socket.create_server(("127.0.0.1", port)) for port in world]
    first, second = met()
    assert "in use" in first and second == "rank 0 has not imported mpi4py in this cell within 1 s: all ranks must, in the same cell"
    for listener in held:
        listener.close()


def test_a_rank_waits_only_so_long(world, monkeypatch):
    monkeypatch.setattr(mpi, "WAIT_S", 1)
    monkeypatch.setattr(mpi, "HELLO_S", 60)
    with pytest.raises(OSError, match="rank 0 has not imported mpi4py in this cell within 1 s"):
        mpi._World(1, 2)
    with pytest.raises(OSError, match="other ranks have not imported mpi4py in this cell within 1 s"):
        mpi._World(0, 2)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", world[0]), timeout=5)


def test_names_of_shared_memory_are_removed(tmp_path):
    import mmap

    if not os.path.isdir("/dev/shm"):
        pytest.skip("no /dev/shm")
    path = f"/dev/shm/mpich_of_a_test_{os.getpid()}"
    with open(path, "w+b") as file:
        file.truncate(4096)
        with mmap.mmap(file.fileno(), 4096):
            mpi.remove_names()
    assert not os.path.exists(path)


def test_no_library_takes_a_rank_for_a_task_of_slurms_step(monkeypatch):
    """Open MPI would: it ends a process that has these variables and no PMI of Slurm's."""
    env = {"SLURM_STEPID": "0", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "12"}
    for name, value in {**env, "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(mpi, "_process", os.getpid())
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", types.SimpleNamespace(Is_initialized=lambda: False))
    mpi._importing()
    assert [name for name in env if name in os.environ] == ["SLURM_JOB_ID"]
    mpi._imported()
    assert {name: os.environ[name] for name in env} == env


@pytest.mark.parametrize("size", [1, 2])
def test_an_import_that_fails_leaves_the_environment_as_it_was(monkeypatch, tmp_path, size):
    """There is no MPI library, or somebody interrupts it; the next import begins anew."""
    module = tmp_path / "mpi4py" / "MPI.py"
    module.parent.mkdir()
    (module.parent / "__init__.py").write_text("")
    module.write_text("import os\nSEEN = {n: os.environ.get(n) for n in ('SLURM_STEPID', 'PMI_SIZE')}\nraise ImportError('no libmpi.so')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    ended, ours = [], socket.socketpair()
    world = types.SimpleNamespace(connection=ours[0], end=lambda: ended.append(1), watch=lambda: None)
    monkeypatch.setattr(mpi, "_World", lambda rank, size: world)
    monkeypatch.setattr(mpi, "_world", None)
    monkeypatch.setattr(mpi, "_process", None)
    for name, value in {"SLURM_STEPID": "0", "SLURM_STEP_ID": "7", "WORLD_SIZE": str(size), "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    mpi.watch()
    try:
        for _ in range(2):
            with pytest.raises(ImportError, match="no libmpi"):
                importlib.import_module("mpi4py.MPI")
            assert dict(os.environ) == before and mpi._world is None
        assert len(ended) == (2 if size == 2 else 0)
        module.write_text(module.read_text().replace("raise", "def Is_initialized():\n    return False\n#"))
        importlib.invalidate_caches()
        seen = importlib.import_module("mpi4py.MPI").SEEN
        assert seen == {"SLURM_STEPID": None, "PMI_SIZE": "2" if size == 2 else None}
        assert dict(os.environ) == before
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "mpi4py"]:
            del sys.modules[name]
        imports._watcher.wanted.pop("mpi4py.MPI", None)
        for end in ours:
            end.close()
