# SPDX-License-Identifier: BSD-3-Clause
"""Files of the notebook that another machine has, too, as on a shared file system: they are used where they are."""

from __future__ import annotations

import os
import shutil

import pytest
from cellspan._code import changes, entries, in_place
from cellspan._base.filesystems import state_of
from cellspan._code.tree import Tree
from notebook_files import Files


def text(tree, path):
    with open(tree.root + path, encoding="utf-8") as file:
        return file.read()


def files(tree):
    return sorted(os.path.join(folder, name)[len(tree.root):] for folder, _, names in os.walk(tree.root) for name in names)


@pytest.fixture
def shared(tmp_path):
    """A folder of home that is here, too."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "helper.py").write_text("a = 1\n")
    return str(root)


def test_the_same_file_at_the_same_path_is_used_where_it_is(shared, tmp_path):
    home = Files({shared + "/helper.py": "a = 1\n"})
    tree = Tree(str(tmp_path / "code"), home.find, "gpu2")
    assert tree.bring("helper", (shared,))["here"] and [what for what, _ in home.asked] == ["tree"] and files(tree) == []


def test_an_edit_that_this_machine_sees_later_is_sent_without_a_line(shared, tmp_path):
    home = Files({shared + "/helper.py": "a = 1\n"})
    tree = Tree(str(tmp_path / "code"), home.find, "gpu2")
    tree.bring("helper", (shared,))
    home.files[shared + "/helper.py"] = "a = 22\n"
    assert not tree.bring("helper", (shared,), home.digest("helper", shared))["here"]
    assert text(tree, shared + "/helper.py") == "a = 22\n" and list(tree.lines()) == []
    with open(shared + "/helper.py", "w", encoding="utf-8") as file:
        file.write("a = 22\n")
    home.files[shared + "/helper.py"] = "a = 1\n"
    tree.bring("helper", (shared,), home.digest("helper", shared))
    with open(shared + "/helper.py", "w", encoding="utf-8") as file:
        file.write("a = 1\n")
    assert tree.bring("helper", (shared,), "")["digest"] == home.digest("helper", shared)


def test_a_file_in_place_that_is_changed_on_this_machine_alone(shared, tmp_path):
    home = Files({shared + "/helper.py": "a = 1\n"})
    tree, other = (Tree(str(tmp_path / "code"), home.find, "gpu2") for _ in range(2))
    entry = tree.bring("helper", (shared,))
    asked = len(home.asked)
    assert entry["here"] and list(tree.refresh_in_place("")) == [] and len(home.asked) == asked
    with open(shared + "/helper.py", "w", encoding="utf-8") as file:
        file.write("a = 999\n")
    assert other.bring("helper", (shared,), entry["digest"], "", True)["here"] is False
    assert text(tree, shared + "/helper.py") == "a = 1\n" and tree.bring("helper", (shared,), entry["digest"])["here"] is False
    (line,) = other.lines()
    assert line.startswith(f"{shared}/helper.py on gpu2 is not the notebook's file any more: imports there use the notebook's from now on")
    asked = len(home.asked)
    assert list(tree.refresh_in_place("")) == [] and len(home.asked) == asked, "it is in place no more"


@pytest.mark.parametrize("inotify", [True, False])
@pytest.mark.parametrize("name", ["helper.py", "another name"])
def test_files_in_place_are_looked_at_when_they_have_changed(shared, tmp_path, monkeypatch, inotify, name):
    home, now, looked = Files({shared + "/helper.py": "a = 1\n"}), [100.0], []
    os.link(shared + "/helper.py", shared + "/../another name")
    monkeypatch.setattr(changes.time, "monotonic", lambda: now[0])
    for module in (changes, in_place, entries):
        monkeypatch.setattr(module, "state_of", lambda path: looked.append(path) or state_of(path))
    monkeypatch.setattr(in_place, "WATCHERS", 1 if inotify else 0)
    tree = Tree(str(tmp_path / "code"), home.find, "gpu2")
    tree.bring("helper", (shared,))
    assert list(tree.refresh_in_place("")) == [] and looked
    looked.clear()
    for _ in range(2):
        assert list(tree.refresh_in_place("")) == [] and bool(looked) != inotify
        now[0] += changes.EVERY if inotify else 0
    home.instead = lambda *_: (_ for _ in ()).throw(TimeoutError)
    with open(os.path.join(shared, "" if name.endswith(".py") else "..", name), "w", encoding="utf-8") as file:
        file.write("a = 999\n")
    for _ in range(2):  # at once, also without inotify
        ((name, error),) = tree.refresh_in_place("")
        assert name == "helper" and "busy" in str(error)
    home.instead = None
    assert list(tree.refresh_in_place("")) == [] and not tree.bring("helper", (shared,))["here"]


@pytest.mark.parametrize("inotify", [True, False])
@pytest.mark.parametrize("change", ["a link leads to it", "it becomes a link", "a folder above is another one"])
def test_files_in_place_that_change_elsewhere(shared, tmp_path, monkeypatch, inotify, change):
    now, file, other = [100.0], tmp_path / "project/pkg/sub/a.py", tmp_path / "shared/a.py"
    monkeypatch.setattr(changes.time, "monotonic", lambda: now[0])
    for module in ("tree", "changes"):
        monkeypatch.setattr(f"cellspan._code.{module}.mounts", lambda: {"/": "ext4"})
    monkeypatch.setattr(in_place, "WATCHERS", 16 if inotify else 0)
    other.parent.mkdir()
    file.parent.mkdir(parents=True)
    other.write_text("a = 1\n")
    (tmp_path / "link.py").symlink_to("shared/a.py")
    if change == "a link leads to it":
        file.symlink_to(tmp_path / "link.py")
    else:
        os.rename(other, file)
    home = Files({str(file): "a = 1\n"})
    tree = Tree(str(tmp_path / "code"), home.find, "gpu2")
    assert tree.bring("pkg", (shared,))["here"] and list(tree.refresh_in_place("")) == []
    if change == "it becomes a link":
        os.rename(file, other)
        file.symlink_to(tmp_path / "link.py")
        assert list(tree.refresh_in_place("")) == [] and tree.bring("pkg", (shared,))["here"]
    if change == "a folder above is another one":
        shutil.copytree(shared, tmp_path / "next")
        (tmp_path / "next/pkg/sub/a.py").write_text("a = 999\n")
        os.rename(shared, tmp_path / "before")
        os.rename(tmp_path / "next", shared)
    else:
        other.write_text("a = 999\n")
    assert list(tree.refresh_in_place("")) == [] and not tree.bring("pkg", (shared,))["here"]


def test_a_log_beside_files_in_place_is_not_their_change(shared, tmp_path, monkeypatch):
    for module in ("tree", "changes"):
        monkeypatch.setattr(f"cellspan._code.{module}.mounts", lambda: {"/": "ext4"})
    looked, tree = [], Tree(str(tmp_path / "code"), Files({shared + "/helper.py": "a = 1\n"}).find, "gpu2")
    assert tree.bring("helper", (shared,))["here"] and list(tree.refresh_in_place("")) == []
    monkeypatch.setattr(in_place, "state_of", lambda path: looked.append(path) or state_of(path))
    with open(shared + "/train.log", "w", encoding="utf-8") as file:
        file.write("loss 1")
    assert list(tree.refresh_in_place("")) == [] and looked == []
    os.utime(shared + "/helper.py")
    assert list(tree.refresh_in_place("")) == [] and looked == [shared + "/helper.py"]


def test_files_of_folders_that_are_too_many_to_watch_are_looked_at(shared, tmp_path, monkeypatch):
    now, files = [100.0], {f"{shared}/pkg/sub{n}/a.py": "a = 1\n" for n in range(3)}
    monkeypatch.setattr(changes.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(changes, "most_watches", lambda: 2 * in_place.WATCHERS)
    for module in ("tree", "changes"):
        monkeypatch.setattr(f"cellspan._code.{module}.mounts", lambda: {"/": "ext4"})
    for path in files:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    for path, content in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    for n, path in enumerate(files):
        tree = Tree(str(tmp_path / f"code{n}"), Files(files).find, "gpu2")
        assert tree.bring("pkg", (shared,))["here"]
        for _ in range(2):
            assert list(tree.refresh_in_place("")) == [] and tree.bring("pkg", (shared,))["here"]
        with open(path, "w", encoding="utf-8") as file:
            file.write("a = 999\n")
        assert list(tree.refresh_in_place("")) == [] and not tree.bring("pkg", (shared,))["here"]
        with open(path, "w", encoding="utf-8") as file:
            file.write("a = 1\n")


def test_few_ranks_of_a_node_use_inotify(tmp_path, monkeypatch):
    monkeypatch.setattr(in_place, "WATCHERS", 2)
    ranks = [in_place.InPlace(str(tmp_path)) for _ in range(3)]
    assert [rank._has_slot() for rank in ranks] == [True, True, False]
    os.close(ranks[0]._slot)  # it has ended
    assert ranks[2]._has_slot()
    for rank in ranks[1:]:
        os.close(rank._slot)


def test_what_others_write_too_is_left_to_home(shared, tmp_path, monkeypatch):
    monkeypatch.setattr("cellspan._code.tree.mounts", lambda: {"/": "nfs4"})
    tree = Tree(str(tmp_path / "code"), Files({shared + "/helper.py": "a = 1\n"}).find, "gpu2")
    assert tree.bring("helper", (shared,))["seen"] == {}


def test_another_file_at_that_path_loses_and_a_line_says_so_once(shared, tmp_path):
    home = Files({shared + "/helper.py": "a = 2\n", shared + "/pkg/__init__.py": ""})
    trees = [Tree(str(tmp_path / "code"), home.find, "gpu2") for _ in range(2)]
    assert not trees[0].bring("helper", (shared,))["here"]
    assert list(trees[0].lines()) == [f"{shared}/helper.py on gpu2 is not the notebook's file: the ranks there use the notebook's"]
    home.files[shared + "/helper.py"] = "a = 3\n"
    trees[1].bring("helper", (shared,), home.digest("helper", shared))
    assert list(trees[1].lines()) == [] and text(trees[1], shared + "/helper.py") == "a = 3\n"


def test_a_folder_here_that_python_would_take_for_the_module(shared, tmp_path):
    os.makedirs(shared + "/helper")
    with open(shared + "/helper/__init__.py", "w", encoding="utf-8"):
        pass
    home = Files({shared + "/helper.py": "a = 1\n"})
    home.manifest = lambda root, name, whole=home.manifest: whole(root, "helper.py")
    tree = Tree(str(tmp_path / "code"), home.find, "gpu2")
    assert not tree.bring("helper", (shared,))["here"] and text(tree, shared + "/helper.py") == "a = 1\n"


def test_the_files_that_are_here_are_not_sent(shared, tmp_path):
    home = Files({shared + "/pkg/__init__.py": "", shared + "/pkg/one.py": "one\n", shared + "/pkg/two.py": "two\n"})
    os.makedirs(shared + "/pkg")
    for name, there in (("__init__", ""), ("one", "one\n")):
        with open(f"{shared}/pkg/{name}.py", "w", encoding="utf-8") as file:
            file.write(there)
    tree = Tree(str(tmp_path / "code"), home.find, "gpu2")
    assert not tree.bring("pkg", (shared,))["here"] and len(files(tree)) == 3
    assert [len(question["hashes"]) for what, question in home.asked if what == "files"] == [1]
