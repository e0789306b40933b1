# SPDX-License-Identifier: BSD-3-Clause
"""Two processes have imported two versions of one module: what the receiver of a pickle says."""

from __future__ import annotations

import contextlib
import enum
import importlib
import os
import sys

import pytest
from cellspan._capture import class_versions, origins, reducers, vars_bundle

OLD = "class C:\n    count = 0\n    v = 1\n    def __init__(self):\n        C.count += 1\n    def area(self):\n        return 1\n"
NEW = "# a new line\nclass C:\n    count = 0\n    v = 2\n    def __init__(self):\n        C.count += 1\n    def area(self):\n        return 2\n"
LINE = "cellspan: q: the class {0}.C is not the same at home and on ranks ({1}): {2} imported an older {0}. importlib.reload({0}) {3} loads it again\n"
HOME, RANKS = class_versions.HOME, class_versions.RANKS
BY_NAME = enum.Enum("E", "A").A.__reduce_ex__(2)[0] is getattr  # as the first releases of Python 3.11 pickle a member; others by its value


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module's text and loads it, again if need be."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(class_versions, "_reported", set())

    def load(text, only_write=False):
        (tmp_path / "versioned_kl.py").write_text(text)
        importlib.invalidate_caches()
        if only_write:
            return None
        found = sys.modules.get("versioned_kl")
        return importlib.reload(found) if found else importlib.import_module("versioned_kl")

    yield load
    sys.modules.pop("versioned_kl", None)


@pytest.fixture
def be(monkeypatch):
    """Makes this process one of the two; older: it has imported an older file than the one that is there."""

    def become(side, older=False):
        monkeypatch.setattr(class_versions, "side", side)
        monkeypatch.setattr(class_versions, "is_older", lambda module: older)

    become(HOME)
    return become


def packed(value):
    """As pack(), without a descriptor."""
    fd, size = vars_bundle.pack(value)
    with open(fd, "rb") as file:
        return file.read(size)


@pytest.mark.parametrize(
    ("sender", "receiver", "words"),
    [
        ((RANKS, False), (HOME, True), ("the notebook has", "at home")),
        ((RANKS, True), (HOME, False), ("ranks have", "on ranks")),
        ((HOME, True), (RANKS, False), ("the notebook has", "at home")),
        ((HOME, False), (RANKS, True), ("ranks have", "on ranks")),
        ((HOME, True), (RANKS, True), ("both have", "in both places")),
    ],
)
def test_the_older_side_is_named_once(module, be, capsys, sender, receiver, words):
    be(*sender)
    data = packed({"n": 1, "q": [module(NEW).C()]})
    be(*receiver)
    module(OLD)
    for _ in range(2):
        value = vars_bundle.unpack_bytes(data)
    assert value["q"][0].area() == 1
    assert capsys.readouterr().err == LINE.format("versioned_kl", "area, v", *words)


def test_a_process_that_is_neither_home_nor_a_rank(module, be, capsys):
    be(HOME, True)
    data = packed(module(OLD).C())
    be("")
    module(NEW)
    vars_bundle.unpack_bytes(data, label="q")
    told = capsys.readouterr().err
    assert "q: the class versioned_kl.C is not the same here and where it comes from (area, v): the notebook has imported an older" in told


def test_a_class_that_was_renamed_since_is_told(module, be):
    be(HOME, True)
    data = packed({"q": module(OLD).C()})
    be(RANKS)
    module(NEW.replace("C", "Renamed"))
    del sys.modules["versioned_kl"].C
    with pytest.raises(vars_bundle.LoadError) as told:
        vars_bundle.unpack_bytes(data)
    assert str(told.value).endswith(". The notebook has imported an older versioned_kl. importlib.reload(versioned_kl) at home loads it again")


def test_the_rank_that_has_the_older_file_is_named(module, be, capsys, monkeypatch):
    sent = module(OLD).C()
    for rank in (3, 4):
        monkeypatch.setattr(class_versions, "rank", rank)
        be(RANKS, True)
        data = packed({"q": sent})
        module(NEW)
        be(HOME)
        vars_bundle.unpack_bytes(data)
        sent = module(OLD).C()
    assert capsys.readouterr().err == LINE.format("versioned_kl", "area, v", "rank 3 has", "on ranks")


MADE_AT_IMPORT = "import os\nclass C:\n    root = os.path.dirname(__file__)\n    pid = {0}\n    if {0}:\n        def f(self):\n            return {0}\n"


def test_what_differs_while_both_have_the_file_is_the_programs_own(module, be, capsys):
    be(RANKS)
    sent = module(MADE_AT_IMPORT.format(1))
    sent.C.debug = True
    data = packed({"q": sent.C()})
    be(HOME)
    module(MADE_AT_IMPORT.format(2))
    vars_bundle.unpack_bytes(data)
    assert capsys.readouterr().err == ""


def test_a_process_knows_that_a_file_has_changed_since_its_import(module, be, tmp_path):
    from cellspan._worker.reloads import Imported

    imported = Imported()
    module(OLD)
    imported.note_new()
    assert not imported.is_older("versioned_kl")
    module(NEW, only_write=True)
    os.utime(tmp_path / "versioned_kl.py", (1, 1))
    assert imported.is_older("versioned_kl")
    imported.autoreload = {"only": None, "skip": [], "objects": False}
    assert not imported.is_older("versioned_kl")  # the next cell loads it again
    imported.autoreload = None
    module(NEW)
    assert not imported.is_older("versioned_kl") and not imported.is_older("nosuch") and not imported.is_older("json")


def test_each_variable_with_a_member_of_another_enum_is_told(module, be, capsys):
    be(RANKS)
    made = module("import enum\nclass C(enum.Enum):\n    RED = 1\n    GREEN = 2\n").C
    data = {name: packed({name: made.RED}) for name in ("q", "back")}
    be(HOME, older=True)
    module("import enum\nclass C(enum.Enum):\n    GREEN = 1\n    RED = 2\n")
    for name in ("q", "q", "back"):
        assert vars_bundle.unpack_bytes(data[name])[name].name == ("RED" if BY_NAME else "GREEN")
    assert [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()] == ["q", "back"]


class Late:
    """A proxy of something that is not there yet; or of a module that each access to an attribute imports."""

    def __getattribute__(self, name):
        loaded.append(name)
        raise RuntimeError("nothing is there")


class Gone:
    @property
    def __dict__(self):
        raise RuntimeError("nothing is there")


loaded = []


@pytest.mark.parametrize("first", [Late, Gone])
def test_what_a_line_says_loads_nothing(module, be, first):
    kind = module(NEW).C
    del loaded[:]
    assert class_versions._called({"lazy": first(), "q": kind()}, kind, "") == "q" and loaded == []


@pytest.mark.parametrize(
    "other",
    [
        "# only a comment\n" + OLD,
        OLD + "C.count = 7\nC.cache = {}\nC.more = 3\n",
        OLD.replace("area", "same").replace("same", "area"),
        "import functools\n" + OLD + "D = functools.lru_cache(len)\n",
    ],
)
def test_what_is_no_other_version(module, be, other, capsys):
    data = packed({"q": module(OLD).C()})
    be(HOME, older=True)
    module(other)
    vars_bundle.unpack_bytes(data)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("class C:\n    @property\n    def p(self):\n        return 1\n    @p.setter\n    def p(self, x):\n        pass\n", ("return 1", "return 2"), "p"),
        ("class C:\n    @property\n    def p(self):\n        return 1\n    @p.setter\n    def p(self, x):\n        self.x = 3\n", ("3", "4"), "p.setter"),
        ("class C:\n    def f(self, lr=0.1):\n        return lr\n", ("0.1", "0.2"), "f"),
        ("class C:\n    def f(self, *, lr=0.1):\n        return lr\n", ("0.1", "0.2"), "f"),
        ("class C:\n    @staticmethod\n    def s():\n        return {'a', 'b'}\n    def __hidden(self):\n        return 'x' in {'a', 'b', 'c'}\n", ("'c'", "'d'"), "_C__hidden"),
        ("import dataclasses\n@dataclasses.dataclass\nclass C:\n    size: int = 128\n", ("128", "256"), "size"),
        ("import enum\nclass C(enum.Enum):\n    A = 1\n    B = 'two'\n", ("'two'", "'three'"), "B"),
        ("import functools\nclass C:\n    @functools.cached_property\n    def p(self):\n        return 1\n", ("return 1", "return 2"), "p"),
        ("import functools\nclass C:\n    @functools.lru_cache\n    def p(self):\n        return 1\n", ("return 1", "return 2"), "p"),
        ("class C:\n    def f(self):\n        return 1\n", ("1\n", "1\n    def g(self):\n        pass\n"), "g"),
    ],
)
def test_what_differs_is_named(module, be, old, new, names, capsys):
    def value(loaded):
        return loaded.C.A if hasattr(loaded.C, "A") else loaded.C()

    data = packed({"q": value(module(old.replace(*new)))})
    be(HOME, older=True)
    module(old)
    vars_bundle.unpack_bytes(data)
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and f"({names}): the notebook has imported an older versioned_kl" in told, told


def test_the_module_of_a_base_is_named(module, be, capsys, tmp_path, monkeypatch):
    text = "import versioned_kl\nclass Model(versioned_kl.C):\n    pass\n"
    (tmp_path / "versioned_model.py").write_text(text)
    module(NEW)
    import versioned_model

    monkeypatch.setitem(sys.modules, "versioned_model", versioned_model)
    be(RANKS)
    data = packed({"q": versioned_model.Model()})
    be(HOME, older=True)
    module(OLD)
    vars_bundle.unpack_bytes(data)
    assert capsys.readouterr().err == LINE.format("versioned_kl", "area, v", "the notebook has", "at home")


def test_a_class_that_is_changed_in_place_is_described_again(module):
    found = module(OLD)
    before = class_versions.members_of(found.C)
    kept = found.C
    kept.area = module(NEW).C.area  # as %autoreload does
    assert class_versions.members_of(kept) != before


def test_a_large_value_is_looked_through_in_part(module, be, capsys):
    be(RANKS)
    data = packed({"many": [[k] * 1000 for k in range(1000)], "q": module(NEW).C()})
    be(HOME, older=True)
    module(OLD)
    vars_bundle.unpack_bytes(data)
    assert "q: the class versioned_kl.C" in capsys.readouterr().err
    assert not class_versions.is_plain(tuple(range(5000))) and not class_versions.is_plain("x" * 5000)


def test_a_value_that_cannot_be_loaded_because_of_it(module, be, capsys):
    be(RANKS, older=True)
    data = packed(module("import enum\nclass C(enum.Enum):\n    A = 1\n").C.A)
    module("import enum\nclass C(enum.Enum):\n    A = 2\n")
    be(HOME)
    with contextlib.nullcontext() if BY_NAME else pytest.raises(vars_bundle.LoadError, match="1 is not a valid C"):
        vars_bundle.unpack_bytes(data, label="q")
    assert "q: the class versioned_kl.C is not the same at home and on ranks (A): ranks have imported an older" in capsys.readouterr().err


def test_classes_of_packages_and_of_python_are_not_described():
    import pathlib

    assert class_versions.described([dict, pathlib.Path, pytest.Item, vars_bundle.BundleError, type(None)]) is None


def test_a_value_of_very_many_classes_is_described_in_part(module):
    made = module("".join(f"class C{k}:\n    v = {k}\n" for k in range(100)))
    found = class_versions.described([getattr(made, f"C{k}") for k in range(100)])
    assert len(found["of"]["versioned_kl"]) == class_versions.MOST


def test_a_description_is_the_same_in_each_process(module, tmp_path):
    import subprocess

    module(OLD + "    def f(self, x):\n        return x in {'a', 'b', 'c', 'd', 'e', 'f'}, (1, 2.5, None, b'x')\n")
    code = "import versioned_kl, json\nfrom cellspan._capture import class_versions\nprint(json.dumps(class_versions.members_of(versioned_kl.C), sort_keys=True))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.path.dirname(os.path.dirname(os.path.dirname(vars_bundle.__file__)))])}
    made = {subprocess.run([sys.executable, "-c", code], env={**env, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout for seed in "123"}
    assert len(made) == 1 and '"f": "f' in made.pop()


# ---- what a rank has changed -----------------------------------------------------------------------------------------

BEFORE = """
import enum, functools
class C(enum.Enum):
    RED = 1
    GREEN = 2
class M:
    def __init__(self):
        self.n = 1
class Outer:
    class Inner:
        pass
def f():
    return 1
def called(fn):
    @functools.wraps(fn)
    def call():
        return fn()
    return call
@called
def wrapped():
    return 1
"""


def test_a_module_that_is_loaded_again_changes_no_value(module):
    found = module(BEFORE)
    ns = {"c": found.C.RED, "m": found.M(), "q": {"f": found.f, "C": found.C, "m": [found.M()]}, "inner": found.Outer.Inner(), "f": found.f}
    of = origins.Origins(ns)
    fd, size = vars_bundle.pack(dict(ns), ns)
    of.came(list(ns), fd, size)
    os.close(fd)
    assert of.changed(list(ns)) == dict.fromkeys(ns, "same")
    module(BEFORE.replace("RED = 1", "GREEN = 1").replace("GREEN = 2", "RED = 2").replace("self.n = 1", "self.n = 5"))
    assert of.changed(list(ns)) == dict.fromkeys(ns, "same")
    packed(dict(ns))  # the classes go by value now
    assert of.changed(list(ns)) == dict.fromkeys(ns, "same")
    ns["m"].n = 7
    ns["q"]["m"].append(1)
    ns["c"] = found.C.RED
    assert of.changed(list(ns)) == {"c": "same" if BY_NAME else "changed", "m": "changed", "q": "changed", "inner": "same", "f": "same"}


EXTENDED = """
import functools
def extended(cls):
    return type(cls.__name__, (cls,), {"n": lambda self: 2})
def extend(o):
    o.__class__ = extended(o.__class__)
class M:
    def n(self):
        return 1
@extended
class E:
    def n(self):
        return 1
def f():
    return 1
def timed(fn):
    @functools.wraps(fn)
    def call(*args):
        return fn(*args)
    return call
def renamed(fn):
    def call():
        return 3
    call.__name__, call.__qualname__ = fn.__name__, fn.__qualname__
    return call
"""


def test_what_a_decorator_has_made_is_no_later_version(module):
    found = module(BEFORE)
    assert reducers.name_in_module(found.wrapped) == "versioned_kl.wrapped" and reducers.name_in_module(found.wrapped.__wrapped__) == ""
    assert reducers.name_in_module(found.C.RED) == reducers.name_in_module(found.called(found.f).__wrapped__.__code__) == ""


def test_what_a_rank_has_made_of_its_own_module_is_a_change(module):
    found = module(EXTENDED)
    ns = {"m": found.M(), "q": {"f": found.f}, "r": {"f": found.f}, "e": found.E(), "step": [found.M().n], "kept": {"f": found.f, "m": [found.M(), found.E()]}}
    of = origins.Origins(ns)
    fd, size = vars_bundle.pack(dict(ns), ns)
    of.came(list(ns), fd, size)
    os.close(fd)
    assert of.changed(list(ns)) == dict.fromkeys(ns, "same")
    for after_reload in (False, True):
        if after_reload:
            module(EXTENDED.replace("return 1", "return 5"))
            assert of.changed(["kept"]) == {"kept": "same"}, "also a class that a decorator of the module has extended"
        found.extend(ns["m"]), found.extend(ns["e"])
        ns["q"]["f"], ns["r"]["f"] = found.timed(found.f), found.renamed(found.f)
        ns["step"][0] = found.timed(found.M.n).__get__(ns["m"])
        assert of.changed(list(ns)) == {**dict.fromkeys(ns, "changed"), "kept": "same"}
