/* SPDX-License-Identifier: BSD-3-Clause */
/* packet.h - sends and receives messages between agent and worker as SOCK_SEQPACKET packets
 * (protocol/README.md, "Packets"). It needs neither event loop nor Python, since the agent's loop
 * and the extension's I/O thread both use it. */
#ifndef WORKER_LINK_PACKET_H
#define WORKER_LINK_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

/* bytes of a packet with its tag; a longer message goes into a memfd */
#define PACKET_INLINE_MAX  65536u
#define PACKET_MESSAGE_MAX (UINT64_C(300) << 20) /* bytes of a message */

struct packet {
    char *p; /* owned: the message's bytes */
    size_t n;
    int blob_fd; /* owned; -1: none came, or this process has too many open files */
};

/* The first byte of a packet between agent and zygote (worker/agent/README.md). _link has these
 * names. 0 is the first byte of a message, as between agent and any worker. */
#define ZYGOTE_TAGS(X)                                                                             \
    X(MESSAGE, 0)                                                                                  \
    X(RANK, 2) /* make one rank */                                                                 \
    X(FORK, 3) /* fork all ranks since the last one */                                             \
    X(PIDS, 4) /* of the ranks that were forked */
#define ZYGOTE_TAG(name, value) ZYGOTE_##name = (value),
enum zygote_tag { ZYGOTE_TAGS(ZYGOTE_TAG) };
#undef ZYGOTE_TAG

#define PACKET_INIT { NULL, 0, -1 }

enum packet_got {
    PACKET_ERROR = -1, /* the peer sent an invalid packet, or the socket failed: close it */
    PACKET_NONE = 0,   /* no packet now (nonblocking sockets) */
    PACKET_GOT = 1,
    PACKET_END = 2, /* the peer is gone */
};

/* A connected pair, both ends close-on-exec, with room for packets of PACKET_INLINE_MAX. */
MUST_USE int packet_pair(int fd[2], struct err *err);

/* Sends one message, which starts with a span's header. blob_fd is borrowed; -1: none. If, and only
 * if, the header's blob and blob_size are not 0, it must be a sealed memfd of blob_size bytes.
 * Returns 0; 1: would block (nothing was sent; wait for POLLOUT and try again); -1: *err says why.
 * A peer that is gone gives -1, never a SIGPIPE. */
MUST_USE int packet_send(int fd, const void *msg, size_t n, int blob_fd, struct err *err);

/* Receives one packet. *p is filled only for PACKET_GOT; then the caller must release it. Its
 * header and its blob have been checked, but not its fields (span_decode checks these). A process
 * that can open no more files gets the message without its blob: blob_size is not 0, blob_fd is -1.
 */
enum packet_got packet_recv(int fd, struct packet *p, struct err *err);
/* Does the next packet bring its message in a memory file, so that receiving it takes a descriptor?
 */
bool packet_takes_descriptor(int fd);

/* A descriptor that is kept open, so that a long message can be received or sent when the process
 * can open no more: it is closed before, and opened again after. Without it such a message would
 * end the link, and so the process with all its variables. */
struct packet_spare {
    int fd;         /* owned; -1: none */
    struct stat as; /* what was opened: the user's code may close it, and get its number */
};

#define PACKET_SPARE_INIT { .fd = -1 }

/* Opens it if it is not open. There may be no descriptor left: then there is none until later. */
void packet_spare_keep(struct packet_spare *s);
/* Closes it, if it is still what was opened. */
void packet_spare_give(struct packet_spare *s);
void packet_release(struct packet *p);  /* frees, closes, leaves an empty one */
int packet_take_blob(struct packet *p); /* gives the blob's descriptor to the caller; -1: none */

#endif
