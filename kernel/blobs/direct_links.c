/* A chain has as many links as nodes: an array is enough. */
#include "kernel/blobs/direct_links.h"

#include <stdlib.h>
#include <string.h>

#include "base/rows.h"

void direct_links_release(struct direct_links *t)
{
    free(t->link);
    *t = (struct direct_links)DIRECT_LINKS_INIT;
}

struct direct_link *direct_links_get(const struct direct_links *t, unsigned sender,
                                     unsigned receiver)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->link[i].sender == sender && t->link[i].receiver == receiver)
            return &t->link[i];
    return NULL;
}

struct direct_link *direct_links_add(struct direct_links *t, unsigned sender, unsigned receiver)
{
    struct direct_link *link = rows_add(&t->link, &t->n, &t->room, sizeof *link);

    if (link)
        *link = (struct direct_link){ sender, receiver, DIRECT_LINK_OPENING };
    return link;
}

void direct_links_lost(struct direct_links *t, unsigned node)
{
    size_t left = 0;

    for (size_t i = 0; i < t->n; i++)
        if (t->link[i].sender != node && t->link[i].receiver != node)
            t->link[left++] = t->link[i];
    t->n = left;
}

/* Cuts off what stands before the first `end`. */
static struct slice cut(struct slice *s, char end)
{
    const char *at = s->n ? memchr(s->p, end, s->n) : NULL;
    const struct slice before = slice_of(s->p, at ? (size_t)(at - s->p) : s->n);

    *s = at ? slice_of(at + 1, s->n - before.n - 1) : slice_of(s->p + s->n, 0);
    return before;
}

int direct_link_endpoints(struct slice addresses, unsigned port, struct buf *out)
{
    while (addresses.n) {
        struct slice ip = cut(&addresses, ',');

        if (memchr(ip.p, '=', ip.n))
            (void)cut(&ip, '=');
        if (ip.n == 0)
            continue;
        if (buf_addf(out, memchr(ip.p, ':', ip.n) ? "%stcp://[%.*s]:%u" : "%stcp://%.*s:%u",
                     out->n ? "," : "", SLICE_ARG(ip), port) < 0)
            return -1;
    }
    return 0;
}
