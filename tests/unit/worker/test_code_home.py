# SPDX-License-Identifier: BSD-3-Clause
"""What home tells ranks of the user's own modules, and what it answers."""

import _imp
import builtins
import hashlib
import importlib._bootstrap as bootstrap
import importlib.util
import os
import sys
import threading
import types
import zipfile

import pytest

from cellspan._code import code_home, listing, manifest, package_versions
from cellspan._code.code_home import Bad, CodeHome
from cellspan._code.entries import new_name
from files import write


class Project:
    """A folder with a CodeHome that has it on its search path."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.path, self.modules, self.finders = folder, [""], {}, []
        monkeypatch.chdir(folder)
        self.home = CodeHome(lambda: self.path, lambda: self.finders, lambda: self.modules)

    def __str__(self):
        return str(self.folder)

    def part(self, text="", **kw):
        return self.home.part(text, **kw)[0]

    def digests(self, text="", **kw):
        return self.part(text, **kw)["digests"]

    def tree(self, **content):
        return self.home.answer("tree", content)[0]

    def names(self, name):
        return [os.path.relpath(row[0], self.folder) for row in self.tree(name=name)["files"]]

    def imported(self, name):
        module = self.modules[name] = types.ModuleType(name)
        module.__file__ = str(self.folder / f"{name}.py")


@pytest.fixture
def project(tmp_path, monkeypatch):
    return Project(tmp_path, monkeypatch)


# ---- FOLLOW ----------------------------------------------------------------------------------------------------------


def test_the_part_is_the_same_object_until_something_changes(project):
    write(project.folder, "helper.py", "pkg/__init__.py", "data/x.csv")
    part = project.part("import helper")
    assert part["names"] == {"helper": [str(project)], "pkg": [str(project)]} and part["namespaces"] == {"data": [str(project)]}
    assert list(part["digests"]) == ["helper"]
    assert project.part("import helper") is part and project.part("x = 1") is part
    write(project.folder, helper="x = 1")
    assert project.part("x = 1")["digests"] != part["digests"]


def test_a_large_package_goes_with_cells_that_need_it(project):
    write(project.folder, "small.py", helper="import fat", fat="x = %r" % ("x" * (2 << 20)))
    assert "unneeded" not in project.part("import helper, small")
    part = project.part("x = 1")
    assert part["unneeded"] == ["fat"] and sorted(part["digests"]) == ["fat", "helper", "small"]
    assert project.part("import small") is part and project.part() is part
    assert "unneeded" not in project.part("import fat")
    project.tree(name="fat", roots=[str(project)])  # a rank has asked, perhaps before a cell that was interrupted
    assert project.part()["unneeded"] == ["fat"]
    project.imported("helper")
    assert "unneeded" not in project.part()


def test_a_large_package_goes_with_cells_whose_functions_import_it(project):
    write(project.folder, fat="x = %r" % ("x" * (2 << 20)))
    assert list(project.digests(imports={"fat"})) == ["fat"] and "unneeded" not in project.part(imports={"fat"})
    assert project.part("x = 1")["unneeded"] == ["fat"]


def test_what_home_has_imported_goes_before_it_is_asked_for(project):
    write(project.folder, "helper.py", "other.py")
    project.imported("helper")
    assert list(project.digests()) == ["helper"]
    project.modules["other"] = types.ModuleType("other")  # of another place
    project.modules["other"].__file__ = "/elsewhere/other.py"
    assert list(project.digests()) == ["helper"]


def test_a_module_that_is_older_at_home_than_on_ranks_is_told_once(project):
    write(project.folder, helper="version = 1")
    project.imported("helper")
    project.modules["helper"].__spec__ = object()
    assert project.home.part("import helper")[1] == []
    write(project.folder, helper="version = 20")
    told = project.home.part("import helper")[1]
    assert len(told) == 1 and told[0].startswith(f"{project}/helper.py has changed since the notebook imported it") and "reload(helper)" in told[0]
    assert project.home.part("import helper")[1] == [] == project.home.part("helper")[1]
    write(project.folder, helper="version = 300")
    assert project.home.part("import helper", reloads=True)[1] == [], "%autoreload brings it"
    project.modules["helper"].__spec__ = object()  # loaded again
    write(project.folder, "other.py")
    project.modules["more"] = types.ModuleType("more")
    assert project.home.part("import helper, other")[1] == []


def test_a_module_that_was_edited_before_the_first_listing_is_told(project, monkeypatch):
    from cellspan._capture import class_versions

    write(project.folder, helper="version = 2")
    project.imported("helper")
    monkeypatch.setattr(class_versions, "is_older", lambda name: name == "helper")
    told = project.home.part("import helper")[1]
    assert len(told) == 1 and "has changed since the notebook imported it" in told[0]
    assert project.home.part("import helper")[1] == []


def test_what_modules_import_goes_with_them(project):
    write(project.folder, "c.py", "d.py", a="import b, numpy", b="def f():\n    from c import x\n    import a")
    assert sorted(project.digests("from a import f")) == ["a", "b", "c"]


def test_a_module_that_was_just_written_goes_with_the_next_cell(project):
    first = project.digests("import helper")
    write(project.folder, helper="x = 1")
    second = project.digests("import helper")
    write(project.folder, helper="x = 2")
    third = project.digests("import helper")
    (project.folder / "helper.py").unlink()
    assert first == project.digests("import helper") == {} and second != third and second.keys() == third.keys() == {"helper"}


def test_a_package_is_followed_below_its_top(project):
    write(project.folder, "pkg/__init__.py", "pkg/a/__init__.py", "pkg/a/data.json")
    seen = {project.digests("import pkg")["pkg"]}
    write(project.folder, **{"pkg/a/new": "1"})
    seen.add(project.digests()["pkg"])
    (project.folder / "pkg/a/data.json").write_text("{}")
    seen.add(project.digests()["pkg"])
    os.rename(project.folder / "pkg/a", project.folder / "pkg/b")
    seen.add(project.digests()["pkg"])
    write(project.folder, **{"pkg/b/more": "1"})
    seen.add(project.digests()["pkg"])
    assert len(seen) == 5


def test_an_interrupt_does_not_lose_an_edit(project, monkeypatch):
    write(project.folder, helper="1", other="1")
    before = project.digests("import helper, other")
    write(project.folder, helper="2", other="2")
    real = project.home._lister.listing
    monkeypatch.setattr(project.home._lister, "listing", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        project.part()
    monkeypatch.setattr(project.home._lister, "listing", real)
    after = project.digests()
    assert after.keys() == before.keys() and all(after[name] != before[name] for name in before)


def test_a_list_that_is_too_long_is_left_out(project, monkeypatch):
    write(project.folder, *(f"m{k}.py" for k in range(50)))
    monkeypatch.setattr(code_home, "PART_MOST", 1000)
    part = project.part("import m1")
    assert part["incomplete"] and part["names"] == part["digests"] == {} and project.names("m1") == ["m1.py"]
    project.part("import m1")
    assert project.part("import m1")["home"] == project.part()["home"]
    write(project.folder, m1="x = 1")
    assert project.part()["home"] != part["home"], "ranks ask again"


def test_names_that_are_too_many_are_listed_when_they_are_needed(project, monkeypatch):
    monkeypatch.setattr(listing, "MOST_NAMES", 1)
    write(project.folder, "a.py", "m2.py", m1="import m2")
    part = project.part("import m1")
    assert part["incomplete"] and {"m1", "m2"} == part["digests"].keys() <= part["names"].keys()


def test_a_link_that_leads_to_another_version(project):
    for version in ("1", "2"):
        write(project.folder, **{f"v{version}/app/__init__": version, f"v{version}/mine": version})
    os.symlink("v1/app", project.folder / "app")
    os.symlink("v1", project.folder / "current")
    project.path.append(str(project.folder / "current"))
    first = project.digests("import app, mine")
    for link, target in (("app", "v2/app"), ("current", "v2")):
        os.symlink(target, project.folder / "new")
        os.rename(project.folder / "new", project.folder / link)
    second = project.digests("import app, mine")
    assert first.keys() == second.keys() and all(first[name] != second[name] for name in first)
    wanted = project.tree(name="app")["files"][0][2]
    assert wanted == hashlib.sha256(b"2").hexdigest() and list(project.home.answer("files", {"hashes": [wanted]})[1]) == [b"2"]
    write(project.folder, **{"v2/app/__init__": "3", "v2/mine": "3"})
    third = project.digests("import app, mine")
    assert all(third[name] != second[name] for name in second)


def test_what_was_imported_from_a_folder_that_is_no_longer_on_the_path(project):
    write(project.folder, "lib/lazy.py", "lib/pkg/__init__.py", "site-packages/other.py", "lib/odd.py")
    files = {"lazy": "lib/lazy.py", "pkg": "lib/pkg/__init__.py", "other": "site-packages/other.py", "named": "lib/odd.py", "__main__": "lib/__main__.py"}
    assert project.part()["names"] == {}
    for name, file in files.items():
        project.imported(name)
        project.modules[name].__file__ = str(project.folder / file)
    part = project.part()
    lib = str(project.folder / "lib")
    assert part["names"] == {"lazy": [lib], "pkg": [lib]} and sorted(part["digests"]) == ["lazy", "pkg"]
    assert project.tree(name="lazy", roots=[lib])["files"]
    write(project.folder, **{"lib/lazy": "1"})
    assert project.tree(name="lazy", roots=[lib])["digest"] != part["digests"]["lazy"]


def test_what_is_imported_lazily_stays_so(project, monkeypatch):
    from cellspan._worker import reloads

    write(project.folder, **{"qlazy": "import nothing_of_this_name", "lib/qaside": "import nothing_of_this_name"})
    for name, file in (("qlazy", "qlazy.py"), ("qaside", "lib/qaside.py")):
        spec = importlib.util.spec_from_file_location(name, project.folder / file)
        spec.loader = importlib.util.LazyLoader(spec.loader)
        project.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(project.modules[name])
        monkeypatch.setitem(sys.modules, name, project.modules[name])
    assert sorted(project.digests()) == ["qaside", "qlazy"] and project.tree(name="qaside")["files"]
    assert package_versions.of("qlazy") == ""
    imported = reloads.Imported()
    imported.note()
    assert imported.newer() == []
    with pytest.raises(ImportError, match="nothing_of_this_name"):
        project.modules["qlazy"].anything  # noqa: B018 - that loads it


def test_a_file_that_changes_in_a_way_that_nobody_sees(project):
    write(project.folder, helper="1")
    wanted = project.tree(name="helper")["files"][0][2]
    project.home._changes.take = lambda ran=None: set()
    write(project.folder, helper="22")
    assert project.home.answer("files", {"hashes": [wanted]})[0]["gone"] == [wanted]
    assert project.tree(name="helper")["files"][0][2] == hashlib.sha256(b"22").hexdigest()


def test_a_file_that_has_another_name_elsewhere(project, tmp_path_factory):
    write(project.folder, helper="x = 1")
    other = tmp_path_factory.mktemp("other") / "helper.py"
    os.link(project.folder / "helper.py", other)
    first = project.digests("import helper", ran=1)
    other.write_text("x = 22")
    assert project.digests("import helper", ran=2) != first


def test_data_of_a_large_package_is_followed(project):
    write(project.folder, "big/__init__.py", "big/z/conf.json", *(f"big/a{k}/{j}.txt" for k in range(6) for j in range(1000)))
    first = project.digests("import big")
    (project.folder / "big/z/conf.json").write_text("2")
    second = project.digests("import big")
    write(project.folder, "big/z/late.py")
    assert len({digests["big"] for digests in (first, second, project.digests("import big"))}) == 3


def test_the_search_path_and_the_folder_are_followed(project, monkeypatch):
    write(project.folder, "src/mine.py", "one.py")
    assert list(project.part()["names"]) == ["one"]
    project.path.append(str(project.folder / "src"))
    assert sorted(project.part()["names"]) == ["mine", "one"]
    monkeypatch.chdir(project.folder / "src")
    assert project.part()["names"] == {"mine": [str(project.folder / "src")]}


def test_a_folder_of_the_path_that_is_made_later(project):
    project.path.append(str(project.folder / "src"))
    project.part(ran=1)
    write(project.folder, "src/mine.py")
    assert list(project.part(ran=2)["names"]) == ["mine"]


def test_a_script_finds_what_is_beside_it_first(project):
    write(project.folder, "jobs/train.py", utils="1", **{"jobs/utils": "2"})
    here, there = project.digests("import utils"), project.part("import utils", script="jobs/train.py")
    assert there["names"]["utils"] == [str(project.folder / "jobs")] and there["digests"] != here
    mine = project.tree(name="utils", roots=[str(project)])["files"][0][0]
    scripts = project.tree(name="utils", roots=[str(project.folder / "jobs")])["files"][0][0]
    assert [os.path.relpath(path, project.folder) for path in (mine, scripts)] == ["utils.py", "jobs/utils.py"]
    assert project.digests("import utils") == here


def test_versions_of_what_cells_and_modules_import(project):
    import numpy

    write(project.folder, helper="import numpy\n")
    project.modules.update({name: sys.modules[name] for name in ("json", "numpy", "pytest")})
    assert "versions" not in project.part("import json, helper_that_is_not_there")
    assert project.part("import helper")["versions"] == {"numpy": numpy.__version__}
    assert project.part("import helper")["paths"] == {"numpy": numpy.__file__}
    assert project.part("import pytest")["versions"] == {"numpy": numpy.__version__, "pytest": pytest.__version__}


def test_what_is_left_out_is_told_once(project, monkeypatch):
    monkeypatch.setattr(manifest, "DATA_MOST", 1)
    write(project.folder, "pkg/__init__.py")
    for name in "ab":
        (project.folder / f"pkg/{name}.bin").write_bytes(b"1")
    lines = project.home.part("import pkg")[1]
    assert lines == [f"{project}/pkg: its data, over 0 MiB, does not go to other machines"] and project.home.part("import pkg")[1] == []
    for k in range(5):
        os.symlink("/usr", project.folder / f"pkg/link{k}")
    lines = project.home.part("import pkg")[1]
    assert len(lines) == 4 and "link0: a link" in lines[0] and lines[3] == "and 2 more, which %ranks code lists"


def test_a_folder_whose_name_is_not_utf_8_is_left_out(project):
    odd = os.path.join(str(project), os.fsdecode(b"caf\xe9"))
    os.mkdir(odd)
    for name in ("odd_one", "odd_two"):
        with open(os.path.join(odd, name + ".py"), "w") as file:
            file.write("x = 1\n")
    project.modules["odd_two"] = types.ModuleType("odd_two")
    project.modules["odd_two"].__file__ = os.path.join(odd, "odd_two.py")
    write(project.folder, "good.py")
    project.path = [odd, ""]
    part, lines = project.home.part("import odd_one, odd_two, good")
    assert list(part["digests"]) == ["good"] and not {"odd_one", "odd_two"} & part["names"].keys()
    assert lines == [f"{project}/caf\ufffd: modules of this folder do not go to other machines: its name is not UTF-8"]
    assert project.home.part("import odd_one")[1] == []


def test_the_folder_was_deleted(project):
    gone = project.folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert project.part("import x")["names"] == {}


# ---- answers ---------------------------------------------------------------------------------------------------------


def test_a_rank_gets_the_files_of_a_name(project):
    write(project.folder, "pkg/__init__.py", **{"pkg/a": "x = 1"})
    project.part()
    tree = project.tree(name="pkg", roots=[str(project)])
    assert tree["roots"] == [str(project)] and tree["left"] == [] and project.names("pkg") == ["pkg/__init__.py", "pkg/a.py"]
    hashes = [row[2] for row in tree["files"]]
    answer, parts = project.home.answer("files", {"hashes": hashes})
    data = b"".join(parts)
    assert [hashlib.sha256(data[at : at + size]).hexdigest() for _, at, size in answer["files"]] == hashes
    assert answer["gone"] == [] and answer["modules"] == 2
    assert project.digests() == {"pkg": tree["digest"]}  # from now on it goes before it is asked for


def test_a_name_that_home_does_not_have(project):
    project.part()
    assert project.tree(name="nothing") == {} and project.tree(name="json") == {}
    assert "error" in project.home.answer("strange", {})[0]


def test_only_what_was_named_before_can_be_had(project):
    write(project.folder, "helper.py", secret="key")
    project.part("import helper")
    wanted = hashlib.sha256(b"key").hexdigest()
    answer, parts = project.home.answer("files", {"hashes": [wanted]})
    assert answer == {"files": [], "gone": [wanted], "modules": 0} and list(parts) == []


def test_home_sees_what_ranks_write_into_its_folder(project):
    name = new_name()
    other = new_name()
    write(project.folder, name, "data/x.csv", "data/.other")
    asked = [[str(project), name], [str(project), other], [str(project.folder / "data"), name], [str(project.folder / "data"), "x.csv"], [str(project.folder / "data"), ".other"]]
    assert project.tree(seen=asked) == {"seen": [True, False, False, False, False]}
    project.part(bring=["."])
    assert [os.path.relpath(row[0], project.folder) for row in project.tree(**{"with": "."})["files"]] == ["data/.other", "data/x.csv"]


def test_a_file_that_was_changed_after_it_was_named_is_gone(project):
    write(project.folder, "other.py", helper="1")
    wanted = project.tree(name="helper")["files"][0][2]
    write(project.folder, helper="2")
    other = project.tree(name="other")["files"][0][2]
    answer, parts = project.home.answer("files", {"hashes": [other, wanted]})  # no others are sent either: the rank asks for all of them anew
    assert answer == {"files": [], "gone": [wanted], "modules": 0} and list(parts) == []
    assert project.tree(name="helper")["files"][0][2] != wanted


def test_files_with_the_same_bytes_do_not_depend_on_each_other(project):
    write(project.folder, *(f"pkg_{k}/__init__.py" for k in "abc"))
    digests = project.digests("import pkg_a, pkg_b, pkg_c")
    for k in "bc":
        write(project.folder, **{f"pkg_{k}/__init__": "x = 1"})
        project.digests()
    tree = project.tree(name="pkg_a")
    assert tree["digest"] == digests["pkg_a"]
    answer, parts = project.home.answer("files", {"hashes": [tree["files"][0][2]]})
    assert answer == {"files": [[0, 0, 0]], "gone": [], "modules": 1} and list(parts) == [b""]


def test_a_large_file_is_read_in_parts(project, monkeypatch):
    monkeypatch.setattr(code_home, "AT_ONCE", 4)
    write(project.folder, large="0123456789")
    wanted = project.tree(name="large")["files"][0][2]
    answer, parts = project.home.answer("files", {"hashes": [wanted]})
    assert answer["files"] == [[0, 0, 10]] and list(parts) == [b"0123", b"4567", b"89"]
    for text in ("0123456780", "01234567890", "012"):
        write(project.folder, large="0123456789")
        wanted = project.tree(name="large")["files"][0][2]
        _, parts = project.home.answer("files", {"hashes": [wanted]})
        write(project.folder, large=text)
        with pytest.raises(OSError, match="changes while it is read"):
            list(parts)


def test_a_name_in_no_listing_is_found(project, monkeypatch):
    write(project.folder, "a.py", "b.py")
    monkeypatch.setattr(listing, "MOST_NAMES", 1)
    part = project.part()
    assert part["incomplete"] and len(part["names"]) == 1
    assert project.names("a") == ["a.py"] and project.names("b") == ["b.py"]


def test_a_zip_file_goes_as_a_whole(project):
    with zipfile.ZipFile(project.folder / "lib.zip", "w") as file:
        file.writestr("helper.py", "")
    project.path.append(str(project.folder / "lib.zip"))
    assert project.names("helper") == ["lib.zip"]
    first = project.digests()["helper"]
    with zipfile.ZipFile(project.folder / "lib.zip", "w") as file:
        file.writestr("helper.py", "x = 1")
    assert project.digests()["helper"] != first


def test_an_editable_install_that_is_not_built_says_so(project):
    built = types.SimpleNamespace(currsize=0)

    def rebuild():
        return {"pkg": {"__init__.py": str(project.folder / "src/pkg/__init__.py")}}

    class Finder:
        _top_level_modules = {"pkg"}
        _rebuild = staticmethod(rebuild)

    rebuild.cache_info = lambda: built
    write(project.folder, "src/pkg/__init__.py")
    project.finders.append(Finder())
    assert project.part("import pkg")["names"] == {"pkg": []} and "import it at home" in project.tree(name="pkg", roots=[])["error"]
    built.currsize = 1
    project.imported("pkg")
    assert project.part("import pkg")["names"] == {"pkg": [str(project.folder / "src")]} and project.names("pkg") == ["src/pkg/__init__.py"]
    del project.modules["pkg"]
    built.currsize = 0
    write(project.folder, "more.py")
    (line,) = project.home.part("import pkg")[1]
    assert line.startswith("pkg on other machines may be older than the notebook's: ") and "import it at home" in line


def test_a_file_that_never_rests_is_named(project, monkeypatch):
    write(project.folder, "helper.py")
    monkeypatch.setattr(manifest, "scan", lambda path: (None, "", b""))
    assert project.digests("import helper") == {}
    assert "helper.py changes while it is read" in project.tree(name="helper")["error"]


def test_home_answers_while_others_hold_all_locks_of_imports(project, monkeypatch):
    """A rank that asks holds the lock of what it imports, and so may a cell at home: to answer must need none."""
    write(project.folder, "helper.py", "pkg/__init__.py", "pkg/data.txt", "space/a.py")
    (project.folder / ".gitignore").write_text("*.bin\n")
    project.part(bring=["pkg"])
    held, done, results = threading.Event(), threading.Event(), []

    def hold():
        locks = [bootstrap._get_module_lock(name) for name in list(sys.modules)]
        for lock in locks:
            lock.acquire()
        _imp.acquire_lock()
        held.set()
        done.wait(60)
        _imp.release_lock()
        for lock in locks:
            lock.release()

    def ask():
        for name in ("helper", "pkg", "space", "nothing"):
            tree = project.home.answer("tree", {"name": name})[0]
            results.append(project.home.answer("files", {"hashes": [row[2] for row in tree.get("files", ())]})[0])
        write(project.folder, helper="x = 1")
        results.append(project.home.answer("tree", {"name": "helper"})[0])
        results.append(project.home.answer("tree", {"with": "pkg"})[0])

    threads = [threading.Thread(target=each, daemon=True) for each in (hold, ask)]
    threads[0].start()
    assert held.wait(60)
    imports, old = [], builtins.__import__

    def spy(name, *rest, **kw):
        if threading.current_thread() is threads[1]:
            imports.append(name)
        return old(name, *rest, **kw)

    monkeypatch.setattr(builtins, "__import__", spy)
    try:
        threads[1].start()
        threads[1].join(60)
        alive = threads[1].is_alive()
    finally:
        done.set()
        threads[0].join(60)
    assert not alive and imports == [] and len(results) == 6 and "files" in results[5]


def test_a_module_that_raises_is_not_run(project):
    write(project.folder, helper="raise SystemExit(3)")
    assert project.names("helper") == ["helper.py"]


# ---- --with and %ranks code ------------------------------------------------------------------------------------------


def test_files_and_folders_that_the_user_names(project, tmp_path_factory):
    write(project.folder, "data/a.csv", "data/sub/b.csv", "one.txt")
    outside = tmp_path_factory.mktemp("outside")
    write(outside, "x/y.txt")
    names = ("data", "one.txt", str(outside / "x"))
    part = project.part(bring=names)
    assert sorted(part["with"]) == sorted(names)
    trees = [project.tree(**{"with": name}) for name in names]
    assert [tree["digest"] for tree in trees] == [part["with"][name] for name in names]
    assert [tree["roots"] for tree in trees] == [[str(project)], [str(project)], [str(outside)]]
    assert [row[0] for row in trees[2]["files"]] == [str(outside / "x/y.txt")]
    (project.folder / "data/sub/b.csv").write_text("1")
    assert project.part(bring=names)["with"]["data"] != part["with"]["data"]
    assert "with" not in project.part()
    project.part(bring=["."])
    assert project.tree(**{"with": "."})["roots"] == [str(project)]


def test_two_files_of_with_that_would_be_one(project, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    write(outside, "one/c.csv", "two/c.csv")
    names = [str(outside / "one/c.csv"), str(outside / "two/c.csv")]
    assert len(project.part(bring=names)["with"]) == 2  # of the same bytes
    (outside / "two/c.csv").write_text("another")
    for _ in range(2):
        with pytest.raises(Bad, match=f"--with {names[0]} and --with {names[1]}: both would be c.csv"):
            project.part(bring=names)
    assert len(project.part(bring=names[1:])["with"]) == 1


def test_a_path_that_is_not_there(project):
    with pytest.raises(Bad, match="--with nothing: No such file"):
        project.part(bring=["nothing"])
    assert "nothing" in project.tree(**{"with": "nothing"})["error"]
    with pytest.raises(Bad, match="directory .give each path a --with of its own"):
        project.part(bring=["*.csv"])


def test_a_rank_gets_no_path_that_the_user_has_not_named(project, tmp_path_factory, monkeypatch):
    write(project.folder, "data/a.csv", "data/id_rsa", ".env")
    os.symlink("../.env", project.folder / "data/plain.txt")
    assert project.tree(**{"with": "data"}) == {} and project.tree(**{"with": str(project.folder / ".env")}) == {}
    project.part(bring=["data"])
    assert [os.path.basename(row[0]) for row in project.tree(**{"with": "data"})["files"]] == ["a.csv"]
    assert project.tree(**{"with": "data/id_rsa"}) == {} and project.tree(**{"with": "../" + project.folder.name}) == {}
    project.part(bring=["data/id_rsa"])
    assert len(project.tree(**{"with": "data/id_rsa"})["files"]) == 1
    other = tmp_path_factory.mktemp("other")
    write(other, "data/b.csv")
    monkeypatch.chdir(other)
    project.part(bring=["data"])
    assert [row[0] for row in project.tree(**{"with": "data"})["files"]] == [str(other / "data/b.csv")]


def test_the_report(project):
    assert project.home.report() == ""
    write(project.folder, "pkg/__init__.py", "pkg/.env", "data.csv", **{"pkg/a": "x = 1"})
    project.part("import pkg", bring=["data.csv"])
    project.home.answer("files", {"hashes": [row[2] for row in project.tree(name="pkg")["files"]]})
    lines = project.home.report().split("\n")
    assert lines[1].split() == ["pkg", "2", "5", "B", "5", "B", str(project.folder / "pkg")]
    assert lines[2].split() == ["--with", "data.csv", "1", "0", "B", "0", "B", str(project.folder / "data.csv")]
    assert lines[3:5] == ["", "not sent:"] and ".env" in lines[5] and len(lines) == 6


def test_ranks_hear_whether_home_has_what_they_have_not_found(project, monkeypatch):
    write(project.folder, "data/x.csv")
    monkeypatch.chdir(project.folder)
    for path in ("data/x.csv", "data", "../" + os.path.basename(project.folder), str(project.folder / "data" / "x.csv")):
        assert project.tree(path=path) == {"there": True}, path
    for path in ("x.csv", "data/x", "/nowhere/x.csv"):
        assert project.tree(path=path) == {"there": False}, path
