# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += kernel/jupyter/libjupyter.a
kernel_jupyter_libjupyter_a_SOURCES = \
	kernel/jupyter/channels.h kernel/jupyter/channels.c \
	kernel/jupyter/connection.h kernel/jupyter/connection.c \
	kernel/jupyter/private.h \
	kernel/jupyter/sockets.c \
	kernel/jupyter/heartbeat.c \
	kernel/jupyter/waiting_replies.c kernel/jupyter/out_message.h kernel/jupyter/out_message.c \
	kernel/jupyter/iopub.c \
	kernel/jupyter/request.c \
	kernel/jupyter/inbox.h kernel/jupyter/inbox.c \
	kernel/jupyter/proc.c \
	kernel/jupyter/usage.c

EXTRA_DIST += tests/unit/jupyter/client.h
jupyter_test_libs = kernel/jupyter/libjupyter.a protocol/libprotocol.a base/libbase.a \
	$(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
check_PROGRAMS += \
	tests/unit/jupyter/busy.t \
	tests/unit/jupyter/connection.t \
	tests/unit/jupyter/channels.t \
	tests/unit/jupyter/told.t \
	tests/unit/protocol/jupyter.t
tests_unit_jupyter_busy_t_SOURCES = tests/unit/jupyter/busy.c
tests_unit_jupyter_busy_t_LDADD = $(jupyter_test_libs)
tests_unit_jupyter_connection_t_SOURCES = tests/unit/jupyter/connection.c
tests_unit_jupyter_connection_t_LDADD = $(jupyter_test_libs)
tests_unit_jupyter_channels_t_SOURCES = tests/unit/jupyter/channels.c
tests_unit_jupyter_channels_t_LDADD = $(jupyter_test_libs)
tests_unit_jupyter_told_t_SOURCES = tests/unit/jupyter/told.c
tests_unit_jupyter_told_t_LDADD = $(jupyter_test_libs)
tests_unit_protocol_jupyter_t_SOURCES = tests/unit/protocol/jupyter.c
tests_unit_protocol_jupyter_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_protocol_jupyter_t_LDADD = $(jupyter_test_libs)
