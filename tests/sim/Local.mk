# SPDX-License-Identifier: BSD-3-Clause
# One program that plays all parts around a kernel (part.h); scale.sh runs it.
EXTRA_PROGRAMS += tests/sim/cellspan-sim
tests_sim_cellspan_sim_SOURCES = tests/sim/main.c tests/sim/part.h \
	tests/sim/agent.h tests/sim/agent.c tests/sim/cut.h tests/sim/cut.c tests/sim/driver.h tests/sim/driver.c tests/sim/engine.c \
	tests/sim/figures.c tests/sim/home.c tests/sim/host.h tests/sim/host.c tests/sim/options.c \
	tests/sim/rank.h tests/sim/rank.c tests/sim/scenes.h tests/sim/scenes.c tests/sim/script.h tests/sim/script.c \
	tests/sim/usage.h tests/sim/usage.c cli/client.h cli/client.c
tests_sim_cellspan_sim_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_sim_cellspan_sim_LDADD = kernel/agents/libagents.a worker/agent/net/libnet.a kernel/jupyter/libjupyter.a \
	protocol/libprotocol.a base/libbase.a $(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
CLEANFILES += tests/sim/cellspan-sim
EXTRA_DIST += tests/sim/README.md tests/sim/scale.sh
tap_scripts += tests/sim/scale.sh
tests/sim/scale.log: tests/sim/cellspan-sim tests/sim/narrow-kernel cellspan-launch-local

# The kernel with a tree of agents in which nobody has more than 8 children: 90 agents make three levels.
EXTRA_PROGRAMS += tests/sim/narrow-kernel
tests_sim_narrow_kernel_SOURCES = $(cellspan_kernel_SOURCES) kernel/agents/node_tree.c
tests_sim_narrow_kernel_CPPFLAGS = $(AM_CPPFLAGS) -DTREE_FAN=8u
tests_sim_narrow_kernel_LDADD = $(cellspan_kernel_LDADD)
CLEANFILES += tests/sim/narrow-kernel

# With 1,060 agents and more the real tree has a third level.
SCALE = 4000
check-scale: tests/sim/cellspan-sim cellspan-kernel cellspan-launch-local
	tests/sim/cellspan-sim --agents $(SCALE) --kernel ./cellspan-kernel
.PHONY: check-scale
