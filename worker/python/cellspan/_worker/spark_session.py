# SPDX-License-Identifier: BSD-3-Clause
"""Home's side of the engine spark: how its process asks home about the notebook's Spark session.

It is told in a file of the kernel's folder: the socket behind which home answers (spark_jobs.py), and no more.
"""
from __future__ import annotations

import json
import os
import sys

from .._base.spark_tasks import busy_now, slots_now

NAME = "spark-session"  # in the kernel's runtime folder
VARIABLE = "CELLSPAN_SPARK_SESSION"  # names the file
KEPT = ("SPARK_REMOTE", "SPARK_CONNECT_AUTHENTICATE_TOKEN")  # of the environment: a Connect server's address and token, for home alone
_noted = None  # (path, what is told) of the last note()


def master():
    """The master of the notebook's session; "": there is none, or its server does not say it."""
    context = _found()
    if context is not None:
        return context.master
    session = _connect_session()
    try:
        return session.conf.get("spark.master", "") if session is not None else ""
    except Exception:  # it is stopped, or the server keeps that to itself
        return ""


def slots_free():
    """How many tasks of the session could begin now; None: nobody knows, for it has no executor yet, or is one of Spark Connect."""
    context = _found()
    if context is None:
        return None
    slots = slots_now(context)
    return max(slots - busy_now(context), 0) if slots else None


def note(folder):
    """Writes the file if it is not there as it should be, and gives its path; "": the notebook has no session, or there is no folder."""
    global _noted
    context = _found()
    session = _connect_session() if context is None else None
    if not folder or context is session is None:
        return ""
    from . import spark_jobs

    if context is not None:
        facts = {"master": context.master, "classic": spark_jobs.address(folder, spark_jobs.Classic(context))}
    else:
        from .spark_connect_jobs import Connect

        facts = {"connect": spark_jobs.address(folder, Connect(session))}
    path = os.path.join(folder, NAME)
    if _noted == (path, facts) and os.path.exists(path):
        return path
    new = "%s.%d" % (path, os.getpid())
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(facts, file)
        os.replace(new, path)
    except OSError:
        return ""
    _noted = path, facts
    return path


def variables(environ, folder):
    """What an engine's process gets in its environment. environ: what home has changed in its own."""
    path = note(folder)
    facts = {name: value for name, value in environ.items() if name not in KEPT}
    return {**facts, VARIABLE: path} if path else facts


def _found():
    """The notebook's classic context. Nothing of pyspark is imported: a notebook without it has no session."""
    return getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None)


def _connect_session():
    """The thread's session of Spark Connect, or the notebook's only one; None: there is none. One that another thread has stopped is still
    the thread's, and is passed over, as by getOrCreate()."""
    connect = getattr(sys.modules.get("pyspark.sql.connect.session"), "SparkSession", None)
    found = getattr(getattr(connect, "_active_session", None), "session", None), getattr(connect, "_default_session", None)
    return next((session for session in found if session is not None and not getattr(session.client, "is_closed", False)), None)
