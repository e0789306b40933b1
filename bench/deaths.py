# SPDX-License-Identifier: BSD-3-Clause
"""Processes that die: home, one rank of four, the kernel."""

from __future__ import annotations

import os
import re
import signal
import time

from common import POLL, RANKS, Kernel
from lines import setup_ipyparallel

SEGFAULT = "import ctypes\nctypes.string_at(0)"
LIMIT = 45  # seconds until a cell counts as one that never ends
NAMED = re.compile(r"rank 2\b.*?(SIG[A-Z]+|killed|died|signal|exit)", re.S | re.I)
WAITS = {"sleep": "time.sleep(30)", "all_reduce": "dist.all_reduce(torch.ones(1))"}
MEET = (
    "import torch, torch.distributed as dist\n"
    "if not dist.is_initialized():\n"
    "    dist.init_process_group('gloo'%s)\n"
    "dist.all_reduce(torch.ones(1))\n"
)


class Ranks:
    """A kernel with 4 ranks, of cellspan or of ipyparallel; a context manager that gives the object itself."""

    def __init__(self, system):
        self.ours = system == "cellspan"
        self.kernel = Kernel("cellspan" if self.ours else "python3")
        try:
            if not self.ours:
                setup_ipyparallel(self.kernel)
            self.kernel.must(self.cell("import os, time\nkept = 42"))
        except BaseException:
            self.kernel.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kernel.close()

    def cell(self, body):
        """The body on all ranks; `rank` is there."""
        if self.ours:
            return "%%%%distribute -n %d\nimport os; rank = int(os.environ['RANK'])\n%s" % (RANKS, body)
        return "%%px\n" + body

    def store(self):
        """What init_process_group needs besides the backend."""
        where = os.path.join(self.kernel.folder, "store")
        return "" if self.ours else ", init_method='file://%s', rank=rank, world_size=%d" % (where, RANKS)

    def file(self, name):
        return os.path.join(self.kernel.folder, name)


def home(system):
    """SIGSEGV in a cell of home: how soon the client hears of it, and can go on; what the ranks still have."""
    with Ranks(system) as ranks:
        kernel = ranks.kernel
        begin = time.perf_counter()
        crash = kernel.run(SEGFAULT, 10)
        after = kernel.run("print('alive')", 10)
        usable = time.perf_counter() - begin
        kept = kernel.run("%%distribute --merge prefix\nprint('kept', kept)", 20)
        return {
            "error reply": crash.reply_at,
            "error": crash.reply.get("ename") if crash.reply else "no reply",
            "next cell ran": usable if "alive" in after.output else None,
            "ranks that kept their state": len(re.findall("kept 42", kept.output)),
        }


def rank(system, case):
    """Rank 2 kills itself while the others sleep or wait in all_reduce; times are counted from its death."""
    with Ranks(system) as ranks:
        kernel = ranks.kernel
        died = ranks.file("died")
        body = "%sif rank == 2:\n    time.sleep(1)\n    open(%r, 'w').close()\n    os.kill(os.getpid(), 9)\n%s" % (
            MEET % ranks.store() if case == "all_reduce" else "",
            died,
            WAITS[case],
        )
        cell = kernel.start(ranks.cell(body))
        deadline, death = time.perf_counter() + 90, None
        while time.perf_counter() < deadline and not cell.wait(POLL):
            if death is None and os.path.exists(died):
                death = os.stat(died).st_mtime - time.time() + time.perf_counter() - cell.begin
                deadline = cell.begin + death + LIMIT
        if death is None:
            return {"failed": cell.output[-500:]}
        named = next((e.at - death for e in cell.events if NAMED.search(e.text)), None)
        over = cell.idle_at - death if cell.idle_at else None
        if over is None:
            kernel.manager.interrupt_kernel()
            cell.wait(10)
        begin = time.perf_counter()
        after = kernel.run(ranks.cell("print('ran', rank, flush=True)"), 20)
        ran = re.findall(r"\bran (\d)", after.output)
        return {
            "named": named if named is not None else "never by its rank",
            "cell over": over if over is not None else "not in %d s" % LIMIT,
            "status": cell.status,
            "next cell": time.perf_counter() - begin if after.idle_at else "not in 20 s",
            "ranks that ran it": len(set(ran)),
        }


def orphans(system):
    """The kernel is killed with SIGKILL while its ranks are in a cell: who is left 10 s later."""
    with Ranks(system) as ranks:
        kernel = ranks.kernel
        cell = kernel.start(ranks.cell("open(%r + str(rank), 'w').close()\ntime.sleep(120)" % ranks.file("up")))
        deadline = time.perf_counter() + 20
        while time.perf_counter() < deadline and not all(os.path.exists(ranks.file("up%d" % r)) for r in range(RANKS)):
            cell.wait(POLL)
        before = len(kernel.processes()) - 1
        os.kill(kernel.pid, signal.SIGKILL)
        begin, empty = time.perf_counter(), None
        while time.perf_counter() - begin < 10:
            if empty is None and not [p for p in kernel.processes() if p.pid != kernel.pid]:
                empty = time.perf_counter() - begin
            time.sleep(0.1)
        return {
            "before": before,
            "left": len([p for p in kernel.processes() if p.pid != kernel.pid]),
            "all gone after": empty,
        }


SECTIONS = {
    "home dies": (("cellspan",), home),
    "rank dies asleep": (("ipyparallel", "cellspan"), lambda system: rank(system, "sleep")),
    "rank dies in all_reduce": (("ipyparallel", "cellspan"), lambda system: rank(system, "all_reduce")),
    "orphans": (("ipyparallel", "cellspan"), orphans),
}
