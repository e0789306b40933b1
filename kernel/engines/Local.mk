# SPDX-License-Identifier: BSD-3-Clause
# The processes that the kernel starts: engines, and this machine's agent.
noinst_LIBRARIES += kernel/engines/libengines.a
kernel_engines_libengines_a_SOURCES = \
	kernel/engines/private.h \
	kernel/engines/engine_environment.c \
	kernel/engines/engine_find.c \
	kernel/engines/engine_lines.c \
	kernel/engines/engine_nodes.c \
	kernel/engines/engine_process.c \
	kernel/engines/engine_run.c \
	kernel/engines/engines.h kernel/engines/engines.c \
	kernel/engines/local_agent.c

check_PROGRAMS += tests/unit/kernel/engines/engine_lines.t tests/unit/kernel/engines/engine_run.t
tests_unit_kernel_engines_engine_lines_t_SOURCES = tests/unit/kernel/engines/engine_lines.c
tests_unit_kernel_engines_engine_lines_t_LDADD = $(agents_test_libs)
tests_unit_kernel_engines_engine_lines_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_kernel_engines_engine_run_t_SOURCES = tests/unit/kernel/engines/engine_run.c $(agents_stage)
tests_unit_kernel_engines_engine_run_t_LDADD = $(agents_test_libs)
