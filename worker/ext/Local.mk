# SPDX-License-Identifier: BSD-3-Clause
# worker/ext: the extension cellspan._link, one file for every Python since 3.9; it lands beside the package's modules.
cellspan_py_PROGRAMS = worker/python/cellspan/_link.abi3.so
worker_python_cellspan__link_abi3_so_SOURCES = \
	worker/ext/python.h \
	worker/ext/_link.c \
	worker/ext/side_queue.h worker/ext/side_queue.c \
	worker/ext/broadcasts.c worker/ext/gpu_libraries.c worker/ext/meshes.c \
	worker/ext/collective.h worker/ext/collective.c \
	worker/ext/cond.h \
	worker/ext/convey.c \
	worker/ext/convert.c \
	worker/ext/crash_stack.c \
	worker/ext/cut.c \
	worker/ext/find_calls.c worker/ext/find_waits.h worker/ext/find_waits.c \
	worker/ext/flusher.h worker/ext/flusher.c \
	worker/ext/library_imports.c \
	worker/ext/limits.c \
	worker/ext/step_count.c \
	worker/ext/link.h worker/ext/link.c \
	worker/ext/link_interrupts.h worker/ext/link_interrupts.c \
	worker/ext/live_stacks.c \
	worker/ext/magics.c \
	worker/ext/memory_compare.c \
	worker/ext/private.h worker/ext/names.c \
	worker/ext/pause.c \
	worker/ext/process_calls.c \
	worker/ext/shared.c \
	worker/ext/unshared.c \
	worker/ext/watched.c
worker_python_cellspan__link_abi3_so_CPPFLAGS = $(AM_CPPFLAGS) $(PYTHON_CPPFLAGS)
worker_python_cellspan__link_abi3_so_LDFLAGS = $(MODULE_LDFLAGS) $(HARDEN_LDFLAGS) $(SAN_LDFLAGS)
worker_python_cellspan__link_abi3_so_LDADD = worker/collective/libcollective.a worker/link/liblink.a magics/libmagics.a protocol/libprotocol.a base/libbase.a

check_PROGRAMS += \
	tests/unit/worker/ext/side_queue.t
tests_unit_worker_ext_side_queue_t_SOURCES = tests/unit/worker/ext/side_queue.c worker/ext/side_queue.h worker/ext/side_queue.c
tests_unit_worker_ext_side_queue_t_LDADD = worker/link/liblink.a protocol/libprotocol.a base/libbase.a
