# SPDX-License-Identifier: BSD-3-Clause
# Each target is a test of its own here, over the vectors; tests/fuzz/run hands it to libFuzzer.
check_PROGRAMS += tests/fuzz/span_decode.t tests/fuzz/packet.t tests/fuzz/route.t tests/fuzz/words.t tests/fuzz/gpus.t \
	tests/fuzz/jupyter_decode.t tests/fuzz/plan_parse.t tests/fuzz/mux.t tests/fuzz/settings_files.t
EXTRA_PROGRAMS += tests/fuzz/dictionary tests/fuzz/span_decode.fuzz tests/fuzz/packet.fuzz tests/fuzz/route.fuzz \
	tests/fuzz/words.fuzz tests/fuzz/gpus.fuzz tests/fuzz/jupyter_decode.fuzz tests/fuzz/plan_parse.fuzz \
	tests/fuzz/mux.fuzz tests/fuzz/settings_files.fuzz
EXTRA_DIST += tests/fuzz/run tests/fuzz/fuzz.h tests/fuzz/seeds

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

tests_fuzz_route_t_SOURCES = tests/fuzz/driver.c tests/fuzz/route.c
tests_fuzz_route_t_LDADD = protocol/libprotocol.a base/libbase.a
tests_fuzz_route_fuzz_SOURCES = tests/fuzz/route.c
tests_fuzz_route_fuzz_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_route_fuzz_LDADD = protocol/libprotocol.a base/libbase.a

words_fuzz_libs = kernel/engines/libengines.a kernel/blobs/libblobs.a $(AGENT_TEST_LIBS) magics/libmagics.a protocol/libprotocol.a base/libbase.a $(ZMQ_LIBS) $(JANSSON_LIBS) \
	$(SODIUM_LIBS) $(UUID_LIBS)
tests_fuzz_words_t_SOURCES = tests/fuzz/driver.c tests/fuzz/words.c
tests_fuzz_words_t_LDADD = $(words_fuzz_libs)
tests_fuzz_words_fuzz_SOURCES = tests/fuzz/words.c
tests_fuzz_words_fuzz_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_words_fuzz_LDADD = $(words_fuzz_libs)

gpus_fuzz_libs = worker/agent/gpu/libgpu.a worker/collective/libcollective.a base/libbase.a $(JANSSON_LIBS) $(SODIUM_LIBS) $(UUID_LIBS)
tests_fuzz_gpus_t_SOURCES = tests/fuzz/driver.c tests/fuzz/gpus.c
tests_fuzz_gpus_t_LDADD = $(gpus_fuzz_libs)
tests_fuzz_gpus_fuzz_SOURCES = tests/fuzz/gpus.c
tests_fuzz_gpus_fuzz_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_gpus_fuzz_LDADD = $(gpus_fuzz_libs)

tests_fuzz_jupyter_decode_t_SOURCES = tests/fuzz/driver.c tests/fuzz/jupyter_decode.c
tests_fuzz_jupyter_decode_t_LDADD = $(jupyter_test_libs)
tests_fuzz_jupyter_decode_fuzz_SOURCES = tests/fuzz/jupyter_decode.c
tests_fuzz_jupyter_decode_fuzz_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_jupyter_decode_fuzz_LDADD = $(jupyter_test_libs)

tests_fuzz_plan_parse_t_SOURCES = tests/fuzz/driver.c tests/fuzz/plan_parse.c
tests_fuzz_plan_parse_t_LDADD = $(magics_test_libs) protocol/libprotocol.a
tests_fuzz_plan_parse_fuzz_SOURCES = tests/fuzz/plan_parse.c
tests_fuzz_plan_parse_fuzz_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_plan_parse_fuzz_LDADD = $(magics_test_libs)

tests_fuzz_mux_t_SOURCES = tests/fuzz/driver.c tests/fuzz/mux.c
tests_fuzz_mux_t_LDADD = base/libbase.a
tests_fuzz_mux_fuzz_SOURCES = tests/fuzz/mux.c
tests_fuzz_mux_fuzz_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_mux_fuzz_LDADD = base/libbase.a

tests_fuzz_settings_files_t_SOURCES = tests/fuzz/driver.c tests/fuzz/settings_files.c
tests_fuzz_settings_files_t_LDFLAGS = $(CHAOS_LINK)
tests_fuzz_settings_files_t_LDADD = base/libbase.a
tests_fuzz_settings_files_fuzz_SOURCES = tests/fuzz/settings_files.c
tests_fuzz_settings_files_fuzz_LDFLAGS = $(CHAOS_LINK) -fsanitize=fuzzer
tests_fuzz_settings_files_fuzz_LDADD = base/libbase.a
