/* credit.c - see credit.h. Rows are sorted by worker: a thousand machines' ranks are owed at once. */
#include "kernel/agents/credit.h"

#include <stdlib.h>
#include <string.h>

void credit_release(struct credit *c)
{
    free(c->row);
    *c = (struct credit)CREDIT_INIT;
}

/* Where the worker's row stands, or belongs. */
static size_t place_of(const struct credit *c, uint32_t worker)
{
    size_t low = 0, high = c->n;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (c->row[mid].worker < worker)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct credit_row *row_of(struct credit *c, uint32_t worker)
{
    const size_t at = place_of(c, worker);

    return at < c->n && c->row[at].worker == worker ? &c->row[at] : NULL;
}

static struct credit_row *row_add(struct credit *c, uint32_t worker)
{
    const size_t at = place_of(c, worker);

    if (c->n == c->room) {
        const size_t room = c->room ? 2 * c->room : 16;
        struct credit_row *more = realloc(c->row, room * sizeof *more);

        if (!more)
            return NULL;
        c->row = more;
        c->room = room;
    }
    memmove(&c->row[at + 1], &c->row[at], (c->n++ - at) * sizeof *c->row);
    c->row[at] = (struct credit_row){ .worker = worker };
    return &c->row[at];
}

int credit_owe(struct credit *c, uint32_t worker, size_t bytes, uint64_t *owed)
{
    struct credit_row *row = row_of(c, worker);

    if (!row && !(row = row_add(c, worker)))
        return -1;
    row->owed += bytes;
    *owed = row->owed;
    return 0;
}

uint64_t credit_take(struct credit *c, uint32_t worker)
{
    struct credit_row *row = row_of(c, worker);
    const uint64_t owed = row ? row->owed : 0;

    if (row)
        row->owed = 0;
    return owed;
}

void credit_forget(struct credit *c, uint32_t worker)
{
    struct credit_row *row = row_of(c, worker);

    if (row) {
        memmove(row, row + 1, (size_t)(&c->row[c->n] - (row + 1)) * sizeof *row);
        c->n--;
    }
}
