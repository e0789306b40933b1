/* haul.c - see haul.h. Few blobs move at a time, and few nodes take them from here: lists do. */
#include "worker/agent/haul.h"

#include <stdlib.h>
#include <unistd.h>

static void haul_free(struct haul *h)
{
    while (h->taker) {
        struct taker *t = h->taker;

        h->taker = t->next;
        free(t);
    }
    close(h->fd);
    free(h);
}

void hauls_release(struct hauls *list)
{
    while (list->first)
        haul_remove(list, list->first);
}

struct haul *haul_find(const struct hauls *list, uint64_t blob)
{
    struct haul *h = list->first;

    while (h && h->blob != blob)
        h = h->next;
    return h;
}

struct haul *haul_add(struct hauls *list, uint64_t blob, uint64_t size, uint64_t had, int fd)
{
    struct haul *h = calloc(1, sizeof *h);

    if (!h) {
        close(fd);
        return NULL;
    }
    h->next = list->first;
    h->blob = blob;
    h->size = size;
    h->had = had;
    h->fd = fd;
    list->first = h;
    return h;
}

void haul_remove(struct hauls *list, struct haul *h)
{
    struct haul **at = &list->first;

    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    haul_free(h);
}

bool haul_is_whole(const struct haul *h)
{
    return h->had == h->size;
}

struct taker *taker_find(const struct haul *h, uint32_t to)
{
    struct taker *t = h ? h->taker : NULL;

    while (t && t->to != to)
        t = t->next;
    return t;
}

struct taker *taker_add(struct haul *h, uint32_t to, uint32_t link)
{
    struct taker *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->next = h->taker;
    t->to = to;
    t->link = link;
    h->taker = t;
    return t;
}

void taker_remove(struct hauls *list, struct haul *h, struct taker *t)
{
    struct taker **at = &h->taker;

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    free(t);
    if (!h->taker && haul_is_whole(h))
        haul_remove(list, h);
}
