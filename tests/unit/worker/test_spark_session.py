# SPDX-License-Identifier: BSD-3-Clause
"""The engine spark on the notebook's own classic session, both sides of it, with doubles of pyspark."""

import json
import os
import socket
import stat
import sys
import threading
import time

import pytest
from cellspan._launch import spark, spark_notebook, spark_slots
from cellspan._launch.launcher import Cannot, Failed
from cellspan._worker import spark_jobs, spark_session
from spark_doubles import LIMIT, Launch, double, environment  # noqa: F401  (a fixture)


@pytest.fixture
def session(monkeypatch, tmp_path, environment):
    """A notebook's session; home tells of it, and runs the stage."""
    def make(slots, fails="", **conf):
        seen = double(monkeypatch, slots, fails, **conf)
        module = sys.modules["pyspark"]
        module.SparkContext._active_spark_context = module.SparkContext(module.SparkConf())
        monkeypatch.setenv(spark_notebook.VARIABLE, spark_session.note(str(tmp_path)))
        return seen

    return make


def test_a_session_that_can_not_is_named(monkeypatch, session, tmp_path):
    with pytest.raises(Cannot, match="the notebook has no Spark session"):
        spark.main(Launch("", 2))
    session([2])
    sys.modules["pyspark"].SparkContext._active_spark_context.master = "local[4]"
    spark_session.note(str(tmp_path))
    with pytest.raises(Cannot, match=r"is local\[4\], which runs nothing on other machines"):
        spark.main(Launch("", 2))
    session([2])
    with pytest.raises(Cannot, match="the notebook's session decides what a task takes"):
        spark.main(Launch("--conf a=b", 2))
    session([3], **{"spark.dynamicAllocation.enabled": "true"})
    with pytest.raises(Cannot, match="dynamicAllocation.enabled is true in the notebook's session"):
        spark.main(Launch("", 2))


def test_ranks_are_a_job_of_the_notebooks_session(session):
    seen = session([3])
    launch = Launch("", 2)
    spark.main(launch)
    assert launch.lines[:2] == ["end 10", "nodes 2 ranks together"]
    assert launch.lines[-3] == "say 2 of the session's 3 slots are the ranks' until %ranks stop: the notebook's own Spark jobs have 1 until then"
    assert launch.lines[-2:] == ["node 0 - 1", "node 1 - 1"]
    ((group, said, *_),) = seen.groups
    assert group.startswith("cellspan-") and said == "cellspan: 2 ranks of the notebook"
    assert seen.rows == [(0, "2a:0"), (1, "2a:1")] and seen.stopped == 0 and not seen.cancelled  # the session stays
    session([3])
    launch = Launch("", 0)
    spark.main(launch)
    assert "nodes 3 ranks together" in launch.lines  # as many as there are slots


@pytest.mark.parametrize(("age", "slots", "waits"), [
    (100, [3], 0),
    (0, [1, 1, 1, 3], spark_slots.SETTLED + 1),  # executors come one after another
    (100, [0, 0, 1, 3], spark_slots.SETTLED + 1),  # as to a session whose cluster was busy
])
def test_a_session_is_asked_for_all_its_slots_when_its_executors_have_come(session, age, slots, waits):
    session(slots)
    sys.modules["pyspark"].SparkContext._active_spark_context.startTime = 1000 * (time.time() - age)
    launch = Launch("", 0)
    spark.main(launch)
    assert "nodes 3 ranks together" in launch.lines
    assert waits <= len(launch.waits) * spark_slots.POLL <= waits + 0.5 and (age or not any("the ranks wait" in line for line in launch.lines))


def test_a_session_without_an_executor_is_waited_for_and_says_so(session):
    """Without an end, as in a queue: lagom() says no number."""
    seen = session([0])
    launch = Launch("", 0)
    launch.wait = lambda seconds: (launch.waits.append(seconds), len(launch.waits) == 2000 and launch.over.set())
    spark.main(launch)
    line = "say the ranks wait until the session has an executor: is spark://h:7077 busy, or are its workers smaller than an executor (%s is 1g)? %s" % (
        spark_slots.MEMORY, spark_slots.GIVE_UP.capitalize())
    assert launch.lines == ["end 10", line] and seen.rows is None
    seen, launch = session([0]), Launch("", 0)
    launch.wait = lambda seconds: setattr(seen, "is_stopped", True)
    with pytest.raises(Failed, match=ENDED):
        spark.main(launch)


def test_tasks_of_earlier_ranks_are_not_called_the_users(session):
    """They end at this moment; else they are named apart."""
    def said(seen, seconds, busy):
        launch, busy = Launch("", 2), busy + [0]
        launch.wait = lambda _: (launch.waits.append(1), len(launch.waits) * spark_slots.POLL > seconds and busy.clear())
        spark_slots.wait_for_slots(launch, lambda: {"slots": 3, "busy": sum(busy), "ranks": 2, "stopped": False}, "m", {}, 600, Failed("x"), lambda: False)
        return launch.lines

    start = "say the ranks wait, for up to 10 min, until 2 of the 3 slots of the session are free at once: "
    assert said(session, 1, [2]) == []
    assert said(session, 5, [2]) == [start + "earlier ranks, which end now, have 2 (interrupt the cell to give up)"]
    assert said(session, 1, [3]) == [start + "its own Spark tasks run on 1; earlier ranks, which end now, have 2 (interrupt the cell to give up)"]


def test_home_counts_the_tasks_that_are_agents(session):
    seen = session([3])
    seen.lasts.clear()
    context = sys.modules["pyspark"].SparkContext._active_spark_context
    classic = spark_jobs.Classic(context)
    job = classic.job({"secrets": ["a", "b"], "task": "", "sent": "", "arguments": [], "settings": {}, "folder": "/"}, lambda answer: None)
    assert seen.begun.wait(LIMIT) and classic.answer(())["ranks"] == 2
    assert spark_jobs.Classic(object()).answer(()).get("ranks") is None and spark_jobs.ClassicJob.tasks_on(object()) == 0
    seen.lasts.set()
    job._thread.join(LIMIT)
    assert classic.answer(())["ranks"] == 0


def test_the_job_has_a_group_also_where_threads_have_no_own_ones_of_the_jvm(session):
    seen = session([2])
    sys.modules["pyspark"].SparkContext._active_spark_context._gateway = None
    spark.main(Launch("", 2))
    ((how, group, said),) = seen.groups
    assert how == "alone" and group.startswith("cellspan-") and said == "cellspan: 2 ranks of the notebook"


def test_the_time_of_the_task_that_does_nothing_is_no_wait_for_slots():
    """On a busy machine it takes long, and what it holds is no task of the notebook's."""
    launch, tries = Launch("", 2), [True] * 20 + [False]
    counts = {"slots": 1, "busy": 0, "stopped": False}
    with pytest.raises(Failed, match="Spark has 1 slots for these tasks, and 2 are needed"):
        spark_slots.wait_for_slots(launch, lambda: counts, "spark://h:7077", {}, 15, Failed("x"), lambda: tries.pop(0) if len(tries) > 1 else False)
    assert launch.lines == ["say Spark has given 1 of 2 slots so far: the ranks wait for more until none has come for 0.25 min; interrupt the cell to give up, "
                            "or ask for fewer ranks"] and len(launch.waits) * spark_slots.POLL == 15 + 10


def test_the_task_that_does_nothing_has_a_group_of_its_own_as_well(session):
    seen = session([2])
    seen.busy, seen.tries = [1], OTHER
    sys.modules["pyspark"].SparkContext._active_spark_context._gateway = None
    launch = Launch("", 2)
    launch.wait = lambda seconds: threading.Event().wait(0.001)
    with pytest.raises(Failed, match=NAMED):
        spark.main(launch)
    ((how, group, said),) = seen.groups
    assert how == "alone" and group.startswith("cellspan-") and said == "cellspan: the Python of tasks"


def test_the_launcher_imports_nothing_of_spark(session, monkeypatch):
    """That takes longer than all else."""
    session([2])
    monkeypatch.setattr(spark, "import_pyspark", lambda: 1 / 0)
    spark.main(Launch("", 2))


def test_slots_on_which_the_users_own_tasks_run_are_waited_for(session):
    seen = session([3])
    seen.busy = [1, 1]
    launch = Launch("", 2)
    launch.wait = lambda seconds: seen.busy.pop()
    spark.main(launch)
    line = "say the ranks wait, for up to 10 min, until 2 of the 3 slots of the session are free at once: its own Spark tasks run on 2 (%s)" % spark_slots.GIVE_UP
    assert launch.lines.count(line) == 1 and seen.rows
    seen = session([3])
    seen.busy = [2]
    with pytest.raises(Failed, match="^2 slots are needed at once.* own Spark tasks have left fewer of its 3 free for 10 min: wait"):
        spark.main(Launch("", 2))
    assert seen.rows is None


OTHER = "Python in worker has different version: 3.9 than that in driver: 3.11, PySpark can't run with different minor versions"
NAMED = "^Python on the executors is 3.9, the notebook's is 3.11: set PYSPARK_PYTHON, in the notebook's environment, to a Python 3.11 there$"


def test_another_python_is_named_while_ranks_wait_and_a_slot_is_free(session, monkeypatch):
    """By a task that does nothing; none is tried while there is no slot for it, or nothing to wait for."""
    seen = session([2])
    seen.busy, seen.tries = [1], OTHER
    launch = Launch("", 2)
    launch.wait = lambda seconds: threading.Event().wait(0.001)
    with pytest.raises(Failed, match=NAMED):
        spark.main(launch)
    assert seen.tried and seen.rows is None and seen.groups[0][1] == "cellspan: the Python of tasks"
    double(monkeypatch, [1], tries=OTHER)
    launch = Launch("spark://h:7077", 2)
    launch.wait = lambda seconds: threading.Event().wait(0.001)
    with pytest.raises(Failed, match=NAMED):
        spark.main(launch)
    seen = session([2])
    seen.busy, seen.tries = [2], OTHER
    with pytest.raises(Failed, match="own Spark tasks have left fewer"):
        spark.main(Launch("", 2))
    assert not seen.tried


ENDED = "Spark session that these ranks were to run on has ended: make one, if there is none, and run a cell with `%%distribute --on spark`"


def test_a_session_that_has_ended_is_named(session):
    """%ranks restart goes to the session of the last start."""
    session([2]).is_stopped = True
    with pytest.raises(Failed, match=ENDED):
        spark.main(Launch("", 2))
    session([2])
    sys.modules["pyspark"].SparkContext._active_spark_context._jsc = None  # by stop()
    with pytest.raises(Failed, match=ENDED):
        spark.main(Launch("", 2))
    seen = session([0])  # meanwhile
    launch = Launch("", 2)
    launch.wait = lambda seconds: setattr(seen, "is_stopped", True)
    with pytest.raises(Failed, match=ENDED):
        spark.main(launch)


def test_a_session_that_is_stopped_under_the_ranks_is_named(session):
    session([2], fails="org.apache.spark.SparkException: Job 0 cancelled because SparkContext was shut down\n\tat org…")
    with pytest.raises(Failed, match="^the notebook's Spark session was stopped, and its ranks have ended with it: make a session") as error:
        spark.main(Launch("", 2))
    assert error.value.whole


def test_why_the_job_of_the_session_failed_is_told(session):
    session([2], fails="RuntimeError: cellspan: agent 0 on h1: it broke\n")
    with pytest.raises(Failed, match="^h1: it broke"):
        spark.main(Launch("", 2))
    session([2])
    sys.modules["pyspark"].SparkContext._active_spark_context.getConf = lambda: 1 / 0
    with pytest.raises(Failed, match="the notebook's Spark session does not answer: division by zero"):
        spark.main(Launch("", 2))


def test_the_job_of_an_engine_that_is_gone_is_cancelled(session, monkeypatch):
    """The end of its socket is what a kill leaves, too."""
    monkeypatch.setattr(spark, "GRACE", 0)
    seen = session([2])
    seen.lasts.clear()
    launch = Launch("", 2)
    launch.at_end = lambda function: threading.Thread(target=lambda: seen.begun.wait(LIMIT) and function()).start()
    with pytest.raises(Failed, match="the notebook's Python is gone"):  # what is shown then is nothing: the end is wanted
        spark.main(launch)
    assert seen.lasts.wait(LIMIT) and set(seen.cancelled) == {seen.groups[0][0]}


def test_home_that_dies_under_the_ranks_ends_the_engine(monkeypatch, tmp_path):
    """Its end of the socket closes, whatever it was killed by."""
    monkeypatch.chdir(tmp_path)  # a socket's own path may have 107 bytes
    (tmp_path / "told").write_text(json.dumps({"master": "spark://h:7077", "classic": str(tmp_path / "home")}))
    monkeypatch.setenv(spark_notebook.VARIABLE, str(tmp_path / "told"))
    asked = []

    def home():
        link = listens.accept()[0]
        with link, link.makefile("rb") as lines:
            for line in lines:
                asked.append(json.loads(line))
                if "run" in asked[-1]:
                    break
                link.sendall(b'{"slots": 2, "busy": 0, "stopped": false, "conf": {}, "slots_limit": 600}\n')

    with socket.socket(socket.AF_UNIX) as listens:
        listens.bind("home")
        listens.listen()
        threading.Thread(target=home, daemon=True).start()
        with pytest.raises(Failed, match="^the notebook's Python is gone, and with it the session .*: make a session, then run the cell again"):
            spark.main(Launch("", 2))
    assert asked[-1]["run"]["secrets"] == ["2a:0", "2a:1"]


def test_home_tells_of_its_session_in_a_file_of_its_own(monkeypatch, session, tmp_path):
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert spark_session.note(str(tmp_path)) == "" and spark_session.master() == ""
    session([2])
    path = spark_session.note(str(tmp_path))
    with open(path, encoding="utf-8") as file:
        assert json.load(file) == {"master": "spark://h:7077", "classic": str(tmp_path / spark_jobs.NAME)}
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and spark_session.master() == "spark://h:7077"
    os.unlink(path)
    assert spark_session.note(str(tmp_path)) == path and os.path.exists(path)
    assert spark_session.note(str(tmp_path / "gone")) == ""
    sys.modules["pyspark"].SparkContext._active_spark_context = None  # it was stopped
    assert spark_session.note(str(tmp_path)) == ""
