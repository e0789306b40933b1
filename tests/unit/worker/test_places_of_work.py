# SPDX-License-Identifier: BSD-3-Clause
"""Where the drop-in modules run what is meant for a cluster."""

import types

import pytest
from cellspan import _cluster_place


ALONE = "the notebook has no other machines, so the ranks are on this one"


@pytest.mark.parametrize(("master", "setting", "group", "on", "place", "line"), [
    ("spark://h:7077", "", None, None, "spark", "the ranks are on the notebook's Spark session, spark://h:7077 (on=\"local\" is this machine"),
    ("local-cluster[2,1,1024]", "", "local", None, "spark", "the ranks are on the notebook's Spark session, local-cluster"),
    ("local[*]", "", None, None, None, ALONE),
    ("local", "", None, None, None, ALONE),
    ("", "", None, None, None, ALONE),
    ("spark://h:7077", "slurm:--nodes=2", None, None, "slurm:--nodes=2", "the ranks are on slurm:--nodes=2, which CELLSPAN_ON names"),
    ("spark://h:7077", "slurm:--nodes=2", None, "ssh:h1", "ssh:h1", ""),
    ("spark://h:7077", "slurm:--nodes=2", "ssh:h1", None, None, "the ranks are on ssh:h1, where the notebook's are"),
    ("", "", "ssh:h1", None, None, "the ranks are on ssh:h1, where the notebook's are"),
    ("spark://h:7077", "", "ssh:h1", "local", "local", ""),
])
def test_work_for_a_cluster_finds_its_place_and_a_line_says_which(monkeypatch, capsys, master, setting, group, on, place, line):
    monkeypatch.setattr(_cluster_place, "_spark_master", lambda: master)
    monkeypatch.setenv("CELLSPAN_ON", setting)
    monkeypatch.setattr(_cluster_place._api, "group", lambda: types.SimpleNamespace(on=group, ranks=lambda: []))
    assert _cluster_place.place_of(on) == place and not capsys.readouterr().err
    for named in (lambda: _cluster_place.place_of(on, say=True), lambda: _cluster_place.place_and_gpus(on, False)[0]):
        assert named() == place
        said = capsys.readouterr().err
        assert said.startswith("cellspan: " + line) if line else not said


def test_ranks_that_live_here_are_the_place(monkeypatch):
    monkeypatch.setattr(_cluster_place, "_spark_master", lambda: "spark://h:7077")
    monkeypatch.setattr(_cluster_place._api, "group", lambda: types.SimpleNamespace(on=None, ranks=lambda: [{"rank": 0}]))
    assert _cluster_place.place_of(None) is None


@pytest.mark.parametrize(("master", "setting", "ranks", "line"), [
    ("", "", [], "the notebook has no other machines, so the ranks are on this one"),
    ("", "", [{"rank": 0}], "the notebook has no other machines, so the ranks are on this one"),
    ("spark://h:7077", "", [{"rank": 0}], "the ranks are on this machine, where the notebook's are; after `%ranks stop` they are on the notebook's Spark"),
    ("", "ssh:h1", [{"rank": 0}], "the ranks are on this machine, where the notebook's are; after `%ranks stop` they are on ssh:h1, which CELLSPAN_ON"),
])
def test_a_line_says_why_the_ranks_are_here(monkeypatch, capsys, master, setting, ranks, line):
    monkeypatch.setattr(_cluster_place, "_spark_master", lambda: master)
    monkeypatch.setenv("CELLSPAN_ON", setting)
    monkeypatch.setattr(_cluster_place._api, "group", lambda: types.SimpleNamespace(on=None, ranks=lambda: ranks))
    assert _cluster_place.place_and_gpus(None, False) == (None, None)
    assert capsys.readouterr().err.startswith("cellspan: " + line)


def test_what_is_local_never_leaves_this_machine(monkeypatch, capsys):
    """Whatever there is elsewhere, and nobody is asked for it."""
    from cellspan import horovod, tensorflow, torch
    from cellspan.horovod import _runner

    monkeypatch.setattr(_cluster_place, "_spark_master", lambda: 1 / 0)
    monkeypatch.setenv("CELLSPAN_ON", "ssh:h1")
    monkeypatch.setattr(_cluster_place._api, "group", lambda: 1 / 0)
    local = [torch.TorchDistributor(2, local_mode=True, use_gpu=False)._place(), torch.TorchDistributor(2, use_gpu=False)._place(),
             torch.DeepspeedTorchDistributor(2, localMode=True, useGpu=False)._place(),
             tensorflow.MirroredStrategyRunner(num_slots=1, local_mode=True, use_gpu=False)._place()]
    monkeypatch.setattr(_runner, "launch", lambda *_, **options: local.append(options))
    for np in (-1, -2):
        horovod.HorovodRunner(np=np, driver_log_verbosity="all").run(int)
    assert [where["on"] for where in local] == ["local"] * 6 and [where["n"] for where in local] == [2, 2, 2, 1, 1, 2]
    assert "the ranks are on" not in capsys.readouterr().err
