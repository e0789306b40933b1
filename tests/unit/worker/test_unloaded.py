# SPDX-License-Identifier: BSD-3-Clause
"""Which part of a bundle could not be loaded."""

from __future__ import annotations

import collections
import shutil
import subprocess
import sys

import pytest
from cellspan._capture import unloaded, vars_bundle


class Half:
    def __reduce__(self):
        return int, ("x",)


class Filled:
    """As a library of ctypes: a function fills the object."""

    def __reduce__(self):
        return int, ("x",), {"a": 1}, None, None, setattr


class Slots:
    __slots__ = ("own",)


def slots():
    made = Slots()
    made.own = Half()
    return made


def attribute_of(value):
    made = type("Net", (), {})()
    made.parts = {"log": value}
    return made


VALUES = {
    "[3]": [0, "a", {}, Half()],
    "['a'][1]": {"b": 1, "a": (1, Half(), 2)},
    ".parts['log'][1]": attribute_of([0, Half()]),
    ".own": slots(),
    "['k']": collections.OrderedDict(j=1, k=Half()),
    "[2000]": [*range(2000), Half(), *range(10)],
    "": {Half()},
    "['b']": {"a": 1, "b": Filled()},
    ".parts['log']": attribute_of(Filled()),
    "['x'][0]": {"w": (shared := [1, 2]), "v": shared, "x": [Half(), shared]},
}


@pytest.mark.parametrize("path", VALUES)
def test_the_part_is_found(path):
    for values, found in (({"n": 1, "v": VALUES[path], "w": [1]}, "v" + path), ((1, VALUES[path]), "[1]" + path)):
        with pytest.raises(vars_bundle.LoadError) as caught:
            vars_bundle.unpack_bytes(vars_bundle.pack_bytes(values))
        assert str(caught.value) == f"{found} can't be loaded here: ValueError: invalid literal for int() with base 10: 'x'"


def test_a_library_of_ctypes_that_is_missing_is_named(tmp_path):
    with open("/proc/self/maps", encoding="utf-8") as file:
        libc = next(line.split()[-1] for line in file if "/libc.so" in line or "/libc-" in line)
    path = tmp_path / "libours.so"
    shutil.copy(libc, path)
    pack = ("import ctypes, sys\nfrom cellspan._capture import vars_bundle\nours = ctypes.CDLL(sys.argv[1])\nours.abs.argtypes = [ctypes.c_int]\n"
            "sys.stdout.buffer.write(vars_bundle.pack_bytes({'n': 1, 'ours': ours}))")
    packed = subprocess.run([sys.executable, "-c", pack, str(path)], capture_output=True, check=True).stdout
    path.unlink()
    with pytest.raises(vars_bundle.LoadError, match="^ours can't be loaded here: OSError: .*libours.so: cannot open shared object file"):
        vars_bundle.unpack_bytes(packed)


def test_a_long_pickle_is_not_searched(monkeypatch):
    monkeypatch.setattr(unloaded, "SEARCHED_MAX", 100)
    with pytest.raises(vars_bundle.LoadError, match="^a value can't be loaded here: ValueError"):
        vars_bundle.unpack_bytes(vars_bundle.pack_bytes({"a": "x" * 100, "v": Half()}))


def test_parts_of_a_call_are_named():
    for call, name in ((((abs, (1, [Half()]), {})), "[0] of argument 1"), ((abs, (), {"key": Half()}), "argument key")):
        with pytest.raises(vars_bundle.LoadError) as caught:
            vars_bundle.unpack_bytes(vars_bundle.pack_bytes(call))
        assert unloaded.of_call(caught.value).startswith(name + " can't be loaded here: ")
