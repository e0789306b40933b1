# kernel: what runs where and what becomes of it (group, cell: pure), and the process.
noinst_LIBRARIES += kernel/libkernel.a
kernel_libkernel_a_SOURCES = \
	kernel/group/group.h kernel/group/group.c \
	kernel/group/ship.h kernel/group/ship.c kernel/group/ledger.h kernel/group/ledger.c kernel/group/place.h kernel/group/place.c \
	kernel/cell/doors.h kernel/cell/room.h kernel/cell/cell.h kernel/cell/notebook.h kernel/cell/check.h kernel/cell/text.h \
	kernel/cell/absent.c kernel/cell/answers.c kernel/cell/bind.c kernel/cell/cast.c kernel/cell/cell.c kernel/cell/cell_begin.c \
	kernel/cell/check.c kernel/cell/compare.c kernel/cell/end_ranks.c kernel/cell/ends.c kernel/cell/engine.c kernel/cell/expand.c \
	kernel/cell/facts.c kernel/cell/fanout.c kernel/cell/finish.c kernel/cell/follow.c kernel/cell/from_home.c kernel/cell/from_ranks.c \
	kernel/cell/gather.c kernel/cell/gauges.c kernel/cell/hang.c kernel/cell/home.c kernel/cell/info.c kernel/cell/judge.c \
	kernel/cell/left_behind.c kernel/cell/live.c kernel/cell/logs.c kernel/cell/lookup.c kernel/cell/machines.c kernel/cell/meet.c \
	kernel/cell/notebook.c kernel/cell/prompts.c kernel/cell/question.c kernel/cell/queue.c kernel/cell/ran.c kernel/cell/report.c \
	kernel/cell/send.c kernel/cell/sever.c kernel/cell/sites.c kernel/cell/start.c kernel/cell/steps.c kernel/cell/stream.c \
	kernel/cell/table.c kernel/cell/text.c kernel/cell/verdict.c kernel/cell/where.c kernel/cell/world.c

bin_PROGRAMS += cellspan-kernel
cellspan_kernel_SOURCES = kernel/main.c kernel/house.h kernel/house.c kernel/arguments.h kernel/arguments.c
cellspan_kernel_LDADD = kernel/libkernel.a kernel/engines/libengines.a kernel/agents/libagents.a kernel/engines/libengines.a kernel/blobs/libblobs.a kernel/jupyter/libfront.a kernel/merge/libmerge.a kernel/status/libstatus.a \
	magics/libmagics.a protocol/libprotocol.a base/libbase.a \
	$(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)

check_PROGRAMS += tests/unit/kernel/group.t tests/unit/kernel/cell.t tests/unit/kernel/troubles.t tests/unit/kernel/late.t tests/unit/kernel/memory.t \
	tests/unit/kernel/engines.t tests/unit/kernel/place.t tests/unit/kernel/status.t \
	tests/unit/kernel/check.t tests/unit/kernel/cast.t tests/unit/kernel/question.t tests/unit/kernel/prompts.t \
	tests/unit/kernel/lost.t
kernel_test_libs = kernel/libkernel.a kernel/jupyter/libfront.a kernel/merge/libmerge.a kernel/status/libstatus.a \
	magics/libmagics.a protocol/libprotocol.a base/libbase.a $(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
tests_unit_kernel_group_t_SOURCES = tests/unit/kernel/group.c
tests_unit_kernel_group_t_LDADD = $(kernel_test_libs)
kernel_double = tests/unit/kernel/double.h tests/unit/kernel/double.c
tests_unit_kernel_cell_t_SOURCES = tests/unit/kernel/cell.c $(kernel_double)
tests_unit_kernel_cell_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_troubles_t_SOURCES = tests/unit/kernel/troubles.c $(kernel_double)
tests_unit_kernel_troubles_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_late_t_SOURCES = tests/unit/kernel/late.c $(kernel_double)
tests_unit_kernel_late_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_check_t_SOURCES = tests/unit/kernel/check.c $(kernel_double)
tests_unit_kernel_check_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_cast_t_SOURCES = tests/unit/kernel/cast.c $(kernel_double)
tests_unit_kernel_cast_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_question_t_SOURCES = tests/unit/kernel/question.c $(kernel_double)
tests_unit_kernel_question_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_prompts_t_SOURCES = tests/unit/kernel/prompts.c $(kernel_double)
tests_unit_kernel_prompts_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_status_t_SOURCES = tests/unit/kernel/status.c $(kernel_double)
tests_unit_kernel_status_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_engines_t_SOURCES = tests/unit/kernel/engines.c $(kernel_double)
tests_unit_kernel_engines_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_lost_t_SOURCES = tests/unit/kernel/lost.c $(kernel_double)
tests_unit_kernel_lost_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_place_t_SOURCES = tests/unit/kernel/place.c
tests_unit_kernel_place_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_memory_t_SOURCES = tests/unit/kernel/memory.c $(kernel_double)
tests_unit_kernel_memory_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_memory_t_LDFLAGS = $(CHAOS_LINK)
