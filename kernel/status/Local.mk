# SPDX-License-Identifier: BSD-3-Clause
# kernel/status: the table of the ranks.
noinst_LIBRARIES += kernel/status/libstatus.a
kernel_status_libstatus_a_SOURCES = kernel/status/status.h kernel/status/status_table.h kernel/status/status_table.c kernel/status/status_cell.c \
	kernel/status/grid.c

check_PROGRAMS += tests/unit/status/status.t
tests_unit_status_status_t_SOURCES = tests/unit/status/status.c
tests_unit_status_status_t_LDADD = kernel/status/libstatus.a base/libbase.a
