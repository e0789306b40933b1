/* tail.h - the last lines of a stream, for error texts. Pure. */
#ifndef BASE_TAIL_H
#define BASE_TAIL_H

#include "base/buf.h"

#define TAIL_SIZE 8192u /* bytes that are kept at least, when there were as many */

struct tail {
    struct buf bytes;
};

#define TAIL_INIT { BUF_INIT }

void tail_release(struct tail *t);
/* What comes from here on is all there is: an old cell's warnings are not a new one's last
 * words. */
void tail_clear(struct tail *t);
MUST_USE int tail_add(struct tail *t, struct slice data); /* -1: memory is out */
/* Appends the last `lines` lines to out, as valid UTF-8. -1: memory is out. */
MUST_USE int tail_text(const struct tail *t, unsigned lines, struct buf *out);

/* Appends `data`, at most `max` bytes of it, as UTF-8 that every decoder takes: what is not becomes
 * U+FFFD. */
MUST_USE int tail_clean(struct slice data, size_t max, struct buf *out);

#endif
