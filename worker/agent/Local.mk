# SPDX-License-Identifier: BSD-3-Clause
# The line to the kernel and to other agents: for whoever plays an agent.
noinst_LIBRARIES += worker/agent/net/libnet.a
worker_agent_net_libnet_a_SOURCES = \
	worker/agent/net/address.h worker/agent/net/address.c \
	worker/agent/net/child_nodes.c \
	worker/agent/net/dial.h worker/agent/net/dial.c \
	worker/agent/net/dial_private.h worker/agent/net/dial_text.c \
	worker/agent/net/host_lookup.c \
	worker/agent/net/frame_batch.h worker/agent/net/frame_batch.c \
	worker/agent/net/join.h worker/agent/net/join.c \
	worker/agent/net/kernel_link.h worker/agent/net/kernel_link.c \
	worker/agent/net/knock.h worker/agent/net/knock.c \
	worker/agent/net/line.h worker/agent/net/line.c \
	worker/agent/net/peer.h worker/agent/net/peer.c \
	worker/agent/net/peer_accept.c \
	worker/agent/net/peer_dial.c \
	worker/agent/net/peer_zap.c \
	worker/agent/net/peers.h worker/agent/net/peers.c \
	worker/agent/net/port.h worker/agent/net/port.c \
	worker/agent/net/redial.h worker/agent/net/redial.c \
	worker/agent/net/resume.h worker/agent/net/resume.c \
	worker/agent/net/sealed.h worker/agent/net/sealed.c \
	worker/agent/net/secret.h worker/agent/net/secret.c \
	worker/agent/net/silence.h worker/agent/net/silence.c \
	worker/agent/net/socket.h worker/agent/net/socket.c \
	worker/agent/net/tcp_probe.c \
	worker/agent/net/uplink.h worker/agent/net/uplink.c

noinst_LIBRARIES += worker/agent/libagent.a
worker_agent_libagent_a_SOURCES = \
	worker/agent/agent.h worker/agent/agent.c \
	worker/agent/cut_ranks.h worker/agent/cut_ranks.c \
	worker/agent/exited.c \
	worker/agent/from_kernel.c \
	worker/agent/gpu_oom.c \
	worker/agent/node_usage.c \
	worker/agent/park_ranks.c \
	worker/agent/notice.h worker/agent/notice.c \
	worker/agent/prestart.c \
	worker/agent/reap.c \
	worker/agent/relay.c \
	worker/agent/relay_program.h worker/agent/relay_program.c \
	worker/agent/presence.h worker/agent/presence.c \
	worker/agent/relay_io.c \
	worker/agent/slurm_job.h worker/agent/slurm_job.c \
	worker/agent/sent_folder.h worker/agent/sent_folder.c \
	worker/agent/spawn.c \
	worker/agent/spawn_process.c \
	worker/agent/stand_in.c \
	worker/agent/private.h worker/agent/start.c \
	worker/agent/blobs/blobs.h worker/agent/blobs/blobs.c \
	worker/agent/blobs/transfer_io.h worker/agent/blobs/transfer_io.c \
	worker/agent/blobs/transfer_table.h worker/agent/blobs/transfer_table.c \
	worker/agent/blobs/transfers.h worker/agent/blobs/transfers.c \
	worker/agent/output/lines.h worker/agent/output/lines.c \
	worker/agent/output/pipes.h worker/agent/output/pipes.c \
	worker/agent/output/pipes_io.c \
	worker/agent/output/spool.h worker/agent/output/spool.c \
	worker/agent/output/worker_credit.h worker/agent/output/worker_credit.c \
	worker/agent/processes/death_cause.h worker/agent/processes/death_cause.c \
	worker/agent/processes/env.h worker/agent/processes/env.c \
	worker/agent/processes/guard.h worker/agent/processes/guard.c \
	worker/agent/processes/nccl_status.c \
	worker/agent/processes/orders.h worker/agent/processes/orders.c \
	worker/agent/processes/outbox.h worker/agent/processes/outbox.c \
	worker/agent/processes/path_probe.h worker/agent/processes/path_probe.c \
	worker/agent/processes/python_candidates.h worker/agent/processes/python_candidates.c \
	worker/agent/processes/stacks.h worker/agent/processes/stacks.c \
	worker/agent/processes/worker.h worker/agent/processes/worker.c \
	worker/agent/processes/worker_pipes.c \
	worker/agent/processes/worker_io.c \
	worker/agent/processes/worker_state.h worker/agent/processes/worker_state.c \
	worker/agent/processes/zygote.c \
	worker/agent/processes/zygote_io.c \
	worker/collective/ras.h worker/collective/ras.c worker/collective/ras_ask.c

pkglibexec_PROGRAMS += cellspan-agent
cellspan_agent_SOURCES = worker/agent/main.c
cellspan_agent_LDADD = worker/agent/libagent.a worker/agent/net/libnet.a worker/agent/gpu/libgpu.a worker/link/liblink.a protocol/libprotocol.a base/libbase.a \
	$(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
EXTRA_DIST += worker/agent/README.md

# home.t and ranks.t run real agents; the program itself plays the Python (tests/unit/agent/fake.h).
AGENT_TEST_LIBS = worker/agent/libagent.a worker/agent/net/libnet.a worker/agent/gpu/libgpu.a worker/link/liblink.a protocol/libprotocol.a base/libbase.a \
	$(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
AGENT_TEST_DOUBLES = tests/unit/agent/must.h tests/unit/agent/double.h tests/unit/agent/double.c tests/unit/agent/fake.h tests/unit/agent/fake.c
check_PROGRAMS += \
	tests/unit/agent/blobs.t \
	tests/unit/agent/home.t \
	tests/unit/agent/join.t \
	tests/unit/agent/launched.t \
	tests/unit/agent/lines.t \
	tests/unit/agent/memory.t \
	tests/unit/agent/net.t \
	tests/unit/agent/resume.t \
	tests/unit/agent/stuck.t \
	tests/unit/agent/paths.t \
	tests/unit/agent/ranks.t \
	tests/unit/agent/sent_folder.t \
	tests/unit/agent/ports.t tests/unit/agent/slurm_job.t tests/unit/agent/spool.t tests/unit/agent/tables.t \
	tests/unit/agent/words.t
tests_unit_agent_blobs_t_SOURCES = tests/unit/agent/blobs.c $(AGENT_TEST_DOUBLES) tests/unit/agent/lan.h tests/unit/agent/lan.c
tests_unit_agent_blobs_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_blobs_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_home_t_SOURCES = tests/unit/agent/home.c $(AGENT_TEST_DOUBLES)
tests_unit_agent_home_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_home_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_lines_t_SOURCES = tests/unit/agent/lines.c
tests_unit_agent_lines_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_memory_t_SOURCES = tests/unit/agent/memory.c
tests_unit_agent_memory_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_memory_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_agent_memory_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_join_t_SOURCES = tests/unit/agent/join.c tests/unit/agent/lan.h tests/unit/agent/lan.c \
	tests/unit/agent/fake.h tests/unit/agent/fake.c tests/unit/agent/hung.h tests/unit/agent/must.h
tests_unit_agent_join_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_join_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_launched_t_SOURCES = tests/unit/agent/launched.c tests/unit/agent/lan.h tests/unit/agent/lan.c \
	tests/unit/agent/fake.h tests/unit/agent/fake.c tests/unit/agent/must.h
tests_unit_agent_launched_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_launched_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_net_t_SOURCES = tests/unit/agent/net.c tests/unit/agent/lan.h tests/unit/agent/lan.c \
	tests/unit/agent/fake.h tests/unit/agent/fake.c tests/unit/agent/hung.h tests/unit/agent/must.h
tests_unit_agent_net_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_net_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_resume_t_SOURCES = tests/unit/agent/resume.c tests/unit/agent/lan.h tests/unit/agent/lan.c \
	tests/unit/agent/fake.h tests/unit/agent/fake.c tests/unit/agent/must.h
tests_unit_agent_resume_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_resume_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_stuck_t_SOURCES = tests/unit/agent/stuck.c tests/unit/agent/lan.h tests/unit/agent/lan.c tests/unit/agent/must.h
tests_unit_agent_stuck_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_paths_t_SOURCES = tests/unit/agent/paths.c tests/unit/agent/hung.h
tests_unit_agent_paths_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_paths_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_ranks_t_SOURCES = tests/unit/agent/ranks.c $(AGENT_TEST_DOUBLES)
tests_unit_agent_ranks_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_ranks_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_sent_folder_t_SOURCES = tests/unit/agent/sent_folder.c
tests_unit_agent_sent_folder_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_sent_folder_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_slurm_job_t_SOURCES = tests/unit/agent/slurm_job.c
tests_unit_agent_slurm_job_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_ports_t_SOURCES = tests/unit/agent/ports.c
tests_unit_agent_ports_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_spool_t_SOURCES = tests/unit/agent/spool.c
tests_unit_agent_spool_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_tables_t_SOURCES = tests/unit/agent/tables.c
tests_unit_agent_tables_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_words_t_SOURCES = tests/unit/agent/words.c
tests_unit_agent_words_t_LDADD = $(AGENT_TEST_LIBS)
