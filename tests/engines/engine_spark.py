# SPDX-License-Identifier: BSD-3-Clause
"""Spark: a standalone cluster of two workers (spark.sh), as an application of its own and on the notebook's session.

`tests/engines/spark.sh install` makes the virtual environment that it needs. SPARK_VERSION chooses another version of pyspark, and
SPARK_CLIENT the notebook's alone: a client of Spark Connect may be older than its server.
"""

import glob
import json
import os
import signal
import urllib.request

import processes
from conformance import Engine, pids

import engines

BUILT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".build"))
VERSION = os.environ.get("SPARK_VERSION", "4.0.1")
CLIENT = os.environ.get("SPARK_CLIENT", VERSION)


class Cluster(engines.Engine):
    """spark.sh, with ports and a state of its own."""

    script = "spark.sh"

    def __init__(self, **settings):
        super().__init__()
        self.settings = settings

    def bring_up(self):
        self.port = engines.free_ports(30)
        self.environment.update(SPARK_VERSION=VERSION, SPARK_PORT=str(self.port), **self.settings)
        self.call("up", limit=900)

    def variables(self):
        words = self.call("env").stdout.split()
        return dict(word.split("=", 1) for word in words if "=" in word)


FAILURES = "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures"  # looks at the slots, one in 15 s


class Spark(Engine):
    name = "spark"
    tools = ("java",)
    ranks, few = 2, 1  # an agent, which is a task, takes one
    of_gpus = "--gpus 2"  # else a rank has one of its task's
    too_much = "spark:local-cluster[1,1,512]", r"has 1 slots, and 2 are needed"
    silent = "spark:spark://127.0.0.1:%d", "Spark's master, spark://127.0.0.1:[0-9]+, has not answered within %d s"
    ended = "Spark lost executor"
    cluster = None

    def missing(self):
        absent = [version for version in (VERSION, CLIENT) if not os.path.exists(os.path.join(BUILT, "spark", version, "made"))]
        return super().missing() or ("pyspark %s is not there: tests/engines/spark.sh install" % absent[0] if absent else "")

    settings = {}  # for spark.sh

    def up(self):
        self.cluster = Cluster(**self.settings).up()

    def down(self):
        if self.cluster:
            self.cluster.down()

    def gpus(self, environment, folder):
        """On another cluster, each of whose workers has two of the machine's GPUs. Either may have the first task."""
        self.down()
        environment = {**environment, "CELLSPAN_GPU_LEASES": folder + "/leases"}
        lines = [self.settings.get("SPARK_CONF", ""), *("spark.%s.resource.gpu.amount 2" % what for what in ("executor", "task")),
                 *("spark.executorEnv.%s %s" % one for one in environment.items())]
        self.settings = {**self.settings, "SPARK_GPUS": "2", "SPARK_CONF": "\n".join(lines)}
        self.up()
        return self.on, ["0,1", "2,3"], ["2,3", "0,1"]

    @property
    def master(self):
        return "spark://127.0.0.1:%d" % self.cluster.port

    @property
    def on(self):
        return "spark:" + self.master

    @property
    def queued(self):
        return self.on + " --executor-memory 64g", "Spark has given 0 of 2 slots so far"

    def variables(self):
        (packages,) = glob.glob(os.path.join(BUILT, "spark", CLIENT, "lib", "python3.*", "site-packages"))
        return {**self.cluster.variables(), "PYTHONPATH": packages, "SPARK_LOCAL_DIRS": self.temporary}

    @property
    def temporary(self):
        """Where the driver has its files."""
        return self.cluster.folder + "/temporary"

    def executors(self):
        mark = "spark.driver.port"
        return [pid for pid in pids() if "CoarseGrainedExecutorBackend" in processes.command(pid) and mark in processes.command(pid)
                and self.cluster.folder in (os.readlink("/proc/%d/cwd" % pid) if os.path.exists("/proc/%d/cwd" % pid) else "")]

    def end(self):
        """Spark itself ends no application that is well: an executor is killed."""
        os.kill(self.executors()[0], signal.SIGKILL)

    def left(self):
        return processes.described(self.executors())

    def ready(self):
        return not self.executors()

    def logs(self):
        """All of its files: logs, what its workers keep, and the driver's temporary ones."""
        return [path for path in glob.glob(self.cluster.folder + "/**", recursive=True) if os.path.isfile(path) and not os.path.islink(path)]


class SparkSession(Spark):
    """Its executors are the notebook's, and stay."""

    name = "spark-session"
    on = "spark"
    too_much = "spark", "Spark has [34] slots for these tasks, and 9 are needed", 9
    queued = "spark", "Spark has .*[34] of 9 slots so far", 9
    held = ("import pyspark, threading\ndef hold():\n    spark.sparkContext.setJobGroup('held', '')\n"
            "    spark.sparkContext.range(2, numSlices=2).foreach(lambda _: __import__('time').sleep(100000))\n"
            "holder = pyspark.InheritableThread(target=hold)\nholder.start()\ntracker = spark.sparkContext.statusTracker()\n"
            "def active():\n    return sum(tracker.getStageInfo(n).numActiveTasks for n in tracker.getActiveStageIds())\n"
            "while active() < 2:\n    time.sleep(0.1)",
            "until 2 of the 3 slots of the session are free at once: its own Spark tasks run on 2",
            "spark.sparkContext.cancelJobGroup('held')\nholder.join()")
    silent = None

    def up(self):
        super().up()
        self.ui = engines.free_ports(1)

    @property
    def first(self):
        return ("from pyspark.sql import SparkSession\nspark = SparkSession.builder.master('%s').config('spark.cores.max', 3).config('%s', 1)"
                ".config('spark.ui.enabled', True).config('spark.ui.port', %d).getOrCreate()\n"
                "spark.sparkContext.setLogLevel('OFF')\nimport os, socket, time" % (self.master, FAILURES, self.ui))

    def asked(self, what):
        """What the notebook's session says of itself; []: it has ended."""
        at = "http://127.0.0.1:%d/api/v1/applications" % self.ui
        try:
            (application,) = json.load(urllib.request.urlopen(at, timeout=60))
            return json.load(urllib.request.urlopen("%s/%s/%s" % (at, application["id"], what), timeout=60))
        except OSError:
            return []

    def left(self):
        """The session has no job, and no task holds a slot."""
        return ["job %s: %s" % (job["jobId"], job.get("description", job["name"])) for job in self.asked("jobs?status=running")] + [
            "executor %s runs %d tasks" % (executor["id"], executor["activeTasks"]) for executor in self.asked("executors") if executor["activeTasks"]]

    def ready(self):
        return not self.left()


class SparkConnect(SparkSession):
    """The session is one of a Spark Connect server, and its address has a token, which nobody but the notebook may know.

    A client before 4.0 has none: with a token it speaks TLS with localhost, too, which this server does not.
    """

    name = "spark-connect"
    too_much = "spark", "Spark counts on 4 slots for these tasks, and 9 are needed", 9
    queued = "spark", "Spark counts on 4 of 9 slots so far", 9
    held = ("import shutil, tempfile, threading\nheld = tempfile.mkdtemp()\ndef sleeps(batches, held=held):\n    import tempfile, time\n"
            "    tempfile.mkstemp(dir=held)\n    time.sleep(100000)\n    yield from batches\n"
            "def hold():\n    spark.addTag('held')\n    try:\n        spark.range(0, 3, 1, 3).mapInArrow(sleeps, 'id long').collect()\n"
            "    except Exception:\n        pass\n"
            "holder = threading.Thread(target=hold)\nholder.start()\nwhile len(os.listdir(held)) < 3:\n    time.sleep(0.1)",
            "until 2 slots of the Spark Connect server are free at once: none of their tasks runs yet" if CLIENT >= "4" else
            "before 4.0, or with .* Spark Connect does not tell whether they are",  # a client before 4.0 gets no reports
            "spark.interruptTag('held')\nholder.join()\nshutil.rmtree(held)")
    hidden = b"cellspan-test-token" if CLIENT >= "4" else None
    settings = {"SPARK_CONNECT": "1", "SPARK_CONF": FAILURES + " 1"}

    def missing(self):
        return super().missing() or ("" if VERSION >= "4" or os.environ.get("SPARK_CONNECT_JAR") else
                                     "pip's pyspark %s has no Connect server: SPARK_CONNECT_JAR names its jar" % VERSION)

    def left(self):
        return []

    def ready(self):
        return True

    def variables(self):
        return {name: value for name, value in super().variables().items() if name != "SPARK_REMOTE_URL"}

    @property
    def first(self):
        token = ";token=" + self.hidden.decode() if self.hidden else ""
        return ("from pyspark.sql import SparkSession\nspark = SparkSession.builder.remote('sc://localhost:%d/%s').getOrCreate()\n"
                "import os, socket, time" % (self.cluster.port + 20, token))


ENGINES = [Spark, SparkSession, SparkConnect]
