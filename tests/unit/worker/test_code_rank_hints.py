# SPDX-License-Identifier: BSD-3-Clause
"""What a rank on another machine adds to errors about files and modules that are only on the notebook's machine."""

import importlib
import os
import platform

from cellspan._code import finders
from test_code_rank import ROOT, code, home, listing, make  # noqa: F401 - fixtures, too


def hint(code, text):
    try:
        exec(text, {})
    except Exception as error:  # noqa: BLE001
        return " ".join(code.hints(error))
    raise AssertionError("no error")


def test_a_file_that_is_not_here(code, home):  # noqa: F811
    here = platform.node()
    code.take(listing(home))
    assert hint(code, "open('x.csv')") == hint(code, "open('/home/a/x.csv')") == hint(code, "open('/home/a')") == "", "home has none"
    home.files.update({ROOT + "/x.csv": "1", "/home/a/x.csv": "2"})
    assert hint(code, "open('x.csv')") == f"x.csv is not on {here}: --with x.csv on the cell's first line brings the notebook's"
    assert hint(code, "open('/home/a/x.csv')").endswith("brings the notebook's into the ranks' folder, as x.csv")
    assert hint(code, "import os; os.listdir('/home/a')").startswith(f"/home/a is not on {here}: --with /home/a")
    assert hint(code, "open('x\\0.csv')") == ""
    home.instead = lambda what, question: ('{"error": "home has ended"}', None)
    assert hint(code, "open('x.csv')") == "", "the error is as it was where home does not answer"
    home.instead = None
    home.files["/tmp/absent/x"] = "1"
    assert hint(code, "open('/tmp/absent/x')") == hint(code, "1 / 0") == hint(code, "import qnever") == ""
    code.take(None)
    assert hint(code, "open('x.csv')") == ""


def test_data_of_a_package_that_was_left_out(code, home):  # noqa: F811
    home.left = [[ROOT + "/qpkg/huge.bin", 1 << 30, "1 GiB of data"]]
    code.take(listing(home, "qpkg"))
    path = f"{ROOT}/qpkg/huge.bin"
    expected = f"{path} was not sent to {platform.node()}: 1 GiB of data. --with {path} sends it"
    assert hint(code, f"open({finders.Loader.root + path!r})") == hint(code, f"open({path!r})") == expected
    home.left = [[ROOT + "/qpkg", 1 << 30, "too much data"]]
    home.files[ROOT + "/qpkg/__init__.py"] = "new"
    code.take(listing(home, "qpkg"))
    path = f"{ROOT}/qpkg/conf.json"
    assert hint(code, f"open({finders.Loader.root + path!r})") == f"{path} was not sent to {platform.node()}: too much data. --with {path} sends it"


def test_a_file_beside_a_module(code, home):  # noqa: F811
    code.take(listing(home, "qhelper"))
    home.files[ROOT + "/qhelper.py"] = "import pathlib\nrows = pathlib.Path(__file__).parent / 'rows.txt'\n"
    code.take(listing(home, "qhelper"))
    assert hint(code, "import qhelper\nqhelper.rows.read_text()") == "", "home has none"
    home.files[ROOT + "/rows.txt"] = "1"
    said = hint(code, "import qhelper\nqhelper.rows.read_text()")
    assert said == f"{ROOT}/rows.txt is not on {platform.node()}: --with {ROOT}/rows.txt on the cell's first line brings the notebook's"


def test_a_package_that_only_the_notebooks_machine_has(code, home):  # noqa: F811
    code.take(listing(home, versions={"qnever": "2.1"}))
    assert hint(code, "import qnever") == f"qnever 2.1 is installed on the notebook's machine, but not on {platform.node()}"


def test_a_package_of_another_version_that_lacks_something(code, tmp_path, monkeypatch, home):  # noqa: F811
    (tmp_path / "qversions").mkdir()
    (tmp_path / "qversions" / "__init__.py").write_text("__version__ = '1.4'\n")
    (tmp_path / "qversions" / "part.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    there = "/home/x/lib/qversions/__init__.py"
    code.take(listing(home, versions={"qversions": "2.7"}, paths={"qversions": there}))
    both = f"qversions is version 1.4 on {platform.node()} ({tmp_path}/qversions/__init__.py), and 2.7 on the notebook's machine ({there})"
    for text in ("import qversions\nqversions.featurize", "from qversions import featurize", "import qversions.featurize",
                 "import qversions.part\nqversions.part.f", "from qversions.part import f"):
        assert hint(code, text).endswith(both), text
    assert hint(code, "import qversions\nqversions.part.__name__.f") == ""
    code.take(listing(home, versions={"qversions": "1.4"}, paths={"qversions": there}))
    assert hint(code, "import qversions\nqversions.featurize") == ""


def test_a_module_that_was_compiled_for_another_python(code, home):  # noqa: F811
    home.files[ROOT + "/qpkg/core.cpython-27-mips-linux-gnu.so"] = "x"
    code.take(listing(home, "qpkg"))
    assert hint(code, "import qpkg.core").startswith(f"{ROOT}/qpkg/core.cpython-27-mips-linux-gnu.so was compiled for another Python or machine: ")


def test_a_package_without_the_module_is_named(code, home):  # noqa: F811
    code.take(listing(home, "qpkg"))
    assert hint(code, "import qpkg.none") == f"{ROOT}/qpkg has no none"
    assert hint(code, "import json.none") == f"{os.path.dirname(importlib.import_module('json').__file__)} on {platform.node()} has no none"


def test_a_script_of_a_magic_or_a_command_that_is_not_here(code, home):  # noqa: F811
    code.take(listing(home))
    line = f"jobs/run.py is not on {platform.node()}: --with jobs/run.py on the cell's first line brings the notebook's"
    assert hint(code, "raise Exception(\"File `'jobs/run.py'` not found.\")") == "" == "".join(code.command_hints("python jobs/run.py"))
    home.files[ROOT + "/jobs/run.py"] = "1"
    for command in ("python jobs/run.py 1", "python3.11 -X dev jobs/run.py", "torchrun --nproc_per_node 2 jobs/run.py"):
        assert code.command_hints(command) == [line]
    assert [code.command_hints(command) for command in ("python -m jobs", "cat jobs/run.py", "python '")] == [[], [], []]
    assert hint(code, "raise Exception(\"File `'jobs/run.py'` not found.\")") == line
    with open("own.py", "w", encoding="utf-8"):
        assert code.command_hints("python own.py") == []
