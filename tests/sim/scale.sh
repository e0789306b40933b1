#!/bin/sh
# A kernel with simulated agents, under make check: TAP. CELLSPAN_SIM_AGENTS: how many (1060, of which the last four are at
# the third level of the tree); `make check-scale` takes 4000.
exec "$top_builddir/tests/sim/cellspan-sim" --agents "${CELLSPAN_SIM_AGENTS:-1060}" --kernel "$top_builddir/cellspan-kernel"
