/* SPDX-License-Identifier: BSD-3-Clause */
/* mux.h - several byte streams over one connection, in both directions (a multiplexer). One end
 * opens streams, the other one accepts them. What travels are frames: kind:u8 stream:u32 n:u32,
 * little-endian, and n bytes after MUX_DATA. No stream may hold up the others, so each end may have
 * MUX_WINDOW bytes of a stream on their way, and the other one gives it more credit when they have
 * left there. Pure. */
#ifndef BASE_MUX_MUX_H
#define BASE_MUX_MUX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum mux_kind {
    MUX_OPEN = 1, /* a stream begins; its number is one more than that of the last one. n: 0 */
    MUX_DATA,
    MUX_CREDIT, /* n more bytes may be sent */
    MUX_CLOSE,  /* the stream has ended, in both directions. n: 0 */
    MUX_PING,   /* nothing: so that nobody on the way takes the connection for idle. Both are 0 */
    MUX_END,    /* no more frames will come. Both are 0 */
};

#define MUX_HEADER_SIZE 9u
#define MUX_WINDOW      (UINT32_C(1) << 20)
#define MUX_DATA_MAX    65536u /* bytes of one frame */
#define MUX_STREAMS_MAX 64u    /* open at the same time */

struct mux_stream {
    uint32_t number; /* 0: the place is free */
    uint32_t room;   /* bytes that may be sent */
    uint32_t unread; /* bytes that have come, and have not left here yet */
    uint32_t left;   /* bytes that have left, and for which no credit was given yet */
};

struct mux_handler {
    /* The other end has opened a stream. false: it is closed again. NULL: it must open none. */
    bool (*opened)(void *arg, uint32_t stream);
    /* Bytes have come, borrowed for the call: mux_left() says when they have left. */
    void (*data)(void *arg, uint32_t stream, struct slice bytes);
    void (*room)(void *arg, uint32_t stream); /* there is more of mux_room() */
    void (*closed)(void *arg, uint32_t stream);
    void *arg;
};

/* Read-only for others than mux.c, but for `out`, from which the caller takes what it has sent. */
struct mux {
    struct mux_handler handler;
    struct mux_stream stream[MUX_STREAMS_MAX];
    uint32_t last;  /* the number of the last stream that was opened */
    struct buf in;  /* the start of a frame */
    struct buf out; /* frames to be sent */
    bool said_end;  /* nothing is sent any more */
    bool heard_end;
};

void mux_init(struct mux *m, const struct mux_handler *handler);
void mux_release(struct mux *m);

/* What the other end has sent. Handlers may call all functions but mux_release(). -1: it breaks the
 * rules above, or memory is out: no stream is to be trusted any more. */
MUST_USE int mux_received(struct mux *m, struct slice bytes, struct err *err);

/* Opens a stream. Its number, or 0: there are too many, the other end opens them, or memory is out.
 */
uint32_t mux_open(struct mux *m);
uint32_t mux_room(const struct mux *m, uint32_t stream); /* how many bytes may be sent */
/* Sends bytes, at most mux_room(). -1: memory is out, and nothing was sent. */
MUST_USE int mux_send(struct mux *m, uint32_t stream, struct slice bytes);
/* So many bytes of data() have left. */
MUST_USE int mux_left(struct mux *m, uint32_t stream, uint32_t n);
/* The stream is over on this side; closed() is not called for it. */
MUST_USE int mux_close(struct mux *m, uint32_t stream);
MUST_USE int mux_ping(struct mux *m);
MUST_USE int mux_end(struct mux *m);

#endif
