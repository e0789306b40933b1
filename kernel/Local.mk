# SPDX-License-Identifier: BSD-3-Clause
# The kernel: the pure folders, which decide what runs where, and the process itself.
noinst_LIBRARIES += kernel/libkernel.a
kernel_libkernel_a_SOURCES = \
	kernel/group/group.h kernel/group/place.h kernel/group/vars_plan.h kernel/group/group.c \
	kernel/group/ledger.c kernel/group/parking.h kernel/group/parking.c kernel/group/place.c kernel/group/vars_plan.c \
	kernel/comms/comms.h kernel/comms/private.h kernel/comms/comms.c kernel/comms/text.c kernel/comms/updates.c kernel/comms/widget_state.c \
	kernel/notebook/cell_ops.h kernel/notebook/notebook.h \
	kernel/notebook/comm_output.c kernel/notebook/comm_routes.c \
	kernel/notebook/debugger.h kernel/notebook/debugger.c \
	kernel/notebook/home.c kernel/notebook/info.c kernel/notebook/json_text.c kernel/notebook/lookup.c \
	kernel/notebook/finds.c kernel/notebook/question.c kernel/notebook/queue.c kernel/notebook/send.c \
	kernel/notebook/subshell_text.c kernel/notebook/subshells.c \
	kernel/cell/cell.h kernel/cell/cell_before.h kernel/cell/cell_nodes.h kernel/cell/cell_runs.h kernel/cell/cell_stops.h \
	kernel/cell/error_text.h kernel/cell/idle_release.h kernel/cell/live_status.h kernel/cell/meeting.h kernel/cell/notices.h kernel/cell/park.h kernel/cell/prompts.h kernel/cell/slow_answers.h \
	kernel/cell/bind_home.c kernel/cell/broadcast.c kernel/cell/capture.c kernel/cell/cell.c \
	kernel/cell/cell_output.c kernel/cell/display_order.h kernel/cell/display_order.c kernel/cell/cell_panel.h kernel/cell/cell_panel.c kernel/cell/cell_clears.h kernel/cell/cell_clears.c kernel/cell/compare.c kernel/cell/cut_ranks.c kernel/cell/terminate_ranks.c \
	kernel/cell/away_nodes.c kernel/cell/engine_of_cell.c kernel/cell/engine_image.c kernel/cell/error_hints.c kernel/cell/error_text.c kernel/cell/expand.c kernel/cell/cell_end.c kernel/cell/follow.c kernel/cell/exchange.c \
	kernel/cell/idle_release.c kernel/cell/live_status.c kernel/cell/meeting.c kernel/cell/notices.c kernel/cell/slow_answers.c kernel/cell/group_nodes.c kernel/cell/node_errors.c \
	kernel/cell/node_gpus.c kernel/cell/park.c kernel/cell/prepare.c kernel/cell/prompts.c kernel/cell/rank_events.c kernel/cell/rank_usage.c kernel/cell/gpu_memory.c \
	kernel/cell/node_addresses.c kernel/cell/run_cell.c kernel/cell/start_ranks.c kernel/cell/stop_cell.c kernel/cell/world_env.c \
	kernel/ranks/check.h kernel/ranks/ranks.h kernel/ranks/check.c kernel/ranks/check_answers.c kernel/ranks/check_facts.c \
	kernel/ranks/check_report.c kernel/ranks/collectives.c kernel/ranks/debug_rank.c kernel/ranks/hang.c kernel/ranks/rank_code.c kernel/ranks/rank_logs.c kernel/ranks/rank_table.c kernel/ranks/stopped_ranks.c kernel/ranks/where.c \
	kernel/dispatch/dispatch.h kernel/dispatch/private.h kernel/dispatch/async_calls.c kernel/dispatch/may_begin.h kernel/dispatch/may_begin.c kernel/dispatch/cell_begin.c kernel/dispatch/cell_steps.c kernel/dispatch/immediate.c kernel/dispatch/awaited.c \
	kernel/dispatch/dispatch.c kernel/dispatch/from_home.c kernel/dispatch/from_ranks.c

bin_PROGRAMS += cellspan-kernel
cellspan_kernel_SOURCES = kernel/main.c kernel/kernel.h kernel/kernel.c kernel/arguments.c
cellspan_kernel_LDADD = kernel/libkernel.a kernel/engines/libengines.a kernel/agents/libagents.a kernel/blobs/libblobs.a kernel/jupyter/libjupyter.a kernel/debug/libdebug.a kernel/merge/libmerge.a kernel/status/libstatus.a \
	magics/libmagics.a protocol/libprotocol.a base/libbase.a \
	$(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)

check_PROGRAMS += tests/unit/kernel/group.t tests/unit/kernel/cell.t tests/unit/kernel/troubles.t tests/unit/kernel/late.t tests/unit/kernel/memory.t \
	tests/unit/kernel/engines.t tests/unit/kernel/engine_gpus.t tests/unit/kernel/engines_again.t tests/unit/kernel/other_python.t tests/unit/kernel/place.t tests/unit/kernel/status.t tests/unit/kernel/where.t tests/unit/kernel/hang.t tests/unit/kernel/hang_calls.t \
	tests/unit/kernel/check.t tests/unit/kernel/broadcast.t tests/unit/kernel/finds.t tests/unit/kernel/question.t tests/unit/kernel/exchange.t tests/unit/kernel/calls.t tests/unit/kernel/immediate.t tests/unit/kernel/at_once.t tests/unit/kernel/at_once_ends.t tests/unit/kernel/awaited.t tests/unit/kernel/prompts.t \
	tests/unit/kernel/lost.t tests/unit/kernel/away.t tests/unit/kernel/gpu_memory.t tests/unit/kernel/comms.t tests/unit/kernel/widgets.t tests/unit/kernel/subshells.t tests/unit/kernel/notices.t tests/unit/kernel/idle_release.t tests/unit/kernel/gpu_wait.t tests/unit/kernel/park.t tests/unit/kernel/parking.t
kernel_test_libs = kernel/libkernel.a kernel/jupyter/libjupyter.a kernel/debug/libdebug.a kernel/merge/libmerge.a kernel/status/libstatus.a \
	magics/libmagics.a protocol/libprotocol.a base/libbase.a $(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
tests_unit_kernel_group_t_SOURCES = tests/unit/kernel/group.c
tests_unit_kernel_group_t_LDADD = $(kernel_test_libs)
kernel_double = tests/unit/kernel/double.h tests/unit/kernel/double.c tests/unit/kernel/arrivals.c tests/unit/kernel/requests.c
tests_unit_kernel_cell_t_SOURCES = tests/unit/kernel/cell.c $(kernel_double)
tests_unit_kernel_cell_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_troubles_t_SOURCES = tests/unit/kernel/troubles.c $(kernel_double)
tests_unit_kernel_troubles_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_late_t_SOURCES = tests/unit/kernel/late.c $(kernel_double)
tests_unit_kernel_late_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_check_t_SOURCES = tests/unit/kernel/check.c $(kernel_double)
tests_unit_kernel_check_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_broadcast_t_SOURCES = tests/unit/kernel/broadcast.c $(kernel_double)
tests_unit_kernel_broadcast_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_exchange_t_SOURCES = tests/unit/kernel/exchange.c $(kernel_double)
tests_unit_kernel_calls_t_SOURCES = tests/unit/kernel/calls.c $(kernel_double)
tests_unit_kernel_exchange_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_calls_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_immediate_t_SOURCES = tests/unit/kernel/immediate.c $(kernel_double)
tests_unit_kernel_immediate_t_LDADD = $(kernel_test_libs)
kernel_thread_calls = tests/unit/kernel/thread_calls.h tests/unit/kernel/thread_calls.c $(kernel_double)
tests_unit_kernel_at_once_t_SOURCES = tests/unit/kernel/at_once.c $(kernel_thread_calls)
tests_unit_kernel_at_once_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_at_once_ends_t_SOURCES = tests/unit/kernel/at_once_ends.c $(kernel_thread_calls)
tests_unit_kernel_at_once_ends_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_finds_t_SOURCES = tests/unit/kernel/finds.c $(kernel_double)
tests_unit_kernel_finds_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_awaited_t_SOURCES = tests/unit/kernel/awaited.c $(kernel_thread_calls)
tests_unit_kernel_awaited_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_question_t_SOURCES = tests/unit/kernel/question.c $(kernel_double)
tests_unit_kernel_question_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_prompts_t_SOURCES = tests/unit/kernel/prompts.c $(kernel_double)
tests_unit_kernel_prompts_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_subshells_t_SOURCES = tests/unit/kernel/subshells.c $(kernel_double)
tests_unit_kernel_subshells_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_status_t_SOURCES = tests/unit/kernel/status.c $(kernel_double)
tests_unit_kernel_status_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_where_t_SOURCES = tests/unit/kernel/where.c $(kernel_double)
tests_unit_kernel_where_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_hang_t_SOURCES = tests/unit/kernel/hang.c $(kernel_double)
tests_unit_kernel_hang_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_hang_calls_t_SOURCES = tests/unit/kernel/hang_calls.c $(kernel_double)
tests_unit_kernel_hang_calls_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_other_python_t_SOURCES = tests/unit/kernel/other_python.c $(kernel_double)
tests_unit_kernel_other_python_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_engines_t_SOURCES = tests/unit/kernel/engines.c $(kernel_double)
tests_unit_kernel_engines_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_engine_gpus_t_SOURCES = tests/unit/kernel/engine_gpus.c $(kernel_double)
tests_unit_kernel_engine_gpus_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_engines_again_t_SOURCES = tests/unit/kernel/engines_again.c $(kernel_double)
tests_unit_kernel_engines_again_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_gpu_memory_t_SOURCES = tests/unit/kernel/gpu_memory.c $(kernel_double)
tests_unit_kernel_gpu_memory_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_gpu_memory_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_kernel_comms_t_SOURCES = tests/unit/kernel/comms.c
tests_unit_kernel_comms_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_widgets_t_SOURCES = tests/unit/kernel/widgets.c $(kernel_double)
tests_unit_kernel_widgets_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_park_t_SOURCES = tests/unit/kernel/park.c $(kernel_double)
tests_unit_kernel_park_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_parking_t_SOURCES = tests/unit/kernel/parking.c
tests_unit_kernel_parking_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_gpu_wait_t_SOURCES = tests/unit/kernel/gpu_wait.c $(kernel_double)
tests_unit_kernel_gpu_wait_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_idle_release_t_SOURCES = tests/unit/kernel/idle_release.c $(kernel_double)
tests_unit_kernel_idle_release_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_notices_t_SOURCES = tests/unit/kernel/notices.c $(kernel_double)
tests_unit_kernel_notices_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_away_t_SOURCES = tests/unit/kernel/away.c $(kernel_double)
tests_unit_kernel_away_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_lost_t_SOURCES = tests/unit/kernel/lost.c $(kernel_double)
tests_unit_kernel_lost_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_place_t_SOURCES = tests/unit/kernel/place.c
tests_unit_kernel_place_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_memory_t_SOURCES = tests/unit/kernel/memory.c $(kernel_double)
tests_unit_kernel_memory_t_LDADD = $(kernel_test_libs)
tests_unit_kernel_memory_t_LDFLAGS = $(CHAOS_LINK)
