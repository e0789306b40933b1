#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A kernel with 1, 10, 100 and 1,000 simulated agents of 8 ranks (tests/sim): a row of a table each, as RESULTS.md has it.

    bench/remote/scale.py BUILD [--agents 1,10,100,1000] [--cells 40] [--repeat 3] [--outage SECONDS]

BUILD is a build folder in which `make check` has run, so that it holds cellspan-kernel and tests/sim/cellspan-sim. Each size is run
`repeat` times, the sizes taking turns; a figure is the median of the runs. Times of cells are the client's, from sending the
request until reply and `idle` were read; "all resume" is a cell right after all connections have ended, also those between
agents: it needs every agent back. --outage (root): in a network namespace of its own, nothing passes for so long; "back" is a
cell right after that. It should be longer than half of CELLSPAN_HEARTBEAT_TIMEOUT, after which agents dial anew. p50 and p95 are over the cells of one run. Processor time and memory are the kernel's
alone, its threads included. Agents, client and kernel share the machine's cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

# key in what cellspan-sim prints, heading, format
COLUMNS = (
    ("agents", "agents", "%d"),
    ("ranks", "ranks", "%d"),
    ("launch_s", "launch, s", "%.2f"),
    ("p50_ms", "`pass` p50, ms", "%.1f"),
    ("p95_ms", "p95, ms", "%.1f"),
    ("cpu_ms", "kernel's processor, ms", "%.2f"),
    ("fold100_us_a_line", "fold, µs a line", "%.2f"),
    ("fold10_us_a_line", "in tens, µs a line", "%.2f"),
    ("fold100_s", "fold, s", "%.2f"),
    ("resume_s", "all resume, s", "%.2f"),
    ("outage_s", "all back after an outage, s", "%.2f"),
    ("rss_mib", "kernel, MiB", "%.0f"),
    ("peak_mib", "peak, MiB", "%.0f"),
)
LIMIT_S = 600


def measure(build, agents, cells, outage):
    """What one run of cellspan-sim says. Raises CalledProcessError when it failed."""
    command = [str(build / "tests/sim/cellspan-sim"), "--figures", "--agents", str(agents), "--repeat", str(cells)]
    command += ["--kernel", str(build / "cellspan-kernel")]
    if outage:
        command = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"] + command + ["--outage", str(outage)]
    waits = dict(os.environ, CELLSPAN_RESUME="120")  # on a busy machine they come back later than after 10 s
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=LIMIT_S, env=waits)
    return json.loads(done.stdout)


def row(cells):
    return "| %s |" % " | ".join(cells)


def table(runs):
    """Markdown: a line for each size, of medians."""
    columns = [column for column in COLUMNS if all(column[0] in r for results in runs.values() for r in results)]
    lines = [row([heading for _, heading, _ in columns]), row(["---"] * len(columns))]
    for _, results in sorted(runs.items()):
        lines.append(row([form % statistics.median(r[key] for r in results) for key, _, form in columns]))
    return "\n".join(lines)


def main():
    """Exit status 1: a run failed; what it said is on stderr."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--agents", default="1,10,100,1000")
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--outage", type=int, default=0)
    args = parser.parse_args()
    runs = {}
    try:
        for _ in range(args.repeat):
            for agents in map(int, args.agents.split(",")):
                runs.setdefault(agents, []).append(measure(args.build.resolve(), agents, args.cells, args.outage))
    except (subprocess.SubprocessError, OSError) as error:
        print("scale.py: %s" % error, file=sys.stderr)
        return 1
    print(table(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
