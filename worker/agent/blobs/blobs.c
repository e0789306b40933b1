/* SPDX-License-Identifier: BSD-3-Clause */
/* blobs.c - see blobs.h. Few blobs live at a time, so the table is a sorted array. */
#include "worker/agent/blobs/blobs.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/rows.h"

void blobs_release(struct blobs *b)
{
    for (size_t i = 0; i < b->n; i++)
        close(b->blob[i].fd);
    free(b->blob);
    *b = (struct blobs)BLOBS_INIT;
}

static uint64_t number_of(const void *blobs, size_t i)
{
    return ((const struct blob *)blobs)[i].number;
}

/* The index of `number`, or where it is to be inserted. */
static size_t find(const struct blobs *b, uint64_t number)
{
    return rows_place(b->blob, b->n, number_of, number);
}

const struct blob *blobs_get(const struct blobs *b, uint64_t number)
{
    const size_t i = find(b, number);

    return i < b->n && b->blob[i].number == number ? &b->blob[i] : NULL;
}

int blobs_put(struct blobs *b, uint64_t number, uint64_t size, int fd)
{
    struct blob *row;

    blobs_drop(b, number);
    if (!(row = rows_insert(&b->blob, &b->n, &b->room, sizeof *row, find(b, number)))) {
        close(fd);
        return -1;
    }
    *row = (struct blob){ number, size, fd };
    return 0;
}

void blobs_drop(struct blobs *b, uint64_t number)
{
    const size_t i = find(b, number);

    if (i >= b->n || b->blob[i].number != number)
        return;
    close(b->blob[i].fd);
    rows_remove(b->blob, &b->n, sizeof *b->blob, i);
}
