/* pace.h - how much of a blob is on the way to one taker, and how much may be: SPAN_CHUNK_WINDOW
 * where the way is quick, less where it is slow, so that an interrupt, which goes the same way, is
 * not behind seconds of bytes. The answer to one chunk at a time is awaited with a clock: what
 * comes within PACE_QUICK_NS doubles the window, what takes longer than PACE_SLOW_NS halves it,
 * down to one chunk. protocol/README.md, "Blobs between nodes". */
#ifndef PROTOCOL_PACE_H
#define PROTOCOL_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_QUICK_NS UINT64_C(250000000)
#define PACE_SLOW_NS  UINT64_C(500000000)

struct pace {
    uint64_t sent, taken; /* bytes, from the blob's start; read them, but let the functions write */
    uint64_t window;      /* bytes */
    uint64_t timed;       /* an answer for so many bytes is awaited since timed_ns; 0: none is */
    uint64_t timed_ns;
};

/* The taker has `from` bytes. Also to begin anew, by another way maybe: what was on the old one
 * comes again. */
void pace_begin(struct pace *p, uint64_t from);
bool pace_is_due(const struct pace *p); /* more may be sent */
void pace_sent(struct pace *p, uint64_t bytes, uint64_t now_ns);
/* TAKEN: it has so many in all. It may have more than was sent, from somebody who gave it
 * before. */
void pace_taken(struct pace *p, uint64_t bytes, uint64_t now_ns);

#endif
