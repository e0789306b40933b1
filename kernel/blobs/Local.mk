# SPDX-License-Identifier: BSD-3-Clause
# Where large variables are, and how they get from node to node.
noinst_LIBRARIES += kernel/blobs/libblobs.a
kernel_blobs_libblobs_a_SOURCES = \
	kernel/blobs/blob_route.h kernel/blobs/blob_route.c \
	kernel/blobs/blob_schedule.h kernel/blobs/blob_schedule.c \
	kernel/blobs/blob_table.c \
	kernel/blobs/direct_links.h kernel/blobs/direct_links.c \
	kernel/blobs/local_blobs.h kernel/blobs/local_blobs.c

check_PROGRAMS += tests/unit/kernel/blobs/blob_schedule.t tests/unit/kernel/blobs/blob_table.t \
	tests/unit/kernel/blobs/link_failures.t tests/unit/kernel/blobs/local_blobs.t
tests_unit_kernel_blobs_blob_schedule_t_SOURCES = tests/unit/kernel/blobs/blob_schedule.c \
	tests/unit/kernel/blobs/yard.h tests/unit/kernel/blobs/yard.c
tests_unit_kernel_blobs_blob_schedule_t_LDADD = kernel/blobs/libblobs.a worker/agent/libagent.a worker/link/liblink.a \
	protocol/libprotocol.a base/libbase.a $(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
tests_unit_kernel_blobs_link_failures_t_SOURCES = tests/unit/kernel/blobs/link_failures.c \
	tests/unit/kernel/blobs/yard.h tests/unit/kernel/blobs/yard.c
tests_unit_kernel_blobs_link_failures_t_LDADD = $(tests_unit_kernel_blobs_blob_schedule_t_LDADD)
tests_unit_kernel_blobs_blob_table_t_SOURCES = tests/unit/kernel/blobs/blob_table.c
tests_unit_kernel_blobs_blob_table_t_LDADD = kernel/blobs/libblobs.a protocol/libprotocol.a base/libbase.a $(SODIUM_LIBS)
tests_unit_kernel_blobs_blob_table_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_kernel_blobs_local_blobs_t_SOURCES = tests/unit/kernel/blobs/local_blobs.c
tests_unit_kernel_blobs_local_blobs_t_LDADD = kernel/blobs/libblobs.a protocol/libprotocol.a base/libbase.a \
	$(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
