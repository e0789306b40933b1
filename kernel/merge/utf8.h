/* utf8.h - bytes of one stream in, valid UTF-8 out. Characters may be cut between calls; what is
 * none becomes U+FFFD, one for each maximal part of a character, as Python's "replace" and browsers
 * do. */
#ifndef KERNEL_MERGE_UTF8_H
#define KERNEL_MERGE_UTF8_H

#include "base/buf.h"

struct utf8 {
    unsigned char cut[4]; /* the start of a character whose rest has not come */
    unsigned n;
};

#define UTF8_INIT { { 0 }, 0 }

/* How many of the first bytes are valid UTF-8 that ends with a whole character. */
size_t utf8_valid(struct slice s);
/* Appends what bytes give to *out; -1: memory is out, and nothing was taken. */
MUST_USE int utf8_add(struct utf8 *u, struct slice bytes, struct buf *out);
/* The same without a copy where nothing is to repair: *out is bytes itself, or what was written to
 * *room. */
MUST_USE int utf8_pass(struct utf8 *u, struct slice bytes, struct buf *room, struct slice *out);
/* No rest will come. */
MUST_USE int utf8_end(struct utf8 *u, struct buf *out);
/* The largest size up to n that cuts no character of the valid text s. */
size_t utf8_cut(struct slice s, size_t n);

#endif
