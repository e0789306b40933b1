# SPDX-License-Identifier: BSD-3-Clause
# kernel/debug: many workers' debuggers, which clients see as one.
noinst_LIBRARIES += kernel/debug/libdebug.a
kernel_debug_libdebug_a_SOURCES = kernel/debug/debug.h kernel/debug/private.h kernel/debug/answers.c kernel/debug/debug.c \
	kernel/debug/ids.c kernel/debug/line_numbers.c kernel/debug/sessions.c kernel/debug/workers.c

check_PROGRAMS += tests/unit/debug/front.t
tests_unit_debug_front_t_SOURCES = tests/unit/debug/front.c
tests_unit_debug_front_t_LDADD = kernel/debug/libdebug.a base/libbase.a $(JANSSON_LIBS)
