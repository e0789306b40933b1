# SPDX-License-Identifier: BSD-3-Clause
"""Ranks and W&B's service, with modules of the test's in W&B's place; tests/frameworks has the real one."""

from __future__ import annotations

import sys
import threading
import types

import pytest
from cellspan._worker import wandb_service

PID = 7


class Setup:
    """What W&B keeps for a process."""

    def __init__(self, environ, own):
        self._pid, self._active_runs = PID, []
        self._connection = types.SimpleNamespace(owns_service=own)
        if own:
            environ["WANDB_SERVICE"] = "own"

    def add_active_run(self, run):
        self._active_runs.append(run)

    @property
    def most_recent_active_run(self):
        return self._active_runs[-1] if self._active_runs else None


class Wandb(types.ModuleType):
    """wandb, wandb.errors, wandb.sdk.wandb_setup and wandb.sdk.lib.module at once."""

    _WandbSetup = Setup

    class UsageError(Exception):
        pass

    def __init__(self, environ):
        super().__init__("wandb")
        self.environ, self.run, self._singleton, self.left = environ, None, None, 0

    def use(self, pid=PID, run="r"):
        """As wandb.init(), or the use of another process's run."""
        if self._singleton is None:
            self._singleton = Setup(self.environ, "WANDB_SERVICE" not in self.environ)
        self.run = types.SimpleNamespace(id=run, _init_pid=pid)
        self._singleton.add_active_run(self.run)

    def finish(self):
        self._singleton._active_runs.clear()
        self.run = None

    def teardown(self):
        if self._singleton._connection.owns_service:
            del self.environ["WANDB_SERVICE"]
        self._singleton, self.left = None, self.left + 1

    def unset_globals(self):
        self.run = None


@pytest.fixture
def wandb(monkeypatch):
    environ = {}
    monkeypatch.setattr(wandb_service, "os", types.SimpleNamespace(environ=environ, getpid=lambda: PID))
    for name, value in (("_homes", None), ("_before", None), ("_near", True)):
        monkeypatch.setattr(wandb_service, name, value)
    monkeypatch.setattr(Setup, "add_active_run", Setup.add_active_run)
    module = Wandb(environ)
    for name in ("wandb", "wandb.errors", "wandb.sdk.wandb_setup", "wandb.sdk.lib.module"):
        monkeypatch.setitem(sys.modules, name, module)
    wandb_service.watch()
    return module


def cell(*homes, near=True):
    wandb_service.take(list(homes) or None, near)
    wandb_service.before_cell()


def test_home_tells_its_service_and_the_run_that_is_active(wandb):
    assert wandb_service.of_home() is None
    wandb.use(run="first")
    assert wandb_service.of_home() == ["own", "first"]
    wandb.run = None  # as for a run of reinit="create_new"
    assert wandb_service.of_home() == ["own", "first"]
    wandb.finish()
    assert wandb_service.of_home() == ["own", None]
    wandb.teardown()
    assert wandb_service.of_home() is None


def test_a_run_of_a_version_that_notes_no_process_is_the_ranks_own(wandb):
    wandb.use()
    wandb.finish()
    own = types.SimpleNamespace(id="own")
    wandb._singleton.add_active_run(own)
    assert wandb_service.of_home() == ["own", "own"]


def test_home_without_wandb_tells_nothing(wandb, monkeypatch):
    monkeypatch.delitem(sys.modules, "wandb")
    monkeypatch.delitem(sys.modules, "wandb.sdk.wandb_setup")
    wandb.environ["WANDB_SERVICE"] = "of whoever started the kernel"
    assert wandb_service.of_home() is None
    cell("a", "run")
    cell()
    assert wandb.left == 0


def test_a_rank_has_homes_service_while_home_has_a_run(wandb):
    for homes, name in ((("a", "run"), "a"), (("a", None), None), (("a", "other"), "a"), (("b", "run"), "b"), ((), None)):
        cell(*homes)
        assert wandb.environ.get("WANDB_SERVICE") == name
    cell("a", "run", near=False)
    assert wandb.environ == {}, "it is on another machine"


@pytest.mark.parametrize("later", [(), ("b", None), ("b", "run")])
def test_a_rank_leaves_a_service_that_home_has_ended(wandb, later):
    cell("a", "run")
    wandb.use()
    cell("a", None)
    assert wandb.left == 0 and wandb.run is not None, "its own run is active there"
    cell(*later)
    assert wandb.left == 1 and wandb.run is None
    wandb.use()
    assert wandb._singleton._connection.owns_service == (later != ("b", "run"))


def test_a_rank_leaves_its_own_service_when_home_has_a_run_and_it_has_none(wandb):
    wandb.use()
    cell("a", "run")
    assert wandb.left == 0 and wandb.environ["WANDB_SERVICE"] == "own"
    assert wandb_service.hints(wandb.UsageError("Unable to attach to run x")) == [
        "cellspan: this rank has a run of its own: call its finish(), and use home's run in the next cell"]
    wandb.finish()
    cell("a", "run")
    assert wandb.left == 1 and wandb.environ["WANDB_SERVICE"] == "a"
    cell("a", None)
    assert wandb.environ == {}, "not the one that has ended"


def test_a_rank_stays_logged_in_when_it_leaves_a_service(wandb, monkeypatch):
    auth = types.ModuleType("auth")
    auth._session_auth, auth._session_auth_lock = None, threading.Lock()
    auth._locked_set_session_auth = lambda login: setattr(auth, "_session_auth", login)
    monkeypatch.setitem(sys.modules, "wandb.sdk.lib.wbauth.authenticate", auth)
    teardown = wandb.teardown
    monkeypatch.setattr(wandb, "teardown", lambda: (teardown(), auth._locked_set_session_auth(None)))
    cell("a", "run")
    wandb.use()
    cell("b", "run")
    assert wandb.left == 1 and auth._session_auth is None
    wandb.use()
    auth._session_auth = login = object()
    cell("b", "run")
    assert wandb.left == 1
    cell()
    assert wandb.left == 2 and auth._session_auth is login and "WANDB_API_KEY" not in wandb.environ


def test_a_rank_stays_logged_in_with_an_older_wandb(wandb):
    cell("a", "run")
    wandb.use()
    wandb._singleton._settings = types.SimpleNamespace(api_key="secret")
    cell()
    assert wandb.left == 1 and wandb.environ["WANDB_API_KEY"] == "secret"


def test_homes_run_is_none_of_the_ranks_own(wandb):
    cell("a", "run")
    wandb.use(pid=1, run="run")
    assert wandb._singleton.most_recent_active_run is None, "the rank's wandb.init() does not end it"
    cell("a", "run")
    assert wandb.run.id == "run"
    cell("a", "other")
    assert wandb.run is None and wandb.left == 0, "what the rank logs does not go to a run that has ended"


def test_what_a_fork_got_from_its_parent_is_not_its_own(wandb):
    wandb.use()
    wandb._singleton._pid, wandb.run = 1, None
    cell("a", "run")
    assert wandb.left == 0 and wandb.environ["WANDB_SERVICE"] == "a"


def test_the_error_about_a_run_says_what_to_do(wandb):
    cell("a", "run", near=False)
    assert "on home's machine only: call wandb.init()" in wandb_service.hints(wandb.UsageError("Unable to attach to run x"))[0]
    cell("a", None)
    assert "that run of home has ended" in wandb_service.hints(wandb.UsageError("Unable to attach to run x"))[0]
    assert wandb_service.hints(wandb.UsageError("another error")) == []


def test_no_other_errors_text_is_asked_for(wandb):
    class Odd(Exception):
        def __str__(self):
            raise SystemExit(3)

    assert wandb_service.hints(Odd()) == [] and wandb_service.hints(Exception("Unable to attach to run x")) == []
