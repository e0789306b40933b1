/* SPDX-License-Identifier: BSD-3-Clause */
/* buf.h - a growing buffer of bytes. A failed call leaves it unchanged. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct buf {
    char *p; /* owned; once anything was added, a NUL (not counted) follows the n bytes */
    size_t n;
    size_t cap;
};

#define BUF_INIT { NULL, 0, 0 }

void buf_release(struct buf *b); /* frees, and leaves an empty buffer */
static inline void buf_clear(struct buf *b)
{
    b->n = 0;
    if (b->p)
        b->p[0] = '\0';
}
static inline struct slice buf_slice(const struct buf *b)
{
    return slice_of(b->p ? b->p : "", b->n);
}

/* All return 0, or -1 when memory is out. */
MUST_USE int buf_reserve(struct buf *b, size_t more);
MUST_USE int buf_add(struct buf *b, const void *p, size_t n);
MUST_USE int buf_add_slice(struct buf *b, struct slice s);
MUST_USE int buf_add_text(struct buf *b, const char *text);
MUST_USE int buf_addf(struct buf *b, const char *format, ...) PRINTF_LIKE(2, 3);
MUST_USE int buf_addv(struct buf *b, const char *format, va_list args) PRINTF_LIKE(2, 0);
void buf_drop(struct buf *b, size_t n); /* removes the first n bytes (at most all) */
/* The first line without its newline, which stays in the buffer. False: there is no whole line. */
bool buf_line(const struct buf *b, struct slice *line);
/* Hands the NUL-terminated bytes to the caller, who must free() them, and leaves the buffer empty.
 * NULL: memory is out. */
char *buf_take(struct buf *b);
/* The bytes, NUL-terminated, for the caller to free(). NULL: memory is out. */
char *slice_copy(struct slice s);

#endif
