# SPDX-License-Identifier: BSD-3-Clause
"""The engine spark on the notebook's own session: its ranks are a job of it, beside the user's.

Home tells how the session's JVM is reached (_worker/spark_session.py). This process talks to the same JVM, over a connection of its own.
A session of Spark Connect has no JVM here: spark_connect.py.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

from . import spark, spark_cancel, spark_slots
from .launcher import Cannot, Failed

VARIABLE = "CELLSPAN_SPARK_SESSION"  # names the file with what home says about it
ALONE = "spark:MASTER starts an application of its own"
HERE = '--on local, or on="local" in a call, runs on this machine'
STOPPED = ("the notebook's Spark session that these ranks were to run on has ended: make one, if there is none, and run a cell with "
           "`%%distribute --on spark`, which takes the session of that time")


def read_session():
    """What home has said about its session."""
    path = os.environ.pop(VARIABLE, "")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        raise Cannot("--on spark: the notebook has no Spark session: make one (SparkSession.builder.master(…).getOrCreate()), or give a "
                     "master: %s" % ALONE) from None


def check(session, options):
    """What can't work is named before anything waits."""
    if options:
        raise Cannot("--on spark: the notebook's session decides what a task takes (spark.task.cpus and the like), so %s can't be given; %s" % (
            options[0], ALONE))
    if session["master"].startswith("local") and spark.slots_of(session["master"]) is None:
        raise Cannot("--on spark: the notebook's Spark session is %s, which runs nothing on other machines; leave --on out. %s" % (
            session["master"], ALONE))


def attach(pyspark, session):
    """A context for the session's JVM, which stays the notebook's."""
    os.environ.update(reached(session), PYSPARK_PYTHON=session["python"], PYSPARK_PIN_THREAD=session["pin_thread"])
    from pyspark.java_gateway import launch_gateway
    gateway = launch_gateway()
    for name in reached(session):
        del os.environ[name]
    jvm = gateway.jvm
    context = spark_cancel.active(jvm)
    if not context.isDefined():
        raise Failed(STOPPED, whole=True)
    jsc = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context.get())
    return pyspark.SparkContext(gateway=gateway, jsc=jsc, conf=pyspark.SparkConf(_jconf=jsc.getConf()))


def reached(session):
    """The variables by which pyspark finds a JVM that runs."""
    return {"PYSPARK_GATEWAY_PORT": str(session["port"]), "PYSPARK_GATEWAY_SECRET": session["secret"]}


class Canceller:
    """A process that cancels the job if this one is killed."""

    def __init__(self, session, group):
        # the kernel kills the process group of an engine that has ended
        self._process = subprocess.Popen([sys.executable, spark_cancel.__file__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                         start_new_session=True)
        self._tell({"environment": reached(session), "group": group})

    def _tell(self, what):
        self._process.stdin.write((json.dumps(what) + "\n").encode())
        self._process.stdin.flush()

    def end(self):
        try:
            self._tell("nothing is to be done")
            self._process.stdin.close()
        except OSError:  # somebody has ended it
            pass
        self._process.wait()


def main(launch):
    session, options = read_session(), spark.words_of(launch.spec)
    if "connect" in session:
        from . import spark_connect
        spark_connect.main(launch, session["connect"], options)
        return
    check(session, options)
    pyspark = spark.import_pyspark()
    launch.end(10)
    try:
        with launch.answer_of("the notebook's Spark session"):
            context = attach(pyspark, session)
    except Failed:
        raise
    except Exception as error:
        raise Failed("%s (%s)" % (STOPPED, " ".join(str(error).split())[:400])) from None
    if context.getConf().get(spark.DYNAMIC, "false").lower() == "true":
        raise Cannot("--on spark: %s is true in the notebook's session, and Spark refuses barrier stages then: make a session without it. "
                     "%s; %s" % (spark.DYNAMIC, ALONE, HERE))
    launch.ranks = launch.ranks or spark_slots.slots_now(context)
    if not launch.ranks:
        raise Failed("the notebook's Spark session, %s, has no executor yet: run a Spark job first, or say how many ranks, as in -n 2" % session["master"],
                     whole=True)
    launch.nodes(launch.ranks)
    group, ended = "cellspan-%d" % os.getpid(), threading.Event()
    context.setJobGroup(group, "cellspan: %d ranks of the notebook" % launch.ranks)
    launch.at_end(lambda: ended.wait(spark.GRACE) or context.cancelJobGroup(group))
    canceller = Canceller(session, group)
    try:
        spark.run_agents(launch, context, session["master"], Failed(STOPPED, whole=True), lambda: launch.say(
            spark_slots.what_it_takes(launch.ranks, spark_slots.slots_now(context))))
    finally:
        ended.set()
        canceller.end()
