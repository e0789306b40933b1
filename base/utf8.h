/* SPDX-License-Identifier: BSD-3-Clause */
/* utf8.h - checks, repairs and cuts UTF-8: input from others may be invalid, but what we send must
 * be valid. U+FFFD replaces each maximal part of a character, as in Python's "replace" and
 * browsers. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/buf.h"

/* Well-formed as Unicode defines it: no surrogates, no overlong forms, nothing above U+10FFFF. */
bool utf8_is_valid(struct slice s);
/* Appends s with U+FFFD in place of each invalid part. -1: memory is out, *out is unchanged. */
MUST_USE int utf8_add_clean(struct buf *out, struct slice s);
/* The same, but appends at most max bytes and no part of a character. */
MUST_USE int utf8_add_short(struct buf *out, struct slice s, size_t max);
/* How many bytes at the end of s are the start of an incomplete character (0 to 3). When text comes
 * in pieces, keep them for the next piece. */
size_t utf8_torn_tail(struct slice s);
/* Is this byte of a valid text the second, third or fourth of a character? */
bool utf8_continues(char c);
/* The largest size up to n that does not cut a character of the valid text s. */
size_t utf8_cut(struct slice s, size_t n);
/* The number of characters: the text's width, precise enough for names in a table. */
size_t utf8_width(struct slice s);
/* The byte offset of the character with this index; s.n if there are fewer characters. */
size_t utf8_offset(struct slice s, size_t characters);

/* The state of a text that comes in pieces; a piece may begin and end within a character. */
struct utf8_stream {
    uint8_t cut[4]; /* the start of a character whose rest has not come */
    unsigned n;
};

#define UTF8_STREAM_INIT { { 0 }, 0 }

/* Appends the repaired text of the next bytes to *out. -1: memory is out, and nothing changed. */
MUST_USE int utf8_stream_add(struct utf8_stream *u, struct slice bytes, struct buf *out);
/* The same, but copies only if something must be repaired: *out is `bytes` itself, or the text that
 * was written to *room. */
MUST_USE int utf8_stream_pass(struct utf8_stream *u, struct slice bytes, struct buf *room,
                              struct slice *out);
/* Ends the text: appends U+FFFD to *out if the last character is incomplete. */
MUST_USE int utf8_stream_end(struct utf8_stream *u, struct buf *out);

#endif
