#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Agents of two machines, beside what the engine's own client takes to run nothing there; and a warm cell beside one over ssh.

    python bench/engines.py ENGINE…

as root, with the Python of .build/venv. ENGINE: openmpi, mpich, ray, spark, spark-session, as tests/engines knows them, whose clusters
it brings up and takes down. It prints the rows of a table.
"""

from __future__ import annotations

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

REPEATS, CELLS = 3, 300
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


def measure(engine, ssh):
    session = Timed(engine)
    session.nb()
    own = own_way(engine, session.nb())
    pairs = [(timed(own), session.agents()) for _ in range(REPEATS)]
    theirs, ours = (statistics.median(pair[k] for pair in pairs) for k in (0, 1))
    row("%s: two agents are up, s" % engine.name, "%.2f" % theirs, "%.2f" % ours, "%.2fx" % (ours / theirs), "≤ 1.3x + 1 s", ours <= 1.3 * theirs + 1)
    session.running()
    warm = [(timed(ssh.nb().ok, WARM), timed(session.nb().ok, WARM)) for _ in range(CELLS)]
    theirs, ours = (statistics.median(pair[k] for pair in warm) for k in (0, 1))
    row("%s: a warm `pass`, p50, ms" % engine.name, "ssh %.2f" % (1e3 * theirs), "%.2f" % (1e3 * ours), "%.2fx" % (ours / theirs), "≤ 1.05x",
        ours <= 1.05 * theirs)
    session.close()


def main():
    known = conformance.engines()
    print("| figure | its own way | cellspan | ratio | to reach | met |\n| --- | --- | --- | --- | --- | --- |")
    for name in sys.argv[1:]:
        engine, hosts = known[name](), known["ssh"]()
        for one in (engine, hosts):
            assert not one.missing(), one.missing()
        try:
            hosts.up()
            engine.up()
            ssh = conformance.Session(hosts)
            hosts.ranks = engine.ranks
            ssh.running()
            measure(engine, ssh)
            ssh.close()
        finally:
            engine.down()
            hosts.down()


if __name__ == "__main__":
    main()
