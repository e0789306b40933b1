/* source.c - see source.h. */
#include "kernel/merge/source.h"

#include <stdlib.h>

struct source *source_create(unsigned rank, unsigned stream)
{
    struct source *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->rank = rank;
    s->stream = stream;
    return s;
}

void source_destroy(struct source *s)
{
    if (!s)
        return;
    buf_release(&s->partial);
    buf_release(&s->state);
    free(s);
}

/* How long the terminal's "erase in line" (ESC [ n K) at p is; 0: there is none. */
static size_t erase_size(struct slice text)
{
    size_t n = 2;

    if (text.n < 3 || text.p[0] != '\x1b' || text.p[1] != '[')
        return 0;
    while (n < text.n && text.p[n] >= '0' && text.p[n] <= '9')
        n++;
    return n < text.n && text.p[n] == 'K' ? n + 1 : 0;
}

/* Blanks over the old state are how a bar is wiped out. */
static bool wipes(struct slice text)
{
    while (text.n) {
        const size_t n = *text.p == ' ' ? 1 : erase_size(text);

        if (!n)
            return false;
        text = slice_of(text.p + n, text.n - n);
    }
    return true;
}

int source_overwrite(struct source *s, struct slice text)
{
    s->bar = true;
    while (text.n) {
        const char *cr = memchr(text.p, '\r', text.n);
        const struct slice part = slice_of(text.p, cr ? (size_t)(cr - text.p) : text.n);

        if (part.n) {
            if (s->returned)
                buf_clear(&s->state);
            if (!(s->returned && wipes(part)) && buf_add_slice(&s->state, part) < 0)
                return -1;
            s->returned = false;
        }
        if (!cr)
            return 0;
        s->returned = true;
        text = slice_of(cr + 1, text.n - part.n - 1);
    }
    return 0;
}

void source_bar_over(struct source *s)
{
    buf_clear(&s->state);
    s->bar = false;
    s->returned = false;
}

bool source_shows_bar(const struct source *s)
{
    return s->bar && s->state.n;
}
