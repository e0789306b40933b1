# SPDX-License-Identifier: BSD-3-Clause
"""RESULTS.md from what bench/run measured: each figure beside its peer's, the ratio of medians, and whether it is met."""

from __future__ import annotations

import contextlib
import json
import platform
import sys
from importlib import metadata

from common import middle

PACKAGES = ("ipykernel", "xeus-python", "ipyparallel", "ipython", "jupyter_client", "nbclient", "pyzmq", "numpy", "torch")


class Row:
    """One figure. `ours` and `peer` are (section, system, metric); a ratio's goal is a multiple of the peer's value."""

    def __init__(self, what, unit, ours, peer=None, ratio=None, most=None, least=None, equals=None, scale=1):
        self.what, self.unit, self.ours, self.peer, self.scale = what, unit, ours, peer, scale
        self.ratio, self.most, self.least, self.equals = ratio, most, least, equals


def harness(system, metric):
    return ("harness", system, metric)


def kernel_rows():
    def beside(what, metric, peer, ratio, least=False):
        ours, other = harness("cellspan", metric), harness(peer, metric)
        return Row(what, "ms", ours, other, ratio=(ratio, least), scale=1000)

    return [
        beside("spawn to kernel_info", "start_info", "python3", 0.15),
        beside("spawn to the first execute_reply", "start_execute", "python3", 0.7),
        beside("execute `1+1`, p50", "execute_expr", "floor", 1.8),
        beside("the same, xeus-python for comparison", "execute_expr", "xpython", None),
        beside("silent `pass`, p50", "execute_silent", "floor", 1.4),
        beside("200 queued cells to the last reply", "burst_replies", "floor", 2.2),
    ]


def line_rows():
    rows = []
    for section, what in (("client", "one client"), ("nbclient", "nbclient")):
        ours, floor, peer = ((section, system, "rate") for system in ("cellspan", "floor", "python3"))
        rows += [
            Row("200k lines through %s" % what, "MB/s", ours, floor, ratio=(0.7, True)),
            Row("the same, ipykernel for comparison", "MB/s", ours, peer),
            Row("  every byte there", "", (section, "cellspan", "every byte"), equals=True),
            Row("  most stream messages in a second", "", (section, "cellspan", "most in a second"), most=20),
        ]
    rows += [
        Row("  largest message", "MB", ("client", "cellspan", "largest"), most=1.049 + 0.001, scale=1e-6),
        Row("20,000 flushed lines in nbclient: missing", "", ("flushed", "cellspan", "missing"), ("flushed", "python3", "missing"), equals=0),
        Row("  outputs", "", ("flushed", "cellspan", "outputs"), ("flushed", "python3", "outputs"), most=30),
    ]
    return rows


def fault_rows():
    def both(section, metric, peer):
        return (section, "cellspan", metric), (section, peer, metric)

    rows = [
        Row("C code holds the GIL: kernel_info on control", "ms", *both("control", "kernel_info", "python3"), most=5),
        Row("  the slowest of ten", "ms", *both("control", "kernel_info, slowest", "python3")),
        Row("  interrupt on control", "ms", *both("control", "interrupt", "python3"), most=5),
        Row("  the cell's reply", "", *both("control", "reply", "python3"), equals="KeyboardInterrupt"),
        Row("SIGSEGV at home: `error` reply after", "s", ("home dies", "cellspan", "error reply"), harness("python3", "crash_reply"), most=0.5),
        Row("  the next cell has run, after the crash", "s", ("home dies", "cellspan", "next cell ran"), harness("python3", "crash_restarter_ready"), most=1),
        Row("  ranks that kept their state, of 4", "", ("home dies", "cellspan", "ranks that kept their state"), equals=4),
    ]
    for case in ("asleep", "in all_reduce"):
        section = "rank dies " + case
        rows += [
            Row("a rank dies, the others %s: named after" % case, "s", *both(section, "named", "ipyparallel"), most=1),
            Row("  the cell is over after (grace is 10 s)", "s", *both(section, "cell over", "ipyparallel"), most=10),
            Row("  the next cell takes", "s", *both(section, "next cell", "ipyparallel")),
            Row("  ranks that run it", "", *both(section, "ranks that ran it", "ipyparallel"), equals=4),
        ]
    rows.append(Row("processes left 10 s after the kernel's SIGKILL", "", *both("orphans", "left", "ipyparallel"), equals=0))
    return rows


def memory_rows():
    peer = ("resident", "python3", "kernel")
    return [
        Row("PSS of the kernel process, at rest", "MiB", ("resident", "cellspan", "kernel"), peer, most=8),
        Row("PSS of the agent, at rest", "MiB", ("resident", "cellspan", "agent"), most=5),
        Row("the kernel's after a cell of 200 MB", "MiB", ("resident", "cellspan", "kernel after 200 MB"), ("resident", "python3", "kernel after 200 MB"), most=8),
        Row("the agent's after that", "MiB", ("resident", "cellspan", "agent after 200 MB"), most=5),
        Row("the kernel's after 200 MB of 4 ranks", "MiB", ("resident", "cellspan", "kernel after ranks"), most=8),
        Row("the agent's after that", "MiB", ("resident", "cellspan", "agent after ranks"), most=5),
    ]


def rank_rows():
    def beside(what, metric, ratio, unit="s", scale=1):
        return Row(what, unit, harness("cellspan", metric), harness("ipyparallel", metric), ratio=(ratio, False), scale=scale)

    def both(section, metric):
        return (section, "cellspan", metric), (section, "ipyparallel", metric)

    idle = "memory: all processes but the bare kernel, PSS MiB"
    rows = [beside("warm `pass`, n = %d" % n, "pass n=%d" % n, 0.2, "ms", 1000) for n in (1, 4, 16)] + [
        beside("kernel ready to the first torch cell on 4 ranks", "cold: total", 0.3),
        beside("restart of 4 ranks to a torch cell", "restart: seconds", 0.03),
        Row("256 MiB array to 4 ranks", "s", *both("array", "seconds"), ratio=(0.25, False)),
        Row("  memory growth, peak", "MiB", *both("array", "growth, peak"), most=300),
        Row("  once more, one element changed", "s", *both("array", "seconds, changed")),
        Row("pull of 64 MiB from rank 0, the first", "s", *both("pull", "first"), ratio=(1, False)),
        Row("  later ones", "s", *both("pull", "later"), ratio=(1, False)),
        beside("4 idle ranks with torch, everything added", idle, 0.4, "MiB"),
    ]
    for mode in ("fold", "prefix"):
        ours = "cellspan " + mode
        rows += [
            Row("4 ranks print 200,000 lines, %s: wall" % mode, "s", ("volume", ours, "seconds"), ("volume", "ipyparallel", "seconds"), ratio=(1, False)),
            Row("  bytes on the wire for a byte printed", "", ("volume", ours, "wire"), ("volume", "ipyparallel", "wire"), most=1.3),
            Row("  lines lost", "", ("volume", ours, "lost"), ("volume", "ipyparallel", "lost"), equals=0),
            Row("  most messages in a second", "", ("volume", ours, "most in a second"), ("volume", "ipyparallel", "most in a second"), most=20),
        ]
    rows.append(
        Row("8 ranks compute and print 12,000 lines, panel beside fold: wall", "s", ("tabs", "cellspan panel", "seconds"), ("tabs", "cellspan fold", "seconds"), ratio=(1.02, False))
    )
    return rows


def number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "–" if value is None else str(value).replace("True", "yes").replace("False", "no")
    return "%d" % value if value == int(value) or abs(value) >= 1000 else "%.3g" % value


def verdict(row, ours, peer):
    """(the goal in words, met or None)."""
    known = isinstance(ours, (int, float))
    if row.ratio and row.ratio[0]:
        bound, least = row.ratio
        met = (ours >= bound * peer if least else ours <= bound * peer) if known and isinstance(peer, (int, float)) else None
        return "%s %gx" % ("≥" if least else "≤", bound), met
    if row.most is not None:
        return "≤ %g" % row.most, known and ours <= row.most
    if row.equals is not None:
        return number(row.equals), ours == row.equals
    return "", None


def value_of(results, place, scale):
    if place is None:
        return None
    section, system, metric = place
    found = results["values"].get(section, {}).get(system, {})
    value = middle(found.get(metric, found.get("failed", [])))
    return value * scale if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def line_of(results, row):
    ours, peer = (value_of(results, place, row.scale) for place in (row.ours, row.peer))
    if ours is None:
        return None
    goal, met = verdict(row, ours, peer)
    both = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (ours, peer)) and peer
    name = {"python3": "ipykernel", "xpython": "xeus-python"}.get(row.peer[1], row.peer[1]) if row.peer else ""
    cells = [
        row.what + (", " + row.unit if row.unit else ""),
        "%s %s" % (name, number(peer)) if row.peer and peer is not None else "",
        number(ours),
        "%.2gx" % (ours / peer) if both and row.unit else "",
        goal,
        "" if met is None else "yes" if met else "**no**",
    ]
    return "| " + " | ".join(cells) + " |"


def versions():
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def markdown(results):
    rows = kernel_rows() + line_rows() + fault_rows() + memory_rows() + rank_rows()
    used = middle(results["cores in use before"])
    lines = [
        "# Results",
        "",
        "Measured on %s on a machine with %d cores, without a GPU; medians of %d repeat%s, cellspan and its peers taking turns."
        % (results["date"], results["cores"], results["repeat"], "s" if results["repeat"] != 1 else ""),
        "Compare the ratios; absolute times depend on this machine. Before a section, other programs kept %.1f cores busy (median)." % (used or 0),
        "",
        "| figure | peer | cellspan | ratio | to reach | met |",
        "| --- | --- | --- | --- | --- | --- |",
        *filter(None, (line_of(results, row) for row in rows)),
        "",
        ", ".join("%s %s" % pair for pair in results["versions"].items()),
        "",
        "```",
        *results["commands"],
        "```",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print(markdown(json.load(file)), end="")
