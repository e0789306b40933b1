# SPDX-License-Identifier: BSD-3-Clause
"""Accelerate's state for each world, with a module of the test's in its place; tests/frameworks has the real one."""

from __future__ import annotations

import sys
import types

import pytest
from cellspan._worker import accelerate_state


class PartialState:
    _shared_state = {}

    def __init__(self):
        self.__dict__ = self._shared_state


class AcceleratorState(PartialState):
    _shared_state = {}


@pytest.fixture(autouse=True)
def module(monkeypatch):
    monkeypatch.setattr(accelerate_state, "_hidden", {})
    for kind in (PartialState, AcceleratorState):
        kind._shared_state.clear()
    found = types.SimpleNamespace(PartialState=PartialState, AcceleratorState=AcceleratorState)
    monkeypatch.setitem(sys.modules, "accelerate.state", found)
    return found


def test_each_world_has_a_state_of_its_own():
    one = PartialState()
    one.size = 2
    accelerate_state.enter_world("2", "3")
    assert not hasattr(one, "size"), "an object of the other world can't be used"
    PartialState().size = 3
    AcceleratorState().size = 3
    accelerate_state.enter_world("3", "2")
    assert one.size == 2 and not hasattr(AcceleratorState(), "size")
    accelerate_state.enter_world("2", "3")
    assert PartialState().size == 3 and AcceleratorState().size == 3


def test_the_same_world_keeps_its_state():
    PartialState().size = 2
    accelerate_state.enter_world("2", "2")
    assert PartialState().size == 2


def test_a_destroyed_group_takes_the_state_with_it():
    PartialState().size = 2
    accelerate_state.forget()
    assert not hasattr(PartialState(), "size")
    accelerate_state.enter_world("2", "3")
    accelerate_state.enter_world("3", "2")
    assert not hasattr(PartialState(), "size")


@pytest.mark.parametrize("found", [None, types.SimpleNamespace(), types.SimpleNamespace(PartialState=types.SimpleNamespace(_shared_state=5))])
def test_without_accelerate_nothing_happens(monkeypatch, found):
    monkeypatch.setitem(sys.modules, "accelerate.state", found)
    accelerate_state.enter_world("2", "3")
    accelerate_state.forget()
