noinst_LIBRARIES += worker/link/liblink.a
worker_link_liblink_a_SOURCES = \
	worker/link/blob.h worker/link/blob.c \
	worker/link/packet.h worker/link/packet.c
