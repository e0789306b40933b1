# SPDX-License-Identifier: BSD-3-Clause
"""Two processes have imported two versions of one module: what the receiver of a pickle says."""

from __future__ import annotations

import importlib
import os
import sys

import pytest
from cellspan._capture import class_versions, vars_bundle

OLD = "class C:\n    count = 0\n    v = 1\n    def __init__(self):\n        C.count += 1\n    def area(self):\n        return 1\n"
NEW = "# a new line\nclass C:\n    count = 0\n    v = 2\n    def __init__(self):\n        C.count += 1\n    def area(self):\n        return 2\n"
LINE = "q: the class {0}.C is not the same at home and on ranks ({1}): {2} imported an older {0}. importlib.reload({0}) {3} loads it again\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module's text and loads it, again if need be."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(class_versions, "_told", set())

    def load(text, only_write=False):
        (tmp_path / "versioned_kl.py").write_text(text)
        importlib.invalidate_caches()
        if only_write:
            return None
        found = sys.modules.get("versioned_kl")
        return importlib.reload(found) if found else importlib.import_module("versioned_kl")

    yield load
    sys.modules.pop("versioned_kl", None)


def packed(value):
    """As pack(), without a descriptor."""
    fd, size = vars_bundle.pack(value)
    with open(fd, "rb") as file:
        return file.read(size)


def test_home_is_older(module, capsys):
    data = packed({"n": 1, "q": [module(NEW).C()]})
    module(OLD)
    module(NEW, only_write=True)
    for _ in range(2):
        value = vars_bundle.unpack_bytes(data)
    assert value["q"][0].area() == 1
    assert capsys.readouterr().err == "cellspan: " + LINE.format("versioned_kl", "area, v", "the notebook has", "at home")


def test_ranks_are_older(module, capsys):
    data = packed(module(OLD).C())
    module(NEW)
    vars_bundle.unpack_bytes(data, label="q")
    assert capsys.readouterr().err == "cellspan: " + LINE.format("versioned_kl", "area, v", "ranks have", "there")


def test_on_a_rank_the_sides_are_the_other_way_round(module, capsys, monkeypatch):
    monkeypatch.setattr(class_versions, "sides", (class_versions.RANKS, class_versions.HOME))
    data = packed({"q": module(OLD).C()})
    module(NEW)
    vars_bundle.unpack_bytes(data)
    assert capsys.readouterr().err == "cellspan: " + LINE.format("versioned_kl", "area, v", "the notebook has", "at home")


@pytest.mark.parametrize(
    "other",
    [
        "# only a comment\n" + OLD,
        OLD + "C.count = 7\nC.cache = {}\nC.more = 3\n",
        OLD.replace("area", "same").replace("same", "area"),
        "import functools\n" + OLD + "D = functools.lru_cache(len)\n",
    ],
)
def test_what_is_no_other_version(module, other, capsys):
    data = packed({"q": module(OLD).C()})
    module(other)
    vars_bundle.unpack_bytes(data)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("class C:\n    @property\n    def p(self):\n        return 1\n    @p.setter\n    def p(self, x):\n        pass\n", ("return 1", "return 2"), "p"),
        ("class C:\n    @staticmethod\n    def s():\n        return {'a', 'b'}\n    def __hidden(self):\n        return 'x' in {'a', 'b', 'c'}\n", ("'c'", "'d'"), "_C__hidden"),
        ("import dataclasses\n@dataclasses.dataclass\nclass C:\n    size: int = 128\n", ("128", "256"), "size"),
        ("import enum\nclass C(enum.Enum):\n    A = 1\n    B = 'two'\n", ("'two'", "'three'"), "B"),
        ("class Base:\n    def f(self):\n        return 1\nclass C(Base):\n    pass\n", ("return 1", "return 2"), "f"),
        ("class C:\n    def f(self):\n        return 1\n", ("1\n", "1\n    def g(self):\n        pass\n"), "g"),
    ],
)
def test_what_differs_is_named(module, old, new, names, capsys):
    def value(loaded):
        return loaded.C.A if hasattr(loaded.C, "A") else loaded.C()

    data = packed({"q": value(module(old.replace(*new)))})
    module(old)
    module(old.replace(*new), only_write=True)
    vars_bundle.unpack_bytes(data)
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and f"is not the same at home and on ranks ({names}): " in told, told
    if "Base" not in old:  # the file's text of the class tells
        assert "the notebook has imported an older versioned_kl" in told


def test_a_value_that_cannot_be_loaded_because_of_it(module, capsys):
    data = packed(module("import enum\nclass C(enum.Enum):\n    A = 1\n").C.A)
    module("import enum\nclass C(enum.Enum):\n    A = 2\n")
    with pytest.raises(vars_bundle.LoadError, match="1 is not a valid C"):
        vars_bundle.unpack_bytes(data, label="q")
    assert "q: the class versioned_kl.C is not the same at home and on ranks (A): ranks have imported an older" in capsys.readouterr().err


def test_classes_of_packages_and_of_python_are_not_described():
    import pathlib

    assert class_versions.described([dict, pathlib.Path, pytest.Item, vars_bundle.BundleError, type(None)]) == {}


def test_a_value_of_very_many_classes_is_described_in_part(module):
    made = module("".join(f"class C{k}:\n    v = {k}\n" for k in range(100)))
    found = class_versions.described([getattr(made, f"C{k}") for k in range(100)])
    assert len(found["versioned_kl"]) == class_versions.MOST


def test_a_description_is_the_same_in_each_process(module, tmp_path):
    import subprocess

    module(OLD + "    def f(self, x):\n        return x in {'a', 'b', 'c', 'd', 'e', 'f'}, (1, 2.5, None, b'x')\n")
    code = "import versioned_kl, json\nfrom cellspan._capture import class_versions\nprint(json.dumps(class_versions.parts_of(versioned_kl.C), sort_keys=True))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.path.dirname(os.path.dirname(os.path.dirname(vars_bundle.__file__)))])}
    made = {subprocess.run([sys.executable, "-c", code], env={**env, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout for seed in "123"}
    assert len(made) == 1 and '"f": "f' in made.pop()
