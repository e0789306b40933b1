#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What it takes to show the error of many ranks: time, and the processor time of kernel and agent.

    bench/errors.py [--ranks 128] [--repeat 10]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import common  # noqa: E402

os.environ.setdefault("CELLSPAN_PRELOAD", "-torch,-numpy")  # so that many ranks fit into a small machine
PROGRAMS = ("cellspan-kernel", "cellspan-agent")
# The frames of a library, and a message of a few KiB, as a shape error of torch has.
FAILS = """
import json
def inner(k):
    return json.loads("{" * k) if k else inner(3)
def outer(k):
    raise ValueError("no " * 1000) from None if k else inner(k)
outer(1)
"""


def used(kernel):
    return {name: sum(kernel.process(name).cpu_times()[:2]) for name in PROGRAMS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=10)
    args = parser.parse_args()
    taken = {name: [] for name in ("seconds", *PROGRAMS)}
    with common.Kernel("cellspan") as kernel:
        kernel.must("%%%%distribute -n %d\npass" % args.ranks, 600)
        for _ in range(args.repeat + 1):
            before, begin = used(kernel), time.perf_counter()
            if kernel.run("%%distribute" + FAILS, 120).status != "error":
                sys.exit("a cell that must fail has not")
            taken["seconds"].append(time.perf_counter() - begin)
            for name, seconds in used(kernel).items():
                taken[name].append(seconds - before[name])
    middle = {name: statistics.median(values[1:]) for name, values in taken.items()}
    print("%d ranks raise: %.2f s; the kernel's processor %.2f s, the agent's %.2f s" % (
        args.ranks, middle["seconds"], *(middle[name] for name in PROGRAMS)))


if __name__ == "__main__":
    main()
