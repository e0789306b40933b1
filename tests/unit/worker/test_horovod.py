"""cellspan.horovod.torch: what it computes on several processes equals what one process computes."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
import time
import traceback
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # processes are forked from this one, and threads of OpenMP do not survive a fork
import cellspan.horovod.torch as hvd  # noqa: E402

LIMIT = 120  # seconds


def world(n, function, *args, init=True):
    """Calls function(rank, *args) in n processes, after hvd.init(). Their values by rank; an exception of theirs as text."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pipes, children = [], []
    for rank in range(n):
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(here)
            _child(there, rank, n, port, function, args, init)
        os.close(there)
        pipes.append(here)
        children.append(child)
    killer = threading.Timer(LIMIT, lambda: [os.kill(child, 9) for child in children])
    killer.start()
    texts = []
    for here, child in zip(pipes, children):
        with os.fdopen(here, "rb") as file:
            texts.append(file.read())
    killer.cancel()
    for child in children:
        os.waitpid(child, 0)
    return [pickle.loads(text) if text else "it died" for text in texts]


def _child(there, rank, n, port, function, args, init):
    local = {"RANK": rank, "WORLD_SIZE": n, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": n, "GROUP_RANK": 0}
    os.environ.update({name: str(value) for name, value in local.items()}, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    try:
        if init:
            hvd.init()
        value = function(rank, *args)
        if init:
            hvd.shutdown()
    except BaseException as error:  # noqa: BLE001 - it travels as text
        value = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    sys.stderr.flush()
    with os.fdopen(there, "wb") as file:
        file.write(pickle.dumps(value))
    os._exit(0)


@pytest.fixture
def alone():
    hvd.init()
    yield
    hvd.shutdown()


def lists(value):
    """Tensors as lists, since a pickled tensor needs the process that made it."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [lists(one) for one in value] if isinstance(value, (list, tuple)) else value


# ---- where it runs ----------------------------------------------------------------------------------------------------


def test_before_init_the_original_says_so():
    assert not hvd.is_initialized()
    for function in (hvd.rank, hvd.size, hvd.local_rank, hvd.cross_size, hvd.barrier, hvd.join):
        with pytest.raises(ValueError, match="Horovod has not been initialized; use hvd.init()"):
            function()


def test_places():
    def places(rank):
        hvd.init()  # again: nothing happens
        return hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size(), hvd.is_initialized()

    assert world(2, places) == [(0, 2, 0, 2, 0, 1, True), (1, 2, 1, 2, 0, 1, True)]


def test_uneven_nodes():
    """Ranks 0 and 1 on node 0, rank 2 on node 1: only local rank 0 is on both."""

    def places(rank):
        os.environ.update(GROUP_RANK=str(rank // 2), LOCAL_RANK=str(rank % 2))
        hvd.init()
        return hvd.cross_rank(), hvd.cross_size()

    assert world(3, places, init=False) == [(0, 2), (0, 1), (1, 2)]


def test_shutdown_and_again():
    def twice(rank):
        first = hvd.allreduce(torch.tensor([1.0]), op=hvd.Sum).item()
        hvd.shutdown()
        over = not hvd.is_initialized() and not torch.distributed.is_initialized()
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
        hvd.init()
        return first, over, hvd.allreduce(torch.tensor([2.0]), op=hvd.Sum).item()

    assert world(2, twice) == [(2.0, True, 4.0)] * 2


def test_a_group_that_the_user_made_stays():
    def with_group(rank):
        torch.distributed.init_process_group("gloo")
        hvd.init()
        value = hvd.allreduce(torch.tensor(float(rank))).item()
        hvd.shutdown()
        return value, torch.distributed.is_initialized()

    assert world(2, with_group, init=False) == [(0.5, True)] * 2


def test_alone(alone):
    assert (hvd.rank(), hvd.size(), hvd.local_size(), hvd.cross_size()) == (0, 1, 1, 1)
    x = torch.arange(4.0)
    assert lists(hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0)) == [0, 2, 4, 6]
    assert hvd.allreduce(x) is not x
    assert hvd.allreduce_(x) is x
    assert lists(hvd.allgather(x)) == lists(hvd.broadcast(x, 0)) == lists(hvd.reducescatter(x)) == [0, 1, 2, 3]
    assert lists(hvd.alltoall(x, splits=[4])) == [[0, 1, 2, 3], [4]]
    handle = hvd.allreduce_async(x)
    assert hvd.poll(handle) and lists(hvd.synchronize(handle)) == [0, 1, 2, 3]
    assert hvd.join() == 0 and hvd.barrier() is None
    assert hvd.broadcast_object({"a": 1}) == {"a": 1} and hvd.allgather_object(3) == [3]
    with pytest.raises(ValueError, match="root_rank=1"):
        hvd.broadcast(x, 1)


# ---- collectives ------------------------------------------------------------------------------------------------------


def test_allreduce_of_every_type():
    def reduced(rank):
        types = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
        found = []
        for dtype in types:
            x = torch.tensor([1, 2, rank + 1], dtype=dtype)
            y = hvd.allreduce(x, op=hvd.Sum)
            found.append(y.dtype == dtype and y.tolist() == [2, 4, 3] and x.tolist() == [1, 2, rank + 1])
        x = torch.tensor([1.0, 2.0, rank + 1.0])
        found.append(lists([hvd.allreduce(x), hvd.allreduce(x, op=hvd.Min), hvd.allreduce(x, op=hvd.Max), hvd.allreduce(x, op=hvd.Product)]))
        found.append(hvd.allreduce(torch.tensor([rank + 2])).tolist())  # whole numbers: (2 + 3) / 2, cut
        found.append(hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=10.0).tolist())
        return found

    expected = [True] * 9 + [[[1, 2, 1.5], [1, 2, 1], [1, 2, 2], [1, 4, 2]], [2], [10, 20, 15]]
    assert world(2, reduced) == [expected] * 2


def test_average_is_the_old_name():
    def reduced(rank):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = hvd.allreduce(torch.tensor([float(rank)]), average=False).item(), hvd.allreduce(torch.tensor([float(rank)]), True).item()
        try:
            hvd.allreduce(torch.tensor([1.0]), average=True, op=hvd.Sum)
        except ValueError as error:
            return found, len(seen), str(error)

    assert world(2, reduced) == [((1.0, 0.5), 2, "The op parameter supersedes average. Please provide only one of them.")] * 2


def test_grouped_in_place_strided_and_fp16():
    def reduced(rank):
        grouped = [torch.full((2, 2), rank + 1.0), torch.tensor(rank, dtype=torch.int64), torch.zeros(0)]
        results = hvd.grouped_allreduce(grouped, op=hvd.Sum)
        x = torch.arange(6.0).reshape(2, 3).t()
        same = hvd.allreduce_(x, op=hvd.Sum) is x
        pair = [torch.ones(2) * rank, torch.ones(1) * rank]
        hvd.grouped_allreduce_(pair, op=hvd.Sum)
        half = hvd.allreduce(torch.tensor([1 / 3]), compression=hvd.Compression.fp16)
        return lists(results), same, lists(x), lists(pair), half.dtype == torch.float32, abs(half.item() - 1 / 3) < 2e-4, half.item() != 1 / 3

    expected = ([[[3, 3], [3, 3]], 1, []], True, [[0, 6], [2, 8], [4, 10]], [[1, 1], [1]], True, True, True)
    assert world(2, reduced) == [expected] * 2


def test_handles_in_any_order_of_synchronize():
    def handles(rank):
        many = [hvd.allreduce_async(torch.full((3,), float(at + rank)), op=hvd.Sum, name=f"x{at}") for at in range(6)]
        rows = hvd.allgather_async(torch.full((rank + 1,), float(rank)))
        sent = hvd.broadcast_async(torch.tensor([rank]), 1)
        first = lists(hvd.synchronize(rows)), lists(hvd.synchronize(sent))
        values = [hvd.synchronize(handle).tolist()[0] for handle in (many if rank else reversed(many))]
        return first, sorted(values), hvd.synchronize(many[0])

    assert world(2, handles) == [(([0, 1, 1], [1]), [1, 3, 5, 7, 9, 11], None)] * 2


def test_poll_is_false_until_all_ranks_have_called():
    def polls(rank):
        if rank == 1:
            time.sleep(0.5)
        handle = hvd.allgather_async(torch.ones(rank + 1))
        early = hvd.poll(handle)
        while not hvd.poll(handle):
            time.sleep(0.005)
        return early, hvd.synchronize(handle).tolist()

    found = world(2, polls)
    assert found[0] == (False, [1, 1, 1]) and found[1][1] == [1, 1, 1]


def test_poll_of_a_handle_that_is_over(alone):
    with pytest.raises(ValueError, match="99999"):
        hvd.poll(99999)


def test_allgather_of_unequal_lengths():
    def gathered(rank):
        x = torch.full((rank * 2, 2), rank, dtype=torch.int32)  # rank 0 has none
        both = hvd.grouped_allgather([torch.tensor([rank]), torch.tensor([[True]] * (rank + 1))])
        return lists(hvd.allgather(x)), lists(both), lists(hvd.allgather(torch.zeros(0, 3))), lists(hvd.allgather(torch.ones(rank, dtype=torch.bfloat16)))

    expected = ([[1, 1]] * 2 + [[2, 2]] * 4, [[0, 1, 2], [[True]] * 6], [], [1, 1, 1])
    assert world(3, gathered) == [expected] * 3


def test_broadcast_alltoall_reducescatter():
    def moved(rank):
        x = torch.tensor([rank * 10, rank * 10 + 1, rank * 10 + 2])
        found = [hvd.broadcast(x, 1), hvd.alltoall(x), hvd.reducescatter(torch.arange(4.0) * (rank + 1), op=hvd.Sum)]
        rows, counts = hvd.alltoall(torch.arange(3.0).reshape(3, 1) + 10 * rank, splits=torch.tensor([rank, 2 - rank, 1]))
        y = torch.tensor([rank])
        same = hvd.broadcast_(y, 2) is y
        group = hvd.grouped_reducescatter([torch.ones(3), torch.ones(6, 1)], op=hvd.Sum)
        hvd.barrier()
        return lists(found), lists(rows), lists(counts), same, lists(y), lists(group)

    found = world(3, moved)
    assert [row[0] for row in found] == [
        [[10, 11, 12], [0, 10, 20], [0, 6]],
        [[10, 11, 12], [1, 11, 21], [12]],
        [[10, 11, 12], [2, 12, 22], [18]],
    ]
    # Ranks 0, 1 and 2 send (0, 2, 1), (1, 1, 1) and (2, 0, 1) rows to ranks 0, 1 and 2.
    assert [row[1:3] for row in found] == [
        ([[10], [20], [21]], [0, 1, 2]),
        ([[0], [1], [11]], [2, 1, 0]),
        ([[2], [12], [22]], [1, 1, 1]),
    ]
    assert [row[3:5] for row in found] == [(True, [2])] * 3
    assert [row[5] for row in found] == [[[3], [[3], [3]]]] * 3


def test_gradients_flow_as_in_horovod():
    def flows(rank):
        def grad(function, rows=2):
            x = torch.ones(rows, requires_grad=True)
            (function(x) * (rank + 1)).sum().backward()
            return x.grad.tolist()

        return [
            grad(lambda x: hvd.allreduce(x)),
            grad(lambda x: hvd.allreduce(x, op=hvd.Sum)),
            grad(lambda x: hvd.grouped_allreduce([x], op=hvd.Sum)[0]),
            grad(lambda x: hvd.allgather(x), rank + 1),
            grad(lambda x: hvd.broadcast(x, 1)),
            grad(lambda x: hvd.alltoall(x)),
            grad(lambda x: hvd.reducescatter(x, op=hvd.Sum)),
        ]

    first, second = world(2, flows)
    assert first == [[1.5] * 2, [3] * 2, [3] * 2, [1.5], [0, 0], [1, 2], [2, 4]]
    assert second == [[1.5] * 2, [3] * 2, [3] * 2, [1.5] * 2, [1.5, 1.5], [1, 2], [2, 4]]


def test_sparse_allreduce():
    def summed(rank):
        x = torch.sparse_coo_tensor([[rank, 2]], [1.0, 10.0], (4,))
        return hvd.synchronize(hvd.sparse_allreduce_async(x, "embedding", hvd.Sum)).to_dense().tolist()

    assert world(2, summed) == [[1, 1, 20, 0]] * 2


# ---- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda rank: hvd.allreduce(torch.ones(2 + rank), name="loss"), ["allreduce 'loss' of float32 (2,)", "allreduce 'loss' of float32 (3,)"]),
        (lambda rank: hvd.allreduce(torch.ones(2, dtype=torch.float64 if rank else None)), ["float32", "float64"]),
        (lambda rank: hvd.barrier() if rank else hvd.broadcast(torch.ones(1), 0), ["rank 0 calls broadcast", "rank 1 calls barrier"]),
        (lambda rank: hvd.allreduce(torch.ones(1), name="ab"[rank]), ["'a'", "'b'"]),
        (lambda rank: hvd.allgather(torch.ones(1, rank + 1)), ["allgather"]),
        (lambda rank: hvd.broadcast_parameters([torch.ones(rank + 1)], 0), ["broadcast"]),
    ],
)
def test_ranks_that_disagree_are_told_both_sides_and_go_on(call, words):
    def disagrees(rank):
        try:
            call(rank)
        except hvd.HorovodInternalError as error:
            text = str(error)
        return text, hvd.allreduce(torch.ones(1), op=hvd.Sum).item()

    for text, after in world(2, disagrees):
        assert all(word in text for word in ["ranks disagree", *words]) and after == 2, text


def test_a_rank_that_is_gone_is_a_horovod_error():
    def goes(rank):
        hvd.barrier()
        if rank == 1:
            os._exit(1)
        try:
            hvd.allreduce(torch.ones(1))
        except hvd.HorovodInternalError:
            return "HorovodInternalError"

    assert world(2, goes)[0] == "HorovodInternalError"


def test_what_is_refused_is_named(alone):
    x = torch.ones(2)
    for call, name, use in (
        (lambda: hvd.allreduce(x, op=hvd.Adasum), "Adasum", "hvd.Average"),
        (lambda: hvd.DistributedOptimizer(torch.optim.SGD([x], 0.1), op=hvd.Adasum), "Adasum", "hvd.Average"),
        (lambda: hvd.add_process_set([0]), "add_process_set", "new_group"),
        (lambda: hvd.ProcessSet([0]), "ProcessSet", "new_group"),
        (lambda: hvd.barrier(process_set="x"), "process_set", "new_group"),
        (lambda: hvd.elastic.run(print), "elastic", "checkpoint"),
        (lambda: hvd.init(comm=[0]), "comm", "-r"),
        (lambda: hvd.start_timeline("x"), "start_timeline", "torch.profiler"),
    ):
        with pytest.raises(NotImplementedError) as caught:
            call()
        assert name in str(caught.value) and use in str(caught.value)


def test_wrong_arguments(alone):
    with pytest.raises(TypeError, match="needs a tensor, not float"):
        hvd.allreduce(0.5)
    with pytest.raises(ValueError, match="not supported"):
        hvd.allreduce(torch.tensor([True]))
    with pytest.raises(ValueError, match="op=9"):
        hvd.allreduce(torch.ones(1), op=9)
    with pytest.raises(ValueError, match="dense"):
        hvd.allreduce(torch.ones(2).to_sparse())
    with pytest.raises(ValueError, match="splits="):
        hvd.alltoall(torch.ones(2), splits=[3])
    with pytest.raises(hvd.HorovodInternalError, match="dimension"):
        hvd.allgather(torch.tensor(1.0))
    with pytest.raises(ValueError, match="invalid params of type"):
        hvd.broadcast_parameters(3, 0)
    with pytest.raises(ValueError, match="extra: .*takes tensors, not int"):
        hvd.broadcast_parameters({"extra": 1}, 0)


# ---- join -------------------------------------------------------------------------------------------------------------


def test_join_where_ranks_end_unevenly():
    def uneven(rank):
        found = [hvd.allreduce(torch.ones(2), op=op).tolist()[0] for op in [hvd.Sum] * (rank + 1)]
        if rank == 2:
            found.append(hvd.allreduce(torch.full((1,), 5.0), op=hvd.Min).item())
            hvd.barrier()
            handle = hvd.grouped_allreduce_async([torch.ones(1), torch.ones(2, dtype=torch.int64)], op=hvd.Sum)
            found.append(lists(hvd.synchronize(handle)))
        last = hvd.join()
        return found, last, hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), hvd.join()

    assert world(3, uneven) == [
        ([3], 2, 3, 2),
        ([3, 2], 2, 3, 2),
        ([3, 2, 1, 5, [[1], [1, 1]]], 2, 3, 2),
    ]


def test_join_while_others_gather():
    def gathers(rank):
        try:
            return hvd.join() if rank else hvd.allgather(torch.ones(1))
        except hvd.HorovodInternalError as error:
            return str(error)

    assert world(2, gathers) == ["Allgather is not supported with Join at this time."] * 2


def test_join_after_training_on_unequal_data():
    """Joined ranks add nothing; the mean is still over all ranks, as in Horovod."""

    def trains(rank):
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.ones_(model.weight)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0))
        for _ in range(1 + 2 * rank):
            optimizer.zero_grad()
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
        last = hvd.join()
        hvd.broadcast_parameters(model.state_dict(), last)
        return last, model.weight.item()

    assert world(2, trains) == [(1, 1 - 1 - 0.5 - 0.5)] * 2


# ---- state ------------------------------------------------------------------------------------------------------------


def test_broadcast_of_parameters_state_and_objects():
    def broadcasts(rank):
        torch.manual_seed(rank)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (rank + 1))
        if rank == 1:  # only this rank has state: it has loaded a checkpoint
            model(torch.randn(5, 3)).sum().backward()
            optimizer.step()
        hvd.broadcast_parameters(model.state_dict(), root_rank=1)
        hvd.broadcast_parameters(model.named_parameters(), root_rank=1)
        hvd.broadcast_optimizer_state(optimizer, root_rank=1)
        state = optimizer.state_dict()
        numbers = [tensor.double().sum().item() for tensor in model.state_dict().values()]
        numbers += [value.double().sum().item() for row in state["state"].values() for value in row.values()]
        objects = hvd.allgather_object({"rank": rank, "text": "x" * 1000 * rank})
        return numbers, state["param_groups"][0]["lr"], hvd.broadcast_object([rank, {"a": None}], 1), [len(one["text"]) for one in objects]

    first, second, third = world(3, broadcasts)
    assert first == second == third
    assert first[1:] == (0.2, [1, {"a": None}], [0, 1000, 2000]) and len(first[0]) == 7 + 12


def test_lbfgs_is_refused(alone):
    with pytest.raises(ValueError, match="cannot broadcast torch.optim.LBFGS state"):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS([torch.ones(1, requires_grad=True)]), 0)


# ---- training ---------------------------------------------------------------------------------------------------------


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
        optimizer = hvd.DistributedOptimizer(sgd(model))
        try:
            optimizer.step()
        except hvd.HorovodInternalError as error:
            return str(error)

    assert all("rank 0 calls DistributedOptimizer" in text for text in world(2, trains))


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
