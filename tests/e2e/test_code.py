# SPDX-License-Identifier: BSD-3-Clause
"""The notebook's own modules on hosts that do not have its folder: what a person with a laptop and a cluster does."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import textwrap
import zipfile

import pytest
from client import by_rank, values
from engines import HOST_TOOLS, Hosts, bring_up
from packages import needs

ON = "%%distribute -n 3 --on ssh:h1,h2 "
LIMIT = 150

# The folders are there before the hosts, which have empty ones of their own in their place.
FOLDERS = [tempfile.mkdtemp(prefix=f"cellspan-{name}-") for name in ("project", "other")]
PROJECT, OTHER = (os.path.realpath(folder) for folder in FOLDERS)


@pytest.fixture(scope="module")
def hosts():
    yield from bring_up(lambda: Hosts(2, private=(PROJECT, OTHER)), HOST_TOOLS)
    for folder in (PROJECT, OTHER):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def reached(hosts):
    """CELLSPAN_SSH for all that these tests start, and their folder."""
    here = os.getcwd()
    os.environ.update(hosts.variables())
    os.chdir(PROJECT)
    yield
    os.chdir(here)
    for name in hosts.variables():
        del os.environ[name]
    assert hosts.left() == []


def put(path, text, folder=PROJECT):
    """Writes a file into the notebook's folder, which no host has. Each test uses names of its own."""
    full = os.path.join(folder, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(textwrap.dedent(text))
    return full


def ok(nb, code, options=""):
    return nb.ok(ON + options + "\n" + textwrap.dedent(code), limit=LIMIT)


def failed(nb, code, name, options=""):
    return nb.run(ON + options + "\n" + textwrap.dedent(code), limit=LIMIT).assert_error(name)


# ---- modules ---------------------------------------------------------------------------------------------------------


def test_a_module_beside_the_notebook(nb):
    put("helper_a.py", "import os\ndef where():\n    return os.uname().nodename\n")
    assert values(ok(nb, "import helper_a\nhelper_a.where()", "--gather")) == ["h1", "h1", "h2"]
    assert nb.ok("import helper_a; helper_a.__file__").value == repr(PROJECT + "/helper_a.py")


def test_a_package_with_data_and_relative_imports(nb):
    put("pkg_b/__init__.py", "from .inner.deep import value\n")
    put("pkg_b/inner/__init__.py", "")
    put("pkg_b/inner/deep.py", "from .. import table\nvalue = table.rows()\n")
    put("pkg_b/table.py", "import importlib.resources\ndef rows():\n    return importlib.resources.files('pkg_b').joinpath('rows.txt').read_text()\n")
    put("pkg_b/rows.txt", "a b c")
    code = "import pathlib, pkg_b\npkg_b.value, pathlib.Path(pkg_b.__file__).with_name('rows.txt').read_text()"
    assert set(values(ok(nb, code, "--gather"))) == {("a b c", "a b c")}


def test_an_import_within_a_function_and_one_that_nobody_has(nb):
    put("late_c.py", "value = 5\n")
    told = failed(nb, "from late_c import nothing", "ImportError").shown
    assert f"cannot import name 'nothing' from 'late_c' ({PROJECT}/late_c.py)" in told and "/code/tree/" not in told, told
    nb.ok("def f():\n    try:\n        import turbo_that_nobody_has\n    except ImportError:\n        pass\n    import late_c\n    return late_c.value")
    assert values(ok(nb, "f()", "--gather")) == [5, 5, 5]


def test_plugins_by_name(nb):
    put("plugins_c/__init__.py", "")
    put("plugins_c/first.py", "name = 'first'\n")
    assert values(ok(nb, "import importlib\nimportlib.import_module('plug' + 'ins_c.fir' + 'st').name", "--gather")) == ["first"] * 3


def test_an_edit_between_cells_is_loaded_again(nb):
    put("edited_d.py", "def f():\n    return 1\n")
    assert values(ok(nb, "import edited_d\nedited_d.f()", "--gather")) == [1, 1, 1]
    put("edited_d.py", "def f():\n    return 2\n")
    cell = ok(nb, "edited_d.f()", "--gather")
    assert values(cell) == [1, 1, 1] and f"{PROJECT}/edited_d.py is newer than what ranks have imported" in cell.stderr
    nb.ok("import edited_d, importlib; importlib.reload(edited_d)")
    assert values(ok(nb, "edited_d.f()", "--gather")) == [2, 2, 2]
    put("edited_d.py", "def f():\n    return 3\n")
    assert values(ok(nb, "import importlib\nimportlib.reload(edited_d).f()", "--gather")) == [3, 3, 3]


def test_autoreload_at_home(nb):
    put("auto_d.py", "def f():\n    return 1\n")
    nb.ok("%load_ext autoreload\n%autoreload 2\nimport auto_d")
    try:
        assert values(ok(nb, "import auto_d\nauto_d.f()", "--gather")) == [1, 1, 1]
        put("auto_d.py", "def f():\n    return 2\n")
        assert values(ok(nb, "auto_d.f()", "--gather")) == [2, 2, 2]
    finally:
        nb.ok("%autoreload 0")


def test_a_file_that_a_cell_writes(nb):
    nb.ok("%%writefile written_d.py\nvalue = 1")
    assert values(ok(nb, "import written_d\nwritten_d.value", "--gather")) == [1, 1, 1]
    nb.ok("%%writefile new_d.py\nvalue = 2")
    assert values(ok(nb, "import new_d\nnew_d.value", "--gather")) == [2, 2, 2]


def test_a_file_that_is_deleted(nb):
    put("gone_e.py", "value = 1\n")
    ok(nb, "import gone_e")
    os.unlink(os.path.join(PROJECT, "gone_e.py"))
    assert values(ok(nb, "gone_e.value", "--gather")) == [1, 1, 1]
    failed(nb, "import sys\ndel sys.modules['gone_e']\nimport gone_e", "ModuleNotFoundError")


def test_instances_of_a_projects_class_travel_both_ways(nb):
    put("model_f.py", "class Model:\n    def __init__(self, w):\n        self.w = w\n")
    nb.ok("import model_f\nmodel = model_f.Model(3)")
    ok(nb, "import cellspan\nmodel.w += cellspan.rank()", "--into back")
    assert values(ok(nb, "model.w", "--gather")) == [3, 4, 5]
    ok(nb, "made = model_f.Model(7)\nmade", "--into back")
    assert nb.ok("type(back) is model_f.Model, back.w").value == "(True, 7)"


def test_the_projects_utils_come_before_those_of_the_host(nb, tmp_path):
    nb.ok("import os; os.makedirs('/var/tmp/cellspan-site', exist_ok=True)\nopen('/var/tmp/cellspan-site/utils_g.py', 'w').write('whose = \"site\"')")
    try:
        put("utils_g.py", "whose = 'project'\n")
        assert values(ok(nb, "import sys\nsys.path.insert(0, '/var/tmp/cellspan-site')\nimport utils_g\nsys.path.pop(0)\nutils_g.whose", "--gather")) == ["project"] * 3
    finally:
        shutil.rmtree("/var/tmp/cellspan-site")


def test_a_namespace_package_over_two_folders(nb):
    put("space_h/one.py", "value = 1\n")
    put("lib_h/space_h/two.py", "value = 2\n")
    nb.ok(f"import sys; sys.path.append({PROJECT + '/lib_h'!r})")
    assert values(ok(nb, "import space_h.one, space_h.two\nspace_h.one.value + space_h.two.value", "--gather")) == [3, 3, 3]


def test_a_package_that_asks_for_its_version(nb):
    put("src_v/pkg_v/__init__.py", "import importlib.metadata\n__version__ = importlib.metadata.version('pkg-v')\n")
    put("site-packages/pkg_v-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: pkg-v\nVersion: 1.5\n")
    put("site-packages/pkg_v-1.5.dist-info/direct_url.json", '{"url": "file:///", "dir_info": {"editable": true}}')
    nb.ok("import sys\nsys.path += [%r, %r]\nimport pkg_v" % (PROJECT + "/src_v", PROJECT + "/site-packages"))
    assert values(ok(nb, "import pkg_v\npkg_v.__version__", "--gather")) == ["1.5"] * 3


def test_a_zip_file_on_the_path_and_a_package_with_links(nb):
    put("zip_z/pkg_z/__init__.py", "from .linked.inner import value\n")
    put("zip_z/real/inner.py", "value = 7\n")
    os.symlink("../real", f"{PROJECT}/zip_z/pkg_z/linked")
    os.symlink("..", f"{PROJECT}/zip_z/pkg_z/circle")
    with zipfile.ZipFile(f"{PROJECT}/zipped.zip", "w") as file:
        file.writestr("in_zip.py", "from pkg_z import value\n")
    nb.ok("import sys\nsys.path += [%r, %r]" % (PROJECT + "/zipped.zip", PROJECT + "/zip_z"))
    assert values(ok(nb, "import in_zip\nin_zip.value", "--gather")) == [7] * 3


def test_a_folder_without_modules(nb):
    put("folder_h/rows.csv", "1,2")
    assert nb.ok("import folder_h; len(list(folder_h.__path__))").value == "1"
    assert values(ok(nb, "import folder_h\nlen(list(folder_h.__path__))", "--gather")) == [1, 1, 1]


def test_modules_that_fail_and_that_import_each_other(nb):
    put("raises_i.py", "x = 1\nraise ValueError('at the import')\n")
    told = failed(nb, "import raises_i", "ValueError").shown
    assert f"{PROJECT}/raises_i.py" in told and "at the import" in told and "_code/finders.py" not in told and "frozen" not in told, told
    put("raises_i.py", "value = (\n")
    told = failed(nb, "import raises_i", "SyntaxError").shown
    assert f"{PROJECT}/raises_i.py" in told and "_code/finders.py" not in told and "frozen" not in told, told
    put("raises_i.py", "value = 1\n")
    assert values(ok(nb, "import raises_i\nraises_i.value", "--gather")) == [1, 1, 1]
    put("one_i.py", "import two_i\nvalue = 1\n")
    put("two_i.py", "import one_i\nvalue = 2\n")
    assert values(ok(nb, "import one_i\none_i.two_i.value", "--gather")) == [2, 2, 2]


def test_a_module_with_the_name_of_one_of_pythons(nb):
    put("colorsys.py", "mine = True\n")
    try:
        assert values(ok(nb, "import sys\nsys.modules.pop('colorsys', None)\nimport colorsys\ncolorsys.mine", "--gather")) == [True] * 3
        assert nb.ok("import colorsys; colorsys.mine").value == "True"
    finally:
        os.unlink(os.path.join(PROJECT, "colorsys.py"))


# ---- what shows files ------------------------------------------------------------------------------------------------


def test_a_traceback_shows_the_notebooks_file(nb):
    put("fails_j.py", "def f(x):\n    y = x - 1\n    return 1 / y\n")
    cell = failed(nb, "import fails_j\nfails_j.f(1)", "ZeroDivisionError")
    assert f"{PROJECT}/fails_j.py" in cell.shown and "return 1 / y" in cell.shown and "/code/tree" not in cell.shown
    logged = ok(nb, "import traceback\ntry:\n    fails_j.f(1)\nexcept ZeroDivisionError:\n    print(traceback.format_exc())").stdout
    assert f'File "{PROJECT}/fails_j.py", line 3' in logged and "return 1 / y" in logged and "/code/tree" not in logged


def test_sources(nb):
    put("source_j.py", "def f():\n    return 'text'\n\nclass C:\n    a = 1\n")
    assert values(ok(nb, "import inspect, source_j\ninspect.getsource(source_j.f), inspect.getsource(source_j.C)", "--gather -r 0")) == [
        ("def f():\n    return 'text'\n", "class C:\n    a = 1\n")]


def test_a_breakpoint_in_a_module_stops_ranks_there(fresh):
    needs("debugpy")
    from test_debugger import Debugged

    path = put("stops_j.py", "def f(x):\n    y = x + 1\n    return y\n")
    nb = Debugged()
    try:
        nb.attach()
        nb.fine_ask("setBreakpoints", {"breakpoints": [{"line": 3}], "source": {"path": path}})
        cell = nb.start("%%distribute -n 2 --on ssh:h1,h2\nimport cellspan, stops_j\nstops_j.f(cellspan.rank())")
        threads = nb.wait_stopped(2, LIMIT)
        assert sorted(nb.locals(thread)["y"] for thread in threads) == ["1", "2"]
        sources = [nb.frames(thread)[0]["source"] for thread in threads]
        assert [(source["path"], source.get("sourceReference", 0)) for source in sources] == [(path, 0)] * 2
        assert "y = x + 1" in nb.fine_ask("source", {"source": {"path": path}})["content"]
        nb.go_on(*threads)
        nb.wait(cell).assert_ok()
    finally:
        nb.close()


# ---- processes that ranks start --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing(nb, way):
    put("work_k.py", "import os\ndef f(n):\n    import later_k\n    return later_k.value + n\n")
    put("later_k.py", "value = 10\n")
    code = f"import multiprocessing, work_k\nwith multiprocessing.get_context({way!r}).Pool(2) as pool:\n    got = pool.map(work_k.f, [1, 2])\ngot"
    assert values(ok(nb, code, "--gather")) == [[11, 12]] * 3


def test_a_pool_that_lives_over_cells(nb):
    put("early_k.py", "value = 1\n")
    load = "pool.apply(eval, (\"__import__('{}').value\",))"
    for way in ("fork", "spawn"):
        put(f"late_{way}_k.py", "value = 2\n")
        os.unlink(os.path.join(PROJECT, f"late_{way}_k.py"))
        code = f"import multiprocessing\npool = multiprocessing.get_context({way!r}).Pool(1)\n" + load.format("early_k")
        assert values(ok(nb, code, "--gather")) == [1, 1, 1]
        put(f"late_{way}_k.py", "value = 2\n")
        assert values(ok(nb, load.format(f"late_{way}_k"), "--gather")) == [2, 2, 2]
        ok(nb, "pool.terminate()")


def test_a_python_that_a_rank_starts(nb):
    put("sub_k.py", "value = 4\n")
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import sub_k; print(sub_k.value)'], capture_output=True, text=True).stdout.strip()"
    assert values(ok(nb, code, "--gather")) == ["4"] * 3


def test_workers_of_a_data_loader(fresh, torch):
    nb = fresh()  # the kernel that the other tests share has no torch, which the process that forks ranks would import on both hosts
    put("data_k.py", """\
        import torch

        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, n):
                import rows_k
                return rows_k.row(n)
        """)
    put("rows_k.py", "def row(n):\n    return n * 2\n")
    for way, workers, rank in ("fork", 2, "0-1"), ("spawn", 1, "1"):  # a spawned one imports torch
        code = f"import data_k, torch\nlist(map(int, torch.utils.data.DataLoader(data_k.Rows(), batch_size=None, num_workers={workers}, multiprocessing_context={way!r})))"
        found = values(nb.ok("%%%%distribute -n 2 --on ssh:h2 --gather -r %s\n%s" % (rank, code), limit=LIMIT))
        assert found == [[0, 2, 4, 6]] * (2 if way == "fork" else 1)


# ---- where the files are ---------------------------------------------------------------------------------------------


def test_a_shared_folder_is_used_where_it_is(nb, tmp_path):
    put("shared_l.py", "value = 1\n", str(tmp_path))
    nb.ok(f"import sys; sys.path.append({str(tmp_path)!r})")
    assert values(ok(nb, "import shared_l\nshared_l.value, shared_l.__file__", "--gather")) == [(1, f"{tmp_path}/shared_l.py")] * 3
    put("shared_l.py", "value = 22\n", str(tmp_path))
    assert values(ok(nb, "import importlib\nimportlib.reload(shared_l).value, shared_l.__file__", "--gather")) == [(22, f"{tmp_path}/shared_l.py")] * 3
    nb.ok("sys.path.pop()")


def test_another_file_at_that_path_loses(nb, hosts):
    put("mine_m.py", "whose = 'notebook'\n")
    hosts.exec("h2", "sh", "-c", f"echo \"whose = 'h2'\" > {PROJECT}/mine_m.py")
    cell = ok(nb, "import mine_m\nmine_m.whose", "--gather")
    assert values(cell) == ["notebook"] * 3
    line = f"cellspan: {PROJECT}/mine_m.py on h2 is not the notebook's file: the ranks there use the notebook's"
    assert cell.stderr.count(line) == 1 and line not in ok(nb, "mine_m.whose").stderr


def test_two_notebooks_on_one_host_have_their_own(nb, fresh):
    put("same_n.py", "whose = 'first'\n")
    put("same_n.py", "whose = 'second'\n", OTHER)
    put("early_n/part.py", "import early_n\nwhose = 'beforehand'\n", OTHER)
    put("early_n/__init__.py", "", OTHER)
    other = fresh(cwd=OTHER, env={"CELLSPAN_PRELOAD": "-torch,-numpy,early_n.part,wrong_n"})
    beforehand = "import sys\ngetattr(sys.modules.get('early_n.part'), 'whose', '')"
    assert values(ok(other, beforehand, "--gather")) == ["beforehand"] * 3
    assert values(ok(other, "import same_n\nsame_n.whose", "--gather")) == ["second"] * 3
    assert values(ok(nb, "import same_n\nsame_n.whose", "--gather")) == ["first"] * 3


def test_versions_of_packages_are_compared(fresh, hosts):
    site = os.path.join(OTHER, "lib", "site-packages")
    for host, version in (("here", "2.1"), ("h2", "1.26")):
        info = f"{site}/versioned_v-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\\nName: versioned_v\\nVersion: {version}\\n"
        command = f"mkdir -p {info} && printf '{metadata}' > {info}/METADATA && echo 'value = 1' > {site}/versioned_v.py"
        if host == "here":
            subprocess.run(["sh", "-c", command], check=True)
        else:
            hosts.exec(host, "sh", "-c", command)
    nb = fresh(cwd=OTHER)
    nb.ok(f"import sys; sys.path.append({site!r})\nimport versioned_v")
    cell = failed(nb, "import versioned_v", "ModuleNotFoundError")
    assert cell.stderr.count("cellspan: versioned_v 2.1 here, 1.26 on h2") == 1, cell.stderr
    assert "versioned_v 2.1 is installed on the notebook's machine, but not on h1" in cell.shown
    assert "1.26" not in nb.ok("%%distribute -r 2\nimport versioned_v").stderr


def test_what_went_is_told_once(nb):
    put("told_alone.py", "x = 1")
    put("told_package/__init__.py", "# told\n")
    put("told_package/large.py", "text = %r" % ("x" * (2 << 20)))
    said = ok(nb, "import told_alone, told_package.large\nprint(len(told_package.large.text))").shown
    assert "2097152" in said and "3 modules (2.0 MiB) sent to 2 hosts" in said, said
    assert "sent to" not in ok(nb, "import told_alone, told_package").shown
    told = nb.ok("%ranks code").stdout
    assert "told_alone" in told and "told_package" in told, told


def test_a_package_is_listed_with_what_was_left_out(nb):
    put("pkg_w/__init__.py", "import pkg_w.more\n")
    put("pkg_w/more.py", "x = 1\n")
    put("pkg_w/.env", "secret")
    cell = ok(nb, "import pkg_w")
    assert "2 modules (24 B) sent to 2 hosts" in cell.stderr, (cell.stdout, cell.stderr)
    assert "sent to" not in ok(nb, "import pkg_w").stderr
    rows = nb.ok("%ranks code").stdout.splitlines()
    assert ["pkg_w", "2", "24", "B", "24", "B", PROJECT + "/pkg_w"] in [row.split() for row in rows], rows
    assert f"{PROJECT}/pkg_w/.env (6 B): files of this name are never sent" in rows


def test_no_code(nb):
    put("secret_o.py", "def f(x):\n    return x + 1\n")
    ok(nb, "1")
    told = failed(nb, "import secret_o", "ModuleNotFoundError", "--no-code")
    assert "has no secret_o: ranks there import what is installed there. --no-code of this cell keeps" in told.shown
    nb.ok("import cellspan, secret_o")
    assert nb.ok("cellspan.run(secret_o.f, 1, gather=True)", limit=LIMIT).value == "[2, 2, 2]"  # --no-code was for that cell
    ok(nb, "import secret_o")


# ---- calls, and ranks of their own -----------------------------------------------------------------------------------


def test_functions_of_a_module_are_called(fresh):
    put("calls_w.py", "import inner_w\ndef f(x):\n    import late_w\n    return late_w.value + inner_w.value + x\n")
    put("inner_w.py", "value = 1\n")
    put("late_w.py", "value = 10\n")
    nb = fresh()
    nb.ok("import calls_w, cellspan")
    assert nb.ok("cellspan.run(calls_w.f, 100, n=2, on='ssh:h1,h2', gather=True)", limit=LIMIT).value == "[111, 111]"
    put("late_w.py", "value = 20\n")
    assert nb.ok("list(cellspan.map(calls_w.f, [1, 2, 3]))", limit=LIMIT).value == "[12, 13, 14]"
    assert nb.ok("import threading, cellspan\ngot = []\nt = threading.Thread(target=lambda: got.append(cellspan.run(calls_w.f, 0, gather=True)))\n"
                 "t.start(); t.join(60)\ngot", limit=LIMIT).value == "[[11, 11]]"


def test_processes_beside_the_ranks_and_what_drop_ins_call(nb):
    put("beside_w.py", "value = 5\n")
    cell = nb.ok("%%distribute -n 2 --on ssh:h1,h2 --beside\nimport beside_w\nprint(beside_w.value)", limit=LIMIT)
    assert by_rank(cell.stdout) == {0: ["5"], 1: ["5"]}, cell.stdout
    put("train_w.py", "import beside_w\ndef train(x):\n    import late_w\n    return late_w.value + x\n")
    put("late_w.py", "value = 30\n")
    nb.ok("from cellspan.torch import TorchDistributor\nimport train_w")
    made = "TorchDistributor(num_processes=2, local_mode=False, use_gpu=False)"
    assert nb.ok(f"{made}.run(train_w.train, 3)", limit=LIMIT).value == "33"
    assert nb.ok("from cellspan.horovod import HorovodRunner\nHorovodRunner(np=2, on='ssh:h1,h2').run(train_w.train, x=4)", limit=LIMIT).value == "34"
    script = put("script_w.py", "import beside_w\nprint('in the script', beside_w.value)\n")
    assert "in the script 5" in nb.ok(f"{made}.run({script!r})", limit=LIMIT).shown


# ---- files of --with -------------------------------------------------------------------------------------------------


def test_a_file_that_is_nowhere_is_not_said_to_be_at_home(nb):
    told = failed(nb, "open('nowhere_p.csv')", "FileNotFoundError").shown
    assert "nowhere_p.csv" in told and "--with" not in told, told
    put("nowhere_p.csv", "1")
    assert "--with nowhere_p.csv" in failed(nb, "open('nowhere_p.csv')", "FileNotFoundError").shown


def test_files_of_with(nb):
    put("rows_p.csv", "1,2")
    told = failed(nb, "open('rows_p.csv').read()", "FileNotFoundError").shown
    assert "--with rows_p.csv" in told
    assert values(ok(nb, "open('rows_p.csv').read()", "--gather --with rows_p.csv")) == ["1,2"] * 3
    put("rows_p.csv", "3,4")
    assert values(ok(nb, "open('rows_p.csv').read()", "--gather --with rows_p.csv")) == ["3,4"] * 3
    run = put("run_p.py", "print('it runs')\n")[len(PROJECT) + 1 :]
    assert f"--with {run}" in failed(nb, f"%run {run}", "Exception").shown and f"--with {run}" in ok(nb, f"!python3 {run}").stderr
    assert "it runs" in ok(nb, f"%run {run}", f"--with {run}").stdout
    path = put("beside_p.py", "import pathlib\ndef text():\n    return pathlib.Path(__file__).with_name('beside_p.txt').read_text()\n")[:-3] + ".txt"
    put("beside_p.txt", "x")
    told = failed(nb, "import beside_p\nbeside_p.text()", "FileNotFoundError").shown
    assert f"{path} is not on h1: --with {path} on the cell's first line" in told, told
    assert values(ok(nb, "beside_p.text()", f"--gather --with {path}")) == ["x"] * 3
    put("tables_p/deep/a.txt", "a")
    assert values(ok(nb, "open('tables_p/deep/a.txt').read()", "--gather --with tables_p")) == ["a"] * 3


def test_a_file_of_somebody_else_stays(nb, hosts):
    put("taken_p.csv", "1,2")
    hosts.exec("h1", "sh", "-c", f"echo mine > {PROJECT}/taken_p.csv")
    told = failed(nb, "1", "UsageError", "--with taken_p.csv").shown
    assert f"{PROJECT}/taken_p.csv on h1 is another file, which is not replaced" in told
    assert hosts.exec("h1", "cat", f"{PROJECT}/taken_p.csv").stdout == "mine\n"


# ---- home ------------------------------------------------------------------------------------------------------------


def test_ranks_and_home_import_while_all_hold_import_locks(nb):
    """Each imports a module whose import waits for the others' imports."""
    put("slow_q.py", "import time\ntime.sleep(1)\nimport slower_q\n")
    put("slower_q.py", "import time\ntime.sleep(1)\nvalue = 1\n")
    nb.ok("import threading, importlib\ndef load():\n    importlib.import_module('slow_q')\nthread = threading.Thread(target=load); thread.start()")
    code = "import threading\nthread = threading.Thread(target=__import__, args=('slower_q',)); thread.start()\nimport slow_q\nthread.join(60)\nslow_q.slower_q.value"
    assert values(ok(nb, code, "--gather")) == [1, 1, 1]
    nb.ok("thread.join(60)\nassert not thread.is_alive()")
    put("calls_q.py", f"from IPython import get_ipython\ngot = get_ipython().run_cell_magic('distribute', {ON[13:] + '--gather'!r}, 'import inner_q\\ninner_q.value')\n")
    put("inner_q.py", "value = 3\n")
    assert nb.ok("import calls_q\ncalls_q.got", limit=LIMIT).value == "[3, 3, 3]"  # home holds the import lock of calls_q while ranks ask


# At home: a thread holds the interpreter's lock for some seconds, from when a rank says so; nobody else gets it from when `held` is there.
HOLD = """
import ctypes, os, sys, threading, time
def hold(go, held, seconds, ends):
    while not os.path.exists(go):
        time.sleep(0.05)
    lib, usual = ctypes.PyDLL(None), sys.getswitchinterval()
    sys.setswitchinterval(1000)
    time.sleep(0)  # who has asked for the lock already gets it
    lib.creat(held.encode(), 0o600)
    lib.sleep(seconds)
    if ends:
        lib._exit(1)
    sys.setswitchinterval(usual)
thread = threading.Thread(target=hold, args=({go!r}, {held!r}, {seconds}, {ends}))
thread.start()
"""
ONCE_HELD = "import os, time\nopen({go!r}, 'w').close()\nwhile not os.path.exists({held!r}):\n    time.sleep(0.05)\ntime.sleep(0.5)\n"


def test_home_that_is_busy(nb, tmp_path):
    put("busy_r.py", "value = 1\n")
    put("busier_r.py", "")
    ok(nb, "1")
    paths = {name: str(tmp_path / name) for name in ("go", "held")}
    nb.ok(HOLD.format(seconds=20, ends=False, **paths))
    code = "try:\n    __import__('bu' + 'sy_r')\n    got = ''\nexcept ImportError as error:\n    got = str(error)\ngot"
    got = values(ok(nb, ONCE_HELD.format(**paths) + code, "--gather"))
    assert all("No module named 'busy_r': the notebook has it, but" in text and "10 s" in text for text in got), got
    nb.ok("thread.join()")
    assert values(ok(nb, "import busy_r\nbusy_r.value", "--gather")) == [1, 1, 1]
    paths = {name: str(tmp_path / f"{name}2") for name in ("go", "held")}
    nb.ok(HOLD.format(seconds=20, ends=False, **paths))
    told = failed(nb, ONCE_HELD.format(**paths) + "__import__('busi' + 'er_r')", "ModuleNotFoundError").shown
    assert "_code/finders.py" not in told and "ranks there import" not in told, told
    nb.ok("thread.join()")


def test_home_that_ends_while_a_rank_asks(fresh, tmp_path):
    nb = fresh()
    put("dead_s.py", "")
    ok(nb, "1")
    paths = {name: str(tmp_path / name) for name in ("go", "held")}
    nb.ok(HOLD.format(seconds=3, ends=True, **paths))
    cell = nb.run(ON + "\n" + ONCE_HELD.format(**paths) + "__import__('de' + 'ad_s')", limit=LIMIT)
    assert cell.status == "error"
    assert values(ok(nb, "import dead_s\n1", "--gather")) == [1, 1, 1]


# ---- scripts ---------------------------------------------------------------------------------------------------------


def test_a_script_and_its_neighbours(nb):
    put("train_t/train.py", "import neighbour_t, os\nprint(neighbour_t.value, os.environ['RANK'])\n")
    put("train_t/neighbour_t.py", "value = 'beside'\n")
    cell = nb.ok("%distribute -n 3 --on ssh:h1,h2 train_t/train.py", limit=LIMIT)
    assert by_rank(cell.stdout) == {rank: [f"beside {rank}"] for rank in range(3)}, cell.stdout
    put("train_t/__main__.py", "import neighbour_t, sys\nprint(neighbour_t.value, sys.argv[1:])\nif sys.argv[1:]:\n    raise ValueError(neighbour_t)\n")
    assert by_rank(nb.ok("%distribute -n 3 --on ssh:h1,h2 train_t", limit=LIMIT).stdout) == {rank: ["beside []"] for rank in range(3)}
    told = nb.run("%distribute -n 3 --on ssh:h1,h2 train_t/ fail", limit=LIMIT).assert_error("ValueError").shown
    assert f"{PROJECT}/train_t/__main__.py" in told and "raise ValueError(neighbour_t)" in told, told
    put("module_t/__init__.py", "")
    put("module_t/main.py", "from . import part\nprint(part.value)\n")
    put("module_t/part.py", "value = 'of the package'\n")
    assert "of the package" in nb.ok("%distribute -n 3 --on ssh:h1,h2 -m module_t.main", limit=LIMIT).stdout
    put("module_t/fails.py", "from . import part\n\nraise ValueError(part.value)\n")
    told = nb.run("%distribute -n 3 --on ssh:h1,h2 -m module_t.fails", limit=LIMIT).assert_error("ValueError").shown
    assert f"{PROJECT}/module_t/fails.py" in told and "raise ValueError(part.value)" in told, told


def test_a_script_stands_beside_what_is_beside_it_at_home(nb):
    """Its folder, the one around it and those that it adds to the search path are there, and what --with brings."""
    put("core_u.py", "value = 'around it'\n")
    put("task_u/lib/inner_u.py", "value = 'added'\n")
    path = put("task_u/train.py", """
        import os, sys
        from pathlib import Path
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
        sys.path.append(str(Path(__file__).resolve().parent / "lib"))
        import core_u, inner_u
        print(core_u.value, inner_u.value, sys.argv[0] == __file__, sys.path[1] == str(Path(__file__).parent), sys.argv[1:])
        def f():
            return (Path(__file__).parent / "conf_u.yaml").read_text()
        print(f())
    """)
    put("task_u/conf_u.yaml", "lr: 1")
    run = "%distribute -n 3 --on ssh:h1,h2 {}task_u/train.py a"
    told = nb.run(run.format(""), limit=LIMIT).assert_error("FileNotFoundError").shown
    beside = PROJECT + "/task_u/conf_u.yaml"
    assert f"{beside} is not on h1: --with {beside}" in told and f"{path}:10" in told and 'parent / "conf_u.yaml"' in told, told
    for text in ("lr: 1", "lr: 2", "lr: 2"):
        put("task_u/conf_u.yaml", text)
        said = nb.ok(run.format("--with task_u/conf_u.yaml "), limit=LIMIT).stdout
        assert by_rank(said) == {rank: ["around it added True True ['a']", text] for rank in range(3)}, said
    put("core_u.py", "value = 'edited'\n")
    assert "edited added" in nb.ok(run.format("--with task_u/conf_u.yaml "), limit=LIMIT).stdout


def test_folders_that_ranks_add_to_the_search_path(nb):
    put("adds_v.py", "import os, sys\nsys.path.insert(0, os.path.dirname(__file__) + '/lib_v')\nimport inner_v\nvalue = inner_v.value\n")
    put("lib_v/inner_v.py", "value = 1\n")
    put("lib_v/later_v.py", "value = 2\n")
    put("abs_v/far_v.py", "value = 3\n")
    put("rel_v/near_v/__init__.py", "from . import part\nvalue = part.value\n")
    put("rel_v/near_v/part.py", "value = 4\n")
    assert values(ok(nb, "import adds_v, later_v\nadds_v.value, later_v.value", "--gather")) == [(1, 2)] * 3
    code = f"import sys\nsys.path += [{PROJECT + '/abs_v'!r}, 'rel_v']\nimport far_v, near_v\nfar_v.value, near_v.value"
    assert values(ok(nb, code, "--gather")) == [(3, 4)] * 3
    put("abs_v/far_v.py", "value = 33\n")
    assert values(ok(nb, "import importlib\nimportlib.reload(far_v).value", "--gather")) == [33] * 3
    child = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import sys; sys.path.append(\"%s\"); import child_v; print(child_v.value)'], capture_output=True, text=True).stdout"
    put("abs_v/child_v.py", "value = 5\n")
    assert values(ok(nb, child % (PROJECT + "/abs_v"), "--gather")) == ["5\n"] * 3
