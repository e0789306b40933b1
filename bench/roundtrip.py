#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`1+1` beside the least that a kernel can do: floor.c, which executes nothing, and IPython's run_cell alone. Rows of RESULTS.md.

    bench/roundtrip.py [--prefix DIR] [--rounds 30] [--cells 50]

Each round times `cells` cells on each kernel, the kernels taking turns, and as many calls of run_cell in a process of its own; a figure
is the median of the rounds' medians. The limit: cellspan takes at most 1.1 times the floor, plus what run_cell takes. floor.c is
compiled with cc; cc, pkg-config and the headers that cellspan is built with must be there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

import common

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = ("floor-c", "floor-1", "floor-2", "floor", "python3", "cellspan")
NAMES = {
    "floor-c": "floor in C",
    "floor-1": "floor in C that asks a second process",
    "floor-2": "floor in C that asks a third process through a second one, as cellspan asks home through the agent",
    "floor": "floor in Python",
    "python3": "ipykernel",
    "cellspan": "cellspan",
}
MOST = 1.1  # times the floor, without run_cell
RUN_CELL = """
import statistics, sys, time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
shell.history_manager.enabled = False
shell.displayhook.write_output_prompt = shell.displayhook.write_format_data = shell.displayhook.finish_displayhook = lambda *_: None
for _ in sys.stdin:
    times = []
    for _ in range(%d):
        begin = time.perf_counter()
        shell.run_cell("1+1", store_history=True)
        times.append(time.perf_counter() - begin)
    print(statistics.median(times), file=sys.__stdout__, flush=True)
"""


def add_kernel(folder, name, argv):
    """A kernelspec below the folder, which Jupyter looks into first from now on."""
    spec = os.path.join(folder, "share", "jupyter", "kernels", name)
    os.makedirs(spec)
    with open(os.path.join(spec, "kernel.json"), "w") as file:
        json.dump({"argv": argv, "display_name": name, "language": "python"}, file)
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [os.path.join(folder, "share", "jupyter"), os.environ.get("JUPYTER_PATH")]))


def add_floors(folder):
    """Compiles floor.c; CalledProcessError where that fails."""
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libzmq", "libsodium", "jansson"], check=True, stdout=subprocess.PIPE, text=True)
    program = os.path.join(folder, "floor")
    subprocess.run(["cc", "-O2", "-pthread", os.path.join(HERE, "floor.c"), "-o", program, *flags.stdout.split()], check=True)
    add_kernel(folder, "floor-c", [program, "{connection_file}"])
    for processes in "1", "2":
        add_kernel(folder, "floor-" + processes, [program, "{connection_file}", processes])
    add_kernel(folder, "floor", [sys.executable, os.path.join(HERE, "floor.py"), "{connection_file}"])


def time_cells(kernel, code, cells):
    """The median of so many cells, from the request until reply and idle are read, in seconds."""
    times = []
    for _ in range(cells):
        cell = kernel.start(code)
        if not cell.wait(60):
            raise RuntimeError("no answer to %r" % code)
        times.append(max(cell.reply_at, cell.idle_at))
    return statistics.median(times)


class RunCell:
    """IPython's shell in a process of its own, without a kernel."""

    def __init__(self, cells):
        self.process = subprocess.Popen([sys.executable, "-c", RUN_CELL % cells], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def time(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(rounds, cells):
    """{kernel: seconds}, and run_cell's."""
    found = {name: [] for name in (*KERNELS, "run_cell")}
    with contextlib.ExitStack() as stack:
        kernels = {name: stack.enter_context(common.Kernel(name)) for name in KERNELS}
        alone = RunCell(cells)
        stack.callback(alone.close)
        for name in KERNELS:
            time_cells(kernels[name], "1+1", cells)
        for number in range(rounds):
            for name in KERNELS if number % 2 else KERNELS[::-1]:
                found[name].append(time_cells(kernels[name], "1+1", cells))
            found["run_cell"].append(alone.time())
    return {name: statistics.median(values) for name, values in found.items()}


def table(found):
    """Markdown, and whether the limit was met."""
    rows = ["| `1+1`, reply and idle | ms |", "| --- | --- |"]
    rows += ["| %s | %.2f (%.2fx) |" % (NAMES[name], found[name] * 1e3, found[name] / found["floor-c"]) for name in KERNELS]
    rows.append("| IPython's run_cell alone | %.2f |" % (found["run_cell"] * 1e3))
    ratio = (found["cellspan"] - found["run_cell"]) / found["floor-c"]
    met = ratio <= MOST
    rows.append("| cellspan without run_cell, beside the floor in C | %.2fx (≤ %.1fx: %s) |" % (ratio, MOST, "yes" if met else "**no**"))
    return "\n".join(rows), met


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", help="where `cellspan install --prefix` wrote the kernelspec")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--cells", type=int, default=50)
    args = parser.parse_args()
    common.use_prefix(args.prefix)
    with tempfile.TemporaryDirectory(prefix="cellspan-bench-") as folder:
        add_floors(folder)
        text, met = table(measure(args.rounds, args.cells))
    print(text)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
