#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long `cellspan ps --all` takes on a machine with many notebooks. A row of RESULTS.md.

    bench/listing.py [--prefix DIR] [--notebooks 64] [--turns 20] [--nice N]

Each notebook has a kernel, an agent and a home, which has run a cell, as they stand in a hub's user's tab. As root, all of them belong to root.
--nice -15: the kernels, once they are up, and the command have this priority, so that other work of the machine hardly counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.connect import write_connection_file


def start(prefix, folder, k):
    file = os.path.join(folder, "kernel-%d.json" % k)
    write_connection_file(file)
    process = subprocess.Popen([os.path.join(prefix, "bin", "cellspan-kernel"), "--python", sys.executable, "-f", file], stdin=subprocess.DEVNULL)
    client = BlockingKernelClient(connection_file=file)
    client.load_connection_file()
    client.start_channels(hb=False)
    client.wait_for_ready(timeout=120)
    client.execute_interactive("1 + 1", timeout=120)
    client.stop_channels()
    return process


def listed(prefix, *words):
    begin, before = time.perf_counter(), sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    out = subprocess.run([os.path.join(prefix, "bin", "cellspan"), "ps", *words], stdout=subprocess.PIPE, check=True).stdout
    return time.perf_counter() - begin, sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before, json.loads(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prefix", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".build", "prefix"))
    parser.add_argument("--notebooks", type=int, default=64)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--nice", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kernels = []
        try:
            for k in range(options.notebooks):
                kernels.append(start(options.prefix, folder, k))
            pids = {process.pid for process in kernels}
            for pid in pids | {os.getpid()} if options.nice else ():
                for thread in os.listdir("/proc/%d/task" % pid):
                    os.setpriority(os.PRIO_PROCESS, int(thread), options.nice)
            for words in (["--all", "--json"], ["--all", "--brief"], ["--json"]):
                took, used = [], []
                for _ in range(options.turns):
                    seconds, cpu, told = listed(options.prefix, *words)
                    ours = [one for one in (told if isinstance(told, list) else told["notebooks"]) if one["pid"] in pids]
                    assert len(ours) == len(pids) and all(one.get("status") == "ok" or one.get("state") == "idle" for one in ours), ours
                    took.append(seconds)
                    used.append(cpu)
                print("cellspan ps %s on %d notebooks: median %.3f s, fastest %.3f, slowest %.3f; processor time of its processes %.3f s; load %s" % (
                    " ".join(words), options.notebooks, statistics.median(took), min(took), max(took), statistics.median(used), open("/proc/loadavg").read().split()[0]))
        finally:
            for process in kernels:
                process.terminate()
            for process in kernels:
                process.wait()


if __name__ == "__main__":
    main()
