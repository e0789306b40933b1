# SPDX-License-Identifier: BSD-3-Clause
"""The cases that every engine must pass (tests/engines/conformance.py), for the engines that CELLSPAN_TEST_CONFORMANCE names. Those of
ssh and Slurm have more in test_hosts.py and test_slurm.py. test_engines_slurm.py has the cases for Slurm."""

import os
import pathlib
import subprocess
import sys

import pytest
from client import by_rank, values
from engines import missing
from test_gpus import doubles  # noqa: F401  (a fixture)

LIMIT = 250
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "engines"
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "engines"))

pytest.register_assert_rewrite("conformance")  # so that its failures say what was there

import conformance  # noqa: E402

session = conformance.fixture(os.environ.get("CELLSPAN_TEST_CONFORMANCE", "local ssh openmpi mpich runc").split())


class TestConformance(conformance.Cases):
    pass


# -- a machine that is lost, and another one in its place


@pytest.fixture
def spare():
    """A session whose engine replaces box2."""
    engine = conformance.engines()["runc"]()
    if engine.missing():
        pytest.skip(engine.missing())
    made = conformance.Session(engine)
    try:
        engine.up()
        pathlib.Path(engine.boxes.folder, "box2", "spare").touch()
        yield made
        made.close()
        assert made.left() == []
    finally:
        engine.down()


def test_another_machine_has_new_ranks_in_the_old_place(spare):
    nb = spare.running()
    nb.ok("%%distribute\nkept = 1")
    for turn in (1, 2):
        nb, cell = spare.begun()
        killed = [box for box in spare.engine.left() if box.startswith("box2-")]
        spare.engine.kill(*killed)
        nb.wait(cell, LIMIT).assert_error("RankDied")
        assert "its engine brings another machine in its place" in cell.error["evalue"], cell.shown
        cell = nb.ok("%%distribute --gather\nimport os, time\n'kept' in globals(), os.uname().nodename, os.environ['GROUP_RANK']", limit=LIMIT)
        assert values(cell) == [(True, "box1", "0")] * 2 + [(False, "box2", "1")] * 2, cell.shown
        assert not set(killed) & set(spare.engine.left())
    spare.launcher()


# -- in jobs of batch systems


def stand_in(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def test_the_scripts_for_batch_systems_name_the_nodes_of_their_job(tmp_path):
    """What a batch system gives to a job, without the batch system."""
    stand_in(tmp_path / "cellspan", 'for word; do echo "<$word>"; done\n')
    stand_in(tmp_path / "flux", '[ "$*" = "hostlist --expand --delimiter=, instance" ] && echo h1,h2\n')
    (tmp_path / "a b").write_text("h2\nh1\nh2\nh1\n")
    given = {"PBS_O_WORKDIR": str(tmp_path), "PBS_NODEFILE": str(tmp_path / "a b"), "LSB_DJOB_HOSTFILE": "/a b/lsf"}
    env = dict(os.environ, PATH="%s:%s" % (tmp_path, os.environ["PATH"]), **given)
    for script, on in (("lsf", "-hostfile '/a b/lsf'"), ("flux", "-host 'h1,h2'")):
        done = subprocess.run([str(SCRIPTS / (script + ".sh"))], env=env, capture_output=True, text=True, timeout=100)
        assert done.stdout.split("\n") == ["<run>", "<-n>", "<8>", "<--on>", "<mpi:%s>" % on, "<train.py>", ""], done
    stand_in(tmp_path / "cellspan", 'echo "$1 $2 $3 $4 $6"; eval "set -- ${5#mpi:}"; echo "$1"; cat "$2"; rm "$2"\n')
    done = subprocess.run([str(SCRIPTS / "pbs.sh")], env=env, capture_output=True, text=True, timeout=100)
    assert done.stdout == "run -n 8 --on train.py\n-hostfile\nh2\nh1\n", done


def test_a_script_runs_on_the_nodes_of_a_job(hosts, tmp_path):
    if missing(("mpirun.openmpi",)):
        pytest.skip("Open MPI is not installed")
    stand_in(tmp_path / "mpirun", 'exec mpirun.openmpi "$@"\n')
    (tmp_path / "nodes").write_text("h1\nh1\nh3\nh3\n")
    (tmp_path / "train.py").write_text("import os\nprint(os.uname().nodename, os.environ['LOCAL_RANK'])\n")
    env = dict(os.environ, PATH="%s:%s" % (tmp_path, os.environ["PATH"]), PBS_O_WORKDIR=str(tmp_path), PBS_NODEFILE=str(tmp_path / "nodes"),
               OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_plm_rsh_args="-F %s" % hosts.ssh_config,
               OMPI_MCA_oob_tcp_if_include="%s.0/24" % hosts.network)
    done = subprocess.run([str(SCRIPTS / "pbs.sh")], env=env, capture_output=True, text=True, timeout=250)
    wanted = {rank: ["h%d %d" % (1 if rank < 4 else 3, rank % 4)] for rank in range(8)}
    assert done.returncode == 0 and by_rank(done.stdout) == wanted, done
    assert hosts.left() == []
