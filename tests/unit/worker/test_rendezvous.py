"""How ranks that make torch's process group again find each other: cellspan._worker.rendezvous."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cellspan._worker import rendezvous

torch = pytest.importorskip("torch")
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def nothing_met(monkeypatch):
    monkeypatch.setattr(rendezvous, "_met", {})


def server():
    return torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def client(of):
    return torch.distributed.TCPStore("127.0.0.1", of.port, is_master=False)


def found(store, limit=SECOND):
    """As another rank, which has a memory of its own."""
    mine, rendezvous._met = rendezvous._met, found.met
    try:
        return rendezvous._wait_for_rank_0(lambda: (store, 1, 2), limit)[0]
    finally:
        rendezvous._met = mine


@pytest.fixture(autouse=True)
def another_rank():
    found.met = {}


def test_the_first_group_of_a_store_has_the_names_that_torch_gives_it():
    store = server()
    rendezvous._counted(store).set("a", "1")
    assert store.get("a") == b"1" and found(client(store)).get("a") == b"1"


def test_the_next_group_of_a_store_does_not_see_what_the_last_one_wrote():
    store = server()
    rendezvous._counted(store).set("address", "old")
    other = client(store)
    assert found(other).get("address") == b"old"
    again = rendezvous._counted(store)
    assert not again.check(["address"])
    again.set("address", "new")
    assert found(other).get("address") == b"new"


def test_a_rank_waits_for_a_group_that_it_has_not_met():
    store = server()
    with pytest.raises(RuntimeError, match="rank 0 has made no new process group at .* within 1 s"):
        found(client(store))
    rendezvous._counted(store)
    found(client(store))
    with pytest.raises(RuntimeError, match="within 1 s"):
        found(client(store))
    rendezvous._counted(store)
    rendezvous._counted(store)  # rank 0 has failed once
    assert found(client(store), timedelta(seconds=30))
    rendezvous._counted(server())  # another world
    with pytest.raises(RuntimeError, match="within 1 s"):
        found(client(store))


def test_a_connection_that_breaks_is_made_again_and_one_that_always_breaks_is_an_error(monkeypatch):
    monkeypatch.setattr(rendezvous, "PAUSE_MAX", rendezvous.PAUSE_MIN)
    store, broken = server(), [3]
    rendezvous._counted(store)

    def connect():
        if broken[0]:
            broken[0] -= 1
            raise RuntimeError("Connection reset by peer")
        return client(store), 1, 2

    monkeypatch.setattr(rendezvous, "_met", {})
    assert rendezvous._wait_for_rank_0(connect, None)[1:] == (1, 2)
    broken[0] = rendezvous.BREAKS_MAX
    with pytest.raises(RuntimeError, match="Connection reset"):
        rendezvous._wait_for_rank_0(connect, None)


def test_the_rank_is_that_of_the_call_or_the_environment_s(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    assert rendezvous._number("env://") == 3
    assert rendezvous._number("env://?rank=1&world_size=2") == 1
    monkeypatch.setenv("RANK", "")
    assert rendezvous._number("env://") == -1


def test_only_so_many_stores_are_remembered(monkeypatch):
    monkeypatch.setattr(rendezvous, "MET_MAX", 2)
    for name in "aabc":
        rendezvous._remember(name, 1)
    assert list(rendezvous._met) == ["b", "c"]
