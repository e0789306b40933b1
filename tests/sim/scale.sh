#!/bin/sh
# A kernel with simulated agents, under make check: TAP. CELLSPAN_SIM_AGENTS: how many (200); `make check-scale` takes 1000.
exec "$top_builddir/tests/sim/cellspan-sim" --agents "${CELLSPAN_SIM_AGENTS:-200}" --kernel "$top_builddir/cellspan-kernel"
