# kernel/merge: lines of many ranks in, text blocks out, at a rate that clients accept.
noinst_LIBRARIES += kernel/merge/libmerge.a
kernel_merge_libmerge_a_SOURCES = \
	kernel/merge/merge.h kernel/merge/merge.c \
	kernel/merge/source.h kernel/merge/source.c \
	kernel/merge/lane.h kernel/merge/lane.c \
	kernel/merge/fold.h kernel/merge/fold.c \
	kernel/merge/show.h kernel/merge/show.c \
	kernel/merge/label.h kernel/merge/label.c \
	kernel/merge/bars.h kernel/merge/bars.c \
	kernel/merge/utf8.h kernel/merge/utf8.c \
	kernel/merge/pace.h kernel/merge/pace.c
