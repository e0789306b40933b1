# SPDX-License-Identifier: BSD-3-Clause
"""The files of the notebook on another machine: what is asked of home, what is stored, and what is used where it is."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from cellspan._code import changes, entries, in_place
from cellspan._code.entries import UNKNOWN, Entries, Unavailable, key_of, packed, write_file
from cellspan._code.filesystems import state_of
from cellspan._code.tree import PORTION, Part, Tree, portions
from notebook_files import Files

ROOT = "/nowhere/project"


@pytest.fixture
def home():
    return Files({ROOT + "/helper.py": "a = 1\n", ROOT + "/pkg/__init__.py": "", ROOT + "/pkg/inner/one.py": "b = 1\n", ROOT + "/pkg/data.json": "{}"})


@pytest.fixture
def tree(home, tmp_path):
    return Tree(str(tmp_path / "code"), home.find, "gpu2")


def text(tree, path):
    with open(tree.root + path, encoding="utf-8") as file:
        return file.read()


def files(tree):
    return sorted(os.path.join(folder, name)[len(tree.root):] for folder, _, names in os.walk(tree.root) for name in names)


def test_a_module_comes_once(tree, home):
    entry = tree.bring("helper", (ROOT,))
    assert entry["roots"] == [ROOT] and not entry["here"] and text(tree, ROOT + "/helper.py") == "a = 1\n"
    assert [what for what, _ in home.asked] == ["tree", "files"]
    assert tree.bring("helper", (ROOT,)) == entry and tree.bring("helper", (ROOT,), entry["digest"]) == entry
    assert len(home.asked) == 2


def test_another_rank_of_the_node_asks_nothing(tree, home):
    entry = tree.bring("pkg", (ROOT,))
    asked = len(home.asked)
    other = Tree(tree.folder, home.find, "gpu2")
    assert other.bring("pkg", (ROOT,), entry["digest"]) == entry and len(home.asked) == asked


def test_ranks_that_ask_at_once_ask_home_once(tree, home):
    trees = [Tree(tree.folder, home.find, "gpu2") for _ in range(6)]
    threads = [threading.Thread(target=one.bring, args=("pkg", (ROOT,), home.digest("pkg"))) for one in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [what for what, _ in home.asked] == ["tree", "files"]


def test_only_what_has_changed_is_sent_and_what_home_lacks_goes(tree, home):
    tree.bring("pkg", (ROOT,))
    del home.files[ROOT + "/pkg/inner/one.py"], home.asked[:]
    home.files[ROOT + "/pkg/data.json"] = "{}\n"
    cached = tree.root + ROOT + "/pkg/inner/__pycache__"
    os.makedirs(cached)
    with open(cached + "/one.cpython-311.pyc", "w"):
        pass
    tree.bring("pkg", (ROOT,), home.digest("pkg"))
    (_, _), (what, question) = home.asked
    assert what == "files" and len(question["hashes"]) == 1
    assert files(tree) == [ROOT + "/pkg/__init__.py", ROOT + "/pkg/data.json"] and not os.path.exists(tree.root + ROOT + "/pkg/inner")


def test_a_file_in_anothers_place_has_a_later_second(tree, home):
    times = []
    for value in ("a = 1\n", "a = 2\n", "a = 1\n", "a = 3\n"):
        home.files[ROOT + "/helper.py"] = value
        tree.bring("helper", (ROOT,), home.digest("helper"))
        assert text(tree, ROOT + "/helper.py") == value
        times.append(int(os.stat(tree.root + ROOT + "/helper.py").st_mtime))
    assert times == sorted(set(times))
    assert sum(len(names) for _, _, names in os.walk(os.path.join(tree.folder, "store"))) == 1  # earlier contents are gone


def test_a_file_that_becomes_a_folder_and_a_folder_that_becomes_a_file(tree, home):
    tree.bring("pkg", (ROOT,))
    data, inner = home.files.pop(ROOT + "/pkg/data.json"), home.files.pop(ROOT + "/pkg/inner/one.py")
    home.files.update({ROOT + "/pkg/data.json/x": data, ROOT + "/pkg/inner": inner})
    tree.bring("pkg", (ROOT,), home.digest("pkg"))
    assert files(tree) == [ROOT + "/pkg/__init__.py", ROOT + "/pkg/data.json/x", ROOT + "/pkg/inner"]


def test_a_content_that_somebody_wrote_to_comes_again(tree, home):
    tree.bring("helper", (ROOT,))
    with open(tree.root + ROOT + "/helper.py", "a", encoding="utf-8") as file:
        file.write("b = 2\n")
    home.files[ROOT + "/copy.py"] = home.files[ROOT + "/helper.py"]
    tree.bring("copy", (ROOT,))
    assert text(tree, ROOT + "/copy.py") == "a = 1\n"


def test_a_program_stays_one(tree, home):
    home.modes[ROOT + "/pkg/data.json"] = 0o755
    home.files[ROOT + "/pkg/inner/one.py"] = "{}"
    tree.bring("pkg", (ROOT,))
    assert os.access(tree.root + ROOT + "/pkg/data.json", os.X_OK) and not os.stat(tree.root + ROOT + "/pkg/inner/one.py").st_mode & 0o111


def test_a_name_that_home_does_not_have(tree, home):
    assert tree.bring("absent", (ROOT,)) is None
    tree.bring("helper", (ROOT,))
    del home.files[ROOT + "/helper.py"]
    assert tree.bring("helper", (ROOT,), "another") is None and files(tree) == []


def test_a_name_that_goes_takes_its_files_but_not_those_of_others(tree, home):
    home.files.update({ROOT + "/space/a.py": "", ROOT + "/space/b.py": ""})
    tree.bring("space", (ROOT,))
    tree.bring("space", (ROOT, "/nowhere/other"))
    tree.drop([key_of("space", (ROOT,))])
    assert files(tree) == [ROOT + "/space/a.py", ROOT + "/space/b.py"]
    tree.drop([key_of("space", (ROOT, "/nowhere/other"))])
    assert files(tree) == [] and tree.entries.all() == {}


# ---- a shared file system --------------------------------------------------------------------------------------------


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
    assert entry["here"] and list(tree.look_again("")) == [] and len(home.asked) == asked
    with open(shared + "/helper.py", "w", encoding="utf-8") as file:
        file.write("a = 999\n")
    assert other.bring("helper", (shared,), entry["digest"], "", True)["here"] is False
    assert text(tree, shared + "/helper.py") == "a = 1\n" and tree.bring("helper", (shared,), entry["digest"])["here"] is False
    (line,) = other.lines()
    assert line.startswith(f"{shared}/helper.py on gpu2 is not the notebook's file any more: imports there use the notebook's from now on")
    asked = len(home.asked)
    assert list(tree.look_again("")) == [] and len(home.asked) == asked, "it is in place no more"


def test_a_name_without_a_digest_comes_once_in_a_cell(tmp_path):
    home = Files({"/nowhere/lib/helper.py": "a = 1\n"})
    trees = [Tree(str(tmp_path / "code"), home.find, "gpu2") for _ in range(2)]

    def bring(cell, process="one"):
        home.asked.clear()
        for tree in trees:
            tree.cell_begins(cell)
            assert tree.bring("helper", ("/nowhere/lib",), UNKNOWN, process)
        return len([what for what, _ in home.asked if what == "tree"])

    assert bring(1) == 1 and bring(1) == 0 and bring(2) == 1 and bring(2, "two") == 1 and bring(None, "two") == 2


def test_a_file_that_changes_after_it_was_listed_comes_once_in_the_cell_and_is_told(tmp_path, home):
    trees = [Tree(str(tmp_path / "code"), home.find, "gpu2") for _ in range(2)]
    listed = home.digest("helper")
    home.files[ROOT + "/helper.py"] = "a = 22\n"

    def bring(cell, digest):
        home.asked.clear()
        for tree in trees:
            tree.cell_begins(cell)
            assert tree.bring("helper", (ROOT,), digest)
        return len([what for what, _ in home.asked if what == "tree"]), [line for tree in trees for line in tree.lines()]

    assert bring(None, listed) == (2, []), "the cell has not begun"
    asked, (line,) = bring(1, listed)
    assert asked == 1 and line.startswith("helper has changed at home since the cell began: ranks on gpu2 that import it now have the newer version")
    assert bring(1, listed) == (0, []) and bring(2, home.digest("helper")) == (0, [])
    home.files[ROOT + "/helper.py"] = "a = 1\n"
    assert bring(3, listed) == (1, []) and text(trees[0], ROOT + "/helper.py") == "a = 1\n", "home has what it had before"


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
    assert list(tree.look_again("")) == [] and looked
    looked.clear()
    for _ in range(2):
        assert list(tree.look_again("")) == [] and bool(looked) != inotify
        now[0] += changes.EVERY if inotify else 0
    home.instead = lambda *_: (_ for _ in ()).throw(TimeoutError)
    with open(os.path.join(shared, "" if name.endswith(".py") else "..", name), "w", encoding="utf-8") as file:
        file.write("a = 999\n")
    for _ in range(2):  # at once, also without inotify
        ((name, error),) = tree.look_again("")
        assert name == "helper" and "busy" in str(error)
    home.instead = None
    assert list(tree.look_again("")) == [] and not tree.bring("helper", (shared,))["here"]


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
    assert tree.bring("pkg", (shared,))["here"] and list(tree.look_again("")) == []
    if change == "it becomes a link":
        os.rename(file, other)
        file.symlink_to(tmp_path / "link.py")
        assert list(tree.look_again("")) == [] and tree.bring("pkg", (shared,))["here"]
    if change == "a folder above is another one":
        shutil.copytree(shared, tmp_path / "next")
        (tmp_path / "next/pkg/sub/a.py").write_text("a = 999\n")
        os.rename(shared, tmp_path / "before")
        os.rename(tmp_path / "next", shared)
    else:
        other.write_text("a = 999\n")
    assert list(tree.look_again("")) == [] and not tree.bring("pkg", (shared,))["here"]


def test_a_log_beside_files_in_place_is_not_their_change(shared, tmp_path, monkeypatch):
    for module in ("tree", "changes"):
        monkeypatch.setattr(f"cellspan._code.{module}.mounts", lambda: {"/": "ext4"})
    looked, tree = [], Tree(str(tmp_path / "code"), Files({shared + "/helper.py": "a = 1\n"}).find, "gpu2")
    assert tree.bring("helper", (shared,))["here"] and list(tree.look_again("")) == []
    monkeypatch.setattr(in_place, "state_of", lambda path: looked.append(path) or state_of(path))
    with open(shared + "/train.log", "w", encoding="utf-8") as file:
        file.write("loss 1")
    assert list(tree.look_again("")) == [] and looked == []
    os.utime(shared + "/helper.py")
    assert list(tree.look_again("")) == [] and looked == [shared + "/helper.py"]


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
            assert list(tree.look_again("")) == [] and tree.bring("pkg", (shared,))["here"]
        with open(path, "w", encoding="utf-8") as file:
            file.write("a = 999\n")
        assert list(tree.look_again("")) == [] and not tree.bring("pkg", (shared,))["here"]
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


# ---- what goes wrong -------------------------------------------------------------------------------------------------


def fails(tree, *name):
    with pytest.raises(Unavailable) as raised:
        tree.bring(*(name or ("helper", (ROOT,))))
    return str(raised.value)


def test_home_does_not_answer(tree, home):
    def late(what, question):
        raise TimeoutError

    home.instead = late
    assert "busy for 10 s" in fails(tree)
    home.instead = lambda what, question: (json.dumps({"error": "the notebook's process has ended"}), None)
    assert fails(tree) == "the notebook's process has ended"
    home.instead = None
    assert tree.bring("helper", (ROOT,))["roots"] == [ROOT]


def test_ranks_that_wait_for_another_one_do_not_wait_in_turn(tree, home):
    import time

    waiting = []

    class Waits(Tree):
        def locked(self):
            waiting.append(self)  # from now on it waits for whoever has the lock
            return super().locked()

    def late(what, question):
        while len(waiting) < 5:
            time.sleep(0.01)
        time.sleep(0.1)  # the clock of files may be some milliseconds behind
        raise TimeoutError

    home.instead = late
    errors = []

    def ask(one):
        with pytest.raises(Unavailable) as raised:
            one.bring("helper", (ROOT,))
        errors.append(str(raised.value))

    threads = [threading.Thread(target=ask, args=(Waits(tree.folder, home.find, "gpu2"),)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 5 and len(set(errors)) == 1 and len(home.asked) == 1
    home.instead = None
    assert tree.bring("helper", (ROOT,)) is not None


def test_files_that_change_while_they_are_read(tree, home):
    answer, left = home._bytes, [2]

    def changing(hashes):
        left[0] -= 1
        return answer(hashes) if left[0] < 0 else (json.dumps({"files": [], "gone": hashes}), b"")

    home._bytes = changing
    assert tree.bring("helper", (ROOT,)) is not None
    left[0] = 9
    assert "change" in fails(tree, "pkg", (ROOT,))


def test_bytes_that_are_not_those_of_the_manifest(tree, home):
    home._bytes = lambda hashes: (json.dumps({"files": [[0, 0, 3]], "gone": []}), b"bad")
    assert "change" in fails(tree) and files(tree) == []


def test_no_room(tree, monkeypatch):
    def full(*args, **kw):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("cellspan._code.tree.write_file", full)
    assert fails(tree) == f"it can't be stored on gpu2, in {tree.folder}: no room"


@pytest.fixture
def disk(tree, monkeypatch):
    """A disk on which nothing can be written, and its free bytes."""
    free, why = [0], [errno.ENOSPC]

    def full(*args, **kw):
        raise OSError(why[0], os.strerror(why[0]))

    with monkeypatch.context() as patch:
        patch.setattr("cellspan._code.tree.write_file", full)
        patch.setattr("os.statvfs", lambda folder: SimpleNamespace(f_bavail=free[0], f_frsize=1))
        yield SimpleNamespace(free=free, why=why, mend=lambda: patch.undo())


def asked(home):
    found = [what for what, _ in home.asked]
    home.asked.clear()
    return found


def test_what_has_no_room_is_not_sent_in_vain(tree, home, disk):
    ranks = [tree, Tree(tree.folder, home.find, "gpu2")]
    own = home.digest("pkg")
    for rank in [*ranks, *ranks, *ranks]:
        with pytest.raises(Unavailable, match="no room"):
            rank.bring("pkg", (ROOT,), own)
    assert asked(home) == ["tree", "files"]
    assert "no room" in fails(tree) and asked(home) == ["tree", "files"]  # another name
    home.files[ROOT + "/pkg/data.json"] = "[]"
    with pytest.raises(Unavailable, match="no room"):  # which may be smaller
        tree.bring("pkg", (ROOT,), home.digest("pkg"))
    assert asked(home) == ["tree", "files"]
    disk.free[0] = 1 << 30
    disk.mend()
    assert ranks[1].bring("pkg", (ROOT,), home.digest("pkg")) and asked(home) == ["tree", "files"]


def test_a_full_quota_is_looked_at_again_after_a_minute(tree, home, disk, monkeypatch):
    disk.why[0], disk.free[0] = errno.EDQUOT, 1 << 30
    for _ in range(3):
        assert "no room in your disk quota, which is tried again after a minute" in fails(tree)
    assert asked(home) == ["tree", "files"]
    disk.mend()
    assert "no room in your disk quota" in fails(tree) and asked(home) == []
    monkeypatch.setattr("cellspan._code.room.time.time", lambda now=time.time() + 61: now)
    assert tree.bring("helper", (ROOT,)) and asked(home) == ["tree", "files"]


def test_a_disk_that_is_full_half_way(home, tmp_path):
    """The limit of a process stands for that of a disk."""
    home.files[ROOT + "/pkg/large.txt"] = "x" * 5000
    program = f"""
import os, resource, signal, sys
sys.path[:0] = {[path for path in sys.path if path]!r}
from cellspan._code.tree import Tree
from cellspan._code.entries import Unavailable
from notebook_files import Files
home = Files({home.files!r})
tree = Tree({str(tmp_path / "full")!r}, home.find, "gpu2")
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
try:
    tree.bring("pkg", ({ROOT!r},))
except Unavailable as error:
    print(error)
left = [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(tree.folder) for name in names]
print(max(left) < 4000, os.listdir(tree.root))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(len(tree.bring("pkg", ({ROOT!r},))["files"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    said, clean, number = done.stdout.splitlines() or [done.stderr] * 3
    assert said.startswith(f"it can't be stored on gpu2, in {tmp_path}/full: ") and clean == "True []" and number == "4", (done.stdout, done.stderr)


def test_many_files_come_in_few_letters(home, tmp_path):
    home.files.update({f"{ROOT}/pkg/inner/module_{k}.py": str(k % 50) for k in range(300)})
    lengths = []

    def find(what, question):
        text, data = home.find(what, question)
        sent = packed(json.loads(text))
        lengths.append((len(sent), len(text)))
        return sent, data

    tree = Tree(str(tmp_path / "packed"), find, "gpu2")
    tree.bring("pkg", (ROOT,))
    assert len(files(tree)) == 303 and all(text(tree, f"{ROOT}/pkg/inner/module_{k}.py") == str(k % 50) for k in range(300))
    assert lengths[0][0] < lengths[0][1] / 2, lengths
    assert sum(len(names) for _, _, names in os.walk(os.path.join(tree.folder, "store"))) == 53  # the same bytes are there once


def test_a_path_that_leaves_the_tree(tree, home):
    for path in (ROOT + "/helper/../../../etc/x", ROOT + "/helper/./x", ROOT + "/helper//x", ROOT + "/helper/.."):
        home.files = {path: ""}
        assert "no absolute path" in fails(tree)


def test_an_interrupt_leaves_the_lock_free(tree, home):
    def interrupted(what, question):
        raise KeyboardInterrupt

    home.instead = interrupted
    with pytest.raises(KeyboardInterrupt):
        tree.bring("helper", (ROOT,))
    home.instead = None
    assert Tree(tree.folder, home.find, "gpu2").bring("helper", (ROOT,)) is not None


def test_an_import_while_files_come_does_not_wait_for_itself(tree, home):
    answer = home.find
    seen = []

    def importing(what, content):
        if not seen:
            seen.append(1)
            with pytest.raises(Unavailable):
                tree.bring("pkg", (ROOT,))
        return answer(what, content)

    tree._find = importing
    assert tree.bring("helper", (ROOT,)) is not None


def test_names_that_are_no_text(tree, home):
    odd = ROOT + "/pkg/\udcff\u00e9.txt"
    home.files[odd] = "odd"
    tree.bring("pkg", (ROOT,))
    assert text(tree, odd) == "odd" and odd in [row[0] for row in Entries(tree.folder).get(key_of("pkg", (ROOT,)))["files"]]


def test_portions_are_the_same_for_all():
    parts = [Part(str(n), 1 << 20, str(n), 0) for n in range(300)]
    assert [len(one) for one in portions(parts)] == [128, 128, 44]
    assert [len(one) for one in portions([Part("", 0, "", 0)] * (PORTION + 1))] == [PORTION, 1]
    assert [len(one) for one in portions([Part("", 1 << 30, "", 0)] * 2)] == [1, 1] and list(portions([])) == []


def test_only_the_first_rank_of_a_node_says_something(tree, home):
    assert [Tree(tree.folder, home.find, "gpu2").first("x") for _ in range(3)] == [True, False, False]


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target, source = tmp_path / "target", tmp_path / "source"
    target.write_bytes(b"before")
    source.write_bytes(b"x" * (3 << 20))
    right = hashlib.sha256(source.read_bytes()).hexdigest()
    for data in (b"other", io.BytesIO(b"other")):
        assert not write_file(str(target), data, digest="0" * 64)
        assert target.read_bytes() == b"before" and sorted(os.listdir(tmp_path)) == ["source", "target"]

    class Fails:
        def read(self, size):
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input"):
        write_file(str(target), Fails())
    assert sorted(os.listdir(tmp_path)) == ["source", "target"]
    with open(source, "rb") as file:
        reads = []

        class Counted:
            def read(self, size):
                reads.append(size)
                return file.read(size)

        assert write_file(str(target), Counted(), 0o700, 1000, right)
    assert target.stat().st_size == 3 << 20 and max(reads) <= 1 << 20, "not as a whole"
    assert target.stat().st_mode & 0o777 == 0o700 and target.stat().st_mtime == 1000
