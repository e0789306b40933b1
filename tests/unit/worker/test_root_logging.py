# SPDX-License-Identifier: BSD-3-Clause
"""A rank's root logger, which follows home's until the rank sets it up itself."""

import io
import logging
import logging.config
import sys

import pytest
from cellspan._worker import root_logging

HOMES = [logging.INFO, logging.NOTSET, logging.BASIC_FORMAT, None, "%"]


@pytest.fixture
def root(monkeypatch):
    """The root logger as a new process has it."""
    root = logging.getLogger()
    level = root.level
    monkeypatch.setattr(logging, "basicConfig", logging.basicConfig)
    monkeypatch.setattr(root, "handlers", [])
    root.setLevel(logging.WARNING)
    yield root
    for name in ("addHandler", "setLevel"):
        vars(root).pop(name, None)
    root.setLevel(level)


def following(root):
    """A rank whose root logger is home's."""
    root.handlers[:] = []  # of pytest
    rank = root_logging.RootLogging()
    rank.take(HOMES)
    assert root.level == logging.INFO and len(root.handlers) == 1
    return rank


def by_hand(root, handler):
    root.setLevel(logging.DEBUG)
    root.addHandler(handler)


def by_dict(root, handler):
    config = {"version": 1, "handlers": {"h": {"()": lambda: handler}}, "root": {"level": "DEBUG", "handlers": ["h"]}}
    logging.config.dictConfig(config)


def by_basic_config(root, handler):
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])


@pytest.mark.parametrize("sets_up", [by_hand, by_dict, by_basic_config])
def test_the_level_that_a_rank_sets_before_its_handler_stays(root, sets_up):
    rank = following(root)
    text = io.StringIO()
    sets_up(root, logging.StreamHandler(text))
    root.debug("told")
    assert root.level == logging.DEBUG and len(root.handlers) == 1 and text.getvalue().endswith("told\n")
    rank.take(HOMES)  # the next cell
    assert root.level == logging.DEBUG and len(root.handlers) == 1


def test_a_level_of_homes_that_the_rank_sets_too_is_its_own(root):
    following(root)
    root.setLevel(logging.INFO)
    root.addHandler(logging.StreamHandler(io.StringIO()))
    assert root.level == logging.INFO


def test_a_rank_that_sets_only_its_level_keeps_homes_handler(root):
    rank = following(root)
    root.setLevel(logging.DEBUG)
    rank.take([logging.ERROR, *HOMES[1:]])
    assert root.level == logging.DEBUG and len(root.handlers) == 1
    rank.take(None)
    assert root.level == logging.DEBUG and not root.handlers


def test_a_level_from_before_home_logs_stays(root):
    root.handlers[:] = []
    rank = root_logging.RootLogging()
    root.setLevel(logging.DEBUG)
    rank.take(HOMES)
    assert root.level == logging.DEBUG


def test_without_a_level_of_its_own_a_rank_follows_and_gets_its_own_back(root):
    rank = following(root)
    rank.take([logging.ERROR, *HOMES[1:]])
    assert root.level == logging.ERROR
    root.addHandler(logging.StreamHandler(io.StringIO()))
    assert root.level == logging.WARNING and len(root.handlers) == 1


def test_only_what_home_shows_in_the_notebook_is_followed(root, tmp_path):
    with open(tmp_path / "log", "w") as file:
        for stream, follows in ((file, False), (io.StringIO(), False), (sys.stderr, True), (sys.__stdout__, True)):
            root.handlers[:] = [logging.StreamHandler(stream)]
            assert (root_logging.of_home() is not None) == follows, stream
