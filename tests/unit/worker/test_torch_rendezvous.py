# SPDX-License-Identifier: BSD-3-Clause
"""How ranks that make torch's process group again find each other: cellspan._worker.torch_rendezvous."""

from __future__ import annotations

import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from cellspan._worker import store_waits, torch_rendezvous

torch = pytest.importorskip("torch")
SECOND = timedelta(seconds=1)
MINUTE = timedelta(seconds=60)


@pytest.fixture(autouse=True)
def nothing_met(monkeypatch):
    monkeypatch.setattr(torch_rendezvous, "_met", {})
    monkeypatch.setattr(torch_rendezvous, "_own", {})
    monkeypatch.setattr(torch_rendezvous, "_default", lambda: None)


def server():
    return torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def client(of):
    return torch.distributed.TCPStore("127.0.0.1", of.port, is_master=False)


def rank_0(store):
    """Rank 0's part of the store for its next group; it has destroyed the last one."""
    torch_rendezvous._end()
    group = torch_rendezvous._Group()
    part = torch_rendezvous._numbered(group, store)
    group.ends(True)
    return part


def rank_1(store, made=True, limit=MINUTE):
    """Rank 1's part. made: True, False (the call fails) or None (it has not ended)."""
    group = torch_rendezvous._Group()
    part, *others = torch_rendezvous._found(group, lambda: (store, 1, 2), limit)
    assert others == [1, 2]
    if made is not None:
        group.ends(made)
    return part


def meet(one, other):
    """Do they use the same part of a store?"""
    one.add("met", 1)
    return other.add("met", 1) == 2


def test_the_first_group_of_a_store_has_the_names_that_torch_gives_it():
    store = server()
    rank_0(store).set("a", "1")
    assert store.get("a") == b"1" and rank_1(client(store)).get("a") == b"1"


def test_the_next_group_of_a_store_does_not_see_what_the_last_one_wrote():
    store = server()
    rank_0(store).set("address", "old")
    other = client(store)
    assert rank_1(other).get("address") == b"old"
    again = rank_0(store)
    again.set("address", "new")
    assert rank_1(other).get("address") == b"new"
    assert store.get("address") == b"old"


def test_a_rank_waits_for_the_group_after_its_last_one():
    store = server()
    rank_0(store)
    other = client(store)
    rank_1(other)
    with pytest.raises(RuntimeError, match="rank 0 has made no new process group at .* within 1 s"):
        rank_1(other, limit=SECOND)
    assert meet(rank_0(store), rank_1(other))
    missed, last = rank_0(store), rank_0(store)
    assert meet(last, rank_1(other)) and not missed.add("met", 0)
    new = server()
    with pytest.raises(RuntimeError, match="within 1 s"):  # rank 0 has not come yet
        rank_1(client(new), limit=SECOND)
    assert meet(rank_0(new), rank_1(client(new)))


def test_a_rank_comes_again_to_a_group_that_only_it_could_not_make():
    store = server()
    first = rank_0(store)
    other = client(store)
    rank_1(other, made=False)
    assert meet(first, rank_1(other, made=False))
    rank_1(other)
    second = rank_0(store)
    rank_1(other, made=False)
    assert meet(second, rank_1(other))


def test_ranks_that_failed_together_meet_again():
    store = server()
    other = client(store)
    group = torch_rendezvous._Group()
    torch_rendezvous._numbered(group, store)
    rank_1(other, made=False)
    group.ends(False)
    with pytest.raises(RuntimeError, match="within 1 s"):
        rank_1(other, limit=SECOND)
    assert meet(rank_0(store), rank_1(other))


def test_a_rank_whose_rank_0_numbers_nothing_waits_for_nothing():
    store = server()
    for _ in range(2):
        assert meet(store, rank_1(client(store)))
        store.delete_key("met")


def test_a_store_without_an_address_is_asked_alone():
    store = server()
    rank_0(store)
    hidden = torch.distributed.PrefixStore("other", client(store))
    rank_0(torch.distributed.PrefixStore("other", store))
    rank_1(hidden)
    made = threading.Timer(0.2, lambda: rank_0(torch.distributed.PrefixStore("other", store)))
    made.start()
    assert rank_1(hidden)
    made.join()


def test_a_connection_that_breaks_is_made_again_and_one_that_always_breaks_is_an_error(monkeypatch):
    monkeypatch.setattr(torch_rendezvous, "PAUSE_MAX", torch_rendezvous.PAUSE_MIN)
    store, broken = server(), [3]
    rank_0(store)

    def connect():
        if broken[0]:
            broken[0] -= 1
            raise RuntimeError("Connection reset by peer")
        return client(store), 1, 2

    group, last = torch_rendezvous._Group(), (7, 1, True)
    assert torch_rendezvous._wait_for_rank_0(group, last, None, connect, MINUTE)[1:] == (1, 2) and group.number == 1
    broken[0] = torch_rendezvous.BREAKS_MAX
    with pytest.raises(RuntimeError, match="Connection reset"):
        torch_rendezvous._wait_for_rank_0(group, last, None, connect, MINUTE)


@pytest.fixture
def handlers(monkeypatch):
    """torch's handlers, of which that of env:// yields what it is asked for."""
    handlers = {"env": lambda url, **given: iter([("plain", torch_rendezvous._number(url), 2)])}
    monkeypatch.setitem(__import__("sys").modules, "torch.distributed.rendezvous", SimpleNamespace(_rendezvous_handlers=handlers))
    monkeypatch.setattr(torch_rendezvous, "_numbered", lambda group, store: "numbered")
    monkeypatch.setattr(torch_rendezvous, "_found", lambda group, connect, limit: ("found", *connect()[1:]))
    return handlers


@pytest.mark.parametrize("own, url, what", [
    (0, "env://", "plain"), (0, "env://?rank=0", "numbered"), (1, "env://?rank=1", "found"),
    (0, "env://?rank=1", "plain"), (1, "env://?rank=0", "plain"), (2, "env://?rank=1", "plain"),
])
def test_only_a_group_in_which_a_rank_keeps_its_number_is_numbered(handlers, monkeypatch, own, url, what):
    monkeypatch.delenv("RANK", raising=False)
    torch_rendezvous._wrap(own)
    got = []
    torch_rendezvous.making(lambda: got.extend(handlers["env"](url)))()
    assert got[0][0] == what
    assert next(handlers["env"](url))[0] == "plain", "RPC uses the store as well, and calls no init_process_group()"


def test_a_rank_that_comes_later_takes_the_group_that_has_not_ended():
    store = server()
    rank_0(store)
    assert meet(rank_0(store), rank_1(client(store)))
    torch_rendezvous._met.clear()
    torch_rendezvous._end()
    with pytest.raises(RuntimeError, match="within 1 s"):
        rank_1(client(store), limit=SECOND)


@pytest.mark.parametrize("given, ends", [((), True), (("the default",), True), ((None,), True), (("another",), False)])
def test_only_the_default_group_s_end_is_told(monkeypatch, given, ends):
    monkeypatch.setattr(torch_rendezvous, "_default", lambda: "the default")
    told = []
    monkeypatch.setattr(torch_rendezvous, "_end", lambda: told.append(True))
    assert torch_rendezvous.destroying(lambda group: group)(*given) == (given[0] if given else None)
    assert told == [True] * ends


def test_a_process_that_a_rank_forks_has_met_nothing(monkeypatch):
    store = server()
    rank_0(store)
    rank_1(client(store))
    monkeypatch.setattr(torch_rendezvous.os, "getpid", lambda: 1)
    assert meet(store, rank_1(client(store)))


def test_the_rank_is_that_of_the_call_or_the_environment_s(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    assert torch_rendezvous._number("env://") == 3
    assert torch_rendezvous._number("env://?rank=1&world_size=2") == 1
    monkeypatch.setenv("RANK", "")
    assert torch_rendezvous._number("env://") == -1


def test_only_so_many_addresses_are_remembered(monkeypatch):
    monkeypatch.setattr(torch_rendezvous, "MET_MAX", 2)
    for port in "1123":
        monkeypatch.setenv("MASTER_PORT", port)
        torch_rendezvous._remember((1, 1, True))
    assert [place[2] for place in torch_rendezvous._met] == ["2", "3"]


@pytest.mark.parametrize("wrong", [
    {"port": 7, "timeout": SECOND},
    {"host_name": "127.0.0.1", "port": "7", "timeout": SECOND},
    {"host_name": "127.0.0.1", "port": 7, "timeout": None, "is_master": True},
    {"host_name": "127.0.0.1", "port": 7, "world_size": "2", "is_master": True},
])
def test_torch_says_which_parameter_of_a_store_is_wrong(wrong):
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        torch.distributed.TCPStore(**wrong)
    make = store_waits._interruptible(torch.distributed.TCPStore.__init__, False)
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        make(torch.distributed.TCPStore.__new__(torch.distributed.TCPStore), **wrong)


def test_the_time_limit_of_a_store_may_be_seconds():
    here, kind = server(), torch.distributed.TCPStore
    store = kind.__new__(kind)
    store_waits._interruptible(kind.__init__, False)(store, "127.0.0.1", here.port, None, False, timeout=90.0)
    here.set("key", "value")
    assert store.get("key") == b"value" and store.timeout == 90 * SECOND
