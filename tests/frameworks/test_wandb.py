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


LOG = """
import cellspan
run.log({f"x{cellspan.rank()}": 3 + cellspan.rank()})
run.id
"""
OTHER = "run = wandb.init(project='p')\nrun.id"


def logged(nb, homes):
    """Both ranks log into home's run, and home finds it there."""
    assert nb.ok("%%distribute --gather\n" + LOG, limit=120).value == f"[{homes}, {homes}]"
    assert nb.ok("run.summary['x0'], run.summary['x1']", limit=60).value == "(3, 4)"


@pytest.mark.limit(600)
def test_ranks_that_stay_follow_homes_service_and_run(nb, tmp_path):
    nb.ok("%ranks stop\n")
    homes = nb.ok(HOME % str(tmp_path) + "run.id", limit=120).value
    nb.ok("%%distribute -n 2\nimport wandb", limit=120)
    logged(nb, homes)
    assert nb.ok("%%distribute --gather\n" + RUN, limit=120).value == "[False, False]", "a run of the rank's ends nothing of home's"
    logged(nb, homes)
    homes = nb.ok("run.finish()\n" + OTHER, limit=60).value
    told = nb.run("%%distribute\nwandb.log({'y': 1})", limit=60).assert_error("Error").error["evalue"]
    assert "call wandb.init() before" in told, "home's first run is none of the ranks' any more"
    logged(nb, homes)
    nb.ok("run.finish()\nwandb.teardown()", limit=60)
    assert nb.ok("%%distribute --gather\n" + RUN, limit=120).value == "[True, True]", "the service that they used has ended"
    homes = nb.ok(OTHER, limit=60).value
    logged(nb, homes)
    nb.ok("run.finish()\nwandb.teardown()", limit=60)
    homes = nb.ok(OTHER, limit=60).value
    logged(nb, homes)
    nb.ok("run.finish()", limit=60)


@pytest.mark.limit(400)
def test_a_rank_leaves_its_own_service_for_homes_run_once_its_own_run_has_ended(nb, tmp_path):
    nb.ok("%ranks stop\nrun = None")
    nb.ok("%%distribute -n 2\n" + HOME.replace("run", "mine") % str(tmp_path), limit=120)
    homes = nb.ok(HOME % str(tmp_path) + "run.id", limit=60).value
    told = nb.run("%%distribute\n" + LOG, limit=120).assert_error("UsageError")
    assert "this rank has a run of its own: call its finish()" in told.traceback.splitlines()[-1], told.traceback
    assert nb.ok("%%distribute --gather\nmine.log({'a': 2})\nvalue = mine.summary['a']\nmine.finish()\nvalue", limit=60).value == "[2, 2]"
    logged(nb, homes)
    nb.ok("run.finish()", limit=60)
