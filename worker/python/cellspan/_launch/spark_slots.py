# SPDX-License-Identifier: BSD-3-Clause
"""The slots of a Spark application: how many tasks its executors can run, and the wait for as many as there are ranks.

A barrier stage needs all of them at once. Spark itself would wait and say nothing.
"""
from __future__ import annotations

from .launcher import Failed

POLL = 0.5  # seconds between two counts
SAY_AFTER = 10  # seconds without a new slot
TRY_AFTER = 2  # the same
CPUS, CORES, MEMORY = NAMED = "spark.task.cpus", "spark.executor.cores", "spark.executor.memory"


def wait_for_slots(launch, count, master, conf, limit, stopped, try_python):
    """Returns how many slots there are when as many as ranks are free, or the end is wanted. count() gives what slot_counts() of
    _base/spark_tasks.py does. limit: seconds. stopped: the error if the application has ended. try_python() is called while it waits and a
    slot is free; it gives whether a task of its own runs, so that the numbers mean nothing."""
    most, waited, tried, said, have, trying = -1, 0.0, 0.0, None, 0, False
    while not launch.over.is_set():
        seen = count()
        have, busy = seen["slots"], seen["busy"]
        if have - busy >= launch.ranks:
            break
        if seen["stopped"]:
            raise stopped
        if (trying or have > busy) and waited >= TRY_AFTER and tried < limit and (trying := try_python()):
            launch.wait(POLL)
            tried += POLL
            continue
        waited = 0.0 if have - busy > most else waited + POLL
        most = max(have - busy, most)
        if have and waited >= limit:
            raise Failed(too_few(launch, conf, have, busy, limit), whole=True)
        if said != (have, busy > 0) and (busy or waited >= SAY_AFTER):
            said = have, busy > 0
            launch.say(why_it_waits(launch, conf, master, have, busy, limit))
        launch.wait(POLL)
    return have


def why_it_waits(launch, conf, master, have, busy, limit):
    if busy:
        return "the ranks wait, for up to %g min, until %d of the %d slots of the session are free at once: its own Spark tasks run on %d" % (
            limit / 60, launch.ranks, have, busy)
    return "Spark has given %d of %d slots so far%s" % (have, launch.ranks, "" if have else (
        ": is %s busy, or are its workers smaller than an executor (%s is %s)?" % (master, MEMORY, conf.get(MEMORY, "1g"))))


def too_few(launch, conf, have, busy, limit):
    if have >= launch.ranks:
        return ("%d slots are needed at once, one a rank, and the session's own Spark tasks have left fewer of its %d free for %g min: wait "
                "for these tasks, or ask for fewer ranks" % (launch.ranks, have, limit / 60))
    return ("Spark has %d slots for these tasks, and %d are needed, one a rank: ask for fewer ranks, or for more or larger executors "
            "(%s is %s, %s is %s)" % (have, launch.ranks, CPUS, conf.get(CPUS, "1"), CORES, conf.get(CORES, "not set")))


def what_it_takes(ranks, slots):
    """What the notebook's own jobs lose."""
    left = slots - ranks
    return "%d of the session's %d slots are the ranks' until %%ranks stop: the notebook's own Spark jobs %s until then" % (
        ranks, slots, "have %d" % left if left > 0 else "wait")
