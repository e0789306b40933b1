# SPDX-License-Identifier: BSD-3-Clause
"""The engine spark: an application of its own on a Spark cluster, in which each task of one barrier stage is an agent with one rank.

SPEC is the master and options of spark-submit: spark://host:7077 --conf spark.executor.memory=4g. Without a master, spark_notebook.py has
the notebook's own session run the stage.
"""
from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import sys
import threading

from .._base import spark_tasks
from .launcher import Cannot, Failed, passed_on
from .spark_slots import wait_for_slots

MASTERS = "spark://HOST:PORT, yarn, k8s://URL or local-cluster[EXECUTORS,CORES,MEMORY]"
# of spark-submit: what cellspan decides by itself, and what runs something else or nothing
REFUSED = {
    "--master": "the master is the first word",
    "--remote": "an application of its own needs a master",
    "--deploy-mode": "the driver runs on the notebook's machine",
    "--class": "cellspan is the application",
    "--kill": "it starts nothing",
    "--status": "it starts nothing",
    "--version": "it starts nothing",
    "--help": "it starts nothing",
    "-h": "it starts nothing",
    "--supervise": "the driver runs on the notebook's machine",
}
ALONE = ("--verbose", "-v")  # options without a value
HOW_MANY = "--on spark: say how many ranks, as in -n 2: Spark starts one task for each"
DYNAMIC = "spark.dynamicAllocation.enabled"
# A stage that Spark tries again would start agents with keys that have been used: pyspark tells a task which attempt of the task it is, and not
# which one of the stage (3.5.7 and 4.0.1 were read). A failed task of a barrier stage ends its job anyway; what a task could not fetch does by this.
OURS = {DYNAMIC: "false", "spark.stage.maxConsecutiveAttempts": "1", "spark.ui.showConsoleProgress": "false"}
PROTECTS = ("spark.authenticate", "spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
ENCRYPTS_FILES = "spark.io.encryption.enabled"
QUEUED = r"Application report for \S+ \(state: ACCEPTED\)"  # YARN's words for a queue
NOTEBOOK_SAYS = "the notebook's environment"  # which Python tasks have
GRACE = 3  # seconds for agents, which the kernel has told to end, before Spark ends their tasks


# ---- SPEC ----

def words_of(spec):
    try:
        return shlex.split(spec)
    except ValueError as error:
        raise Cannot("--on spark: %s: %s" % (spec, error)) from None


def read_spec(spec):
    """The master, and the options for spark-submit."""
    words = words_of(spec)
    if not words or words[0].startswith("-"):
        raise Cannot("--on spark: the master is missing; spark:MASTER, where MASTER is %s" % MASTERS)
    master, options = words[0], words[1:]
    if re.match(r"local(\[|$)", master):
        raise Cannot("--on spark:%s runs nothing on other machines; leave --on out, or try %s" % (master, "local-cluster[2,1,1024]"))
    if not re.match(r"spark://.|yarn$|k8s://.|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]$", master):
        raise Cannot("--on spark:%s: that is no master; use %s" % (master, MASTERS))
    check_options(options)
    return master, options


def check_options(options):
    """Refuses options that can't work, by name; all others are spark-submit's to judge."""
    left = iter(options)
    for word in left:
        name, equals, value = word.partition("=")
        if name in REFUSED:
            raise Cannot("--on spark: %s can't be given: %s" % (name, REFUSED[name]))
        if not name.startswith("-"):
            raise Cannot("--on spark: %s is no option of spark-submit; values with blanks must be quoted" % word)
        if word in ALONE:
            continue
        value = value if equals else next(left, None)
        if value is None:
            raise Cannot("--on spark: %s has no value: write it behind the option" % name)
        if name in ("--conf", "-c") and re.match(re.escape(DYNAMIC) + r"\s*=\s*true$", value, re.I):
            raise Cannot("--on spark: %s can't be true: Spark refuses it for barrier stages, whose tasks must all run at once" % DYNAMIC)


def slots_of(master):
    """How many tasks of one core run at once, where the master says it; None: only the cluster knows."""
    sizes = re.match(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)", master)
    return int(sizes[1]) * int(sizes[2]) if sizes else None


# ---- what must be here ----

def find_java():
    home = os.environ.get("JAVA_HOME")
    if home and not os.access(os.path.join(home, "bin", "java"), os.X_OK):
        raise Cannot("there is no bin/java in JAVA_HOME, which is %s: set it to a Java, or unset it" % home)
    if not home and not shutil.which("java"):
        raise Cannot("there is no Java here, which Spark's driver needs: install one (Debian: apt install openjdk-17-jre-headless), "
                     "or set JAVA_HOME")


def import_pyspark():
    """Without Spark Connect's variables, which would make a client of it."""
    for name in ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_GATEWAY_PORT",
                 "PYSPARK_GATEWAY_SECRET"):
        os.environ.pop(name, None)
    try:
        import pyspark
    except ImportError as error:
        raise Cannot("pyspark can't be imported by %s: %s. `pip install pyspark==VERSION`, in the version of the cluster" % (
            sys.executable, error)) from None
    try:
        from pyspark import SparkContext
        SparkContext.cancelAllJobs
    except (ImportError, AttributeError):
        raise Cannot("only a client for Spark Connect is installed (pyspark-client); a master needs `pip install pyspark==%s`" %
                     pyspark.__version__) from None
    if tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2]) < (3, 4):
        raise Cannot("pyspark %s is too old: 3.4 or later is needed" % pyspark.__version__)
    return pyspark


def check_master(master, limit):
    """One of the masters must take a connection: Spark itself would try for a minute, and say so in its log only."""
    if not master.startswith("spark://"):
        return
    whys = []
    for place in master[len("spark://"):].split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]") or place, int(port)), limit).close()
            return
        except (OSError, ValueError, OverflowError) as error:
            whys.append("%s: %s" % (place, error))
    raise Failed("no Spark master answers (%s): check the name and the port, 7077 normally, and that it runs" % "; ".join(whys), whole=True)


# ---- the application ----

def configured(pyspark, master, ranks):
    """The application's configuration: the user's, and what it leaves open."""
    conf = pyspark.SparkConf()  # with what spark-submit has read
    wanted = {
        "spark.app.name": "cellspan",
        "spark.ui.enabled": "false",
    }
    cpus = int(conf.get("spark.task.cpus", "1"))
    if master.startswith("spark://"):
        wanted["spark.cores.max"] = str(ranks * cpus)  # it would take the whole cluster
    elif slots_of(master) is None and not conf.contains("spark.executor.cores"):
        wanted["spark.executor.cores"] = str(cpus)
        wanted["spark.executor.instances"] = str(ranks)
    for name, value in wanted.items():
        if name == "spark.app.name" and conf.get(name, "pyspark-shell") == "pyspark-shell":
            conf.set(name, value)
        conf.setIfMissing(name, value)
    for name, value in OURS.items():  # of this application only
        conf.set(name, value)
    return conf


def let_yarn_speak(pyspark):
    """Where YARN is asked, and that an application waits in its queue, is told by these two alone."""
    jvm = pyspark.SparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    for name in ("org.apache.spark.deploy.yarn.Client", "org.apache.hadoop.yarn.client"):
        log4j.core.config.Configurator.setLevel(name, log4j.Level.INFO)


def start_context(launch, pyspark, master, options):
    """The driver, which is a JVM, and with it the application."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(map(shlex.quote, [*options, "--master", master, "pyspark-shell"]))
    pyspark.SparkContext._ensure_initialized()
    if master == "yarn":
        let_yarn_speak(pyspark)
    conf = configured(pyspark, master, launch.ranks)
    python = conf.get("spark.pyspark.python") or os.environ.get("CELLSPAN_REMOTE_PYTHON") or sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    context = pyspark.SparkContext(conf=conf)
    context.setLogLevel("WARN")
    return context


def failure_of_start(error, log):
    """Why there is no context, where Spark says it in its log only; and whether that says all."""
    if "UnsupportedClassVersionError" in log:
        return "this Java is too old for this Spark: 4.0 and later need Java 17, 3.x Java 8, 11 or 17; JAVA_HOME chooses one", True
    option = re.search(r"Unrecognized option: .+", log)
    if option:
        return "spark-submit: %s" % option[0], True
    return "Spark's driver does not start: %s" % " ".join(str(error).split())[:400], False


def exposed(conf):
    """Who can read the agents' keys on their way to tasks: a line for the cell; "": nobody else."""
    def on(name):
        return conf.get("spark." + name, "false").lower() == "true"
    said = []
    if not (on("authenticate") and (on("network.crypto.enabled") or on("ssl.rpc.enabled"))):
        said.append("who can read this cluster's network can take an agent's place until it is up: spark.authenticate and "
                    "spark.network.crypto.enabled are not both true")
    if not on("io.encryption.enabled"):
        said.append("the agents' keys are for a moment in a file of Spark's that only you can read: spark.io.encryption.enabled is not true")
    return "; ".join(said)


def say_who_reads(launch, master, conf):
    """The line of exposed(), where other machines take part."""
    line = "" if master.startswith("local-cluster") else exposed(conf)
    if line:
        launch.say(line)


def task_source():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "spark_task.py"), encoding="utf-8") as file:
        return file.read()


def python_of(text, where):
    """What is wrong with the Python of tasks, by an error of Spark's; "": nothing. where: in whose environment it is chosen."""
    other = re.search(r"different version:? \(?(\d+)(?:, |\.)(\d+)\S* than that in driver:? ([\d.]*\d)", text)
    if other:
        return "Python on the executors is %s.%s, the notebook's is %s: set PYSPARK_PYTHON, in %s, to a Python %s there" % (
            other[1], other[2], other[3], where, other[3])
    absent = re.search(r'Cannot run program "([^"]*)"', text)
    return "executors can't start %s: set PYSPARK_PYTHON, in %s, to their Python" % (absent[1], where) if absent else ""


def check_python(text, where=NOTEBOOK_SAYS):
    """Of the error of a task that does nothing."""
    python = python_of(text, where)
    if python:
        raise Failed(python, whole=True)


def failure_of_job(text, where=NOTEBOOK_SAYS):
    """Why the stage failed, in one line, and whether that says all. All that Spark has said is in the log."""
    ours = re.search(r"cellspan: agent (\d+) on (\S+): ([^\n]*)", text)
    if ours:
        return "%s: %s (Spark ends all agents of the job with it)" % (ours[2], ours[3]), True
    lost = re.search(r"ExecutorLostFailure \(executor (\S+) [^)\n]*\)(?: Reason: ([^\n]*))?", text)
    if lost:
        return "Spark lost executor %s%s, and ends all agents of the job with it" % (lost[1], ": " + lost[2] if lost[2] else ""), True
    python = python_of(text, where)
    if python:
        return python, True
    found = re.search(r"Most recent failure reason: ([^\n]*)", text) or re.search(r"SparkException: ([^\n]*)", text)
    return "Spark ended the job: %s" % (found[1] if found else " ".join(text.split())[:400]), False


def stop(context):
    """Ends the application, as far as Spark still answers."""
    try:
        context.cancelAllJobs()
        context.stop()
    except Exception:
        pass  # the JVM is gone already


def main(launch):
    if not launch.spec.strip() or launch.spec.lstrip().startswith("-"):
        from . import spark_notebook
        spark_notebook.main(launch)
        return
    master, options = read_spec(launch.spec)
    if not launch.ranks:
        raise Cannot(HOW_MANY)
    slots = slots_of(master)
    if slots is not None and slots < launch.ranks:
        raise Cannot("%s has %d slots, and %d are needed, one a rank: ask for fewer ranks, or for more executors or cores" % (master, slots, launch.ranks))
    launch.say("Spark's driver starts, for %s" % master)
    find_java()
    pyspark = import_pyspark()
    launch.end(10)
    launch.nodes(launch.ranks, by_ranks=True, together=True)
    check_master(master, 20)
    try:
        with launch.answer_of("Spark's master, %s," % master, QUEUED):
            context = start_context(launch, pyspark, master, options)
    except Exception as error:
        raise Failed(*failure_of_start(error, "\n".join(launch.log_tail(200)))) from None
    ended = threading.Event()
    launch.at_end(lambda: ended.wait(GRACE) or stop(context))
    try:
        run_agents(launch, context, master)
    finally:
        ended.set()
        stop(context)


class Trial:
    """A task that does nothing, while ranks wait: another Python on executors is named then."""

    def __init__(self, context):
        self._context, self._thread, self._said = context, None, ""

    def poll(self):
        """Begins it, the first time. False: it has ended; Failed: because of Python."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="cellspan-trial", daemon=True)
            self._thread.start()
        check_python(self._said)
        return self._thread.is_alive()

    def _run(self):
        try:
            spark_tasks.try_python(self._context)
        except Exception as error:  # noqa: BLE001 - of Spark
            self._said = str(error)


def run_agents(launch, context, master):
    """From the first slot to the end of the last agent."""
    conf, stopped = context.getConf(), "Spark has stopped the application: is %s a master that runs, of pyspark's version?" % master
    say_who_reads(launch, master, conf)
    wait_for_slots(launch, lambda: spark_tasks.slot_counts(context), master, conf, spark_tasks.slots_limit(context), Failed(stopped), Trial(context).poll)
    if launch.over.is_set():
        return
    for number in range(launch.ranks):
        launch.node(number, "-", 1)
    try:
        spark_tasks.run_stage(context, [launch.secret_of(number) for number in range(launch.ranks)], task_source(), launch.sent(), launch.command[1:],
                              passed_on(), os.getcwd())
    except Exception as error:
        raise Failed(*failure_of_job(str(error))) from None
