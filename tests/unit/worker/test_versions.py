# SPDX-License-Identifier: BSD-3-Clause
"""Versions of packages that do not work together are told before the import that fails."""

from __future__ import annotations

import sys

from cellspan._base import imports, versions


def told(**here):
    return versions.wrong("petastorm", here.get)


def test_what_does_not_work_is_named_with_what_to_install():
    assert told(petastorm="0.13.1", pyarrow="25.0.1", numpy="2.4.6", setuptools="69.5.1") == (
        "petastorm 0.13.1 does not work with pyarrow 25.0.1, numpy 2.4.6: pip install 'pyarrow<15' 'numpy<2'")
    assert told(petastorm="0.13.1", pyarrow="14.0.2", numpy="1.26.4", setuptools="80.9.0") == (
        "petastorm 0.13.1 does not work with setuptools 80.9.0: pip install 'setuptools<70'")


def test_nothing_is_said_of_what_works_or_is_not_known():
    assert told(petastorm="0.13.1", pyarrow="14.0.2", numpy="1.26.4") is None
    assert told(petastorm="0.14.0rc1", pyarrow="25.0.1", numpy="2.4.6") is None
    assert told(pyarrow="25.0.1", numpy="2.4.6") is None
    assert told(petastorm="0.13.1", pyarrow="", numpy="unknown") is None


def test_it_is_said_once_before_the_import(monkeypatch, tmp_path, capsys):
    (tmp_path / "petastorm.py").write_text("raise ImportError('in the midst')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(versions, "wrong", lambda package, version_of: f"{package} and others")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    imports._watcher.before.clear()
    versions.watch()
    for _ in range(2):
        try:
            __import__("petastorm")
        except ImportError as error:
            assert "midst" in str(error)
    assert capsys.readouterr().err == "cellspan: petastorm and others\n"
