# SPDX-License-Identifier: BSD-3-Clause
"""Which modules home finds in the user's own folders."""

import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
import types
import zipfile

import pytest

import cellspan
from cellspan._code import editables, listing
from cellspan._code.listing import Lister
from files import write

EXTENSION = importlib.machinery.EXTENSION_SUFFIXES[0]


def listed(*entries, finders=()):
    return Lister().listing([str(entry) for entry in entries], editables.redirected([importlib.machinery.PathFinder, *finders]))


def test_modules_packages_and_folders_are_told_apart(tmp_path):
    names = "helper.py pkg/__init__.py data/a.csv old.pyc 01-load.py a.b.py __init__.py sitecustomize.py notes.txt .hidden/a.py raw-data/x.csv .py"
    write(tmp_path, f"fast{EXTENSION}", *names.split())
    found = listed(tmp_path)
    assert sorted(found.names) == ["01-load", "fast", "helper", "old", "pkg"] and found.names["pkg"] == [str(tmp_path)]
    assert found.namespaces == {"data": [str(tmp_path)]} and not found.incomplete


def test_what_python_has_frozen_or_built_in_is_not_the_projects(tmp_path, monkeypatch):
    names = ("zipimport", "_frozen_importlib", "sys", "builtins", "mine")
    write(tmp_path, *(name + ".py" for name in names))
    monkeypatch.syspath_prepend(str(tmp_path))
    won = {name for name in names if str(getattr(importlib.util.find_spec(name), "origin", "")).startswith(str(tmp_path))}
    assert set(listed(tmp_path).names) == won == {"mine"}


def test_a_package_wins_over_a_module_and_a_module_over_a_folder(tmp_path):
    write(tmp_path, "one.py", "one/__init__.py", "two.py", "two/x.py")
    found = listed(tmp_path)
    assert found.places["one"][0].kind == listing.PACKAGE and found.places["two"][0].kind == listing.MODULE


def test_what_stands_earlier_on_the_path_wins(tmp_path):
    write(tmp_path, "lib/site-packages/utils.py", "lib/site-packages/other/__init__.py", "a/utils.py", "a/mine.py", "b/mine.py", "b/other.py")
    site, a, b = tmp_path / "lib/site-packages", tmp_path / "a", tmp_path / "b"
    found = listed(a, site, b)
    assert found.names == {"utils": [str(a)], "mine": [str(a)]}
    assert listed(site, a, b).names == {"mine": [str(a)]}


def test_an_empty_folder_of_an_installed_name_is_not_listed(tmp_path):
    write(tmp_path, "a/pandas/x.csv", "site-packages/pandas/__init__.py")
    assert not listed(tmp_path / "a", tmp_path / "site-packages").places


def test_a_namespace_package_over_two_folders_has_two_roots(tmp_path):
    write(tmp_path, "a/space/x.py", "b/space/y.py")
    assert listed(tmp_path / "a", tmp_path / "b").namespaces == {"space": [str(tmp_path / "a"), str(tmp_path / "b")]}
    write(tmp_path, "b/space/__init__.py")
    found = listed(tmp_path / "a", tmp_path / "b")
    assert found.names == {"space": [str(tmp_path / "b")]} and not found.namespaces


def test_names_that_python_or_cellspan_need_are_left_to_them(tmp_path):
    write(tmp_path, "json.py", "sys.py", "os.py", "statistics.py", "numpy.py")
    assert sorted(listed(tmp_path).names) == ["numpy", "statistics"]


def test_pythons_own_folders_and_environments_are_not_the_users(tmp_path):
    write(tmp_path, "venv/pyvenv.cfg", "venv/lib/x.py", "conda/conda-meta/history", "mine.py")
    pythons = [sysconfig.get_path(name) for name in ("stdlib", "platlib")]
    assert sorted(listed(tmp_path, *pythons, os.path.dirname(os.path.dirname(cellspan.__file__))).places) == ["mine"]


def test_a_folder_that_becomes_a_package(tmp_path):
    write(tmp_path, "pkg/a.py")
    lister = Lister()
    assert lister.listing([str(tmp_path)]).namespaces
    write(tmp_path, "pkg/__init__.py")
    found = lister.listing([str(tmp_path)])
    assert found.names and not found.namespaces


def test_zip_files_and_folders_in_them(tmp_path):
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as file:
        for name in ("helper.py", "pkg/__init__.py", "pkg/a.py", "inner/deep.py", "inner/space/x.py"):
            file.writestr(name, "")
    whole, inner = str(tmp_path / "lib.zip"), str(tmp_path / "lib.zip/inner")
    found = listed(whole, inner)
    assert found.names == {"helper": [whole], "pkg": [whole], "deep": [inner]}
    assert found.namespaces == {"inner": [whole], "space": [inner]}
    assert {place.path for places in found.places.values() for place in places} == {whole}


def test_a_file_that_is_no_zip_and_a_folder_that_is_not_there(tmp_path):
    write(tmp_path, "broken.zip")
    assert not listed(tmp_path / "broken.zip", tmp_path / "nothing").places


def test_many_names_are_cut(tmp_path, monkeypatch):
    write(tmp_path, *(f"m{k}.py" for k in range(30)))
    monkeypatch.setattr(listing, "MOST_NAMES", 20)
    found = listed(tmp_path)
    assert found.incomplete and len(found.names) == 20 and len(found.places) == 30


def test_of_many_names_those_stay_that_others_have_too(tmp_path, monkeypatch):
    write(tmp_path, "lib/site-packages/zz_yaml.py", *(f"own/m{k}.py" for k in range(30)), "own/zz_yaml.py")
    monkeypatch.setattr(listing, "MOST_NAMES", 20)
    found = listed(tmp_path / "own", tmp_path / "lib/site-packages")
    assert found.incomplete and len(found.names) == 20 and "zz_yaml" in found.names


def test_a_package_that_joins_its_folders(tmp_path):
    joins = {"a/plug/__init__": "__path__ = __import__('pkgutil').extend_path(__path__, __name__)", "a/plain/__init__": ""}
    write(tmp_path, "0/plug/zero.py", "b/plug/__init__.py", "c/plug/x.py", "d/plug.py", "b/plain/__init__.py", "lib/site-packages/plug/y.py", **joins)
    found = listed(*(tmp_path / name for name in "0abcd"), tmp_path / "lib/site-packages")
    assert found.names == {"plug": [str(tmp_path / name) for name in "a0bc"], "plain": [str(tmp_path / "a")]} and found.namespaces == {}
    package, namespace = listing.PACKAGE, listing.NAMESPACE
    assert [place.kind for place in found.places["plug"]] == [package, namespace, package, namespace]  # data goes with packages alone


WAYS = {
    "under another name": "from pkgutil import extend_path as join\n__path__ = join(__path__, __name__)",
    "after a string": "mark = '#'; __path__ = extend_path(__path__, __name__)",
    "on more lines": "__path__ = extend_path (\n    __path__, __name__)",
    "in a file that was cut": "__import__('pkg_resources').declare_namespace(__name__)\nx = '''a string that",
}
SPOKEN_OF = {
    "comment": "# as pkgutil.extend_path(__path__, __name__) did",
    "import": "from pkgutil import extend_path",
    "string": "name = 'declare_namespace'",
    "docstring": '"""Without\npkgutil.extend_path(__path__, __name__)."""',
    "definition": "def extend_path(path):\n    return path",
    "no Python": "# coding: none\nextend_path()",
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_join(tmp_path, way):
    write(tmp_path, "b/plug/x.py", **{"a/plug/__init__": WAYS[way]})
    assert listed(tmp_path / "a", tmp_path / "b").names == {"plug": [str(tmp_path / "a"), str(tmp_path / "b")]}


@pytest.mark.parametrize("how", SPOKEN_OF)
def test_a_package_that_only_speaks_of_joining(tmp_path, how):
    write(tmp_path, "b/plug/x.py", **{"a/plug/__init__": SPOKEN_OF[how]})
    assert listed(tmp_path / "a", tmp_path / "b").names == {"plug": [str(tmp_path / "a")]}


def test_links_to_packages(tmp_path):
    write(tmp_path, "elsewhere/__init__.py", "a/x.py")
    os.symlink(tmp_path / "elsewhere", tmp_path / "a/linked")
    os.symlink(tmp_path / "nothing", tmp_path / "a/dangling.py")
    assert sorted(listed(tmp_path / "a").names) == ["linked", "x"]


# ---- finders of editable installs ------------------------------------------------------------------------------------


def finder(name, **names):
    """A finder as a build tool's module of this name has it."""
    module = types.ModuleType(name)
    vars(module).update(names)
    return module, type("Finder", (), {"__module__": name})


@pytest.fixture
def module(monkeypatch):
    def make(name, **names):
        made, kind = finder(name, **names)
        monkeypatch.setitem(sys.modules, name, made)
        return kind

    return make


def test_the_finder_of_setuptools(tmp_path, module):
    write(tmp_path, "src/pkg/__init__.py", "src/single.py", "code/__init__.py", "parts/space/a.py")
    src = tmp_path / "src"
    mapping = {"pkg": str(src / "pkg"), "single": str(src / "single"), "renamed": str(tmp_path / "code"), "gone": str(tmp_path / "gone")}
    spaces = {"space": [str(tmp_path / "parts/space")]}
    found = listed(finders=[module("__editable___pkg_1_finder", MAPPING=mapping, NAMESPACES=spaces)])
    assert found.names == {"pkg": [str(src)], "single": [str(src)], "renamed": [str(tmp_path)]}
    assert found.redirects == {"renamed": str(tmp_path / "code")} and found.namespaces == {"space": [str(tmp_path / "parts")]}


def test_a_part_of_a_package_that_stands_elsewhere(tmp_path, module):
    write(tmp_path, "src/pkg/__init__.py", "src/pkg/sub/__init__.py", "more/extra.py")
    src = tmp_path / "src"
    mapping = {"pkg": str(src / "pkg"), "pkg.sub": str(src / "pkg/sub"), "pkg.extra": str(tmp_path / "more/extra")}
    found = listed(finders=[module("__editable___pkg_1_finder", MAPPING=mapping, NAMESPACES={})])
    assert found.redirects == {"pkg.extra": str(tmp_path / "more/extra.py")}


def test_a_finder_behind_the_path_does_not_win_over_it(tmp_path, module):
    write(tmp_path, "src/pkg/__init__.py", "here/pkg.py")
    kind = module("__editable___pkg_1_finder", MAPPING={"pkg": str(tmp_path / "src/pkg")}, NAMESPACES={})
    assert listed(tmp_path / "here", finders=[kind]).names == {"pkg": [str(tmp_path / "here")]}
    first = editables.redirected([kind, importlib.machinery.PathFinder])
    assert Lister().listing([str(tmp_path / "here")], first).names == {"pkg": [str(tmp_path / "src")]}


def test_the_finder_of_editables(tmp_path):
    write(tmp_path, "src/pkg/__init__.py", "src/single.py")
    src = tmp_path / "src"
    kind = type("RedirectingFinder", (), {"_redirections": {"pkg": str(src / "pkg/__init__.py"), "single": str(src / "single.py")}})
    found = listed(finders=[kind])
    assert found.names == {"pkg": [str(src)], "single": [str(src)]} and not found.redirects


def test_the_finder_of_scikit_build(tmp_path, module):
    write(tmp_path, "src/pkg/__init__.py", f"site/pkg/_fast{EXTENSION}", "site/_pkg_editable.py")
    kind = module("_pkg_editable", __file__=str(tmp_path / "site/_pkg_editable.py"))
    made = kind()
    made.known_source_files = {"pkg": str(tmp_path / "src/pkg/__init__.py")}
    made.known_wheel_files = {"pkg._fast": f"pkg/_fast{EXTENSION}"}
    found = listed(finders=[made])
    assert found.names == {"pkg": [str(tmp_path / "src")]} and found.redirects == {"pkg._fast": str(tmp_path / f"site/pkg/_fast{EXTENSION}")}


def test_the_finder_of_meson_is_asked_only_when_it_has_built(tmp_path):
    import functools

    write(tmp_path, "src/pkg/__init__.py", "src/pkg/a.py", f"build/_fast{EXTENSION}")
    built = []

    class MesonpyMetaFinder:
        _top_level_modules = {"pkg"}

        @functools.lru_cache(maxsize=1)
        def _rebuild(self):
            built.append(1)
            src = tmp_path / "src/pkg"
            files = {"__init__.py": str(src / "__init__.py"), "a.py": str(src / "a.py"), f"_fast{EXTENSION}": str(tmp_path / f"build/_fast{EXTENSION}")}
            return {"pkg": files}

    made = MesonpyMetaFinder()
    found = listed(finders=[made])
    assert found.names == {"pkg": []} and "meson-python" in found.unbuilt["pkg"] and not built
    made._rebuild()
    found = listed(finders=[made])
    assert found.names == {"pkg": [str(tmp_path / "src")]} and found.redirects == {"pkg._fast": str(tmp_path / f"build/_fast{EXTENSION}")}


def test_a_finder_that_nobody_knows_is_passed_over(tmp_path):
    class Strange:
        MAPPING = 3
        _redirections = {"pkg": object()}

    assert not listed(tmp_path, finders=[Strange(), Strange, object()]).places
