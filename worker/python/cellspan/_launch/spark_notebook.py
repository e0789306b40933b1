# SPDX-License-Identifier: BSD-3-Clause
"""The engine spark on the notebook's own session: its ranks are a job of it, beside the user's.

Home tells how the session's JVM is reached (_worker/spark_session.py). This process talks to the same JVM, over a connection of its own.
"""
from __future__ import annotations

import json
import os
import threading

from . import spark
from .launcher import Cannot, Failed

VARIABLE = "CELLSPAN_SPARK_SESSION"  # names the file in which home tells it
ALONE = "spark:MASTER starts an application of its own"


def read_told():
    """What home has said about its session."""
    path = os.environ.pop(VARIABLE, "")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        raise Cannot("--on spark: the notebook has no Spark session: make one (SparkSession.builder.master(…).getOrCreate()), or give a "
                     "master: %s" % ALONE) from None


def check(told):
    """What can't work is named before anything waits."""
    if told.get("connect"):
        raise Cannot("--on spark: the notebook's session is one of Spark Connect, on which no ranks can run: %s" % ALONE)
    if told["master"].startswith("local") and spark.slots_of(told["master"]) is None:
        raise Cannot("--on spark: the notebook's Spark session is %s, which runs nothing on other machines; leave --on out. %s" % (
            told["master"], ALONE))


def attach(pyspark, told):
    """A context for the session's JVM, which stays the notebook's."""
    os.environ.update(PYSPARK_GATEWAY_PORT=str(told["port"]), PYSPARK_GATEWAY_SECRET=told["secret"], PYSPARK_PYTHON=told["python"],
                      PYSPARK_PIN_THREAD=told["pin_thread"])
    from pyspark.java_gateway import launch_gateway
    gateway = launch_gateway()
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        del os.environ[name]
    jvm = gateway.jvm
    jsc = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    return pyspark.SparkContext(gateway=gateway, jsc=jsc, conf=pyspark.SparkConf(_jconf=jsc.getConf()))


def main(launch):
    told = read_told()
    check(told)
    pyspark = spark.import_pyspark()
    launch.end(10)
    try:
        context = attach(pyspark, told)
    except Exception as error:
        raise Failed("the notebook's Spark session does not answer: %s" % " ".join(str(error).split())[:400]) from None
    if context.getConf().get(spark.DYNAMIC, "false").lower() == "true":
        raise Cannot("--on spark: %s is true in the notebook's session, and Spark refuses barrier stages then: make a session without it; "
                     "%s" % (spark.DYNAMIC, ALONE))
    launch.ranks = launch.ranks or spark.slots_now(context)
    if not launch.ranks:
        raise Failed("the notebook's Spark session, %s, has no executor yet: run a Spark job first, or say how many ranks, as in -n 2" % told["master"],
                     whole=True)
    launch.nodes(launch.ranks)
    group, ended = "cellspan-%d" % os.getpid(), threading.Event()
    context.setJobGroup(group, "cellspan: %d ranks of the notebook" % launch.ranks)
    launch.at_end(lambda: ended.wait(spark.GRACE) or context.cancelJobGroup(group))
    try:
        spark.run_agents(launch, context, told["master"], lambda: say_what_it_takes(launch, context))
    finally:
        ended.set()


def say_what_it_takes(launch, context):
    """The user's own jobs have fewer slots while ranks are there."""
    slots = spark.slots_now(context)
    launch.say("%d of the session's %d slots are the ranks' until %%ranks stop%s" % (
        launch.ranks, slots, "" if slots > launch.ranks else ": the notebook's own Spark jobs wait until then"))
