/* tail.h - the last lines that a child wrote, for error texts. */
#ifndef BASE_TAIL_H
#define BASE_TAIL_H

#include "base/buf.h"

#define TAIL_SIZE 8192u /* bytes: between this and twice as many are kept */

struct tail {
    struct buf bytes;
};

#define TAIL_INIT { BUF_INIT }

void tail_release(struct tail *t);
/* Forgets what was added. */
void tail_clear(struct tail *t);
MUST_USE int tail_add(struct tail *t, struct slice data); /* -1: memory is out */
/* Appends the last `lines` lines to out, as valid UTF-8. -1: memory is out. */
MUST_USE int tail_text(const struct tail *t, unsigned lines, struct buf *out);

#endif
