# SPDX-License-Identifier: BSD-3-Clause
"""Python finds the notebook's modules on another machine, before those that this machine has."""

from __future__ import annotations

import importlib
import importlib.resources
import inspect
import json
import linecache
import logging
import os
import pickle
import pkgutil
import sys
import threading
import traceback
import warnings

import pytest
from cellspan._code import finders
from cellspan._code.finders import Project, home_path, install
from cellspan._code.tree import Tree
from notebook_files import Files

ROOT = "/nowhere/project"
BEFORE = set(sys.modules)


@pytest.fixture
def home():
    return Files()


@pytest.fixture
def project(home, tmp_path, monkeypatch):
    """A Project whose finders are installed, and what the tests leave taken away."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "path_hooks", list(sys.path_hooks))
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)
    tree = Tree(str(tmp_path / "code"), home.find, "gpu2")
    made = Project(tree.root, tree.bring, tree.find_folder, sys.path)
    install(made)
    yield made
    finders.Loader.root = ""
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    importlib.invalidate_caches()


def offer(project, home, files, names=(), namespaces=(), **others):
    home.files.update({ROOT + "/" + name: text for name, text in files.items()})
    listing = {"names": {name: [ROOT] for name in names}, "namespaces": {name: [ROOT] for name in namespaces}, **others}
    project.take(listing)
    return listing


def test_a_module_and_its_package(project, home):
    files = {"qhelper.py": "a = 1", "qpkg/__init__.py": "from . import one\nfrom .sub.two import b", "qpkg/one.py": "import qhelper\na = qhelper.a",
             "qpkg/sub/__init__.py": "", "qpkg/sub/two.py": "from ..one import a as b", "qpkg/data.json": "[1]"}
    offer(project, home, files, ["qhelper", "qpkg"])
    import qpkg.sub.two

    assert (qpkg.one.a, qpkg.b) == (1, 1) and qpkg.__file__ == project.root + ROOT + "/qpkg/__init__.py"
    assert importlib.resources.files("qpkg").joinpath("data.json").read_text() == "[1]"
    assert json.loads(pkgutil.get_data("qpkg", "data.json")) == [1]
    assert [one.name for one in pkgutil.iter_modules(qpkg.__path__)] == ["one", "sub"]


def test_the_notebooks_module_comes_before_one_of_this_machine(project, home, tmp_path):
    own = tmp_path / "site-packages"
    own.mkdir()
    (own / "qutils.py").write_text("whose = 'here'")
    (own / "qempty").mkdir()
    sys.path.insert(0, str(own))
    offer(project, home, {"qutils.py": "whose = 'home'", "qempty/__init__.py": "whose = 'home'"}, ["qutils", "qempty"])
    import qempty
    import qutils

    assert qutils.whose == qempty.whose == "home"


def test_names_that_home_does_not_list_are_not_asked_for(project, home):
    offer(project, home, {"qhelper.py": ""}, ["qhelper"])
    for name in ("qnever", "qhelper.never"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)
    assert all(question.get("name") != "qnever" for _, question in home.asked)


def test_a_listing_that_was_cut_is_asked_about_once_in_a_cell(project, home):
    offer(project, home, {"qlate.py": "a = 1"}, [], incomplete=True)
    for _ in range(3):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("qabsent")
    assert home.asked == [("tree", {"name": "qabsent"})]
    home.files[ROOT + "/qabsent.py"] = ""
    project.cell_begins()
    importlib.import_module("qabsent")
    assert importlib.import_module("qlate").a == 1


def test_a_folder_without_init_is_used_if_nothing_else_has_the_name(project, home, tmp_path):
    (tmp_path / "qmodule.py").write_text("whose = 'here'")
    (tmp_path / "qspace").mkdir()
    (tmp_path / "qspace" / "own.py").write_text("a = 'here'")
    sys.path.insert(0, str(tmp_path))
    offer(project, home, {"qspace/one.py": "a = 'home'", "qmodule/one.py": "", "qalone/deep/one.py": "a = 'home'"}, namespaces=["qspace", "qmodule", "qalone"])
    import qalone.deep.one
    import qmodule
    import qspace.one
    import qspace.own

    assert (qspace.one.a, qspace.own.a, qalone.deep.one.a, qmodule.whose) == ("home", "here", "home", "here")


def test_a_folder_without_modules_is_a_package(project, home):
    home.manifest = lambda root, name: {"roots": [root], "files": [], "digest": "d", "left": []}
    project.take({"namespaces": {"qfolder": [ROOT]}})
    import qfolder

    assert list(qfolder.__path__) == [project.root + ROOT + "/qfolder"]


def test_a_package_over_two_folders_may_get_a_third(project, home):
    home.files.update({"/nowhere/a/qspace/one.py": "", "/nowhere/b/qspace/two.py": "", "/nowhere/c/qspace/three.py": ""})
    project.take({"namespaces": {"qspace": ["/nowhere/a", "/nowhere/b"]}})
    import qspace.one
    import qspace.two

    project.take({"namespaces": {"qspace": ["/nowhere/a", "/nowhere/b", "/nowhere/c"]}})
    project.renew("qspace")
    importlib.invalidate_caches()
    importlib.import_module("qspace.three")
    assert len(qspace.__path__) == 3


def test_a_package_that_joins_its_folders(project, home):
    text = "import pkgutil\n__path__ = pkgutil.extend_path(__path__, __name__)\n"
    home.files.update({"/nowhere/a/qplug/__init__.py": text, "/nowhere/a/qplug/one.py": "", "/nowhere/b/qplug/two.py": "v = 2\n"})
    project.take({"names": {"qplug": ["/nowhere/a", "/nowhere/b"]}})
    import qplug.two

    assert sorted(found.name for found in pkgutil.iter_modules(qplug.__path__)) == ["one", "two"] and qplug.two.v == 2
    assert importlib.reload(qplug).two.v == 2 and len(qplug.__path__) == 2


def test_an_edited_module_is_loaded_again(project, home):
    for value in (1, 2, 3):  # of the same size, within a second
        offer(project, home, {"qhelper.py": f"def f():\n    return {value}\n"}, ["qhelper"])
        project.digests = {"qhelper": home.digest("qhelper")}
        project.entry("qhelper")
        qhelper = importlib.reload(sys.modules["qhelper"]) if "qhelper" in sys.modules else importlib.import_module("qhelper")
        assert qhelper.f() == value and inspect.getsource(qhelper.f) == f"def f():\n    return {value}\n"


def test_bytecode_of_an_earlier_process_has_homes_path_too(project, home, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    offer(project, home, {"qhelper.py": "def f():\n    return [lambda: 1]\n"}, ["qhelper"])
    for _ in range(2):
        qhelper = importlib.import_module("qhelper")
        assert {code.co_filename for code in (qhelper.f.__code__, qhelper.f()[0].__code__)} == {ROOT + "/qhelper.py"}
        del sys.modules["qhelper"]
    assert qhelper.__cached__.startswith(project.root) and os.path.exists(qhelper.__cached__)


def test_bytecode_in_a_folder_of_its_own(project, home, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    offer(project, home, {"qhelper.py": "a = 1"}, ["qhelper"])
    assert importlib.import_module("qhelper").a == 1
    assert [path.name[:7] for path in (tmp_path / "cache").rglob("*.pyc")] == ["qhelper"]
    assert not (tmp_path / "cache" / "nowhere").exists()  # that is for a file at home's path here


def test_what_shows_frames_shows_homes_path_and_its_lines(project, home, caplog):
    text = "import logging\nimport warnings\n\ndef f():\n    logging.warning('x')\n    warnings.warn('y')\n    raise ValueError('here')\n"
    offer(project, home, {"qhelper.py": text}, ["qhelper"])
    import qhelper

    with warnings.catch_warnings(record=True) as noted, pytest.raises(ValueError) as raised:
        warnings.simplefilter("always")
        qhelper.f()
    assert noted[0].filename == caplog.records[0].pathname == ROOT + "/qhelper.py" and caplog.records[0].levelno == logging.WARNING
    shown = "".join(traceback.format_exception(raised.type, raised.value, raised.value.__traceback__))
    assert f'File "{ROOT}/qhelper.py", line 7' in shown and "raise ValueError('here')" in shown
    linecache.checkcache()
    assert linecache.getline(ROOT + "/qhelper.py", 4) == "def f():\n"
    assert inspect.getsource(qhelper.f).startswith("def f():") and inspect.getsourcefile(qhelper) == qhelper.__file__
    assert home_path(qhelper.__file__) == ROOT + "/qhelper.py" and home_path("/elsewhere/x.py") == "/elsewhere/x.py"


def test_the_lines_of_another_file_at_homes_path_are_not_shown(project, home, tmp_path):
    (tmp_path / "qhelper.py").write_text("another = 1\n")
    home.files[f"{tmp_path}/qhelper.py"] = "def f():\n    raise ValueError\n"
    project.take({"names": {"qhelper": [str(tmp_path)]}})
    import qhelper

    with pytest.raises(ValueError) as raised:
        qhelper.f()
    assert "".join(traceback.format_tb(raised.value.__traceback__)).rstrip().endswith("raise ValueError")
    linecache.checkcache()
    assert linecache.getline(f"{tmp_path}/qhelper.py", 2) == "    raise ValueError\n"


def test_a_module_that_fails_names_homes_file(project, home):
    offer(project, home, {"qbroken.py": "a = (\n", "qraises.py": "1 / 0\n"}, ["qbroken", "qraises"])
    with pytest.raises(SyntaxError) as raised:
        importlib.import_module("qbroken")
    assert raised.value.filename == ROOT + "/qbroken.py"
    assert not any(frame.filename.endswith("_code/finders.py") for frame in traceback.extract_tb(raised.value.__traceback__))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as failed:
            exec("import qraises")
        shown = [frame.filename for frame in traceback.extract_tb(failed.value.__traceback__)]
        assert shown[-1] == ROOT + "/qraises.py" and not any(path.endswith("_code/finders.py") or "frozen" in path for path in shown), shown


def test_modules_that_import_each_other(project, home):
    offer(project, home, {"qone.py": "import qtwo\na = 1\n", "qtwo.py": "import qone\nb = 2\n"}, ["qone", "qtwo"])
    assert importlib.import_module("qone").qtwo.b == 2


def test_threads_that_import_each_others_modules(project, home):
    offer(project, home, {"qone.py": "import time\ntime.sleep(0.05)\nimport qtwo\n", "qtwo.py": "import time\ntime.sleep(0.05)\nimport qone\n"}, ["qone", "qtwo"])
    failed = []

    def load(name):
        try:
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=load, args=(name,)) for name in ("qone", "qtwo")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed and not any(thread.is_alive() for thread in threads)


def test_home_that_is_busy_is_an_import_error_that_says_so(project, home):
    def late(what, question):
        raise TimeoutError

    offer(project, home, {"qhelper.py": ""}, ["qhelper"])
    home.instead = late
    with pytest.raises(ModuleNotFoundError, match="No module named 'qhelper': the notebook has it, but .*busy") as raised:
        importlib.import_module("qhelper")
    assert raised.value.name == "qhelper" and raised.value.__suppress_context__
    home.instead = None
    importlib.import_module("qhelper")


def test_a_name_that_home_has_lost_since_it_was_listed(project, home, tmp_path):
    offer(project, home, {}, ["qhelper"])
    (tmp_path / "qhelper.py").write_text("whose = 'here'")
    sys.path.insert(0, str(tmp_path))
    assert importlib.import_module("qhelper").whose == "here"


def test_instances_travel_by_reference(project, home):
    offer(project, home, {"qmodel.py": "class Model:\n    def __init__(self):\n        self.w = 3\n"}, ["qmodel"])
    sent = b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00cqmodel\nModel\n)\x81}\x8c\x01wK\x03sb."
    assert pickle.loads(sent[:2] + sent[11:]).w == 3


def test_an_editable_install_whose_files_have_other_names(project, home):
    home.files.update({"/nowhere/lib/source/qedit/__init__.py": "a = 1", "/nowhere/lib/built/core.py": "b = 2"})
    entry = {"roots": ["/nowhere/lib"], "files": [], "digest": "d", "left": []}
    for path in home.files:
        entry["files"].append([path, len(home.files[path]), __import__("notebook_files").sha(home.files[path].encode()), 0o644])
    home.manifest = lambda root, name: entry
    project.take({"names": {"qedit": ["/nowhere/lib"]}, "redirects": {"qedit": "/nowhere/lib/source/qedit", "qedit.core": "/nowhere/lib/built/core.py"}})
    import qedit.core

    assert (qedit.a, qedit.core.b) == (1, 2) and qedit.core.__spec__.origin == project.root + "/nowhere/lib/built/core.py"


def test_a_file_of_home_that_is_a_zip(project, home, tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as file:
        file.writestr("qzipped.py", "a = 1")
    whole = (tmp_path / "lib.zip").read_bytes()
    sha = __import__("notebook_files").sha
    home.manifest = lambda root, name: {"roots": [root], "files": [["/nowhere/lib.zip", len(whole), sha(whole), 0o644]], "digest": "d", "left": []}
    home._bytes = lambda hashes: (json.dumps({"files": [[0, 0, len(whole)]], "gone": []}), whole)
    project.take({"names": {"qzipped": ["/nowhere/lib.zip"]}})
    assert importlib.import_module("qzipped").a == 1


def test_nothing_is_found_when_the_code_stays_at_home(project, home):
    offer(project, home, {"qhelper.py": "", "qlate/one.py": ""}, ["qhelper"], ["qlate"], incomplete=True)
    project.take(None)
    for name in ("qhelper", "qlate", "qother"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)
    assert home.asked == []


def test_an_optional_dependency_costs_no_question(project, home):
    offer(project, home, {"qhelper.py": "try:\n    import qturbo\nexcept ImportError:\n    qturbo = None\n"}, ["qhelper"])
    import qhelper

    assert qhelper.qturbo is None and [question.get("name") for what, question in home.asked if what == "tree"] == ["qhelper"]


# ---- folders that this process adds to its search path ---------------------------------------------------------------


def added_entries(project, tmp_path):
    """{name of a module: an entry of sys.path that leads to its folder at home}, in a process that runs in /…/runs/one."""
    return {
        "qtree": project.root + ROOT + "/jobs/../qtree_lib",
        "qabsolute": ROOT + "/qabsolute_lib",
        "qrelative": "../qrelative_lib",
        "qmapped": str(tmp_path / "runs" / "qmapped_lib"),  # os.path.abspath("../qmapped_lib")
        "qaround": "..",
    }


def test_added_folders_lead_home(project, home, tmp_path, monkeypatch):
    (tmp_path / "runs" / "one").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "runs" / "one")
    entries = added_entries(project, tmp_path)
    home.files.update({f"{ROOT}/{name}_lib/{name}.py": f"a = '{name}'\n" for name in entries if name != "qaround"})
    offer(project, home, {"qaround.py": "a = 'qaround'\n"}, here=ROOT + "/notebooks", folders=[ROOT + "/notebooks"])
    for name, entry in entries.items():
        sys.path.append(entry)
        assert importlib.import_module(name).a == name
        assert home_path(sys.modules[name].__file__).startswith(ROOT + "/") and sys.modules[name].__file__.startswith(project.root)
    asked = len(home.asked)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("qnobodys")
    assert len(home.asked) == asked  # what is in these folders is known


def test_the_order_of_the_search_path_holds_for_added_folders(project, home, tmp_path):
    home.files[ROOT + "/lib/qboth.py"] = "whose = 'added'"
    offer(project, home, {"qboth.py": "whose = 'listed'"}, ["qboth"], here=ROOT, folders=[ROOT])
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "qboth.py").write_text("whose = 'installed'")
    own, added = ["", str(tmp_path / "site-packages")], project.root + ROOT + "/lib"
    for path, whose in (([added, *own], "added"), ([*own, added], "listed"), (["", added], "listed")):
        sys.path[:] = path
        sys.modules.pop("qboth", None)
        assert importlib.import_module("qboth").whose == whose
    project.take({"names": {}, "here": ROOT, "folders": [ROOT]})
    sys.modules.pop("qboth")
    sys.path[:] = [*own, added]
    assert importlib.import_module("qboth").whose == "installed"


def test_an_added_folder_of_nobody_is_asked_for_once(project, home):
    offer(project, home, {}, here=ROOT, folders=[ROOT])
    sys.path.append("/nobodys/lib")
    for _ in range(3):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("qnobodys")
    assert [question["folders"][0] for what, question in home.asked] == ["/nobodys/lib"]


def test_pythons_own_modules_are_asked_for_only_if_the_folder_comes_before_them(project, home):
    home.files[ROOT + "/lib/colorsys.py"] = "mine = True\n"
    offer(project, home, {}, here=ROOT, folders=[ROOT])
    own = sys.modules.pop("colorsys", None)
    sys.path.append(ROOT + "/lib")
    assert not hasattr(importlib.import_module("colorsys"), "mine")
    assert home.asked == [] or not hasattr(sys, "stdlib_module_names")
    sys.path.insert(0, sys.path.pop())
    del sys.modules["colorsys"]
    assert importlib.import_module("colorsys").mine
    del sys.modules["colorsys"]
    if own is not None:
        sys.modules["colorsys"] = own


def test_what_is_in_an_added_folder_is_asked_for_again_only_when_home_says_that_it_has_changed(project, home):
    lib = ROOT + "/lib"

    def cell(*names):
        home.asked.clear()
        listing = {"here": ROOT, "folders": [ROOT]}
        project.take({**listing, "states": home.looked(lib, "/nobodys")} if home.first_there([lib]) else listing)
        project.cell_begins()
        for name in names:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                pass
        return [question["folders"] for what, question in home.asked if "folders" in question]

    offer(project, home, {})
    sys.path += [lib, "/nobodys"]
    home.files[lib + "/qone.py"] = ""
    assert cell("qone", "qnone", "qother") == [[lib], ["/nobodys"]]
    assert cell("qnone", "qother") == []
    home.files[lib + "/qtwo.py"] = ""
    assert cell("qtwo", "qother") == [[lib]] and "qtwo" in sys.modules
    home.files["/nobodys/qthree.py"] = ""
    assert cell("qthree") == [["/nobodys"]] and "qthree" in sys.modules
    project.take({"here": ROOT, "folders": [ROOT], "home": "another process, which has not been asked"})
    assert project.added._known == {}


def test_what_finds_its_files_beside_a_frame_is_led_here(project, home, monkeypatch):
    from cellspan._worker import library_fixes

    fake = type(sys)("hydra._internal.utils")
    fake.detect_calling_file_or_module_from_task_function = lambda task: (task.__code__.co_filename, None)
    fake.detect_calling_file_or_module_from_stack_frame = lambda depth: (inspect.stack()[depth].filename, None)
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    library_fixes._lead_hydra()
    text = "def task():\n    pass\ndef found(utils):\n    return utils.detect_calling_file_or_module_from_stack_frame(1)\n"
    offer(project, home, {"qhydra.py": text}, ["qhydra"])
    import qhydra

    path = project.root + ROOT + "/qhydra.py"
    assert qhydra.found(fake) == fake.detect_calling_file_or_module_from_task_function(qhydra.task) == (path, None)
    assert fake.detect_calling_file_or_module_from_task_function(added_entries) == (__file__, None)
