# The kernel's side of the wire to its agents.
noinst_LIBRARIES += kernel/agents/libagents.a
kernel_agents_libagents_a_SOURCES = \
	kernel/agents/node.h kernel/agents/room.h \
	kernel/agents/agents.h kernel/agents/agents.c \
	kernel/agents/beat.h kernel/agents/beat.c \
	kernel/agents/cargo.h kernel/agents/cargo.c \
	kernel/agents/credit.h kernel/agents/credit.c \
	kernel/agents/fan.h kernel/agents/fan.c \
	kernel/agents/intake.c kernel/agents/losses.c \
	kernel/agents/lanes.h kernel/agents/lanes.c \
	kernel/agents/link.h kernel/agents/link.c \
	kernel/agents/loads.h kernel/agents/loads.c \
	kernel/agents/local.h kernel/agents/local.c \
	kernel/agents/router.h kernel/agents/router.c \
	kernel/agents/ways.h kernel/agents/ways.c
