/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows are sorted by worker, because thousands of ranks may wait for credit. */
#include "kernel/agents/private.h"

#include <stdlib.h>

#include "base/rows.h"

void credit_release(struct credit_table *c)
{
    free(c->row);
    *c = (struct credit_table)CREDIT_INIT;
}

static uint64_t worker_of(const void *rows, size_t i)
{
    return ((const struct credit_owed *)rows)[i].worker;
}

/* The place of the worker's row, or where it belongs. */
static size_t place_of(const struct credit_table *c, uint32_t worker)
{
    return rows_place(c->row, c->n, worker_of, worker);
}

static struct credit_owed *row_of(struct credit_table *c, uint32_t worker)
{
    const size_t at = place_of(c, worker);

    return at < c->n && c->row[at].worker == worker ? &c->row[at] : NULL;
}

static struct credit_owed *row_add(struct credit_table *c, uint32_t worker)
{
    struct credit_owed *row = rows_insert(&c->row, &c->n, &c->room, sizeof *row,
                                          place_of(c, worker));

    if (row)
        *row = (struct credit_owed){ .worker = worker };
    return row;
}

int credit_owe(struct credit_table *c, uint32_t worker, size_t bytes, uint64_t *owed)
{
    struct credit_owed *row = row_of(c, worker);

    if (!row && !(row = row_add(c, worker)))
        return -1;
    row->owed += bytes;
    *owed = row->owed;
    return 0;
}

uint64_t credit_take(struct credit_table *c, uint32_t worker)
{
    struct credit_owed *row = row_of(c, worker);
    const uint64_t owed = row ? row->owed : 0;

    if (row)
        row->owed = 0;
    return owed;
}

void credit_forget(struct credit_table *c, uint32_t worker)
{
    struct credit_owed *row = row_of(c, worker);

    if (row)
        rows_remove(c->row, &c->n, sizeof *row, (size_t)(row - c->row));
}
