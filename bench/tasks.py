#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""1,000 small tasks on four ranks: cellspan.map, and cellspan.px, beside ipyparallel's load-balanced view.

    bench/tasks.py [--repeat N]        prints a table of its own: medians, and the spread of the repeats

A kernel of each system stays for all repeats, and they take turns. Each figure is the time of one cell in the client.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from common import RANKS, Kernel
from lines import setup_ipyparallel

TASKS = 1000
WORK = {  # name: (the function, its items, what the sum of the results is)
    "1,000 tasks that add one": ("lambda x: x + 1", "range(%d)" % TASKS, TASKS * (TASKS + 1) // 2),
    "1,000 tasks of 1 ms": ("lambda x: time.sleep(0.001) or x", "range(%d)" % TASKS, TASKS * (TASKS - 1) // 2),
    "100 tasks of 1 ms, each tenth of 50 ms": (
        "lambda x: time.sleep(0.001 if x % 10 else 0.05) or x", "range(100)", 4950),
}
CALLS = {
    "ipyparallel": "view.map_sync(%s, %s)",
    "ipyparallel, chunksize=16": "view.map_sync(%s, %s, chunksize=16)",
    "cellspan": "cellspan.map(%s, %s)",
}
EACH = "1,000 calls of view.apply_async"  # which is not a map
WORK[EACH] = WORK["1,000 tasks that add one"]
EACH_CALL = "(lambda tasks: [task.get() for task in tasks])([view.apply_async(%s, x) for x in %s])"


def open_kernel(system):
    """A kernel with four ranks that have run a task."""
    kernel = Kernel("cellspan" if system == "cellspan" else "python3")
    try:
        if system == "cellspan":
            kernel.must("import cellspan, time\ncellspan.run(abs, 0, n=%d)" % RANKS)
            kernel.must("import cellspan.px\nview = cellspan.px.Client().load_balanced_view()")
            kernel.must("%%distribute\nimport time")
        else:
            setup_ipyparallel(kernel)
            kernel.must("import time\nrc[:].execute('import time', block=True)\nview = rc.load_balanced_view()")
        return kernel
    except BaseException:
        kernel.close()
        raise


def once(kernel, system, work):
    """Seconds of the cell. RuntimeError: a result is wrong."""
    function, items, total = WORK[work]
    call = EACH_CALL if work == EACH else CALLS[system]
    cell = kernel.must("found = list(%s)" % (call % (function, items)))
    if kernel.must("print(sum(found))").output.strip() != str(total):
        raise RuntimeError("%s: %s: the results are wrong" % (system, work))
    return cell.reply_at


def measure(repeat):
    """{work: {system: [seconds, ...]}}"""
    found = {work: {system: [] for system in CALLS if work != EACH or "chunksize" not in system} for work in WORK}
    kernels = {}
    try:
        for kind in ("ipyparallel", "cellspan"):
            kernels[kind] = open_kernel(kind)
        for turn in range(repeat + 1):
            for work in WORK:
                for system in found[work]:
                    seconds = once(kernels[system.partition(",")[0]], system, work)
                    if turn:  # the first turn warms up
                        found[work][system].append(seconds)
    finally:
        for kernel in kernels.values():
            kernel.close()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7, help="(7)")
    repeat = parser.parse_args().repeat
    if repeat < 1:
        sys.exit("--repeat: 1 or more")
    print("| what | " + " | ".join("%s, ms" % system for system in CALLS) + " | cellspan to the better peer | repeats |")
    print("| --- " * (len(CALLS) + 3) + "|")
    for work, row in measure(repeat).items():
        middles = {system: statistics.median(seconds) for system, seconds in row.items()}
        cells = ["%.1f (%.1f–%.1f)" % (1000 * middles[s], 1000 * min(row[s]), 1000 * max(row[s])) if s in row else "" for s in CALLS]
        best = min(middle for system, middle in middles.items() if system != "cellspan")
        print("| %s | %s | %.3fx | %d |" % (work, " | ".join(cells), middles["cellspan"] / best, repeat))


if __name__ == "__main__":
    main()
