# SPDX-License-Identifier: BSD-3-Clause
"""The engine spark on the notebook's own session: its ranks are a job of it, beside the user's. A session of Spark Connect, which can't see
its cluster: spark_connect.py.
"""
from __future__ import annotations

import json
import os

from . import spark, spark_slots
from .launcher import Cannot, Failed
from .spark_home import ask_session, run_agents, tell_nodes, with_home

VARIABLE = "CELLSPAN_SPARK_SESSION"  # names the file with what home says about it
ALONE = "spark:MASTER starts an application of its own"
HERE = '--on local, or on="local" in a call, runs on this machine'
STOPPED = ("the notebook's Spark session that these ranks were to run on has ended: make one, if there is none, and run a cell with "
           "`%%distribute --on spark`, which takes the session of that time")
ASKED = (spark.DYNAMIC, *spark.PROTECTS, spark.ENCRYPTS_FILES, *spark_slots.NAMED)


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


def main(launch):
    session, options = read_session(), spark.words_of(launch.spec)
    if "connect" in session:
        from . import spark_connect
        spark_connect.main(launch, session["connect"], options)
        return
    check(session, options)
    with_home(launch, session["classic"], run_stage, session["master"])


def run_stage(launch, home, master):
    """From the first question to the end of the last agent."""
    seen = ask_session(launch, home, ASKED)
    if seen["stopped"]:
        raise Failed(STOPPED, whole=True)
    conf = seen["conf"]
    if conf.get(spark.DYNAMIC, "false").lower() == "true":
        raise Cannot("--on spark: %s is true in the notebook's session, and Spark refuses barrier stages then: make a session without it. "
                     "%s; %s" % (spark.DYNAMIC, ALONE, HERE))
    count, stopped = (lambda: ask_session(launch, home, ())), Failed(STOPPED, whole=True)
    launch.ranks = launch.ranks or spark_slots.all_slots(launch, count, seen, conf, master, stopped)
    if not launch.ranks:
        return
    launch.nodes(launch.ranks, by_ranks=True, together=True)
    spark.say_who_reads(launch, master, conf)
    slots = spark_slots.wait_for_slots(launch, count, master, conf, seen["slots_limit"], stopped, home.try_python)
    if launch.over.is_set():
        return
    launch.say(spark_slots.what_it_takes(launch.ranks, slots))
    tell_nodes(launch)
    run_agents(launch, home)
