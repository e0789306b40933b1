# SPDX-License-Identifier: BSD-3-Clause
"""Which part of a bundle could not be loaded."""

from __future__ import annotations

import collections

import pytest
from cellspan._capture import unloaded, vars_bundle


class Half:
    def __reduce__(self):
        return int, ("x",)


class Slots:
    __slots__ = ("own",)


def slots():
    made = Slots()
    made.own = Half()
    return made


def attribute():
    made = type("Net", (), {})()
    made.parts = {"log": [0, Half()]}
    return made


VALUES = {
    "[3]": [0, "a", {}, Half()],
    "['a'][1]": {"b": 1, "a": (1, Half(), 2)},
    ".parts['log'][1]": attribute(),
    ".own": slots(),
    "['k']": collections.OrderedDict(j=1, k=Half()),
    "[2000]": [*range(2000), Half(), *range(10)],
    "": {Half()},
    "['x'][0]": {"w": (shared := [1, 2]), "v": shared, "x": [Half(), shared]},
}


@pytest.mark.parametrize("path", VALUES)
def test_the_part_is_found(path):
    for values, found in (({"n": 1, "v": VALUES[path], "w": [1]}, "v" + path), ((1, VALUES[path]), "[1]" + path)):
        with pytest.raises(vars_bundle.LoadError) as caught:
            vars_bundle.unpack_bytes(vars_bundle.pack_bytes(values))
        assert str(caught.value) == f"{found} can't be loaded here: ValueError: invalid literal for int() with base 10: 'x'"


def test_a_long_pickle_is_not_searched(monkeypatch):
    monkeypatch.setattr(unloaded, "SEARCHED_MAX", 100)
    with pytest.raises(vars_bundle.LoadError, match="^a value can't be loaded here: ValueError"):
        vars_bundle.unpack_bytes(vars_bundle.pack_bytes({"a": "x" * 100, "v": Half()}))


def test_parts_of_a_call_are_named():
    for call, name in ((((abs, (1, [Half()]), {})), "[0] of argument 1"), ((abs, (), {"key": Half()}), "argument key")):
        with pytest.raises(vars_bundle.LoadError) as caught:
            vars_bundle.unpack_bytes(vars_bundle.pack_bytes(call))
        assert unloaded.of_call(caught.value).startswith(name + " can't be loaded here: ")
