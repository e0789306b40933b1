# SPDX-License-Identifier: BSD-3-Clause
# magics: text in, a plan or a usage error out.
noinst_LIBRARIES += magics/libmagics.a
magics_libmagics_a_SOURCES = \
	magics/table.h \
	magics/plan.h magics/plan.c \
	magics/head.c \
	magics/token.c \
	magics/option.h magics/option.c magics/value.c \
	magics/help.c magics/complete.c \
	magics/distribute.c magics/push.c magics/pull.c magics/ranks.c

check_PROGRAMS += \
	tests/unit/magics/parse.t \
	tests/unit/magics/peek.t \
	tests/unit/magics/words.t \
	tests/unit/magics/fuzz.t
magics_test_libs = magics/libmagics.a base/libbase.a
tests_unit_magics_parse_t_SOURCES = tests/unit/magics/parse.c
tests_unit_magics_parse_t_LDADD = $(magics_test_libs)
tests_unit_magics_peek_t_SOURCES = tests/unit/magics/peek.c
tests_unit_magics_peek_t_LDADD = $(magics_test_libs)
tests_unit_magics_words_t_SOURCES = tests/unit/magics/words.c
tests_unit_magics_words_t_LDADD = $(magics_test_libs)
tests_unit_magics_fuzz_t_SOURCES = tests/unit/magics/fuzz.c tests/fuzz/plan_parse.c
tests_unit_magics_fuzz_t_LDADD = $(magics_test_libs)
check_PROGRAMS += tests/unit/magics/chaos.t
tests_unit_magics_chaos_t_SOURCES = tests/unit/magics/chaos.c
tests_unit_magics_chaos_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_magics_chaos_t_LDADD = $(magics_test_libs)
