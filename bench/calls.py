#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A function on all ranks and their values back: cellspan.run(f, gather=True) beside Monarch's actor.f.call().get().

    bench/calls.py [--monarch PYTHON] [--repeat N] [--calls N] [--ranks 1,4,16]     prints rows of RESULTS.md

PYTHON is that of an environment with torchmonarch. The processes of both systems stay for all repeats, and the systems take turns: in a turn, each
makes so many calls one after the other, and the turn's figure is their median. Then several threads make them, and the figure is the time for all,
divided by their number; once all threads call all ranks, and once each of four threads calls a rank of its own. The way itself: a question
of home's to idle ranks, which takes the same way (home, agent, kernel, agent, ranks, and back), but executes nothing. The last table tells how much processor time each process takes for a call, and for the way itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

from common import Kernel

TIMED = """
def timed(call, calls):
    import statistics, time
    found = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)
def together(call, calls, threads):
    import threading, time
    def work(thread):
        for _ in range(calls // threads):
            call(thread)
    working = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    begin = time.perf_counter()
    for one in working:
        one.start()
    for one in working:
        one.join()
    return (time.perf_counter() - begin) / (calls // threads * threads)
"""
MONARCH = TIMED + """
import sys
from monarch.actor import Actor, endpoint, this_host
class One(Actor):
    @endpoint
    def f(self): return 1
actor = this_host().spawn_procs({"procs": int(sys.argv[1])}).spawn("one", One)
print("median", timed(lambda: actor.f.call().get(), 20), flush=True)
for line in sys.stdin:
    what, calls, threads = line.split()
    call = {"all": lambda *thread: actor.f.call().get(), "own": lambda thread: actor.slice(procs=thread).f.call_one().get()}[what]
    print("median", together(call, int(calls), int(threads)) if int(threads) else timed(call, int(calls)), flush=True)
"""
CELLSPAN = TIMED + """
import cellspan, os
from cellspan._worker import home
def f(): return 1
def run(*thread): return cellspan.run(f, n=%d, gather=True)
def own(thread): return cellspan.run(f, ranks=thread)
def way(): return home.current.ask_ranks("names", {"typed": "no_such_name"}, everybody=True)()
assert run() == [1] * %d and len(way()) == %d
timed(run, 20)
print(os.getpid(), *cellspan.run(os.getpid, gather=True))
"""
THREADS = ("all", 2), ("all", 8), ("own", 4)  # which ranks each thread calls, and how many threads there are
PROCESSES = "home", "agent", "kernel", "a rank"


class Monarch:
    """A program with n actors."""

    def __init__(self, python, n):
        self.process = subprocess.Popen([python, "-c", MONARCH, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._median()

    def calls(self, count):
        """The median of so many calls, in seconds."""
        return self.together("all", count, 0)

    def together(self, what, count, threads):
        """What a call takes while so many threads make them, in seconds. what: "all" or "own" """
        print(what, count, threads, file=self.process.stdin, flush=True)
        return self._median()

    def _median(self):
        for line in self.process.stdout:
            if line.startswith("median "):
                return float(line.split()[1])
        raise RuntimeError("Monarch's program has ended")

    def close(self):
        self.process.kill()
        self.process.wait()


class Cellspan:
    """A notebook with n ranks."""

    def __init__(self, n):
        self.kernel = Kernel("cellspan")
        home, *ranks = map(int, self.kernel.must(CELLSPAN % (n, n, n)).output.split())
        self.pids = {"home": [home], "a rank": ranks}
        for name in ("agent", "kernel"):
            self.pids[name] = [self.kernel.process("cellspan-" + name).pid]

    def calls(self, what, count):
        """The median of so many calls of run or way, in seconds."""
        return self._printed("timed(%s, %d)" % (what, count))

    def together(self, what, count, threads):
        """What a call takes while so many threads make them, in seconds. what: "all" or "own" """
        return self._printed("together(%s, %d, %d)" % ("run" if what == "all" else what, count, threads))

    def _printed(self, expression):
        return float(self.kernel.must("print(%s)" % expression).output.strip())

    def spends(self, what, count):
        """{process: seconds of processor time for one of so many calls}. Those of the cell that makes the calls are in it."""
        before = self._spent()
        self.calls(what, count)
        return {name: (spent - before[name]) / count for name, spent in self._spent().items()}

    def _spent(self):
        return {name: sum(map(spent, pids)) / len(pids) for name, pids in self.pids.items()}

    def close(self):
        self.kernel.close()


def spent(pid):
    """Seconds of processor time that a process has taken, also in threads that have ended."""
    with open("/proc/%d/stat" % pid) as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measure(python, n, repeat, calls):
    """{system: [seconds, ...]}, {row of THREADS: {system: [seconds, ...]}}, and {what: {process: seconds}}"""
    found, spends = {"monarch": [], "cellspan": [], "way": []}, {}
    threads = {row: {"monarch": [], "cellspan": []} for row in THREADS if row[0] == "all" or n >= row[1]}
    monarch, cellspan = Monarch(python, n) if python else None, None
    try:
        cellspan = Cellspan(n)
        for _ in range(repeat):
            if monarch:
                found["monarch"].append(monarch.calls(calls))
            found["cellspan"].append(cellspan.calls("run", calls))
            found["way"].append(cellspan.calls("way", calls))
            for (what, count), row in threads.items():
                if monarch:
                    row["monarch"].append(monarch.together(what, 2 * calls, count))
                row["cellspan"].append(cellspan.together(what, 2 * calls, count))
        spends = {what: cellspan.spends(what, 20 * calls) for what in ("run", "way")}
    finally:
        for system in filter(None, (monarch, cellspan)):
            system.close()
    return found, threads, spends


def shown(seconds):
    return "%.2f (%.2f–%.2f)" % tuple(1000 * x for x in (statistics.median(seconds), min(seconds), max(seconds))) if seconds else ""


def ratio(row):
    return "%.2fx" % statistics.median(c / m for c, m in zip(row["cellspan"], row["monarch"])) if row["monarch"] else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--monarch", metavar="PYTHON", help="(without: cellspan alone)")
    parser.add_argument("--repeat", type=int, default=15, help="(15)")
    parser.add_argument("--calls", type=int, default=50, help="in each turn (50)")
    parser.add_argument("--ranks", default="1,4,16", help="(1,4,16)")
    options = parser.parse_args()
    if options.repeat < 1 or options.calls < 1:
        sys.exit("--repeat, --calls: 1 or more")
    print("| ranks | Monarch, ms | cellspan, ms | cellspan to Monarch | the way itself, ms | turns |\n" + "| --- " * 6 + "|")
    times, threads = [], []
    for n in map(int, options.ranks.split(",")):
        row, together, spends = measure(options.monarch, n, options.repeat, options.calls)
        cells = n, shown(row["monarch"]), shown(row["cellspan"]), ratio(row), shown(row["way"]), options.repeat
        threads += [(n, *row, shown(other["monarch"]), shown(other["cellspan"]), ratio(other)) for row, other in together.items()]
        print("| %s |" % " | ".join(map(str, cells)), flush=True)
        times += [(n, name, *("%.3f" % (1000 * spends[what][process]) for process in PROCESSES)) for what, name in (("run", "a call"), ("way", "the way"))]
    print("\n| ranks | each thread calls | threads | Monarch, ms for each call | cellspan, ms for each call | cellspan to Monarch |\n" + "| --- " * 6 + "|")
    for row in threads:
        print("| %s |" % " | ".join(map(str, row)))
    print("\n| ranks | ms of processor time for | %s |\n%s|" % (" | ".join(PROCESSES), "| --- " * 6))
    for row in times:
        print("| %s |" % " | ".join(map(str, row)))


if __name__ == "__main__":
    main()
