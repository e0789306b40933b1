# SPDX-License-Identifier: BSD-3-Clause
"""The engine spark without Spark: its arguments, its failures in words, and its task, with doubles of pyspark and of the agent."""

import contextlib
import json
import os
import pickle
import platform
import re
import stat
import subprocess
import sys
import types

import cloudpickle
import pytest
from cellspan._base import spark_tasks
from cellspan._install import offer
from cellspan._launch import spark, spark_slots, spark_task
from cellspan._launch.launcher import Cannot, Failed
from spark_doubles import Launch, double, environment  # noqa: F401  (a fixture)

HOSTS = ["a:40001", "b:40001"]


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


def test_each_rank_is_a_task_with_its_own_secret(monkeypatch, environment):
    seen = double(monkeypatch, [0, 1, 2])
    launch = Launch("spark://h:7077 --conf 'spark.x=a b'", 2)
    spark.main(launch)
    assert launch.lines[:3] == ["say Spark's driver starts, for spark://h:7077", "end 10", "nodes 2 ranks together"]
    assert launch.lines[-2:] == ["node 0 - 1", "node 1 - 1"]
    assert seen.rows == [(0, "2a:0"), (1, "2a:1")] and seen.partitions == 2 and seen.stopped == 1
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--conf 'spark.x=a b' --master spark://h:7077 pyspark-shell"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert seen.conf["spark.app.name"] == "cellspan" and seen.conf["spark.cores.max"] == "2"
    assert seen.conf["spark.dynamicAllocation.enabled"] == "false"


def test_it_says_what_it_does_before_pyspark_is_imported(monkeypatch, environment):
    """That may take long, as from a file system of the network."""
    double(monkeypatch, [2])
    launch, lines = Launch("spark://h:7077", 2), []
    monkeypatch.setattr(spark, "import_pyspark", lambda: lines.extend(launch.lines) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        spark.main(launch)
    assert lines == ["say Spark's driver starts, for spark://h:7077"]


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
    assert seen.rows is None and seen.stopped == 1 and launch.lines[-1].startswith(
        "say Spark has given 1 of 2 slots so far: the ranks wait for more until none has come for 10 min; ")
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
