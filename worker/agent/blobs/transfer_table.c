/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer_table.c - see transfer_table.h. Few blobs move at a time, each to few receivers, so
 * lists are fast enough. */
#include "worker/agent/blobs/transfer_table.h"

#include <stdlib.h>
#include <unistd.h>

static void transfer_free(struct transfer *t)
{
    while (t->receiver) {
        struct receiver *r = t->receiver;

        t->receiver = r->next;
        free(r);
    }
    close(t->fd);
    free(t);
}

void transfer_table_release(struct transfer_table *list)
{
    while (list->first)
        transfer_table_remove(list, list->first);
}

struct transfer *transfer_table_find(const struct transfer_table *list, uint64_t blob)
{
    struct transfer *t = list->first;

    while (t && t->blob != blob)
        t = t->next;
    return t;
}

struct transfer *transfer_table_add(struct transfer_table *list, uint64_t blob, uint64_t size,
                                    uint64_t had, int fd)
{
    struct transfer *t = calloc(1, sizeof *t);

    if (!t) {
        close(fd);
        return NULL;
    }
    t->next = list->first;
    t->blob = blob;
    t->size = size;
    t->had = had;
    t->fd = fd;
    list->first = t;
    return t;
}

void transfer_table_remove(struct transfer_table *list, struct transfer *t)
{
    struct transfer **at = &list->first;

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    transfer_free(t);
}

bool transfer_is_whole(const struct transfer *t)
{
    return t->had == t->size;
}

struct receiver *receiver_find(const struct transfer *t, uint32_t to)
{
    struct receiver *r = t ? t->receiver : NULL;

    while (r && r->to != to)
        r = r->next;
    return r;
}

struct receiver *receiver_add(struct transfer *t, uint32_t to, uint32_t link)
{
    struct receiver *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->next = t->receiver;
    r->to = to;
    r->link = link;
    t->receiver = r;
    return r;
}

void receiver_remove(struct transfer_table *list, struct transfer *t, struct receiver *r)
{
    struct receiver **at = &t->receiver;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    free(r);
    if (!t->receiver && transfer_is_whole(t))
        transfer_table_remove(list, t);
}
