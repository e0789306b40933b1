/* line.h - words back to the option line of a magic that splits into them. Pure. */
#ifndef CLI_LINE_H
#define CLI_LINE_H

#include "base/buf.h"
#include "base/err.h"

/* Appends "%magic word word…": quoted, and written so that home's expansion of `{name}` and `$name`
 * leaves each word as it is. -1: a word holds a line break. */
MUST_USE int line_write(struct buf *out, const char *magic, char *const *word, size_t n,
                        struct err *err);

#endif
