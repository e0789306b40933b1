# SPDX-License-Identifier: BSD-3-Clause
# The kernel's side of the wire to its agents.
noinst_LIBRARIES += kernel/agents/libagents.a
kernel_agents_libagents_a_SOURCES = \
	kernel/agents/node.h kernel/agents/private.h \
	kernel/agents/agents.h kernel/agents/agents.c \
	kernel/agents/agents_blobs.c \
	kernel/agents/agents_nodes.c \
	kernel/agents/agents_zap.c \
	kernel/agents/advertise.c \
	kernel/agents/allowed_keys.h kernel/agents/allowed_keys.c \
	kernel/agents/credit.c \
	kernel/agents/fan.c \
	kernel/agents/from_agents.c kernel/agents/node_failures.c \
	kernel/agents/listen.h kernel/agents/listen.c \
	kernel/agents/node_link.h kernel/agents/node_link.c \
	kernel/agents/node_table.c \
	kernel/agents/tree_move.c \
	kernel/agents/router.h kernel/agents/local_router.c kernel/agents/network_router.c \
	kernel/agents/node_tree.c \
	kernel/agents/to_agents.h kernel/agents/to_agents.c

agents_test_libs = kernel/engines/libengines.a kernel/agents/libagents.a kernel/blobs/libblobs.a \
	magics/libmagics.a protocol/libprotocol.a base/libbase.a $(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
agents_stage = tests/unit/kernel/agents/words.h tests/unit/kernel/agents/stage.h tests/unit/kernel/agents/stage.c
check_PROGRAMS += tests/unit/kernel/agents/advertise.t tests/unit/kernel/agents/agents.t tests/unit/kernel/agents/allowed_keys.t tests/unit/kernel/agents/fan.t \
	tests/unit/kernel/agents/local_router.t tests/unit/kernel/agents/network_router.t tests/unit/kernel/agents/node_failures.t tests/unit/kernel/agents/tree_move.t tests/unit/kernel/agents/node_tree.t \
	tests/unit/kernel/agents/resume.t tests/unit/kernel/agents/waited_for.t
tests_unit_kernel_agents_advertise_t_SOURCES = tests/unit/kernel/agents/advertise.c
tests_unit_kernel_agents_advertise_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_agents_t_SOURCES = tests/unit/kernel/agents/agents.c $(agents_stage)
tests_unit_kernel_agents_agents_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_allowed_keys_t_SOURCES = tests/unit/kernel/agents/allowed_keys.c
tests_unit_kernel_agents_allowed_keys_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_allowed_keys_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_kernel_agents_fan_t_SOURCES = tests/unit/kernel/agents/fan.c tests/unit/kernel/agents/words.h
tests_unit_kernel_agents_fan_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_fan_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_kernel_agents_local_router_t_SOURCES = tests/unit/kernel/agents/local_router.c
tests_unit_kernel_agents_local_router_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_network_router_t_SOURCES = tests/unit/kernel/agents/network_router.c
tests_unit_kernel_agents_network_router_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_node_failures_t_SOURCES = tests/unit/kernel/agents/node_failures.c $(agents_stage)
tests_unit_kernel_agents_node_failures_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_tree_move_t_SOURCES = tests/unit/kernel/agents/tree_move.c $(agents_stage)
tests_unit_kernel_agents_tree_move_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_node_tree_t_SOURCES = tests/unit/kernel/agents/node_tree.c
tests_unit_kernel_agents_node_tree_t_LDADD = $(agents_test_libs)
agents_resuming = tests/unit/kernel/agents/resuming.h $(agents_stage)
tests_unit_kernel_agents_resume_t_SOURCES = tests/unit/kernel/agents/resume.c $(agents_resuming)
tests_unit_kernel_agents_resume_t_LDADD = $(agents_test_libs)
tests_unit_kernel_agents_waited_for_t_SOURCES = tests/unit/kernel/agents/waited_for.c $(agents_resuming)
tests_unit_kernel_agents_waited_for_t_LDADD = $(agents_test_libs)
