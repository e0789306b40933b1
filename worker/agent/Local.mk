# Lines to the kernel and to other agents: for whoever plays an agent.
noinst_LIBRARIES += worker/agent/libuplink.a
worker_agent_libuplink_a_SOURCES = \
	worker/agent/address.h worker/agent/address.c \
	worker/agent/admit.h worker/agent/admit.c \
	worker/agent/call.h worker/agent/call.c \
	worker/agent/callers.c \
	worker/agent/dial.h worker/agent/dial.c \
	worker/agent/gather.h worker/agent/gather.c \
	worker/agent/knock.h worker/agent/knock.c \
	worker/agent/peer.h worker/agent/peers.h worker/agent/peers.c \
	worker/agent/silence.h worker/agent/silence.c \
	worker/agent/socket.h worker/agent/socket.c \
	worker/agent/tree.h worker/agent/tree.c \
	worker/agent/uplink.h worker/agent/uplink.c

noinst_LIBRARIES += worker/agent/libagent.a
worker_agent_libagent_a_SOURCES = \
	worker/agent/agent.h worker/agent/agent.c \
	worker/agent/blobs.h worker/agent/blobs.c \
	worker/agent/carrier.h worker/agent/carrier.c \
	worker/agent/cause.h worker/agent/cause.c \
	worker/agent/credit.h worker/agent/credit.c \
	worker/agent/env.h worker/agent/env.c \
	worker/agent/ferry.h worker/agent/ferry.c \
	worker/agent/full.h worker/agent/full.c \
	worker/agent/gauge.h worker/agent/gauge.c \
	worker/agent/haul.h worker/agent/haul.c \
	worker/agent/instead.h worker/agent/instead.c \
	worker/agent/guard.h worker/agent/guard.c \
	worker/agent/join.h worker/agent/join.c \
	worker/agent/lines.h worker/agent/lines.c \
	worker/agent/look.h worker/agent/look.c \
	worker/agent/nccl.h worker/agent/nccl.c worker/collective/ras.h worker/collective/ras.c worker/collective/ras_ask.c \
	worker/agent/oom.h worker/agent/oom.c \
	worker/agent/outbox.h worker/agent/outbox.c \
	worker/agent/pipes.h worker/agent/pipes.c \
	worker/agent/place.h worker/agent/place.c \
	worker/agent/port.h worker/agent/port.c \
	worker/agent/reap.h worker/agent/reap.c \
	worker/agent/relay.h worker/agent/relay.c \
	worker/agent/secret.h worker/agent/secret.c \
	worker/agent/sever.h worker/agent/sever.c \
	worker/agent/space.h worker/agent/space.c \
	worker/agent/spawn.h worker/agent/spawn.c \
	worker/agent/spool.h worker/agent/spool.c \
	worker/agent/stacks.h worker/agent/stacks.c \
	worker/agent/start.h worker/agent/start.c \
	worker/agent/warm.h worker/agent/warm.c \
	worker/agent/worker.h worker/agent/worker.c \
	worker/agent/zygote.h worker/agent/zygote.c

pkglibexec_PROGRAMS += cellspan-agent
cellspan_agent_SOURCES = worker/agent/main.c
cellspan_agent_LDADD = worker/agent/libagent.a worker/agent/libuplink.a worker/agent/gpu/libgpu.a worker/link/liblink.a protocol/libprotocol.a base/libbase.a \
	$(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
EXTRA_DIST += worker/agent/README.md

# home.t and ranks.t run real agents; the program itself plays the Python (tests/unit/agent/fake.h).
AGENT_TEST_LIBS = worker/agent/libagent.a worker/agent/libuplink.a worker/agent/gpu/libgpu.a worker/link/liblink.a protocol/libprotocol.a base/libbase.a \
	$(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
AGENT_TEST_DOUBLES = tests/unit/agent/must.h tests/unit/agent/double.h tests/unit/agent/double.c tests/unit/agent/fake.h tests/unit/agent/fake.c
check_PROGRAMS += \
	tests/unit/agent/cargo.t \
	tests/unit/agent/home.t \
	tests/unit/agent/join.t \
	tests/unit/agent/lines.t \
	tests/unit/agent/memory.t \
	tests/unit/agent/net.t \
	tests/unit/agent/paths.t \
	tests/unit/agent/ranks.t \
	tests/unit/agent/tables.t \
	tests/unit/agent/words.t
tests_unit_agent_cargo_t_SOURCES = tests/unit/agent/cargo.c $(AGENT_TEST_DOUBLES) tests/unit/agent/lan.h tests/unit/agent/lan.c
tests_unit_agent_cargo_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_cargo_t_LDADD = $(AGENT_TEST_LIBS)
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
tests_unit_agent_net_t_SOURCES = tests/unit/agent/net.c tests/unit/agent/lan.h tests/unit/agent/lan.c \
	tests/unit/agent/fake.h tests/unit/agent/fake.c tests/unit/agent/hung.h tests/unit/agent/must.h
tests_unit_agent_net_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_net_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_paths_t_SOURCES = tests/unit/agent/paths.c tests/unit/agent/hung.h
tests_unit_agent_paths_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_paths_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_ranks_t_SOURCES = tests/unit/agent/ranks.c $(AGENT_TEST_DOUBLES)
tests_unit_agent_ranks_t_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
tests_unit_agent_ranks_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_tables_t_SOURCES = tests/unit/agent/tables.c
tests_unit_agent_tables_t_LDADD = $(AGENT_TEST_LIBS)
tests_unit_agent_words_t_SOURCES = tests/unit/agent/words.c
tests_unit_agent_words_t_LDADD = $(AGENT_TEST_LIBS)
