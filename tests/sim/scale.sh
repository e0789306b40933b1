#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests a kernel with simulated agents, for make check: TAP. CELLSPAN_SIM_AGENTS: how many (default 1060; the last four are on
# the third level of the tree). `make check-scale` uses 4000.
exec "$top_builddir/tests/sim/cellspan-sim" --agents "${CELLSPAN_SIM_AGENTS:-1060}" --kernel "$top_builddir/cellspan-kernel"
