# SPDX-License-Identifier: BSD-3-Clause
# worker/collective: how ranks' connections are checked, with NCCL (by dlopen) or plain tcp. Linked into the extension, and
# what asks NCCL's RAS into the agent.
noinst_LIBRARIES += worker/collective/libcollective.a
worker_collective_libcollective_a_SOURCES = \
	worker/collective/nccl_broadcast.h worker/collective/nccl_broadcast.c \
	worker/collective/comm.h worker/collective/comm.c \
	worker/collective/cuda_driver.h worker/collective/cuda_driver.c \
	worker/collective/figures.h worker/collective/figures.c \
	worker/collective/nccl_headers.c \
	worker/collective/deadline.h worker/collective/deadline.c \
	worker/collective/measure.c \
	worker/collective/mesh.h worker/collective/mesh.c \
	worker/collective/nccl.h worker/collective/nccl.c \
	worker/collective/nccl_transport.c \
	worker/collective/ras.h worker/collective/ras.c worker/collective/ras_ask.c \
	worker/collective/stream.h worker/collective/stream.c \
	worker/collective/tcp.c \
	worker/collective/transport.h
worker_collective_libcollective_a_CPPFLAGS = $(AM_CPPFLAGS) $(NCCL_CPPFLAGS) $(CUDA_CPPFLAGS)
EXTRA_DIST += worker/collective/README.md worker/collective/plain/cuda_runtime.h worker/collective/plain/cuda_fp16.h

COLLECTIVE_LIBS = worker/collective/libcollective.a base/libbase.a
check_PROGRAMS += \
	tests/unit/collective/links.t \
	tests/unit/collective/tcp.t
tests_unit_collective_links_t_SOURCES = tests/unit/collective/links.c
tests_unit_collective_links_t_LDADD = $(COLLECTIVE_LIBS) -lm
tests_unit_collective_tcp_t_SOURCES = tests/unit/collective/tcp.c
tests_unit_collective_tcp_t_LDADD = $(COLLECTIVE_LIBS)

# What plays NCCL and the CUDA driver where there is no GPU: tests/doubles/nccl_double.h.
nccl_double = $(srcdir)/tests/doubles/nccl_double.c $(srcdir)/tests/doubles/nccl_cuda.c
EXTRA_DIST += tests/doubles/nccl_double.h tests/doubles/nccl_double.c tests/doubles/nccl_cuda.c
CLEANFILES += tests/doubles/libnccl.so
tests/doubles/libnccl.so: $(nccl_double) $(srcdir)/tests/doubles/nccl_double.h $(srcdir)/worker/collective/nccl.h \
		$(srcdir)/worker/collective/cuda_driver.h
	$(AM_V_CCLD)$(MKDIR_P) tests/doubles && $(CC) -I$(top_srcdir) $(CPPFLAGS) -D_GNU_SOURCE -std=gnu11 $(WARN_CFLAGS) $(CFLAGS) \
		-fPIC -shared -fvisibility=hidden -pthread -o $@ $(nccl_double)
check_PROGRAMS += tests/unit/collective/nccl.t
tests_unit_collective_nccl_t_SOURCES = tests/unit/collective/nccl.c
tests_unit_collective_nccl_t_LDADD = $(COLLECTIVE_LIBS)
EXTRA_tests_unit_collective_nccl_t_DEPENDENCIES = tests/doubles/libnccl.so
check_PROGRAMS += tests/unit/collective/measure.t
tests_unit_collective_measure_t_SOURCES = tests/unit/collective/measure.c
tests_unit_collective_measure_t_LDADD = $(COLLECTIVE_LIBS)
check_PROGRAMS += tests/unit/collective/ras.t
tests_unit_collective_ras_t_SOURCES = tests/unit/collective/ras.c
tests_unit_collective_ras_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_collective_ras_t_LDADD = $(COLLECTIVE_LIBS)
