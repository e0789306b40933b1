/* SPDX-License-Identifier: BSD-3-Clause */
/* send_window.h - the send window of a blob to one receiver: how many bytes may be unacknowledged.
 * At most SPAN_CHUNK_WINDOW on a fast link, less on a slow one, so that an interrupt on the same
 * link does not wait behind seconds of data. The answer to one chunk at a time is timed: an answer
 * within SEND_WINDOW_QUICK_NS doubles the window, one after more than SEND_WINDOW_SLOW_NS halves
 * it, down to one chunk. protocol/README.md, "Blobs between nodes". */
#ifndef PROTOCOL_SEND_WINDOW_H
#define PROTOCOL_SEND_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define SEND_WINDOW_QUICK_NS UINT64_C(250000000)
#define SEND_WINDOW_SLOW_NS  UINT64_C(500000000)

struct send_window {
    uint64_t sent, acked; /* bytes from the blob's start; read-only for callers */
    uint64_t window;      /* bytes */
    uint64_t timed; /* the CHUNK_ACK for this many bytes is timed since timed_ns; 0: none is */
    uint64_t timed_ns;
};

/* Starts, or starts again (perhaps on another route), at `from`: the bytes that the receiver has.
 * What was unacknowledged on the old route is sent again. */
void send_window_begin(struct send_window *w, uint64_t from);
bool send_window_is_due(const struct send_window *w); /* more may be sent */
void send_window_sent(struct send_window *w, uint64_t bytes, uint64_t now_ns);
/* CHUNK_ACK: the receiver has this many bytes in total. That may be more than was sent, if another
 * node sent it some before. */
void send_window_acked(struct send_window *w, uint64_t bytes, uint64_t now_ns);

#endif
