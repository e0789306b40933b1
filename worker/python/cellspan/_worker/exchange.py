# SPDX-License-Identifier: BSD-3-Clause
"""HAND: what home and ranks send each other while a call runs, such as the items of cellspan.map and their results.

A load is one Python object, such as a chunk of a map's items. It is pickled as variables are, and goes in pieces, since a message has a
limit. A piece begins with its head, a small dict as JSON: {"of": the number of home's server, "more": pieces of this load
follow, ...}.

A load of home's is for one rank, or for whichever rank takes one next: those the kernel hands out (send_loads()). If the call outlives
ranks, the kernel tells home of a rank that has died, and which of these loads it had not finished: it has their heads.

This module has what both sides need, and a rank's side (Exchange). Home's side are the servers of _map.py and _scatter.py.
"""

from __future__ import annotations

import collections
import json
import os

from .. import _link
from .._capture import vars_bundle
from . import gpu_placement
from .worker import Waiting

PIECE = 64 << 20  # bytes of a load in one message
ANY = -1  # instead of a rank: whichever takes it


def send_load(worker, cell, to, head, data=b"", flags=0, takes=0, **counts):
    """Sends a load. worker: home or the rank; cell: the kernel's number of the cell on ranks; to: a rank, or ANY (ranks: 0). flags: of a
    rank's HAND; takes: a rank takes so many more loads of those that are for any. counts: the fields items, failed and again of HAND."""
    view = memoryview(data)
    for at in range(0, max(len(view), 1), PIECE):
        more = at + PIECE < len(view)
        piece = [json.dumps(dict(head, more=1) if more else head).encode(), bytes(view[at : at + PIECE])]
        if to == ANY:
            _for_any(worker, cell, _link.HAND_MORE if more else 0, piece, {} if more else counts)
        else:
            fields = {"to": to, "flags": 0 if more else flags, "takes": 0 if more else takes, "load": piece}
            worker.send("HAND", cell, fields if more else {**fields, **counts})


def send_last(worker, cell, drop=False, items=0):
    """Home has no more loads for any rank: ranks end when none is left. drop: those that no rank has taken are dropped. items: how many
    there were in all."""
    _for_any(worker, cell, _link.HAND_LAST | (_link.HAND_DROP if drop else 0), [], {"items": items})


def send_given_up(worker, cell, items):
    """Home has given up so many items."""
    _for_any(worker, cell, 0, [], {"failed": items})


def send_stop(worker, cell):
    """Home ends the call. Ranks are interrupted."""
    worker.send("HAND", cell, {"flags": _link.HAND_STOP})


def _for_any(worker, cell, flags, piece, counts):
    worker.send("HAND", cell, {"to": 0, "flags": _link.HAND_ANY | flags, "takes": 0, "load": piece, **counts})


class Pieces:
    """Joins the pieces of one sender."""

    def __init__(self):
        self.data = []

    def load(self, piece):
        """(head, data) of a load that is complete with this message; None: more pieces follow."""
        head = json.loads(bytes(piece[0]))
        self.data.append(piece[1])
        if head.get("more"):
            return None
        data, self.data = self.data, []
        return head, data[0] if len(data) == 1 else b"".join(data)


def server_of(message):
    """The number of the server that a HANDED is for."""
    return json.loads(bytes(message.fields["load"][0]))["of"]


def received(begun, message, servers):
    """Home's Pieces.load() for a HANDED. begun: {(of, rank): its Pieces}, kept by the caller. None also if the server is gone.
    If the rank has died: ({"of": of, "died": how, "loads": the heads of those that it had not finished, in their order}, b"")."""
    rank, piece = message.fields["from"], message.fields["load"]
    key = server_of(message), rank
    if key[0] not in servers:
        return None
    if message.fields.get("died"):
        begun.pop(key, None)
        return {"of": key[0], "died": message.fields["died"], "loads": [json.loads(bytes(part)) for part in piece]}, b""
    load = begun.setdefault(key, Pieces()).load(piece)
    if load is not None:
        del begun[key]
    return load


def forget(begun, of):
    """The server of this number is gone: forgets pieces of what ranks did not hand over altogether."""
    for key in [key for key in list(begun) if key[0] == of]:  # a copy: other threads serve other calls
        begun.pop(key, None)


# ---- on a rank --------------------------------------------------------------------------------------------------------


class Exchange:
    """A rank's side, for the cell that it runs."""

    def __init__(self, worker, of):
        """of: the number of home's server."""
        self.worker = worker
        self.cell = worker.cell.number
        self.of = of
        self._inbox = collections.deque()
        self._waiting = None
        self._coming = 0  # loads for any rank that were asked for and not begun
        self._counted = 0  # the number of the first item that the kernel was not told of
        self.failed = self.again = 0  # what it was not told of: calls that have failed, and that were made again

    def __enter__(self):
        self.worker.exchange = self
        return self

    def __exit__(self, *error):
        self.worker.exchange = None

    def take(self, message):
        """A HANDED has come."""
        if message.cell == self.cell:
            self._inbox.append(message.fields["load"])
            if self._waiting is not None:
                self._waiting.set(None)

    def send(self, data=b"", ahead=0, finished=False, done=None, **head):
        """ahead: how many loads that are for any rank should be on their way to this one; finished: it has finished one. done: the items
        before that of this number are done."""
        takes = max(ahead - self._coming, 0)
        self._coming += takes
        counts = {} if done is None else self._counts(done)
        send_load(self.worker, self.cell, 0, dict(head, of=self.of), data, _link.HAND_FINISHED if finished else 0, takes, **counts)

    def tell(self, done):
        """Tells the kernel alone that the items before that of this number are done."""
        self.worker.send("HAND", self.cell, self._counts(done))

    def _counts(self, done):
        counts = {"items": done - self._counted, "failed": self.failed, "again": self.again}
        self._counted, self.failed, self.again = done, 0, 0
        return counts

    def receive(self):
        """Waits for the next load: (head, data). None: no more come."""
        __tracebackhide__ = True
        pieces = Pieces()
        while True:
            while self._inbox:
                piece = self._inbox.popleft()
                if not piece:
                    return None
                load = pieces.load(piece)
                if load is not None:
                    self._begun(load[0])
                    return load
            self._waiting = Waiting(self.cell)
            self.worker.wait_for(self._waiting)

    def _begun(self, head):
        """The rank begins a load. When the kernel sends one for this rank alone, it forgets how many others the rank has asked for.
        Then only those come that are here already."""
        self._counted = head.get("first", 0)
        if head.get("own"):
            heads = [json.loads(bytes(piece[0])) for piece in self._inbox if piece]
            self._coming = sum(not (head.get("more") or head.get("own")) for head in heads)
        else:
            self._coming = max(self._coming - 1, 0)


def this_rank():
    """The Rank of this process."""
    from . import rank

    return rank.current


def receive_part(of):
    """This rank's part, of those that home's server has: of a scattered sequence, or of a table."""
    __tracebackhide__ = True
    worker = this_rank()
    with Exchange(worker, of) as exchange:
        exchange.send(world=int(os.environ["WORLD_SIZE"]))
        head, data = exchange.receive()
        if "failed" in head:
            raise TypeError(head["failed"])
        return vars_bundle.unpack_bytes(data, worker.shell.user_ns, gpu_placement.copied)
