#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Agents of two machines, beside what the engine's own client takes to run nothing there; and a warm cell beside one over ssh: its time,
and the processors' time of all of cellspan's processes for it, which depends less on what else runs.

    python bench/engines.py [--warm] ENGINE…

as root, with the Python of .build/venv. ENGINE: openmpi, mpich, ray, spark, spark-session, as tests/engines knows them, whose clusters
it brings up and takes down. It prints the rows of a table. --warm: the warm cell only.
"""

from __future__ import annotations

import glob
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "engines")]
sys.dont_write_bytecode = True

import conformance  # noqa: E402
import processes  # noqa: E402

REPEATS, ROUNDS, CELLS = 3, 20, 30
WARM = "%%distribute\npass"
BARRIER = "parallelize(range(2), 2).barrier().mapPartitions(lambda none: none).count()"
SPARK = ("from pyspark.sql import SparkSession\nspark = SparkSession.builder.master('%s').config('spark.cores.max', 2).getOrCreate()\n"
         "spark.sparkContext." + BARRIER)
RAY = """
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
ray.init(address=%r, log_to_driver=False)
group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
ray.get(group.ready())
@ray.remote(num_cpus=1)
class Empty:
    def none(self):
        pass
actors = [Empty.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, k)).remote() for k in range(2)]
ray.get([actor.none.remote() for actor in actors])
"""


def timed(function, *args, **options):
    begin = time.perf_counter()
    function(*args, **options)
    return time.perf_counter() - begin


def own_way(engine, nb):
    """What the engine's client does to run nothing on two machines: a function."""
    env = {**os.environ, **engine.variables()}
    if engine.name == "spark-session":
        return lambda: nb.ok("spark.sparkContext." + BARRIER, limit=conformance.LIMIT)
    if engine.name in ("openmpi", "mpich"):
        spread = ["--map-by", "ppr:1:node"] if engine.name == "openmpi" else ["-ppn", "1", "-n", "2"]
        command = [engine.program, *shlex.split(engine.on.partition(":")[2]), *spread, "true"]
    else:
        command = [sys.executable, "-c", RAY % engine.address if engine.name == "ray" else SPARK % engine.master]
    return lambda: subprocess.run(command, env=env, check=True, stdin=subprocess.DEVNULL, capture_output=True)


def ours(session):
    """The kernel, its agents, and what these have started but for Java: home, zygotes, ranks, and what starts agents."""
    found = {session.nb().pid, *session.agent_pids()}
    below = {pid: conformance.parent(pid) for pid in conformance.pids()}
    for _ in range(8):
        found.update(pid for pid, above in below.items() if above in found)
    return [pid for pid in found if processes.read(pid, "comm").strip() != b"java"]


def used(pids):
    """Seconds of processors that these processes' threads have had."""
    files = [path for pid in pids for path in glob.glob("/proc/%d/task/*/schedstat" % pid)]
    return sum(int(pathlib.Path(path).read_text().split()[0]) for path in files) / 1e9


class Timed(conformance.Session):
    """A session whose kernel logs when agents come."""

    def __init__(self, engine):
        super().__init__(engine)
        file, self.log = tempfile.mkstemp(prefix="cellspan-bench-")
        os.close(file)
        given = engine.variables
        engine.variables = lambda: {**given(), "CELLSPAN_LOG": "info:" + self.log}

    def connected(self):
        return len(re.findall(r"node [1-9]\d* \(.*\) is connected", pathlib.Path(self.log).read_text()))

    def agents(self):
        """Seconds until they are there; they end afterwards."""
        nb, before = self.nb(), self.connected()
        begin = time.perf_counter()
        cell = nb.start(self.cell("pass"))
        while self.connected() < before + self.engine.agents and time.perf_counter() < begin + conformance.LIMIT:
            time.sleep(0.005)
        took = time.perf_counter() - begin
        nb.wait(cell, conformance.LIMIT)
        assert cell.status == "ok", cell.shown
        nb.ok("%ranks stop")
        assert self.left() == []
        return took

    def close(self):
        super().close()
        os.unlink(self.log)


def row(name, peer, value, ratio, limit, met):
    print("| %s | %s | %s | %s | %s | %s |" % (name, peer, value, ratio, limit, "yes" if met else "**no**"), flush=True)


def measure_agents(engine, session):
    own = own_way(engine, session.nb())
    pairs = [(timed(own), session.agents()) for _ in range(REPEATS)]
    theirs, ours_ = (statistics.median(pair[k] for pair in pairs) for k in (0, 1))
    row("%s: two agents are up, s" % engine.name, "%.2f" % theirs, "%.2f" % ours_, "%.2fx" % (ours_ / theirs), "≤ 1.3x + 1 s", ours_ <= 1.3 * theirs + 1)


def measure_warm(engine, both):
    """Rounds of cells in turns, either first, so that what else runs meets both alike. both: sessions over ssh and over the engine."""
    for session in both:
        session.running()
    pids, times, processors = [ours(session) for session in both], ([], []), ([], [])
    for number in range(ROUNDS):
        for k in (0, 1) if number % 2 else (1, 0):
            before = used(pids[k])
            times[k].extend(timed(both[k].nb().ok, WARM) for _ in range(CELLS))
            processors[k].append((used(pids[k]) - before) / CELLS)
    for what, seen in (("p50", times), ("of processors, p50", processors)):
        theirs, ours_ = map(statistics.median, seen)
        row("%s: a warm `pass`, %s, ms" % (engine.name, what), "ssh %.2f" % (1e3 * theirs), "%.2f" % (1e3 * ours_), "%.2fx" % (ours_ / theirs), "≤ 1.05x",
            ours_ <= 1.05 * theirs)


def main():
    known, words = conformance.engines(), sys.argv[1:]
    warm_only = words[:1] == ["--warm"]
    print("| figure | its own way | cellspan | ratio | to reach | met |\n| --- | --- | --- | --- | --- | --- |")
    for name in words[warm_only:]:
        engine, hosts = known[name](), known["ssh"]()
        for one in (engine, hosts):
            assert not one.missing(), one.missing()
        try:
            hosts.up()
            engine.up()
            ssh, session = Timed(hosts), Timed(engine)
            hosts.ranks = engine.ranks
            if not warm_only:
                measure_agents(engine, session)
            measure_warm(engine, (ssh, session))
            session.close()
            ssh.close()
        finally:
            engine.down()
            hosts.down()


if __name__ == "__main__":
    main()
