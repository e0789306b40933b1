# SPDX-License-Identifier: BSD-3-Clause
"""The engine spark on the notebook's session asks home: home has the session, and runs the stage (_worker/spark_jobs.py). So this process
needs neither pyspark, which takes longer to import than the stage to start, nor what a session's address has in it.
"""
from __future__ import annotations

import base64
import errno
import json
import os
import re
import socket
import threading

from . import spark
from .launcher import Failed, passed_on

STOPPED = ("the notebook's Spark session was stopped, and its ranks have ended with it: make a session, if there is none, and run a cell with "
           "`%%distribute --on spark`")
# In Spark's words; of Spark Connect, in those of its client and server.
STOPPED_AS = re.compile(r"SparkContext was shut down|Channel closed!|INVALID_HANDLE\.SESSION_(CLOSED|NOT_FOUND)")


class Home:
    """The socket to home, for questions and answers. where: in whose environment the Python of tasks is chosen."""

    where = spark.NOTEBOOK_SAYS

    def __init__(self, path):
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._link = socket.socket(socket.AF_UNIX)
            self._link.connect("/proc/self/fd/%d/%s" % (folder, os.path.basename(path)))
        finally:
            os.close(folder)
        self._lines, self._trying = self._link.makefile("rb"), None

    def ask(self, question):
        """The answer. OSError: home is gone."""
        self.tell(question)
        return self.hear()

    def hear(self):
        """What home says next. Failed: it is another Python that tasks have."""
        while True:
            line = self._lines.readline()
            if not line:
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            said = json.loads(line)
            if "tried" not in said:
                return said
            self._trying = False
            spark.check_python(said["tried"], self.where)

    def try_python(self):
        """A task that does nothing runs, once, so that another Python is named while ranks wait. False: it has ended."""
        if self._trying is None:
            self._trying = True
            self.tell({"try": True})
        return self._trying

    def tell(self, said):
        self._link.sendall(json.dumps(said).encode() + b"\n")

    def close(self):
        """Also from another thread: ask() ends, and so does what home runs."""
        try:
            self._link.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def with_home(launch, path, run, *arguments):
    """Calls run(launch, home, *arguments). The end of this process, also if it is killed, ends the stage."""
    launch.end(10)
    try:
        home = Home(path)
    except OSError as error:
        raise Failed("the notebook's Spark session can't be reached: %s" % error) from None
    ended = threading.Event()
    launch.at_end(lambda: (ended.wait(spark.GRACE), home.close()))
    try:
        run(launch, home, *arguments)
    except OSError as error:
        raise Failed("the notebook's Python is gone, and with it the session (%s): make a session, then run the cell again" % error) from None
    finally:
        ended.set()


def ask_session(launch, home, names):
    """What home knows of its session. names: of its configuration."""
    with launch.answer_of("the notebook's Spark session"):
        seen = home.ask({"session": names})
    if "failed" in seen:
        raise Failed("the notebook's Spark session does not answer: %s" % " ".join(seen["failed"].split())[:400], whole=True)
    return seen


def run_agents(launch, home, told=lambda running: None, **more):
    """Has home run the stage, and waits for its end. told() gets how many of its tasks run, where home hears it."""
    answer = home.ask({"run": {
        "secrets": [launch.secret_of(number) for number in range(launch.ranks)], "task": spark.task_source(),
        "sent": base64.b64encode(launch.sent()).decode(), "arguments": launch.command[1:], "settings": passed_on(), "folder": os.getcwd(),
        **more,
    }})
    while "running" in answer:
        told(answer["running"])
        answer = home.hear()
    if "failed" in answer:
        raise Failed(STOPPED, whole=True) if STOPPED_AS.search(answer["failed"]) else Failed(*spark.failure_of_job(answer["failed"], home.where))


def tell_nodes(launch):
    for number in range(launch.ranks):
        launch.node(number, "-", 1)
