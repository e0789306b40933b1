# SPDX-License-Identifier: BSD-3-Clause
"""Arrays: 256 MiB from the notebook to four ranks, 64 MiB from rank 0 back."""

from __future__ import annotations

import time

from common import MIB, RANKS, Growth, Kernel
from lines import setup_ipyparallel

SEND, PULL = 256, 64  # MiB
GOT = "print('GOT %d %s' % (big.nbytes, float(big[-1]) > -1), flush=True)"
SUM = "print('SUM', float(big.sum()) > 0, flush=True)"


def ready(system):
    """A kernel whose 4 ranks have imported numpy: (kernel, the line above a body that runs on the ranks)."""
    ours = system == "cellspan"
    kernel = Kernel("cellspan" if ours else "python3")
    try:
        if not ours:
            setup_ipyparallel(kernel)
        top = "%%%%distribute -n %d --merge prefix\n" % RANKS if ours else "%%px\n"
        kernel.must(top + "import numpy as np")
        return kernel, top
    except BaseException:
        kernel.close()
        raise


def send(system):
    """Time until all ranks have the array; how much the whole tree grows, then when every rank has read all of it."""
    kernel, top = ready(system)
    with kernel:
        kernel.must("import numpy as np\nbig = np.random.default_rng(0).random(%d)" % (SEND * MIB // 8))
        time.sleep(1)
        growth = Growth(kernel)
        growth.start()
        begin = time.perf_counter()
        if system == "ipyparallel":
            kernel.must("_ = rc[:].push({'big': big}, block=True)")
        cell = kernel.must(top + GOT)
        seconds = time.perf_counter() - begin
        kernel.must(top + SUM)
        time.sleep(0.5)
        stays = growth.stop()
        changed = again(kernel, top, system)
        return {
            "seconds": seconds,
            "ranks that have it": cell.output.count("GOT %d True" % (SEND * MIB)),
            "growth, peak": growth.peak,
            "growth, afterwards": stays,
            "seconds, unchanged": again(kernel, top, system, change=False),
            "seconds, changed": changed,
        }


def again(kernel, top, system, change=True):
    """The same once more, after one element was changed at home, or none."""
    if change:
        kernel.must("big[0] += 1")
    begin = time.perf_counter()
    if system == "ipyparallel":
        kernel.must("_ = rc[:].push({'big': big}, block=True)")
    kernel.must(top + GOT)
    return time.perf_counter() - begin


def pull(system):
    """Time until the notebook has rank 0's array: the first pull of the session, and later ones."""
    kernel, top = ready(system)
    with kernel:
        taken = []
        for i in range(4):
            kernel.must(top + "arr = np.full(%d, %d.0)" % (PULL * MIB // 8, i))
            begin = time.perf_counter()
            kernel.must("%pull arr -r 0 --into pulled" if system == "cellspan" else "pulled = rc[0]['arr']")
            taken.append(time.perf_counter() - begin)
            check = kernel.must("print(type(pulled).__name__, pulled.nbytes, pulled[-1])").output
            if check.split() != ["ndarray", str(PULL * MIB), "%d.0" % i]:
                return {"failed": check}
        return {"first": taken[0], "later": sorted(taken[1:])[1]}


SECTIONS = {
    "array": (("ipyparallel", "cellspan"), send),
    "pull": (("ipyparallel", "cellspan"), pull),
}
