#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on GPUs: how soon a program runs there, and how fast a variable travels between GPUs of home and of ranks. Rows of RESULTS.md.

    bench/gpu.py [--prefix DIR] [--ranks N] [--repeat 3] [--device cuda]

First line: until each rank has a result of an all_reduce on its GPU, in seconds: the same script by torchrun and by `cellspan run`, a function by
TorchDistributor beside idle ranks, a cell on new ranks, a cell on ranks that are there. Variables: a cell that reads a tensor of home, in milliseconds; beside
them ipyparallel's push and pull of the same tensor to one engine, if it is installed. `least` is a copy to host memory and back, by torch. The systems take
turns; a figure is the median of the repeats. The Python that runs it must have torch and the kernel's packages. --ranks: default one for each GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time

import common

FIRST = """
def first(began, device):
    import os, time
    import torch, torch.distributed as dist
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    x = torch.ones(1, device=device)
    dist.all_reduce(x)
    assert x.item() == dist.get_world_size()
    took = time.time() - began
    if dist.get_rank() == 0:
        print("first", took, flush=True)
"""
SCRIPT = FIRST + "\nimport sys\nfirst(float(sys.argv[1]), sys.argv[2])\nimport torch\ntorch.distributed.destroy_process_group()\n"
SIZES = (16, 256, 1024)  # MiB


def tell(row):
    """The figures as they come: a machine with GPUs may be lent for minutes only."""
    print("  ".join("%s %.4g" % item for item in row.items()), file=sys.stderr, flush=True)


def seconds_in(text):
    return float(text.split("first ")[1].split()[0])


def by_command(command, script, device):
    """Seconds until the script's line, from the start of the command."""
    began = time.time()
    done = subprocess.run([*command, script, repr(began), device], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return seconds_in(done.stdout)


def by_cell(kernel, code):
    """Seconds until the line that a cell prints."""
    cell = kernel.must(code % time.time())
    return seconds_in("".join(event.text for event in cell.streams()))


def firsts(args, folder):
    """[{name: seconds}], one for each repeat."""
    script = os.path.join(folder, "first.py")
    with open(script, "w") as file:
        file.write(SCRIPT)
    ranks, device = args.ranks, args.device
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    run = ["cellspan", "run", "-n", str(ranks), *(["--share"] if device == "cuda" else [])]
    rows = []
    with common.Kernel("cellspan") as kernel:
        kernel.must("import time\nfrom cellspan.torch import TorchDistributor\n" + FIRST)
        kernel.must("%%%%distribute -n %d --init\nimport torch\ntorch.ones(1, device=%r).item()" % (ranks, device))
        function = "TorchDistributor(num_processes=%d, use_gpu=%r).run(first, %%r, %r)" % (ranks, device == "cuda", device)
        cell = "%%%%%%%%distribute %s--init\nfirst(%%r, " + repr(device) + ")"
        for _ in range(args.repeat + 1):
            rows.append({
                "torchrun": by_command(torchrun, script, device),
                "`cellspan run`": by_command(run, script, device),
                "TorchDistributor": by_cell(kernel, function),
                "a cell on ranks that are there": by_cell(kernel, cell % ""),
                "a cell on new ranks": by_cell(kernel, cell % ("--fresh -n %d " % ranks)),
            })
            tell(rows[-1])
    return rows[1:]


class Engine:
    """One engine of ipyparallel on this machine."""

    def __init__(self):
        import ipyparallel

        self.cluster = ipyparallel.Cluster(n=1, log_level=50)
        self.view = self.cluster.start_and_connect_sync()[:]
        self.view.execute("import torch", block=True)

    def times(self, tensor, device):
        """{what: milliseconds}: a push onto the engine's device, and a pull."""
        begin = time.perf_counter()
        self.view.push({"x": tensor}, block=True)
        self.view.execute("x = x.to(%r)\nx[-1].item()" % device, block=True)
        pushed = time.perf_counter()
        self.view.pull("x", block=True)
        return {"changed": (pushed - begin) * 1e3, "back": (time.perf_counter() - pushed) * 1e3}

    def close(self):
        self.cluster.stop_cluster_sync()


def least(torch, tensor):
    begin = time.perf_counter()
    tensor.cpu().to(tensor.device)[-1].item()
    return (time.perf_counter() - begin) * 1e3


def timed(kernel, code):
    cell = kernel.must(code)
    return max(cell.reply_at, cell.idle_at) * 1e3


def variables(args):
    """{MiB: [{what: milliseconds}]}, a row for each repeat."""
    import torch

    engine = Engine() if importlib.util.find_spec("ipyparallel") else None
    rows = {}
    with common.Kernel("cellspan") as kernel:
        kernel.must("import torch")
        kernel.must("%%%%distribute -n 1\nimport torch\ntorch.ones(1, device=%r).item()" % args.device)
        for size in SIZES:
            tensor = torch.ones(size << 18, device=args.device)
            kernel.must("x = torch.ones(%d << 18, device=%r)" % (size, args.device))
            kernel.must("%%distribute\nx[-1].item()")
            rows[size] = []
            for _ in range(args.repeat + 1):
                kernel.must("x += 1\nx[-1].item()")
                row = {"changed": timed(kernel, "%%distribute\nx[-1].item()"), "unchanged": timed(kernel, "%%distribute\nx[-1].item()")}
                kernel.must("%%distribute\ny = x + 1\ny[-1].item()")
                row["back"] = timed(kernel, "%pull y -r 0")
                row["least"] = least(torch, tensor)
                if engine:
                    row.update({"ipyparallel, " + what: ms for what, ms in engine.times(tensor, args.device).items()})
                rows[size].append(row)
                tell(dict(row, MiB=size))
            del rows[size][0], tensor
    if engine:
        engine.close()
    return rows


def median(rows, name):
    return statistics.median(row[name] for row in rows)


def tables(begins, sizes, ranks):
    lines = ["| first line on %d rank%s | s | to torchrun |" % (ranks, "" if ranks == 1 else "s"), "| --- | --- | --- |"]
    for name in begins[0]:
        ratio = statistics.median(row[name] / row["torchrun"] for row in begins)
        lines.append("| %s | %.3g | %.2gx |" % (name, median(begins, name), ratio))
    peer = "ipyparallel, changed" in next(iter(sizes.values()))[0]
    lines += ["", "| ms | a changed variable to a rank | " + ("ipyparallel | ratio | " if peer else "") + "least | an unchanged one | back to home |" + (" ipyparallel | ratio |" if peer else ""),
              "| --- | --- | --- | --- | --- |" + (" --- | --- | --- | --- |" if peer else "")]
    for size, rows in sizes.items():
        cells = ["%d MiB" % size, "%.0f" % median(rows, "changed")]
        if peer:
            cells += ["%.0f" % median(rows, "ipyparallel, changed"), "%.2fx" % statistics.median(r["changed"] / r["ipyparallel, changed"] for r in rows)]
        cells += ["%.0f" % median(rows, "least"), "%.1f" % median(rows, "unchanged"), "%.0f" % median(rows, "back")]
        if peer:
            cells += ["%.0f" % median(rows, "ipyparallel, back"), "%.2fx" % statistics.median(r["back"] / r["ipyparallel, back"] for r in rows)]
        lines.append("| %s |" % " | ".join(cells))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", help="where `cellspan install --prefix` wrote the kernelspec")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    common.use_prefix(args.prefix)
    if args.ranks is None:
        import torch

        args.ranks = max(1, torch.cuda.device_count())
    with tempfile.TemporaryDirectory(prefix="cellspan-bench-") as folder:
        begins = firsts(args, folder)
    print(tables(begins, variables(args), args.ranks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
