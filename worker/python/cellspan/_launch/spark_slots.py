# SPDX-License-Identifier: BSD-3-Clause
"""The slots of a Spark application: how many tasks its executors can run, and the wait for as many as there are ranks.

A barrier stage needs all of them at once. Spark itself would wait and say nothing.
"""
from __future__ import annotations

from .._base.spark_tasks import busy_now, slots_now
from .launcher import Failed

LOOK = 0.5  # seconds between two looks
SAY_AFTER = 10  # seconds without a new slot
CHECK = "spark.scheduler.barrier.maxConcurrentTasksCheck."  # Spark's own settings for how long such a stage waits


def patience(context):
    """For how many seconds Spark looks for enough slots: ten minutes, if nobody has set it."""
    return context._jsc.sc().conf().getTimeAsSeconds(CHECK + "interval", "15s") * int(context.getConf().get(CHECK + "maxFailures", "40"))


def wait_for_slots(launch, context, master, stopped):
    """Returns when as many slots as ranks are free, or the end is wanted. stopped: the error if the application has ended."""
    limit, most, waited, said = patience(context), -1, 0.0, None
    while not launch.over.is_set():
        have, busy = slots_now(context), busy_now(context)
        if have - busy >= launch.ranks:
            return
        if not have and context._jsc.sc().isStopped():
            raise stopped
        waited = 0.0 if have - busy > most else waited + LOOK
        most = max(have - busy, most)
        if have and waited >= limit:
            raise Failed(too_few(launch, context, have, busy, limit), whole=True)
        if said != (have, busy > 0) and (busy or waited >= SAY_AFTER):
            said = have, busy > 0
            launch.say(why_it_waits(launch, context, master, have, busy, limit))
        launch.wait(LOOK)


def why_it_waits(launch, context, master, have, busy, limit):
    if busy:
        return "the ranks wait, for up to %g min, until %d of the %d slots of the session are free at once: its own Spark tasks run on %d" % (
            limit / 60, launch.ranks, have, busy)
    return "Spark has given %d of %d slots so far%s" % (have, launch.ranks, "" if have else (
        ": is %s busy, or are its workers smaller than an executor (spark.executor.memory is %s)?" % (
            master, context.getConf().get("spark.executor.memory", "1g"))))


def too_few(launch, context, have, busy, limit):
    if have >= launch.ranks:
        return ("%d slots are needed at once, one a rank, and the session's own Spark tasks have left fewer of its %d free for %g min: wait "
                "for these tasks, or ask for fewer ranks" % (launch.ranks, have, limit / 60))
    conf = context.getConf()
    return ("Spark has %d slots for these tasks, and %d are needed, one a rank: ask for fewer ranks, or for more or larger executors "
            "(spark.task.cpus is %s, spark.executor.cores is %s)" % (
                have, launch.ranks, conf.get("spark.task.cpus", "1"), conf.get("spark.executor.cores", "not set")))


def what_it_takes(ranks, slots):
    """What the notebook's own jobs lose."""
    left = slots - ranks
    return "%d of the session's %d slots are the ranks' until %%ranks stop: the notebook's own Spark jobs %s until then" % (
        ranks, slots, "have %d" % left if left > 0 else "wait")
