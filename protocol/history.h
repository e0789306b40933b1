/* history.h - remembers the signatures of messages, so that a replayed message can be refused.
 * Pure. There are two sets: when the young one is full it replaces the old one, which is freed. So
 * between `limit / 2` and `limit` of the latest signatures are known, and memory is bounded. */
#ifndef PROTOCOL_HISTORY_H
#define PROTOCOL_HISTORY_H

#include <stddef.h>

#include "base/slice.h"

#define HISTORY_KEY 16u /* bytes of a signature that are kept: 128 bits of an HMAC */

struct history_set {
    /* owned; an all-zero slot is free. Open addressing, at most half full */
    unsigned char (*slot)[HISTORY_KEY];
    size_t slots; /* a power of two, or 0 */
    size_t used;
};

struct history {
    struct history_set young, old;
    size_t limit; /* the most signatures that are remembered */
};

void history_init(struct history *h, size_t limit);
void history_release(struct history *h);

/* 1: seen before; 0: new, now remembered; -1: memory is out. signature: 64 hexadecimal digits. */
int history_seen(struct history *h, struct slice signature);

#endif
