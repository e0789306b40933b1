# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += worker/link/liblink.a
worker_link_liblink_a_SOURCES = \
	worker/link/packet.h worker/link/packet.c worker/link/stacks.h

check_PROGRAMS += \
	tests/unit/worker/link/packet.t
tests_unit_worker_link_packet_t_SOURCES = tests/unit/worker/link/packet.c
tests_unit_worker_link_packet_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_worker_link_packet_t_LDADD = worker/link/liblink.a protocol/libprotocol.a base/libbase.a
