/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/blobs/blob_route.h"

#include <stdlib.h>

#include "base/le.h"
#include "protocol/span_fields.h"

/* ---- messages ---- */

void blob_send_to(struct blob_schedule *s, unsigned node, const struct span *m)
{
    s->ops.send(s->ops.arg, &node, 1, m);
}

static struct span about(const struct blob_entry *e, enum span_kind kind)
{
    return (struct span){ .kind = kind, .blob = e->blob, .blob_size = e->size };
}

void blob_send_expect(struct blob_schedule *s, const struct blob_entry *e, const unsigned *nodes,
                      size_t n, unsigned from)
{
    struct span m = about(e, SPAN_EXPECT);

    m.v[F_EXPECT_FROM].u64 = from;
    s->ops.send(s->ops.arg, nodes, n, &m);
}

void blob_send_ship(struct blob_schedule *s, const struct blob_entry *e, unsigned sender,
                    unsigned to, bool through)
{
    struct span m = about(e, SPAN_SHIP);

    m.v[F_SHIP_TO].u64 = to;
    m.v[F_SHIP_THROUGH].u64 = through;
    blob_send_to(s, sender, &m);
}

void blob_send_ack(struct blob_schedule *s, const struct blob_entry *e, unsigned sender,
                   unsigned to, uint64_t bytes)
{
    struct span m = about(e, SPAN_CHUNK_ACK);

    m.v[F_CHUNK_ACK_TO].u64 = to;
    m.v[F_CHUNK_ACK_BYTES].u64 = bytes;
    blob_send_to(s, sender, &m);
}

void blob_send_drop(struct blob_schedule *s, uint64_t blob, const unsigned *nodes, size_t n)
{
    char number[8];
    struct span m = { .kind = SPAN_DROP, .v[F_DROP_BLOBS].s = slice_of(number, sizeof number) };

    le_put(number, sizeof number, blob);
    if (n)
        s->ops.send(s->ops.arg, nodes, n, &m);
}

/* Tells the sender to listen for the receiver. false: one of them can't be reached by others. */
static bool send_open(struct blob_schedule *s, const struct direct_link *link)
{
    struct span m = { .kind = SPAN_OPEN, .v[F_OPEN_NODE].u64 = link->receiver };
    struct blob_peer peer;

    if (!s->ops.peer(s->ops.arg, link->sender, &peer) ||
        !s->ops.peer(s->ops.arg, link->receiver, &peer))
        return false;
    m.v[F_OPEN_KEY].s = slice_of(peer.key, 32);
    blob_send_to(s, link->sender, &m);
    return true;
}

int blob_schedule_reserve(struct blob_schedule *s, size_t n, struct err *err)
{
    unsigned *node;

    if (n <= s->n_nodes)
        return 0;
    if (!(node = realloc(s->node, n * sizeof *node)))
        return err_set(err, "out of memory");
    s->node = node;
    s->n_nodes = n;
    return 0;
}

/* ---- routes ---- */

void blob_route_begin(struct blob_schedule *s, const struct blob_entry *e, struct replica *r)
{
    const struct direct_link *link = direct_links_get(&s->links, r->sender, r->node);

    if (r->complete || r->by_kernel || r->started || !r->ready || !link ||
        link->state != DIRECT_LINK_UP)
        return;
    r->started = true;
    blob_send_ship(s, e, r->sender, r->node, false);
}

void blob_route_by_kernel(struct blob_schedule *s, const struct blob_entry *e, struct replica *r,
                          unsigned sender)
{
    r->sender = sender;
    r->by_kernel = true;
    r->in_stream = false;
    r->started = true;
    blob_send_ship(s, e, sender, r->node, true);
}

void blob_link_anew(struct blob_schedule *s, struct direct_link *link)
{
    if (send_open(s, link))
        link->state = DIRECT_LINK_OPENING;
}

/* The link of a blob from sender to receiver; NULL: there is none now. A blob does not wait for a
 * link that has failed before: what can't be reached is often noticed only after seconds. */
static struct direct_link *link_for(struct blob_schedule *s, unsigned sender, unsigned receiver)
{
    struct direct_link *link = direct_links_get(&s->links, sender, receiver);

    if (!link) {
        if ((link = direct_links_add(&s->links, sender, receiver)) && send_open(s, link))
            return link;
        s->links.n -= link != NULL;
        return NULL;
    }
    if (direct_link_is_due(link, clock_now(s->ops.clock)))
        blob_link_anew(s, link);
    return link->anew && link->state != DIRECT_LINK_UP ? NULL : link;
}

/* false: there is no direct link between the two now. */
static bool by_link(struct blob_schedule *s, const struct blob_entry *e, struct replica *r,
                    unsigned sender)
{
    if (!link_for(s, sender, r->node))
        return false;
    r->sender = sender;
    r->by_kernel = r->in_stream = r->started = false;
    blob_route_begin(s, e, r);
    return true;
}

static bool is_new(const struct replica *r)
{
    return !r->complete && !r->started && !r->by_kernel && !r->in_stream && !r->ready &&
           r->sender == BLOB_ALL;
}

/* All new replicas get the shared stream, which the kernel passes on to each. */
static void by_stream(struct blob_schedule *s, struct blob_entry *e, unsigned sender)
{
    for (size_t i = 0; i < e->n; i++)
        if (is_new(&e->replica[i])) {
            e->replica[i].sender = sender;
            e->replica[i].by_kernel = e->replica[i].in_stream = e->replica[i].started = true;
        }
    e->stream_received = 0;
    blob_send_ship(s, e, sender, BLOB_ALL, true);
}

static bool is_passed_on_by(const struct blob_entry *e, unsigned node)
{
    for (size_t i = 0; i < e->n; i++)
        if (!e->replica[i].complete && !e->replica[i].by_kernel && e->replica[i].sender == node)
            return true;
    return false;
}

/* A node that got the blob, or gets it, and passes it on to none; BLOB_ALL: there is none. */
static unsigned last_of_chain(const struct blob_schedule *s, const struct blob_entry *e)
{
    struct blob_peer peer;

    for (size_t i = 0; i < e->n; i++) {
        const struct replica *r = &e->replica[i];

        if ((r->complete ? r->received > 0 : r->sender != BLOB_ALL) &&
            !is_passed_on_by(e, r->node) && s->ops.peer(s->ops.arg, r->node, &peer))
            return r->node;
    }
    return BLOB_ALL;
}

/* Each new replica gets the blob from the one before it, the first from `before`. Where two have
 * no direct link, the sender sends it through the kernel. */
static void by_chain(struct blob_schedule *s, struct blob_entry *e, unsigned before,
                     unsigned sender)
{
    for (size_t i = 0; i < e->n; i++)
        if (is_new(&e->replica[i])) {
            const unsigned node = e->replica[i].node;

            if (!by_link(s, e, &e->replica[i], before))
                blob_route_by_kernel(s, e, &e->replica[i], sender);
            before = node;
        }
}

static bool has_stream(const struct blob_entry *e)
{
    for (size_t i = 0; i < e->n; i++)
        if (e->replica[i].in_stream && !e->replica[i].complete)
            return true;
    return false;
}

/* A node that has the blob, and a direct link to that node; BLOB_ALL: there is none. */
static unsigned linked_holder(const struct blob_schedule *s, const struct blob_entry *e,
                              unsigned node)
{
    for (size_t i = 0; i < e->n; i++) {
        const struct direct_link *link = e->replica[i].complete
                                             ? direct_links_get(&s->links, e->replica[i].node, node)
                                             : NULL;

        if (link && link->state == DIRECT_LINK_UP)
            return e->replica[i].node;
    }
    return BLOB_ALL;
}

void blob_route_any(struct blob_schedule *s, struct blob_entry *e, struct replica *r,
                    unsigned sender)
{
    const unsigned linked = e->size < BLOB_CHAIN_SIZE ? BLOB_ALL : linked_holder(s, e, r->node);

    if (linked == BLOB_ALL || !by_link(s, e, r, linked))
        blob_route_by_kernel(s, e, r, sender);
}

void blob_route_all(struct blob_schedule *s, struct blob_entry *e, size_t n, unsigned sender)
{
    const unsigned last = e->size < BLOB_CHAIN_SIZE ? BLOB_ALL : last_of_chain(s, e);

    if (last != BLOB_ALL)
        by_chain(s, e, last, sender);
    else if (n > 1 && e->size >= BLOB_CHAIN_SIZE)
        by_chain(s, e, sender, sender);
    else if (n > 1 && !has_stream(e))
        by_stream(s, e, sender);
    else
        for (size_t i = 0; i < e->n; i++)
            if (is_new(&e->replica[i]))
                blob_route_any(s, e, &e->replica[i], sender);
}
