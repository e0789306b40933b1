#!/usr/bin/env python3
"""What a change costs: an older and a newer installation in turns, and the older one against itself, which is the noise.

    bench/pairs.py OLD NEW [--pairs 30]

OLD and NEW are prefixes of `make install`. A pair times each row once on either side; figures are medians of the pairs, and the ratio is the
median of the pairs' ratios (new to old; for the noise, old to a second kernel of the same installation). Both run this Python.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile

import common
import roundtrip

WARM = "%%%%distribute -n %d\n%s"
# (row, what runs, how many cells of it make one figure, the most that the change may cost)
ROWS = (
    ("`1+1`", "1+1", 40, 1.03),
    ("`pass`", "pass", 40, 1.03),
    ("warm `pass`, n = 1", WARM % (1, "pass"), 20, 1.03),
    ("warm `pass`, n = 4", WARM % (4, "pass"), 20, 1.03),
    ("warm cell that reads two names, n = 4", WARM % (4, "number, words"), 20, 1.03),
    ("warm cell that reads an array of 64 MiB, n = 4", WARM % (4, "array[0]"), 3, 1.03),
    ("warm `pass`, n = 16", WARM % (16, "pass"), 5, 1.05),
    ("4 ranks print 20,000 lines", WARM % (4, "for i in range(20000):\n    print('line', i)"), 1, 1.05),
)
PREPARE = "import numpy\nnumber, words, array = 1, ['a', 'b'], numpy.ones(8 << 20)"


@contextlib.contextmanager
def kernels(old, new):
    """Three warm kernels: the older one, the newer one, the older one again."""
    with tempfile.TemporaryDirectory(prefix="cellspan-bench-") as folder, contextlib.ExitStack() as stack:
        found = []
        for name, prefix in (("old", old), ("new", new), ("again", old)):
            program = os.path.join(os.path.abspath(prefix), "bin", "cellspan-kernel")
            roundtrip.add_kernel(folder, name, [program, "--python", sys.executable, "-f", "{connection_file}"])
            found.append(stack.enter_context(common.Kernel(name)))
        for kernel in found:
            kernel.must(PREPARE)
            kernel.must(WARM % (16, "number, words, array[0]"))
            kernel.must(WARM % (4, "pass"))
        yield found


def measure(old, new, pairs):
    """{row: [(old, new, again), …] in seconds}"""
    found = {}
    with kernels(old, new) as three:
        for row, code, cells, _ in ROWS:
            for kernel in three:
                roundtrip.time_cells(kernel, code, cells)
            found[row] = []
            for number in range(pairs):
                order = (0, 1, 2) if number % 2 else (2, 1, 0)
                times = [0.0, 0.0, 0.0]
                for which in order:
                    times[which] = roundtrip.time_cells(three[which], code, cells)
                found[row].append(times)
    return found


def middle(values):
    return statistics.median(list(values))


def table(found):
    """Markdown. A row has failed where the change costs more than its limit and the noise together."""
    rows = ["| row | old, ms | new, ms | new to old | noise | limit |", "| --- | --- | --- | --- | --- | --- |"]
    failed = 0
    for row, _, _, most in ROWS:
        times = found[row]
        ratio, noise = middle(new / old for old, new, _ in times), middle(again / old for old, _, again in times)
        met = ratio <= most + abs(noise - 1)
        failed += not met
        rows.append("| %s | %.2f | %.2f | %.3fx | %.3fx | ≤ %.2fx: %s |" % (
            row, middle(t[0] for t in times) * 1e3, middle(t[1] for t in times) * 1e3, ratio, noise, most, "yes" if met else "**no**"))
    return "\n".join(rows), failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--pairs", type=int, default=30)
    args = parser.parse_args()
    text, failed = table(measure(args.old, args.new, args.pairs))
    print(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
