# worker/collective: how ranks' connections are checked, with NCCL (by dlopen) or plain tcp. Linked into the extension, and
# what asks NCCL's RAS into the agent.
noinst_LIBRARIES += worker/collective/libcollective.a
worker_collective_libcollective_a_SOURCES = \
	worker/collective/cast.h worker/collective/cast.c \
	worker/collective/comm.h worker/collective/comm.c \
	worker/collective/driver.h worker/collective/driver.c \
	worker/collective/figures.h worker/collective/figures.c \
	worker/collective/headers.c \
	worker/collective/library.h worker/collective/library.c \
	worker/collective/limit.h worker/collective/limit.c \
	worker/collective/measure.h worker/collective/measure.c \
	worker/collective/mesh.h worker/collective/mesh.c \
	worker/collective/nccl.h worker/collective/nccl.c \
	worker/collective/nccl_transport.h worker/collective/nccl_transport.c \
	worker/collective/stream.h worker/collective/stream.c \
	worker/collective/tcp.h worker/collective/tcp.c \
	worker/collective/transport.h
worker_collective_libcollective_a_CPPFLAGS = $(AM_CPPFLAGS) $(NCCL_CPPFLAGS) $(CUDA_CPPFLAGS)
EXTRA_DIST += worker/collective/README.md
