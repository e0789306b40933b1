#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a change costs: two kernels of an older and two of a newer installation in turns; the two older ones beside each other are the noise.

    bench/pairs.py OLD NEW [--pairs 30] [--only WORD]

OLD and NEW are prefixes of `make install`. A pair takes each row once on either side; figures are medians of the pairs, and the ratio is the
median of the pairs' ratios (new to old, each the mean of its two kernels; for the noise, old to old). Rows that take long have fewer
pairs. All run this Python. There are two of each, since kernels of one installation share its pages in memory and in the processor's caches.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time

import common
import roundtrip

WARM = "%%%%distribute -n %d\n%s"
PREPARE = "import numpy\nnumber, words, array, large = 1, ['a', 'b'], numpy.ones(8 << 20), numpy.ones(32 << 20)"
LINES = "for i in range(%d):\n    print('line', i)"


def cells(code, count):
    return lambda kernel: roundtrip.time_cells(kernel, code, count) * 1e3


def start(kernel):
    """A kernel of the same installation, from its start to the reply to its first cell."""
    begin = time.perf_counter()
    with common.Kernel(kernel.manager.kernel_name):
        return (time.perf_counter() - begin) * 1e3


def queued(kernel):
    """200 cells at once, to the last one's reply."""
    begin = time.perf_counter()
    for _ in range(199):
        kernel.client.execute("pass")
    kernel.must("pass")
    return (time.perf_counter() - begin) * 1e3


def changed_array(kernel):
    kernel.must("large[0] += 1")
    return roundtrip.time_cells(kernel, WARM % (4, "large[0]"), 1) * 1e3


def started_ranks(kernel):
    kernel.must("%ranks stop")
    return roundtrip.time_cells(kernel, WARM % (4, "pass"), 1) * 1e3


def failing(kernel):
    """Each of four ranks raises: until the reply, before which the error stands on the page."""
    begin = time.perf_counter()
    for _ in range(10):
        if kernel.run(WARM % (4, "1 / 0")).status != "error":
            raise AssertionError("a cell that must fail has not")
    return (time.perf_counter() - begin) * 1e2


def pulled(kernel):
    kernel.must(WARM % (4, "theirs = array + 1"))
    return roundtrip.time_cells(kernel, "%pull theirs -r 0", 1) * 1e3


def own_memory(program):
    """Without the pages of files: two of the three kernels share those of the same installation."""

    def memory(kernel):
        with open("/proc/%d/smaps_rollup" % kernel.process(program).pid) as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Anonymous:")) / 1024

    return memory


# (row, unit, what gives the figure, of how many pairs one takes it, the most that the change may cost)
ROWS = (
    ("`1+1`", "ms", cells("1+1", 40), 1, 1.03),
    ("`pass`", "ms", cells("pass", 40), 1, 1.03),
    ("warm `pass`, n = 1", "ms", cells(WARM % (1, "pass"), 20), 1, 1.03),
    ("warm `pass`, n = 4", "ms", cells(WARM % (4, "pass"), 20), 1, 1.03),
    ("warm cell that reads two names, n = 4", "ms", cells(WARM % (4, "number, words"), 20), 1, 1.03),
    ("warm cell that reads an array of 64 MiB, n = 4", "ms", cells(WARM % (4, "array[0]"), 3), 1, 1.03),
    ("`1 / 0`, n = 4", "ms", failing, 1, 1.05),
    ("warm `pass`, n = 16", "ms", cells(WARM % (16, "pass"), 5), 1, 1.05),
    ("4 ranks print 20,000 lines", "ms", cells(WARM % (4, LINES % 20_000), 1), 1, 1.05),
    ("4 ranks print 200,000 lines, prefix", "ms", cells("%%distribute -n 4 --merge prefix\n" + LINES % 50_000, 1), 3, 1.05),
    ("home prints 200,000 lines", "ms", cells(LINES % 200_000, 1), 3, 1.05),
    ("200 queued cells", "ms", queued, 2, 1.05),
    ("a kernel's start to its first reply", "ms", start, 2, 1.05),
    ("start of 4 ranks to their first cell", "ms", started_ranks, 2, 1.05),
    ("restart of 4 ranks", "ms", cells("%ranks restart", 1), 2, 1.05),
    ("256 MiB to 4 ranks, one element changed", "ms", changed_array, 3, 1.05),
    ("pull of 64 MiB from rank 0", "ms", pulled, 2, 1.05),
    ("own memory of the kernel after all that", "MiB", own_memory("cellspan-kernel"), 10, 1.05),
    ("own memory of the agent after all that", "MiB", own_memory("cellspan-agent"), 10, 1.05),
)


@contextlib.contextmanager
def kernels(old, new):
    """Four warm kernels: older, newer, older, newer."""
    with tempfile.TemporaryDirectory(prefix="cellspan-bench-") as folder, contextlib.ExitStack() as stack:
        found = []
        for name, prefix in (("old", old), ("new", new), ("old2", old), ("new2", new)):
            program = os.path.join(os.path.abspath(prefix), "bin", "cellspan-kernel")
            roundtrip.add_kernel(folder, name, [program, "--python", sys.executable, "-f", "{connection_file}"])
            found.append(stack.enter_context(common.Kernel(name)))
        for kernel in found:
            kernel.must(PREPARE)
            kernel.must(WARM % (16, "number, words, array[0]"))
            kernel.must(WARM % (4, "pass"))
        yield found


def measure(old, new, pairs, word):
    """{row: [(old, new, old, new), …]}"""
    found = {}
    with kernels(old, new) as four:
        for row, _, take, share, _ in ROWS:
            if word not in row:
                continue
            for kernel in four:
                take(kernel)
            found[row] = []
            for number in range(max(1, pairs // share)):
                order = (0, 1, 2, 3) if number % 2 else (3, 2, 1, 0)
                figures = [0.0] * 4
                for which in order:
                    figures[which] = take(four[which])
                found[row].append(figures)
    return found


def middle(values):
    return statistics.median(list(values))


def table(found):
    """Markdown. A row has failed where the change costs more than its limit and the noise together."""
    rows = ["| row | old | new | new to old | noise | limit | pairs |", "| --- | --- | --- | --- | --- | --- | --- |"]
    failed = 0
    for row, unit, _, _, most in ROWS:
        if row not in found:
            continue
        figures = found[row]
        ratio, noise = middle((f[1] + f[3]) / (f[0] + f[2]) for f in figures), middle(f[2] / f[0] for f in figures)
        met = ratio <= most + abs(noise - 1)
        failed += not met
        rows.append("| %s, %s | %.2f | %.2f | %.3fx | %.3fx | ≤ %.2fx: %s | %d |" % (
            row, unit, middle(f[0] + f[2] for f in figures) / 2, middle(f[1] + f[3] for f in figures) / 2, ratio, noise, most, "yes" if met else "**no**", len(figures)))
    return "\n".join(rows), failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--only", default="", metavar="WORD", help="only rows whose name has it")
    args = parser.parse_args()
    text, failed = table(measure(args.old, args.new, args.pairs, args.only))
    print(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
