/* utf8.h - what others wrote need not be UTF-8; what we send must be. */
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
/* Characters, not bytes: how wide a text is, well enough for names in a table. */
size_t utf8_width(struct slice s);

#endif
