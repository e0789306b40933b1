#include "kernel/agents/credit.h"

#include <stdlib.h>

void credit_release(struct credit *c)
{
    free(c->row);
    *c = (struct credit)CREDIT_INIT;
}

static struct credit_row *row_of(struct credit *c, uint32_t worker)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->row[k].worker == worker)
            return &c->row[k];
    return NULL;
}

int credit_owe(struct credit *c, uint32_t worker, size_t bytes, uint64_t *owed)
{
    struct credit_row *row = row_of(c, worker);

    if (!row) {
        if (!(row = realloc(c->row, (c->n + 1) * sizeof *row)))
            return -1;
        c->row = row;
        row += c->n++;
        *row = (struct credit_row){ .worker = worker };
    }
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

    if (row)
        *row = c->row[--c->n];
}
