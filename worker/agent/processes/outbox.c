/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/processes/outbox.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void outbox_init(struct outbox *o)
{
    *o = (struct outbox){ .end = { &o->first[0], &o->first[1] } };
}

void outbox_release(struct outbox *o)
{
    for (unsigned box = 0; box < 2; box++)
        while (o->first[box]) {
            struct outbox_message *m = o->first[box];

            o->first[box] = m->next;
            if (m->blob_fd >= 0)
                close(m->blob_fd);
            free(m);
        }
    outbox_init(o);
}

static struct outbox_message *message_create(struct slice msg, int blob_fd)
{
    struct outbox_message *m = malloc(sizeof *m + msg.n);

    if (!m)
        return NULL;
    *m = (struct outbox_message){ .blob_fd = blob_fd, .n = msg.n };
    if (msg.n)
        memcpy(m->p, msg.p, msg.n);
    return m;
}

static void put(struct outbox *o, unsigned box, struct outbox_message *m)
{
    *o->end[box] = m;
    o->end[box] = &m->next;
}

int outbox_add(struct outbox *o, bool urgent, struct slice msg, int blob_fd)
{
    struct outbox_message *m = message_create(msg, blob_fd);

    if (!m) {
        if (blob_fd >= 0)
            close(blob_fd);
        return -1;
    }
    put(o, urgent ? 0 : 1, m);
    return 0;
}

int outbox_add_waiting(struct outbox *o, struct slice msg, uint64_t blob)
{
    struct outbox_message *m = message_create(msg, -1);

    if (!m)
        return -1;
    m->waits = blob;
    put(o, 1, m);
    return 0;
}

const struct outbox_message *outbox_first(const struct outbox *o)
{
    if (o->first[0])
        return o->first[0];
    return o->first[1] && !o->first[1]->waits ? o->first[1] : NULL;
}

bool outbox_is_empty(const struct outbox *o)
{
    return !o->first[0] && !o->first[1];
}

bool outbox_has_urgent(const struct outbox *o)
{
    return o->first[0] != NULL;
}

static void take_out(struct outbox *o, unsigned box, struct outbox_message *m)
{
    struct outbox_message **at = &o->first[box];

    while (*at != m)
        at = &(*at)->next;
    if (!(*at = m->next))
        o->end[box] = at;
    if (m->blob_fd >= 0)
        close(m->blob_fd);
    free(m);
}

void outbox_pop(struct outbox *o)
{
    const unsigned box = o->first[0] ? 0 : 1;

    if (o->first[box])
        take_out(o, box, o->first[box]);
}

struct outbox_message *outbox_find(const struct outbox *o, enum span_kind kind, uint64_t cell)
{
    struct span head;

    for (struct outbox_message *m = o->first[1]; m; m = m->next)
        if (span_peek(&head, m->p, m->n, NULL) == 0 && head.kind == kind && head.cell == cell)
            return m;
    return NULL;
}

void outbox_remove(struct outbox *o, struct outbox_message *m)
{
    take_out(o, 1, m);
}

/* ---- blobs on their way ---- */

struct outbox_message *outbox_waiting(const struct outbox *o, uint64_t blob)
{
    struct outbox_message *m = o->first[1];

    while (m && m->waits != blob)
        m = m->next;
    return m;
}

void outbox_ready(struct outbox_message *m, int blob_fd)
{
    m->waits = 0;
    m->blob_fd = blob_fd;
}

int outbox_replace(struct outbox *o, struct outbox_message *m, struct slice msg)
{
    struct outbox_message *now = message_create(msg, -1), **at = &o->first[1];

    if (!now)
        return -1;
    while (*at != m)
        at = &(*at)->next;
    *at = now;
    if (!(now->next = m->next))
        o->end[1] = &now->next;
    free(m);
    return 0;
}
