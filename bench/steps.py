#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Steps in a second of cellspan.horovod's DistributedOptimizer beside torch's DistributedDataParallel. Rows of RESULTS.md.

    bench/steps.py [--prefix DIR] [--ranks 2] [--turns 20] [--steps 20]

Both train the same model on the CPU, without data loading, in the same processes. They take turns, and every other turn goes in the reverse order. A figure is
the median of the turns, and a ratio the median of the turns' ratios. The last column has torch's loop beside another one of its own: the noise.
The models: the eight layers of names.py, and a transformer of four layers.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import sys
import time
import traceback

SYSTEMS = ("DDP", "horovod", "DDP again")
MODELS = {"8 layers of 256 x 256": "layers", "a transformer of 4 layers": "transformer"}


def layers(torch):
    return torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)]), torch.randn(32, 256)


def transformer(torch):
    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.randn(4, 32, 128)


def loop(torch, hvd, system, name):
    """A function that does so many steps and returns how many it did in a second."""
    torch.manual_seed(0)
    model, x = globals()[MODELS[name]](torch)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    if system == "horovod":
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)

    def run(steps):
        torch.distributed.all_reduce(torch.zeros(1))
        begin = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
        torch.distributed.all_reduce(torch.zeros(1))
        return steps / (time.perf_counter() - begin)

    return run


def rank(number, args, port):
    import torch

    import cellspan.horovod.torch as hvd

    places = {"RANK": number, "WORLD_SIZE": args.ranks, "LOCAL_RANK": number, "LOCAL_WORLD_SIZE": args.ranks, "GROUP_RANK": 0}
    os.environ.update({name: str(value) for name, value in places.items()}, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    hvd.init()
    lines = ["| model | DDP | here | ratio | to reach | met | DDP to itself |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for name in MODELS:
        runs = {system: loop(torch, hvd, system, name) for system in SYSTEMS}
        for run in runs.values():
            run(args.steps)  # what only the first steps do
        turns = []
        for turn in range(args.turns):
            order = SYSTEMS if turn % 2 else SYSTEMS[::-1]
            turns.append({system: runs[system](args.steps) for system in order})
        rates = {system: statistics.median(row[system] for row in turns) for system in SYSTEMS}
        ratios = {system: statistics.median(row[system] / row["DDP"] for row in turns) for system in SYSTEMS}
        met = "yes" if ratios["horovod"] >= 0.95 else "**no**"
        lines.append("| %s | %.0f | %.0f | %.3fx | ≥ 0.95x | %s | %.3fx |" % (name, rates["DDP"], rates["horovod"], ratios["horovod"], met, ratios["DDP again"]))
    if number == 0:
        print("\n".join(lines), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", help="where cellspan is installed, if this Python does not find it")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    if args.prefix:
        sys.path.insert(0, os.path.join(args.prefix, "lib", "cellspan", "python"))
    import torch
    import torch._dynamo  # DDP needs it

    torch.set_num_threads(1)  # processes are forked from this one
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for number in range(args.ranks):
        child = os.fork()
        if child == 0:
            try:
                rank(number, args, port)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main())
