/* SPDX-License-Identifier: BSD-3-Clause */
/* private_modes.c - removes escape sequences that set a terminal's private modes, as "hide the
 * cursor", which a notebook does not understand (declared in private.h). */
#include "kernel/merge/private.h"

#include <string.h>

#define START   "\x1b[?"
#define START_N (sizeof START - 1)

/* The first private mode at or after `from`, or NULL; *n: its size. */
static const char *find(struct slice text, const char *from, size_t *n)
{
    const char *end = text.p + text.n;
    const char *at;

    while (from < end && (at = memchr(from, START[0], (size_t)(end - from)))) {
        const char *p = at + START_N;

        from = at + 1;
        if ((size_t)(end - at) <= START_N || memcmp(at, START, START_N) != 0)
            continue;
        while (p < end && ((*p >= '0' && *p <= '9') || *p == ';'))
            p++;
        if (p < end && (*p == 'h' || *p == 'l')) {
            *n = (size_t)(p - at) + 1;
            return at;
        }
    }
    return NULL;
}

bool private_modes_set(struct slice text)
{
    size_t n;

    return text.n && find(text, text.p, &n);
}

int private_modes_strip(struct slice text, struct buf *room, struct slice *out)
{
    const char *from = text.p;
    const char *at;
    size_t n = 0;

    *out = text;
    if (!text.n || !(at = find(text, from, &n)))
        return 0;
    buf_clear(room);
    for (; at; from = at + n, at = find(text, from, &n))
        if (buf_add(room, from, (size_t)(at - from)) < 0)
            return -1;
    if (buf_add(room, from, (size_t)(text.p + text.n - from)) < 0)
        return -1;
    *out = buf_slice(room);
    return 0;
}
