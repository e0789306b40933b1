# SPDX-License-Identifier: BSD-3-Clause
"""The package as a whole: its public interface, and which folder may import which."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import subprocess
import sys

import pytest

import cellspan

FOLDER = os.path.dirname(cellspan.__file__)
USES = {  # a folder: the folders it may import from, beside the extension and itself
    "_base": set(),
    "_capture": {"_base"},
    "_code": {"_base", "_capture"},
    "_jupyter": {"_base", "_api"},
    "_worker": {"_base", "_capture", "_code", "_jupyter", "_api"},
}


def imported(path):
    """The names below cellspan that a module imports relatively: "_link", "_base", its own folder as ""."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 2:
            yield from [node.module.partition(".")[0]] if node.module else [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module.partition(".")[0] != "cellspan" or path.endswith("__main__.py"), (path, node.module)


def test_each_folder_uses_those_below_it():
    for folder, uses in USES.items():
        for name in os.listdir(os.path.join(FOLDER, folder)):
            if name.endswith(".py"):
                others = set(imported(os.path.join(FOLDER, folder, name))) - {"_link", folder}
                assert others <= uses, (folder, name, others)


def test_no_file_has_more_than_600_lines():
    long = []
    for folder, _, names in os.walk(FOLDER):
        for path in (os.path.join(folder, name) for name in names if name.endswith(".py")):
            with open(path, encoding="utf-8") as file:
                lines = sum(1 for _ in file)
            if lines > 600:
                long.append("%s: %d lines" % (os.path.relpath(path, FOLDER), lines))
    assert long == []


def test_threads_of_its_own_are_begun_as_such():
    """The debugger shows the others. A subshell's thread runs the user's cells. An engine's process, which _launch/ is, has no debugger."""
    begin = []
    for folder, _, names in os.walk(FOLDER):
        for path in (os.path.join(folder, name) for name in names if name.endswith(".py")):
            with open(path, encoding="utf-8") as file:
                calls = [node.func for node in ast.walk(ast.parse(file.read())) if isinstance(node, ast.Call)]
            if any(getattr(call, "attr", getattr(call, "id", None)) == "Thread" for call in calls):
                begin.append(os.path.relpath(path, FOLDER))
    assert sorted(path for path in begin if not path.startswith("_launch/")) == ["_base/threads.py", "_worker/subshells.py"]


def test_all_modules_are_private():
    assert [name for name in os.listdir(FOLDER) if not name.startswith("_")] == ["py.typed"]


def test_dir_is_the_interface():
    modules = {name.partition(".")[0] for name in os.listdir(os.path.join(FOLDER, "_dropin"))} - {"__pycache__"}
    assert dir(cellspan) == sorted([*cellspan.__all__, *modules, "__version__"])
    assert all(hasattr(cellspan, name) for name in dir(cellspan))


def test_the_reference_has_each_public_name():
    with open(os.path.join(os.path.dirname(__file__), "../../../docs/reference.md"), encoding="utf-8") as file:
        shown = {line.rpartition(".")[2] for line in file.read().splitlines() if line.startswith("::: cellspan.")}
    assert shown == set(cellspan.__all__)


def public_modules():
    """The names of all modules that users import, beside cellspan itself."""
    for module in pkgutil.walk_packages(cellspan.__path__[1:], "cellspan.", onerror=lambda name: None):
        if "._" not in module.name:
            yield module.name


@pytest.mark.parametrize("name", list(public_modules()))
def test_dir_of_a_public_module_is_its_interface_and_its_modules(name):
    if name == "cellspan.horovod.torch":
        pytest.importorskip("torch")
    module = importlib.import_module(name)
    inside = {other.name for other in pkgutil.iter_modules(getattr(module, "__path__", ())) if other.name[0] != "_"}
    shown = {one for one in dir(module) if not one.startswith("__")}
    assert set(getattr(module, "__all__", ())) <= shown <= {*getattr(module, "__all__", ()), *inside}
    assert all(hasattr(module, one) for one in shown)


def test_a_public_module_is_imported_on_first_use():
    code = ("import sys, cellspan; before = 'cellspan.torch' in sys.modules; ours = cellspan.torch.TorchDistributor\n"
            "print(before, ours.__module__, hasattr(cellspan, 'trch'), 'torch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "cellspan.torch", "False", "False"], done


def test_the_dropin_modules_do_not_shadow_the_packages_of_their_names(tmp_path):
    """Run with the package's own folder first on the search path, as a program in that folder would have it."""
    code = (
        "import sys; sys.path[:0] = %r; import torch, cellspan.torch as ours; import cellspan\n"
        "print(torch is not ours, hasattr(torch, 'Tensor'), ours.__name__, hasattr(ours, 'TorchDistributor'))"
    )
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("class Tensor: pass\n")
    path = [FOLDER, os.path.dirname(FOLDER), str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", code % (path,)], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True", "cellspan.torch", "True"], done


def test_no_module_of_the_package_has_the_name_of_another_package():
    for name in os.listdir(os.path.join(FOLDER, "_dropin")):
        stem = name.partition(".")[0]
        shadows = [path for path in (stem, stem + ".py") if os.path.exists(os.path.join(FOLDER, path))]
        assert stem == "__pycache__" or not shadows, name


def test_in_another_kernel_the_magics_are_refused_each_time():
    code = ("from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance(colors='nocolor')\n"
            "for line in ('%load_ext', '%load_ext', '%reload_ext', '%unload_ext'): print(shell.run_cell(line + ' cellspan').success)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False", "False", "False", "The cellspan extension is not loaded.", "True"], done
    assert done.stderr.splitlines() == 3 * ["UsageError: cellspan: its magics need its own kernel: choose the kernel cellspan for this notebook"], done
