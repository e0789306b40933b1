/* SPDX-License-Identifier: BSD-3-Clause */
/* Grows by half, so that n additions take linear time in total. */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>

#define SMALLEST 64u

void buf_release(struct buf *b)
{
    free(b->p);
    *b = (struct buf)BUF_INIT;
}

int buf_reserve(struct buf *b, size_t more)
{
    size_t cap;
    char *p;

    if (more >= SIZE_MAX / 2 - b->n) /* n itself never comes near */
        return -1;
    if (b->p && b->cap - b->n > more)
        return 0;
    cap = b->n + more + 1; /* the NUL */
    if (cap < SMALLEST)
        cap = SMALLEST;
    if (cap < b->cap + b->cap / 2)
        cap = b->cap + b->cap / 2;
    if (!(p = realloc(b->p, cap)))
        return -1;
    b->p = p;
    b->cap = cap;
    b->p[b->n] = '\0';
    return 0;
}

int buf_add(struct buf *b, const void *p, size_t n)
{
    if (buf_reserve(b, n) < 0)
        return -1;
    if (n > 0)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = '\0';
    return 0;
}

int buf_add_slice(struct buf *b, struct slice s)
{
    return buf_add(b, s.p, s.n);
}

int buf_add_text(struct buf *b, const char *text)
{
    return buf_add(b, text, strlen(text));
}

int buf_addf(struct buf *b, const char *format, ...)
{
    va_list args;
    int rc;

    va_start(args, format);
    rc = buf_addv(b, format, args);
    va_end(args);
    return rc;
}

int buf_addv(struct buf *b, const char *format, va_list args)
{
    va_list again;
    int n;

    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0 || buf_reserve(b, (size_t)n) < 0)
        return -1;
    n = vsnprintf(b->p + b->n, (size_t)n + 1, format, args);
    if (n < 0) {
        b->p[b->n] = '\0';
        return -1;
    }
    b->n += (size_t)n;
    return 0;
}

bool buf_line(const struct buf *b, struct slice *line)
{
    const char *end = b->n ? memchr(b->p, '\n', b->n) : NULL;

    if (end)
        *line = slice_of(b->p, (size_t)(end - b->p));
    return end;
}

void buf_drop(struct buf *b, size_t n)
{
    if (n > b->n)
        n = b->n;
    if (n == 0)
        return;
    memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
    b->p[b->n] = '\0';
}

char *buf_take(struct buf *b)
{
    char *p;

    if (buf_reserve(b, 0) < 0)
        return NULL;
    p = b->p;
    *b = (struct buf)BUF_INIT;
    return p;
}

char *slice_copy(struct slice s)
{
    struct buf copy = BUF_INIT;

    return buf_add_slice(&copy, s) < 0 ? NULL : buf_take(&copy);
}
