# The kernel's side of the wire to its agents.
noinst_LIBRARIES += kernel/agents/libagents.a
kernel_agents_libagents_a_SOURCES = \
	kernel/agents/node.h kernel/agents/room.h \
	kernel/agents/admit.h kernel/agents/admit.c \
	kernel/agents/agents.h kernel/agents/agents.c \
	kernel/agents/beat.h kernel/agents/beat.c \
	kernel/agents/cargo.h kernel/agents/cargo.c \
	kernel/agents/credit.h kernel/agents/credit.c \
	kernel/agents/launch.h kernel/agents/launch.c \
	kernel/agents/fan.h kernel/agents/fan.c \
	kernel/agents/find.h kernel/agents/find.c \
	kernel/agents/gate.h kernel/agents/gate.c \
	kernel/agents/intake.c kernel/agents/losses.c kernel/agents/moves.c \
	kernel/agents/nodes.c kernel/agents/runs.c \
	kernel/agents/lanes.h kernel/agents/lanes.c \
	kernel/agents/lent.h kernel/agents/lent.c \
	kernel/agents/link.h kernel/agents/link.c \
	kernel/agents/loads.h kernel/agents/loads.c \
	kernel/agents/local.h kernel/agents/local.c \
	kernel/agents/router.h kernel/agents/router.c \
	kernel/agents/said.h kernel/agents/said.c \
	kernel/agents/tree.h kernel/agents/tree.c \
	kernel/agents/ways.h kernel/agents/ways.c \
	kernel/agents/wire.h kernel/agents/wire.c

agents_test_libs = kernel/agents/libagents.a magics/libmagics.a protocol/libprotocol.a base/libbase.a \
	$(ZMQ_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
check_PROGRAMS += tests/unit/kernel/agents/said.t tests/unit/kernel/agents/beat.t tests/unit/kernel/agents/admit.t \
	tests/unit/kernel/agents/fan.t tests/unit/kernel/agents/door.t \
	tests/unit/kernel/agents/engines.t tests/unit/kernel/agents/moves.t tests/unit/kernel/agents/losses.t
tests_unit_kernel_agents_said_t_SOURCES = tests/unit/kernel/agents/said.c
tests_unit_kernel_agents_said_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_said_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_kernel_agents_beat_t_SOURCES = tests/unit/kernel/agents/beat.c
tests_unit_kernel_agents_beat_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_admit_t_SOURCES = tests/unit/kernel/agents/admit.c
tests_unit_kernel_agents_admit_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_admit_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_kernel_agents_fan_t_SOURCES = tests/unit/kernel/agents/fan.c tests/unit/kernel/agents/words.h
tests_unit_kernel_agents_fan_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_fan_t_LDFLAGS = $(CHAOS_LINK)

check_PROGRAMS += tests/unit/kernel/agents/cargo.t tests/unit/kernel/agents/loads.t
tests_unit_kernel_agents_cargo_t_SOURCES = tests/unit/kernel/agents/cargo.c \
	tests/unit/kernel/agents/yard.h tests/unit/kernel/agents/yard.c
tests_unit_kernel_agents_cargo_t_LDADD = kernel/agents/libagents.a worker/agent/libagent.a worker/link/liblink.a \
	protocol/libprotocol.a base/libbase.a $(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
tests_unit_kernel_agents_loads_t_SOURCES = tests/unit/kernel/agents/loads.c
tests_unit_kernel_agents_loads_t_LDADD = kernel/agents/libagents.a protocol/libprotocol.a base/libbase.a $(SODIUM_LIBS)
tests_unit_kernel_agents_loads_t_LDFLAGS = $(CHAOS_LINK)
agents_stage = tests/unit/kernel/agents/words.h tests/unit/kernel/agents/stage.h tests/unit/kernel/agents/stage.c
tests_unit_kernel_agents_door_t_SOURCES = tests/unit/kernel/agents/door.c $(agents_stage)
tests_unit_kernel_agents_door_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_engines_t_SOURCES = tests/unit/kernel/agents/engines.c $(agents_stage)
tests_unit_kernel_agents_engines_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_moves_t_SOURCES = tests/unit/kernel/agents/moves.c $(agents_stage)
tests_unit_kernel_agents_moves_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_losses_t_SOURCES = tests/unit/kernel/agents/losses.c $(agents_stage)
tests_unit_kernel_agents_losses_t_LDADD = $(agents_test_libs)
