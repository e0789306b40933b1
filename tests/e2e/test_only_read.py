# SPDX-License-Identifier: BSD-3-Clause
"""What ranks only read is not changed by them, also where reading fills a cache, or where a pickle of the same value differs. A real change
beside the cache is one."""

from __future__ import annotations

import ast

import pytest
from packages import needs

MAKES = """
import collections.abc, enum, functools, networkx, numpy, pandas, pathlib, scipy.sparse, torch, warnings
warnings.simplefilter("ignore")
class Tagged(torch.Tensor):
    pass
def table():
    return pandas.DataFrame({"a": [1, 1, 2], "b": [1.0, 2.0, 3.0]})
csr = scipy.sparse.csr_array([[1.0, 0.0], [2.0, 3.0]])
coo = scipy.sparse.coo_array(([1.0, 2.0], ([0, 1], [1, 0])))
groups = table().groupby("a")
rolling = table().b.rolling(2)
masked = pandas.array([1, None, 3], dtype="Int64")
graph = networkx.path_graph(3)
conj = torch.tensor([1 + 1j]).conj()
whole = torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 0.5, 0, torch.qint8)
bsr = scipy.sparse.bsr_array(numpy.eye(4))
keys = pandas.DataFrame({"a": [1, 1, 2], "c": list("xyz"), "b": [1.0, 2.0, 3.0]}).groupby(["a", "c"])
days = pandas.Series([1.0, 2.0], index=pandas.date_range("2024", periods=2)).resample("D")
multi = networkx.MultiDiGraph([(1, 2)])
negative = torch._neg_view(torch.ones(2))
channels = torch.quantize_per_channel(torch.ones(2, 2), torch.tensor([0.5, 0.25]), torch.tensor([0, 0]), 0, torch.quint8)
tagged = torch.zeros(2).as_subclass(Tagged)
tagged.note = ["new"]
plus = numpy.vectorize(lambda x: x + 1, otypes=[float])
plus([1])
@functools.singledispatch
def area(x):
    return 0
@area.register
def _(x: int):
    return 1
@area.register
def _(x: collections.abc.Sized):
    return 2
class Folder(pathlib.PosixPath, enum.Enum):
    A = "/a"
    B = "/b"
class Either(enum.Enum):
    A = 1
    @classmethod
    def _missing_(cls, value):
        cls._value2member_map_[value] = cls.A
        return cls.A
cat = torch.distributions.Categorical(probs=torch.tensor([0.5, 0.5]))
normal = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
"""
# name: (how ranks read it, how home changes it, how a rank does, what a rank reads then, and what that is after home's change)
VALUES = {
    "csr": ("csr.sum(), csr.has_sorted_indices", "csr.data[0] += 4", "csr.data[1] += 1", "float(csr.sum())", 10),
    "coo": ("coo.sum()", "coo.data[0] += 4", "coo.data[1] += 1", "float(coo.sum())", 7),
    "groups": ("groups.b.sum(), groups.mean(), list(groups), groups.ngroups", "groups.obj.loc[0, 'b'] = 5.0", "groups.obj.loc[0, 'b'] = 6.0",
               "groups.b.sum().tolist()", [7, 3]),
    "rolling": ("rolling.sum()", "rolling.window = 3", "rolling.window = 1", "rolling.window", 3),
    "masked": ("masked.sum(), masked.isna()", "masked[0] = 5", "masked[0] = 6", "int(masked.sum())", 8),
    "graph": ("graph.nodes, graph.edges, graph.degree, graph.adj", "graph.add_edge(7, 8)", "graph.add_edge(8, 9)", "len(graph.nodes)", 5),
    "conj": ("conj.sum()", "conj[0] = 2 - 3j", "conj[0] = 5j", "(conj[0].item().imag, conj.is_conj())", (-3, True)),
    "whole": ("whole.dequantize()", "whole[0] = 1.5", "whole[0] = 0.5", "whole.dequantize().tolist()", [1.5, 2]),
    "bsr": ("bsr.sum(), bsr.tocsr()", "bsr.data[0] += 1", "bsr.data[0] += 2", "float(bsr.sum())", 5),
    "keys": ("keys.sum(), list(keys), keys.ngroups, keys.groups, keys.indices, keys.get_group((1, 'x'))", "keys.obj.loc[0, 'b'] = 5.0",
             "keys.obj.loc[0, 'b'] = 6.0", "keys.sum().b.tolist()", [5, 2, 3]),
    "days": ("days.sum(), days.groups, list(days)", "days.obj.iloc[0] = 5.0", "days.obj.iloc[0] = 6.0", "days.sum().tolist()", [5, 2]),
    "multi": ("multi.nodes, multi.edges, multi.adj, multi.degree, multi.in_edges, multi.pred", "multi.add_edge(1, 2)", "multi.add_edge(2, 1)",
              "len(multi.edges)", 2),
    "negative": ("negative.sum(), str(negative)", "negative[0] = 4", "negative[0] = 5", "(negative[0].item(), negative.is_neg())", (4, True)),
    "channels": ("channels.dequantize()", "channels[0, 0] = 1.5", "channels[0, 0] = 0.5", "channels.dequantize().tolist()", [[1.5, 1], [1, 1]]),
    "tagged": ("tagged.sum()", "tagged.note.append(1)", "tagged.note.append(2)", "(tagged.note, type(tagged).__name__)", (["new", 1], "Tagged")),
    "area": ("area(3), area([1]), area(3.0)", "area.mark = 1", "area.mark = 2", "(area.mark, area(5), area({}))", (1, 1, 2)),
    "Folder": ("str(pathlib.Path(Folder.A)), Folder.A.parts, hash(Folder.B), Folder.A < Folder.B", "Folder.mark = 1", "Folder.mark = 2",
               "(Folder.mark, str(pathlib.Path(Folder.B)), hash(Folder.A) == hash(pathlib.Path('/a')))", (1, "/b", True)),
    "Either": ("Either(7)", "Either.A.mark = 1", "Either.A.mark = 2", "Either(8).mark", 1),
    "cat": ("cat.log_prob(torch.tensor(1)), cat.entropy()", "cat.probs[0] = 0.25", "cat.probs[0] = 0.75", "cat.probs.tolist()", [0.25, 0.5]),
    "normal": ("normal.precision_matrix, normal.covariance_matrix", "normal.loc[0] = 4", "normal.loc[0] = 5", "normal.mean.tolist()", [4, 0]),
    "plus": ("plus([1, 2])", "plus.otypes = 'i'", "plus.otypes = 'f'", "plus([1]).dtype.kind", "i"),
}


@pytest.mark.limit(400)
def test_reading_is_no_change_and_a_change_beside_a_cache_is_one(nb):
    needs("torch")
    nb.ok("%ranks stop")
    nb.ok(MAKES, limit=120)
    reads, at_home, there, shown, wanted = zip(*VALUES.values())
    assert "tensors.py" not in nb.ok("%%distribute -n 2\n" + "\n".join(reads), limit=120).shown, "a warning of torch that comes from our line"
    nb.ok("\n".join(at_home))
    nb.ok("\n".join(reads))
    seen = nb.ok("%%distribute -n 2 --gather\n[" + ", ".join(map(str, shown)) + "]", limit=60).value
    assert ast.literal_eval(seen) == [list(wanted)] * 2
    nb.ok("%%distribute -n 2 -r 1\n" + "\n".join(reads + there))
    nb.ok("\n".join(reads + there) + "\ngraph.add_edge(9, 10)\nmulti.add_edge(1, 3)\nbsr.data[0] += 1\nFolder.mark = Either.A.mark = 3")
    for name in VALUES:
        told = nb.run("%%%%distribute -n 2\n%s" % name, limit=60).assert_error("VariableConflict").error["evalue"]
        by_rank = " was changed in place at home and by rank" if name not in ("Folder", "Either") else " was changed at home and by this rank"
        assert (name + by_rank) in told, told


def test_what_a_rank_assigns_to_a_cached_property_is_not_lost(nb):
    nb.ok("import functools\nclass Config:\n    device = functools.cached_property(lambda self: 'cpu')\ncfg = Config()")
    nb.ok("%%distribute -n 2\ncfg.device = 'cuda:0'")
    nb.ok("cfg.lr = 0.2")
    nb.run("%%distribute -n 2\ncfg.device").assert_error("VariableConflict")
    assert nb.ok("%%distribute -n 2 --no-capture\ncfg.device").value == "'cuda:0'"


def test_a_cached_property_that_ranks_only_read_is_no_conflict(nb):
    nb.ok("import enum, functools, numpy\nclass Config:\n    lr = 1\n    table = functools.cached_property(lambda self: [self.lr])\n"
          "class Waves(numpy.ndarray):\n    total = functools.cached_property(lambda self: float(self.sum()))\ncfg, waves = [Config()], numpy.ones(3).view(Waves)")
    nb.ok("%%distribute -n 2\ncfg[0].table, waves.total")
    nb.ok("cfg[0].lr, waves[0] = 2, 5")
    assert nb.ok("%%distribute -n 2\ncfg[0].table, waves.total").value == "([2], 7.0)"
    nb.ok("cfg[0].lr = 3")
    nb.ok("%%distribute -n 2\ncfg[0].table.append(1)")
    nb.ok("cfg[0].lr = 4")
    nb.run("%%distribute -n 2\ncfg").assert_error("VariableConflict")


PROXY = "class Proxy:\n    @property\n    def __class__(self):\n        raise RuntimeError('too early')\n"
NO_MARK = {
    "a tensor of inference_mode()": ("import torch\n@torch.inference_mode()\ndef make():\n    return torch.ones(3)\n", "x.sum()", "tensor(3.)"),
    "a proxy": (PROXY + "def make():\n    return Proxy()\n", "type(x).__name__", "'Proxy'"),
    "a class that can't be hashed": ("class Meta(type):\n    def __hash__(self):\n        raise RuntimeError\ndef make():\n    return Meta('Made', (), {})\n", "x.__name__", "'Made'"),
    "an object of a class that can't be compared": ("class Meta(type):\n    __hash__ = type.__hash__\n    def __eq__(self, other):\n        raise RuntimeError\n"
                                                    "class Made(metaclass=Meta):\n    pass\ndef make():\n    return Made()\n", "type(x).__name__", "'Made'"),
}


@pytest.mark.parametrize("what", NO_MARK)
def test_a_cached_property_may_have_any_value(nb, what):
    make, shown, value = NO_MARK[what]
    nb.ok("%%distribute -n 2\n1")
    code = make + "import functools\nclass Of:\n    value = functools.cached_property(lambda self: make())\nx = Of().value\n"
    assert nb.ok(code + shown).value == value
    assert nb.ok("%%distribute -n 2\n" + code + shown).value == value


def test_cached_properties_may_be_as_deep_in_each_other_as_without_cellspan(nb):
    """Python 3.11 and older ones count the calls of C among the 1,000 that may be in each other."""
    nb.ok("%%distribute -n 2\n1")
    code = ("import functools\nclass Node:\n    def __init__(self, next):\n        self.next = next\n    @functools.cached_property\n"
            "    def depth(self):\n        return 1 + self.next.depth if self.next else 1\nnode = None\nfor _ in range(400):\n    node = Node(node)\nnode.depth")
    assert nb.ok(code).value == "400"
    assert nb.ok("%%distribute -n 2\n" + code).value == "400"


def test_an_isinstance_of_ranks_does_not_change_a_protocol(nb):
    nb.ok("import typing\n@typing.runtime_checkable\nclass Runs(typing.Protocol):\n    def run(self): ...\nclass Plain:\n    pass")
    assert nb.ok("%%distribute -n 2\nisinstance(3, Runs), hasattr(Plain, '__annotations__')").value.startswith("(False, ")
    nb.ok("Runs.note = Plain.note = 1")
    assert nb.ok("%%distribute -n 2\nRuns.note + Plain.note").value == "2"
    nb.ok("Runs.__annotations__ = {'n': int}")
    assert nb.ok("%%distribute -n 2\nRuns.__annotations__").value == "{'n': int}"


def test_a_bundle_is_loaded_again_only_once_for_its_classes(nb):
    """Where ranks have changed several."""
    nb.ok("loads = []\nclass Counts:\n    def __setstate__(self, state):\n        loads.append(1)\n" + "".join("class K%d:\n    n = 0\n" % k for k in range(4)))
    nb.ok("several = [K0(), K1(), K2(), K3()]")
    nb.ok("%%distribute -n 2\nfor one in several:\n    type(one).n = 5\nloads = []")
    nb.ok("again = [Counts(), *several]\nagain[0].x = 1")
    assert nb.ok("%%distribute -n 2\n[one.n for one in again[1:]], len(loads)").value == "([5, 5, 5, 5], 2)"


def test_what_is_assigned_to_a_cached_property_of_a_member_is_not_lost(nb):
    nb.ok("import enum, functools\nclass Mode(enum.Enum):\n    A = 1\n    B = 2\n    table = functools.cached_property(lambda self: [self.value])\n"
          "modes = [Mode.A, Mode.B]\nMode.A.table = ['home']")
    assert nb.ok("%%distribute -n 2\nmodes[0].table, modes[1].table").value == "(['home'], [2])"
    nb.ok("Mode.A.table = ['again']")
    assert nb.ok("%%distribute -n 2\nmodes[0].table, modes[1].table").value == "(['again'], [2])"
    nb.ok("%%distribute -n 2\nMode.B.table = ['rank']")
    nb.ok("again = [Mode.B]")
    assert nb.ok("%%distribute -n 2\nagain[0].table, Mode.A.table").value == "(['rank'], ['again'])"
    nb.ok("Mode.A.table = ['last']")
    nb.run("%%distribute -n 2\nMode.B.table").assert_error("VariableConflict")
    nb.ok("%pull Mode -r 0")
    assert nb.ok("Mode.A.table, Mode.B.table").value == "(['again'], ['rank'])"
