# SPDX-License-Identifier: BSD-3-Clause
# What the unit tests of all folders share; each folder names its own tests.
EXTRA_DIST += tests/unit/tap.h tests/unit/rooms.sh tests/unit/documented.sh tests/unit/steps.py tests/unit/error_texts.py tests/unit/measure.py \
	tests/unit/symbols.sh tests/unit/release.py tests/unit/links.py tests/unit/commits.py
static_scripts += tests/unit/rooms.sh tests/unit/documented.sh tests/unit/steps.py tests/unit/error_texts.py tests/unit/measure.py tests/unit/symbols.sh tests/unit/release.py tests/unit/links.py tests/unit/commits.py
include tests/unit/gpu/Local.mk

# The pure code of kernel and agent: pure.t links it without ZeroMQ. The deciding files of I/O folders are only looked at.
pure_agent = exited from_kernel gpu_oom node_usage prestart relay spawn stand_in start net/child_nodes net/redial \
	blobs/blobs blobs/transfers blobs/transfer_table gpu/libgpu_a-gpu_list gpu/libgpu_a-gpu_errors output/lines output/pipes \
	output/worker_credit processes/death_cause processes/env processes/orders processes/outbox processes/python_candidates \
	processes/worker processes/worker_state processes/zygote
pure_objects = $(kernel_libkernel_a_OBJECTS) $(kernel_debug_libdebug_a_OBJECTS) $(kernel_merge_libmerge_a_OBJECTS) $(kernel_status_libstatus_a_OBJECTS) \
	$(magics_libmagics_a_OBJECTS) \
	$(addprefix kernel/blobs/,$(addsuffix .$(OBJEXT),blob_route blob_schedule blob_table direct_links)) \
	$(addprefix worker/agent/,$(addsuffix .$(OBJEXT),$(pure_agent))) kernel/agents/allowed_keys.$(OBJEXT)
deciding_objects = $(addprefix kernel/,$(addsuffix .$(OBJEXT),agents/credit agents/fan agents/tree_move agents/node_tree \
	engines/engine_lines engines/engine_nodes engines/engine_run))
# The kernel's code for agents, and the agents' for their connections. What they call of ZeroMQ is in network/messages.c and sockets.c.
kernel_end_objects = $(addprefix kernel/agents/,$(addsuffix .$(OBJEXT),agents_blobs credit fan from_agents node_failures \
	node_link node_table node_tree tree_move to_agents))
agent_end_objects = $(addprefix worker/agent/net/,$(addsuffix .$(OBJEXT),dial dial_text frame_batch knock line peer peer_accept peer_dial peers resume silence uplink))
check_PROGRAMS += tests/unit/pure.t
tests_unit_pure_t_SOURCES = tests/unit/pure.c tests/unit/pure_requests.c tests/unit/kernel/double.h tests/unit/kernel/double.c tests/unit/kernel/arrivals.c \
	tests/unit/agent/sim.h tests/unit/agent/sim.c tests/unit/agent/seam.c \
	tests/unit/network/network.h tests/unit/network/network.c tests/unit/network/fleet.h tests/unit/network/agent_end.c \
	tests/unit/network/agent_outside.c tests/unit/network/turns.c tests/unit/network/sockets.c tests/unit/network/messages.c \
	tests/unit/network/kernel_end.c tests/unit/network/kernel_outside.c tests/unit/network/steps.c tests/unit/network/checks.c tests/unit/network/planted.c \
	tests/unit/network/rounds.c tests/unit/network/cells.c
tests_unit_pure_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=session_tell,--wrap=session_resume,--wrap=session_next,--wrap=session_keep \
	-Wl,--wrap=session_init,--wrap=session_received,--wrap=uplink_send,--wrap=frame_batch_socket \
	-Wl,--wrap=knock_start,--wrap=getsockname,--wrap=redial_begin,--wrap=redial_attempt,--wrap=redial_beside,--wrap=redial_admitted,--wrap=redial_was_slow,--wrap=redial_is_over,--wrap=redial_was_refused \
	-Wl,--wrap=beat_check,--wrap=shutdown,--wrap=tree_parent,--wrap=tree_child,--wrap=tree_move_node_cut
tests_unit_pure_t_LDADD = $(pure_objects) $(kernel_end_objects) $(agent_end_objects) protocol/libprotocol.a base/libbase.a $(JANSSON_LIBS) $(SODIUM_LIBS)
tests/unit/pure.list: Makefile $(pure_objects) $(deciding_objects)
	@$(MKDIR_P) tests/unit
	@echo $(pure_objects) $(deciding_objects) > $@
tests/unit/symbols.log: tests/unit/pure.list tests/unit/pure.t
CLEANFILES += tests/unit/pure.list
