# SPDX-License-Identifier: BSD-3-Clause
"""What home sees, tells and composes anew for folders that are not there, and for what ranks have got before."""

import os

from files import write
from test_code_home import project  # noqa: F401 - a fixture


def test_what_others_write_around_folders_that_are_not_there_does_not_matter(project, monkeypatch):  # noqa: F811
    asked, own = (str(project.folder / name) for name in ("asked/lib", "own"))
    os.mkdir(project.folder / "nb")
    project.path = [str(project.folder / "nb"), own]
    project.part()
    states = project.tree(folders=[asked])["states"]
    composed, compose = [], project.home._composed
    assert project.part()["looked"] == states
    monkeypatch.setattr(project.home, "_composed", lambda *args: composed.append(args) or compose(*args))
    for name in ("noise", "asked.txt"):
        write(project.folder, name)
        project.home.part(ran=name)
    assert composed == []
    write(project.folder, "asked/noise", "own/qown.py")
    assert "qown" in project.part()["names"] and len(composed) == 1
    write(project.folder, "asked/lib/qlate.py")
    assert project.part()["looked"][asked] != states[asked]
