/* SPDX-License-Identifier: BSD-3-Clause */
/* tail.c - keeps the last bytes that a child wrote. The caller says how many of their lines an
 * error shows (declared in child_lines.h). */
#include "base/child_lines.h"

#include "base/utf8.h"

void tail_release(struct tail *t)
{
    buf_release(&t->bytes);
}

void tail_clear(struct tail *t)
{
    buf_clear(&t->bytes);
}

int tail_add(struct tail *t, struct slice data)
{
    if (data.n > TAIL_SIZE) {
        data = slice_of(data.p + data.n - TAIL_SIZE, TAIL_SIZE);
        buf_clear(&t->bytes);
    }
    if (t->bytes.n + data.n > 2 * TAIL_SIZE)
        buf_drop(&t->bytes, t->bytes.n - TAIL_SIZE);
    return buf_add_slice(&t->bytes, data);
}

/* Where the last `lines` lines begin. A newline at the very end closes the last line. */
static size_t lines_start(const struct buf *b, unsigned lines)
{
    size_t i = b->n;

    while (i > 0 && b->p[i - 1] == '\n')
        i--;
    for (; i > 0; i--)
        if (b->p[i - 1] == '\n' && --lines == 0)
            return i;
    return 0;
}

int tail_text(const struct tail *t, unsigned lines, struct buf *out)
{
    const size_t start = lines_start(&t->bytes, lines);
    const struct slice all = buf_slice(&t->bytes);

    return utf8_add_clean(out, slice_of(all.p + start, all.n - start));
}
