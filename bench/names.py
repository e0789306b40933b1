#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs of functions on fresh processes: cellspan's TorchDistributor beside pyspark's, torchrun and notebook_launcher. Rows of RESULTS.md.

    bench/names.py [--prefix DIR] [--ranks 4] [--repeat 5] [--steps 300]

The Python that runs it must have pyspark (with Java), accelerate, torch and the kernel's packages. First line: from the call until the last rank's function
has begun, by this machine's clock. Steps: a DDP loop on CPU without data loading, the slowest rank's; cellspan.horovod's optimizer in the same loop.
The systems take turns; a figure is the median of the repeats, and a ratio the median of the repeats' ratios.
"""

from __future__ import annotations

import argparse
import ast
import os
import statistics
import subprocess
import sys
import tempfile
import time

import common

BEGUN = """
import os, time
def begun(folder):
    with open(os.path.join(folder, os.environ["RANK"]), "w") as file:
        file.write(repr(time.time()))
"""
LOOP = """
def loop(steps, horovod=False):
    import os, time, torch, torch.distributed as dist
    torch.set_num_threads(1)
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)])
    if horovod:
        import cellspan.horovod.torch as hvd
        hvd.init()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.01), named_parameters=model.named_parameters())
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x = torch.randn(32, 256)
    for step in range(steps + 20):
        if step == 20:
            dist.barrier()
            begin = time.perf_counter()
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
    dist.barrier()
    return steps / (time.perf_counter() - begin)
"""
SPARK = BEGUN + """
import sys, tempfile, logging
from pyspark.sql import SparkSession
from pyspark.ml.torch.distributor import TorchDistributor
SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate().sparkContext.setLogLevel("OFF")
for line in sys.stdin:
    folder = line.strip()
    began = time.time()
    TorchDistributor(num_processes=%d, local_mode=True, use_gpu=False).run(begun, folder)
    print("since", began, flush=True)
"""
LAUNCHER = BEGUN + """
import sys
from accelerate import notebook_launcher
for line in sys.stdin:
    began = time.time()
    notebook_launcher(begun, (line.strip(),), num_processes=%d, use_port="0")
    print("since", began, flush=True)
"""
SCRIPT = BEGUN + "import sys\nbegun(sys.argv[1])\n"
LOOP_SCRIPT = LOOP + "import os, sys\nrate = loop(int(sys.argv[1]))\nif os.environ['RANK'] == '0': print('rate', rate)\nimport torch.distributed\ntorch.distributed.destroy_process_group()\n"


class Peer:
    """A Python process that runs begun() on its processes for each line that it gets."""

    def __init__(self, code, folder, name):
        path = os.path.join(folder, name + ".py")
        with open(path, "w") as file:
            file.write(code)
        environment = dict(os.environ, JAVA_TOOL_OPTIONS="", PYTHONWARNINGS="ignore")
        self.process = subprocess.Popen([sys.executable, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, env=environment, cwd=folder)

    def run(self, folder):
        """When the call began, in seconds of the clock."""
        self.process.stdin.write(folder + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("since "):
                return float(line.split()[1])
        raise RuntimeError("a peer ended: %s" % self.process.args)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def first_line(call, ranks):
    """Seconds from the call until all ranks have begun. call(folder) returns when it began, and after its end."""
    with tempfile.TemporaryDirectory(prefix="cellspan-bench-") as folder:
        began = call(folder)
        times = [float(open(os.path.join(folder, str(rank))).read()) for rank in range(ranks)]
    return max(times) - began


def torchrun(folder, ranks, *arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *arguments]
    began = time.time()
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return began, done.stdout


def of_cell(kernel, code):
    """The value that the cell's last line prints."""
    return ast.literal_eval(kernel.must(code).streams()[-1].text.strip().splitlines()[-1])


def on_cellspan(kernel, reuse, ranks):
    def call(folder):
        return of_cell(kernel, "began = time.time()\nTorchDistributor(num_processes=%d, use_gpu=False, reuse=%r).run(begun, %r)\nprint(began)"
                       % (ranks, reuse, folder))

    return call


def rates(kernel, folder, ranks, steps):
    """Steps in a second: {name: rate}."""
    run = "print(TorchDistributor(num_processes=%d, use_gpu=False).run(loop, %d, %r))"
    path = os.path.join(folder, "loop.py")
    with open(path, "w") as file:
        file.write(LOOP_SCRIPT)
    text = torchrun(folder, ranks, path, str(steps))[1]
    return {
        "torchrun": float(text.split("rate ")[1].split()[0]),
        "cellspan": of_cell(kernel, run % (ranks, steps, False)),
        "horovod": of_cell(kernel, run % (ranks, steps, True)),
    }


def measure(ranks, repeat, steps):
    """Two lists of {name: value}, one for each repeat: seconds to the first line, and steps in a second."""
    begins, loops = [], []
    with tempfile.TemporaryDirectory(prefix="cellspan-bench-") as folder, common.Kernel("cellspan") as kernel:
        script = os.path.join(folder, "begun.py")
        with open(script, "w") as file:
            file.write(SCRIPT)
        kernel.must("import logging, time, torch\nfrom cellspan.torch import TorchDistributor\nlogging.disable()\n" + BEGUN + LOOP)
        peers = {"pyspark": Peer(SPARK % ranks, folder, "spark"), "notebook_launcher": Peer(LAUNCHER % ranks, folder, "launcher")}
        calls = {name: peer.run for name, peer in peers.items()}
        calls["torchrun"] = lambda to: torchrun(folder, ranks, script, to)[0]
        calls["fresh"] = on_cellspan(kernel, False, ranks)
        calls["reused"] = on_cellspan(kernel, True, ranks)
        for call in calls.values():
            first_line(call, ranks)  # what only the first run does
        for _ in range(repeat):
            begins.append({name: first_line(call, ranks) for name, call in calls.items()})
            loops.append(rates(kernel, folder, 2, steps))
        for peer in peers.values():
            peer.close()
    return begins, loops


def median(rows, name, beside=None):
    return statistics.median(row[name] / (row[beside] if beside else 1) for row in rows)


def table(begins, loops, ranks):
    rows = [
        ("first line on %d ranks, s" % ranks, begins, "pyspark", "fresh", "≤ 0.1x", lambda ratio: ratio <= 0.1),
        ("the same, `reuse=True`, s", begins, "pyspark", "reused", "≤ 0.005x", lambda ratio: ratio <= 0.005),
        ("first line on %d ranks, s" % ranks, begins, "torchrun", "fresh", "", None),
        ("first line on %d ranks, s" % ranks, begins, "notebook_launcher", "fresh", "", None),
        ("DDP on 2 ranks, steps/s", loops, "torchrun", "cellspan", "≥ 0.98x", lambda ratio: ratio >= 0.98),
        ("`hvd.DistributedOptimizer` on 2 ranks, steps/s", loops, "cellspan", "horovod", "≥ 0.95x", lambda ratio: ratio >= 0.95),
    ]
    lines = ["| figure | beside | here | ratio | to reach | met |", "| --- | --- | --- | --- | --- | --- |"]
    for title, values, other, ours, limit, met in rows:
        name = {"cellspan": "DDP", "pyspark": "pyspark's TorchDistributor"}.get(other, other)
        ratio = median(values, ours, other)
        said = "" if met is None else "yes" if met(ratio) else "**no**"
        lines.append("| %s | %s %.3g | %.3g | %.3gx | %s | %s |" % (title, name, median(values, other), median(values, ours), ratio, limit, said))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", help="where `cellspan install --prefix` wrote the kernelspec")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    common.use_prefix(args.prefix)
    print(table(*measure(args.ranks, args.repeat, args.steps), args.ranks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
