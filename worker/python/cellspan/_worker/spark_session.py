# SPDX-License-Identifier: BSD-3-Clause
"""Home's side of the engine spark: how its process reaches the notebook's Spark session.

It is told in a file that only the user can read, because who reaches the session's JVM can run programs in it.
"""
from __future__ import annotations

import json
import os
import sys

NAME = "spark-session"  # in the kernel's runtime folder
VARIABLE = "CELLSPAN_SPARK_SESSION"  # names the file
_noted = None  # (path, what is told) of the last note()


def master():
    """The master of the notebook's session; "": there is none, or it is one of Spark Connect, whose executors take no ranks."""
    return (_found() or {}).get("master", "")


def note(folder):
    """Writes the file if it is not there as it should be, and gives its path; "": the notebook has no session, or there is no folder."""
    global _noted
    told = _found()
    if not told or not folder:
        return ""
    path = os.path.join(folder, NAME)
    if _noted == (path, told) and os.path.exists(path):
        return path
    new = "%s.%d" % (path, os.getpid())
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(told, file)
        os.replace(new, path)
    except OSError:
        return ""
    _noted = path, told
    return path


def variables(folder):
    """What the engine's process gets in its environment."""
    path = note(folder)
    return {VARIABLE: path} if path else {}


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
    return None if session is None else {"connect": True}  # its address may have a token in it, so it is not told
