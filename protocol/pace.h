/* pace.h - the send window of a blob to one receiver: how many bytes may be unacknowledged. At most
 * SPAN_CHUNK_WINDOW on a fast link, less on a slow one, so that an interrupt on the same link does
 * not wait behind seconds of data. The answer to one chunk at a time is timed: an answer within
 * PACE_QUICK_NS doubles the window, one after more than PACE_SLOW_NS halves it, down to one chunk.
 * protocol/README.md, "Blobs between nodes". */
#ifndef PROTOCOL_PACE_H
#define PROTOCOL_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_QUICK_NS UINT64_C(250000000)
#define PACE_SLOW_NS  UINT64_C(500000000)

struct pace {
    uint64_t sent, taken; /* bytes from the blob's start; read-only for callers */
    uint64_t window;      /* bytes */
    uint64_t timed;       /* the TAKEN for this many bytes is timed since timed_ns; 0: none is */
    uint64_t timed_ns;
};

/* Starts, or starts again (perhaps on another route), at `from`: the bytes that the receiver has.
 * What was unacknowledged on the old route is sent again. */
void pace_begin(struct pace *p, uint64_t from);
bool pace_is_due(const struct pace *p); /* more may be sent */
void pace_sent(struct pace *p, uint64_t bytes, uint64_t now_ns);
/* TAKEN: the receiver has this many bytes in total. That may be more than was sent, if another
 * node sent it some before. */
void pace_taken(struct pace *p, uint64_t bytes, uint64_t now_ns);

#endif
