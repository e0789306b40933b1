# SPDX-License-Identifier: BSD-3-Clause
"""The collectives of one world, in one order on all ranks.

torch.distributed wants the same collectives in the same order on every rank. Before each of them, ranks exchange a header: which
operation, of what type and shape. So ranks that disagree get an error that names both sides, where the collective itself would hang
or end the process. Only an optimizer's steps may go without (_turns.py). A rank that has called join() answers with headers of its
own. It learns from the others' headers which collective comes next, and takes part with values that change nothing.
"""

from __future__ import annotations

import json
import threading
from collections import deque

import torch
import torch.distributed as dist

from ._turns import Turns
from ._works import HorovodInternalError, start, wait

HEADER = 4096  # bytes; some hundred tensors in a group
NAME = 80  # characters of a name in a header
FREE = ("name", "again", "eager")  # parts of a header that may be missing on some ranks
JOINABLE = ("allreduce", "barrier")


class Op:
    """One operation.

    head: what this rank says about it, a dict with "op". steps: functions that get the headers of all ranks in order (None: that
    rank has joined) and start a collective each; they return a list of works. finish(heads) gives the result when all is done.
    free: further parts of the header in which ranks may differ. eager: the first step needs no other rank's header, and is started
    with the header, which says so. Only for what all ranks have done in the same way before.
    """

    def __init__(self, head, steps, finish, free=(), eager=False):
        self.head, self.steps, self.finish = head, deque(steps), finish
        self.free, self.eager = (*FREE, *free), eager
        self.heads = None
        self.rows = None
        self.works = []
        self.error = None

    def is_done(self):
        return not self.steps and all(work.is_completed() for work in self.works)


class Line:
    """Operations wait here until all headers of those before them have arrived, so that they start in the same order everywhere."""

    def __init__(self, group):
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.device = torch.device("cpu") if _has_cpu(group) else torch.device("cuda", torch.cuda.current_device())
        self.joined = frozenset()  # ranks that have joined, by the last header that was read
        self.turns = Turns(self)
        self.lock = threading.RLock()  # gradients are ready on a thread of autograd's
        self._waiting = deque()
        self._started = deque()  # operations whose headers are under way or not yet read

    def add(self, op):
        """Starts the operation, or puts it behind those that wait."""
        with self.lock:
            self.turns.leave()
            return self.put(op)

    def put(self, op):
        """As add(), for one that all ranks expect."""
        with self.lock:
            self._waiting.append(op)
            self.advance()
        return op

    def advance(self, until=None):
        """Starts what can be started. until: waits until this operation has started altogether."""
        with self.lock:
            while self._waiting:
                op = self._waiting[0]
                if not all(work.is_completed() for work in op.works):
                    if until is None or until not in self._waiting:
                        return
                self._step(op)

    def poll(self, op):
        """Would result() return at once?"""
        self.advance()
        return op.error is not None or op.is_done()

    def result(self, op):
        """Waits for the operation. Returns its value, or raises its error."""
        self.advance(until=op)
        with self.lock:
            if op.error is None:
                try:
                    wait(op.works, _words(op.head, ()))
                    self._read(op)
                except HorovodInternalError as error:
                    op.error = error
            if op in self._started:
                self._started.remove(op)
        if op.error is not None:
            raise op.error
        return op.finish(op.heads)

    def join(self):
        """Takes part in the other ranks' reductions until all ranks have joined. Returns the rank that joined last."""
        with self.lock:
            self.turns.leave()
        while self._started:
            self.result(self._started[0])
        while True:
            before = self.joined
            rows, work = self._exchange({"op": "join"})
            wait([work])
            heads = self._parse(rows)
            self.joined = frozenset(rank for rank, head in enumerate(heads) if head["op"] == "join")
            if len(self.joined) == self.size:
                last, self.joined = max(self.joined - before or self.joined), frozenset()
                return last
            others = [None if head["op"] == "join" else head for head in heads]
            first = next(head for head in others if head is not None)
            _agree(others, FREE)
            _joinable(first)
            flats = [_nothing(first, *flat) for flat in first.get("flats", ())]
            kind = getattr(dist.ReduceOp, first.get("reduce", "SUM"))
            wait([start(dist.all_reduce, flat, kind) for flat in flats])

    # ---- one operation -----------------------------------------------------------------------------------------------

    def _step(self, op):
        try:
            if op.rows is None:
                op.rows, work = self._exchange(op.head)
                op.works = [work]
                self._started.append(op)
                if not op.eager:
                    return
            else:
                wait(op.works, _words(op.head, ()))
                self._read(op)
                op.works = []
            if op.steps:
                op.works += op.steps.popleft()(op.heads)
        except HorovodInternalError as error:
            op.error = error
        except RuntimeError as error:
            op.error = HorovodInternalError(str(error))  # of torch itself, such as no memory
        if op.error is not None or not op.steps:
            self._waiting.popleft()

    def _exchange(self, head):
        text = json.dumps(head, separators=(",", ":")).encode()
        if len(text) > HEADER:
            raise HorovodInternalError(f"{head['op']}: its description takes {len(text)} bytes, more than {HEADER}: pass fewer tensors in one call")
        mine = torch.frombuffer(bytearray(text.ljust(HEADER)), dtype=torch.uint8).to(self.device)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        return rows, start(dist.all_gather, rows, mine)

    def _read(self, op):
        """Reads the headers, once. Raises HorovodInternalError if ranks disagree."""
        if op.heads is not None:
            return
        heads = self._parse(op.rows)
        self.joined = frozenset(rank for rank, head in enumerate(heads) if head["op"] == "join")
        op.heads = [None if rank in self.joined else head for rank, head in enumerate(heads)]
        if self.joined:
            _joinable(op.head)
        try:
            _agree(op.heads, op.free)
        except HorovodInternalError:
            if not op.eager:
                self._take_part(op.heads)
            raise

    @staticmethod
    def _take_part(heads):
        """Takes part, with zeros, in what other ranks have started with their headers: they would wait for it for ever."""
        eager = next((head for head in heads if head is not None and head.get("eager")), None)
        if eager is not None:
            wait([start(dist.all_reduce, _nothing({**eager, "reduce": "SUM"}, *flat)) for flat in eager["flats"]])

    @staticmethod
    def _parse(rows):
        texts = [row.cpu().numpy().tobytes() for row in rows]
        known = {text: json.loads(text) for text in set(texts)}
        return [known[text] for text in texts]


def _agree(heads, free):
    """Raises HorovodInternalError, with both sides, if the headers differ in more than the free parts."""
    found = [(rank, head) for rank, head in enumerate(heads) if head is not None]
    first, mine = found[0]
    for rank, other in found[1:]:
        if other is mine:
            continue
        keys = [key for key in {**mine, **other} if key not in free and mine.get(key) != other.get(key)]
        names = mine.get("name"), other.get("name")
        if keys or (None not in names and names[0] != names[1]):
            raise HorovodInternalError(
                f"ranks disagree: rank {first} calls {_words(mine, keys)}, rank {rank} calls {_words(other, keys)}. "
                "All ranks must call the same operations in the same order, with the same types and shapes"
            )


def _words(head, differ):
    """What a rank calls, as text. differ: the parts of its header that others have not."""
    shape = "" if head.get("shape") is None else f" {tuple(head['shape'])}"
    name = f" {head['name']!r}" if head.get("name") else ""
    dtype = f" of {head['dtype']}" if head.get("dtype") else ""
    rest = [f", {key} {head.get(key)}" for key in differ if key not in ("op", "name", "dtype", "shape", "flats") and key in head]
    return head["op"] + name + dtype + shape + "".join(rest)


def _joinable(head):
    if head["op"] not in JOINABLE:
        raise HorovodInternalError(f"{head['op'].capitalize()} is not supported with Join at this time.")


def _nothing(head, dtype, numel):
    """A tensor for the allreduce of this header whose values do not change the result."""
    dtype = getattr(torch, dtype)
    device = torch.device("cuda", torch.cuda.current_device()) if head.get("device") == "cuda" else torch.device("cpu")
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    value = {"SUM": 0, "PRODUCT": 1, "MIN": limits.max, "MAX": limits.min}[head.get("reduce", "SUM")]
    return torch.full((numel,), value, dtype=dtype, device=device)


def _has_cpu(group):
    """Can the group's backends reduce tensors of the CPU?"""
    config = getattr(dist, "get_backend_config", None)
    return "cpu:" in str(config(group)) if config is not None else dist.get_backend(group) != "nccl"
