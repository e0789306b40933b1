/* outbox.c - see outbox.h. */
#include "worker/agent/outbox.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void outbox_init(struct outbox *o)
{
    *o = (struct outbox){ .bytes = 0 };
    o->end[0] = &o->first[0];
    o->end[1] = &o->first[1];
}

void outbox_release(struct outbox *o)
{
    for (unsigned box = 0; box < 2; box++)
        while (o->first[box]) {
            struct letter *l = o->first[box];

            o->first[box] = l->next;
            if (l->blob_fd >= 0)
                close(l->blob_fd);
            free(l);
        }
    outbox_init(o);
}

static struct letter *letter_create(struct slice msg, int blob_fd)
{
    struct letter *l = malloc(sizeof *l + msg.n);

    if (!l)
        return NULL;
    *l = (struct letter){ .blob_fd = blob_fd, .n = msg.n };
    if (msg.n)
        memcpy(l->p, msg.p, msg.n);
    return l;
}

static void put(struct outbox *o, unsigned box, struct letter *l)
{
    *o->end[box] = l;
    o->end[box] = &l->next;
    o->bytes += l->n;
}

int outbox_add(struct outbox *o, bool urgent, struct slice msg, int blob_fd)
{
    struct letter *l = letter_create(msg, blob_fd);

    if (!l) {
        if (blob_fd >= 0)
            close(blob_fd);
        return -1;
    }
    put(o, urgent ? 0 : 1, l);
    return 0;
}

int outbox_add_waiting(struct outbox *o, struct slice msg, uint64_t blob)
{
    struct letter *l = letter_create(msg, -1);

    if (!l)
        return -1;
    l->waits = blob;
    put(o, 1, l);
    return 0;
}

const struct letter *outbox_first(const struct outbox *o)
{
    if (o->first[0])
        return o->first[0];
    return o->first[1] && !o->first[1]->waits ? o->first[1] : NULL;
}

bool outbox_is_empty(const struct outbox *o)
{
    return !o->first[0] && !o->first[1];
}

static void take_out(struct outbox *o, unsigned box, struct letter *l)
{
    struct letter **at = &o->first[box];

    while (*at != l)
        at = &(*at)->next;
    if (!(*at = l->next))
        o->end[box] = at;
    o->bytes -= l->n;
    if (l->blob_fd >= 0)
        close(l->blob_fd);
    free(l);
}

void outbox_pop(struct outbox *o)
{
    const unsigned box = o->first[0] ? 0 : 1;

    if (o->first[box])
        take_out(o, box, o->first[box]);
}

struct letter *outbox_find(const struct outbox *o, enum span_kind kind, uint64_t cell)
{
    struct span head;

    for (struct letter *l = o->first[1]; l; l = l->next)
        if (span_peek(&head, l->p, l->n, NULL) == 0 && head.kind == kind && head.cell == cell)
            return l;
    return NULL;
}

void outbox_remove(struct outbox *o, struct letter *l)
{
    take_out(o, 1, l);
}

/* ---- blobs on their way ---- */

struct letter *outbox_waiting(const struct outbox *o, uint64_t blob)
{
    struct letter *l = o->first[1];

    while (l && l->waits != blob)
        l = l->next;
    return l;
}

void letter_ready(struct letter *l, int blob_fd)
{
    l->waits = 0;
    l->blob_fd = blob_fd;
}

int outbox_replace(struct outbox *o, struct letter *l, struct slice msg)
{
    struct letter *now = letter_create(msg, -1), **at = &o->first[1];

    if (!now)
        return -1;
    while (*at != l)
        at = &(*at)->next;
    *at = now;
    if (!(now->next = l->next))
        o->end[1] = &now->next;
    o->bytes += now->n - l->n;
    free(l);
    return 0;
}
