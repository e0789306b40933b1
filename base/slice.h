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

/* Removes the first line and its newline from *text, and returns it without the newline. The last
 * line may have no newline. */
static inline struct slice slice_line(struct slice *text)
{
    const char *end = text->n ? (const char *)memchr(text->p, '\n', text->n) : NULL;
    const struct slice line = slice_of(text->p, end ? (size_t)(end - text->p) : text->n);
    const size_t taken = line.n + (end != NULL);

    *text = slice_of(text->p + taken, text->n - taken);
    return line;
}

/* For printf's "%.*s": SLICE_ARG(s) gives the two arguments. */
#define SLICE_ARG(s) (int)((s).n > 0x7fffffff ? 0x7fffffff : (s).n), (s).p

#endif
