"""cellspan.torch: TorchDistributor, as users of pyspark know it."""

from __future__ import annotations

IMPORTS = "from cellspan.torch import TorchDistributor\n"


def test_a_function_runs_on_the_ranks_that_stay(nb):
    nb.ok(IMPORTS + "import cellspan, os, torch\nassert 'cellspan' not in torch.__file__\n"
          "def who(base, *, more):\n    return base + more + cellspan.world_size(), os.getpid()")
    first = nb.ok("TorchDistributor(2, reuse=True, use_gpu=False).run(who, 10, more=5)").value
    assert first.startswith("(17, ") and nb.ok("TorchDistributor(2, reuse=True, use_gpu=False).run(who, 10, more=5)").value == first
