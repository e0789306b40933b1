# SPDX-License-Identifier: BSD-3-Clause
"""What home and ranks hand each other: pieces, and addresses."""

from __future__ import annotations

import json
import types

from cellspan import tensorflow
from cellspan._worker import exchange


def piece(head, data):
    return types.SimpleNamespace(fields={"from": 3, "load": [json.dumps(head).encode(), data]})


def test_pieces_make_a_load_and_those_for_a_server_that_is_gone_are_not_kept():
    begun, servers = {}, {7: "a server"}
    assert exchange.received(begun, piece({"of": 8, "more": 1}, b"x"), servers) is None and not begun
    assert exchange.received(begun, piece({"of": 7, "more": 1}, b"ab"), servers) is None and len(begun) == 1
    assert exchange.received(begun, piece({"of": 7}, b"cd"), servers) == ({"of": 7}, b"abcd") and not begun
    exchange.received(begun, piece({"of": 7, "more": 1}, b"ab"), servers)
    exchange.forget(begun, 6)
    assert len(begun) == 1
    exchange.forget(begun, 7)
    assert not begun


def test_of_a_rank_that_has_died_home_gets_the_heads_of_its_loads_and_no_half_one():
    begun, servers = {}, {7: "a server"}
    exchange.received(begun, piece({"of": 7, "more": 1}, b"ab"), servers)
    heads = [{"of": 7, "first": 4}, {"of": 7, "first": 9, "more": 1}]
    death = types.SimpleNamespace(fields={"from": 3, "load": [json.dumps(head).encode() for head in heads], "died": "rank 3 was killed"})
    assert exchange.received(begun, death, servers) == ({"of": 7, "died": "rank 3 was killed", "loads": heads}, b"") and not begun


def test_an_address_of_ipv6_is_set_apart_from_its_port():
    assert [tensorflow._endpoint(host, 50) for host in ("10.0.0.1", "fd00::1")] == ["10.0.0.1:50", "[fd00::1]:50"]
