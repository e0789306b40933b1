# SPDX-License-Identifier: BSD-3-Clause
"""The modules of _dropin/ use the public names of cellspan and what cellspan._dropin_api has; nothing else of the package."""

import ast
from pathlib import Path

import pytest

import cellspan
from cellspan import _dropin_api

FOLDER = Path(cellspan.__file__).parent / "_dropin"
FILES = sorted(FOLDER.rglob("*.py"))


def target(name, path):
    """What an import means, as the parts of its name after cellspan; None: it is another package."""
    if not name.startswith("."):
        package, *parts = name.split(".")
        return parts if package == "cellspan" else None
    here = list(path.relative_to(FOLDER).parts[:-1])
    rest = name.lstrip(".")
    up = len(name) - len(rest) - 1
    assert up <= len(here), f"{path}: {name} is outside the package"
    return here[: len(here) - up] + (rest.split(".") if rest else [])


def is_allowed(parts):
    """Is it a drop-in, the module that is meant for them, or a public name?"""
    first = parts[0] if parts else ""
    return not first or (FOLDER / first).is_dir() or (FOLDER / f"{first}.py").is_file() or first in ("_dropin_api", *cellspan.__all__)


def imported(tree, path):
    """Yields what the imports of a module name in cellspan, as parts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [target(each.name, path) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = target("." * node.level + (node.module or ""), path)
            found = [None if module is None else [*module, each.name] for each in node.names]
        else:
            continue
        yield from (parts for parts in found if parts is not None)


def private(text, path):
    """What a module uses of cellspan that is not meant for it."""
    tree = ast.parse(text)
    for parts in imported(tree, path):
        if not is_allowed(parts):
            yield ".".join(["cellspan", *parts])
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cellspan" and not is_allowed([node.attr]):
            yield f"cellspan.{node.attr}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "cellspan._" in node.value:
            yield node.value


def test_there_are_drop_ins():
    assert {"px", "torch", "horovod", "maggy", "tensorflow"} <= {file.relative_to(FOLDER).parts[0].partition(".")[0] for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_a_drop_in_imports_nothing_else_that_is_private(file):
    assert list(private(file.read_text(encoding="utf-8"), file)) == []


@pytest.mark.parametrize("text, found", [
    ("from .. import _api", "cellspan._api"),
    ("from .._worker.torchenv import is_initialized", "cellspan._worker.torchenv.is_initialized"),
    ("from cellspan._map import map", "cellspan._map.map"),
    ("import cellspan._api", "cellspan._api"),
    ("import cellspan\ncellspan._api.run", "cellspan._api"),
    ("import sys\nsys.modules['cellspan._worker.rank']", "cellspan._worker.rank"),
    ("from .. import run\nfrom . import _dataframes\nfrom .._dropin_api import launch\nimport torch\nfrom ..px import Client", None),
])
def test_what_is_private_is_found(text, found):
    assert list(private(text, FOLDER / "torch" / "__init__.py")) == ([] if found is None else [found])


def test_what_is_meant_for_drop_ins_is_there_and_each_name_has_a_reader():
    used = {parts[-1] for file in FILES for parts in imported(ast.parse(file.read_text(encoding="utf-8")), file) if "_dropin_api" in parts}
    assert set(_dropin_api._FROM) == used
    for name in _dropin_api._FROM:
        assert getattr(_dropin_api, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'others'"):
        _dropin_api.others


def test_numbers_may_be_numpys():
    numpy = pytest.importorskip("numpy")
    from cellspan import _distributed
    from cellspan.px import _views

    assert _views.targets(numpy.int64(1), [0, 1, 2]) == [1] and _views.targets(numpy.int32(-1), [0, 1]) == [1]
    assert _views.targets([numpy.int64(1), 0], [0, 1]) == [1, 0] and _views.targets(numpy.array([1, 0]), [0, 1]) == [1, 0]
    assert _views.resolved(numpy.array([1]), [0, 1]) == [1]
    for mask in (numpy.array([False, True, True]), [False, True, True], True, numpy.bool_(False)):
        with pytest.raises(TypeError, match=r"those that a mask of bools means are numpy.flatnonzero\(mask\)"):
            _views.targets(mask, [0, 1, 2])
    with pytest.raises(TypeError, match="ranks are a number, a list or a slice"):
        _views.targets(numpy.float64(1), [0, 1])
    given = dict.fromkeys(("num_accelerators", "accelerator_type", "remote", "timeout", "gpus", "on", "gpus_per_rank", "reuse"))
    options = _distributed._options({**given, "n": numpy.int64(2), "timeout": numpy.float32(2)})
    assert options["n"] == 2 and type(options["n"]) is int
    for wrong in (True, 1.0, numpy.float64(2), "2", numpy.int64(0)):
        with pytest.raises(ValueError, match="it is a number of processes, 1 or more"):
            _distributed._options({**given, "n": wrong})
