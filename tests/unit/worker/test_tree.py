# SPDX-License-Identifier: BSD-3-Clause
"""The files of the notebook on another machine: what is asked of home, and what is stored. test_tree_in_place.py: what is used where it is."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from cellspan._code.entries import UNKNOWN, Entries, Unavailable, key_of, packed, write_file
from cellspan._code.tree import BATCH, File, Tree, batches
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
    files = [File(str(n), 1 << 20, str(n), 0) for n in range(300)]
    assert [len(one) for one in batches(files)] == [128, 128, 44]
    assert [len(one) for one in batches([File("", 0, "", 0)] * (BATCH + 1))] == [BATCH, 1]
    assert [len(one) for one in batches([File("", 1 << 30, "", 0)] * 2)] == [1, 1] and list(batches([])) == []


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
