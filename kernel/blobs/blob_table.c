/* SPDX-License-Identifier: BSD-3-Clause */
/* Two sorted arrays, searched by halves. Numbers of blobs grow, so that new ones go to the end. */
#include "kernel/blobs/blob_route.h"

#include <stdlib.h>

#include "base/rows.h"

void blob_table_release(struct blob_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->entry[i].replica);
    free(t->entry);
    *t = (struct blob_table)BLOB_TABLE_INIT;
}

static uint64_t blob_of(const void *table, size_t i)
{
    return ((const struct blob_entry *)table)[i].blob;
}

static uint64_t node_of(const void *replicas, size_t i)
{
    return ((const struct replica *)replicas)[i].node;
}

struct blob_entry *blob_table_get(const struct blob_table *t, uint64_t blob)
{
    const size_t i = rows_place(t->entry, t->n, blob_of, blob);

    return i < t->n && t->entry[i].blob == blob ? &t->entry[i] : NULL;
}

struct replica *blob_entry_at(const struct blob_entry *e, unsigned node)
{
    const size_t i = rows_place(e->replica, e->n, node_of, node);

    return i < e->n && e->replica[i].node == node ? &e->replica[i] : NULL;
}

struct blob_entry *blob_table_add(struct blob_table *t, uint64_t blob, uint64_t size)
{
    const size_t i = rows_place(t->entry, t->n, blob_of, blob);
    struct blob_entry *e;

    if (i < t->n && t->entry[i].blob == blob)
        return &t->entry[i];
    if ((e = rows_insert(&t->entry, &t->n, &t->room, sizeof *e, i)))
        *e = (struct blob_entry){ .blob = blob, .size = size };
    return e;
}

struct replica *blob_entry_add(struct blob_entry *e, unsigned node)
{
    const size_t i = rows_place(e->replica, e->n, node_of, node);
    struct replica *r;

    if (i < e->n && e->replica[i].node == node)
        return &e->replica[i];
    if ((r = rows_insert(&e->replica, &e->n, &e->room, sizeof *r, i)))
        *r = (struct replica){ .node = node };
    return r;
}

void blob_table_remove(struct blob_table *t, struct blob_entry *e)
{
    free(e->replica);
    rows_remove(t->entry, &t->n, sizeof *e, (size_t)(e - t->entry));
}

void blob_entry_remove(struct blob_entry *e, struct replica *p)
{
    rows_remove(e->replica, &e->n, sizeof *p, (size_t)(p - e->replica));
}

const struct replica *blob_entry_holder(const struct blob_entry *e)
{
    for (size_t i = 0; i < e->n; i++)
        if (e->replica[i].complete)
            return &e->replica[i];
    return NULL;
}

bool blob_entry_is_moving(const struct blob_entry *e)
{
    for (size_t i = 0; i < e->n; i++)
        if (!e->replica[i].complete)
            return true;
    return false;
}

uint64_t blob_entry_least(const struct blob_entry *e)
{
    uint64_t least = e->size;

    for (size_t i = 0; i < e->n; i++)
        if (e->replica[i].in_stream && !e->replica[i].complete && e->replica[i].received < least)
            least = e->replica[i].received;
    return least;
}
