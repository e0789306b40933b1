# SPDX-License-Identifier: BSD-3-Clause
"""Where the drop-in modules run what is meant for a cluster."""

import types

import pytest
from cellspan import _jobs


@pytest.mark.parametrize(("master", "setting", "group", "on", "place", "line"), [
    ("spark://h:7077", "", None, None, "spark", "on the notebook's Spark session, spark://h:7077 (on=\"local\" is this machine"),
    ("local-cluster[2,1,1024]", "", "local", None, "spark", "local-cluster"),
    ("local[*]", "", None, None, None, ""),
    ("local", "", None, None, None, ""),
    ("", "", None, None, None, ""),
    ("spark://h:7077", "slurm:--nodes=2", None, None, "slurm:--nodes=2", "on slurm:--nodes=2, which CELLSPAN_ON names"),
    ("spark://h:7077", "slurm:--nodes=2", None, "ssh:h1", "ssh:h1", ""),
    ("spark://h:7077", "slurm:--nodes=2", "ssh:h1", None, None, ""),
])
def test_work_for_a_cluster_finds_its_place(monkeypatch, capsys, master, setting, group, on, place, line):
    monkeypatch.setattr(_jobs, "_spark_master", lambda: master)
    monkeypatch.setenv("CELLSPAN_ON", setting)
    monkeypatch.setattr(_jobs._api, "group", lambda: types.SimpleNamespace(on=group, ranks=lambda: []))
    assert _jobs.place_of(on, say=True) == place
    said = capsys.readouterr().err
    assert line in said and bool(line) == bool(said)


def test_ranks_that_live_here_are_the_place(monkeypatch):
    monkeypatch.setattr(_jobs, "_spark_master", lambda: "spark://h:7077")
    monkeypatch.setattr(_jobs._api, "group", lambda: types.SimpleNamespace(on=None, ranks=lambda: [{"rank": 0}]))
    assert _jobs.place_of(None) is None


@pytest.mark.parametrize(("master", "setting", "ranks", "line"), [
    ("", "", [], "the notebook has no other machines, so the ranks are on this one"),
    ("", "", [{"rank": 0}], "the notebook has no other machines, so the ranks are on this one"),
    ("spark://h:7077", "", [{"rank": 0}], "the ranks are on this machine, where the notebook's are; after `%ranks stop` they are on the notebook's Spark"),
    ("", "ssh:h1", [{"rank": 0}], "the ranks are on this machine, where the notebook's are; after `%ranks stop` they are on ssh:h1, which CELLSPAN_ON"),
])
def test_a_line_says_why_the_ranks_are_here(monkeypatch, capsys, master, setting, ranks, line):
    monkeypatch.setattr(_jobs, "_spark_master", lambda: master)
    monkeypatch.setenv("CELLSPAN_ON", setting)
    monkeypatch.setattr(_jobs._api, "group", lambda: types.SimpleNamespace(on=None, ranks=lambda: ranks))
    assert _jobs.on_the_group(None, False) == (None, None)
    assert capsys.readouterr().err.startswith("cellspan: " + line)
