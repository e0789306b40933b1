# SPDX-License-Identifier: BSD-3-Clause
"""Home's side of the engine spark: the agents' stage is a job that a thread of home runs on the notebook's session.

The engine's process asks over a socket in the kernel's folder, which only this user may enter. _launch/spark_home.py is the other side:
lines of JSON, one object each. What a session of Spark Connect does in its own way is in spark_connect_jobs.py.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
import time

from .._base import spark_tasks, threads

NAME = "spark-jobs"  # the socket, in the kernel's folder
AGAIN = 1.0  # seconds between two tries to cancel a job
_server = None  # the Server of this process


def address(folder, session):
    """The path of the socket behind which this session, a Classic or a Connect, is asked. "": there can't be one."""
    global _server
    try:
        if _server is None or _server.folder != folder:
            _server = Server(folder)
    except OSError:
        return ""
    _server.session = session
    return os.path.join(folder, NAME)


class Server:
    """Listens for the engine's process, in threads of its own."""

    def __init__(self, folder):
        self.folder, self.session = folder, None
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            path = "/proc/self/fd/%d/%s" % (at, NAME)  # a socket's own path may have 107 bytes
            if os.path.lexists(path):
                os.unlink(path)
            self._listens = socket.socket(socket.AF_UNIX)
            self._listens.bind(path)
            self._listens.listen()
        finally:
            os.close(at)
        threads.begin("spark", self._accept)

    def _accept(self):
        while True:
            link = self._listens.accept()[0]
            threads.begin("spark", _serve, link, self.session)


def _serve(link, session):
    """Answers one process until it goes. What it has started on the session ends then."""
    jobs, lock = [], threading.Lock()

    def tell(answer):
        with lock:
            try:
                link.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                pass  # it is gone

    with link, link.makefile("rb") as lines:
        try:
            for line in lines:
                asked = json.loads(line)
                if "session" in asked:
                    tell(session.answer(asked["session"]))
                elif "try" in asked:
                    jobs.append(session.trial(tell))
                elif "run" in asked:
                    jobs.append(session.job(asked["run"], tell))
        except (OSError, ValueError):
            pass
        for job in jobs:
            job.end()


class Job:
    """The agents' stage, in a thread of its own. tell() gets how it has ended."""

    def __init__(self, asked, tell):
        self.asked, self._tell = asked, tell
        self.name = "cellspan-%d-%s" % (os.getpid(), os.urandom(6).hex())
        self._thread = threads.begin("spark-job", self._run)

    def run(self):
        """Runs it, and returns when it has ended."""
        raise NotImplementedError

    def cancel(self):
        raise NotImplementedError

    def failure(self, error):
        """The text of an error."""
        return str(error)

    def _run(self):
        try:
            self.run()
        except Exception as error:  # noqa: BLE001 - of Spark
            self._tell({"failed": self.failure(error)})
        else:
            self._tell({"ended": True})

    def end(self):
        """Cancels it, until it has ended: Spark may not know it yet."""
        while self._thread.is_alive():
            try:
                self.cancel()
            except Exception:  # noqa: BLE001 - the server or the session is gone
                return
            self._thread.join(AGAIN)


class Trial(Job):
    """A task that does nothing, with the Python of the agents' tasks. tell() gets its error, or ""."""

    def __init__(self, tell):
        super().__init__(None, lambda answer: tell({"tried": answer.get("failed", "")}))


class Classic:
    """A session with a JVM of this process's own."""

    def __init__(self, context):
        self._context = context

    def answer(self, names):
        """What the engine must know before it starts anything."""
        try:
            seen = {**spark_tasks.slot_counts(self._context), "ranks": ClassicJob.tasks_on(self._context)}
            if not seen["stopped"] and names:
                conf = self._context.getConf()
                seen["conf"] = {name: conf.get(name) for name in names if conf.contains(name)}
                seen["slots_limit"] = spark_tasks.slots_limit(self._context)
                seen["age"] = time.time() - self._context.startTime / 1000
            return seen
        except Exception as error:  # noqa: BLE001 - the JVM is gone, or stops at this moment
            return {"failed": str(error)}

    def job(self, asked, tell):
        return ClassicJob(self._context, asked, tell)

    def trial(self, tell):
        return ClassicTrial(self._context, tell)


class ClassicJob(Job):
    """A job of a group of its own, by which it is cancelled."""

    _begun = []  # those that may live

    def __init__(self, context, asked, tell):
        self._context = context
        super().__init__(asked, tell)
        ClassicJob._begun = [*ClassicJob._living(), self]

    @staticmethod
    def _living():
        return [job for job in ClassicJob._begun if job._thread.is_alive()]

    @staticmethod
    def tasks_on(context):
        """How many tasks of the session are agents, once all of them have begun."""
        return sum(len(job.asked["secrets"]) for job in ClassicJob._living() if job._context is context)

    def run(self):
        asked = self.asked
        spark_tasks.run_stage(self._context, asked["secrets"], asked["task"], base64.b64decode(asked["sent"]), asked["arguments"], asked["settings"],
                              asked["folder"], group=(self.name, "cellspan: %d ranks of the notebook" % len(asked["secrets"])))

    def cancel(self):
        self._context.cancelJobGroup(self.name)


class ClassicTrial(Trial):
    def __init__(self, context, tell):
        self._context = context
        super().__init__(tell)

    def run(self):
        spark_tasks.try_python(self._context, (self.name, "cellspan: the Python of tasks"))

    def cancel(self):
        self._context.cancelJobGroup(self.name)
