#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what goes through a relay, beside what ssh itself copies on the same link.

    python bench/remote/relay.py [--repeat N] [--mib M] [--rate 1gbit] [--congestion NAME] [--prefix DIR] [--json FILE]

Brings up a host (tests/engines/hosts.sh: root, network namespaces) that may not connect to this machine, but answers ssh, and limits
its link to `rate` both ways. A rank there is reached through a relay. In each repeat, in turns:

    ssh there    M MiB into `cat >/dev/null` on the host, from the first byte until it has ended
    there        the same bytes to the rank, from when its agent is told to expect them until it has written the last of them
    the cell     the cell that needs them, without what it takes when the rank has them already
    ssh back     M MiB from `head -c` on the host
    back         %pull of as many from the rank, without that of one number

Then what the processes of the relay have of memory at rest (their own pages), and the launcher's with and without it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "tests", "e2e"), os.path.join(HERE, ".."), HERE]  # in this order: two have an engines.py
sys.dont_write_bytecode = True

import bulk  # noqa: E402
import common  # noqa: E402
import psutil  # noqa: E402

PIECE = bytes(1 << 20)


def ssh(hosts, command, **streams):
    words = ["ssh", "-F", hosts.ssh_config, "h1", command]
    return subprocess.Popen(words, **streams)


def ssh_there(hosts, size):
    there = ssh(hosts, "echo ready; exec cat >/dev/null", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with there:
        there.stdout.readline()
        begin = time.perf_counter()
        for _ in range(size // len(PIECE)):
            there.stdin.write(PIECE)
        there.stdin.close()
        there.wait()
        return time.perf_counter() - begin


def ssh_back(hosts, size):
    there = ssh(hosts, "echo ready; read go; exec head -c %d /dev/zero" % size, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with there:
        there.stdout.readline()
        begin = time.perf_counter()
        there.stdin.write(b"\n")
        there.stdin.flush()
        while there.stdout.read(1 << 20):
            pass
        return time.perf_counter() - begin


def pull(kernel, mib):
    kernel.must("%%%%distribute\nimport numpy as np\nmine = np.random.default_rng().integers(0, 255, %d, dtype=np.uint8)\none = 1" % (mib << 20))
    return kernel.must("%pull mine -r 0", timeout=300).reply_at - kernel.must("%pull one -r 0").reply_at


def own_pages(pid):
    """KiB of a process that no other one has."""
    with open("/proc/%d/smaps_rollup" % pid) as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_"))


def relay_of(kernel):
    """The ssh of the relay, and its other end on the host, which runs on this machine as well; None where there is none."""
    here = [process for process in psutil.Process(kernel.pid).children(recursive=True) if " --relay " in " ".join(process.cmdline())]
    if not here:
        return None, None
    folder = here[0].cmdline()[-1].split()[-1]
    return here[0], next(process for process in psutil.process_iter(["cmdline"]) if (process.info["cmdline"] or [])[1:] == ["--relay", folder])


def memory(kernel):
    """KiB at rest of the relay's processes and of the launcher."""
    launcher = next(process for process in psutil.Process(kernel.pid).children() if process.name().startswith("cellspan-launch"))
    here, there = relay_of(kernel)
    return own_pages(launcher.pid), here and own_pages(here.pid), there and own_pages(there.pid)


def measure(hosts, args, values, log):
    size = args.mib << 20

    def add(name, seconds):
        values.setdefault(name, []).append(seconds)
        print("%-10s %7.3f s %8.1f MB/s" % (name, seconds, size / seconds / 1e6), flush=True)

    os.environ.update(hosts.variables(), CELLSPAN_LOG="info:" + log)
    with common.Kernel("cellspan") as kernel:
        bulk.cell(kernel, 1, "h1", "pass")
        before = memory(kernel)
    hosts.exec("h1", "iptables", "-A", "OUTPUT", "-o", "eth0", "-d", hosts.address("h0"), "-p", "tcp", "--syn", "-j", "DROP")
    with common.Kernel("cellspan") as kernel:
        bulk.cell(kernel, 1, "h1", "pass")
        if not relay_of(kernel)[0]:
            raise RuntimeError("there is no relay")
        bulk.to_ranks(kernel, 1, "h1", 4)
        bulk.limit(hosts, args.rate)
        for _ in range(args.repeat):
            for name, measured in (("ssh there", lambda: ssh_there(hosts, size)), ("the cell", lambda: bulk.to_ranks(kernel, 1, "h1", args.mib)),
                                   ("ssh back", lambda: ssh_back(hosts, size)), ("back", lambda: pull(kernel, args.mib))):
                common.settle(args.settle)
                add(name, measured())
                if name == "the cell":
                    add("there", bulk.on_the_wire(log))
        common.settle(args.settle)
        return before, memory(kernel)


def report(values, args, before, after):
    middle = {name: statistics.median(seconds) for name, seconds in values.items()}
    rate = {name: (args.mib << 20) / 1e6 / seconds for name, seconds in middle.items()}
    print("\n%d MiB over a link of %s, medians of %d:" % (args.mib, args.rate, args.repeat))
    print("there: ssh's cat %.1f MB/s, through the relay %.1f MB/s: %.2f of it (the whole cell: %.2f)" % (
        rate["ssh there"], rate["there"], middle["ssh there"] / middle["there"], middle["ssh there"] / middle["the cell"]))
    print("back: ssh %.1f MB/s, %%pull through the relay %.1f MB/s: %.2f of it" % (rate["ssh back"], rate["back"], middle["ssh back"] / middle["back"]))
    print("own pages at rest, KiB: the launcher %d without a relay, %d with it; the relay's ssh %d; the relay's program on the host %d" % (
        before[0], *after))


def main():
    parser = bulk.arguments(__doc__, repeat=5, mib=128)
    parser.add_argument("--settle", type=float, default=10, help="seconds to wait for a quiet machine before each figure")
    args = parser.parse_args()
    values = {}
    common.own_memory(0.2)
    with bulk.network(args, 1) as (hosts, log):
        before, after = measure(hosts, args, values, log)
    report(values, args, before, after)
    bulk.keep(args, values)


if __name__ == "__main__":
    main()
