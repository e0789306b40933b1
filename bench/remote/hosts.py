#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures cells on other hosts beside the same cells on this machine, and how soon a host without power is missed.

    python bench/remote/hosts.py [--repeat N] [--samples S] [--prefix DIR] [--json FILE]

Brings up two hosts (tests/engines/hosts.sh: root, network namespaces). In each repeat, one kernel after the other:

    here    a warm `pass` on four ranks of this machine
    there   the same on four ranks of two hosts, over tcp with CURVE
    beat    how long after its power went (all of it killed, cable out) the cell names the host, less heartbeat_timeout

The samples of `here` and `there` are taken in turns, so that a busy moment meets both. All hosts share this machine's processors.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "tests", "e2e"), os.path.join(HERE, "..")]  # in this order: both have an engines.py
sys.dont_write_bytecode = True

import common  # noqa: E402
import engines  # noqa: E402

HEARTBEAT = 10.0  # seconds, the default
ROUND = 20  # samples of one side before the other's


def reply_at(kernel):
    return kernel.must("%%distribute\npass").reply_at


def warm(hosts, samples):
    """(here, there): medians in seconds."""
    taken = {"here": [], "there": []}
    with common.Kernel("cellspan") as here, common.Kernel("cellspan") as there:
        here.must("%%distribute -n 4\npass")
        there.must("%%distribute -n 4 --on ssh:" + ",".join(hosts.names) + "\npass")
        for kernel in (here, there):
            for _ in range(ROUND):
                reply_at(kernel)
        while len(taken["here"]) < samples:
            for name, kernel in (("here", here), ("there", there)):
                taken[name] += [reply_at(kernel) for _ in range(ROUND)]
    return tuple(statistics.median(taken[name]) for name in ("here", "there"))


def powered_off(hosts):
    """Seconds from the power-off until the cell names the host, less heartbeat_timeout."""
    lost = hosts.names[-1]
    with common.Kernel("cellspan") as kernel:
        kernel.must("%%distribute -n 4 --on ssh:" + ",".join(hosts.names) + "\npass")
        cell = kernel.start("%%distribute\nimport time\ntime.sleep(120)")
        cell.wait(2)
        hosts.kill(lost)
        begin = time.perf_counter()
        cell.wait(60, until=lambda c: any(event.kind == "error" and lost in event.text for event in c.events))
        named = time.perf_counter() - begin
    hosts.start(lost)
    return named - HEARTBEAT


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--prefix", help="where `cellspan install --prefix DIR` wrote the kernel to")
    parser.add_argument("--json", help="a file for all values, in seconds")
    args = parser.parse_args()
    why = engines.missing(engines.HOST_TOOLS)
    if why:
        sys.exit(why)
    common.use_prefix(args.prefix)
    values = {"here": [], "there": [], "beat": []}
    with engines.Hosts(2) as hosts:
        os.environ.update(hosts.variables(), CELLSPAN_RESUME="0")  # a host is lost when it would be shown as away
        for _ in range(args.repeat):
            for name, seconds in zip(("here", "there"), warm(hosts, args.samples)):
                values[name].append(seconds)
            values["beat"].append(powered_off(hosts))
            print({name: round(seconds[-1] * 1e3, 2) for name, seconds in values.items()}, "ms", flush=True)
    middle = {name: statistics.median(seconds) for name, seconds in values.items()}
    print("warm pass, n = 4: %.2f ms here, %.2f ms on two hosts with CURVE: %.2fx" % (
        middle["here"] * 1e3, middle["there"] * 1e3, middle["there"] / middle["here"]))
    print("host powered off: named heartbeat_timeout %+.2f s" % middle["beat"])
    if args.json:
        with open(args.json, "w") as file:
            json.dump(values, file, indent=1)


if __name__ == "__main__":
    main()
