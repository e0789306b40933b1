#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Functions on a Spark cluster: cellspan's TorchDistributor(local_mode=False) beside pyspark's own, in one run. Rows of RESULTS.md.

    bench/on_spark.py --master spark://HOST:PORT [--prefix DIR] [--repeat 5]

The Python that runs it must have pyspark of the cluster's version (with Java, pandas and pyarrow), torch and the kernel's packages. The executors must see
this machine's temporary folder. Each system has an application of its own, with one executor for each of two ranks. First line: from the call until the last
rank's function has begun. The first call of each is cold; the figures of the later ones are medians. The values that both train are compared.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import statistics
import subprocess
import sys
import tempfile

import common
import names

RANKS = 2
LINES = """
import logging, os, sys
logging.disable()
from pyspark.sql import SparkSession
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = (SparkSession.builder.master(%r).config("spark.cores.max", 2).config("spark.executor.cores", 1).config("spark.ui.enabled", "false")
         .config("spark.executor.memory", "512m").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
assert spark.sparkContext.parallelize(range(8), 2).map(lambda x: x).count() == 8  # executors and their Python are there
"""
TRAIN = names.BEGUN + """
def trained(steps):
    import torch, torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4).double())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(dist.get_rank() + 1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(32, 16).double()).pow(2).mean().backward()
        optimizer.step()
    dist.destroy_process_group()
    return [tensor.tolist() for tensor in model.module.state_dict().values()]
"""
PEER = TRAIN + LINES + """
from pyspark.ml.torch.distributor import TorchDistributor
two = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False)
for line in sys.stdin:
    folder = line.strip()
    began = time.time()
    two.run(begun, folder)
    open(os.path.join(folder, "trained"), "w").write(repr(two.run(trained, 20)))
    print("since", began, flush=True)
"""


def of_pyspark(peer, folder):
    """(seconds to the first line, what was trained)."""
    seconds = names.first_line(lambda there: called(peer, there, folder), RANKS)
    return seconds, ast.literal_eval(open(folder + "/trained").read())


def called(peer, there, folder):
    began = peer.run(there)
    with open(there + "/trained") as file, open(folder + "/trained", "w") as kept:
        kept.write(file.read())
    return began


def of_cellspan(kernel, reuse):
    made = "TorchDistributor(num_processes=2, local_mode=False, use_gpu=False, reuse=%r)" % reuse
    seconds = names.first_line(lambda there: ast.literal_eval(said(kernel, "began = time.time()\n%s.run(begun, %r)\nprint(began)" % (made, there))), RANKS)
    return seconds, ast.literal_eval(said(kernel, "print(%s.run(trained, 20))" % made))


def said(kernel, code):
    return kernel.must(code, 600).streams()[-1].text.strip().splitlines()[-1]


def measure(master, repeat):
    """{system: [seconds, cold first]}, after the check that all have trained the same."""
    times, values = {}, []
    with tempfile.TemporaryDirectory(prefix="cellspan-bench-") as folder, common.Kernel("cellspan") as kernel:
        kernel.must("import time\nfrom cellspan.torch import TorchDistributor\n" + TRAIN + LINES % master, 600)
        peer = names.Peer(PEER % master, folder, "spark")
        calls = {"pyspark": lambda: of_pyspark(peer, folder), "fresh": lambda: of_cellspan(kernel, False), "reused": lambda: of_cellspan(kernel, True)}
        try:
            for _ in range(repeat + 1):
                for name, call in calls.items():
                    seconds, value = call()
                    times.setdefault(name, []).append(seconds)
                    values.append(value)
        finally:
            peer.close()
    if any(value != values[0] for value in values):
        raise RuntimeError("the systems have trained different values: %s" % values)
    return times, hashlib.sha256(repr(values[0]).encode()).hexdigest()[:12]


def table(times):
    warm = {name: statistics.median(found[1:]) for name, found in times.items()}
    rows = [
        ("first line, cold, s", times["pyspark"][0], times["fresh"][0]),
        ("first line, warm, s", warm["pyspark"], warm["fresh"]),
        ("first line, warm, `reuse=True`, s", warm["pyspark"], warm["reused"]),
    ]
    lines = ["| figure | pyspark's TorchDistributor | here | ratio |", "| --- | --- | --- | --- |"]
    return "\n".join(lines + ["| %s | %.3g | %.3g | %.2gx |" % (title, theirs, ours, ours / theirs) for title, theirs, ours in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--master", required=True, help="of a standalone cluster with four free cores on two workers")
    parser.add_argument("--prefix", help="where `cellspan install --prefix` wrote the kernelspec")
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    common.use_prefix(args.prefix)
    if subprocess.run([sys.executable, "-c", "import pyspark, pandas, pyarrow, torch"], stderr=subprocess.DEVNULL).returncode:
        sys.exit("%s lacks one of pyspark, pandas, pyarrow and torch" % sys.executable)
    times, digest = measure(args.master, args.repeat)
    print(table(times))
    print("\nall trained the same values (%s)" % digest)


if __name__ == "__main__":
    main()
