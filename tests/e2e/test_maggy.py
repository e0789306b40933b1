# SPDX-License-Identifier: BSD-3-Clause
"""cellspan.maggy: training code for one GPU is distributed, and gives what one process gives with the same global batch."""

from __future__ import annotations

import pytest
from client import by_rank, values
from packages import needs

BEFOREHAND = "torch._dynamo"  # as torch_users.py says
ARTICLE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from cellspan.maggy import experiment
from cellspan.maggy.experiment_config import TorchDistributedConfig

torch.manual_seed(1)
coord = torch.rand((10000,2)) * 10 - 5
z = torch.sin(coord[:,1]) + torch.cos(coord[:,0])
train_set = torch.utils.data.TensorDataset(coord[:8000,:], z[:8000])
test_set = torch.utils.data.TensorDataset(coord[8000:,:], z[8000:])

class Approximator(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = torch.nn.Linear(2,100)
        self.l2 = torch.nn.Linear(100,100)
        self.l3 = torch.nn.Linear(100,1)

    def forward(self, x):
        x = F.relu(self.l1(x))
        x = F.relu(self.l2(x))
        return self.l3(x)

def train(module, hparams, train_set, test_set):
    import torch
    model = module()
    n_epochs = EPOCHS
    batch_size = 64
    lr = 1e-5
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    loss_criterion = torch.nn.MSELoss()
    train_loader = torch.utils.data.DataLoader(train_set, batch_size=batch_size)
    test_loader = torch.utils.data.DataLoader(test_set, batch_size=batch_size)
    def eval_model():
        loss = 0
        model.eval()
        for coord, z in test_loader:
            prediction = model(coord).detach()
            loss += loss_criterion(prediction, z)
        return loss

    for epoch in range(n_epochs):
        model.train()
        for coord, z in train_loader:
            optimizer.zero_grad()
            prediction = model(coord)
            loss = loss_criterion(prediction, z)
            loss.backward()
            optimizer.step()
    return eval_model()
""".replace("EPOCHS", "1")

# 96 samples, so that 2 ranks with batches of 8 see what one process sees with batches of 16. The module has a parameter whose
# length is no multiple of the number of ranks.
SETUP = """
import torch, cellspan
from torch.utils.data import DataLoader, TensorDataset
from cellspan.maggy import experiment
from cellspan.maggy.config import TorchDistributedConfig

torch.manual_seed(3)
x = torch.randn(96, 3)
data = TensorDataset(x, (x ** 2).sum(1, keepdim=True))

class Net(torch.nn.Module):
    def __init__(self, width=7):
        super().__init__()
        self.a = torch.nn.Linear(3, width)
        self.b = torch.nn.Linear(width, 1)

    def forward(self, x):
        return self.b(self.a(x).tanh())

def fit(module, hparams, train_set):
    torch.manual_seed(0)
    model = module(**hparams.get("net", {}))
    make = getattr(torch.optim, hparams.get("optimizer", "Adam"))
    optimizer = make(model.parameters(), hparams.get("lr", 0.01))
    loader = DataLoader(train_set, batch_size=hparams.get("batch", 8))
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    with torch.no_grad():
        weights = {name: float(value.abs().sum()) for name, value in model.state_dict().items()}
        return {**weights, "loss": (model(x) - y).pow(2).mean()}

def near(a, b, far=1e-4):
    return all(abs(a[key] - b[key]) <= far * abs(b[key]) for key in b if key != "loss")

def lagom(train_fn, module=Net, n=2, reuse=True, **config):
    config.setdefault("train_set", data)
    return experiment.lagom(train_fn, TorchDistributedConfig(module, **config), n=n, reuse=reuse)
"""


@pytest.fixture
def maggy(nb):
    nb.ok(SETUP)
    return nb


def told(nb, code, ename):
    return nb.run(code).assert_error(ename).reply["evalue"]


def test_the_articles_code_runs_as_printed(nb):
    nb.ok(ARTICLE)
    cell = nb.ok("config = TorchDistributedConfig(module=Approximator, train_set = train_set, test_set=test_set)\n"
                 "result = experiment.lagom(train, config)  # Starts the training loop")
    assert "Final average test loss: " in cell.stdout and "Finished experiment. Total run time: 0 hours, 0 minutes" in cell.stdout
    mean, ranks = values(nb.ok("result['test result'], result['results']"))
    assert mean == sum(ranks) / len(ranks) and f"loss: {mean:.3f}\n" in cell.stdout
    nb.ok("from cellspan.maggy.experiment import experiment as module\nfrom cellspan.maggy.experiment import lagom\n"
          "assert module.lagom is lagom is experiment.lagom is experiment.experiment.lagom")


@pytest.mark.limit(400)
def test_each_kind_equals_one_process_with_the_same_global_batch(maggy):
    maggy.ok("one = fit(Net, {'batch': 16}, data)\nresult = lagom(fit, reuse=False)\nranks = result['results']")
    assert maggy.ok("near(result['test result'], one), ranks[0]['a.weight'] == ranks[1]['a.weight']").value == "(True, True)"
    maggy.ok("kinds = {level: lagom(fit, zero_lvl=level)['test result'] for level in (1, 2, 3)}", limit=180)
    assert maggy.ok("[near(found, one) for found in kinds.values()]").value == "[True, True, True]"
    maggy.ok("half = {level: lagom(fit, zero_lvl=level, mixed_precision=True)['test result'] for level in (0, 3)}", limit=180)
    assert maggy.ok("[(near(found, one, 0.05), near(found, one, 1e-6)) for found in half.values()]").value == "[(True, False), (True, False)]"
    maggy.ok("sgd = fit(Net, {'batch': 16, 'optimizer': 'SGD'}, data)")
    assert maggy.ok("near(lagom(fit, hparams={'optimizer': 'SGD'}, zero_lvl=1)['test result'], sgd)").value == "True"
    assert maggy.ok("near(lagom(fit, n=3, hparams={'batch': 16}, zero_lvl=3)['test result'], fit(Net, {'batch': 48}, data))").value == "True"


def test_what_trains_is_distributed(maggy):
    cell = maggy.ok("""
def kinds(module, train_set):
    from torch.optim import AdamW
    model = module()
    loader = DataLoader(train_set, batch_size=8)
    optimizer = AdamW(model.parameters(), lr=1e-3)
    share = sum(p.numel() for group in optimizer.optim.param_groups for p in group["params"]) if hasattr(optimizer, "optim") else 0
    weight = model.a.weight
    print(type(optimizer).__name__, isinstance(model, Net), len(loader), type(weight.data).__name__)
    return {"share": share, "local": weight.to_local().numel() if hasattr(weight, "to_local") else weight.numel()}
for level in 0, 1, 2:
    found = lagom(kinds, zero_lvl=level)["results"]
    print("=", [r["share"] for r in found], [r["local"] for r in found])
""", limit=120)
    printed = {rank: [line for line in lines if line.endswith("Tensor")] for rank, lines in by_rank(cell.stdout).items()}
    assert printed == {rank: ["AdamW True 6 Tensor", "ZeroAdamW True 6 Tensor", "AdamW True 6 DTensor"] for rank in range(2)}, cell.stdout
    first, second, third = [line for line in cell.stdout.splitlines() if line.startswith("=")]
    share = [int(word.strip("[],")) for word in second.split()[1:3]]
    assert sum(share) == 36 and min(share) > 0 and second.endswith("[21, 21]")
    assert (first, third) == ("= [0, 0] [21, 21]", "= [0, 0] [12, 9]")


def test_loaders_divide_the_samples(maggy):
    maggy.ok("""
import torch.utils.data as tud
numbers = TensorDataset(torch.arange(10.0))
class Mine(DataLoader):
    pass
def drawn(module, dataset):
    rank = cellspan.rank()
    def read(loader):
        mine = [b.tolist() for (b,) in loader]
        everyone = [None] * 2
        torch.distributed.all_gather_object(everyone, mine)
        return everyone
    ordered = read(DataLoader(dataset, 2))
    assert ordered == [[[0.0, 2.0], [4.0, 6.0], [8.0]], [[1.0, 3.0], [5.0, 7.0], [9.0]]], ordered
    shuffled = Mine(dataset, batch_size=5, shuffle=True)
    first, second = read(shuffled), read(shuffled)
    for epoch in first, second:
        assert sorted(sum(epoch[0] + epoch[1], [])) == list(range(10)), epoch
    assert first != second
    picked = DataLoader(dataset, 1, sampler=tud.SubsetRandomSampler([1, 2, 3]))
    one, other = read(picked)
    assert len(one) == len(other) == len(picked) == 2 and {v for b in one + other for v in b} == {1.0, 2.0, 3.0}
    batches = tud.BatchSampler(tud.RandomSampler(dataset), 3, False)
    found = read(DataLoader(dataset, batch_sampler=batches))
    assert sorted(sum(found[0] + found[1], [])) == list(range(10)) and len(found[0]) == len(found[1]) == 2
    theirs = tud.DistributedSampler(dataset, shuffle=False)
    assert read(DataLoader(dataset, 2, sampler=theirs)) == ordered
    workers = DataLoader(dataset, batch_size=2, num_workers=1, drop_last=True)
    assert read(workers) == [[[0.0, 2.0], [4.0, 6.0]], [[1.0, 3.0], [5.0, 7.0]]]
    odd = read(DataLoader(TensorDataset(torch.arange(3.0)), 1))
    assert odd == [[[0.0], [2.0]], [[1.0], [0.0]]], odd
    return 1
""")
    assert maggy.ok("lagom(drawn, train_set=None, dataset=numbers)['test result']", limit=120).value == "1.0"


def test_loaders_that_can_not_be_divided(maggy):
    maggy.ok("outside = DataLoader(data)\n"
             "class Stream(torch.utils.data.IterableDataset):\n    def __iter__(self): return iter(range(4))\n"
             "def uses(module): return next(iter(outside))\n"
             "def streams(module): return DataLoader(Stream())\n"
             "def drops(module): return DataLoader(data, 64, drop_last=True)\n"
             "def small(module): return DataLoader(TensorDataset(x[:1]))\n"
             "def never(module, train_set): print('trained')")
    assert "made outside of the training function" in told(maggy, "lagom(uses)", "RuntimeError")
    assert "Stream is an IterableDataset" in told(maggy, "lagom(streams)", "TypeError")
    assert "a rank has 48 samples, and batch_size, which is that of one rank, is 64" in told(maggy, "lagom(drops)", "ValueError")
    assert "the DataLoader's dataset has 1 sample for 2 ranks" in told(maggy, "lagom(small)", "ValueError")
    cell = maggy.run("lagom(never, train_set=TensorDataset(x[:1]))").assert_error("ValueError")
    assert "train_set has 1 sample for 2 ranks, and each needs at least one: run it with n=1" in cell.reply["evalue"]
    assert "trained" not in cell.stdout
    assert "dataset[1] has 0 samples" in told(maggy, "def both(module, dataset): return 1\nlagom(both, train_set=None, dataset=[data, TensorDataset(x[:0])])", "ValueError")
    for fine in ("[(x[0], 1)]", "{'x': x}", "'/a/path'", "[data, '/a/path']"):
        assert maggy.ok(f"lagom(both, n=3, train_set=None, dataset={fine})['test result']").value == "1.0"


def test_code_that_changes_the_module(maggy):
    """A list of modules, methods beside forward(), layers that are frozen or replaced, copies, evaluation without gradients."""
    maggy.ok("""
import copy
class Auto(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.norm, self.dec = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3)
        self.register_buffer("mask", torch.ones(4, dtype=torch.bool))
        self.dim = 64
    def encode(self, x):
        return self.norm(self.enc(x)) * self.mask
    def decode(self, z):
        return self.dec(z)
    def forward(self, x):
        return self.decode(self.encode(x))

def same(model):
    found = [None] * 2
    torch.distributed.all_gather_object(found, {k: v.tolist() for k, v in model.state_dict().items()})
    return found[0] == found[1]

def changes(module, train_set):
    one, two = [make() for make in module]
    assert one.dim == 64 and list(one.state_dict()) == list(Auto().state_dict()) and one.module is one
    torch.manual_seed(cellspan.rank())
    for p in one.enc.parameters():
        p.requires_grad = False
    one.dec = torch.nn.Linear(4, 3)  # the ranks' differ until it is first used
    optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], 0.1)
    def step(loss):
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    def train():
        for x, y in DataLoader(train_set, 8):
            z = one.encode(x)
            step((one.decode(z) - x).pow(2).mean() + (two(x) + two(x + 1) - y).pow(2).mean())
    frozen = one.enc.weight.clone()
    train()
    assert torch.equal(frozen, one.enc.weight)
    for p in one.enc.parameters():
        p.requires_grad = True
    train()
    assert not torch.equal(frozen, one.enc.weight)
    step(one(x[:4]).mean())
    one.eval(), two.eval()
    assert same(one) and same(two) and not one.training
    if cellspan.rank() == 0:
        with torch.no_grad():
            one(x); two(x)  # nobody else does: no rank may wait
    twin = copy.deepcopy(one)
    assert type(twin) is Auto and torch.equal(twin(x), one(x))
    return 1
""")
    cell = maggy.ok("lagom(changes, [Auto, lambda: Net(5)])['test result']", limit=120)
    assert cell.value == "1.0" and cell.stderr.startswith("cellspan: the notebook has no other machines") and cell.stderr.count("\n") == 1, cell.shown
    maggy.ok("def part(module):\n    net = module()\n    for _ in range(3):\n        net.enc(x).sum().backward() if False else net.encode(x).sum().backward()\n"
             "    return float(net.dec.weight.grad is not None)")
    assert "set find_unused_parameters=True in TorchDistributedConfig" in told(maggy, "lagom(part, Auto)", "RuntimeError")
    assert maggy.ok("lagom(part, Auto, find_unused_parameters=True)['test result']", limit=120).value == "0.0"


def test_two_modules_against_each_other(maggy):
    maggy.ok("""
class Made(Net):
    def __init__(self):
        super().__init__()
        self.b = torch.nn.Linear(7, 3)

def gan(module, hparams, train_set):
    torch.manual_seed(0)
    makes, judges = [one() for one in module]
    first, second = torch.optim.Adam(makes.parameters(), 0.01), torch.optim.Adam(judges.parameters(), 0.01)
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    for x, _ in DataLoader(train_set, hparams["batch"]):
        second.zero_grad()
        real, made = judges(x), judges(makes(x.flip(1)).detach())
        (loss(real, torch.ones_like(real)) + loss(made, torch.zeros_like(made))).backward()
        second.step()
        for p in judges.parameters():
            p.requires_grad_(False)
        first.zero_grad()
        made = judges(makes(x.flip(1)))
        loss(made, torch.ones_like(made)).backward()
        first.step()
        for p in judges.parameters():
            p.requires_grad_(True)
    return {name + str(n): value.abs().sum() for n, one in enumerate((makes, judges)) for name, value in one.state_dict().items()}

one = {name: float(value) for name, value in gan([Made, Net], {"batch": 16}, data).items()}
found = [lagom(gan, [Made, Net], hparams={"batch": 8}, zero_lvl=level)["test result"] for level in (0, 1, 3)]
""", limit=120)
    assert maggy.ok("len(one), [near(each, one) for each in found]").value == "(8, [True, True, True])"


@pytest.mark.limit(400)
def test_other_code_for_one_process(maggy):
    """Groups of parameters, schedulers, optimizers with state that is saved, tied weights, attention, buffers of any kind, two
    forwards before a backward, gradients that are added up, a class derived from module."""
    maggy.ok("""
tokens = torch.randint(0, 20, (8, 5))
class Text(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.head = torch.nn.Embedding(20, 16), torch.nn.Linear(16, 20, bias=False)
        self.head.weight = self.emb.weight
        self.enc = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.register_buffer("freqs", torch.ones(2, dtype=torch.complex64) * 1j)
        self.register_buffer("none", torch.ones(0))
    def forward(self, t):
        return self.head(self.enc(self.emb(t)))

def reads(module, hparams):
    class Twice(module):
        def forward(self, t): return super().forward(t) * 2
    model = Twice()
    rest = [p for name, p in model.named_parameters() if name != "emb.weight"]
    optimizer = torch.optim.SGD([{"params": [model.emb.weight], "lr": 0.02}, {"params": rest}], 0.1, 0.9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 ** step)
    for step in range(2):
        for part in 0, 1:
            mine = tokens[part::2] if hparams.get("one") else tokens[part + 2 * cellspan.rank()::4]
            a, b = model(mine), model(mine + 0)
            (torch.nn.functional.cross_entropy((a + b).flatten(0, 1), mine.flatten()) / 2).backward()
        optimizer.step(); optimizer.zero_grad(); scheduler.step()
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    model.eval()
    with torch.no_grad():
        return {"out": model(tokens).pow(2).mean(), "rate": optimizer.param_groups[0]["lr"], "momenta": len(state["state"])}
torch.manual_seed(0)
one = reads(Text, {"one": True})["out"].item()
found = [lagom(reads, Text, zero_lvl=level, train_set=None)["results"] for level in (0, 1, 2, 3)]
""", limit=240)
    assert maggy.ok("[rank['out'] for ranks in found for rank in ranks if abs(rank['out'] - one) > 1e-4 * one], one > 0").value == "([], True)"
    assert maggy.ok("{(rank['rate'], rank['momenta']) for ranks in found for rank in ranks}").value == "{(0.005, 13)}"


def test_a_model_is_saved_on_rank_0_and_loaded_at_home(maggy, tmp_path):
    maggy.ok("""
class Blocks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(1200, 1200), torch.nn.Linear(1200, 1200)])
        self.tail = torch.nn.Linear(1200, 1)
    def score(self, x):
        return self(x).mean()
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return self.tail(x)
inputs = torch.randn(4, 1200)
def saves(module, hparams):
    model = module()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    model.score(inputs).backward()
    optimizer.step()
    values = model.state_dict()
    if cellspan.rank() == 0:
        torch.save(values, hparams["path"])
    model.load_state_dict({name: value * 2 for name, value in values.items()})
    torch.distributed.barrier()
    model.load_state_dict(torch.load(hparams["path"]))
    model.eval()
    with torch.no_grad():
        return model.score(inputs)
""")
    for level in (0, 2, 3):
        path = str(tmp_path / f"model{level}.pt")
        maggy.ok(f"found = lagom(saves, Blocks, hparams={{'path': {path!r}}}, zero_lvl={level})['results']\n"
                 f"home = Blocks(); home.load_state_dict(torch.load({path!r}))\n"
                 "with torch.no_grad(): want = float(home.score(inputs))\n"
                 "assert all(abs(one - want) < 1e-5 for one in found), (found, want)", limit=120)


def test_ranks_are_as_before_afterwards(maggy):
    maggy.ok("%%distribute -n 2\nimport torch, random, numpy\nfrom torch.utils.data import DataLoader\n"
             "def state():\n    return (torch.optim.Adam.__init__, DataLoader.__init__, DataLoader.__iter__, str(torch.get_rng_state().tolist()),\n"
             "            random.getstate(), str(numpy.random.get_state()), torch.backends.cudnn.deterministic, torch.distributed.is_initialized())\n"
             "before = state()")
    maggy.ok("def fails(module, train_set):\n    torch.randn(2); DataLoader(train_set); torch.optim.Adam(module().parameters()); 1 / 0\n"
             "lagom(fit, zero_lvl=1, mixed_precision=True)\n"
             "try: lagom(fails, zero_lvl=1)\nexcept ZeroDivisionError as error: print(error)", limit=120)
    assert maggy.ok("%%distribute -n 2 --gather\nstate() == before, type(torch.optim.Adam([torch.ones(1)])) is torch.optim.Adam").value == "[(True, True), (True, True)]"


def test_the_reporter(maggy):
    cell = maggy.ok("""
from cellspan.maggy.core.exceptions import *
def reports(module, reporter):
    reporter.broadcast(0.5)
    reporter.broadcast(torch.tensor(0.25), 4)
    for error, call in ((BroadcastMetricTypeError, ("x",)), (BroadcastStepTypeError, (1, "y")), (BroadcastStepValueError, (1, 3))):
        try: reporter.broadcast(*call)
        except (TypeError, ValueError) as raised: assert type(raised) is error, raised
        else: raise AssertionError(call)
    reporter.broadcast(1)
    reporter.log("in the notebook", jupyter=True)
    reporter.log("with the time")
    return cellspan.rank()
result = lagom(reports)
""")
    assert "[0] 0: in the notebook" in cell.stdout and "[1] 1: in the notebook" in cell.stdout and "(1/0): with the time" in cell.stderr
    assert maggy.ok("result").value == "{'test result': 0.5,\n 'results': [0, 1],\n 'broadcast': [[(0, 0.5), (4, 0.25), (5, 1)], [(0, 0.5), (4, 0.25), (5, 1)]]}"


@pytest.mark.parametrize("value, want", [
    ("0", "0.0"), ("cellspan.rank()", "0.5"), ("torch.tensor([2.0], requires_grad=True) * 2", "4.0"), ("x[0, 0].numpy() * 0", "0.0"),
    ("{'a': 1, 'b': torch.tensor(cellspan.rank())}", "{'a': 1.0, 'b': 0.5}"),
])
def test_values(maggy, value, want):
    assert maggy.ok(f"def gives(module): return {value}\nlagom(gives)['test result']").value == want


@pytest.mark.parametrize("value, told_of", [
    ("None", "Training function cannot return value of type: NoneType (gives()). Return a number"),
    ("'text'", "type: str"), ("[1]", "type: list"), ("{}", "empty dict"), ("{'a': 'b'}", "the metric 'a'"),
    ("module()", "keep the model by torch.save(model.module.state_dict(), path) on rank 0"),
    ("torch.ones(3)", "It has 3 elements: return value.mean()"),
])
def test_values_that_are_no_result(maggy, value, told_of):
    assert told_of in told(maggy, f"def gives(module): return {value}\nlagom(gives)",
                           "MetricTypeError" if "'b'" in value else "ReturnTypeError")
    assert maggy.ok("try: lagom(gives)\nexcept TypeError as error: print('a', 'TypeError')").stdout.endswith("a TypeError\n")


def test_both_forms_of_datasets(maggy):
    maggy.ok("def old(module, hparams, train_set, test_set): return len(train_set) + len(test_set) * 100 + hparams.get('more', 0)\n"
             "def new(module, dataset, **more): return old(module, more['hparams'], *dataset)\n"
             "class Called:\n    def __call__(self, module, *, dataset=None): return 5 if dataset is None else 6\n"
             "two = TensorDataset(x[:2])")
    for config in ("train_set=data, test_set=two", "dataset=[data, two]", "dataset=(data, two), hparams={'more': 0}"):
        for function in ("old", "new"):
            assert maggy.ok(f"experiment.lagom({function}, TorchDistributedConfig(Net, {config}), n=2, reuse=True)['test result']").value == "296.0"
    assert maggy.ok("experiment.lagom(train_fn=Called(), config=TorchDistributedConfig(Net, None, {}, 'torch', False, 0, None, 'name', 1, ''), n=2, reuse=True)['test result']").value == "5.0"


@pytest.mark.parametrize("code, ename, told_of", [
    ("TorchDistributedConfig(Net())", "TypeError", "Passed module should be a class or a factory callable: this is an instance of Net; pass module=Net"),
    ("TorchDistributedConfig([Net, 3])", "TypeError", "should be a class or a factory callable, not 3"),
    ("TorchDistributedConfig([])", "TypeError", "empty list"),
    ("TorchDistributedConfig(dict)", "TypeError", "dict is no torch.nn.Module"),
    ("TorchDistributedConfig(Net, [data], train_set=data)", "TypeError", "not both"),
    ("TorchDistributedConfig(Net, backend='ddp')", "ValueError", "Backend ddp is not supported; backends are 'torch' and 'deepspeed'"),
    ("TorchDistributedConfig(Net, zero_lvl=4)", "ValueError", "zero_lvl has to be in [0,1,2,3], is 4"),
    ("TorchDistributedConfig(Net, backend='deepspeed')", "ValueError", "requires a deepspeed_config"),
    ("TorchDistributedConfig(Net, backend='deepspeed', deepspeed_config={'optimizer': {'type': 'SGD'}})", "ValueError", "has to be 'Adam', is 'SGD'"),
    ("lagom(fit, backend='deepspeed', deepspeed_config={'optimizer': {'type': 'Adam'}})", "ValueError", "leave out reuse=True"),
    ("experiment.lagom(fit, {})", "TypeError", "Invalid config type! LagomConfig is expected to be of type"),
    ("experiment.lagom(fit, TorchDistributedConfig)", "TypeError", "TorchDistributedConfig is a class; make a configuration"),
    ("c = TorchDistributedConfig(Net); c.zero_lvl = 9; experiment.lagom(fit, c)", "ValueError", "is 9"),
    ("def f(module, batch_size): 0\nlagom(f)", "TypeError", "f() needs 'batch_size', which lagom() does not have"),
    ("def f(train_set): 0\nlagom(f)", "TypeError", "f() does not take 'module': each rank would train a module of its own"),
    ("lagom('train.py')", "TypeError", "needs a training function, not str"),
    ("import threading\nlagom(fit, hparams={'lock': threading.Lock()})", "TypeError", "argument hparams= can't be sent to the ranks"),
    ("lagom(fit, lambda **_: 3)", "TypeError", "module() has to make a torch.nn.Module, and it made int"),
    ("def f(module): return torch.optim.LBFGS(module().parameters())\nlagom(f, zero_lvl=1)", "ValueError", "use zero_lvl=0"),
    ("from cellspan.maggy.config import HyperparameterOptConfig as H\nH(num_trials=4)", "NotImplementedError", "HyperparameterOptConfig does not work here: use a library such as Optuna"),
    ("from cellspan.maggy.experiment_config import AblationConfig as A\nA(None)", "NotImplementedError", "AblationConfig does not"),
    ("from cellspan.maggy.config import TfDistributedConfig as T\nT()", "NotImplementedError", "cellspan.tensorflow.MirroredStrategyRunner"),
    ("from cellspan.maggy.callbacks import KerasBatchEnd as K, KerasEpochEnd\nK(None, metric='acc')", "NotImplementedError", "call reporter.broadcast("),
    ("from cellspan.maggy import Searchspace\nSearchspace(lr=('DOUBLE', [0, 1]))", "NotImplementedError", "Searchspace does not"),
])
def test_mistakes(maggy, code, ename, told_of):
    assert told_of in told(maggy, code, ename)


def test_a_package_that_is_missing(maggy):
    needs("torch")
    if maggy.ok("import importlib.util\nimportlib.util.find_spec('deepspeed') is None").value != "True":
        pytest.skip("deepspeed is installed")
    text = told(maggy, "lagom(fit, backend='deepspeed', deepspeed_config={'optimizer': {'type': 'Adam'}}, reuse=False)", "ImportError")
    assert "-m pip install deepspeed" in text


def test_one_run_at_a_time_and_after_a_failure_the_next(maggy):
    maggy.ok("import threading, time, os\n"
             "def waits(module): torch.distributed.barrier(); print('waits', flush=True); time.sleep(600)\n"
             "def dies(module):\n    if cellspan.rank() == 1: os._exit(3)\n    torch.distributed.barrier()")
    cell = maggy.start("lagom(waits, reuse=False)")
    maggy.wait_ranks(cell, "waits", 2)
    maggy.control("interrupt_request")
    assert maggy.wait(cell).ename == "KeyboardInterrupt"
    assert "rank 1" in told(maggy, "lagom(dies, reuse=False)", "RankDied")
    cell = maggy.ok("def other():\n    global said\n    try: lagom(fit)\n    except RuntimeError as error: said = str(error)\n"
                    "from cellspan.maggy.experiment.experiment import _running\n"
                    "with _running:\n    thread = threading.Thread(target=other); thread.start(); thread.join()\nprint(said)")
    assert cell.stdout == "An experiment is currently running.\n"
    assert maggy.ok("lagom(fit)['results'].__len__()", limit=120).value == "2"
