/* utf8.h - checks, repairs and cuts UTF-8. What others wrote need not be UTF-8; what we send must
 * be. What is no character becomes U+FFFD, one for each maximal part of a character, as Python's
 * "replace" and browsers do. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

/* Well-formed as Unicode defines it: no surrogates, no overlong forms, nothing above U+10FFFF. */
bool utf8_is_valid(struct slice s);
/* Appends s with U+FFFD in place of each part that is not UTF-8. -1: memory is out, *out is as it
 * was. */
MUST_USE int utf8_add_clean(struct buf *out, struct slice s);
/* How many bytes at the end of s begin a character that is not complete yet (0 to 3): text that
 * comes in pieces keeps them for the next. */
size_t utf8_torn_tail(struct slice s);
/* The largest size up to n that cuts no character of the valid text s. */
size_t utf8_cut(struct slice s, size_t n);
/* Characters, not bytes: how wide a text is, well enough for names in a table. */
size_t utf8_width(struct slice s);
/* Where the character with this number begins, in bytes; s.n: there are not so many. */
size_t utf8_offset(struct slice s, size_t characters);

/* A text that comes in pieces, which may begin and end within a character. */
struct utf8_stream {
    uint8_t cut[4]; /* the start of a character whose rest has not come */
    unsigned n;
};

#define UTF8_STREAM_INIT { { 0 }, 0 }

/* Appends what bytes give to *out; -1: memory is out, and nothing was taken. */
MUST_USE int utf8_stream_add(struct utf8_stream *u, struct slice bytes, struct buf *out);
/* The same without a copy where nothing is to repair: *out is bytes itself, or what was written to
 * *room. */
MUST_USE int utf8_stream_pass(struct utf8_stream *u, struct slice bytes, struct buf *room,
                              struct slice *out);
/* No rest will come. */
MUST_USE int utf8_stream_end(struct utf8_stream *u, struct buf *out);

#endif
