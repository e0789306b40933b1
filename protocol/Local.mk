# SPDX-License-Identifier: BSD-3-Clause
noinst_LIBRARIES += protocol/libprotocol.a
protocol_libprotocol_a_SOURCES = \
	protocol/bytes.h protocol/bytes.c \
	protocol/span.h protocol/span.c protocol/span_fields.h protocol/span_flags.h protocol/span_table.c \
	protocol/jupyter.h protocol/jupyter.c \
	protocol/hmac.c \
	protocol/json_repair.h protocol/json_repair.c \
	protocol/seen_signatures.c \
	protocol/route.h protocol/route.c \
	protocol/send_window.h protocol/send_window.c \
	protocol/session.h protocol/session.c \
	protocol/keys.h protocol/keys.c
EXTRA_DIST += protocol/README.md
EXTRA_DIST += \
	protocol/vectors/span-bind.hex \
	protocol/vectors/span-hello.hex \
	protocol/vectors/span-lines.hex \
	protocol/vectors/span-refused-kind.hex \
	protocol/vectors/span-refused-limit.hex \
	protocol/vectors/span-refused-list.hex \
	protocol/vectors/span-refused-newer.hex \
	protocol/vectors/span-refused-short.hex \
	protocol/vectors/span-refused-surplus.hex \
	protocol/vectors/span-refused-utf8.hex \
	protocol/vectors/span-refused-zero.hex \
	protocol/vectors/span-reply.hex \
	protocol/vectors/span-resume.hex \
	protocol/vectors/span-run.hex \
	protocol/vectors/span-cut-ranks.hex \
	protocol/vectors/span-start.hex

check_PROGRAMS += \
	tests/unit/protocol/send_window.t \
	tests/unit/protocol/session.t \
	tests/unit/protocol/bytes.t \
	tests/unit/protocol/span.t \
	tests/unit/protocol/table.t \
	tests/unit/protocol/vectors.t
EXTRA_DIST += tests/unit/protocol/fill.h tests/unit/protocol/kinds.h tests/unit/protocol/source.h
tests_unit_protocol_send_window_t_SOURCES = tests/unit/protocol/send_window.c
tests_unit_protocol_send_window_t_LDADD = protocol/libprotocol.a base/libbase.a
tests_unit_protocol_session_t_SOURCES = tests/unit/protocol/session.c
tests_unit_protocol_session_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_protocol_session_t_LDADD = protocol/libprotocol.a base/libbase.a
tests_unit_protocol_bytes_t_SOURCES = tests/unit/protocol/bytes.c
tests_unit_protocol_bytes_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_protocol_bytes_t_LDADD = protocol/libprotocol.a base/libbase.a
tests_unit_protocol_span_t_SOURCES = tests/unit/protocol/span.c
tests_unit_protocol_span_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_protocol_span_t_LDADD = protocol/libprotocol.a base/libbase.a
tests_unit_protocol_table_t_SOURCES = tests/unit/protocol/table.c
tests_unit_protocol_table_t_LDADD = protocol/libprotocol.a base/libbase.a
tests_unit_protocol_vectors_t_SOURCES = tests/unit/protocol/vectors.c
tests_unit_protocol_vectors_t_LDADD = protocol/libprotocol.a base/libbase.a
