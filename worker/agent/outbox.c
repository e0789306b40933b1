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
    while (outbox_first(o))
        outbox_pop(o);
}

int outbox_add(struct outbox *o, bool urgent, struct slice msg, int blob_fd)
{
    const unsigned box = urgent ? 0 : 1;
    struct letter *l = malloc(sizeof *l + msg.n);

    if (!l) {
        if (blob_fd >= 0)
            close(blob_fd);
        return -1;
    }
    l->next = NULL;
    l->blob_fd = blob_fd;
    l->n = msg.n;
    if (msg.n)
        memcpy(l->p, msg.p, msg.n);
    *o->end[box] = l;
    o->end[box] = &l->next;
    o->bytes += msg.n;
    return 0;
}

const struct letter *outbox_first(const struct outbox *o)
{
    return o->first[0] ? o->first[0] : o->first[1];
}

void outbox_pop(struct outbox *o)
{
    const unsigned box = o->first[0] ? 0 : 1;
    struct letter *l = o->first[box];

    if (!l)
        return;
    if (!(o->first[box] = l->next))
        o->end[box] = &o->first[box];
    o->bytes -= l->n;
    if (l->blob_fd >= 0)
        close(l->blob_fd);
    free(l);
}
