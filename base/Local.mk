noinst_LIBRARIES += base/libbase.a
base_libbase_a_SOURCES = \
	base/err.h base/err.c \
	base/slice.h \
	base/buf.h base/buf.c \
	base/utf8.h base/utf8.c \
	base/ranks.h base/ranks.c \
	base/clock.h base/clock.c \
	base/log.h base/log.c \
	base/random.h base/random.c \
	base/process.h base/process.c \
	base/runtime.h base/runtime.c \
	base/loop/wake.h base/loop/wake.c \
	base/loop/loop.h base/loop/loop.c
