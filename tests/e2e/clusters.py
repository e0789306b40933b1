# SPDX-License-Identifier: BSD-3-Clause
"""One cluster for all tests of a file, of an engine that tests/engines/run names: CI has no Spark and no Ray."""

from __future__ import annotations

import os
import sys

import pytest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "engines"))

import conformance  # noqa: E402

LIMIT = 300  # seconds for what takes a few


def named(*names):
    """Those of these engines that are to be tested."""
    return [name for name in names if name in os.environ.get("CELLSPAN_TEST_CONFORMANCE", "").split()]


def marks(names, how):
    """For a file's pytestmark. how: the command that runs it."""
    return [pytest.mark.clients, pytest.mark.limit(1000), pytest.mark.skipif(not names, reason=how + " brings a cluster up")]


def fixture(names, **settings):
    """The fixture `engine`: its cluster is up, with these settings of its script, for each of the names."""
    @pytest.fixture(scope="module", params=names or ["none"])
    def engine(request):
        made = conformance.engines()[request.param]()
        assert not made.missing()
        made.settings = {**made.settings, **settings}
        try:
            made.up()
            yield made
        finally:
            made.down()

    return engine
