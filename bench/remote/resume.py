#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures how soon a host is back when its network is.

    python bench/remote/resume.py [--repeat N] [--cuts 0,1,5,15,60] [--drop] [--prefix DIR] [--json FILE]

Brings up two hosts (tests/engines/hosts.sh: root, network namespaces), with a rank on each. In each repeat, the second one's cable is out
for each of these times; 0: its connection to the kernel is reset. --drop: its cable stays, and its packets to the notebook's machine
and back are dropped, as where something on the way is out. A host whose cable is back asks for the other's address first, once a second,
before it can send anything. A cell that needs both ranks waits meanwhile. From when the network is
back:

    resumed   until its agent has resumed, as it says in the log; none where the connection outlived the cut
    cell      until the reply of that cell, without what it takes when nothing is cut
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "tests", "e2e"), os.path.join(HERE, "..")]  # in this order: both have an engines.py
sys.dont_write_bytecode = True

import common  # noqa: E402
import engines  # noqa: E402

CELL = "%%distribute\npass"
LIMIT = 300


def resumed_at(log, since):
    """When an agent resumed, as seconds since 1970; None: it has not since then."""
    with open(log) as file:
        lines = re.findall(r"^(\S+).*uplink: resumed after", file.read(), re.M)
    times = [datetime.datetime.fromisoformat(line.replace("Z", "+00:00")).timestamp() for line in lines]
    return next((at for at in times if at >= since), None)


def cut(hosts, kernel, seconds, log, drop):
    """(resumed, cell), in seconds."""
    alone = statistics.median(kernel.must(CELL).reply_at for _ in range(5))
    if seconds:
        hosts.cut("h0", "h2") if drop else hosts.link("h2", False)
        cell = kernel.start(CELL)
        cell.wait(seconds)
        hosts.heal("h0", "h2") if drop else hosts.link("h2", True)
    else:
        there = "dst %s and not dport = :22" % hosts.address("h2")
        subprocess.run(["ss", "-K", "-tn", there], stdout=subprocess.DEVNULL, check=True)
        cell = kernel.start(CELL)
    back, since = time.perf_counter(), time.time()
    if not cell.wait(LIMIT) or cell.status != "ok":
        raise RuntimeError("%s: %s" % (cell.status, cell.output[-2000:]))
    replied = cell.begin + cell.reply_at - back - alone
    at = resumed_at(log, since - (0 if seconds else 0.5))
    return None if at is None else max(at - since, 0), max(replied, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cuts", default="0,1,5,15,60", help="seconds, separated by commas")
    parser.add_argument("--drop", action="store_true")
    parser.add_argument("--prefix", help="where `cellspan install --prefix DIR` wrote the kernel to")
    parser.add_argument("--json", help="a file for all values, in seconds")
    args = parser.parse_args()
    why = engines.missing(engines.HOST_TOOLS)
    if why:
        sys.exit(why)
    common.use_prefix(args.prefix)
    cuts = [float(text) for text in args.cuts.split(",")]
    values = {seconds: [] for seconds in cuts}
    with engines.Hosts(2) as hosts:
        log = os.path.join(hosts.folder, "log")
        os.environ.update(hosts.variables(), CELLSPAN_LOG="info:" + log)
        with common.Kernel("cellspan") as kernel:
            kernel.must("%%distribute -n 2 --on ssh:h1,h2\npass")
            for _ in range(args.repeat):
                for seconds in cuts:
                    values[seconds].append(cut(hosts, kernel, seconds, log, args.drop))
                    print("%3g s" % seconds, *("%8.3f" % one if one is not None else "       -" for one in values[seconds][-1]), flush=True)
    print("\n| cable out, s | resumed, s | cell, s |\n| --- | --- | --- |")
    for seconds in cuts:
        resumed = [one for one, _ in values[seconds] if one is not None]
        print("| %s | %s | %.2f |" % ("%g" % seconds if seconds else "a reset", "%.2f (%d of %d)" % (
            statistics.median(resumed), len(resumed), args.repeat) if resumed else "-", statistics.median(cell for _, cell in values[seconds])))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(values, file, indent=1)


if __name__ == "__main__":
    main()
