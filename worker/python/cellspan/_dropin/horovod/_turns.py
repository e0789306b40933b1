# SPDX-License-Identifier: BSD-3-Clause
"""Steps of an optimizer whose reductions are sent without headers.

A header takes as long as a small reduction, and a training loop does the same again and again. So when an optimizer's steps have
followed each other, the header of the next one asks "again". If the headers of all ranks ask so, all ranks promise that the same
reductions follow, and these are sent bare: without headers.

Each reduction has one number more than the gradients, its mark. It is 0 on a rank that keeps the promise. A rank that does something
else, such as another collective or join(), first takes part in the promised reductions, with zeros and the mark 1. If the sum of the
marks is 0, all ranks have kept the promise, and it holds for the next step, too. If not, the results are discarded, and ranks that
have sent gradients send them again, with headers.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from ._works import HorovodInternalError, start, wait


class Habit:
    """Decides when an optimizer asks for the promise: when its steps have followed each other for some time. A broken promise
    costs a step's reductions. So after one that was not kept for long, it asks later than before."""

    SOON, LONG = 2, 16  # steps

    def __init__(self):
        self._wanted = self.SOON
        self._run = 0  # steps that have followed each other
        self._kept = 0  # bare ones among them

    def asks(self, follows):
        """A step with headers begins. follows: the last thing was the step before it."""
        self._run = self._run + 1 if follows else 0
        return self._run >= self._wanted

    def keeps(self):
        """All ranks have kept the promise."""
        self._kept += 1

    def breaks(self):
        """This rank or another one has not."""
        self._wanted = self.SOON if self._kept >= self.LONG else 2 * self._wanted
        self._run = self._kept = 0


class Turn:
    """The reductions of one step. owner: the reducer that sends them. count: how many. plan: (dtype, numel) of each."""

    def __init__(self, owner, count, asks=False, plan=None):
        self.owner, self.count, self.asks = owner, count, asks
        self.bare = plan is not None
        self.plan = plan or []
        self.ops = []  # with headers
        self.flats, self.works, self.whole = [], [], []  # without
        self.promised = None  # does the same come again? None: not known yet

    def is_sent(self):
        return len(self.works if self.bare else self.ops) == self.count

    def again(self):
        return Turn(self.owner, self.count, plan=self.plan)


class Turns:
    """The steps on a line."""

    def __init__(self, line):
        self._line = line
        self._last = None  # the step that was the last thing on the line, or that is being sent

    def begin(self, owner, able):
        """A step begins. able: this owner's reductions may travel bare. Returns its Turn; turn.bare says how it travels."""
        with self._line.lock:
            last = self._last
            follows = last is not None and last.owner is owner and last.is_sent()
            if follows and able and self._holds(last):
                self._last = last.again()
            else:
                self.leave()
                self._last = Turn(owner, len(owner.buckets), asks=owner.habit.asks(follows) and able)
            return self._last

    def add(self, turn, op, flat):
        """A reduction of the step, with a header."""
        with self._line.lock:
            if self._last is turn:
                turn.ops.append(op)
                turn.plan.append((flat.dtype, flat.numel()))
                return self._line.put(op)
            return self._line.add(op)

    def send(self, turn, flat):
        """A reduction of the step, bare, unless that is impossible now. Then zeros have been sent."""
        with self._line.lock:
            if self._last is turn and (flat.dtype, flat.numel()) != turn.plan[len(turn.works)]:
                self.leave()
            if self._last is turn:
                self._start(turn, flat)

    def is_whole(self, turn, at):
        """Waits for a bare reduction. Has it the gradients of all ranks?"""
        with self._line.lock:
            while len(turn.whole) <= at:
                wait([turn.works[len(turn.whole)]])
                turn.whole.append(turn.flats[len(turn.whole)][-1].item() == 0)
        return turn.whole[at]

    def leave(self):
        """Something else comes: does what was promised, with zeros."""
        turn = self._last
        if turn is not None:
            try:
                self._fill(turn)
            except HorovodInternalError:  # the group is broken, and what comes now will say so
                pass
            self._last = None

    def _fill(self, turn):
        if turn.is_sent():
            if not self._holds(turn):
                return
            turn.owner.habit.breaks()
            self._last = turn = turn.again()
        while turn.bare and not turn.is_sent():
            dtype, numel = turn.plan[len(turn.works)]
            zeros = torch.zeros(numel, dtype=dtype)
            zeros[-1] = 1
            self._start(turn, zeros)

    def _start(self, turn, flat):
        turn.works.append(start(dist.all_reduce, flat))
        turn.flats.append(flat)

    def _holds(self, turn):
        """Have all ranks promised that the same comes again? Waits for the step."""
        if turn.promised is None:
            try:
                turn.promised = all(self.is_whole(turn, at) for at in range(turn.count)) if turn.bare else turn.asks and self._all_ask(turn)
            except HorovodInternalError:
                turn.promised = False
        return turn.promised

    def _all_ask(self, turn):
        for op in turn.ops:
            self._line.result(op)
        return all(head is not None and head.get("again") for op in turn.ops for head in op.heads)
