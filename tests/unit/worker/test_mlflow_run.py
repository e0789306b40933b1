# SPDX-License-Identifier: BSD-3-Clause
"""Ranks and MLflow's run, with a module of the test's in MLflow's place; tests/frameworks has the real one."""

from __future__ import annotations

import contextlib
import sys
import types

import pytest
from cellspan._base import imports
from cellspan._worker import mlflow_run


class Tracking(types.ModuleType):
    """mlflow with one stack of runs: start_run() joins the run that the environment names."""

    def __init__(self, environ):
        super().__init__("mlflow")
        self.environ, self.stack, self.ended, self.tags = environ, [], [], []
        self.autologs = True

    def active_run(self):
        return self.stack[-1] if self.stack else None

    def get_run(self, run):
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run, status="RUNNING"))

    def start_run(self, nested=False, tags=None):
        if self.stack and not nested:
            raise RuntimeError("a run is active")
        self.tags.append(tags)
        self.stack.append(self.get_run(self.environ.pop("MLFLOW_RUN_ID", "new")))
        return self.stack[-1]

    def end_run(self, status="FINISHED"):
        self.ended.append((self.stack.pop().info.run_id, status))

    @contextlib.contextmanager
    def disable_autologging(self):
        self.autologs = False
        yield
        self.autologs = True


@pytest.fixture
def environ(monkeypatch):
    monkeypatch.setattr(mlflow_run.os, "environ", {"RANK": "1"})
    monkeypatch.setattr(mlflow_run, "_joined", None)
    return mlflow_run.os.environ


@pytest.fixture
def mlflow(monkeypatch, environ):
    module = Tracking(environ)
    for name in ("mlflow", "mlflow.tracking.fluent", "mlflow.utils.autologging_utils"):
        monkeypatch.setitem(sys.modules, name, module)
    mlflow_run.watch()
    yield module
    mlflow_run._lasting.pop_all()


def test_home_without_mlflow_has_no_run(environ, monkeypatch):
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    assert mlflow_run.of_home() is None


@pytest.mark.parametrize("active", [lambda: 1 / 0, lambda: 5, lambda: types.SimpleNamespace(info=types.SimpleNamespace(run_id=7))])
def test_another_module_named_mlflow_is_no_harm(environ, monkeypatch, active):
    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(active_run=active))
    assert mlflow_run.of_home() is None
    mlflow_run.follow("a")
    mlflow_run.follow(None)


def test_homes_run_is_the_active_one(mlflow):
    mlflow.start_run()
    assert mlflow_run.of_home() == "new"


def test_each_run_that_a_rank_starts_is_homes(mlflow):
    mlflow_run.follow("home's")
    for _ in range(2):
        assert mlflow.start_run().info.run_id == "home's"
        mlflow.end_run()


def test_without_a_run_at_home_ranks_start_their_own(mlflow):
    mlflow_run.follow(None)
    assert mlflow.start_run().info.run_id == "new"


def test_a_nested_run_is_a_child_of_homes(mlflow):
    mlflow_run.follow("home's")
    assert mlflow.start_run(nested=True, tags={"mine": "1"}).info.run_id == "new"
    assert mlflow.tags == [{"mlflow.parentRunId": "home's", "mine": "1"}]


def test_a_run_inside_a_ranks_own_is_not_changed(mlflow):
    mlflow.start_run()
    mlflow_run.follow("home's")
    assert mlflow.start_run(nested=True).info.run_id == "new"
    assert mlflow.tags[-1] is None


def test_homes_run_that_an_earlier_cell_left_active_is_left_and_keeps_its_state(mlflow):
    mlflow_run.follow("home's")
    mlflow.start_run()
    mlflow_run.follow("next")
    assert mlflow.ended == [("home's", "RUNNING")]
    assert mlflow.start_run().info.run_id == "next"


def test_a_rank_says_so_if_the_run_can_not_be_left(mlflow, capsys):
    mlflow_run.follow("home's")
    mlflow.start_run()
    mlflow.get_run = lambda run: 1 / 0
    mlflow_run.follow("next")
    assert "home's could not be left" in capsys.readouterr().err


def test_autologging_is_for_rank_0(mlflow):
    assert not mlflow.autologs


def test_rank_0_logs_automatically(mlflow, environ):
    mlflow.autologs, environ["RANK"] = True, "0"
    mlflow_run.watch()
    assert mlflow.autologs


def test_nothing_is_imported_for_it(monkeypatch, environ):
    for name in ("mlflow", "mlflow.tracking.fluent", "mlflow.utils.autologging_utils"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(imports._watcher, "wanted", {})
    mlflow_run.watch()
    assert "mlflow" not in sys.modules and len(imports._watcher.wanted) == 2
