# SPDX-License-Identifier: BSD-3-Clause
"""Where code runs, asked from Python: cellspan.rank(), world_size() and local_rank()."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from client import rank_values

WHO = "(cellspan.rank(), cellspan.world_size(), cellspan.local_rank())"


def test_ranks_know_their_number_and_the_size_of_their_world(nb):
    nb.ok("import cellspan")
    assert rank_values(nb, WHO, 3) == [(0, 3, 0), (1, 3, 1), (2, 3, 2)]
    assert rank_values(nb, WHO, 2) == [(0, 2, 0), (1, 2, 1)], "a smaller world"
    assert nb.ok("%%distribute -n 3 -r 2\n" + WHO).value == "(2, 3, 2)", "the world keeps its size"
    assert rank_values(nb, WHO, 2, "--env LOCAL_RANK=7") == [(0, 2, 7), (1, 2, 7)], "--env wins"


def test_home_is_the_one_rank_of_its_world(fresh):
    nb = fresh(env={"RANK": "5", "WORLD_SIZE": "9", "LOCAL_RANK": "3"})
    assert nb.ok("import cellspan\n" + WHO).value == "(0, 1, 0)", "whatever the environment says"


def test_the_functions_travel_and_work_in_what_ranks_start(nb):
    nb.ok("from cellspan import rank, world_size\ndef mine():\n    return rank() * 10 + world_size()")
    assert rank_values(nb, "mine()", 2) == [2, 12]
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', %r], capture_output=True, text=True, check=True).stdout"
    path = rank_values(nb, "__import__('os').path.dirname(__import__('cellspan').__path__[0])", 1)[0]
    child = "import sys; sys.path.append(%r); import cellspan; print(%s)" % (path, WHO)
    assert rank_values(nb, code % child, 2) == ["(0, 2, 0)\n", "(1, 2, 1)\n"]


def test_scripts_have_them(nb, tmp_path):
    (tmp_path / "who.py").write_text("import cellspan\nprint(%s)" % WHO)
    assert nb.ok("%%distribute -n 2 -r 1 --merge raw %s" % (tmp_path / "who.py")).stdout == "(1, 2, 1)\n"


def test_a_plain_process_is_a_world_of_one(nb):
    path = nb.ok("import cellspan, os; print(os.path.dirname(cellspan.__path__[0]))").stdout.strip()
    env = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    command = [sys.executable, "-c", "import cellspan; print(%s)" % WHO]
    run = subprocess.run(command, env=dict(env, PYTHONPATH=path), capture_output=True, text=True, check=True)
    assert run.stdout == "(0, 1, 0)\n"


@pytest.mark.only_names
def test_names_complete_and_the_version_is_there(nb):
    nb.ok("import cellspan")
    assert nb.ok("import re; bool(re.fullmatch(r'[0-9]+(\\.[0-9]+)+.*', cellspan.__version__))").value == "True"
    assert rank_values(nb, "cellspan.__version__", 1) == [nb.ok("print(cellspan.__version__)").stdout.strip()]
    matches = nb.request("complete_request", {"code": "cellspan.", "cursor_pos": 9}, limit=120)["matches"]
    called = ["Group", "Handle", "RemoteError", "call", "distributed", "group", "local_rank", "map", "on_notice", "rank", "run", "step", "world_size"]
    modules = ["horovod", "maggy", "px", "tensorflow", "torch"]
    assert sorted(m.rpartition(".")[2] for m in matches) == sorted(called + modules), "Tab shows what is public"


OURS_FOUND = """
import cellspan, importlib.machinery, os, pkgutil, sys
folder = os.path.realpath(os.path.dirname(cellspan.__file__)) + os.sep
inside = [path for path in sys.path if (os.path.realpath(path or ".") + os.sep).startswith(folder)]
names = {m.name.rpartition(".")[2] for m in pkgutil.walk_packages(cellspan.__path__, "cellspan.") if not m.name.endswith("__main__")}
found = [importlib.machinery.PathFinder.find_spec(name) for name in names]
print(len(names) > 50, inside, [spec.name for spec in found if spec and os.path.realpath(spec.origin or "").startswith(folder)])
"""


def test_no_module_of_ours_is_taken_for_another(nb, tmp_path):
    """`import calls`, `import where` or `import requests` find what the user has, wherever they run."""
    (tmp_path / "script.py").write_text(OURS_FOUND)
    wanted = "True [] []\n"
    assert nb.ok(OURS_FOUND).stdout == wanted
    assert nb.ok("%%distribute -n 1\n" + OURS_FOUND).stdout == wanted
    assert nb.ok("%%distribute -n 1 %s" % (tmp_path / "script.py")).stdout == wanted
