# SPDX-License-Identifier: BSD-3-Clause
"""The slots of a Spark application: how many tasks its executors can run, and the wait for as many as there are ranks.

A barrier stage needs all of them at once. Spark itself would wait and say nothing.
"""
from __future__ import annotations

from .launcher import Failed

POLL = 0.5  # seconds between two counts
SAY_AFTER = 10  # seconds without a new slot
TRY_AFTER = 2  # the same
YOUNG = 30  # seconds: executors of an older session have come, as many as come by themselves (Spark itself waits for as long, by default)
SETTLED = 3  # seconds without a new executor, in a younger one
GIVE_UP = "interrupt the cell to give up"
CPUS, CORES, MEMORY = NAMED = "spark.task.cpus", "spark.executor.cores", "spark.executor.memory"


def wait_for_slots(launch, count, master, conf, limit, stopped, try_python):
    """Returns how many slots there are when as many as ranks are free, or the end is wanted. count() gives what slot_counts() of
    _base/spark_tasks.py does. limit: seconds. stopped: the error if the application has ended. try_python() is called while it waits and a
    slot is free; it gives whether a task of its own runs, so that the numbers mean nothing."""
    # count()["ranks"]: on how many of the busy slots agents of this notebook run. These end now, for its next ranks are to start.
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
        ends = min(seen.get("ranks", 0), busy)
        about = have, busy > ends, ends > 0
        if said != about and waited >= (0 if busy > ends else TRY_AFTER if ends else SAY_AFTER):
            said = about
            launch.say(why_it_waits(launch, conf, master, have, busy, ends, limit))
        launch.wait(POLL)
    return have


def all_slots(launch, count, seen, conf, master, stopped):
    """How many slots the session has when its executors have come: they do so one after another, seconds after the session is made. There is no
    limit while there is none. None: the end is wanted. seen: what count() gave, and the session's age in seconds."""
    slots, waited, said = seen["slots"], SAY_AFTER if seen["age"] >= YOUNG else 0.0, False
    while not launch.over.is_set():
        if slots and waited >= SETTLED:
            return slots
        if not slots and waited >= SAY_AFTER and not said:
            said = True
            launch.say("the ranks wait until the session has an executor: %s %s" % (is_it_busy(conf, master), GIVE_UP.capitalize()))
        launch.wait(POLL)
        seen = count()
        if seen["stopped"]:
            raise stopped
        slots, waited = seen["slots"], waited + POLL if seen["slots"] == slots else 0.0
    return None


def is_it_busy(conf, master):
    return "is %s busy, or are its workers smaller than an executor (%s is %s)?" % (master, MEMORY, conf.get(MEMORY, "1g"))


def why_it_waits(launch, conf, master, have, busy, ends, limit):
    """ends: as many of the busy slots become free now."""
    if busy:
        own = ["its own Spark tasks run on %d" % (busy - ends)] * (busy > ends) + ["earlier ranks, which end now, have %d" % ends] * (ends > 0)
        return "the ranks wait, for up to %g min, until %d of the %d slots of the session are free at once: %s (%s)" % (
            limit / 60, launch.ranks, have, "; ".join(own), GIVE_UP)
    if have:
        return so_far("Spark has given", launch.ranks, have, limit)
    return "Spark has given 0 of %d slots so far: %s %s" % (launch.ranks, is_it_busy(conf, master), GIVE_UP.capitalize())


def so_far(who_gives, ranks, have, limit):
    """The line of a wait for more slots."""
    return "%s %d of %d slots so far: the ranks wait for more until none has come for %g min; %s, or ask for fewer ranks" % (
        who_gives, have, ranks, limit / 60, GIVE_UP)


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
