# SPDX-License-Identifier: BSD-3-Clause
"""W&B from a notebook with ranks, without its server: ranks' runs don't depend on what became of home's."""

from __future__ import annotations

import pytest

HOME = """
import os, wandb
os.environ.update(WANDB_MODE="offline", WANDB_DIR=%r, WANDB_SILENT="true")
run = wandb.init(project="p")
run.log({"a": 1})
"""
RUN = """
import os, wandb
mine = wandb.init(project="p")
mine.log({"loss": 1})
mine.finish()
str(os.getpid()) in os.environ["WANDB_SERVICE"]
"""


@pytest.mark.limit(400)
def test_ranks_runs_need_nothing_of_homes_that_has_ended(nb, tmp_path):
    nb.ok(HOME % str(tmp_path), limit=120)
    assert nb.ok("%%distribute -n 2 --gather\n" + RUN, limit=120).value == "[False, False]", "home's run is active: its service is theirs, too"
    nb.ok("run.finish()\n%ranks stop", limit=60)
    for end in ("", "wandb.teardown()", "run = wandb.init(project='p')\nrun.finish()\nwandb.teardown()"):
        nb.ok(end, limit=60)
        assert nb.ok("%%distribute -n 2 --gather\n" + RUN, limit=120).value == "[True, True]"
