# SPDX-License-Identifier: BSD-3-Clause
"""%ranks check, on a rank: the rank's software and hardware, and the speed and errors of its connections to the others.

The kernel asks in steps (PROBE), all ranks at the same time; worker/collective/README.md describes each step's fields. No code of
the user's runs here, and every step ends by itself: within its `limit_s`, or with KeyboardInterrupt.
"""

from __future__ import annotations

import json
import time

from .. import _link
from . import gpus, host_facts

OPS = {"all_reduce": 1, "broadcast": 2, "send_recv": 4}  # bits for measure() of worker/collective/transport.h
LIMIT = 30.0  # seconds, if a step sets no limit
SIZES_TCP = (8, 64 << 10, 1 << 20, 8 << 20)  # bytes
SIZES_NCCL = (8, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20)  # the last one uses NVSwitch's full bandwidth
SIZES_PAIR = (8, 1 << 20)
SIZES_PAIR_NCCL = (8, 16 << 20)


class ProbeError(Exception):
    """A step can't be done; the text is for the user."""


class Check:
    """The state of a check between its steps."""

    def __init__(self, rank):
        self.rank = rank
        self.mesh = None
        self.closed = []  # [[from, to]]: connections that can't be made, from the kernel

    def close(self):
        self.mesh = None  # this closes its listener and connections


_check = None


def probe(worker, what, content, arrived=None):
    """Answers one step: (status, JSON text). worker: the Rank; arrived: seconds since 1970 when the message came.

    Raises only KeyboardInterrupt; for any other exception the status is "error".
    """
    step = STEPS.get(what)
    try:
        if step is None:
            raise ProbeError(f"this rank knows no probe named {what}: another version of cellspan?")
        asked = json.loads(content) if content else {}
        if what == "facts":
            asked["arrived"] = time.time() if arrived is None else arrived
        return "ok", json.dumps(step(worker, asked))
    except (ProbeError, OSError, ValueError, KeyError, TypeError, gpus.GpuError) as error:
        text = f"it lacks {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        return "error", json.dumps({"error": text, "aborted": gpus.take_aborted()})


def close():
    """Closes a check that is still open: at `close`, when the next cell begins, and after an interrupt."""
    global _check
    if _check is not None:
        _check.close()
    _check = None


def _facts(worker, asked):
    return host_facts.facts(asked["arrived"])


def _listen(worker, asked):
    """Opens this rank's port at the address that the kernel gives; rank 0 of a GPU world also makes NCCL's id."""
    global _check
    close()
    check = Check(worker.rank)
    token = bytes.fromhex(asked["token"])
    check.mesh = _link.mesh_open(asked["address"], token)
    answer = {"port": _link.mesh_port(check.mesh), "nccl_id": None}
    if asked.get("nccl"):
        answer["nccl_id"] = gpus.unique_id().hex()
    _check = check
    return answer


def _opened():
    if _check is None:
        raise ProbeError("no check is open on this rank: listen comes first")
    return _check


def _connect(worker, asked):
    """Connects to every peer's port and waits for every peer's connection, so that both directions are tested."""
    check = _opened()
    peers = [(int(rank), str(where)) for rank, where in asked["peers"]]
    found = _link.mesh_connect(check.mesh, check.rank, int(asked.get("attempt", 0)), peers, _limit(asked))
    return {"peers": [{"rank": rank, "error": error, "silent": silent} for rank, error, silent in found]}


def _limit(asked):
    return float(asked.get("limit_s") or LIMIT)


def _measure(worker, asked):
    """Measures the pair that this rank is in, if any, and the world, if requested."""
    check = _opened()
    check.closed = [(int(a), int(b)) for a, b in asked.get("closed", [])]
    end = time.monotonic() + _limit(asked)
    if asked.get("nccl") or asked.get("nccl_id"):
        gpus.drain(_limit(asked) / 2)
    answer = {"transport": "nccl" if asked.get("nccl_id") or asked.get("nccl") else "tcp", "rows": [], "pairs": [], "error": ""}
    mine = [pair for pair in asked.get("pairs", []) if check.rank in pair]
    if len(mine) > 1:
        raise ProbeError(f"rank {check.rank} is in {len(mine)} pairs of one step")
    for pair in mine:
        answer["pairs"].append(_pair(check, [int(r) for r in pair], asked, end))
    order = [int(r) for r in asked.get("order", [])]
    if check.rank in order:
        answer["rows"], answer["error"] = _world(check, order, asked, end)
    answer["aborted"] = gpus.take_aborted()
    return answer


def _pair(check, pair, asked, end):
    """Both directions at once between two ranks: the latency of the smallest size, the bandwidth of the largest."""
    a, b = pair
    nccl = bool(asked.get("nccl"))
    sizes = asked.get("pair_sizes") or (SIZES_PAIR_NCCL if nccl else SIZES_PAIR)
    result = {"a": a, "b": b, "us": 0.0, "gbps": 0.0, "bad": 0, "error": ""}
    left = max(0.0, end - time.monotonic())
    if nccl:
        rows, error = gpus.check_pair(check, pair, OPS["send_recv"], sizes, left / 4, left)
    else:
        rows, error = _link.check_tcp(check.mesh, pair, pair.index(check.rank), OPS["send_recv"], sizes, left / 4, left, check.closed)
    if error:
        _link.mesh_drop(check.mesh, b if check.rank == a else a)  # so that the other rank need not wait for its time-out
    result["error"] = error
    if rows:
        result["us"] = rows[0][2]
        result["gbps"] = max(row[4] for row in rows)
        result["bad"] = sum(row[5] for row in rows)
    return result


def _world(check, order, asked, end):
    at = order.index(check.rank)
    left = max(0.0, end - time.monotonic())
    ops = 0
    for name in asked.get("ops") or OPS:
        ops |= OPS[name]
    if asked.get("nccl_id"):
        sizes = asked.get("sizes") or SIZES_NCCL
        rows, error = gpus.check_world(bytes.fromhex(asked["nccl_id"]), at, len(order), ops, sizes, left / 2, left)
    else:
        sizes = asked.get("sizes") or SIZES_TCP
        rows, error = _link.check_tcp(check.mesh, order, at, ops, sizes, left / 2, left, check.closed)
        if error:
            for neighbour in {order[at - 1], order[(at + 1) % len(order)]} - {check.rank}:
                _link.mesh_drop(check.mesh, neighbour)
    names = ("op", "bytes", "us", "algbw", "busbw", "bad", "iterations")
    return [dict(zip(names, row)) for row in rows], error


def _close(worker, asked):
    """Closes the check. Returns how many connections to the port did not come from a rank of the check."""
    strangers = _link.mesh_strangers(_check.mesh) if _check is not None else 0
    close()
    return {"strangers": strangers}


def _broadcast_open(worker, asked):
    """The id of the communicator for a broadcast; the kernel asks the rank that has the variables."""
    return {"nccl_id": gpus.unique_id().hex()}


STEPS = {
    "facts": _facts,
    "listen": _listen,
    "connect": _connect,
    "check": _measure,
    "close": _close,
    "broadcast_open": _broadcast_open,
}
