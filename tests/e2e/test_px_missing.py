# SPDX-License-Identifier: BSD-3-Clause
"""Names of ipyparallel that cellspan.px has not: the error says what to use."""

from __future__ import annotations

import pytest

MADE = "import cellspan.px as ipp\nrc = ipp.Client(n=2)\nview, direct = rc.load_balanced_view(), rc[:]\nar = direct.apply_async(abs, -1)\nar.get()"


@pytest.mark.parametrize(
    "code, words",
    [
        ("view.executor", "ThreadPoolExecutor"), ("rc.become_dask()", "LocalCluster"), ("rc.broadcast_view()", "client[:]"),
        ("rc.queue_status()", "%ranks"), ("direct.abort()", "interrupt"), ("ar.abort()", "interrupt"), ("rc.get_result('x')", "AsyncResult"),
        ("view.map_async(abs, [1]).serial_time", "elapsed"), ("ar.metadata", "submitted"),
    ],
)
def test_the_error_says_what_to_use(nb, code, words):
    nb.ok(MADE)
    said = nb.run(code).assert_error("AttributeError").error["evalue"]
    assert said.startswith("cellspan.px: ") and words in said, said


def test_metadata_are_attributes(nb):
    nb.ok(MADE)
    assert "ar.submitted" in nb.run('ar["submitted"]').assert_error("TypeError").error["evalue"]
    assert "has no attribute 'nosuch'" in nb.run("rc.nosuch").assert_error("AttributeError").error["evalue"]
    assert nb.ok("hasattr(rc, 'become_dask'), hasattr(rc, 'ids')").value == "(False, True)"
