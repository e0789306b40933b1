# SPDX-License-Identifier: BSD-3-Clause
"""The engine spark on a session of Spark Connect, both sides of it, with a double of the session."""

import json
import os
import pickle
import subprocess
import sys
import threading
import types

import cloudpickle
import pytest
from cellspan._launch import spark, spark_connect, spark_notebook, spark_slots
from cellspan._launch.launcher import Cannot, Failed
from cellspan._worker import spark_connect_jobs, spark_session
from spark_doubles import Launch

TOKEN = "SECRETTOKEN"
LIMIT = 60


class Session:
    """A SparkSession of Spark Connect: `conf`, the cores that Spark counts on at each look, and how its job ends."""

    def __init__(self, cores=(4,), fails="", version="4.0.1", **conf):
        self.version, self.fails, self._cores, self._conf = version, fails, list(cores), {"spark.master": "spark://h:7077", **conf}
        self.client = types.SimpleNamespace(is_closed=False, token=TOKEN, _builder=types.SimpleNamespace(secure=False, host="h"))
        self.conf = types.SimpleNamespace(get=lambda name, default: self._conf.get(name, default))
        self.rows = self.task = self.barrier = self.profile = self.spread = None
        self.tags, self.interrupted, self.lasts = [], [], threading.Event()
        self.lasts.set()
        self.runs, self.handlers, self.tries = threading.Event(), [], ""

    @staticmethod
    def goes(session):
        """What happens in the job's thread."""

    @classmethod
    def _set_default_and_active_session(cls, session):
        pass

    def range(self, n):
        cores = self._cores.pop(0) if len(self._cores) > 1 else self._cores[0]
        return types.SimpleNamespace(_explain_string=lambda extended: "Range (0, 1, step=1, splits=%s)" % cores,
                                     mapInArrow=lambda task, schema: types.SimpleNamespace(collect=self._try))

    def _try(self):
        if self.tries:
            raise RuntimeError(self.tries)

    def registerProgressHandler(self, handler):
        self.handlers.append(handler)

    def removeProgressHandler(self, handler):
        self.handlers.remove(handler)

    def progress(self, running, *stages):
        """In the job's thread. stages: whether each is done."""
        for handler in self.handlers:
            handler(stages=[types.SimpleNamespace(stage_id=n, done=done) for n, done in enumerate(stages)], inflight_tasks=running, operation_id="x", done=False)

    def addTag(self, tag):
        self.tags.append((tag, threading.current_thread()))

    def interruptTag(self, tag):
        self.interrupted.append(tag)
        self.fails = "OPERATION_CANCELED"
        self.lasts.set()

    def createDataFrame(self, rows, schema):
        self.rows = rows
        return self

    def repartitionByRange(self, n, column):
        self.spread = n, column
        return self

    def mapInArrow(self, task, schema, barrier, profile=None):
        self.task, self.barrier, self.profile = task, barrier, profile
        return self

    def collect(self):
        self.runs.set()
        self.goes(self)
        assert self.lasts.wait(LIMIT)
        if self.fails:
            raise RuntimeError(self.fails)


@pytest.fixture
def engine(monkeypatch, tmp_path):
    """A function that runs the engine on a session; gives what it has told."""
    types_module = types.ModuleType("pyspark.sql.types")
    for name in ("BinaryType", "LongType", "StructField", "StructType"):
        setattr(types_module, name, lambda *words: words)
    monkeypatch.setitem(sys.modules, "pyspark.sql.types", types_module)
    monkeypatch.setattr(spark_slots, "POLL", 0.01)
    monkeypatch.setattr(spark, "GRACE", 0)

    def run(session, spec="", ranks=2, launch=None):
        folder = tmp_path / ("a long name of a folder " * 6)  # more than a socket's path may have
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr(spark_session, "_connect_session", lambda: session)
        monkeypatch.setattr(spark_session, "_found", lambda: None)
        monkeypatch.setenv(spark_notebook.VARIABLE, spark_session.note(str(folder)))
        for path in folder.iterdir():
            assert path.is_socket() or TOKEN not in path.read_text()
        launch = launch or Launch(spec, ranks)
        spark.main(launch)
        return launch

    return run


def test_each_agent_is_a_task_of_a_barrier_job_with_its_own_secret(engine):
    session = Session()
    launch = engine(session)
    assert session.rows == [(0, b"2a:0"), (1, b"2a:1")] and session.barrier and session.profile is None and session.spread is None
    assert launch.lines[:2] == ["end 10", "nodes 2 ranks together"] and launch.lines[-2:] == ["node 0 - 1", "node 1 - 1"]
    said = "\n".join(launch.lines)
    assert spark.exposed({"spark.io.encryption.enabled": "true"}) in said and "neither use_ssl=true nor a token" in said and "the ranks take 2 slots of the Spark Connect server until %ranks stop" in said
    assert TOKEN not in said and len(session.tags) == 1


def test_what_protects_the_network_is_not_warned_of(engine):
    session = Session(**{"spark.authenticate": "true", "spark.network.crypto.enabled": "true"})
    session.client._builder.secure = True
    assert not any("network" in line for line in engine(session).lines)


def test_an_executor_needs_no_cellspan(engine, tmp_path):
    """The stage's function, unpickled by a Python that has nothing but doubles."""
    session = Session()
    engine(session)
    (tmp_path / "pyspark.py").write_text("class BarrierTaskContext:\n    get = staticmethod(lambda: 'context')\n")
    task = spark_connect_jobs._task("def run(rows, context, *more):\n    print(list(rows), context, more)\n", b"sent", ["--x"], {}, "/")
    pickle.loads(cloudpickle.dumps(session.task))
    (tmp_path / "task").write_bytes(cloudpickle.dumps(task))
    code = ("import pickle, sys; sys.path.insert(0, %r); sys.path.append(%r); sys.modules['cellspan'] = None\n"
            "class Batch:\n    def to_pylist(self): return [{'number': 1, 'secret': b's'}]\n"
            "assert list(pickle.load(open('task', 'rb'))([Batch()])) == []" % (str(tmp_path), os.path.dirname(os.path.dirname(cloudpickle.__file__))))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "[(1, 's')] context (b'sent', ['--x'], {}, '/')\n", done.stderr


def test_without_a_number_there_are_as_many_ranks_as_slots(engine):
    assert "nodes 3 ranks together" in engine(Session(cores=[6], **{"spark.task.cpus": "2"}), ranks=0).lines
    hidden = Session(**{"spark.default.parallelism": "1"})  # it says how many partitions there are, and no more how many cores
    with pytest.raises(Cannot, match="say how many ranks"):
        engine(hidden, ranks=0)
    engine(hidden)
    assert hidden.spread == (2, "number")


def test_slots_are_waited_for_while_executors_come(engine, monkeypatch):
    session = Session(cores=[1, 1, 2])
    engine(session)
    assert len(session.rows) == 2
    shorter = {"spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "25ms", "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "2"}
    assert [spark_connect.slots_limit(conf) for conf in ({}, shorter, {spark_connect.INTERVAL: "1min"})] == [600, 0.05, 2400]
    monkeypatch.setattr(spark_slots, "SAY_AFTER", 0.02)
    launch = Launch("", 9)
    with pytest.raises(Failed, match="Spark counts on 4 slots for these tasks, and 9 are needed"):
        engine(Session(**shorter), launch=launch)
    assert launch.lines[-1].startswith("say Spark counts on 4 of 9 slots so far: the ranks wait for more until none has come for "), launch.lines


WAITS = "say the ranks wait, for up to 10 min, until 2 slots of the Spark Connect server are free at once: none of their tasks runs yet (%s)" % spark_slots.GIVE_UP


def test_slots_that_others_hold_are_waited_for(engine, monkeypatch):
    """What Spark Connect tells is how many tasks of a job run; nothing is said of what it does not tell."""
    monkeypatch.setattr(spark_slots, "SAY_AFTER", 0.01)
    session, launch = Session(), Launch("", 2)
    waits = threading.Event()
    launch.say = lambda text: (launch.lines.append("say " + text), "the ranks wait" in text and waits.set())

    def goes(session):
        session.progress(2, False, False)  # of the stage before
        session.progress(0, True, False)
        assert waits.wait(LIMIT)
        session.progress(2, True, False)

    session.goes = goes
    engine(session, launch=launch)
    assert launch.lines.count(WAITS) == 1
    assert launch.lines[launch.lines.index(WAITS) + 1:] == ["node 0 - 1", "node 1 - 1"]  # the time of a start counts again
    assert not session.handlers and "slots are" not in "".join(launch.lines).replace(WAITS, "")


def test_tasks_that_run_wait_for_nothing(engine, monkeypatch):
    monkeypatch.setattr(spark_slots, "SAY_AFTER", 0.3)
    session = Session()
    session.goes = lambda session: (session.progress(2, True, False), threading.Event().wait(0.6))
    assert not any("wait" in line for line in engine(session).lines)


def test_slots_that_others_hold_for_too_long_are_named_and_the_kernel_ends_it(engine, monkeypatch):
    """It knows whether agents are up, whatever the server tells, and it shows these words."""
    monkeypatch.setattr(spark_slots, "SAY_AFTER", 0.01)
    shorter = {"spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "25ms", "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "2"}
    session, launch = Session(**shorter), Launch("", 2)

    def goes(session):
        for _ in range(LIMIT * 100):
            if launch.lines[-1] == "node 1 - 1" and any(line.startswith("warn") for line in launch.lines):
                break
            threading.Event().wait(0.01)

    session.goes = goes
    engine(session, launch=launch)
    assert launch.lines[-3].startswith("warn 2 slots are needed at once, one a rank, and the Spark Connect server has not had as many free for"), launch.lines
    assert launch.lines[-2:] == ["node 0 - 1", "node 1 - 1"] and not session.interrupted


@pytest.mark.parametrize("session", [Session(version="3.5.7"), Session(**{"spark.connect.progress.reportInterval": "0s"})])
def test_a_server_that_does_not_tell_is_waited_for_without_an_end(engine, session):
    lines = engine(session).lines
    assert lines[-1].startswith("say the ranks wait, until 2 slots of the Spark Connect server are free at once: before 4.0, or with"), lines
    assert not session.handlers


def test_another_python_is_named_while_ranks_wait(engine, monkeypatch):
    """The server decides which it is."""
    monkeypatch.setattr(spark_slots, "SAY_AFTER", 0.01)
    session = Session()
    session.lasts.clear()
    session.tries = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark"
    words = "^Python on the executors is 3.9, the notebook's is 3.11: set PYSPARK_PYTHON, in the environment of the Spark Connect server, to a Python 3.11 there$"
    with pytest.raises(Failed, match=words):
        engine(session)
    few = Session(cores=[1])
    few.tries = "Cannot run program \"/opt/py\": No such file"
    with pytest.raises(Failed, match="^executors can't start /opt/py: set PYSPARK_PYTHON, in the environment of the Spark Connect server, to their Python$"):
        engine(few)
    assert few.rows is None


@pytest.mark.parametrize(("session", "spec", "words"), [
    (Session(version="3.4.3"), "", "Spark Connect 3.4.3, and ranks need 3.5 or later"),
    (Session(version="3.5.7"), "--conf spark.task.cpus=2", "--conf needs Spark 4.0 or later"),
    (Session(**{"spark.dynamicAllocation.enabled": "true"}), "", "dynamicAllocation.enabled is true in the notebook's session"),
    (Session(), "--executor-memory 2g", "--executor-memory is for an application of its own"),
    (Session(), "--conf spark.executor.memory=2g", "only spark.task.cpus=N and spark.task.resource.NAME.amount=N"),
    (Session(), "--conf", "only spark.task.cpus=N"),
    (Session(), "--conf spark.task.cpus=0.5", "a task takes whole processors"),
    (Session(), "--conf 'spark", "No closing quotation"),
])
def test_what_can_not_work_is_named(engine, session, spec, words):
    with pytest.raises(Cannot, match=words.replace("(", r"\(")):
        engine(session, spec)
    assert session.rows is None


def test_what_a_task_takes_is_a_profile(engine, monkeypatch):
    assert spark_connect.read_needs(["--conf", "spark.task.cpus=2", "--conf=spark.task.resource.gpu.amount=0.5"]) == {"cpus": 2, "gpu": 0.5}
    monkeypatch.setattr(spark_connect_jobs, "_profile", lambda needs: needs)
    session = Session()
    launch = engine(session, "--conf spark.task.cpus=2 -c spark.task.resource.gpu.amount=1")
    assert session.profile == {"cpus": 2, "gpu": 1.0} and "nodes 2 ranks together" in launch.lines


def test_why_the_job_failed_is_told_without_the_token(engine):
    with pytest.raises(Failed, match=r"^h2: there is no cellspan-agent \(Spark ends"):
        engine(Session(fails="PythonException: RuntimeError: cellspan: agent 1 on h2: there is no cellspan-agent\n\tat"))
    with pytest.raises(Failed) as error:
        engine(Session(fails="no server at sc://h/;token=%s" % TOKEN))
    assert "sc://h/;token=…" in str(error.value)


@pytest.mark.parametrize("said", ['<_MultiThreadedRendezvous … details = "Stream removed (Channel closed!)"', "Cannot invoke RPC: Channel closed!",
                                  "[INVALID_HANDLE.SESSION_CLOSED] The handle is invalid"])
def test_a_session_that_is_stopped_under_the_ranks_is_named(engine, said):
    with pytest.raises(Failed, match="^the notebook's Spark session was stopped, and its ranks have ended with it") as error:
        engine(Session(fails=said))
    assert error.value.whole


def test_a_session_that_does_not_answer_is_named(engine):
    session = Session()
    session.conf.get = lambda name, default: 1 / 0
    with pytest.raises(Failed, match="the notebook's Spark session does not answer: division by zero"):
        engine(session)


def test_the_end_interrupts_this_job_alone(engine):
    session = Session()
    session.lasts.clear()
    launch = Launch("", 2)
    launch.at_end = lambda function: threading.Thread(target=lambda: session.runs.wait(LIMIT) and function()).start()
    with pytest.raises(Failed, match="the notebook's Python is gone"):  # what is shown then is nothing: the end is wanted
        engine(session, launch=launch)
    assert session.lasts.wait(LIMIT)
    ((tag, _),) = session.tags
    assert set(session.interrupted) == {tag}


def test_home_that_is_gone_ends_the_engine(monkeypatch, tmp_path):
    (tmp_path / "told").write_text(json.dumps({"connect": str(tmp_path / "none")}))
    monkeypatch.setenv(spark_notebook.VARIABLE, str(tmp_path / "told"))
    with pytest.raises(Failed, match="can't be reached"):
        spark.main(Launch("", 2))


def test_the_servers_address_stays_at_home(monkeypatch):
    monkeypatch.setattr(spark_session, "_connect_session", lambda: None)
    environ = {"SPARK_REMOTE": "sc://h/;token=" + TOKEN, "SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN, "SPARK_HOME": "/spark"}
    assert spark_session.variables(environ, "") == {"SPARK_HOME": "/spark"}


def test_the_drop_ins_are_told_the_servers_master(monkeypatch):
    monkeypatch.setattr(spark_session, "_found", lambda: None)
    session = Session()
    monkeypatch.setattr(spark_session, "_connect_session", lambda: session)
    assert spark_session.master() == "spark://h:7077"
    session.conf.get = lambda name, default: 1 / 0  # the server keeps it to itself
    assert spark_session.master() == ""


def test_a_session_that_another_thread_has_stopped_is_passed_over(monkeypatch):
    """It is still the one of its own thread, where a new one is the default."""
    old, new = Session(), Session()
    double = types.SimpleNamespace(_active_session=types.SimpleNamespace(session=old), _default_session=new)
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", types.SimpleNamespace(SparkSession=double))
    assert spark_session._connect_session() is old
    old.client.is_closed = True
    assert spark_session._connect_session() is new
    new.client.is_closed = True
    assert spark_session._connect_session() is None
    double._active_session = types.SimpleNamespace()
    assert spark_session._connect_session() is None
