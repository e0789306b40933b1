# SPDX-License-Identifier: BSD-3-Clause
"""What home tells of folders that ranks add to their search paths, also of those that are not there, and of what ranks have got before."""

import os

from cellspan._code import code_home, manifest
from files import write
from test_code_home import project  # noqa: F401 - a fixture


def test_modules_of_folders_that_ranks_add(project):  # noqa: F811
    write(project.folder, "nb/mine.py", **{"lib/qinner": "a = 1", "lib/qother": "", "lib/.ssh/qkey": ""})
    project.path = [str(project.folder / "nb")]
    lib = str(project.folder / "lib")
    part = project.part()
    assert part["folders"] == [str(project.folder / "nb")] and part["here"] == str(project) and "added" not in part
    said = project.tree(folders=["/nowhere/lib", lib])
    assert said["folder"] == lib and set(said["names"]) == {"qinner", "qother"}
    for folder in ("lib", lib + "/.ssh", os.path.dirname(os.__file__)):
        assert project.tree(folders=[folder]) == {"states": {}}
    digest = project.tree(name="qinner", roots=[lib])["digest"]
    assert project.part()["added"] == [["qinner", lib, digest]]
    write(project.folder, **{"lib/qinner": "a = 22"})
    assert project.part()["added"][0][2] not in ("", digest)  # an edit follows
    os.unlink(project.folder / "lib/qinner.py")
    assert "added" not in project.part()


def test_what_is_in_folders_that_ranks_have_asked_about_is_told(project, monkeypatch):  # noqa: F811
    write(project.folder, "nb/mine.py", **{"lib/qinner": "a = 1"})
    project.path = [str(project.folder / "nb")]
    there, missing = str(project.folder / "lib"), str(project.folder / "later/lib")
    assert "states" not in project.part()
    states = [project.tree(folders=[folder])["states"][folder] for folder in (there, missing)]
    assert project.part()["states"] == dict(zip((there, missing), states))
    write(project.folder, **{"lib/qinner": "a = 22"})
    assert list(project.part()["states"].values()) == states, "the names are the same"
    write(project.folder, **{"lib/qother": ""})
    assert project.part()["states"][there] != states[0]
    write(project.folder, **{"later/lib/qlate": ""})
    assert project.part()["states"][missing] != states[1]
    monkeypatch.setattr(code_home, "ASKED_FOR", 2)
    os.mkdir(project.folder / "third")
    assert project.tree(folders=[str(project.folder / "third")]) == {}


def test_what_ranks_have_of_folders_that_home_has_left_is_followed(project, monkeypatch):  # noqa: F811
    write(project.folder, "nb/qmine.py")
    project.path = [str(project.folder / "nb")]
    project.part()
    digest = project.tree(name="qmine", roots=project.path)["digest"]
    assert "added" not in project.part()
    own, project.path = project.path[0], []
    assert "qmine" not in project.part()["names"]
    assert project.tree(name="qmine", roots=[own])["digest"] == digest and project.part()["added"] == [["qmine", own, digest]]
    monkeypatch.setattr("cellspan._code.manifest.scan", lambda path: (None, "", b""))
    write(project.folder, **{"nb/qmine": "a = 22"})
    assert project.home.part()[1] == [] and project.part()["added"] == [["qmine", own, ""]], "it changes while it is read"
    monkeypatch.undo()
    write(project.folder, **{"nb/qmine": "a = 3"})
    assert project.part()["added"][0][2] not in ("", digest)


def test_what_others_write_around_folders_that_are_not_there_does_not_matter(project, monkeypatch):  # noqa: F811
    asked, own = (str(project.folder / name) for name in ("asked/lib", "own"))
    os.mkdir(project.folder / "nb")
    project.path = [str(project.folder / "nb"), own]
    project.part()
    states = project.tree(folders=[asked])["states"]
    composed, compose = [], project.home._composed
    assert project.part()["states"] == states
    monkeypatch.setattr(project.home, "_composed", lambda *args: composed.append(args) or compose(*args))
    for name in ("noise", "asked.txt"):
        write(project.folder, name)
        project.home.part(ran=name)
    assert composed == []
    write(project.folder, "asked/noise", "own/qown.py")
    assert "qown" in project.part()["names"] and len(composed) == 1
    write(project.folder, "asked/lib/qlate.py")
    assert project.part()["states"][asked] != states[asked]


def test_what_was_removed_from_a_folder_that_is_there_is_gone(project):  # noqa: F811
    write(project.folder, "lib/qadded.py")
    lib = str(project.folder / "lib")
    assert len(project.tree(name="qadded", roots=[lib])["files"]) == 1
    os.unlink(project.folder / "lib/qadded.py")
    assert project.tree(name="qadded", roots=[lib]) == {"gone": True}
    for roots in (["/nowhere/lib"], [lib, str(project)], [os.path.dirname(os.__file__)]):
        assert project.tree(name="qadded", roots=roots) == {}


def test_what_can_not_be_sent_any_more_is_told_once(project, monkeypatch):  # noqa: F811
    lib = str(project.folder / "lib")
    write(project.folder, "nb/qown/__init__.py", "nb/qnever/__init__.py", "lib/qadded/__init__.py")
    project.path = [str(project.folder / "nb")]
    digest = project.digests("import qown, qnever")["qown"]
    assert project.tree(name="qown")["digest"] == digest and "files" in project.tree(name="qadded", roots=[lib])
    project.part()
    monkeypatch.setattr(manifest, "FILES_MOST", 1)
    for _ in range(2):
        write(project.folder, "nb/qown/more.py", "nb/qnever/more.py", "lib/qadded/more.py")
        part, lines = project.home.part("import qown, qnever")
        assert part["added"] == [["qadded", lib, ""]] and "qown" not in part["digests"] and "qnever" not in part["digests"]
        assert sorted(line.partition(": ")[0] for line in lines) == [f"{name} on other machines may be older than the notebook's" for name in ("qadded", "qown")]
        assert all("too many to send" in line for line in lines)
        write(project.folder, "nb/qown/other.py", "nb/qnever/other.py", "lib/qadded/other.py")
        assert project.home.part("import qown, qnever")[1] == [], "it was told"
        for name in ("nb/qown", "lib/qadded"):
            for file in ("more", "other"):
                os.unlink(project.folder / name / f"{file}.py")
        part, lines = project.home.part("import qown, qnever")
        assert part["digests"]["qown"] == digest and part["added"][0][2] and lines == []
