noinst_LIBRARIES += kernel/jupyter/libfront.a
kernel_jupyter_libfront_a_SOURCES = \
	kernel/jupyter/front.h kernel/jupyter/front.c \
	kernel/jupyter/connection.h kernel/jupyter/connection.c \
	kernel/jupyter/private.h \
	kernel/jupyter/sockets.c \
	kernel/jupyter/owner.c \
	kernel/jupyter/heartbeat.c \
	kernel/jupyter/outbound.h kernel/jupyter/outbound.c \
	kernel/jupyter/iopub.c \
	kernel/jupyter/request.c \
	kernel/jupyter/inbox.h kernel/jupyter/inbox.c \
	kernel/jupyter/proc.c \
	kernel/jupyter/usage.c

EXTRA_DIST += tests/unit/jupyter/client.h
front_test_libs = kernel/jupyter/libfront.a protocol/libprotocol.a base/libbase.a \
	$(ZMQ_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
check_PROGRAMS += \
	tests/unit/jupyter/connection.t \
	tests/unit/jupyter/front.t \
	tests/unit/protocol/jupyter.t
tests_unit_jupyter_connection_t_SOURCES = tests/unit/jupyter/connection.c
tests_unit_jupyter_connection_t_LDADD = $(front_test_libs)
tests_unit_jupyter_front_t_SOURCES = tests/unit/jupyter/front.c
tests_unit_jupyter_front_t_LDADD = $(front_test_libs)
tests_unit_protocol_jupyter_t_SOURCES = tests/unit/protocol/jupyter.c
tests_unit_protocol_jupyter_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_protocol_jupyter_t_LDADD = $(front_test_libs)
