# SPDX-License-Identifier: BSD-3-Clause
"""What may go wrong on a Spark cluster, on a standalone one of two workers whose executors lack cellspan: an application of its own, the
notebook's session, and one of Spark Connect. `tests/engines/run spark spark-session` runs it; elsewhere there is no cluster."""

from __future__ import annotations

import glob
import os
import platform
import re
import signal
import socket

import clusters
import processes
import pytest
from client import Notebook, values
from clusters import LIMIT
from processes import wait_until
from test_sent import AGENT, PREFIX, shelf  # noqa: F401  (a fixture)

NAMES = clusters.named("spark", "spark-session", "spark-connect")
pytestmark = clusters.marks(NAMES, "tests/engines/run spark")


def only(*names):
    """For tests that are about these of the three."""
    return pytest.mark.parametrize("engine", [name for name in NAMES if name in names] or [pytest.param("none", marks=pytest.mark.skip("not these"))],
                                   indirect=True)


engine = clusters.fixture(NAMES, SPARK_HIDE=str(PREFIX))  # workers and executors see an empty folder where cellspan is


@pytest.fixture
def notebook(engine, shelf):  # noqa: F811
    """Makes a notebook with a session, if the way needs one. Nothing of it may be left."""
    made = []

    def make(first=None, **env):
        made.append(Notebook(env={**engine.variables(), "CELLSPAN_WHEELS": shelf, **env}))
        made[-1].ok(engine.first if first is None else first, limit=LIMIT)
        return made[-1]

    yield make
    for one in made:
        one.close()
        assert one.left == []
    if engine.name != "spark-connect":
        assert wait_until(lambda: not engine.executors(), LIMIT), engine.left()


def cell(engine, code, options=""):
    return '%%%%distribute -n 2 --on "%s" %s\n%s' % (engine.on, options, code)


def refused(engine, nb):
    """The error's text. Nothing of the ranks stays."""
    ran = nb.run(cell(engine, "1"), limit=LIMIT)
    assert ran.status == "error", ran.shown
    assert nb.ok("1 + 1").value == "2"
    return ran.error["evalue"]


def other_python():
    """(path, version) of a Python of another version that Spark's tasks can run in."""
    ours = "3.%s" % platform.python_version_tuple()[1]
    found = [path for minor in ("3.10", "3.12", "3.9", "3.13") if minor != ours
             for path in (*glob.glob("/usr/bin/python" + minor), *glob.glob(os.path.expanduser("~/.pyenv/versions/%s.*/bin/python3" % minor)))]
    if not found:
        pytest.skip("no other Python is in /usr/bin or ~/.pyenv")
    return found[0], os.popen("%s -c 'import sys; print(\"%%d.%%d\" %% sys.version_info[:2])'" % found[0]).read().strip()


def test_executors_that_lack_cellspan_get_it(engine, notebook):
    nb = notebook()
    ran = nb.ok(cell(engine, "import cellspan, os\nos.path.realpath(cellspan.__file__), os.path.exists(%r)" % str(AGENT), "--gather"), limit=LIMIT)
    assert len(values(ran)) == 2 and all(not file.startswith(str(PREFIX)) and not there for file, there in values(ran)), ran.shown


def test_executors_that_lack_cellspan_and_get_none_are_named(engine, notebook):
    said = refused(engine, notebook(CELLSPAN_INSTALL="never"))
    assert re.search(r"%s\S*: there is no cellspan-agent: install cellspan \S+ there, .*; it can't be sent there: CELLSPAN_INSTALL is never on the notebook's "
                     r"machine \(Spark ends all agents of the job with it\)" % re.escape(socket.gethostname()), said), said


@only("spark", "spark-session")
def test_another_python_on_executors_is_named(engine, notebook):
    python, version = other_python()
    said = refused(engine, notebook(PYSPARK_PYTHON=python, CELLSPAN_REMOTE_PYTHON=python))
    ours = ".".join(platform.python_version_tuple()[:2])
    assert said.startswith("Python on the executors is %s, the notebook's is %s" % (version, ours)) and "set PYSPARK_PYTHON" in said, said


def refused_by(engine, notebook, **settings):
    """refused(), on a cluster of its own with these settings, too."""
    before = engine.settings
    try:
        engine.down()
        engine.settings = {**before, **settings}
        engine.up()
        return refused(engine, notebook())
    finally:
        engine.down()
        engine.settings = before
        engine.up()


@only("spark-connect")
def test_another_python_of_a_connect_server_is_named(engine, notebook):
    """The server's environment says which it is."""
    python, version = other_python()
    said = refused_by(engine, notebook, SPARK_PYTHON=python)
    ours = ".".join(platform.python_version_tuple()[:2])
    assert said.startswith("Python on the executors is %s, the notebook's is %s: set PYSPARK_PYTHON, in the environment of the Spark Connect server" % (
        version, ours)), said


def test_a_notebook_that_agents_cant_reach_is_named_with_its_address(engine, notebook):
    """By default they try for 30 s. The first address takes connections and says nothing; nobody listens at the second."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        places = ["127.0.0.1:%d" % port for port in (silent.getsockname()[1], closed.getsockname()[1])]
        said = refused(engine, notebook(CELLSPAN_ADVERTISE=",".join(places)))
    assert "can't reach the kernel" in said and re.search(r"tcp://%s \([^)]*does not answer\)" % re.escape(places[0]), said), said
    assert re.search(r"tcp://%s \([^)]*connection refused\)" % re.escape(places[1]), said), said


@only("spark")
def test_dynamic_allocation_of_an_application_is_refused_by_name(engine, notebook):
    """Where a file of Spark's says it, it is switched off for this application."""
    nb = notebook()
    on = "%s --conf spark.dynamicAllocation.enabled=true" % engine.on
    ran = nb.run('%%%%distribute -n 2 --on "%s"\n1' % on, limit=LIMIT)
    assert ran.status == "error" and "spark.dynamicAllocation.enabled can't be true" in ran.error["evalue"], ran.shown
    path = engine.variables()["SPARK_CONF_DIR"] + "/spark-defaults.conf"
    with open(path, "a", encoding="utf-8") as file:
        before = file.tell()
        file.write("spark.dynamicAllocation.enabled true\nspark.dynamicAllocation.shuffleTracking.enabled true\n")
    try:
        assert values(nb.ok(cell(engine, "7", "--gather"), limit=LIMIT)) == [7, 7]
    finally:
        os.truncate(path, before)


@only("spark-connect")
def test_dynamic_allocation_of_a_connect_server_is_refused_by_name(engine, notebook):
    conf = engine.settings["SPARK_CONF"] + "\nspark.dynamicAllocation.enabled true\nspark.dynamicAllocation.shuffleTracking.enabled true"
    said = refused_by(engine, notebook, SPARK_CONF=conf)
    assert "spark.dynamicAllocation.enabled is true in the notebook's session, and Spark refuses barrier stages then: the server must be started" in said, said


@only("spark-session")
def test_dynamic_allocation_of_the_session_is_refused_by_name(engine, notebook):
    more = ".config('spark.dynamicAllocation.enabled', True).config('spark.dynamicAllocation.shuffleTracking.enabled', True).getOrCreate()"
    said = refused(engine, notebook(engine.first.replace(".getOrCreate()", more)))
    assert "spark.dynamicAllocation.enabled is true in the notebook's session, and Spark refuses barrier stages then" in said, said


@only("spark")
def test_a_local_cluster_is_a_cluster(engine, notebook):
    """Its executors see what this machine has."""
    nb = notebook()
    code = ("import os, torch, torch.distributed as dist\ndist.init_process_group('gloo')\nt = torch.ones(1)\ndist.all_reduce(t)\n"
            "dist.destroy_process_group()\nint(t), os.environ['RANK'], os.environ['LOCAL_RANK'], os.environ['GROUP_WORLD_SIZE']")
    ran = nb.ok('%%distribute -n 2 --on "spark:local-cluster[2,1,1024]" --gather\n' + code, limit=LIMIT)
    assert values(ran) == [(2, str(rank), "0", "2") for rank in range(2)], ran.shown
    nb.ok("%ranks stop", limit=LIMIT)
    backends = processes.marked(nb.marker)
    assert wait_until(lambda: not [pid for pid in backends if processes.alive(pid) and "ExecutorBackend" in processes.command(pid)], LIMIT)


# ---- what ends while ranks run ----


def begun(engine, nb):
    """A cell that both ranks have begun, and that lasts."""
    nb.ok(cell(engine, "import time"), limit=LIMIT)
    ran = nb.start("%%distribute\nprint('begun', flush=True)\ntime.sleep(100000)")
    return nb.wait_ranks(ran, "begun", 2, LIMIT)


def left(engine, nb):
    """Agents of these ranks, and executors that only this notebook's session had."""
    agents = [pid for pid in processes.marked(nb.marker) if "--stdin none" in processes.command(pid)]
    return processes.described(agents + ([] if engine.name == "spark-connect" else engine.executors()))


@only("spark-session", "spark-connect")
def test_the_notebooks_python_is_killed(engine, notebook):
    nb = notebook()
    home = nb.home_pid()
    ran = begun(engine, nb)
    os.kill(home, signal.SIGKILL)
    nb.wait(ran, LIMIT)
    ran.assert_error("RankDied")
    assert "the notebook's Python is gone, and with it the session" in ran.error["evalue"], ran.shown
    assert wait_until(lambda: not left(engine, nb), LIMIT), left(engine, nb)
    nb.ok(engine.first, limit=LIMIT)
    assert values(nb.ok(cell(engine, "7", "--gather"), limit=LIMIT)) == [7, 7]


@only("spark-session", "spark-connect")
def test_the_session_is_stopped_under_a_cell(engine, notebook, tmp_path):
    """By a thread of the notebook's. The next cell takes the session that is there then."""
    nb, go = notebook(), tmp_path / "go"
    nb.ok("import os, threading, time\ndef stops():\n    while not os.path.exists(%r):\n        time.sleep(0.05)\n    spark.stop()\n"
          "threading.Thread(target=stops, daemon=True).start()" % str(go))
    ran = begun(engine, nb)
    go.touch()
    nb.wait(ran, LIMIT).assert_error("RankDied")
    assert "the notebook's Spark session was stopped, and its ranks have ended with it: make a session" in ran.error["evalue"], ran.shown
    assert wait_until(lambda: not left(engine, nb), LIMIT), left(engine, nb)
    nb.ok(engine.first, limit=LIMIT)
    assert values(nb.ok(cell(engine, "7", "--gather"), limit=LIMIT)) == [7, 7]
