# SPDX-License-Identifier: BSD-3-Clause
"""What importlib.metadata knows of the user's own packages goes along."""

import importlib.metadata
import os
import shutil
import sys

import pytest

from cellspan._code import code_home, distributions, finders
from files import write


@pytest.fixture
def project(tmp_path):
    write(tmp_path, "src/pkg/__init__.py", "src/other/__init__.py", "site-packages/numpy-2.0.dist-info/METADATA")
    metadata = tmp_path / "site-packages/my_pkg-1.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-pkg\nVersion: 1.5\n")
    (metadata / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///x"}')
    (metadata / "top_level.txt").write_text("pkg\n")
    return tmp_path


def test_of_what_is_installed_only_editable_installs_count(project):
    found = distributions.in_folders([], [str(project / "site-packages"), str(project / "nothing")])
    assert found == {"pkg": [str(project / "site-packages/my_pkg-1.5.dist-info")]}


@pytest.mark.parametrize("entry, name", [("my_pkg-1.5.dist-info", "my_pkg"), ("my.pkg-2.dist-info", "my_pkg"), ("my_pkg.egg-info", "my_pkg")])
def test_a_distribution_that_does_not_say_its_modules_has_one_of_its_name(tmp_path, entry, name):
    write(tmp_path, f"{entry}/METADATA")
    assert distributions.in_folders([str(tmp_path)], []) == {name: [str(tmp_path / entry)]}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"dir_info": 3}', "\udcff"])
def test_a_record_that_says_nothing_about_it(tmp_path, text):
    write(tmp_path, "a-1.dist-info/METADATA")
    (tmp_path / "a-1.dist-info/direct_url.json").write_bytes(os.fsencode(text))
    assert distributions.in_folders([], [str(tmp_path)]) == {}


def test_a_rank_finds_the_version_of_the_users_package(project, tmp_path_factory, monkeypatch):
    home = code_home.CodeHome(lambda: [str(project / "src"), str(project / "site-packages")], lambda: [], lambda: {})
    part = home.part("import pkg")[0]
    tree = home.answer("tree", {"name": "pkg"})[0]
    assert [os.path.basename(row[0]) for row in tree["files"]] == ["METADATA", "top_level.txt", "__init__.py"]
    assert len(home.answer("tree", {"name": "other"})[0]["files"]) == 1
    root = str(tmp_path_factory.mktemp("tree"))
    for path, *_ in tree["files"]:
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        shutil.copyfile(path, root + path)
    there = finders.Project(root, lambda name, roots, digest, home: {**tree, "here": False} if name == "pkg" else None, lambda folders: {})
    there.take(part)
    monkeypatch.setattr(sys, "meta_path", [finders.First(there), *sys.meta_path])
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("my-pkg")
    there.entry("pkg")
    assert importlib.metadata.version("my-pkg") == "1.5"
    there.take(None)
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("my-pkg")
