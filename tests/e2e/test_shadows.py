# SPDX-License-Identifier: BSD-3-Clause
"""Files of the notebook's folder that have the names of modules which cellspan needs."""

from __future__ import annotations

import ast
import pathlib
import sys

import pytest
from client import rank_values, values

NEEDED = "cellspan", "cloudpickle", "ctypes", "IPython", "traitlets", "comm", "mmap", "runpy"


def write(folder, *names):
    for name in names:
        (folder / f"{name}.py").write_text(f"import pathlib\npathlib.Path({str(folder / 'ran')!r}).touch()\nMINE = {name!r}\n")


def test_files_do_not_replace_what_cellspan_needs(fresh, tmp_path):
    write(tmp_path, *NEEDED)
    nb = fresh(cwd=tmp_path)
    nb.ok("import numpy\ndef f():\n    return 3\nx = numpy.arange(100_000)")
    assert rank_values(nb, "f(), int(x.sum())", 2) == [(3, 4999950000)] * 2
    assert nb.ok("import cellspan\ncellspan.run(f, n=2)").value == "3"
    assert nb.ok("%%distribute --beside -n 1\nf()").value == "3"
    (tmp_path / "script.py").write_text("import ctypes, cellspan\nprint(cellspan.rank(), ctypes.c_int(4).value)")
    assert "[0] 0 4" in nb.ok("%distribute -n 2 script.py").stdout
    assert values(nb.ok("import sys\n[name for name in %r if getattr(sys.modules.get(name), 'MINE', None)]" % (NEEDED,))) == []
    pool = "import multiprocessing as mp\nwith mp.get_context('spawn').Pool(1) as pool:\n    print(pool.apply(f))"
    assert nb.ok(pool).stdout == "3\n"
    assert not (tmp_path / "ran").exists()
    for start in ("", "%%distribute -n 1\n"):
        cell = nb.run(start + "import cloudpickle\ncloudpickle.MINE")
        line = cell.traceback.splitlines()[-1]
        assert str(tmp_path / "cloudpickle.py") in line and "is not imported" in line


def test_another_version_on_pythonpath_is_not_taken_for_this_one(fresh, tmp_path):
    other = tmp_path / "cellspan"
    other.mkdir()
    (other / "__init__.py").write_text("raise RuntimeError('another version')\n")
    nb = fresh(env={"PYTHONPATH": str(tmp_path)})
    seen = "import os, sys, cellspan\ncellspan.__file__ == %r, sys.path.index(%r) > 0, os.environ['PYTHONPATH'] == %r" % (
        str(other / "__init__.py"), str(tmp_path), str(tmp_path))
    assert values(nb.ok(seen)) == (False, True, True)
    assert rank_values(nb, seen, 2) == [(False, True, True)] * 2


def test_a_file_named_jedi_is_the_user_s(fresh, tmp_path):
    write(tmp_path, "jedi")
    nb = fresh(cwd=tmp_path)
    for _ in range(2):
        reply = nb.request("complete_request", {"code": "impor", "cursor_pos": 5})
        assert "import" in reply["matches"]
    nb.quiet(3)  # in which jedi would be prepared
    assert not (tmp_path / "ran").exists()
    assert values(nb.ok("import jedi\njedi.MINE")) == "jedi"
    assert rank_values(nb, "import jedi\njedi.MINE", 2) == ["jedi"] * 2


def test_a_file_named_numpy_is_imported_only_by_the_user(fresh, tmp_path):
    """With it IPython shows no value: it asks whichever numpy is loaded for its types."""
    write(tmp_path, "numpy")
    nb = fresh(cwd=tmp_path)
    nb.ok("%%distribute -n 2\npass")
    assert values(nb.ok("%%distribute --gather\n7")) == [7, 7]
    assert values(nb.ok("'numpy' in __import__('sys').modules")) is False
    assert not (tmp_path / "ran").exists()


def test_a_file_that_hides_a_module_from_others_is_named(fresh, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write(elsewhere, "wave")
    (tmp_path / "wave.py").symlink_to(elsewhere / "wave.py")
    nb = fresh(cwd=tmp_path)
    cell = nb.run("from wave import open")
    line = cell.traceback.splitlines()[-1]
    assert str(tmp_path / "wave.py") in line and "hides" in line and "rename" in line


@pytest.mark.skipif(sys.version_info < (3, 10), reason="Python does not list its modules")
def test_the_list_of_needed_modules_is_whole(fresh):
    """What the package imports of Python's own, and may import late, is in the list."""
    nb = fresh()
    package = pathlib.Path(values(nb.ok("import cellspan\ncellspan.__path__[0]")))
    ours = set(values(nb.ok("from cellspan._base import shadows\nsorted(shadows.OURS)")))
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module.partition(".")[0])
    missing = (found & set(sys.stdlib_module_names)) - {"__future__"} - ours
    assert not missing, "add them to OURS in _base/shadows.py"
