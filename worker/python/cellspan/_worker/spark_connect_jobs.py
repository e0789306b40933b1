# SPDX-License-Identifier: BSD-3-Clause
"""Home's side of the engine spark on a session of Spark Connect: what its client can tell, and the agents' stage.

The address of a Connect server may have a token in it. So neither the session nor its address leaves home.
"""
from __future__ import annotations

import base64
import re
import threading

from .spark_jobs import Job, Trial

REPORTS = "spark.connect.progress.reportInterval"  # 0: the server tells nothing


class Connect:
    """A session, as spark_jobs.py knows it."""

    def __init__(self, session):
        self._session = session

    def answer(self, names):
        return _answered(self._session, names)

    def job(self, asked, tell):
        return ConnectJob(self._session, asked, tell)

    def trial(self, tell):
        return ConnectTrial(self._session, tell)


def _answered(session, names):
    """What the engine must know before it starts anything: values of the configuration, and how many cores Spark counts on."""
    try:
        found = {name: session.conf.get(name, None) for name in names}
        cores = re.search(r"splits=Some\((\d+)\)|splits=(\d+)", session.range(1)._explain_string(extended=True))
        return {
            "version": session.version, "conf": {name: value for name, value in found.items() if value is not None},
            "cores": int(cores[1] or cores[2]) if cores else 0, "encrypted": _is_encrypted(session), "tells": _tells(session),
        }
    except Exception as error:  # noqa: BLE001 - the channel may be the user's own class
        return {"failed": _without_token(str(error), session)}


def _tells(session):
    """Does it tell how many tasks of a job run? From 4.0 on, here and there."""
    return hasattr(session, "registerProgressHandler") and int(session.version.split(".")[0]) >= 4 and not re.match(
        r"0+\D*$", session.conf.get(REPORTS, None) or "2s")


def _is_encrypted(session):
    """Can nobody read what is sent to the server? What stays on this machine counts as that."""
    builder = getattr(session.client, "_builder", None)
    try:
        return bool(getattr(builder, "secure", False)) or builder.host in ("localhost", "127.0.0.1", "::1")
    except Exception:  # noqa: BLE001 - a channel of the user's own
        return False


def _without_token(text, session):
    """An error's text may have the session's address in it."""
    try:
        token = session.client.token
    except Exception:  # noqa: BLE001 - there is none
        token = None
    return text.replace(token, "…") if token else text


class Tagged:
    """A job of a Connect session. Its tag belongs to the thread that added it, so only this job is interrupted by it."""

    session = None

    def begin(self):
        self.session.addTag(self.name)
        type(self.session)._set_default_and_active_session(self.session)  # of this thread: a profile wants it

    def cancel(self):
        self.session.interruptTag(self.name)

    def failure(self, error):
        return _without_token(str(error), self.session)


class ConnectJob(Tagged, Job):
    def __init__(self, session, asked, tell):
        self.session = session
        super().__init__(asked, tell)

    def run(self):
        self.begin()
        own = threading.get_ident()

        def progress(stages, inflight_tasks, operation_id, done):  # of the session's other jobs, too, in their threads
            if threading.get_ident() == own and not done and all(stage.done for stage in sorted(stages, key=_number)[:-1]):
                self._tell({"running": inflight_tasks})

        if not self.asked["tells"]:
            self._stage().collect()
            return
        self.session.registerProgressHandler(progress)
        try:
            self._stage().collect()
        finally:
            self.session.removeProgressHandler(progress)

    def _stage(self):
        """A table with a row for each agent: each partition has one. The row goes to its task alone."""
        from pyspark.sql.types import BinaryType, LongType, StructField, StructType

        asked, number = self.asked, StructField("number", LongType())
        rows = self.session.createDataFrame(
            [(at, secret.encode()) for at, secret in enumerate(asked["secrets"])], StructType([number, StructField("secret", BinaryType())]))
        if asked["spread"]:
            rows = rows.repartitionByRange(len(asked["secrets"]), "number")
        task = _task(asked["task"], base64.b64decode(asked["sent"]), asked["arguments"], asked["settings"], asked["folder"])
        options = {"profile": _profile(asked["needs"])} if asked["needs"] else {}
        return rows.mapInArrow(task, StructType([number]), barrier=True, **options)


def _number(stage):
    return stage.stage_id


class ConnectTrial(Tagged, Trial):
    def __init__(self, session, tell):
        self.session = session
        super().__init__(tell)

    def run(self):
        self.begin()
        self.session.range(1).mapInArrow(_nothing(), "id long").collect()


def _nothing():
    """A function that refers to nothing of cellspan, as that of _task()."""
    return lambda batches: batches


def _profile(needs):
    """What a task takes: {"cpus": N, "gpu": N}."""
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

    requests = TaskResourceRequests()
    for name, amount in needs.items():
        requests = requests.cpus(int(amount)) if name == "cpus" else requests.resource(name, amount)
    return ResourceProfileBuilder().require(requests).build


def _task(source, *arguments):
    """The function of the stage. It refers to nothing of cellspan, which executors may lack."""
    def task(batches):
        from pyspark import BarrierTaskContext
        names = {"__name__": "cellspan_task"}
        exec(source, names)
        rows = [(row["number"], row["secret"].decode()) for batch in batches for row in batch.to_pylist()]
        names["run"](iter(rows), BarrierTaskContext.get(), *arguments)
        return iter(())
    return task
