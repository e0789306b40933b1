# SPDX-License-Identifier: BSD-3-Clause
"""Ranks in containers on a node of Slurm: --in IMAGE, with a real podman. A program stands in for srun, which has this machine as its
only node: it notes its environment, and labels lines."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest
from client import values
from engines import missing
from podman_hosts import IMAGE, LocalPodman, write_program
from processes import wait_until
from test_sent import AGENT, PREFIX, shelf  # noqa: F401  (a fixture)

UP = 200  # seconds for ranks to come up
SOON = 120
SRUN = """#!/bin/bash
env >%(at)s/environment
while [ "$1" != sh ]; do shift; done
export SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURMD_NODENAME=n1
export SLURM_SRUN_COMM_HOST=127.0.0.1 SLURM_SRUN_COMM_PORT=1  # nobody listens there: an agent that is left thinks that srun is gone
"$@" > >(sed -u 's/^/0: /') 2> >(sed -u 's/^/0: /' >&2); s=$?
[ $s = 0 ] || { sleep 0.3; echo "srun: error: n1: task 0: Exited with exit code $s" >&2; exit $s; }
"""
KEPT = "%%%%distribute -n 2 --on slurm --in %s --gather\nimport os, of_the_image\nos.environ['SLURM_JOB_ID'], of_the_image.value"


@pytest.fixture(scope="module")
def podman():
    why = missing(("podman", "runc"))
    if why:
        (pytest.fail if os.environ.get("CELLSPAN_TEST_ENGINES") == "must" else pytest.skip)(why)
    also = [str(path) for path in (*AGENT.parent.iterdir(), *PREFIX.glob("lib/cellspan/python/cellspan/*.so"))]
    with LocalPodman(also) as made:
        write_program(made.at + "/srun", SRUN % {"at": made.at})
        yield made


@pytest.fixture
def nb(podman, shelf, fresh):  # noqa: F811
    return fresh(env={"PATH": podman.at + ":" + os.environ["PATH"], "CELLSPAN_WHEELS": shelf})


def running(name, *words):
    """The processes of a program that have these words on their command line."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            args = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if os.path.basename(args[0]) == name and set(words) <= set(args):
            found.append(path.parent.name)
    return found


def test_ranks_of_a_job_run_in_the_image(nb, podman):
    assert values(nb.ok(KEPT % IMAGE, limit=UP)) == [("7", "of the image")] * 2
    (one,) = podman.containers()
    said = podman.call("inspect", one)
    assert "CELLSPAN_AGENT=0" in said and "CELLSPAN_SECRET" not in said
    assert "CELLSPAN_SECRET" not in pathlib.Path(podman.at, "environment").read_text(encoding="utf-8"), "nor has srun it"
    nb.ok("%ranks stop", limit=SOON)
    assert wait_until(lambda: not podman.containers(), SOON)


def test_a_cancelled_job_leaves_no_container(nb, podman):
    """scancel kills podman and conmon. The agent is left: it looks for srun for a while, and the next start must not come too early."""
    nb.ok(KEPT % IMAGE, limit=UP)
    (one,) = podman.containers()
    pids = podman.call("inspect", "--format", "{{.State.ConmonPid}}", one).split() + running("podman", podman.at + "/storage", "run")
    assert len(pids) == 2
    for pid in pids:
        os.kill(int(pid), signal.SIGKILL)
    nb.run("%ranks stop", limit=SOON)
    nb.ok(KEPT % IMAGE, limit=UP)
    assert wait_until(lambda: len(podman.containers()) == 1 and one not in podman.containers(), SOON)
    nb.ok("%ranks stop", limit=SOON)
    assert wait_until(lambda: not podman.containers(), SOON)


def test_an_image_that_is_not_there(nb):
    cell = nb.run(KEPT % "localhost/nothing:9", limit=UP).assert_error("RankNotStarted")
    assert "n1 did not come up: podman can't get the image localhost/nothing:9: " in cell.error["evalue"]
    assert "n1 gets the image localhost/nothing:9 by podman" in cell.stderr
