#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests a kernel with 90 simulated agents on three levels of the tree, for make check: TAP. `make check-scale` takes thousands.
# The kernel finds cellspan-launch-local in PATH, as it is not in the folder of this one.
PATH=$(cd "$top_builddir" && pwd):$PATH exec "$top_builddir/tests/sim/cellspan-sim" --agents 90 --kernel "$top_builddir/tests/sim/narrow-kernel"
