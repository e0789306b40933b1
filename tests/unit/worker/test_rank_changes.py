# SPDX-License-Identifier: BSD-3-Clause
"""A rank on another machine: what has changed since it imported a module, and what only seems to have."""

from __future__ import annotations

import importlib
import json
import os
import sys

import pytest
from cellspan._code import children
from cellspan._worker import reloads
from test_code_rank import ROOT, code, home, listing, make, python  # noqa: F401 - fixtures, too


def is_now(module):
    found = os.stat(sys.modules[module].__file__)
    return found.st_ino, found.st_mtime_ns


def test_what_comes_again_as_it_was_stays_as_it_is(code, home):  # noqa: F811
    spaces = [ROOT + "/one", ROOT + "/two"]
    home.files.update({spaces[0] + "/qspace/a.py": "", spaces[1] + "/qspace/b.py": ""})
    imported = reloads.Imported()

    def take(names, folders=spaces[:1], here=ROOT):
        listing = {"names": {name: [ROOT] for name in names}, "namespaces": {"qspace": folders}}
        digests = {name: home.digest(name, *roots) for part in listing.values() for name, roots in part.items()}
        asked = len(home.asked)
        code.take({**listing, "digests": digests, "here": here})
        code.before_cell()
        return [what for what, _ in home.asked[asked:]]

    assert take(["qhelper"]) == ["tree", "files", "tree", "files"]
    importlib.import_module("qhelper"), importlib.import_module("qspace.a")
    assert imported.newer() == []
    seen = is_now("qspace.a")
    assert take(["qhelper"], spaces) == ["tree"] and is_now("qspace.a") == seen, "its package has one more folder"
    assert take([], spaces, "/nowhere") == ["tree"] and is_now("qhelper") and imported.newer() == [], "home is in another folder"
    assert take(["qhelper"], spaces) == []
    kept = home.files.pop(ROOT + "/qhelper.py")
    assert take([], spaces) == ["tree"] and not os.path.exists(sys.modules["qhelper"].__file__)
    home.files[ROOT + "/qhelper.py"] = kept
    take(["qhelper"], spaces)
    assert os.path.exists(sys.modules["qhelper"].__file__) and imported.newer() == []
    home.files[ROOT + "/qhelper.py"] = "a = 2\n"
    take(["qhelper"], spaces)
    assert imported.newer() == ["qhelper"]
    home.files[ROOT + "/qhelper.py"] = "a = 1\n"
    take(["qhelper"], spaces)
    assert imported.newer() == []


def test_a_module_that_with_names_too_stays_as_it_is(code, home):  # noqa: F811
    code.take(listing(home, "qpkg"))
    importlib.import_module("qpkg")
    seen = is_now("qpkg")
    code.take(listing(home, "qpkg", **{"with": {ROOT + "/qpkg": home.digest("qpkg")}}))
    code.before_cell()
    assert os.path.exists("qpkg/__init__.py") and is_now("qpkg") == seen


def test_a_module_in_place_that_is_changed_on_this_machine_alone(code, home, tmp_path):  # noqa: F811
    root = tmp_path / "clone"
    for name in ("qsame.py", "qboth/__init__.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("a = 1\n")
        home.files[f"{root}/{name}"] = "a = 1\n"
    (root / "qboth/d.txt").write_text("one")
    home.files[f"{root}/qboth/d.txt"] = "one"
    imported = reloads.Imported()
    imported.file_now = code.file_now

    def take():
        names = {"qsame": [str(root)], "qboth": [str(root)]}
        code.take({"names": names, "namespaces": {}, "digests": {name: home.digest(name, *roots) for name, roots in names.items()}})
        return code.before_cell()

    assert take() == [] and importlib.import_module("qsame").__file__ == f"{root}/qsame.py" and importlib.import_module("qboth")
    assert imported.newer() == []
    for name in ("qsame.py", "qboth/d.txt"):
        (root / name).write_text("a = 999\n")
    assert sorted(line.split(" on ")[0] for line in take() if "any more" in line) == [f"{root}/qboth/d.txt", f"{root}/qsame.py"]
    assert imported.newer() == [] and python("import qsame; print(qsame.a)") == "1"
    assert take() == [] and importlib.reload(sys.modules["qsame"]).a == 1 and sys.modules["qsame"].__file__ != f"{root}/qsame.py"
    imported.note()
    (root / "qsame.py").write_text("a = 22\n")
    home.files[f"{root}/qsame.py"] = "a = 22\n"
    take()
    assert imported.newer() == ["qsame"] and importlib.reload(sys.modules["qsame"]).a == 22, "the tree's file is gone"


def test_another_process_of_home_does_not_know_what_is_here(code, home):  # noqa: F811
    home.files[ROOT + "/qlate.py"] = "a = 1\n"

    def take(process, **digests):
        home.asked.clear()
        names = {"qhelper": [ROOT], "qpkg": [ROOT], "qlate": [ROOT]}
        code.take({"names": names, "namespaces": {}, "digests": digests, "home": process})
        code.before_cell()

    take("one")
    assert importlib.import_module("qhelper").a == 1 and python("import qlate; print(qlate.a)") == "1" and len(home.asked) == 3
    take("one")
    assert python("import qhelper; print(qhelper.a)") == "1" and home.asked == []
    for name in ("qhelper", "qlate"):
        home.files[f"{ROOT}/{name}.py"] = "a = 22\n"
    take("two")
    assert importlib.reload(sys.modules["qhelper"]).a == 22 and len(home.asked) == 2
    assert python("import qlate; print(qlate.a)") == "22", "nobody has imported it here"
    take("two", qhelper=home.digest("qhelper"))
    take("two")
    assert home.asked == []

    def late(what, question):
        raise TimeoutError

    for instead, said in ((late, 1), (late, 1), (None, 0)):
        home.instead = instead
        code.take({"names": {"qhelper": [ROOT]}, "namespaces": {}, "digests": {}, "home": "three"})
        assert len([line for line in code.before_cell() if "may be older" in line]) == said
    home.files[ROOT + "/qhelper.py"] = "a = 3\n"
    new, home.instead = listing(home, "qhelper"), late
    code.take(new)
    assert len(code.before_cell()) == 1
    home.instead = None
    assert code.before_cell() == [] and importlib.reload(sys.modules["qhelper"]).a == 3, "no new listing has come"


def beside(module, name="d.txt"):
    with open(os.path.join(os.path.dirname(sys.modules[module].__file__), name), encoding="utf-8") as file:
        return file.read()


def test_files_of_an_added_folder_stay_and_are_followed_when_home_is_another_process(code, home):  # noqa: F811
    lib = "/nowhere/lib"

    def take(process, added=()):
        code.take({**listing(home, here=ROOT, added=added), "home": process})

    home.files.update({lib + "/qadded/__init__.py": "a = 1\n", lib + "/qadded/d.txt": "one"})
    take("one")
    sys.path.append(lib)
    assert importlib.import_module("qadded").a == 1 and beside("qadded") == "one"
    take("one", [["qadded", lib, home.digest("qadded", lib)]])
    home.files[lib + "/qadded/__init__.py"] = "a = 22\n"
    take("two")
    assert importlib.reload(sys.modules["qadded"]).a == 22 and beside("qadded") == "one"
    take("two", [["qadded", lib, ""]])  # it changes while home reads it
    assert beside("qadded") == "one"
    home.instead, instead = lambda *question: ("{}", None), home.instead  # a folder of which this home tells nothing
    take("three")
    assert beside("qadded") == "one"
    home.instead = instead
    take("three", [["qadded", lib, home.digest("qadded", lib)]])
    for path in (lib + "/qadded/__init__.py", lib + "/qadded/d.txt"):
        del home.files[path]
    take("three")
    assert not os.path.exists(sys.modules["qadded"].__file__), "home has removed it"


def test_files_of_a_module_stay_when_home_goes_to_another_folder(code, home):  # noqa: F811
    home.files[ROOT + "/qpkg/d.txt"] = "one"
    code.take(listing(home, "qpkg", here=ROOT, folders=[ROOT]))
    importlib.import_module("qpkg")
    elsewhere = {"names": {}, "here": "/nowhere", "folders": ["/nowhere"]}
    for _ in range(2):
        code.take(elsewhere)
        assert beside("qpkg") == "one"
    home.files[ROOT + "/qpkg/d.txt"] = "two"
    code.take({**elsewhere, "added": [["qpkg", ROOT, home.digest("qpkg")]]})
    assert beside("qpkg") == "two", "home tells of what a rank has asked for"


@pytest.mark.parametrize("when", ["home is restarted", "home goes elsewhere", "home is late", "the user interrupts", "no code goes"])
def test_what_home_removes_meanwhile_is_removed(code, home, when):  # noqa: F811
    def fail(what, question):
        if what == "tree":
            raise KeyboardInterrupt if when == "the user interrupts" else TimeoutError
        return answered(home, what, question)

    at = {**listing(home, "qhelper", "qpkg", here=ROOT, folders=[ROOT]), "home": "one"}
    code.take(at)
    code.before_cell()
    importlib.import_module("qpkg"), importlib.import_module("qhelper")
    for path in [path for path in home.files if "/qpkg/" in path]:
        del home.files[path]
    now = {**at, "names": {"qhelper": [ROOT]}, "digests": {"qhelper": home.digest("qhelper")}}
    if when in ("home is late", "the user interrupts"):
        home.instead = fail
        try:
            code.take(now)
            code.before_cell()
        except KeyboardInterrupt:
            pass
        home.instead = None
        assert os.path.exists(sys.modules["qpkg"].__file__)
    else:
        home.instead = lambda what, question: (('{"gone": true}', None) if question.get("name") == "qpkg" else answered(home, what, question))
        if when == "no code goes":
            code.take(None)
        code.take({**now, "home": "two"} if when == "home is restarted" else {**now, "here": "/nowhere"} if when == "home goes elsewhere" else now)
    asked = len(home.asked)
    code.before_cell()
    assert not os.path.exists(sys.modules["qpkg"].__file__) and os.path.exists(sys.modules["qhelper"].__file__)
    assert len(home.asked) - asked == (when in ("home is late", "the user interrupts"))
    code.before_cell()
    assert len(home.asked) - asked <= 1, "it has answered"


def answered(home, what, question):  # noqa: F811
    instead, home.instead = home.instead, None
    try:
        return home.find(what, json.dumps(question))
    finally:
        home.asked.pop()
        home.instead = instead


def test_a_fork_has_no_added_folder_either_when_the_code_stays_at_home(code, home):  # noqa: F811
    home.files["/nowhere/lib/qsecret.py"] = "a = 1\n"
    code.take(listing(home, here=ROOT))
    code.take(None)
    asked = len(home.asked)
    sys.path.append("/nowhere/lib")
    pid = os.fork()
    if not pid:
        status = 1
        try:
            importlib.import_module("qsecret")
        except ModuleNotFoundError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0 and len(home.asked) == asked


@pytest.mark.parametrize("question", [{"folders": ["/nowhere/lib"]}, {"name": "qhelper", "roots": [ROOT], "digest": "", "home": ""}])
def test_a_rank_whose_code_stays_at_home_answers_no_child(code, home, question, tmp_path):  # noqa: F811
    code.take(listing(home))
    code.take(None)
    asked = len(home.asked)
    with pytest.raises(children.Unavailable, match="at home"):
        children.ask(str(tmp_path / "runtime" / "rank-1" / "code"), question)
    assert len(home.asked) == asked
