/* SPDX-License-Identifier: BSD-3-Clause */
/* bars.c - shows the progress bars of all ranks as lines (declared in private.h). */
#include "kernel/merge/private.h"

#include <stdlib.h>

static bool equal(const struct source *a, const struct source *b)
{
    if (a->stream != b->stream || a->rows_n != b->rows_n)
        return false;
    for (unsigned i = 0; i < a->rows_n; i++)
        if (!slice_equal(buf_slice(&a->rows[i].text), buf_slice(&b->rows[i].text)))
            return false;
    return true;
}

/* Collects the ranks that show the same as sources[first], and marks them as done. */
static void collect(struct source *const *sources, size_t n, size_t first, bool fold, bool *done,
                    uint64_t *who)
{
    for (size_t i = first; i < n; i++)
        if (sources[i] && !done[i] && source_shows_bar(sources[i]) &&
            (i == first || equal(sources[first], sources[i]))) {
            who[sources[i]->rank / 64] |= UINT64_C(1) << sources[i]->rank % 64;
            done[i] = true;
            if (!fold)
                return;
        }
}

/* Appends every row that has text, with the label. */
static int rows_write(const struct source *s, const uint64_t *who, struct labels *labels,
                      struct buf *out)
{
    for (unsigned i = 0; i < s->rows_n; i++) {
        if (!s->rows[i].text.n)
            continue;
        if (labels && labels_add(labels, who, out) < 0)
            return -1;
        if (buf_add_slice(out, buf_slice(&s->rows[i].text)) < 0 || buf_add_text(out, "\n") < 0)
            return -1;
    }
    return 0;
}

int bars_write(struct source *const *sources, size_t n, bool fold, struct labels *labels,
               struct buf *out)
{
    const size_t words = n / 128 + 1;
    bool *done = calloc(n + 1, sizeof *done);
    uint64_t *who = calloc(words, sizeof *who);
    int rc = done && who ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (!sources[i] || done[i] || !source_shows_bar(sources[i]))
            continue;
        memset(who, 0, words * sizeof *who);
        collect(sources, n, i, fold, done, who);
        rc = rows_write(sources[i], who, labels, out);
    }
    free(done);
    free(who);
    return rc;
}
