/* SPDX-License-Identifier: BSD-3-Clause */
/* slice.h - a pointer to borrowed bytes and their number. A slice need not end in a NUL. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *p;
    size_t n;
};

/* Borrows the NUL-terminated text; NULL gives the empty slice. */
static inline struct slice slice_text(const char *text)
{
    return (struct slice){ text ? text : "", text ? strlen(text) : 0 };
}

static inline struct slice slice_of(const void *p, size_t n)
{
    return (struct slice){ p, n };
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool slice_is(struct slice a, const char *text)
{
    return slice_equal(a, slice_text(text));
}

static inline bool slice_has(struct slice s, char c)
{
    return s.n && memchr(s.p, c, s.n);
}

static inline bool slice_begins(struct slice s, const char *text)
{
    const size_t n = strlen(text);

    return s.n >= n && memcmp(s.p, text, n) == 0;
}

static inline bool slice_holds(struct slice s, const char *text)
{
    while (s.n && !slice_begins(s, text))
        s = slice_of(s.p + 1, s.n - 1);
    return s.n > 0;
}

static inline bool text_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Removes from *text what comes before the first `end`, and this `end`, and returns it without
 * `end`. If there is none, that is the whole text. */
static inline struct slice slice_cut(struct slice *text, char end)
{
    const char *at = text->n ? (const char *)memchr(text->p, end, text->n) : NULL;
    const struct slice before = slice_of(text->p, at ? (size_t)(at - text->p) : text->n);
    const size_t taken = before.n + (at != NULL);

    *text = slice_of(text->p + taken, text->n - taken);
    return before;
}

static inline struct slice slice_line(struct slice *text)
{
    return slice_cut(text, '\n');
}

/* Splits "host:port" or "[host]:port" at the last colon. false: a part is missing. */
static inline bool slice_host_port(struct slice where, struct slice *host, struct slice *port)
{
    size_t n = where.n;

    while (n > 0 && where.p[n - 1] != ':')
        n--;
    if (n < 2 || n == where.n)
        return false;
    *port = slice_of(where.p + n, where.n - n);
    *host = slice_of(where.p, n - 1);
    if (host->n >= 2 && host->p[0] == '[' && host->p[host->n - 1] == ']')
        *host = slice_of(host->p + 1, host->n - 2);
    return host->n > 0;
}

/* For printf's "%.*s": SLICE_ARG(s) gives the two arguments. */
#define SLICE_ARG(s) (int)((s).n > 0x7fffffff ? 0x7fffffff : (s).n), (s).p

#endif
