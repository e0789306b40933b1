# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.horovod.torch: training on several processes equals training on one."""

from __future__ import annotations

import os
import time
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import cellspan.horovod.torch as hvd  # noqa: E402
from forks import world  # noqa: E402


@pytest.fixture
def alone():
    hvd.init()
    yield
    hvd.shutdown()


def net(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()


def data(rows=36):
    generator = torch.Generator().manual_seed(7)
    return torch.randn(rows, 6, generator=generator, dtype=torch.float64), torch.randn(rows, 2, generator=generator, dtype=torch.float64)


def train(model, optimizer, x, y, steps=5, passes=1, clip=None):
    for _ in range(steps):
        optimizer.zero_grad()
        for part in range(passes):
            rows = slice(part * len(x) // passes, (part + 1) * len(x) // passes)
            (torch.nn.functional.mse_loss(model(x[rows]), y[rows]) / passes).backward()
        if clip is not None and hasattr(optimizer, "synchronize"):
            optimizer.synchronize()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        if clip is not None and hasattr(optimizer, "skip_synchronize"):
            with optimizer.skip_synchronize():
                optimizer.step()
        else:
            optimizer.step()
    return [p.detach().numpy() for p in model.parameters()]


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


OPTIONS = {
    "plain": {},
    "adam": {},
    "fp16": {"compression": "fp16"},
    "passes": {"backward_passes_per_step": 3},
    "predivide": {"gradient_predivide_factor": 4.0},
    "groups": {"groups": 2},
    "clipped": {},
    "buckets": {},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_training_equals_one_process_with_the_global_batch(name):
    passes = OPTIONS[name].get("backward_passes_per_step", 1)
    clip = 0.05 if name == "clipped" else None
    make = (lambda model: torch.optim.Adam(model.parameters(), lr=0.01)) if name == "adam" else sgd

    def trains(rank):
        options = dict(OPTIONS[name])
        if "compression" in options:
            options["compression"] = hvd.Compression.fp16
        if name == "buckets":
            os.environ["HOROVOD_FUSION_THRESHOLD"] = "100"
        model = net(seed=rank)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(make(model), named_parameters=model.named_parameters(), **options)
        x, y = data()
        buckets = len(optimizer._horovod.buckets)
        return train(model, optimizer, x[rank::3], y[rank::3], passes=passes, clip=clip), buckets

    model = net()
    expected = train(model, make(model), *data(), clip=clip)
    tolerance = 2e-3 if name == "fp16" else 1e-12
    for found, buckets in world(3, trains):
        assert buckets == {"groups": 2, "buckets": 4}.get(name, 1)
        for ours, theirs in zip(found, expected):
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_the_sum_is_not_divided():
    def trains(rank):
        x = torch.ones(1, requires_grad=True)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([x], 1.0), op=hvd.Sum)
        (x * (rank + 1)).backward()
        optimizer.synchronize()
        return x.grad.item()

    assert world(2, trains) == [3.0] * 2


def test_gradients_are_sent_while_backward_still_runs():
    """The last layer's gradient is under way before the first layer's is there."""

    def watches(rank):
        os.environ["HOROVOD_FUSION_THRESHOLD"] = "8"
        first, last = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(4))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first, last], 0.1))
        seen = []

        class Between(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                bucket = optimizer._horovod.buckets[0]
                while not bucket.op.is_done():  # it ends although this backward has not
                    optimizer._horovod.state.line.advance()
                    time.sleep(0.001)
                seen.append((optimizer._horovod.sent, first.grad is None))
                return gradient

        (Between.apply(first) * last).sum().backward()
        optimizer.step()
        return seen

    assert world(2, watches) == [[(1, True)]] * 2


def test_graphs_that_differ_between_ranks():
    """Each rank uses another branch; the parameters of the other get zeros from it."""

    def branches(rank):
        torch.manual_seed(0)
        layers = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layers.parameters(), 0.1), layers.named_parameters())
        layers[rank](torch.ones(1, 2)).sum().backward()
        optimizer.step()
        return [p.grad.tolist() for p in layers.parameters()]

    assert world(2, branches) == [[[[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5]] * 2] * 2


def test_a_closure_may_call_backward():
    def trains(rank):
        model = net()
        optimizer = hvd.DistributedOptimizer(sgd(model))
        x, y = data()

        def closure():
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x[rank::2]), y[rank::2])
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        return [p.detach().numpy() for p in model.parameters()]

    model = net()
    expected = train(model, sgd(model), *data(), steps=3)
    for found in world(2, trains):
        for ours, theirs in zip(found, expected):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_sparse_gradients():
    def trains(rank):
        table = torch.nn.Embedding(5, 2, sparse=True)
        torch.nn.init.zeros_(table.weight)
        optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(list(table.parameters()), 0.1))
        for _ in range(2):
            optimizer.zero_grad()
            table(torch.tensor([rank, 3])).sum().backward()
            optimizer.step()
        return table.weight.grad.is_sparse, table.weight.grad.to_dense()[:, 0].tolist(), table.weight[4].tolist()

    assert world(2, trains) == [(True, [0.5, 0.5, 0, 1, 0], [0, 0])] * 2


def test_schedulers_pickles_states_and_a_second_wrap():
    def wraps(rank):
        import copy

        model = net()
        plain = sgd(model)
        scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, 0.5)
        optimizer = hvd.DistributedOptimizer(plain)
        again = hvd.DistributedOptimizer(optimizer)  # a cell that runs again
        warnings.simplefilter("error")  # such as that of a scheduler whose optimizer takes no steps
        later = torch.optim.lr_scheduler.StepLR(again, 1, 0.1)
        x, y = data()
        train(model, again, x, y, steps=2)
        scheduler.step()
        later.step()
        again.load_state_dict(again.state_dict())
        train(model, again, x, y, steps=1)
        copied = copy.deepcopy(again)
        return type(again).__name__, isinstance(again, torch.optim.SGD), round(again.param_groups[0]["lr"], 6), type(copied) is torch.optim.SGD, len(copied.state), hasattr(copied, "synchronize")

    assert world(2, wraps) == [("SGD", True, 0.005, True, 6, False)] * 2


def test_mistakes_in_training_are_the_originals():
    def mistakes(rank):
        found = []
        x = torch.ones(1, requires_grad=True)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([x], 1.0))
        (x * 2).backward()
        for call in (optimizer.zero_grad, (x * 2).backward):
            try:
                call()
            except AssertionError as error:
                found.append(str(error))
        optimizer.synchronize()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            optimizer.step()
        return found, [str(one.message) for one in seen][0][:57]

    zero = "optimizer.zero_grad() was called after loss.backward() but before"
    many = "Gradients were computed more than backward_passes_per_step times"
    for found, warned in world(2, mistakes):
        assert found[0].startswith(zero) and found[1].startswith(many)
        assert warned == "optimizer.step() called without optimizer.skip_synchronize"[:57]


def test_names_groups_and_factors_are_checked(alone):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for options, words in (
        ({"named_parameters": model.parameters()}, "sequence of tuples"),
        ({"named_parameters": [("a", model.weight), ("a", model.bias)]}, "must be unique. Found duplicates: a"),
        ({"named_parameters": torch.nn.Linear(2, 2).named_parameters()}, "one or more model parameters were not named"),
        ({"backward_passes_per_step": 0}, "backward_passes_per_step must be > 0"),
        ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, "gradient_predivide_factor not supported with op != Average"),
        ({"groups": -1}, "groups should be a non-negative integer"),
        ({"groups": [[1]]}, "groups must consist of torch.Tensor."),
        ({"groups": [[model.weight], [model.weight]]}, "A parameter can only appear once in groups."),
    ):
        with pytest.raises(ValueError, match=words.replace("(", r"\(")):
            hvd.DistributedOptimizer(optimizer, **options)
    with pytest.raises(TypeError, match="needs an optimizer"):
        hvd.DistributedOptimizer(model)


def test_models_that_differ_between_ranks_are_told():
    def trains(rank):
        model = torch.nn.Linear(2, 2 + rank)
        try:
            hvd.DistributedOptimizer(sgd(model))
        except hvd.HorovodInternalError as error:
            return str(error), bool(model.weight._post_accumulate_grad_hooks)

    assert all("rank 0 calls DistributedOptimizer" in text and not hooked for text, hooked in world(2, trains))


def test_training_alone_changes_nothing(alone):
    model, other = net(), net()
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), backward_passes_per_step=2)
    for ours, theirs in zip(train(model, optimizer, *data()), train(other, sgd(other), *data())):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_sync_batch_norm_equals_one_process(momentum):
    x = torch.randn(10, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    weights = torch.arange(120, dtype=torch.float64).reshape(10, 3, 4).sin()

    def normed(rank):
        norm = hvd.SyncBatchNorm(3, momentum=momentum).double()
        rows = slice(0, 3) if rank == 0 else slice(3, 10)  # batches of different sizes
        mine = x[rows].clone().requires_grad_()
        for _ in range(2):
            mine.grad = None
            out = norm(mine)
            (out * weights[rows]).sum().backward()
        return [tensor.detach().numpy() for tensor in (out, mine.grad, norm.running_mean, norm.running_var, norm.num_batches_tracked, norm.eval()(mine))]

    norm = torch.nn.BatchNorm1d(3, momentum=momentum).double()
    whole = x.clone().requires_grad_()
    for _ in range(2):
        whole.grad = None
        out = norm(whole)
        (out * weights).sum().backward()
    expected = [tensor.detach().numpy() for tensor in (out, whole.grad, norm.running_mean, norm.running_var, norm.num_batches_tracked, norm.eval()(whole))]
    found = world(2, normed)
    for at, theirs in enumerate(expected):
        ours = np.concatenate([found[0][at], found[1][at]]) if at in (0, 1, 5) else found[1][at]
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("steps", [0, 1])
def test_a_rank_that_does_not_step_with_the_others_is_told_and_they_go_on(steps):
    def strays(rank):
        model = net()
        optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
        train(model, optimizer, *data(), steps=steps)
        with pytest.raises(hvd.HorovodInternalError) as caught:
            if rank == 0:
                train(model, optimizer, *data(), steps=1)
            else:
                hvd.allreduce(torch.ones(3), name="metric")
        return str(caught.value), hvd.allreduce(torch.ones(1), op=hvd.Sum).item()

    for text, after in world(2, strays):
        assert "ranks disagree: rank 0 calls allreduce 'gradients'" in text and "rank 1 calls allreduce 'metric'" in text and after == 2, text
