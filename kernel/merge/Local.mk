# SPDX-License-Identifier: BSD-3-Clause
# kernel/merge: lines of many ranks in, text blocks out, at a rate that clients accept.
noinst_LIBRARIES += kernel/merge/libmerge.a
kernel_merge_libmerge_a_SOURCES = \
	kernel/merge/merge.h kernel/merge/private.h kernel/merge/merge.c \
	kernel/merge/put.c \
	kernel/merge/private_modes.c \
	kernel/merge/source.c \
	kernel/merge/frame.c \
	kernel/merge/line_queue.c \
	kernel/merge/fold.c \
	kernel/merge/show.c \
	kernel/merge/label.c \
	kernel/merge/bars.c \
	kernel/merge/pace.h kernel/merge/pace.c \
	kernel/merge/output_limit.c \
	kernel/merge/omit.h kernel/merge/omit.c \
	kernel/merge/panel.h kernel/merge/panel_private.h kernel/merge/panel.c \
	kernel/merge/panel_html.c \
	kernel/merge/tab_lines.c \
	kernel/merge/ansi.c

check_PROGRAMS += \
	tests/unit/merge/fold.t \
	tests/unit/merge/modes.t \
	tests/unit/merge/bars.t \
	tests/unit/merge/order.t \
	tests/unit/merge/frame.t \
	tests/unit/merge/pace.t
merge_test_libs = kernel/merge/libmerge.a base/libbase.a
tests_unit_merge_fold_t_SOURCES = tests/unit/merge/fold.c tests/unit/merge/fixture.h
tests_unit_merge_fold_t_LDADD = $(merge_test_libs)
tests_unit_merge_modes_t_SOURCES = tests/unit/merge/modes.c tests/unit/merge/fixture.h
tests_unit_merge_modes_t_LDADD = $(merge_test_libs)
tests_unit_merge_bars_t_SOURCES = tests/unit/merge/bars.c tests/unit/merge/fixture.h
tests_unit_merge_bars_t_LDADD = $(merge_test_libs)
tests_unit_merge_order_t_SOURCES = tests/unit/merge/order.c tests/unit/merge/fixture.h
tests_unit_merge_order_t_LDADD = $(merge_test_libs)
tests_unit_merge_frame_t_SOURCES = tests/unit/merge/frame.c tests/unit/merge/fixture.h
tests_unit_merge_frame_t_LDADD = $(merge_test_libs)
tests_unit_merge_pace_t_SOURCES = tests/unit/merge/pace.c
tests_unit_merge_pace_t_LDADD = $(merge_test_libs)
check_PROGRAMS += tests/unit/merge/chaos.t
tests_unit_merge_chaos_t_SOURCES = tests/unit/merge/chaos.c tests/unit/merge/fixture.h
tests_unit_merge_chaos_t_LDFLAGS = $(CHAOS_LINK)
tests_unit_merge_chaos_t_LDADD = $(merge_test_libs)
check_PROGRAMS += tests/unit/merge/panel.t
tests_unit_merge_panel_t_SOURCES = tests/unit/merge/panel.c
tests_unit_merge_panel_t_LDADD = $(merge_test_libs)
check_PROGRAMS += tests/unit/merge/omit_frames.t
tests_unit_merge_omit_frames_t_SOURCES = tests/unit/merge/omit_frames.c
tests_unit_merge_omit_frames_t_LDADD = $(merge_test_libs)
