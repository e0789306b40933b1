# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.horovod.torch: an optimizer's steps that travel without headers, and what ends that."""

from __future__ import annotations

import os
import random

import pytest

torch = pytest.importorskip("torch")
import cellspan.horovod.torch as hvd  # noqa: E402
from forks import world  # noqa: E402


class Loop:
    """A loop with a model of two layers, in two buckets. The gradient of each weight is 1 + rank, times the factor."""

    def __init__(self, rank, **options):
        os.environ["HOROVOD_FUSION_THRESHOLD"] = "8"
        self.rank, self.factor = rank, 1.0
        self.first, self.last = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
        self.optimizer = hvd.DistributedOptimizer(torch.optim.SGD([self.first, self.last], 0.0), **options)
        self.reducer = self.optimizer._horovod
        self.line = self.reducer.state.line
        self.headers = 0
        exchange = self.line._exchange

        def counted(head):
            self.headers += 1
            return exchange(head)

        self.line._exchange = counted

    def backward(self, between=None, last=True):
        """between: called after the last layer's gradient, before the first one's."""

        class Between(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                if between is not None:
                    between()
                return gradient

        factor = self.factor * (1 + self.rank)
        (Between.apply(self.first * factor + (self.last.detach() * 0)).sum() + (self.last * factor).sum() * last).backward()

    def step(self, **options):
        self.optimizer.zero_grad()
        self.backward(**options)
        self.optimizer.step()
        return self.gradients()

    def gradients(self):
        return [p.grad[0].item() for p in (self.first, self.last)]

    def steps(self, count):
        """Some steps; how many headers they took."""
        before = self.headers
        for _ in range(count):
            self.factor += 1
            assert self.step() == [1.5 * self.factor] * 2
        return self.headers - before


def test_steps_that_follow_each_other_travel_without_headers():
    def trains(rank):
        loop = Loop(rank)
        return [loop.steps(1) for _ in range(8)]

    assert world(2, trains) == [[2, 2, 2] + [0] * 5] * 2


@pytest.mark.parametrize("options", [{"backward_passes_per_step": 2}, {"compression": hvd.Compression.fp16}, {"op": hvd.Sum}])
def test_options_of_the_optimizer(options):
    def trains(rank):
        loop = Loop(rank, **options)
        found = []
        for _ in range(8):
            loop.optimizer.zero_grad()
            for _ in range(options.get("backward_passes_per_step", 1)):
                loop.backward()
            loop.optimizer.step()
            found.append(loop.gradients())
        return loop.headers, found

    value = {"backward_passes_per_step": 3.0, "compression": 1.5, "op": 3.0}[next(iter(options))]
    assert world(2, trains) == [(6, [[value] * 2] * 8)] * 2


def test_what_comes_between_steps_has_a_header_and_the_steps_after_it_too():
    def trains(rank):
        loop = Loop(rank)
        found = []
        for call in (
            lambda: hvd.allreduce(torch.ones(1), op=hvd.Sum).item(),
            lambda: hvd.synchronize(hvd.allgather_async(torch.full((1 + rank,), rank))).tolist(),
            lambda: hvd.broadcast_object({"a": 1}, 1),
            lambda: Loop(rank).step(),
            hvd.barrier,
            hvd.join,
        ):
            while loop.steps(1):
                pass
            found.append(call())
            assert loop.steps(1) == 2
        return found[:-1]

    assert world(2, trains) == [[2.0, [0, 1, 1], {"a": 1}, [1.5, 1.5], None]] * 2


def test_it_asks_later_if_something_comes_between_again_and_again():
    """A promise that is broken costs a step's reductions."""

    def trains(rank):
        loop = Loop(rank)
        headers = []
        for _ in range(6):
            headers.append(loop.steps(4))
            hvd.barrier()
        loop.steps(20)
        assert loop.steps(20) == 0
        hvd.barrier()
        return headers, loop.steps(5)

    assert world(2, trains) == [([6, 8, 8, 8, 8, 8], 6)] * 2


def test_collectives_within_backward():
    def trains(rank):
        loop = Loop(rank)
        seen = []
        add = lambda: seen.append(hvd.allreduce(torch.ones(1), op=hvd.Sum).item())  # noqa: E731
        found = [loop.step(between=add) for _ in range(4)]  # never bare
        assert loop.steps(8) == 6
        found += [loop.step(between=add) for _ in range(2)]  # the first of these begins bare
        return found, seen, loop.steps(1)

    assert world(2, trains) == [([[1.5] * 2] * 4 + [[13.5] * 2] * 2, [2.0] * 6, 2)] * 2


def test_gradients_that_some_ranks_do_not_have():
    def trains(rank):
        loop = Loop(rank)
        loop.steps(5)
        before = loop.headers
        loop.factor = 1.0
        found = [loop.step(last=rank == 0) for _ in range(3)]
        return found, loop.headers - before

    assert world(2, trains) == [([[1.5, 0.5]] * 3, 0)] * 2


def test_a_rank_that_does_something_else_is_named():
    def differs(rank):
        loop = Loop(rank)
        loop.steps(5)
        try:
            loop.step() if rank else hvd.allreduce(torch.ones(2), name="loss")
        except hvd.HorovodInternalError as error:
            text = str(error)
        return text, hvd.allreduce(torch.ones(1), op=hvd.Sum).item()

    for text, after in world(2, differs):
        assert "rank 0 calls allreduce 'loss' of float32 (2,)" in text and "rank 1 calls allreduce 'gradients'" in text and after == 2


def test_join_of_ranks_that_end_unevenly():
    def uneven(rank):
        loop = Loop(rank)
        for _ in range(6):
            loop.step()
        found = [loop.step() for _ in range(3 * rank)]
        return [[round(value, 3) for value in row] for row in found], hvd.join()

    first, second, third = world(3, uneven)
    assert (first, second, third) == (([], 2), ([[1.667] * 2] * 3, 2), ([[1.667] * 2] * 3 + [[1.0] * 2] * 3, 2))


def test_a_step_that_was_broken_off_on_some_ranks():
    """As by an interrupt: rank 0 has sent one bucket, rank 1 both, rank 2 none. The cell that wraps the model runs again."""

    class Stop(Exception):
        pass

    def stops(rank):
        loop = Loop(rank)

        def stop():
            raise Stop

        for _ in range(6):
            loop.step()
        loop.optimizer.zero_grad()
        if rank < 2:
            try:
                loop.backward(between=stop if rank == 0 else None)
            except Stop:
                pass
        again = Loop(rank)
        return [[round(value, 6) for value in again.step()] for _ in range(6)], again.headers

    assert world(3, stops) == [([[2.0] * 2] * 6, 6)] * 3


def test_the_type_of_the_gradients_changes():
    def changes(rank):
        loop = Loop(rank)
        loop.steps(5)
        loop.reducer.compression = hvd.Compression.fp16
        loop.factor = 1.0
        return loop.step(), loop.headers

    assert world(2, changes) == [([1.5] * 2, 6 + 2)] * 2


def test_a_rank_that_is_gone():
    def goes(rank):
        loop = Loop(rank)
        loop.steps(5)
        if rank == 1:
            os._exit(1)
        try:
            loop.step()
        except hvd.HorovodInternalError:
            return "HorovodInternalError"

    assert world(2, goes)[0] == "HorovodInternalError"


@pytest.mark.parametrize("seed", range(3))
def test_programs_of_many_steps_and_other_calls(seed):
    """The same program on all ranks, with pauses that differ. Each value is known."""

    def runs(rank):
        chance, own = random.Random(seed), random.Random(100 * seed + rank)
        loops = [Loop(rank), Loop(rank)]
        pending, wrong = [], []

        def add():
            pending.append(hvd.allreduce_async(torch.ones(1), op=hvd.Sum))

        for _ in range(150):
            loop = loops[chance.random() < 0.1]
            loop.factor = float(chance.randrange(1, 9))
            kind = chance.choices(("step", "sum", "later", "within", "missing", "gather", "wait"), (60, 2, 2, 2, 4, 1, 2))[0]
            if own.random() < 0.05:
                torch.randn(own.randrange(400), 400).sum()
            if kind in ("step", "within", "missing"):
                found = loop.step(between=add if kind == "within" else None, last=kind != "missing" or rank == 0)
                expected = [2 * loop.factor, loop.factor / 3 if kind == "missing" else 2 * loop.factor]
                if not torch.allclose(torch.tensor(found), torch.tensor(expected)):
                    wrong.append((kind, found, expected))
            elif kind == "sum":
                add()
                wrong += [one for one in [hvd.synchronize(pending.pop()).item()] if one != 3]
            elif kind == "later":
                add()
            elif kind == "gather":
                wrong += [] if hvd.allgather(torch.full((rank,), rank)).tolist() == [1, 2, 2] else ["gather"]
            elif kind == "wait":
                wrong += [one for one in map(hvd.synchronize, pending) if one.item() != 3]
                pending.clear()
        hvd.barrier()
        return wrong, loops[0].headers

    found = world(3, runs)
    assert [wrong for wrong, _ in found] == [[]] * 3 and len({headers for _, headers in found}) == 1 and found[0][1] < 2 * 150
