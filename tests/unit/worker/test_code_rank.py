# SPDX-License-Identifier: BSD-3-Clause
"""A rank on another machine follows what home has: before a cell, in processes that it starts, and with --with."""

from __future__ import annotations

import errno
import importlib
import os
import platform
import subprocess
import sys

import pytest
from cellspan._code import children, code_rank, finders, package_versions
from cellspan._code.entries import Refused
from cellspan._worker import reloads
from notebook_files import Files

ROOT = "/nowhere/project"


@pytest.fixture
def home():
    return Files({ROOT + "/qhelper.py": "a = 1\n", ROOT + "/qpkg/__init__.py": "", ROOT + "/qpkg/big.bin": "x", ROOT + "/data/a.csv": "1,2\n", ROOT + "/data/b.csv": "3\n"})


@pytest.fixture
def make(home, tmp_path, monkeypatch):
    """Makes a rank's RankCode; all ranks are of one node."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "path_hooks", list(sys.path_hooks))
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    monkeypatch.setattr(sys, "path", [*sys.path, "/theirs"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    modules = set(sys.modules)
    yield lambda rank=1: code_rank.RankCode(str(tmp_path / "runtime" / f"rank-{rank}"), home.find)
    finders.Loader.root = ""
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def code(make):
    return make()


def listing(home, *digests, **more):
    return {"names": {"qhelper": [ROOT], "qpkg": [ROOT]}, "digests": {name: home.digest(name) for name in digests}, **more}


def python(text, **env):
    done = subprocess.run([sys.executable, "-c", text], env={**os.environ, **env}, capture_output=True, text=True, timeout=120)
    return done.stdout.strip() or done.stderr


def test_what_home_has_imported_is_there_before_the_cell(code, home):
    code.take(listing(home, "qhelper"))
    asked = len(home.asked)
    assert code.before_cell() == [] and importlib.import_module("qhelper").a == 1 and len(home.asked) == asked


def test_a_large_package_that_the_cell_does_not_mention_waits_for_its_import(code, home):
    code.take(listing(home, "qhelper", unneeded=["qhelper"]))
    code.before_cell()
    assert home.asked == [] and importlib.import_module("qhelper").a == 1
    home.files[ROOT + "/qhelper.py"] = "a = 2\n"
    code.take(listing(home, "qhelper", unneeded=["qhelper"]))
    asked = len(home.asked)
    assert importlib.reload(sys.modules["qhelper"]).a == 2 and len(home.asked) == asked, "what is imported is followed"


def test_a_second_rank_and_a_second_cell_ask_nothing(code, make, home):
    code.take(listing(home, "qhelper"))
    asked = len(home.asked)
    make(2).take(listing(home, "qhelper"))
    code.take(listing(home, "qhelper"))
    code.before_cell()
    assert len(home.asked) == asked


def test_an_edit_is_there_in_the_next_cell(code, home):
    for value in (1, 2):
        home.files[ROOT + "/qhelper.py"] = f"a = {value}\n"
        code.take(listing(home, "qhelper"))
        code.before_cell()
        assert (importlib.reload(sys.modules["qhelper"]) if value > 1 else importlib.import_module("qhelper")).a == value


def test_an_imported_module_that_cannot_be_renewed_is_said_to_be_old(code, home):
    code.take(listing(home, "qhelper"))
    importlib.import_module("qhelper")
    home.files[ROOT + "/qhelper.py"] = "a = 2\n"
    new = listing(home, "qhelper")

    def late(what, question):
        raise TimeoutError

    home.instead = late
    code.take(new)
    assert code.before_cell() == [f"qhelper on {platform.node()} may be older than the notebook's: the notebook's process was busy for 10 s and did not answer"]


def test_what_cannot_be_stored_is_not_sent_again_and_again(code, home, monkeypatch):
    def full(*args, **kw):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("cellspan._code.tree.write_file", full)
        for _ in range(3):
            code.take(listing(home, "qhelper", **{"incomplete": False, "versions": {}}))
        assert [what for what, _ in home.asked] == ["tree", "files"]
        with pytest.raises(ModuleNotFoundError, match="no room"):
            importlib.import_module("qhelper")
    assert importlib.import_module("qhelper").a == 1


def test_an_imported_module_that_could_not_be_stored_is_tried_again(code, home, monkeypatch):
    def full(*args, **kw):
        raise OSError(errno.ENOSPC, "No space left on device")

    code.take(listing(home, "qhelper"))
    importlib.import_module("qhelper")
    home.files[ROOT + "/qhelper.py"] = "a = 2\n"
    with monkeypatch.context() as patch:
        patch.setattr("cellspan._code.tree.write_file", full)
        for _ in range(2):
            code.take(listing(home, "qhelper"))
            (line,) = code.before_cell()
            assert "qhelper" in line and "may be older than the notebook's" in line and "no room" in line
    code.take(listing(home, "qhelper"))
    assert code.before_cell() == [] and importlib.reload(sys.modules["qhelper"]).a == 2


def test_a_machine_without_room_does_not_fail_a_cell(home, monkeypatch, tmp_path, capsys):
    import json

    from cellspan._worker.follow import Follower

    def full(*args, **kw):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("cellspan._code.children.Site.__init__", full)
    follower = Follower((), None, str(tmp_path / "runtime" / "rank-1"))
    follower.take(json.dumps({"code": listing(home)}), False, {})
    follower.before_cell()
    assert f"the notebook's modules can't come to {platform.node()}: " in capsys.readouterr().err


def test_modules_that_are_imported_beforehand_wait_for_the_files(home, make, monkeypatch, tmp_path, capsys):
    import json

    from cellspan._worker.follow import Follower

    monkeypatch.setenv("CELLSPAN_PRELOAD", "qhelper,-torch,qbad,qnever,json,qlate")
    own_code = make()
    monkeypatch.setattr("cellspan._code.code_rank.RankCode", lambda folder: own_code)
    home.files[ROOT + "/qbad.py"] = "raise SystemExit('no')\n"
    follower = Follower((), None, str(tmp_path / "runtime" / "rank-1"))
    own = listing(home)
    own["names"]["qbad"] = [ROOT]
    for turn in range(2):
        follower.take(json.dumps({"code": own}), False, {})
        assert ("qhelper" in sys.modules) == (turn > 0)
        follower.before_cell()
        assert "qhelper" in sys.modules
        assert capsys.readouterr().err == ("" if turn else "cellspan: CELLSPAN_PRELOAD: qbad on ranks: SystemExit: no\n")
    home.files[ROOT + "/qlate.py"] = ""
    own["names"]["qlate"] = [ROOT]
    follower.take(json.dumps({"code": own}), False, {})
    follower.before_cell()
    assert "qlate" in sys.modules and "qnever" not in sys.modules


def test_another_module_that_is_loaded_already_is_told_once(code, home):
    import colorsys

    home.files[ROOT + "/colorsys.py"] = "mine = True\n"
    for _ in range(2):
        code.take({"names": {"colorsys": [ROOT], "qhelper": [ROOT]}, "digests": {"colorsys": home.digest("colorsys"), "qhelper": home.digest("qhelper")}})
        lines = code.before_cell()
        importlib.import_module("qhelper")
        assert len(lines) <= 1
        told = lines[0] if lines else told
    assert lines == [] and told.startswith("the notebook's colorsys is not imported on ranks: another module colorsys is loaded there already")
    assert colorsys.__file__ in told


def test_several_such_modules_are_one_line_and_none_if_home_has_them_from_there_too(code, home):
    own = {}
    for name in ("colorsys", "calendar", "code"):
        importlib.import_module(name)
        home.files[f"{ROOT}/{name}.py"] = "mine = True\n"
        own[name] = home.digest(name)
    code.take({"names": dict.fromkeys(own, [ROOT]), "digests": own, "others": ["code"]})
    line, = code.before_cell()
    assert line.startswith("the notebook's colorsys, calendar are not imported on ranks: other modules of these names are loaded there already (")
    assert "code.py" not in line


def test_what_home_does_not_have_is_asked_for_once_by_node_and_cell(code, make, home):
    other = make(2)
    for one in (code, other):
        one.take(listing(home, incomplete=True))
    for cell in (1, 2):
        home.asked.clear()
        for one in (code, other):
            one.before_cell(cell)
        for _ in range(2):  # the finders of both are asked
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module("qoptional")
        child = "import sys\nfor _ in range(2):\n    try:\n        import qoptional\n    except ImportError:\n        print('none')"
        assert python(child) == "none\nnone"
        # Debian's Python looks for one of its own when it begins.
        assert [one for one in home.asked if one[1]["name"] != "apport_python_hook"] == [("tree", {"name": "qoptional"})]
    home.files[ROOT + "/qoptional.py"] = "a = 5\n"
    code.before_cell(3)
    assert importlib.import_module("qoptional").a == 5 and python("import qoptional; print(qoptional.a)") == "5"


def test_a_changed_file_that_home_never_had_is_told_as_such(code, home, monkeypatch, tmp_path):
    monkeypatch.setattr(reloads, "autoreload_of", lambda shell: None)
    imported = reloads.Imported()
    imported.note()
    own = tmp_path / "qranks.py"
    own.write_text("a = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    code.take(listing(home, "qhelper"))
    theirs = [importlib.import_module(name).__file__ for name in ("qhelper", "qranks")]
    assert list(map(code.is_homes, theirs)) == [True, False]
    imported.note()
    for path in theirs:
        with open(path, "a", encoding="utf-8") as file:
            file.write("b = 2\n")
        os.utime(path, (5, 5))
    assert sorted(imported.unsaid(None, code.is_homes)) == [
        f"{ROOT}/qhelper.py is newer than what ranks have imported: importlib.reload(qhelper) or %autoreload 2 at home loads it again",
        f"{own} on {platform.node()} is newer than what ranks have imported: importlib.reload(qranks) in a cell on ranks loads it again",
    ]


def test_a_deleted_file_is_gone(code, home):
    code.take(listing(home, "qhelper"))
    del home.files[ROOT + "/qhelper.py"]
    code.take({"names": {"qpkg": [ROOT]}})
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("qhelper")
    assert not os.path.exists(finders.Loader.root + ROOT + "/qhelper.py")


# ---- processes that a rank starts ------------------------------------------------------------------------------------


def test_a_new_python_finds_what_is_here_and_what_it_asks_for(code, home):
    code.take(listing(home, "qhelper"))
    assert python("import qhelper, qpkg; print(qhelper.a, qpkg.__file__)") == f"1 {finders.Loader.root}{ROOT}/qpkg/__init__.py"
    assert python("import sys; print([p for p in sys.path if 'rank-' in p or 'cellspan/python' in p], '/theirs' in sys.path)") == "[] True"


def test_a_new_python_whose_names_are_nobodys_asks_nothing(code, home):
    code.take(listing(home))
    assert "ModuleNotFoundError" in python("import qnever") and home.asked == []


def test_the_users_own_sitecustomize_runs(code, home, tmp_path):
    code.take(listing(home))
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = __file__\n")
    path = os.environ["PYTHONPATH"] + os.pathsep + str(tmp_path)
    assert python("import sitecustomize; print(mine == sitecustomize.__file__)", PYTHONPATH=path) == "True"


def test_a_new_python_that_has_another_version_of_cellspan(code, home, tmp_path):
    code.take(listing(home))
    (tmp_path / "cellspan").mkdir()
    (tmp_path / "cellspan" / "__init__.py").write_text("raise RuntimeError('another version')\n")
    path = os.environ["PYTHONPATH"] + os.pathsep + str(tmp_path)
    assert python(f"import qhelper, sys; print(qhelper.a, {str(tmp_path)!r} in sys.path)", PYTHONPATH=path) == "1 True"


def test_a_child_of_a_child(code, home):
    code.take(listing(home))
    inner = "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import qhelper; print(qhelper.a)'], capture_output=True, text=True).stdout)"
    assert python(inner) == "1"


def test_a_process_of_spawn_and_a_fork(code, home, tmp_path):
    code.take(listing(home))
    (tmp_path / "main.py").write_text(
        "import multiprocessing, sys\n\ndef f(name):\n    return __import__(name).__file__\n\n"
        "if __name__ == '__main__':\n    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:\n        print(pool.map(f, ['qpkg', 'qhelper']))\n")
    for way in ("spawn", "forkserver", "fork"):
        done = subprocess.run([sys.executable, str(tmp_path / "main.py"), way], capture_output=True, text=True, timeout=120)
        assert "/qpkg/__init__.py" in done.stdout and "/qhelper.py" in done.stdout, done.stderr
    pid = os.fork()
    if not pid:
        status = 1
        try:
            importlib.import_module("qpkg")
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_fork_asks_its_rank(code, home):
    code.take(listing(home))
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            status = 0 if importlib.import_module("qhelper").a == 1 else 1
        finally:
            os._exit(status)
    os.close(write)
    os.close(read)
    assert os.waitpid(pid, 0)[1] == 0 and ("tree", {"name": "qhelper", "roots": [ROOT]}) in home.asked  # this process has asked home


def test_a_process_that_lives_over_cells_follows(code, home):
    code.take(listing(home))
    text = ("import sys, importlib\nfor line in sys.stdin:\n    try:\n        print(importlib.import_module(line.strip()).a, flush=True)\n"
            "    except ImportError:\n        print('none', flush=True)\n")
    worker = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ask, answer = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.read(ask[0], 1)
            os.write(answer[1], str(importlib.import_module("qnew").a).encode())
            status = 0
        finally:
            os._exit(status)

    def asked(name):
        worker.stdin.write(name + "\n")
        worker.stdin.flush()
        return worker.stdout.readline().strip()

    assert (asked("qhelper"), asked("qnew")) == ("1", "none")
    home.files[ROOT + "/qnew.py"] = "a = 3\n"
    code.take({"names": {"qhelper": [ROOT], "qnew": [ROOT]}})
    os.write(ask[1], b"x")
    assert asked("qnew") == "3" and os.read(answer[0], 9) == b"3"
    worker.stdin.close()
    assert worker.wait(60) == 0 and os.waitpid(pid, 0)[1] == 0
    worker.stdout.close()
    for end in (*ask, *answer):
        os.close(end)


def test_the_answer_to_a_child_may_be_an_error(code, home):
    import json

    code.take(listing(home))
    home.instead = lambda what, question: (json.dumps({"error": "the notebook's process has ended"}), None)
    assert "the notebook has it, but the notebook's process has ended" in python("import qhelper")


def test_a_child_that_outlives_its_rank(code, home, tmp_path):
    code.take(listing(home))
    with pytest.raises(children.Unavailable, match="ended"):
        children.ask(str(tmp_path), {"name": "qhelper", "roots": [ROOT], "digest": "", "home": ""})


def test_processes_find_nothing_when_the_code_stays_at_home(code, home):
    code.take(listing(home))
    code.take(None)
    assert os.environ["PYTHONPATH"] == "/theirs" and "ModuleNotFoundError" in python("import qhelper")


def test_a_long_path_of_the_folder(home, make, tmp_path):
    deep = tmp_path / ("x" * 120)
    made = code_rank.RankCode(str(deep / "rank-1"), home.find)
    made.take(listing(home))
    assert python("import qhelper; print(qhelper.a)") == "1"


# ---- --with ----------------------------------------------------------------------------------------------------------


def with_files(home, path="data"):
    return listing(home, **{"with": {path: "any"}})


@pytest.fixture
def data(home):
    """The manifest of --with data, whatever is asked."""
    manifest = home.manifest
    home.manifest = lambda root, name: dict(manifest(ROOT, "data"), digest="any", roots=[ROOT])


def test_files_of_with_are_in_the_ranks_folder(code, home, data):
    code.take(with_files(home))
    assert code.before_cell() == []
    with open("data/a.csv", encoding="utf-8") as file:
        assert file.read() == "1,2\n"
    with open("data/a.csv", "a", encoding="utf-8") as file:
        file.write("4\n")
    os.unlink("data/b.csv")
    code.before_cell()
    with open("data/a.csv", encoding="utf-8") as file:
        assert file.read() == "1,2\n4\n" and os.path.exists("data/b.csv")
    home.files[ROOT + "/data/a.csv"] = "new\n"
    code.take(listing(home, **{"with": {"data": "other"}}))
    with pytest.raises(Refused, match=r"data/a.csv on .* is another file"):
        code.before_cell()


def test_a_folder_of_the_ranks_that_can_only_be_read_is_named(code, home, data, monkeypatch):
    """As the root of a container. What is there already, as on a file system that home shares, needs no writing."""
    made = os.open

    def refuse(path, flags, *more, **named):
        if "/data/" in str(path) and str(path).startswith(os.getcwd()) and flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return made(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    code.take(with_files(home))
    with pytest.raises(Refused, match=r"--with data: no file can be made in \S+/data on \S+ \(Read-only file system\): name another folder by --cwd"):
        code.before_cell()
    for path, text in home.files.items():
        if path.startswith(ROOT + "/data/"):
            with open("data/" + os.path.basename(path), "w", encoding="utf-8") as file:
                file.write(text)
    assert code.before_cell() == []


def test_empty_folders_of_with_come_too(code, home, data):
    home.manifest = lambda root, name, whole=home.manifest: dict(whole(root, name), empty=[ROOT + "/data/none/below", "../outside"])
    code.take(with_files(home))
    assert code.before_cell() == []
    assert os.path.isdir("data/none/below") and sorted(os.listdir("data")) == ["a.csv", "b.csv", "none"]


def test_a_file_of_with_that_changes_at_home_is_replaced(code, make, home, data):
    code.take(with_files(home))
    code.before_cell()
    home.files[ROOT + "/data/a.csv"] = "new\n"
    home.manifest = lambda root, name, whole=home.manifest: dict(whole(root, name), digest="other")
    other = make(2)
    other.take(listing(home, **{"with": {"data": "other"}}))
    other.before_cell()
    with open("data/a.csv", encoding="utf-8") as file:
        assert file.read() == "new\n"


def test_an_edited_file_is_replaced_by_another_run_too(code, make, home, data, tmp_path):
    code.take(with_files(home))
    code.before_cell()
    home.files[ROOT + "/data/a.csv"] = "new\n"
    del home.files[ROOT + "/data/b.csv"]
    other = code_rank.RankCode(str(tmp_path / "another" / "rank-1"), home.find)
    other.take(with_files(home))
    assert other.before_cell() == []
    with open("data/a.csv", encoding="utf-8") as file:
        assert file.read() == "new\n"
    home.files[ROOT + "/data/c.csv"] = "c"
    del home.files[ROOT + "/data/a.csv"]
    home.manifest = lambda root, name, whole=home.manifest: dict(whole(root, name), digest="other")
    other.take(listing(home, **{"with": {"data": "other"}}))
    other.before_cell()
    assert os.listdir("data") == ["c.csv"]


def test_an_edit_of_a_file_of_with_may_be_taken_back(code, home, data):
    home.manifest = lambda root, name, whole=home.manifest: dict(whole(root, name), digest=home.files[ROOT + "/data/a.csv"])
    for text in ("1,2\n", "new\n", "1,2\n"):
        home.files[ROOT + "/data/a.csv"] = text
        code.take(listing(home, **{"with": {"data": text}}))
        code.before_cell()
        with open("data/a.csv", encoding="utf-8") as file:
            assert file.read() == text


def test_what_home_removes_stays_if_it_was_there_before_or_was_edited_there(code, make, home, data):
    home.files[ROOT + "/data/c.csv"] = "c"
    os.mkdir("data")
    with open("data/a.csv", "w", encoding="utf-8") as file:
        file.write("1,2\n")
    code.take(with_files(home))
    code.before_cell()
    with open("data/b.csv", "a", encoding="utf-8") as file:
        file.write("4\n")
    home.files = {ROOT + "/data/d.csv": "d"}
    home.manifest = lambda root, name, whole=home.manifest: dict(whole(root, name), digest="other")
    other = make(2)
    other.take({"names": {}, "digests": {}, "with": {"data": "other"}})
    other.before_cell()
    assert sorted(os.listdir("data")) == ["a.csv", "b.csv", "d.csv"]


def test_a_file_of_somebody_else_is_not_replaced(code, home, data):
    os.mkdir("data")
    with open("data/a.csv", "w", encoding="utf-8") as file:
        file.write("mine")
    code.take(with_files(home))
    with pytest.raises(Refused):
        code.before_cell()
    with open("data/a.csv", encoding="utf-8") as file:
        assert file.read() == "mine"


def test_homes_own_files_are_left_alone(code, make, home, data):
    """The ranks' folder is home's, and this machine sees late what home has changed there."""
    home.shared = {ROOT + "/data": os.path.abspath("data")}
    os.mkdir("data")
    for name, text in (("a.csv", "1,2\n"), ("b.csv", "3\n")):
        with open("data/" + name, "w", encoding="utf-8") as file:
            file.write(text)
    code.take(with_files(home))
    assert code.before_cell() == []
    home.files = {ROOT + "/data/a.csv": "new\n", ROOT + "/data/c.csv": "c"}
    home.manifest = lambda root, name, whole=home.manifest: dict(whole(root, name), digest=str(home.files))
    for rank in (code, make(2)):
        rank.take(listing(home, **{"with": {"data": str(home.files)}}))
        assert rank.before_cell() == [] and sorted(os.listdir("data")) == ["a.csv", "b.csv"]
        with open("data/a.csv", encoding="utf-8") as file:
            assert file.read() == "1,2\n"
    home.shared = {}  # as on a machine with a disk of its own
    home.files[ROOT + "/data/a.csv"] = "newer\n"
    code.take(listing(home, **{"with": {"data": str(home.files)}}))
    assert code.before_cell() == [] and sorted(os.listdir("data")) == ["a.csv", "b.csv", "c.csv"]
    with open("data/a.csv", encoding="utf-8") as file:
        assert file.read() == "newer\n"


def test_what_a_killed_rank_has_left_is_removed(code, home, data):
    os.mkdir("data")
    names = {".cellspan-1-0123456789ab": "", ".cellspan-2-0123456789ab": "text", ".cellspan-x": "", ".cellspan-3-0123456789ab": ""}
    for name, text in names.items():
        with open("data/" + name, "w", encoding="utf-8") as file:
            file.write(text)
        if name != ".cellspan-3-0123456789ab":  # of a rank that waits for home at the moment
            os.utime("data/" + name, (1e9, 1e9))
    code.take(with_files(home))
    assert code.before_cell() == []
    assert sorted(os.listdir("data")) == sorted([*names, "a.csv", "b.csv"])[1:]


def test_what_home_does_not_have(code, home):
    home.manifest = lambda root, name: {}
    code.take(with_files(home))
    with pytest.raises(Refused, match="--with data: the notebook has no such"):
        code.before_cell()


# ---- versions --------------------------------------------------------------------------------------------------------


def test_versions_of_packages_are_compared_once_on_a_node(code, make, home):
    numpy = package_versions.of("numpy")
    new = listing(home, versions={"numpy": "0.1", "IPython": package_versions.of("IPython"), "qnever": "1"})
    code.take(new)
    assert code.before_cell() == [f"numpy 0.1 here, {numpy} on {platform.node()}"]
    other = make(2)
    for one in (code, other):
        one.take(new)
        assert one.before_cell() == []


def test_a_version_is_that_of_the_distribution():
    import IPython
    import yaml
    import zmq

    assert package_versions.of("IPython") == IPython.__version__ and package_versions.of("qnever") == ""
    assert package_versions.of("yaml") == yaml.__version__ and package_versions.of("zmq") == zmq.__version__
    sys.modules["qversioned"] = module = type(sys)("qversioned")
    module.__version__ = "3"
    assert package_versions.of("qversioned") == "3" and package_versions.is_there("qversioned")
    del sys.modules["qversioned"]
    assert not package_versions.is_there("qversioned")
