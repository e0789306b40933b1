noinst_LIBRARIES += kernel/jupyter/libfront.a
kernel_jupyter_libfront_a_SOURCES = \
	kernel/jupyter/front.h kernel/jupyter/front.c \
	kernel/jupyter/connection.h kernel/jupyter/connection.c \
	kernel/jupyter/sockets.h kernel/jupyter/sockets.c \
	kernel/jupyter/zap.h kernel/jupyter/zap.c \
	kernel/jupyter/heartbeat.h kernel/jupyter/heartbeat.c \
	kernel/jupyter/outbound.h kernel/jupyter/outbound.c \
	kernel/jupyter/iopub.h kernel/jupyter/iopub.c \
	kernel/jupyter/request.h kernel/jupyter/request.c \
	kernel/jupyter/inbox.h kernel/jupyter/inbox.c \
	kernel/jupyter/proc.h kernel/jupyter/proc.c \
	kernel/jupyter/usage.h kernel/jupyter/usage.c
