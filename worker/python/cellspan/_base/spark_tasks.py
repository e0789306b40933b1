# SPDX-License-Identifier: BSD-3-Clause
"""Tasks of a SparkContext of this process, a classic one: how many it can run and runs, for which Spark has no public name, and the barrier
stage whose tasks are agents."""
from __future__ import annotations

CHECK = "spark.scheduler.barrier.maxConcurrentTasksCheck."  # Spark's own settings for how long a barrier stage waits
INLINE = 1 << 18  # bytes that the stage's function may have in it: Spark itself would make a broadcast of more, and keep its files


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


def slot_counts(context):
    """{"slots": N, "busy": N, "stopped": False}."""
    java = context._jsc  # None: it was stopped here
    if java is None or java.sc().isStopped():
        return {"slots": 0, "busy": 0, "stopped": True}
    return {"slots": slots_now(context), "busy": busy_now(context), "stopped": False}


def slots_limit(context):
    """For how many seconds Spark looks for enough slots: ten minutes, if nobody has set it."""
    return context._jsc.sc().conf().getTimeAsSeconds(CHECK + "interval", "15s") * int(context.getConf().get(CHECK + "maxFailures", "40"))


def try_python(context, group=None):
    """Runs a task that does nothing. Its error may say that the Python of tasks is another one. group: as for run_stage()."""
    _run(context, context.parallelize([0], 1).map(int), group)


def barrier_task(source, sent, *arguments):
    """The function of the stage. It refers to nothing of cellspan, which executors may lack. sent: bytes, or a broadcast of them."""
    def task(rows):
        from pyspark import BarrierTaskContext
        names = {"__name__": "cellspan_task"}
        exec(source, names)
        return names["run"](rows, BarrierTaskContext.get(), sent if isinstance(sent, bytes) else sent.value, *arguments)
    return task


def run_stage(context, secrets, *task, group=None):
    """Runs an agent in each task, until the last has ended. One element a partition: a task gets its own agent's secret and no other. task: as
    for barrier_task(). group: a job group's name and description."""
    source, sent, *more = task
    rows = context.parallelize(list(enumerate(secrets)), len(secrets))
    large = context.broadcast(sent) if len(sent) > INLINE else None
    try:
        stage = rows.barrier().mapPartitions(barrier_task(source, sent if large is None else large, *more))
        _run(context, stage, group)
    finally:
        if large is not None:
            _destroy(large)


def _run(context, rows, group):
    if group and not _has_threads_of_its_own(context):
        rows.collectWithJobGroup(*group)
        return
    if group:
        context.setJobGroup(*group)
    rows._jrdd.count()  # not collect(): as long as that lasts, the user's own jobs are not named after their lines


def _has_threads_of_its_own(context):
    """Has each thread one of the JVM for itself? Else (PYSPARK_PIN_THREAD=false) its job group may be another's."""
    from py4j.clientserver import ClientServer
    return isinstance(context._gateway, ClientServer)


def _destroy(broadcast):
    """Here and on the executors: else its files stay until the application ends."""
    try:
        broadcast.destroy()
    except Exception:  # the application has ended
        pass
