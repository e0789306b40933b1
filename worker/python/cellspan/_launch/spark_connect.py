# SPDX-License-Identifier: BSD-3-Clause
"""The engine spark on the notebook's session of Spark Connect: home runs the stage (_worker/spark_connect_jobs.py), and is asked for what
its client can know of the cluster.
"""
from __future__ import annotations

import re
import threading

from . import spark, spark_slots
from .._base import spark_tasks
from .launcher import Cannot, Failed
from .spark_home import ask_session, run_agents, tell_nodes, with_home

BARRIER, PROFILE = (3, 5), (4, 0)  # the first versions whose mapInArrow() has these
CORES, PARALLEL = "spark.task.cpus", ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism")
REPORTS = "spark.connect.progress.reportInterval"
SERVER_SAYS = "the environment of the Spark Connect server"  # which Python tasks have
FAILURES, INTERVAL = spark_tasks.CHECK + "maxFailures", spark_tasks.CHECK + "interval"
ASKED = (CORES, FAILURES, INTERVAL, "spark.master", spark.DYNAMIC, *PARALLEL, *spark.PROTECTS)
AMOUNT = re.compile(r"spark\.task\.(cpus|resource\.([\w-]+)\.amount)=(\d+(?:\.\d+)?)$")


def read_needs(options):
    """{"cpus": 2, "gpu": 1.0}: what each task takes, of `--conf spark.task.cpus=2 --conf spark.task.resource.gpu.amount=1`."""
    needs, left = {}, iter(options)
    for word in left:
        name, equals, value = word.partition("=")
        if name not in ("--conf", "-c"):
            raise Cannot("--on spark: %s is for an application of its own (%s); on the notebook's session of Spark Connect, --conf sets "
                         "spark.task.cpus and spark.task.resource.NAME.amount" % (word, "spark:MASTER " + word))
        value = value if equals else next(left, "")
        found = AMOUNT.match(value)
        if not found:
            raise Cannot("--on spark: --conf %s: a session is there already, so only spark.task.cpus=N and spark.task.resource.NAME.amount=N "
                         "can be given" % value)
        if found[2] is None and not found[3].isdecimal():
            raise Cannot("--on spark: --conf %s: a task takes whole processors" % value)
        needs[found[2] or "cpus"] = float(found[3]) if found[2] else int(found[3])
    return needs


def check(seen, needs):
    """What can't work is named before anything waits."""
    version = tuple(int(part) for part in re.findall(r"\d+", seen["version"])[:2])
    if version < BARRIER:
        raise Cannot("--on spark: the notebook's session is one of Spark Connect %s, and ranks need 3.5 or later there; spark:MASTER starts an "
                     "application of its own" % seen["version"])
    if needs and version < PROFILE:
        raise Cannot("--on spark: --conf needs Spark 4.0 or later on a session of Spark Connect, and this one is %s: leave --conf out" % seen["version"])
    if seen["conf"].get(spark.DYNAMIC, "false").lower() == "true":
        raise Cannot("--on spark: %s is true in the notebook's session, and Spark refuses barrier stages then: the server must be started "
                     "without it; spark:MASTER starts an application of its own" % spark.DYNAMIC)


def slots_of(seen, needs):
    """How many tasks run at once; None: the configuration hides how many cores there are."""
    if any(name in seen["conf"] for name in PARALLEL) or not seen["cores"]:
        return None
    return seen["cores"] // int(needs.get("cpus") or seen["conf"].get(CORES, "1"))


def main(launch, path, options):
    with_home(launch, path, run_stage, read_needs(options))


def run_stage(launch, home, needs):
    """From the first question to the end of the last agent."""
    home.where = SERVER_SAYS
    seen = ask_session(launch, home, ASKED)
    check(seen, needs)
    slots = slots_of(seen, needs)
    launch.ranks = launch.ranks or slots or 0
    if not launch.ranks:
        raise Cannot(spark.HOW_MANY)
    launch.nodes(launch.ranks, by_ranks=True, together=True)
    line = spark.exposed({**seen["conf"], spark.ENCRYPTS_FILES: "true"})  # a local table goes to tasks without a file
    if line:
        launch.say(line)
    if not seen["encrypted"]:
        launch.say("who can read the network between here and the Spark Connect server can take an agent's place until it is up: the "
                   "session's address has neither use_ssl=true nor a token")
    limit = slots_limit(seen["conf"])
    slots = wait_for_slots(launch, home, needs, slots, limit)
    if launch.over.is_set():
        return
    launch.say("the ranks take %d slots of the Spark Connect server until %%ranks stop: what else runs there can't be seen from here" % launch.ranks)
    run_agents_when_free(launch, home, limit, {"needs": needs, "spread": slots is None, "tells": seen["tells"]})


def run_agents_when_free(launch, home, limit, asked):
    """Spark itself lets the stage wait until as many slots as ranks are free, for ever. asked: of home, more than every
    stage takes. If the server tells, it is how many of the stage's tasks run, and nothing of other jobs."""
    waits = Wait(launch, home, limit)
    tell_nodes(launch)
    if asked["tells"]:
        threading.Thread(target=waits.watch, name="cellspan-slots", daemon=True).start()
    else:
        waits.say_so("before 4.0, or with %s=0, Spark Connect does not tell whether they are" % REPORTS)
    try:
        run_agents(launch, home, waits.told, **asked)
    finally:
        waits.over.set()


class Wait:
    """Of a stage that has begun, for its slots."""

    def __init__(self, launch, home, limit):
        self.launch, self.home, self.limit = launch, home, limit
        self.over, self.said = threading.Event(), False  # over: its tasks run, or it has ended

    def watch(self):
        """Says after a moment that it waits. When the limit is over, the time of a start counts again: the kernel, which knows whether agents
        are up, ends the wait then, for what a server tells may get lost."""
        if self.over.wait(min(spark_slots.SAY_AFTER, self.limit)):
            return
        self.home.try_python()
        self.say_so("none of their tasks runs yet", " up to %g min," % (self.limit / 60))
        if not self.over.wait(max(0, self.limit - spark_slots.SAY_AFTER)):
            self.launch.warn("%d slots are needed at once, one a rank, and the Spark Connect server has not had as many free for %g min: wait for other "
                             "jobs of it, or ask for fewer ranks" % (self.launch.ranks, self.limit / 60))
            tell_nodes(self.launch)

    def say_so(self, why, how_long=""):
        self.said = True
        self.launch.say("the ranks wait,%s until %d slots of the Spark Connect server are free at once: %s (%s)" % (
            how_long and " for" + how_long, self.launch.ranks, why, spark_slots.GIVE_UP))

    def told(self, running):
        if running < self.launch.ranks or self.over.is_set():
            return
        self.over.set()
        if self.said:
            tell_nodes(self.launch)  # so that the time of a start counts again


def slots_limit(conf):
    """For how many seconds Spark itself would look for enough slots."""
    found = re.match(r"(\d+)\s*(ms|s|m|min|h)?$", conf.get(INTERVAL, "15s"))
    seconds = int(found[1]) * {"ms": 0.001, "m": 60, "min": 60, "h": 3600}.get(found[2], 1) if found else 15
    return seconds * int(conf.get(FAILURES, "40"))


def wait_for_slots(launch, home, needs, slots, limit):
    """Waits while executors come; gives how many slots there are, or None if nobody knows."""
    waited, had, said = 0.0, slots, None
    while slots is not None and slots < launch.ranks and not launch.over.is_set():
        home.try_python()
        if waited >= limit:
            raise Failed("Spark counts on %d slots for these tasks, and %d are needed, one a rank: ask for fewer ranks, or have the server started "
                         "with more or larger executors" % (slots, launch.ranks), whole=True)
        if waited >= spark_slots.SAY_AFTER and said != slots:
            said = slots
            launch.say(spark_slots.so_far("Spark counts on", launch.ranks, slots, limit))
        launch.wait(spark_slots.POLL)
        slots = slots_of(ask_session(launch, home, ASKED), needs)
        waited, had = (0.0 if (slots or 0) > had else waited + spark_slots.POLL), slots or 0
    return slots
