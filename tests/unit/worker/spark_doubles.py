# SPDX-License-Identifier: BSD-3-Clause
"""Doubles for tests of the engine spark: of pyspark, and of the helper that all engines in Python have."""

import contextlib
import pickle
import sys
import threading
import types
from unittest import mock

import cloudpickle
import pytest
from cellspan._launch import spark

LIMIT = 60


class Conf(dict):
    def contains(self, name):
        return name in self

    def set(self, name, value):
        self[name] = value

    def setIfMissing(self, name, value):
        self.setdefault(name, value)


def scala_map(values):
    """What py4j gives of a map's values."""
    left = list(values)
    iterator = types.SimpleNamespace(hasNext=lambda: bool(left), next=lambda: left.pop())
    return types.SimpleNamespace(valuesIterator=lambda: iterator)


class ClientServer:
    """py4j's, with which each thread has one of the JVM for itself."""


def double(monkeypatch, slots, fails="", tries="", **conf):
    """Puts a pyspark in place whose SparkContext has so many slots at each look, and runs seen.busy tasks on executors."""
    module = types.ModuleType("pyspark")
    module.__version__ = "4.0.1"
    seen = types.SimpleNamespace(stopped=0, is_stopped=False, busy=[0], conf=None, rows=None, partitions=None, groups=[], cancelled=[], kept=0, tries=tries, tried=False,
                                 lasts=threading.Event(), begun=threading.Event())
    seen.lasts.set()

    class SparkContext:
        _ensure_initialized = staticmethod(lambda: None)
        _jvm = mock.MagicMock()
        master = "spark://h:7077"
        startTime = 0

        def __init__(self, conf):
            seen.conf = conf
            self._gateway, self._jrdd = ClientServer(), types.SimpleNamespace(count=self.count)
            scala = types.SimpleNamespace(
                isStopped=lambda: seen.is_stopped,
                taskScheduler=lambda: types.SimpleNamespace(runningTasksByExecutors=lambda: scala_map(seen.busy)),
                conf=lambda: types.SimpleNamespace(getTimeAsSeconds=lambda name, default: int(seen.conf.get(name, default).rstrip("s"))),
                maxNumConcurrentTasks=lambda profile: slots.pop(0) if len(slots) > 1 else slots[0],
                resourceProfileManager=lambda: types.SimpleNamespace(defaultResourceProfile=lambda: None))
            self._jsc = types.SimpleNamespace(sc=lambda: scala)

        def setLogLevel(self, level):
            pass

        def getConf(self):
            return seen.conf

        def parallelize(self, rows, partitions):
            seen.rows, seen.partitions = rows, partitions
            return self

        def map(self, function):
            """Of the task that does nothing."""
            seen.tried, seen.rows = True, None
            return types.SimpleNamespace(_jrdd=types.SimpleNamespace(count=self._try),
                                         collectWithJobGroup=lambda *group: (seen.groups.append(("alone", *group)), self._try()))

        def _try(self):
            if seen.tries:
                raise RuntimeError(seen.tries)

        def barrier(self):
            return self

        def mapPartitions(self, task):
            pickle.loads(cloudpickle.dumps(task))
            return self

        def count(self):
            seen.begun.set()
            assert seen.lasts.wait(LIMIT)
            if fails or seen.cancelled:
                raise RuntimeError(fails or "cancelled")

        def collectWithJobGroup(self, *group):
            seen.groups.append(("alone", *group))
            self.count()

        def setJobGroup(self, *group):
            seen.groups.append(group)

        def cancelJobGroup(self, group):
            seen.cancelled.append(group)
            seen.lasts.set()

        def broadcast(self, value):
            seen.kept += 1
            return types.SimpleNamespace(value=value, destroy=lambda: setattr(seen, "kept", seen.kept - 1))

        def cancelAllJobs(self):
            pass

        def stop(self):
            seen.stopped += 1

    module.SparkConf, module.SparkContext = lambda: Conf(dict({"spark.app.name": "pyspark-shell"}, **conf)), SparkContext
    monkeypatch.setitem(sys.modules, "pyspark", module)
    monkeypatch.setitem(sys.modules, "py4j.clientserver", types.SimpleNamespace(ClientServer=ClientServer))
    monkeypatch.setattr(spark, "find_java", lambda: None)
    monkeypatch.setattr(spark, "check_master", lambda master, limit: None)
    return seen


class Launch:
    """What the helper of all engines in Python gives them."""

    command = ["/agent", "--connect", "tcp://h:1"]

    def __init__(self, spec, ranks):
        self.spec, self.ranks, self.lines, self.over, self.ends, self.waits = spec, ranks, [], threading.Event(), [], []
        self.at_end = self.ends.append

    def nodes(self, n, by_ranks=False, together=False):
        self.lines.append("nodes %d%s%s" % (n, " ranks" * by_ranks, " together" * together))

    def node(self, number, name, slots=0):
        self.lines.append("node %d %s %d" % (number, name, slots))

    def say(self, text):
        self.lines.append("say " + text)

    def warn(self, text):
        self.lines.append("warn " + text)

    def end(self, seconds):
        self.lines.append("end %d" % seconds)

    def wait(self, seconds=None):
        self.waits.append(seconds)
        return self.over.is_set()

    def answer_of(self, who, queue=None):
        self.asked = who
        return contextlib.nullcontext()

    def log_tail(self, lines=12):
        return []

    def sent(self):
        return b"\0"

    def secret_of(self, number):
        return "2a:%d" % number


@pytest.fixture
def environment(monkeypatch):
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON", "CELLSPAN_REMOTE_PYTHON"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
