# SPDX-License-Identifier: BSD-3-Clause
"""Home's side of the engine spark on a session of Spark Connect: the agents' stage is a job that a thread of home runs on the session.

The address of a Connect server may have a token in it. So neither the session nor its address leaves home: the engine's process asks over
a socket in the kernel's folder, which only this user may enter. _launch/spark_connect.py is the other side: lines of JSON, one object each.
"""
from __future__ import annotations

import base64
import json
import os
import re
import socket
import threading

from .._base import threads

NAME = "spark-connect"  # the socket, in the kernel's folder
AGAIN = 1.0  # seconds between two tries to interrupt a job
_server = None  # the Server of this process


def address(folder, session):
    """The path of the socket behind which this session is asked. "": there can't be one."""
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
    job, lock = None, threading.Lock()

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
                if "look" in asked:
                    tell(_looked(session, asked["look"]))
                elif "run" in asked and job is None:
                    job = Job(session, asked["run"], tell)
                elif "end" in asked:
                    break
        except (OSError, ValueError):
            pass
        if job is not None:
            job.end()


def _looked(session, names):
    """What the engine must know before it starts anything: values of the configuration, and how many cores Spark counts on."""
    try:
        found = {name: session.conf.get(name, None) for name in names}
        cores = re.search(r"splits=Some\((\d+)\)|splits=(\d+)", session.range(1)._explain_string(extended=True))
        return {
            "version": session.version, "conf": {name: value for name, value in found.items() if value is not None},
            "cores": int(cores[1] or cores[2]) if cores else 0, "encrypted": _is_encrypted(session),
        }
    except Exception as error:  # noqa: BLE001 - the channel may be the user's own class
        return {"failed": _without_token(str(error), session)}


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


class Job:
    """The agents' stage. A tag belongs to the thread that added it, so only this job is interrupted by it."""

    def __init__(self, session, asked, tell):
        self.session, self.asked, self.tell = session, asked, tell
        self.tag = "cellspan-%d-%s" % (os.getpid(), os.urandom(6).hex())
        self.thread = threads.begin("spark-job", self._run)

    def _run(self):
        try:
            self.session.addTag(self.tag)
            type(self.session)._set_default_and_active_session(self.session)  # of this thread: a profile wants it
            self._stage().collect()
        except Exception as error:  # noqa: BLE001
            self.tell({"failed": _without_token(str(error), self.session)})
        else:
            self.tell({"ended": True})

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

    def end(self):
        """Interrupts the job, until it has ended: Spark may not know it yet."""
        while self.thread.is_alive():
            try:
                self.session.interruptTag(self.tag)
            except Exception:  # noqa: BLE001 - the server or the session is gone
                return
            self.thread.join(AGAIN)


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
