# Each target is a test of its own here, over the vectors; tests/fuzz/run hands it to libFuzzer.
check_PROGRAMS += tests/fuzz/span_decode.t tests/fuzz/packet.t
EXTRA_PROGRAMS += tests/fuzz/dictionary tests/fuzz/span_decode.fuzz tests/fuzz/packet.fuzz
EXTRA_DIST += tests/fuzz/run tests/fuzz/fuzz.h

tests_fuzz_dictionary_SOURCES = tests/fuzz/dictionary.c
tests_fuzz_dictionary_LDADD = protocol/libprotocol.a base/libbase.a

tests_fuzz_span_decode_t_SOURCES = tests/fuzz/driver.c tests/fuzz/span_decode.c
tests_fuzz_span_decode_t_LDADD = protocol/libprotocol.a base/libbase.a
tests_fuzz_span_decode_fuzz_SOURCES = tests/fuzz/span_decode.c
tests_fuzz_span_decode_fuzz_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_span_decode_fuzz_LDADD = protocol/libprotocol.a base/libbase.a

tests_fuzz_packet_t_SOURCES = tests/fuzz/driver.c tests/fuzz/packet.c
tests_fuzz_packet_t_LDADD = worker/link/liblink.a protocol/libprotocol.a base/libbase.a
tests_fuzz_packet_fuzz_SOURCES = tests/fuzz/packet.c
tests_fuzz_packet_fuzz_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_packet_fuzz_LDADD = worker/link/liblink.a protocol/libprotocol.a base/libbase.a
