/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/route.h"

#include "protocol/bytes.h"

int route_add(struct buf *out, uint32_t node, const uint32_t *workers, size_t n)
{
    struct writer w = writer_of(out);

    writer_reserve(&w, 8 + 4 * n);
    writer_u32(&w, node);
    writer_u32(&w, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        writer_u32(&w, workers[i]);
    return writer_end(&w);
}

/* Cuts from the start of *s what reader r has read of it, and returns that. */
static struct slice cut(struct slice *s, const struct reader *r)
{
    const struct slice taken = slice_of(s->p, s->n - reader_left(r));

    *s = slice_of(s->p + taken.n, s->n - taken.n);
    return taken;
}

bool route_next(struct slice *route, struct route_section *section)
{
    struct reader r = reader_of(route->p, route->n);
    uint32_t n;

    section->node = reader_u32(&r);
    n = reader_u32(&r);
    if (r.bad || n > reader_left(&r) / 4)
        return false;
    section->workers = reader_take(&r, 4 * (size_t)n);
    section->whole = cut(route, &r);
    return true;
}

bool route_is_whole(struct slice route)
{
    struct route_section s;

    while (route_next(&route, &s))
        ;
    return route.n == 0;
}

int bundle_add(struct buf *out, uint32_t node, uint32_t worker, struct slice message)
{
    struct writer w = writer_of(out);

    if (message.n > UINT32_MAX)
        return -1;
    writer_reserve(&w, 12 + message.n);
    writer_u32(&w, node);
    writer_u32(&w, worker);
    writer_u32(&w, (uint32_t)message.n);
    writer_bytes(&w, message);
    return writer_end(&w);
}

bool bundle_next(struct slice *bundle, struct bundle_entry *entry)
{
    struct reader r = reader_of(bundle->p, bundle->n);
    uint32_t n;

    entry->node = reader_u32(&r);
    entry->worker = reader_u32(&r);
    n = reader_u32(&r);
    entry->message = reader_take(&r, n);
    if (r.bad)
        return false;
    entry->whole = cut(bundle, &r);
    return true;
}
