# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.horovod.torch: its collectives, on several processes. test_horovod_training.py has the optimizer."""

from __future__ import annotations

import os
import time
import warnings

import pytest

torch = pytest.importorskip("torch")
import cellspan.horovod.torch as hvd  # noqa: E402
from forks import free_port, lists, world  # noqa: E402


@pytest.fixture
def alone():
    hvd.init()
    yield
    hvd.shutdown()


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


def test_a_torch_that_hides_its_store():
    def places(rank):
        del torch.distributed.distributed_c10d._get_default_store
        os.environ.update(GROUP_RANK=str(rank // 2), LOCAL_RANK=str(rank % 2))
        hvd.init()
        return hvd.cross_rank(), hvd.cross_size()

    assert world(3, places, init=False) == [(0, 2), (0, 1), (1, 2)]


def test_shutdown_and_again():
    second = free_port()

    def twice(rank):
        first = hvd.allreduce(torch.tensor([1.0]), op=hvd.Sum).item()
        hvd.shutdown()
        over = not hvd.is_initialized() and not torch.distributed.is_initialized()
        os.environ["MASTER_PORT"] = str(second)
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


def wait_for(path):
    while not path.exists():
        time.sleep(0.005)


def test_poll_is_false_until_all_ranks_have_called(tmp_path):
    polled = tmp_path / "polled"

    def polls(rank):
        if rank == 1:
            wait_for(polled)
        handle = hvd.allgather_async(torch.ones(rank + 1))
        early = hvd.poll(handle)
        polled.touch()
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


def test_a_group_of_many_tensors():
    def gathered(rank):
        return [one.tolist() for one in hvd.grouped_allgather([torch.full((2,), float(k)) for k in range(60)])]

    assert world(2, gathered) == [[[float(k)] * 4 for k in range(60)]] * 2


def test_a_sparse_allreduce_that_is_neither_a_sum_nor_an_average_is_refused():
    with pytest.raises(ValueError, match="Average and Sum"):
        hvd.sparse_allreduce_async(torch.eye(2).to_sparse(), "embedding", hvd.Min)


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


def test_a_rank_that_waits_too_long_is_told_what_for(monkeypatch, tmp_path):
    monkeypatch.setenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "1")
    told = tmp_path / "told"

    def waits(rank):
        if rank == 0:
            try:
                hvd.allreduce(torch.ones(2), name="loss")
            except hvd.HorovodInternalError as error:
                told.touch()
                return str(error)
        wait_for(told)

    text = world(2, waits)[0]
    assert text.startswith("allreduce 'loss' of float32 (2,) has waited 1 s for the other ranks (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)"), text


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
