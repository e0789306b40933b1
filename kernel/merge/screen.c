/* SPDX-License-Identifier: BSD-3-Clause */
/* screen.c - removes escape sequences that only terminals understand (declared in private.h). */
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

bool screen_set(struct slice text)
{
    size_t n;

    return text.n && find(text, text.p, &n);
}

int screen_strip(struct slice text, struct buf *room, struct slice *out)
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

bool screen_colours(struct slice text)
{
    size_t n = 0;

    while (n + 2 < text.n && text.p[n] == '\x1b' && text.p[n + 1] == '[') {
        for (n += 2; n < text.n && ((text.p[n] >= '0' && text.p[n] <= '9') || text.p[n] == ';');)
            n++;
        if (n == text.n || text.p[n++] != 'm')
            return false;
    }
    return text.n && n == text.n;
}
