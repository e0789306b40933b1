# SPDX-License-Identifier: BSD-3-Clause
"""torch tensors in bundles."""

import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
torch = pytest.importorskip("torch")
from cellspan._capture import reducers  # noqa: E402
from notebook import Notebook, round_trip  # noqa: E402

DTYPES = ["float32", "float64", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int64", "int8", "uint8", "bool", "complex64"]


def raw(tensor):
    return bytes(tensor.contiguous().view(torch.uint8).flatten().tolist())


@pytest.mark.parametrize("name", [d for d in DTYPES if hasattr(torch, d)])
def test_every_dtype_comes_out_bit_for_bit(name):
    tensor = (torch.rand(100, 16) * 3).to(getattr(torch, name))
    got = round_trip({"t": tensor, "row": tensor[5], "T": tensor.T, "step": tensor[::2]})
    assert raw(got["t"]) == raw(tensor) and raw(got["row"]) == raw(tensor[5])
    assert got["T"].stride() == tensor.T.stride() and raw(got["T"]) == raw(tensor.T) and raw(got["step"]) == raw(tensor[::2])


def test_views_of_one_storage_share_it_again():
    tensor = torch.zeros(1000, 100)
    got = round_trip([tensor, tensor[3], tensor.view(-1)])
    got[1][:] = 7
    assert got[0][3].sum() == 700 and got[2].sum() == 700 and tensor.sum() == 0


def test_of_a_large_storage_only_the_part_that_is_seen_travels():
    big = torch.arange(1 << 20)
    one, two = big[1000:2000], big[1500:2500]
    pickled = reducers.Pickled([one, two])
    assert pickled.size < 20000
    got = round_trip([one, two])
    assert (got[0] == one).all() and (got[1] == two).all()
    got[0][600] = -1
    assert got[1][100] == -1


def test_tensors_in_process_do_not_share_memory_with_home():
    tensor = torch.ones(1 << 20)
    got = round_trip(tensor)
    got[:] = 3
    assert tensor.sum() == 1 << 20


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(0),
        lambda: torch.empty(3, 0, 2),
        lambda: torch.tensor(5.0),
        lambda: torch.ones(4).expand(3, 4),
        lambda: torch.ones(2, 3).to_sparse(),
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
        lambda: torch.tensor([1 + 2j]).conj(),
        lambda: torch.empty(2, 3, device="meta"),
        lambda: torch.sparse_csr_tensor([0, 1], [0], [1.0], size=(1, 2)),
    ],
    ids=["empty", "no elements", "scalar", "expanded", "sparse", "quantised", "conjugated", "meta", "csr"],
)
def test_odd_tensors_come_out_as_they_were(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = make()
        got = round_trip(value)
    assert got.shape == value.shape and got.dtype == value.dtype and got.layout == value.layout and got.device == value.device
    if value.layout == torch.strided and value.device.type == "cpu" and not value.is_quantized:
        assert torch.equal(got, value) and got.stride() == value.stride()


def test_a_computed_tensor_arrives_as_a_leaf():
    weight = torch.ones(3, requires_grad=True)
    got = round_trip((weight * 2).sum())
    assert got.item() == 6 and got.requires_grad and got.is_leaf


def test_attributes_of_tensors_and_parameters_are_kept():
    tensor = torch.ones(3)
    tensor.tag = "mine"
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    parameter.special = 1
    got = round_trip([tensor, parameter])
    assert got[0].tag == "mine" and got[1].special == 1 and not got[1].requires_grad and isinstance(got[1], torch.nn.Parameter)


def test_tied_parameters_stay_tied_in_bfloat16():
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 256)).bfloat16()
    model[1].weight = model[0].weight
    got = round_trip(model)
    assert got[0].weight is got[1].weight and got[0].weight.dtype is torch.bfloat16
    got(torch.ones(1, 256, dtype=torch.bfloat16)).sum().backward()
    assert got[0].weight.grad is not None


def test_an_optimizer_with_a_scheduler_still_steps_its_model():
    model = torch.nn.Linear(300, 300)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    model(torch.ones(300)).sum().backward()
    optimizer.step()
    got = round_trip({"m": model, "o": optimizer, "s": scheduler})
    assert got["o"].param_groups[0]["params"][0] is got["m"].weight
    before = got["m"].weight.detach().clone()
    got["m"](torch.ones(300)).sum().backward()
    got["o"].step(), got["s"].step()
    assert not torch.equal(before, got["m"].weight) and got["s"].get_last_lr() == [pytest.approx(0.01)]
    assert torch.equal(before, model.weight)


@pytest.mark.parametrize("make", [lambda: torch.nn.LSTM(8, 8), lambda: torch.nn.TransformerEncoderLayer(16, 2), lambda: torch.nn.BatchNorm1d(4)])
def test_layers_of_torch_work_on_the_other_side(make):
    layer = make().eval()
    got = round_trip(layer).eval()
    for (name, a), (_, b) in zip(layer.state_dict().items(), got.state_dict().items()):
        assert torch.equal(a, b), name


def test_data_sets_and_loaders_travel():
    data = torch.utils.data.TensorDataset(torch.arange(20000.0).view(-1, 2), torch.arange(10000))
    loader = torch.utils.data.DataLoader(data, batch_size=100, shuffle=True)
    got = round_trip(loader)
    assert len(got) == 100 and sum(y.sum().item() for _, y in got) == sum(range(10000))


def test_small_storages_can_be_resized_where_they_arrive():
    got = round_trip(torch.ones(10))
    got.resize_(1000)
    assert got.shape == (1000,)


def test_a_model_of_the_notebook_runs_in_another_process():
    nb = Notebook()
    try:
        nb.run(
            "import torch\nscale = 2.0\ndef act(x): return torch.relu(x) * scale\n"
            "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = torch.nn.Linear(40, 40)\n"
            "        self.register_buffer('b', torch.ones(40))\n    def forward(self, x): return act(self.a(x)) + self.b\n"
            "net = Net()\nwith torch.no_grad(): net.a.weight.fill_(1), net.a.bias.zero_()"
        )
        code = "print(net(torch.ones(1, 40))[0, 0].item(), sorted(net.state_dict()), isinstance(net, Net))"
        assert nb.elsewhere("net Net act scale torch", code) == "81.0 ['a.bias', 'a.weight', 'b'] True"
    finally:
        nb.close()


def test_packing_does_not_copy_the_storage():
    tensor = torch.zeros(8 << 20)
    pickled = reducers.Pickled({"t": tensor})
    assert pickled.chunks.size < 1000 and pickled.size > 32 << 20


def test_gradients_are_found_wherever_they_are():
    class Own(torch.Tensor):
        pass

    inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LazyLinear(3))
    plain, own = torch.ones(2, requires_grad=True), torch.ones(2).as_subclass(Own).requires_grad_()
    value = {"net": inner, "list": [plain, (own,)], "graph": plain * 2, "state": inner.state_dict()}
    look = lambda: reducers.Pickled(value, {}, make=reducers.GradPickler).grads  # noqa: E731
    assert look() == []
    (inner[0](torch.ones(1, 2)).sum() + plain.sum() + own.sum()).backward()
    assert {id(g) for g in look()} == {id(t.grad) for t in (inner[0].weight, inner[0].bias, plain, own)}
    assert reducers.Pickled(value, {}).grads == []
