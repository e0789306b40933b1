# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += base/libbase.a
base_libbase_a_SOURCES = \
	base/err.h base/err.c \
	base/slice.h base/le.h base/needs.h \
	base/memory.h base/path.h \
	base/buf.h base/buf.c \
	base/rows.h base/rows.c \
	base/utf8.h base/utf8.c \
	base/agent_lines.h \
	base/child_lines.h base/child_lines.c \
	base/tail.c \
	base/suggest.h base/suggest.c \
	base/murmur2.h base/murmur2.c \
	base/cmdline.h base/cmdline.c \
	base/rank_set.h base/rank_set.c \
	base/library.h base/library.c \
	base/quoted.h base/quoted.c \
	base/links.h base/links.c \
	base/beat.h base/beat.c \
	base/clock.h base/clock.c \
	base/duration.h base/duration.c \
	base/log.h base/log.c \
	base/seed.h \
	base/settings.h base/settings.c \
	base/trusted_file.h base/trusted_file.c \
	base/settings_files.h base/settings_files.c \
	vendor/tomlc17/tomlc17.h vendor/tomlc17/tomlc17.c \
	base/random.h base/random.c \
	base/orphans.c \
	base/limit_held.c \
	base/process.h base/process.c base/fd.c \
	base/ports.h base/ports.c \
	base/descriptor.h base/descriptor.c \
	base/blob.h base/blob.c \
	base/memory_limit.h base/memory_limit.c \
	base/meter.h base/meter.c \
	base/runtime.h base/runtime.c \
	base/unix_socket.h base/unix_socket.c \
	base/mux/mux.h base/mux/mux.c \
	base/mux/forward.h base/mux/forward.c \
	base/loop/wake.h base/loop/wake.c \
	base/loop/loop.h base/loop/loop.c \
	base/loop/message_stream.h base/loop/message_stream.c \
	base/loop/monitor.h base/loop/monitor.c \
	base/loop/zap.h base/loop/zap.c

# The parser of TOML is not ours, and not clean of our warnings. It computes the size of a struct from a null pointer, as offsetof()
# once was written, which clang's sanitizer reports.
vendor/tomlc17/tomlc17.o: WARN_CFLAGS = -w
vendor/tomlc17/tomlc17.o: SAN_CFLAGS := $(SAN_CFLAGS) $(if $(SAN_CFLAGS),$(addprefix -fno-sanitize=,null alignment object-size pointer-overflow))
EXTRA_DIST += vendor/tomlc17/LICENSE vendor/tomlc17/README.md

# Allocations that fail on demand; see tests/unit/chaos.h.
CHAOS_LINK = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc

check_PROGRAMS += \
	tests/unit/base/beat.t \
	tests/unit/base/buf.t \
	tests/unit/base/child_lines.t \
	tests/unit/base/cmdline.t \
	tests/unit/base/ports.t \
	tests/unit/base/rank_set.t \
	tests/unit/base/settings.t \
	tests/unit/base/settings_files.t \
	tests/unit/base/settings_maxima.t \
	tests/unit/base/rows.t \
	tests/unit/base/utf8.t
EXTRA_DIST += tests/unit/chaos.h tests/unit/descriptors.h
tests_unit_base_beat_t_SOURCES = tests/unit/base/beat.c
tests_unit_base_beat_t_LDADD = base/libbase.a
tests_unit_base_buf_t_SOURCES = tests/unit/base/buf.c
tests_unit_base_buf_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_base_buf_t_LDADD = base/libbase.a
tests_unit_base_cmdline_t_SOURCES = tests/unit/base/cmdline.c
tests_unit_base_cmdline_t_LDADD = base/libbase.a
tests_unit_base_ports_t_SOURCES = tests/unit/base/ports.c
tests_unit_base_ports_t_LDADD = base/libbase.a
tests_unit_base_child_lines_t_SOURCES = tests/unit/base/child_lines.c
tests_unit_base_child_lines_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_base_child_lines_t_LDADD = base/libbase.a
tests_unit_base_settings_t_SOURCES = tests/unit/base/settings.c
tests_unit_base_settings_t_LDADD = base/libbase.a
tests_unit_base_settings_maxima_t_SOURCES = tests/unit/base/settings_maxima.c tests/unit/base/settings_folder.h
tests_unit_base_settings_maxima_t_LDADD = base/libbase.a
tests_unit_base_settings_files_t_SOURCES = tests/unit/base/settings_files.c tests/unit/base/settings_folder.h
tests_unit_base_settings_files_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_base_settings_files_t_LDADD = base/libbase.a
tests_unit_base_rank_set_t_SOURCES = tests/unit/base/rank_set.c
tests_unit_base_rank_set_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_base_rank_set_t_LDADD = base/libbase.a
tests_unit_base_rows_t_SOURCES = tests/unit/base/rows.c
tests_unit_base_rows_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_base_rows_t_LDADD = base/libbase.a
tests_unit_base_utf8_t_SOURCES = tests/unit/base/utf8.c
tests_unit_base_utf8_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_base_utf8_t_LDADD = base/libbase.a

check_PROGRAMS += \
	tests/unit/base/blob.t \
	tests/unit/base/descriptor.t \
	tests/unit/base/le.t \
	tests/unit/base/loop.t \
	tests/unit/base/message_stream.t \
	tests/unit/base/meter.t \
	tests/unit/base/mux.t \
	tests/unit/base/forward.t \
	tests/unit/base/process.t \
	tests/unit/base/runtime.t \
	tests/unit/base/zap.t
tests_unit_base_blob_t_SOURCES = tests/unit/base/blob.c
tests_unit_base_blob_t_LDADD = base/libbase.a
tests_unit_base_descriptor_t_SOURCES = tests/unit/base/descriptor.c
tests_unit_base_descriptor_t_LDADD = base/libbase.a
tests_unit_base_le_t_SOURCES = tests/unit/base/le.c
tests_unit_base_le_t_LDADD = base/libbase.a
tests_unit_base_loop_t_SOURCES = tests/unit/base/loop.c
tests_unit_base_loop_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_base_loop_t_LDADD = base/libbase.a $(ZMQ_LIBS)
tests_unit_base_message_stream_t_SOURCES = tests/unit/base/message_stream.c
tests_unit_base_message_stream_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_base_message_stream_t_LDADD = base/libbase.a $(ZMQ_LIBS)
tests_unit_base_meter_t_SOURCES = tests/unit/base/meter.c
tests_unit_base_meter_t_LDADD = base/libbase.a
tests_unit_base_mux_t_SOURCES = tests/unit/base/mux.c
tests_unit_base_mux_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_base_mux_t_LDADD = base/libbase.a
tests_unit_base_forward_t_SOURCES = tests/unit/base/forward.c
tests_unit_base_forward_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_base_forward_t_LDADD = base/libbase.a $(ZMQ_LIBS)
tests_unit_base_process_t_SOURCES = tests/unit/base/process.c
tests_unit_base_process_t_LDADD = base/libbase.a
tests_unit_base_runtime_t_SOURCES = tests/unit/base/runtime.c
tests_unit_base_runtime_t_LDADD = base/libbase.a $(SODIUM_LIBS) $(UUID_LIBS)
tests_unit_base_zap_t_SOURCES = tests/unit/base/zap.c
tests_unit_base_zap_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_base_zap_t_LDADD = base/libbase.a $(ZMQ_LIBS)
