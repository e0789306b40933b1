# SPDX-License-Identifier: BSD-3-Clause
"""Home's side of the engine spark: how its process reaches the notebook's Spark session.

It is told in a file that only the user can read, because who reaches the session's JVM can run programs in it.
"""
from __future__ import annotations

import json
import os
import sys

NAME = "spark-session"  # in the kernel's runtime folder


def master():
    """The notebook's session: its master, or the address of its Spark Connect server; "": there is none."""
    told = _found()
    return told.get("master") or told.get("remote") or "" if told else ""


def note(folder):
    """Writes the file, and gives its path; "": the notebook has no session, or there is no folder."""
    told = _found()
    if not told or not folder:
        return ""
    path = os.path.join(folder, NAME)
    new = "%s.%d" % (path, os.getpid())
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(told, file)
        os.replace(new, path)
    except OSError:
        return ""
    return path


def _found():
    """Nothing of pyspark is imported: a notebook without it has no session."""
    package = sys.modules.get("pyspark")
    context = getattr(getattr(package, "SparkContext", None), "_active_spark_context", None)
    if context is not None:
        try:
            gateway = context._gateway.gateway_parameters
            return {
                "master": context.master, "port": gateway.port, "secret": gateway.auth_token, "python": context.pythonExec,
                "pin_thread": os.environ.get("PYSPARK_PIN_THREAD", "true"),
            }
        except Exception:  # it is being stopped
            return None
    connect = getattr(sys.modules.get("pyspark.sql.connect.session"), "SparkSession", None)
    session = getattr(connect, "_default_session", None)
    if session is None:
        return None
    try:
        return {"remote": session.client._builder.url.geturl()}
    except AttributeError:  # a channel of the user's own
        return {"remote": "sc://?"}
