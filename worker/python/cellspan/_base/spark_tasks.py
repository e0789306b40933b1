# SPDX-License-Identifier: BSD-3-Clause
"""How many tasks a SparkContext of this process, a classic one, can run and runs. Spark has no public name for either."""


def slots_now(context):
    """How many tasks could run at once on the executors that are there, if nothing else ran."""
    scala = context._jsc.sc()
    return scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile())


def busy_now(context):
    """How many tasks run on them."""
    tasks, n = context._jsc.sc().taskScheduler().runningTasksByExecutors().valuesIterator(), 0
    while tasks.hasNext():
        n += tasks.next()
    return n
