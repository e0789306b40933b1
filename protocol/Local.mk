noinst_LIBRARIES += protocol/libprotocol.a
protocol_libprotocol_a_SOURCES = \
	protocol/reader.h protocol/reader.c \
	protocol/writer.h protocol/writer.c \
	protocol/span.h protocol/span.c protocol/span_fields.h protocol/span_table.c \
	protocol/jupyter.h protocol/jupyter.c \
	protocol/hmac.h protocol/hmac.c \
	protocol/history.h protocol/history.c
EXTRA_DIST += protocol/README.md
