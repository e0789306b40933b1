# SPDX-License-Identifier: BSD-3-Clause
"""The engine spark without Spark: its arguments, its failures in words, and its task, with doubles of pyspark and of the agent."""

import contextlib
import json
import os
import pickle
import platform
import re
import socket
import stat
import subprocess
import sys
import threading
import types
from unittest import mock

import cloudpickle
import pytest
from cellspan._base import spark_tasks
from cellspan._install import offer
from cellspan._launch import spark, spark_notebook, spark_slots, spark_task
from cellspan._launch.launcher import Cannot, Failed
from cellspan._worker import spark_jobs, spark_session

HOSTS = ["a:40001", "b:40001"]
LIMIT = 60


# ---- SPEC ----

def test_the_master_comes_first_and_options_are_spark_submits():
    assert spark.read_spec("spark://h:7077") == ("spark://h:7077", [])
    assert spark.read_spec("local-cluster[2,1,1024] --conf 'spark.app.name=a b' --executor-memory=2g -v") == (
        "local-cluster[2,1,1024]", ["--conf", "spark.app.name=a b", "--executor-memory=2g", "-v"])
    assert spark.read_spec("yarn --queue q --archives env.tar.gz#env")[1] == ["--queue", "q", "--archives", "env.tar.gz#env"]
    assert spark.read_spec("k8s://https://h:6443")[0] == "k8s://https://h:6443"


@pytest.mark.parametrize(("spec", "words"), [
    ("", "the master is missing"),
    ("--conf a=b", "the master is missing"),
    ("local[4]", "runs nothing on other machines"),
    ("local", "runs nothing on other machines"),
    ("h:7077", "that is no master"),
    ("local-cluster[2,1]", "that is no master"),
    ("yarn 'x", "No closing quotation"),
    ("yarn --master yarn", "--master can't be given"),
    ("yarn --deploy-mode=cluster", "--deploy-mode can't be given"),
    ("yarn --conf a=b extra", "extra is no option"),
    ("yarn --queue", "--queue has no value"),
    ("yarn --conf spark.dynamicAllocation.enabled=true", "can't be true"),
    ("yarn --conf=spark.dynamicAllocation.enabled=True", "can't be true"),
])
def test_what_can_not_work_is_named(spec, words):
    with pytest.raises(Cannot, match=words.replace("[", r"\[")):
        spark.read_spec(spec)


def test_the_slots_of_a_local_cluster_are_known():
    assert spark.slots_of("local-cluster[3, 2,1024]") == 6
    assert spark.slots_of("spark://h:1") is None


# ---- failures ----

@pytest.mark.parametrize(("said", "words"), [
    ("…PythonException: …\nRuntimeError: cellspan: agent 1 on h2: there is no cellspan-agent\n\tat org…",
     "h2: there is no cellspan-agent (Spark ends all agents of the job with it)"),
    ("Could not recover … finished unsuccessfully.\nExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: "
     "Command exited with code 137\nDriver stacktrace:",
     "Spark lost executor 0: Command exited with code 137, and ends all agents of the job with it"),
    ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: (3, 9) than that in driver: 3.11, PySpark cannot",
     "Python on the executors is 3.9, the notebook's is 3.11"),
    ("[PYTHON_VERSION_MISMATCH] Python in worker has different version (3, 12) than that in driver 3.11, PySpark cannot",
     "Python on the executors is 3.12, the notebook's is 3.11"),
    ('java.io.IOException: Cannot run program "/no/python": error=2, No such file', "executors can't start /no/python: set PYSPARK_PYTHON"),
    ("x\norg.apache.spark.SparkException: Job 0 cancelled because SparkContext was shut down\n\tat", "Spark ended the job: Job 0 cancelled because SparkContext"),
    ("something else\nentirely", "Spark ended the job: something else entirely"),
])
def test_why_a_job_failed_is_one_line(said, words):
    text, whole = spark.failure_of_job(said)
    assert whole == ("Spark ended the job" not in text)
    assert words in text and "\n" not in text


def test_a_master_that_does_not_listen_is_named():
    with pytest.raises(Failed, match=r"no Spark master answers \(127\.0\.0\.1:1: .*; host\.invalid:2: .*; c: "):
        spark.check_master("spark://127.0.0.1:1,host.invalid:2,c", 5)
    spark.check_master("yarn", 5)


def test_why_there_is_no_context():
    assert spark.failure_of_start(Exception("x"), "Exception in thread: java.lang.UnsupportedClassVersionError: …")[0].startswith("this Java is too old")
    assert spark.failure_of_start(Exception("x"), "WARN\nError: Unrecognized option: --bogus\nUsage") == (
        "spark-submit: Unrecognized option: --bogus", True)
    assert spark.failure_of_start(Exception("the gateway\nexited"), "") == ("Spark's driver does not start: the gateway exited", False)


def test_java_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Cannot, match="JAVA_HOME"):
        spark.find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Cannot, match="openjdk"):
        spark.find_java()


def test_a_python_without_pyspark_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(Cannot, match="pip install pyspark"):
        spark.import_pyspark()


@pytest.mark.parametrize(("version", "words"), [("3.3.4", "too old"), ("4.0.1", "pyspark-client")])
def test_a_pyspark_that_can_not_is_named(monkeypatch, version, words):
    module = types.ModuleType("pyspark")
    module.__version__ = version
    if words == "too old":
        module.SparkContext = types.SimpleNamespace(cancelAllJobs=1)
    monkeypatch.setitem(sys.modules, "pyspark", module)
    with pytest.raises(Cannot, match=words):
        spark.import_pyspark()


# ---- the task ----

@pytest.fixture
def sent(tmp_path):
    """What the engine sends; its agent tells what it was started with, and ends as $STATUS says."""
    agent = tmp_path / "agent"
    agent.write_text("#!%s\nimport json, os, sys\n"
                     "json.dump([sys.argv[1:], dict(os.environ), os.getcwd()], open(os.environ['TELLS'], 'w'))\n"
                     "print('cellspan-agent on a can\\'t reach the kernel') or sys.exit(int(os.environ.get('STATUS', '0')))\n" % sys.executable)
    agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
    return b"def agent(sent, env):\n    assert env['CELLSPAN_REMOTE_PYTHON']\n    return %r\ndef release():\n    open(%r, 'a').write('r')\n\0" % (str(agent), str(tmp_path / "released"))


class Context:
    """BarrierTaskContext."""

    def __init__(self, hosts=HOSTS, attempt=0, gpus=None):
        self.hosts, self.attempt, self.gpus = hosts, attempt, gpus

    def getTaskInfos(self):
        return [types.SimpleNamespace(address=address) for address in self.hosts]

    def attemptNumber(self):
        return self.attempt

    def resources(self):
        return {"gpu": types.SimpleNamespace(name="gpu", addresses=self.gpus)} if self.gpus else {}


def run_task(sent, tmp_path, context, number=1, folder="/", **settings):
    tells = str(tmp_path / "tells")
    rows = [(number, "2a:secret")]
    done = spark_task.run(iter(rows), context, sent, ["--connect", "tcp://h:1"], dict(settings, TELLS=tells), folder)
    with open(tells, encoding="utf-8") as file:
        return (done, *json.load(file))


def test_a_task_is_one_agent(sent, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "spark's")
    monkeypatch.setattr(spark_task.socket, "gethostname", lambda: "host")
    done, words, env, folder = run_task(sent, tmp_path, Context(gpus=["2", "5"]), OMP_NUM_THREADS="3")
    assert done == [(1, "host")] and (tmp_path / "released").read_text() == "r"
    assert words == ["--connect", "tcp://h:1", "--node", "host", "--stdin", "none"]
    assert (env["CELLSPAN_AGENT"], env["CELLSPAN_SECRET"], env["CUDA_VISIBLE_DEVICES"]) == ("1", "2a:secret", "2,5")
    assert env["CELLSPAN_REMOTE_PYTHON"] == sys.executable and env["OMP_NUM_THREADS"] == "3" and folder == "/"
    assert "PYTHON_WORKER_FACTORY_SECRET" not in env


def test_tasks_of_one_host_have_names_of_their_own(sent, tmp_path, monkeypatch):
    monkeypatch.setattr(spark_task.socket, "gethostname", lambda: "host")
    monkeypatch.chdir(tmp_path)
    done, words, env, folder = run_task(sent, tmp_path, Context(["a:1", "b:1", "a:2"]), number=2, folder="/no/such", CELLSPAN_REMOTE_PYTHON="/py")
    assert words[2:4] == ["--node", "host:2"] and done == [(2, "host:2")]
    assert env["CELLSPAN_REMOTE_PYTHON"] == "/py" and folder == str(tmp_path)  # the notebook's folder is not there


def test_a_task_says_why_its_agent_ended(sent, tmp_path):
    with pytest.raises(RuntimeError, match=r"^cellspan: agent 1 on .*: cellspan-agent ended with status 3: cellspan-agent on a can't reach"):
        run_task(sent, tmp_path, Context(), STATUS="3")
    with pytest.raises(RuntimeError, match=r"^cellspan: agent 1 on .*: there is no place for it$"):
        run_task(b"def agent(sent, env):\n    raise RuntimeError('there is\\n no place for it')\ndef release():\n    pass\n\0", tmp_path, Context())
    assert (tmp_path / "released").read_text() == "r"  # Spark's Python process goes on, or ends without an end of Python


def test_a_task_that_spark_starts_again_ends_at_once(sent, tmp_path):
    with pytest.raises(RuntimeError, match="again"):
        run_task(sent, tmp_path, Context(attempt=1))
    assert not os.path.exists(tmp_path / "tells")


@pytest.mark.parametrize("never", ["never", ""])
def test_an_executor_that_lacks_cellspan_and_gets_none_is_named(tmp_path, monkeypatch, never):
    """What the engine really sends, from an installation that the executor does not see."""
    agent = tmp_path / "cellspan-agent"
    agent.write_text("#!/bin/sh\necho cellspan-agent 9.9\n")
    agent.chmod(0o755)
    monkeypatch.setenv("CELLSPAN_INSTALL", never)
    monkeypatch.delenv("CELLSPAN_REMOTE_PREFIX", raising=False)
    monkeypatch.setattr(offer.payload, "packages", list)
    monkeypatch.setattr(offer.payload, "chosen", lambda *_: [(platform.machine(), b"", "", "", "a wheel is needed")])
    sent = offer.made(str(agent))
    agent.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError) as raised:
        spark_task.run(iter([(1, "2a:secret")]), Context(), sent, [], {}, "/")
    text, whole = spark.failure_of_job("PythonException: …\nRuntimeError: %s\n\tat org…" % raised.value)
    why = "CELLSPAN_INSTALL is never on the notebook's machine" if never else "a wheel is needed"
    assert whole and re.match(r"\S+: there is no cellspan-agent: install cellspan 9.9 there, or set CELLSPAN_REMOTE_PREFIX .*; it can't be sent there: %s \(Spark" % why, text)


def test_an_executor_needs_no_cellspan(sent, tmp_path):
    """The stage's function, unpickled by a Python that has nothing but a double of pyspark."""
    (tmp_path / "pyspark.py").write_text(
        "class Context:\n    def attemptNumber(self): return 0\n    def resources(self): return {}\n"
        "    def getTaskInfos(self): return [type('I', (), {'address': 'a:1'})]\n"
        "class BarrierTaskContext:\n    get = staticmethod(Context)\n")
    task = spark_tasks.barrier_task(spark.task_source(), sent, [], {"TELLS": str(tmp_path / "tells")}, "/")
    (tmp_path / "task").write_bytes(cloudpickle.dumps(task))
    code = ("import pickle, sys; sys.path.insert(0, %r); sys.path.append(%r); sys.modules['cellspan'] = None\n"
            "print(pickle.load(open('task', 'rb'))([(0, 's')]))" % (str(tmp_path), os.path.dirname(os.path.dirname(cloudpickle.__file__))))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.startswith("[(0, ") and json.load(open(tmp_path / "tells", encoding="utf-8"))[1]["CELLSPAN_SECRET"] == "s", done.stderr


# ---- the whole of it, on a double of pyspark ----

class Conf(dict):
    def contains(self, name):
        return name in self

    def set(self, name, value):
        self[name] = value

    def setIfMissing(self, name, value):
        self.setdefault(name, value)


def scala_map(values):
    """What py4j gives of a map's values."""
    left = list(values)
    iterator = types.SimpleNamespace(hasNext=lambda: bool(left), next=lambda: left.pop())
    return types.SimpleNamespace(valuesIterator=lambda: iterator)


class ClientServer:
    """py4j's, with which each thread has one of the JVM for itself."""


def double(monkeypatch, slots, fails="", **conf):
    """Puts a pyspark in place whose SparkContext has so many slots at each look, and runs seen.busy tasks on executors."""
    module = types.ModuleType("pyspark")
    module.__version__ = "4.0.1"
    seen = types.SimpleNamespace(stopped=0, is_stopped=False, busy=[0], conf=None, rows=None, partitions=None, groups=[], cancelled=[], kept=0,
                                 lasts=threading.Event(), begun=threading.Event())
    seen.lasts.set()

    class SparkContext:
        _ensure_initialized = staticmethod(lambda: None)
        _jvm = mock.MagicMock()
        master = "spark://h:7077"

        def __init__(self, conf):
            seen.conf = conf
            self._gateway, self._jrdd = ClientServer(), types.SimpleNamespace(count=self.count)
            scala = types.SimpleNamespace(
                isStopped=lambda: seen.is_stopped,
                taskScheduler=lambda: types.SimpleNamespace(runningTasksByExecutors=lambda: scala_map(seen.busy)),
                conf=lambda: types.SimpleNamespace(getTimeAsSeconds=lambda name, default: int(seen.conf.get(name, default).rstrip("s"))),
                maxNumConcurrentTasks=lambda profile: slots.pop(0) if len(slots) > 1 else slots[0],
                resourceProfileManager=lambda: types.SimpleNamespace(defaultResourceProfile=lambda: None))
            self._jsc = types.SimpleNamespace(sc=lambda: scala)

        def setLogLevel(self, level):
            pass

        def getConf(self):
            return seen.conf

        def parallelize(self, rows, partitions):
            seen.rows, seen.partitions = rows, partitions
            return self

        def barrier(self):
            return self

        def mapPartitions(self, task):
            pickle.loads(cloudpickle.dumps(task))
            return self

        def count(self):
            seen.begun.set()
            assert seen.lasts.wait(LIMIT)
            if fails or seen.cancelled:
                raise RuntimeError(fails or "cancelled")

        def collectWithJobGroup(self, *group):
            seen.groups.append(("alone", *group))
            self.count()

        def setJobGroup(self, *group):
            seen.groups.append(group)

        def cancelJobGroup(self, group):
            seen.cancelled.append(group)
            seen.lasts.set()

        def broadcast(self, value):
            seen.kept += 1
            return types.SimpleNamespace(value=value, destroy=lambda: setattr(seen, "kept", seen.kept - 1))

        def cancelAllJobs(self):
            pass

        def stop(self):
            seen.stopped += 1

    module.SparkConf, module.SparkContext = lambda: Conf(dict({"spark.app.name": "pyspark-shell"}, **conf)), SparkContext
    monkeypatch.setitem(sys.modules, "pyspark", module)
    monkeypatch.setitem(sys.modules, "py4j.clientserver", types.SimpleNamespace(ClientServer=ClientServer))
    monkeypatch.setattr(spark, "find_java", lambda: None)
    monkeypatch.setattr(spark, "check_master", lambda master, limit: None)
    return seen


class Launch:
    """What the helper of all engines in Python gives them."""

    command = ["/agent", "--connect", "tcp://h:1"]

    def __init__(self, spec, ranks):
        self.spec, self.ranks, self.lines, self.over, self.ends, self.waits = spec, ranks, [], threading.Event(), [], []
        self.at_end = self.ends.append

    def nodes(self, n, by_ranks=False, together=False):
        self.lines.append("nodes %d%s%s" % (n, " ranks" * by_ranks, " together" * together))

    def node(self, number, name, slots=0):
        self.lines.append("node %d %s %d" % (number, name, slots))

    def say(self, text):
        self.lines.append("say " + text)

    def end(self, seconds):
        self.lines.append("end %d" % seconds)

    def wait(self, seconds=None):
        self.waits.append(seconds)
        return self.over.is_set()

    def answer_of(self, who, queue=None):
        self.asked = who
        return contextlib.nullcontext()

    def log_tail(self, lines=12):
        return []

    def sent(self):
        return b"\0"

    def secret_of(self, number):
        return "2a:%d" % number


@pytest.fixture
def environment(monkeypatch):
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON", "CELLSPAN_REMOTE_PYTHON"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_each_rank_is_a_task_with_its_own_secret(monkeypatch, environment):
    seen = double(monkeypatch, [0, 1, 2])
    launch = Launch("spark://h:7077 --conf 'spark.x=a b'", 2)
    spark.main(launch)
    assert launch.lines[:3] == ["end 10", "nodes 2 ranks together", "say Spark's driver starts, for spark://h:7077"]
    assert launch.lines[-2:] == ["node 0 - 1", "node 1 - 1"]
    assert seen.rows == [(0, "2a:0"), (1, "2a:1")] and seen.partitions == 2 and seen.stopped == 1
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--conf 'spark.x=a b' --master spark://h:7077 pyspark-shell"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert seen.conf["spark.app.name"] == "cellspan" and seen.conf["spark.cores.max"] == "2"
    assert seen.conf["spark.dynamicAllocation.enabled"] == "false"


def test_spark_tries_no_stage_again(monkeypatch, environment):
    """A key is good for one agent."""
    seen = double(monkeypatch, [2], **{"spark.stage.maxConsecutiveAttempts": "4"})
    spark.main(Launch("spark://h:7077", 2))
    assert seen.conf["spark.stage.maxConsecutiveAttempts"] == "1"


def test_what_the_user_has_configured_stays(monkeypatch, environment):
    seen = double(monkeypatch, [4], **{"spark.cores.max": "9", "spark.pyspark.python": "/py", "spark.task.cpus": "2"})
    launch = Launch("spark://h:7077", 3)
    spark.main(launch)
    assert seen.conf["spark.cores.max"] == "9" and os.environ["PYSPARK_PYTHON"] == "/py"
    seen = double(monkeypatch, [4])
    spark.main(Launch("yarn", 3))
    assert (seen.conf["spark.executor.instances"], seen.conf["spark.executor.cores"]) == ("3", "1")


NETWORK = "who can read this cluster's network can take an agent's place"
FILE = "the agents' keys are for a moment in a file of Spark's"


@pytest.mark.parametrize(("on", "words"), [
    ("", (NETWORK, FILE)),
    ("authenticate network.crypto.enabled", (FILE,)),
    ("authenticate ssl.rpc.enabled io.encryption.enabled", ()),
    ("ssl.rpc.enabled io.encryption.enabled", (NETWORK,)),  # anybody may pretend to be an executor
    ("network.crypto.enabled", (NETWORK, FILE)),
])
def test_who_can_read_the_keys_is_said(monkeypatch, environment, on, words):
    double(monkeypatch, [2], **{"spark." + name: "true" for name in on.split()})
    launch = Launch("spark://h:7077", 2)
    spark.main(launch)
    said = [line for line in launch.lines if NETWORK in line or FILE in line]
    assert len(said) == bool(words) and all((one in "".join(said)) == (one in words) for one in (NETWORK, FILE))


def test_too_few_slots_are_counted_before_the_job(monkeypatch, environment):
    seen = double(monkeypatch, [1])
    launch = Launch("spark://h:7077", 2)
    with pytest.raises(Failed, match="has 1 slots for these tasks, and 2 are needed"):
        spark.main(launch)
    assert seen.rows is None and seen.stopped == 1 and "say Spark has given 1 of 2 slots so far" in launch.lines
    assert len(launch.waits) * spark_slots.POLL == 600  # as long as Spark itself looks
    double(monkeypatch, [1], **{"spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "3s",
                                "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "10"})
    launch = Launch("spark://h:7077", 2)
    with pytest.raises(Failed):
        spark.main(launch)
    assert len(launch.waits) * spark_slots.POLL == 30
    with pytest.raises(Cannot, match="has 2 slots, and 3 are needed"):
        spark.main(Launch("local-cluster[2,1,1024]", 3))
    with pytest.raises(Cannot, match="how many ranks"):
        spark.main(Launch("spark://h:7077", 0))


def test_a_master_that_does_not_take_the_application_is_named(monkeypatch, environment):
    """Spark gives up after a minute, and stops the application, whose slots are none from then on."""
    seen = double(monkeypatch, [0])
    seen.is_stopped = True
    launch = Launch("spark://h:7077", 2)
    with pytest.raises(Failed, match="Spark has stopped the application: is spark://h:7077 a master"):
        spark.main(launch)
    assert launch.asked == "Spark's master, spark://h:7077,"


def test_the_end_while_it_waits_for_slots_starts_no_job(monkeypatch, environment):
    seen = double(monkeypatch, [0])
    launch = Launch("spark://h:7077", 2)
    launch.wait = lambda seconds=None: launch.over.set()
    spark.main(launch)
    assert seen.rows is None and seen.stopped == 1 and len(launch.ends) == 1


def test_a_job_that_fails_is_told(monkeypatch, environment):
    seen = double(monkeypatch, [2], fails="RuntimeError: cellspan: agent 0 on h1: it broke\n")
    with pytest.raises(Failed, match="^h1: it broke"):
        spark.main(Launch("spark://h:7077", 2))
    assert seen.stopped == 1


@pytest.mark.parametrize("fails", ["", "RuntimeError: it broke"])
def test_what_is_sent_leaves_no_file_of_spark(monkeypatch, environment, fails):
    """Spark would make a broadcast of a large function by itself, and keep its files until the application ends."""
    seen = double(monkeypatch, [2], fails=fails)
    launch = Launch("spark://h:7077", 2)
    launch.sent = lambda: bytes(spark_tasks.INLINE + 1)
    made = []
    monkeypatch.setattr(spark_tasks, "barrier_task", lambda source, sent, *more: made.append((sent, seen.kept)))
    with pytest.raises(Failed) if fails else contextlib.nullcontext():
        spark.main(launch)
    ((sent, kept),) = made
    assert sent.value == launch.sent() and (kept, seen.kept) == (1, 0)


def test_a_task_reads_what_was_broadcast(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", types.SimpleNamespace(BarrierTaskContext=types.SimpleNamespace(get=lambda: "context")))
    task = spark_tasks.barrier_task("def run(*words):\n    return words\n", types.SimpleNamespace(value=b"sent"), "more")
    assert task("rows") == ("rows", "context", b"sent", "more")


# ---- the notebook's own session ----

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
    session([0])
    with pytest.raises(Failed, match="spark://h:7077, has no executor yet"):
        spark.main(Launch("", 0))


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


def test_the_job_has_a_group_also_where_threads_have_no_own_ones_of_the_jvm(session):
    seen = session([2])
    sys.modules["pyspark"].SparkContext._active_spark_context._gateway = None
    spark.main(Launch("", 2))
    ((how, group, said),) = seen.groups
    assert how == "alone" and group.startswith("cellspan-") and said == "cellspan: 2 ranks of the notebook"


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
    line = "say the ranks wait, for up to 10 min, until 2 of the 3 slots of the session are free at once: its own Spark tasks run on 2"
    assert launch.lines.count(line) == 1 and seen.rows
    seen = session([3])
    seen.busy = [2]
    with pytest.raises(Failed, match="^2 slots are needed at once.* own Spark tasks have left fewer of its 3 free for 10 min: wait"):
        spark.main(Launch("", 2))
    assert seen.rows is None


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
                link.sendall(b'{"slots": 2, "busy": 0, "stopped": false, "conf": {}, "patience": 600}\n')

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
