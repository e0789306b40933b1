# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel and its agent hold in memory, each by itself: at rest, and after a cell that printed 200 MB."""

from __future__ import annotations

import time

from common import RANKS, Kernel, memory_of

VOLUME = "for i in range(2_500_000):\n    print('%079d' % i)"


def resident(system):
    """PSS in MiB. A kernel that is one process with the user's Python has no agent."""
    with Kernel(system) as kernel:
        kernel.must("1")
        time.sleep(1)
        agent = kernel.process("cellspan-agent")
        report = {"kernel": pss(kernel.pid), "agent": pss(agent.pid) if agent else None}
        cell = kernel.run(VOLUME, 120)
        report["printed"] = sum(len(e.text) for e in cell.streams())
        del cell
        time.sleep(1)
        report["kernel after 200 MB"] = pss(kernel.pid)
        if agent:
            report["agent after 200 MB"] = pss(agent.pid)
            kernel.must("%%%%distribute -n %d\n%s" % (RANKS, VOLUME.replace("2_500_000", "625_000")))
            time.sleep(1)
            report["kernel after ranks"], report["agent after ranks"] = pss(kernel.pid), pss(agent.pid)
        return report


def pss(pid):
    return memory_of([pid])["pss"]


SECTIONS = {"resident": (("python3", "cellspan"), resident)}
