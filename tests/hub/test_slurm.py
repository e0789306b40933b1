# SPDX-License-Identifier: BSD-3-Clause
"""Servers that are jobs of Slurm, by batchspawner: examples/jupyterhub/slurm."""

from __future__ import annotations

import ast
import os
import signal

import pytest
from cluster import SlurmHub
from hub import USERS, until

ANN, BOB = USERS
TELL = "import os\n' '.join(os.environ[n] for n in ('SLURM_JOB_ID', 'SLURM_JOB_PARTITION', 'SLURMD_NODENAME', 'CUDA_VISIBLE_DEVICES')), os.getuid(), os.getpid()"
RANKS = "%%distribute -n {} --gather\n" + TELL
HOME = "import os\nos.environ['SLURM_JOB_ID'], os.environ['SLURM_JOB_PARTITION'], os.environ['SLURM_JOB_NUM_NODES']"
POST = """
import json, os, urllib.request
def post(body):
    request = urllib.request.Request(os.environ['JUPYTERHUB_API_URL'] + '/batchspawner', json.dumps(body).encode(),
                                     {'Authorization': 'token ' + os.environ['JUPYTERHUB_API_TOKEN'], 'Content-Type': 'application/json'})
    return urllib.request.urlopen(request, timeout=30).status
"""


@pytest.fixture(scope="module")
def hub():
    hub = SlurmHub()
    yield hub
    assert hub.close() is True


@pytest.fixture
def idle(hub):
    """The hub, with no server and nothing in the queue before and after."""
    assert until(lambda: not hub.jobs() and hub.slurm.idle()), hub.slurm.run("squeue")
    yield hub
    hub.stop_all()
    assert until(lambda: not hub.jobs() and not any(map(hub.processes, USERS.values()))), hub.slurm.run("squeue") + hub.log()


def gone(pids):
    return not any(os.path.exists("/proc/%d" % pid) for pid in pids)


def ended(hub, user, pids, limit=12):
    """Within the 12 s in which nothing of a server may be left."""
    return until(lambda: gone(pids) and not hub.processes(USERS[user]), limit) and until(lambda: not hub.jobs(), limit)


def test_a_server_in_an_allocation_uses_its_nodes_unasked(idle):
    ann = idle.server(ANN, size="two-nodes")
    job, partition, nodes = ast.literal_eval(ann.run(HOME))
    assert (partition, nodes) == ("gpu", "2")
    there = ast.literal_eval(ann.run(RANKS.format(4)))
    words = [text.split() for text, _, _ in there]
    assert {word[0] for word in words} == {job} and {uid for _, uid, _ in there} == {USERS[ANN]}, there
    assert words[0][2] == words[1][2] != words[2][2] == words[3][2] and [word[3] for word in words] == ["0,1"] * 4, there
    assert idle.jobs() == [("gpu", str(USERS[ANN]), "2", "jupyter")]
    assert len(idle.processes(USERS[ANN], "jupyterhub-singleuser")) == 1  # srun would start one on each node
    idle.stop_server(ANN)
    assert ended(idle, ANN, [pid for _, _, pid in there]), idle.slurm.run("squeue")


def test_cells_of_a_small_server_ask_for_jobs_of_their_own(idle):
    ann = idle.server(ANN)  # the size that is taken when nobody has chosen
    job, partition, _ = ast.literal_eval(ann.run(HOME))
    assert partition == "cpu" and "CUDA_VISIBLE_DEVICES" not in ann.run("import os\nlist(os.environ)")
    there = ast.literal_eval(ann.run(RANKS.format(2)))
    ((own, partition, _, gpu),) = {tuple(text.split()) for text, _, _ in there}
    assert (own != job, partition, gpu in ("0", "1")) == (True, "gpu", True), there
    servers, ranks = ("cpu", str(USERS[ANN]), "1", "jupyter"), ("gpu", str(USERS[ANN]), "1", "cellspan")
    assert idle.jobs() == [servers, ranks]
    ann.run("%ranks stop")
    assert until(lambda: idle.jobs() == [servers], 30), idle.jobs()
    pids = [pid for _, _, pid in ast.literal_eval(ann.run(RANKS.format(2)).splitlines()[-1])]  # above it, what is gone with the old ranks
    idle.stop_server(ANN)
    assert ended(idle, ANN, pids), idle.slurm.run("squeue")


def test_a_user_may_have_a_server_of_each_kind(idle):
    small, big = idle.server(ANN), idle.server(ANN, "big", size="one-node")
    kept = [ast.literal_eval(notebook.run(RANKS.format(2))) for notebook in (small, big)]
    assert idle.jobs() == sorted((place, str(USERS[ANN]), "1", name) for place, name in (("cpu", "jupyter"), ("gpu", "jupyter"), ("gpu", "cellspan")))
    idle.stop_server(ANN, "big")
    assert until(lambda: gone([pid for _, _, pid in kept[1]]), 12) and until(lambda: len(idle.jobs()) == 2, 12), idle.jobs()
    assert ast.literal_eval(small.run(RANKS.format(2))) == kept[0]


@pytest.mark.parametrize(("size", "limit"), [("one-node", 12), ("small", 200)])  # the agents of its own job look for srun twice
def test_a_server_that_is_killed_leaves_neither_rank_nor_job(idle, size, limit):
    ann = idle.server(ANN, size=size)
    pids = [pid for _, _, pid in ast.literal_eval(ann.run(RANKS.format(2)))]
    (server,) = idle.processes(USERS[ANN], "jupyterhub-singleuser")
    os.kill(server, signal.SIGKILL)
    assert ended(idle, ANN, pids, limit), idle.slurm.run("squeue")


def test_servers_of_a_hub_that_is_killed_go_on_and_end_as_others(idle):
    ann = idle.server(ANN, size="one-node")
    there = ast.literal_eval(ann.run(RANKS.format(2)))
    idle.kill()
    idle.up()
    assert until(lambda: idle.serves(ANN)), idle.log()
    assert ast.literal_eval(ann.run(RANKS.format(2))) == there
    idle.stop_server(ANN)
    assert ended(idle, ANN, [pid for _, _, pid in there]), idle.slurm.run("squeue")


def test_a_user_chooses_a_size_and_nothing_else(idle):
    idle.ask("POST", "/hub/api/users/" + ANN, ok=False)
    answer = idle.ask("POST", "/hub/api/users/%s/server" % ANN, ok=False, json={"user_options": {"size": "huge"}})
    assert not answer.ok or not until(lambda: idle.serves(ANN), 10)
    assert not idle.jobs(), idle.jobs()
    ann = idle.server(ANN, size="small", partition="gpu", nodes="2", prologue="false", options="--hold")
    assert ast.literal_eval(ann.run(HOME))[1:] == ("cpu", "1")


def test_a_server_tells_the_hub_its_port_and_no_command(idle):
    """What the hub runs as root for this server: squeue, when it asks for its state, and scancel."""
    ann = idle.server(ANN)
    port = ann.run("import os, urllib.parse\nurllib.parse.urlsplit(os.environ['JUPYTERHUB_SERVICE_URL']).port")
    trap = os.path.join(idle.folder, "trap")
    body = {"port": int(port), "exec_prefix": "", "batch_cancel_cmd": "touch %s; scancel {job_id}" % trap}
    assert ann.run(POST + "post(%r)" % body) in ("200", "201")
    idle.stop_server(ANN)
    assert until(lambda: not idle.jobs(), 30) and not os.path.exists(trap)


def test_one_user_cannot_end_the_jobs_of_the_other(idle):
    ann, bob = idle.server(ANN), idle.server(BOB)
    job = ast.literal_eval(ann.run(HOME))[0]
    said = bob.run("import subprocess\nsubprocess.run(['scancel', %r], capture_output=True, text=True).stderr" % job)
    assert "denied" in said and ast.literal_eval(ann.run(HOME))[0] == job, said
    assert "denied" in bob.run("subprocess.run(['srun', '--overlap', '--jobid', %r, 'id'], capture_output=True, text=True).stderr" % job)


def test_the_hub_knows_all_that_is_set(hub):
    """A name that nobody knows is only warned of."""
    with open(os.path.join(hub.folder, "hub.log"), encoding="utf-8") as file:
        assert "not recognized" not in file.read()
