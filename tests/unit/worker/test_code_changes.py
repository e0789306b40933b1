# SPDX-License-Identifier: BSD-3-Clause
"""Which folders have changed."""

import os
import select

import pytest

from cellspan._code import changes, in_place
from cellspan._code.changes import Changes
from files import write


@pytest.fixture
def seen(tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "mounts", lambda: {"/": "ext4"})  # whatever the test's folder is on
    made = Changes()
    yield made
    made.close()


def took(seen, **ran):
    found = seen.take(**ran)
    seen.done()
    return found


def test_nothing_is_lost_if_it_can_not_be_used_at_once(tmp_path, seen):
    seen.watch(str(tmp_path))
    write(tmp_path, "a.py")
    assert seen.take() == seen.take() == {str(tmp_path)}
    assert took(seen) == {str(tmp_path)} and seen.take() == set()


def test_nothing_has_changed(tmp_path, seen):
    seen.watch(str(tmp_path))
    assert took(seen) == set()


def test_what_happens_in_a_folder(tmp_path, seen):
    write(tmp_path, "a.py", "b.py", "c.py", "sub/x.py")
    seen.watch(str(tmp_path))
    for change in (
        lambda: (tmp_path / "a.py").write_text("1"),
        lambda: (tmp_path / "new.py").touch(),
        lambda: os.rename(tmp_path / "a.py", tmp_path / "b.py"),
        lambda: (tmp_path / "c.py").unlink(),
        lambda: os.chmod(tmp_path / "b.py", 0o755),
        lambda: (tmp_path / "other").mkdir(),
    ):
        change()
        assert took(seen) == {str(tmp_path)} and took(seen) == set()
    (tmp_path / "sub/x.py").write_text("1")
    assert took(seen) == set()


def test_where_only_modules_matter(tmp_path, seen):
    seen.watch(str(tmp_path), only_modules=True)
    (tmp_path / "train.log").write_text("1")
    assert took(seen) == set()
    (tmp_path / "helper.py").write_text("1")
    assert took(seen) == {str(tmp_path)}
    (tmp_path / "pkg").mkdir()
    assert took(seen) == {str(tmp_path)}
    seen.watch(str(tmp_path))
    seen.watch(str(tmp_path), only_modules=True)
    (tmp_path / "train.log").write_text("2")
    assert took(seen) == {str(tmp_path)}


def test_a_folder_that_is_deleted_and_made_again(tmp_path, seen):
    folder = tmp_path / "pkg"
    folder.mkdir()
    seen.watch(str(folder))
    folder.rmdir()
    assert took(seen) == {str(folder)}
    folder.mkdir()
    seen.watch(str(folder))
    assert took(seen) == set()
    write(folder, "a.py")
    assert took(seen) == {str(folder)}


def test_one_folder_under_two_names(tmp_path, seen):
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "link")
    both = {str(tmp_path / "real"), str(tmp_path / "link")}
    for folder in both:
        seen.watch(folder)
    write(tmp_path / "real", "a.py")
    assert took(seen) == both


def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(changes.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("why", ["no inotify", "not there", "a kind that nobody knows", "too many"])
def test_folders_that_it_does_not_see(tmp_path, monkeypatch, why):
    now, folder = clock(monkeypatch), str(tmp_path / ("nothing" if why == "not there" else ""))
    mounts = {os.path.realpath(tmp_path): "sharedfs"} if why == "a kind that nobody knows" else {}
    monkeypatch.setattr(changes, "mounts", lambda: {**mounts, "/": "ext4"})
    if why == "too many":
        monkeypatch.setattr(changes, "most_watches", lambda: 0)
    seen = Changes(inotify=why != "no inotify")
    seen.watch(folder)
    assert took(seen, ran=1) == {folder}
    seen.watch(folder)
    assert took(seen, ran=1) == set() and took(seen) == set()  # within a second, and home has run nothing
    assert took(seen, ran=2) == {folder}
    seen.watch(folder)
    assert took(seen, ran=2) == set()
    now[0] += changes.EVERY
    assert took(seen, ran=2) == {folder}
    seen.close()


@pytest.mark.parametrize("watched", [True, False])
def test_a_file_that_is_written_by_another_of_its_names(tmp_path, monkeypatch, seen, watched):
    now, file = clock(monkeypatch), tmp_path / "a/helper.py"
    write(tmp_path, "a/helper.py", "a/other.py", "b/x.py")
    os.link(file, tmp_path / "b/helper.py")
    seen.watch(str(file.parent))
    monkeypatch.setattr(seen, "_most", 2 if watched else 1)
    states = {str(file): changes.state_of(file)}
    seen.watch_linked(states)
    assert took(seen, ran=1) == set()
    (tmp_path / "b/helper.py").write_text("x = 1")
    assert took(seen, ran=1) == ({str(file.parent)} if watched else set())
    assert took(seen, ran=2) == (set() if watched else {str(file.parent)}) and took(seen, ran=3) == set()
    seen.watch_linked({str(file): changes.state_of(file)})
    (tmp_path / "b/helper.py").write_text("x = 20")
    now[0] += changes.EVERY
    assert took(seen) == {str(file.parent)}


def test_a_watched_file_whose_name_another_one_gets(tmp_path, seen):
    write(tmp_path, "a/helper.py", "a/twin.py", "b/x.py")
    file, folder = tmp_path / "a/helper.py", str(tmp_path / "a")
    for name in ("b/helper.py", "b/twin.py"):
        os.link(tmp_path / "a" / os.path.basename(name), tmp_path / name)
    seen.watch(folder)
    seen.watch_linked({str(path): changes.state_of(path) for path in (file, tmp_path / "a/twin.py")})
    assert took(seen) == set() and len(seen._files) == 2
    write(tmp_path, "new.py")
    os.rename(tmp_path / "new.py", file)
    assert took(seen) == {folder} and list(seen._files) == [str(tmp_path / "a/twin.py")], "it is that file no more"
    (tmp_path / "b/helper.py").write_text("x = 2")
    assert took(seen) == set()
    stale = changes.state_of(tmp_path / "b/twin.py")
    (tmp_path / "b/twin.py").write_text("x = 1")
    took(seen)
    seen.watch_linked({str(tmp_path / "a/twin.py"): stale})
    assert took(seen) == {folder}, "it has changed before it was watched"


def test_linked_files_without_a_watch_are_looked_at_in_turns(tmp_path, monkeypatch):
    clock(monkeypatch)
    monkeypatch.setattr(changes, "POLLED", 2)
    write(tmp_path, *(f"{name}/x.py" for name in "abcde"))
    files, looked = [str(tmp_path / name / "x.py") for name in "abcde"], []
    seen = Changes(inotify=False)
    seen.watch_linked({path: changes.state_of(path) for path in files})
    write(tmp_path, **{"e/x": "x = 1"})
    monkeypatch.setattr(changes, "state_of", lambda path, own=changes.state_of: looked.append(path) or own(path))
    assert [took(seen, ran=ran) for ran in range(1, 5)] == [set(), set(), {str(tmp_path / "e")}, set()]
    assert looked == [*files, *files[:3]]


def test_how_many_folders_are_watched(tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "LIMIT", str(tmp_path / "limit"))
    for limit, most in ((65_536, 8192), (8192, 1024), (100, 1024), (1 << 24, 262_144)):
        (tmp_path / "limit").write_text(f"{limit}\n")
        assert changes.most_watches() == most
    (tmp_path / "limit").unlink()
    assert changes.most_watches() == 1024


def test_ranks_of_a_node_share_the_watches_of_one_notebook(tmp_path, monkeypatch):
    (tmp_path / "limit").write_text(str(changes.SHARE * 4096))
    monkeypatch.setattr(changes, "LIMIT", str(tmp_path / "limit"))
    ranks = [in_place.InPlace(str(tmp_path)) for _ in range(in_place.WATCHERS)]
    made = [rank._begin() for rank in ranks]
    assert sum(one._most for one in made) == 4096
    for rank, one in zip(ranks, made):
        one.close()
        os.close(rank._slot)


def test_a_package_that_takes_anothers_place(tmp_path, seen):
    for name in ("pkg", "next"):
        (tmp_path / name / "sub" / "deep").mkdir(parents=True)
    inside = [str(tmp_path / "pkg"), str(tmp_path / "pkg/sub"), str(tmp_path / "pkg/sub/deep")]
    for folder in inside:
        seen.watch(folder)
    os.rename(tmp_path / "pkg", tmp_path / "old")
    os.rename(tmp_path / "next", tmp_path / "pkg")
    assert took(seen) == set(inside)
    for folder in inside:
        seen.watch(folder)
    write(tmp_path / "pkg/sub/deep", "a.py")
    assert inside[2] in took(seen)


def test_what_was_moved_is_watched_no_more(tmp_path, seen):
    (tmp_path / "pkg/sub").mkdir(parents=True)
    inside = {str(tmp_path / "pkg"), str(tmp_path / "pkg/sub")}
    for folder in inside:
        seen.watch(folder)
    os.rename(tmp_path / "pkg", tmp_path / "old")
    assert took(seen) == inside and took(seen) == set()
    write(tmp_path / "old/sub", "a.py")
    write(tmp_path / "old", "a.py")
    assert select.select([seen._fd], [], [], 0)[0] == []


def test_a_folder_with_another_name_is_watched_on(tmp_path, seen):
    write(tmp_path, "real/a.py", "other/a.py")
    os.symlink("real", tmp_path / "link")
    for name in ("real", "link"):
        seen.watch(str(tmp_path / name))
    os.symlink("other", tmp_path / "new")
    os.rename(tmp_path / "new", tmp_path / "link")
    assert took(seen) == {str(tmp_path / "link")}
    write(tmp_path / "real", "b.py")
    assert took(seen) == {str(tmp_path / "real")}


def test_a_link_among_plain_folders(tmp_path, seen):
    (tmp_path / "pkg").mkdir()
    for version in "12":
        (tmp_path / version).mkdir()
    os.symlink("../1", tmp_path / "pkg/data")
    for folder in (tmp_path, tmp_path / "pkg", tmp_path / "pkg/data"):
        seen.watch(str(folder))
    os.symlink("../2", tmp_path / "pkg/new")
    took(seen)
    os.rename(tmp_path / "pkg/new", tmp_path / "pkg/data")
    assert str(tmp_path / "pkg/data") in took(seen)


def test_more_events_than_the_system_keeps(tmp_path, seen):
    seen.watch(str(tmp_path))
    seen._note(-1, changes.OVERFLOW, b"")
    assert took(seen) == {str(tmp_path)}


def test_its_descriptor_was_closed(tmp_path, seen):
    seen.watch(str(tmp_path))
    os.close(seen._fd)
    assert took(seen) == {str(tmp_path)}
    seen.watch(str(tmp_path))  # it is one of those that it does not see now
    assert took(seen, ran=1) == {str(tmp_path)}


def test_a_folder_that_is_not_there_yet(tmp_path, seen, monkeypatch):
    monkeypatch.setattr(changes, "WAITED_FOR", 2)
    deep, archive, third = (str(tmp_path / name) for name in ("a/b/lib", "lib.zip", "third"))
    seen.wait_for(deep), seen.wait_for(archive)
    write(tmp_path, "noise", "b/lib/x.py")
    os.symlink("nowhere", tmp_path / "third")
    seen.wait_for(third)
    assert took(seen) == took(seen) == set()
    os.mkdir(tmp_path / "a")
    assert seen.take() | seen.take() == {deep} and took(seen) == {deep} and took(seen) == set()
    seen.wait_for(deep)
    write(tmp_path, "a/noise", "lib.zip")
    os.symlink("../b", tmp_path / "a/b")
    assert took(seen) | took(seen) == {deep, archive} and took(seen) == set()
    os.mkdir(tmp_path / "nowhere")
    assert took(seen) | took(seen) == {third}
