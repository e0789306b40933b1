# SPDX-License-Identifier: BSD-3-Clause
"""cellspan._worker.seeds: what a rank's generators begin with. torch is a double that notes what is asked of it."""

from __future__ import annotations

import random
import sys
import types

import pytest

from cellspan._base import imports
from cellspan._worker import seeds


class Generator:
    def __init__(self):
        self.seeds = []

    def seed(self):
        self.seeds.append("the system's")
        return 77

    def manual_seed(self, number):
        self.seeds.append(number)


class Device:
    """torch.cuda. queued: a module has asked for a seed, which waits until a GPU is first used."""

    def __init__(self, queued=False, compiled=True, bad=False):
        self.seeds = []
        self._lazy_seed_tracker = types.SimpleNamespace(call_order=[queued] * queued)
        self._is_compiled, self._is_in_bad_fork = lambda: compiled, lambda: bad

    def manual_seed_all(self, number):
        self.seeds.append(number)

    def is_initialized(self):
        return False


@pytest.fixture
def torch(monkeypatch):
    made = types.SimpleNamespace(default_generator=Generator(), cuda=Device())
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(seeds, "_now", seeds.FRESH)
    monkeypatch.setattr(seeds, "_at_start", None)
    before = random.getstate()
    yield made
    random.setstate(before)


def started(monkeypatch, text, rank=0):
    monkeypatch.setenv("CELLSPAN_SEED", text)
    seeds.begin(rank)
    return random.random()


def test_a_process_is_seeded_from_the_system(monkeypatch, torch):
    assert len({started(monkeypatch, text, rank) for text in ("", "none") for rank in (0, 1)}) == 4
    assert torch.default_generator.seeds == ["the system's"] * 4 and torch.cuda.seeds == []


def test_a_seed_that_waits_for_a_gpu_is_replaced(monkeypatch, torch):
    torch.cuda = Device(queued=True)
    started(monkeypatch, "")
    assert torch.cuda.seeds == [77]


def test_a_seed_is_each_ranks_own_and_for_gpus_too(monkeypatch, torch):
    drawn = [started(monkeypatch, text, rank) for text, rank in (("1", 0), ("1", 1), ("2", 0), ("1", 0), ("01", 0))]
    assert len(set(drawn[:3])) == 3 and drawn[3:] == drawn[:1] * 2
    assert torch.cuda.seeds == torch.default_generator.seeds and len(set(torch.cuda.seeds)) == 3
    assert all(0 <= number < 1 << 53 for number in torch.cuda.seeds)


@pytest.mark.parametrize("device", [Device(compiled=False), Device(bad=True)])
def test_no_device_is_seeded_that_this_process_can_not_use(monkeypatch, torch, device):
    torch.cuda = device
    started(monkeypatch, "1")
    assert device.seeds == [] and len(torch.default_generator.seeds) == 1


def test_the_numbers_of_a_seed_stay_what_they_are():
    """Whoever repeats a run with a later version gets the same."""
    assert seeds.derived(1, "rank 0").torch == 1622827824757308
    assert seeds.derived(1, "item 0") != seeds.derived(1, "rank 0")


def test_items_have_seeds_of_their_own_and_the_generators_go_on(monkeypatch, torch):
    torch.default_generator.get_state = lambda: "as before"
    torch.default_generator.set_state = torch.default_generator.seeds.append
    random.seed(3)
    want = random.Random(3).random()
    with seeds.of_items(None) as begin_item:
        begin_item(0)
    assert torch.default_generator.seeds == []
    drawn = []
    for number in (5, 5, 6):
        with seeds.of_items(number) as begin_item:
            for at in (0, 1):
                begin_item(at)
                drawn.append(random.random())
    assert drawn[:2] == drawn[2:4] and len(set(drawn)) == 4
    assert random.random() == want and torch.default_generator.seeds[-1] == "as before"


def test_several_may_wait_for_the_same_import(monkeypatch, tmp_path):
    (tmp_path / "awaited_one.py").write_text("import builtins\nif not builtins.may_import: raise ValueError\nx = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    came = []
    second = lambda: came.append("second")  # noqa: E731
    imports.when_imported("awaited_one", lambda: came.append("first"), before=lambda: came.append("before"))
    imports.when_imported("awaited_one", second)
    imports.when_imported("awaited_one", second)
    monkeypatch.setattr("builtins.may_import", False, raising=False)
    with pytest.raises(ValueError):
        import awaited_one
    monkeypatch.setattr("builtins.may_import", True)
    import awaited_one  # noqa: F401

    assert came == ["before", "before", "first", "second"]
