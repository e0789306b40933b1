/* SPDX-License-Identifier: BSD-3-Clause */
/* Each incomplete replica has a sender. If the sender, the link to it or the blob is lost, the
 * replica gets another sender, or its node gets DROP. */
#include "kernel/blobs/blob_schedule.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "kernel/blobs/blob_route.h"
#include "protocol/span_fields.h"

struct blob_schedule *blob_schedule_create(const struct blob_schedule_ops *ops, struct err *err)
{
    struct blob_schedule *s = calloc(1, sizeof *s);

    if (!s)
        return err_null(err, "out of memory");
    s->ops = *ops;
    return s;
}

void blob_schedule_destroy(struct blob_schedule *s)
{
    if (!s)
        return;
    blob_table_release(&s->table);
    direct_links_release(&s->links);
    free(s->node);
    free(s);
}

int blob_schedule_arrived(struct blob_schedule *s, uint64_t blob, uint64_t size, unsigned node,
                          struct err *err)
{
    struct blob_entry *e = blob_table_add(&s->table, blob, size);
    struct replica *r = e ? blob_entry_add(e, node) : NULL;

    if (!r) {
        if (e && e->n == 0)
            blob_table_remove(&s->table, e);
        return err_set(err, "out of memory: a value of %" PRIu64 " bytes is lost", size);
    }
    r->complete = true;
    return 0;
}

/* Call it when a large blob begins to move, and when one may have stopped. */
static void update_busy(struct blob_schedule *s)
{
    bool busy = false;

    for (size_t i = 0; i < s->table.n && !busy; i++)
        busy = s->table.entry[i].size >= BLOB_CHAIN_SIZE &&
               blob_entry_is_moving(&s->table.entry[i]);
    if (busy != s->busy && s->ops.busy)
        s->ops.busy(s->ops.arg, busy);
    s->busy = busy;
}

/* -1: memory is out, and no replica was added. */
static int add_replicas(struct blob_schedule *s, struct blob_entry *e, const unsigned *nodes,
                        size_t n, size_t *added, struct err *err)
{
    *added = 0;
    if (blob_schedule_reserve(s, e->n + n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const size_t before = e->n;
        struct replica *r = blob_entry_add(e, nodes[i]);

        if (r && e->n > before) {
            r->sender = BLOB_ALL;
            s->node[(*added)++] = nodes[i];
        } else if (!r) {
            while (*added)
                blob_entry_remove(e, blob_entry_at(e, s->node[--*added]));
            return err_set(err, "out of memory");
        }
    }
    return 0;
}

int blob_schedule_need(struct blob_schedule *s, uint64_t blob, uint64_t size, const unsigned *nodes,
                       size_t n, struct err *err)
{
    struct blob_entry *e = blob_table_get(&s->table, blob);
    const struct replica *holder = e && e->size == size && !e->dropped ? blob_entry_holder(e)
                                                                       : NULL;
    unsigned sender;
    size_t added;

    if (!holder)
        return 0; /* the agents find out that it is missing */
    sender = holder->node;
    if (add_replicas(s, e, nodes, n, &added, err) < 0)
        return -1;
    if (!added)
        return 0;
    /* On a direct link EXPECT must be acknowledged before sending starts: the blob could overtake
     * it. */
    blob_send_expect(s, e, s->node, added, size >= BLOB_CHAIN_SIZE ? sender : BLOB_ALL);
    blob_route_all(s, e, added, sender);
    if (size >= BLOB_CHAIN_SIZE)
        update_busy(s);
    return 0;
}

/* ---- the end of a blob ---- */

/* No node has the blob any more, or nobody will ask for it: nodes that have or expect it get
 * DROP. */
static void forget(struct blob_schedule *s, struct blob_entry *e)
{
    struct err err = { "" };

    if (blob_schedule_reserve(s, e->n, &err) < 0)
        for (size_t i = 0; i < e->n; i++)
            blob_send_drop(s, e->blob, &e->replica[i].node, 1);
    else {
        for (size_t i = 0; i < e->n; i++)
            s->node[i] = e->replica[i].node;
        blob_send_drop(s, e->blob, s->node, e->n);
    }
    blob_table_remove(&s->table, e);
}

/* Forgets the blob if its time has come. true: it is forgotten. */
static bool settle(struct blob_schedule *s, struct blob_entry *e)
{
    if (blob_entry_holder(e) && !(e->dropped && !blob_entry_is_moving(e)))
        return false;
    forget(s, e);
    return true;
}

void blob_schedule_drop(struct blob_schedule *s, uint64_t blob)
{
    struct blob_entry *e = blob_table_get(&s->table, blob);

    if (!e)
        return;
    e->dropped = true;
    (void)settle(s, e);
}

void blob_schedule_cancel(struct blob_schedule *s, uint64_t blob)
{
    struct blob_entry *e = blob_table_get(&s->table, blob);

    if (e)
        forget(s, e);
    if (s->busy)
        update_busy(s);
}

/* Tells the sender of the stream what all receivers have, so that it sends more. */
static void pass_least(struct blob_schedule *s, struct blob_entry *e, unsigned sender)
{
    const uint64_t least = blob_entry_least(e);

    if (least <= e->stream_received)
        return;
    e->stream_received = least;
    blob_send_ack(s, e, sender, BLOB_ALL, least);
}

/* Replicas whose sender is gone get another one: a node that has the whole blob, if there is one.
 */
static void give_anew(struct blob_schedule *s, struct blob_entry *e, unsigned gone)
{
    const struct replica *holder = blob_entry_holder(e);
    bool many = false;

    if (!holder)
        return;
    for (size_t i = 0; i < e->n; i++) {
        struct replica *r = &e->replica[i];

        if (r->complete || r->sender != gone)
            continue;
        r->started = false;
        if (r->in_stream) {
            r->sender = holder->node;
            many = true;
        } else {
            blob_route_any(s, e, r, holder->node);
        }
    }
    if (!many)
        return;
    e->stream_received = 0;
    blob_send_ship(s, e, holder->node, BLOB_ALL, true);
    pass_least(s, e, holder->node);
}

/* Removes the replica of a node. true: the blob is forgotten. */
static bool leave(struct blob_schedule *s, struct blob_entry *e, unsigned node)
{
    const struct replica was = *blob_entry_at(e, node);

    blob_entry_remove(e, blob_entry_at(e, node));
    if (!was.complete && was.in_stream)
        pass_least(s, e, was.sender);
    else if (!was.complete && was.started)
        blob_send_ack(s, e, was.sender, node, e->size); /* so that the sender stops */
    give_anew(s, e, node);
    return settle(s, e);
}

void blob_schedule_lost(struct blob_schedule *s, unsigned node)
{
    direct_links_lost(&s->links, node);
    for (size_t i = s->table.n; i-- > 0;)
        if (blob_entry_at(&s->table.entry[i], node))
            (void)leave(s, &s->table.entry[i], node);
    if (s->busy)
        update_busy(s);
}

/* What passes through the kernel to this replica goes on where it is. */
static void to_resumed(struct blob_schedule *s, const struct blob_entry *e, const struct replica *r)
{
    if (!r->complete && r->by_kernel && r->started)
        blob_send_ship(s, e, r->sender, r->in_stream ? BLOB_ALL : r->node, true);
}

/* The sender learns anew how far its receivers are. */
static void from_resumed(struct blob_schedule *s, const struct blob_entry *e, unsigned sender)
{
    bool many = false;

    for (size_t i = 0; i < e->n; i++) {
        const struct replica *r = &e->replica[i];

        if (r->complete || !r->by_kernel || r->sender != sender)
            continue;
        many = many || r->in_stream;
        if (!r->in_stream)
            blob_send_ack(s, e, sender, r->node, r->received);
    }
    if (many)
        blob_send_ack(s, e, sender, BLOB_ALL, e->stream_received);
}

void blob_schedule_resumed(struct blob_schedule *s, unsigned node)
{
    for (size_t i = 0; i < s->table.n; i++) {
        const struct blob_entry *e = &s->table.entry[i];
        const struct replica *r = blob_entry_at(&s->table.entry[i], node);

        if (r)
            to_resumed(s, e, r);
        from_resumed(s, e, node);
    }
    for (size_t i = 0; i < s->links.n; i++) {
        struct direct_link *link = &s->links.link[i];

        if (link->state == DIRECT_LINK_BAD && (link->sender == node || link->receiver == node))
            blob_link_anew(s, link);
    }
}

void blob_schedule_stop(struct blob_schedule *s)
{
    for (size_t i = s->table.n; i-- > 0;)
        if (blob_entry_is_moving(&s->table.entry[i]))
            forget(s, &s->table.entry[i]);
    if (s->busy)
        update_busy(s);
}

/* ---- messages ---- */

static void on_stored(struct blob_schedule *s, unsigned node, const struct span *m)
{
    struct blob_entry *e = blob_table_get(&s->table, m->blob);
    struct replica *r = e ? blob_entry_at(e, node) : NULL;
    const struct slice error = m->v[F_STORED_ERROR].s;

    if (!r)
        return;
    if (error.n) {
        log_warn("blobs", "blob %" PRIu64 " is not on node %u: %.*s", m->blob, node,
                 SLICE_ARG(error));
        if (r->complete)
            blob_send_drop(s, e->blob, &node,
                           1); /* the node may still have it, but can't send it */
        (void)leave(s, e, node);
        return;
    }
    r->complete = true;
    r->received = e->size;
    if (r->in_stream)
        pass_least(s, e, r->sender);
    (void)settle(s, e);
}

static void on_chunk_ack(struct blob_schedule *s, unsigned node, const struct span *m)
{
    struct blob_entry *e = blob_table_get(&s->table, m->blob);
    struct replica *r = e ? blob_entry_at(e, node) : NULL;
    const uint64_t bytes = m->v[F_CHUNK_ACK_BYTES].u64;

    if (!r || bytes > e->size)
        return;
    r->ready = true;
    r->received = bytes > r->received ? bytes : r->received;
    if (r->complete)
        return;
    if (r->in_stream)
        pass_least(s, e, r->sender);
    else if (r->by_kernel)
        blob_send_ack(s, e, r->sender, node, r->received);
    else
        blob_route_begin(s, e, r);
}

static bool wants_chunk(const struct replica *r, unsigned sender, bool many)
{
    return r && !r->complete && r->by_kernel && r->in_stream == many && r->sender == sender;
}

static void on_chunk(struct blob_schedule *s, unsigned node, const struct span *m)
{
    struct blob_entry *e = blob_table_get(&s->table, m->blob);
    const uint64_t to = m->v[F_CHUNK_TO].u64;
    const struct replica *one = e && to < BLOB_ALL ? blob_entry_at(e, (unsigned)to) : NULL;
    struct err err = { "" };
    size_t n = 0;

    if (!e || blob_schedule_reserve(s, e->n, &err) < 0)
        return;
    if (one && one->complete && one->by_kernel &&
        one->sender == node) /* the last answer was lost with the sender's connection */
        blob_send_ack(s, e, node, (unsigned)to, e->size);
    for (size_t i = 0; i < e->n; i++)
        if ((to == BLOB_ALL || to == e->replica[i].node) &&
            wants_chunk(&e->replica[i], node, to == BLOB_ALL))
            s->node[n++] = e->replica[i].node;
    if (n)
        s->ops.send(s->ops.arg, s->node, n, m);
}

/* ---- progress ---- */

/* Follows the chain up to a node that reports; the chain has at most e->n nodes. */
static uint64_t known_of(const struct blob_entry *e, const struct replica *r)
{
    for (size_t i = 0; i < e->n && r && !r->complete && !r->by_kernel; i++)
        r = blob_entry_at(e, r->sender);
    return r && !r->complete ? (r->in_stream ? blob_entry_least(e) : r->received) : UINT64_MAX;
}

uint64_t blob_schedule_expected(const struct blob_schedule *s, unsigned node, uint64_t *had,
                                uint64_t *whole)
{
    uint64_t bytes = 0;

    *had = *whole = 0;
    for (size_t i = 0; s->busy && i < s->table.n; i++) {
        const struct blob_entry *e = &s->table.entry[i];
        const struct replica *r = e->size < BLOB_CHAIN_SIZE ? NULL : blob_entry_at(e, node);
        const uint64_t known = r && !r->complete ? known_of(e, r) : 0;

        if (r && r->complete && r->received && blob_entry_is_moving(e)) /* 0: it came from there */
            *whole += e->size;
        if (!r || r->complete)
            continue;
        bytes += e->size;
        *had = known == UINT64_MAX || *had == UINT64_MAX ? UINT64_MAX : *had + known;
    }
    return bytes;
}

/* ---- direct links ---- */

static void link_failed(struct blob_schedule *s, struct direct_link *link, struct slice why)
{
    const unsigned sender = link->sender, receiver = link->receiver;

    if (link->anew && link->state != DIRECT_LINK_UP)
        log_info("blobs", "still no link from node %u to node %u: %.*s", sender, receiver,
                 SLICE_ARG(why));
    else
        log_warn("blobs", "no link from node %u to node %u, so the kernel passes blobs on: %.*s",
                 sender, receiver, SLICE_ARG(why));
    direct_link_failed(link, clock_now(s->ops.clock));
    for (size_t i = 0; i < s->table.n; i++) {
        struct blob_entry *e = &s->table.entry[i];
        struct replica *r = blob_entry_at(e, receiver);
        const struct replica *holder = blob_entry_holder(e);

        if (r && holder && !r->complete && !r->by_kernel && r->sender == sender)
            blob_route_by_kernel(s, e, r, holder->node);
    }
}

/* What goes through the kernel since the link failed goes on over the new one, if its sender has
 * all of it. */
static void take_back(struct blob_schedule *s, const struct direct_link *link,
                      const struct blob_entry *e, struct replica *r)
{
    const struct replica *from = blob_entry_at(e, link->sender);

    if (e->size < BLOB_CHAIN_SIZE || r->complete || !r->by_kernel || r->in_stream || !from ||
        !from->complete)
        return;
    if (r->sender != link->sender)
        blob_send_ack(s, e, r->sender, r->node, e->size); /* so that it stops */
    r->sender = link->sender;
    r->by_kernel = r->started = false;
}

static void link_up(struct blob_schedule *s, struct direct_link *link)
{
    if (link->anew)
        log_info("blobs", "there is a link from node %u to node %u again", link->sender,
                 link->receiver);
    direct_link_up(link, clock_now(s->ops.clock));
    for (size_t i = 0; i < s->table.n; i++) {
        struct replica *r = blob_entry_at(&s->table.entry[i], link->receiver);

        if (r && link->anew)
            take_back(s, link, &s->table.entry[i], r);
        if (r && r->sender == link->sender)
            blob_route_begin(s, &s->table.entry[i], r);
    }
}

static void dial(struct blob_schedule *s, struct direct_link *link, unsigned port)
{
    struct span m = { .kind = SPAN_DIAL,
                      .v[F_DIAL_NODE].u64 = link->sender,
                      .v[F_DIAL_ROLE].u64 = link->anew ? DIAL_BLOBS_ANEW : DIAL_BLOBS };
    struct buf endpoints = BUF_INIT;
    struct blob_peer peer;

    if (!s->ops.peer(s->ops.arg, link->sender, &peer)) {
        link_failed(s, link, slice_text("its addresses are not known"));
    } else if (direct_link_endpoints(slice_text(peer.addresses), port, &endpoints) < 0) {
        link_failed(s, link, slice_text("out of memory"));
    } else {
        m.v[F_DIAL_ENDPOINTS].s = buf_slice(&endpoints);
        m.v[F_DIAL_KEY].s = slice_of(peer.key, 32);
        link->state = DIRECT_LINK_DIALING;
        blob_send_to(s, link->receiver, &m);
    }
    buf_release(&endpoints);
}

/* The sender of this blob says that its link has ended. It says so for each blob. If there is a new
 * link meanwhile, or the blob goes another way, this is ignored. */
static void on_link_ended(struct blob_schedule *s, unsigned node, const struct span *m)
{
    const unsigned receiver = (unsigned)m->v[F_OPENED_NODE].u64;
    struct direct_link *link = direct_links_get(&s->links, node, receiver);
    const struct blob_entry *e = blob_table_get(&s->table, m->blob);
    const struct replica *r = e ? blob_entry_at(e, receiver) : NULL;

    if (link && link->state == DIRECT_LINK_UP && r && !r->by_kernel && r->sender == node)
        link_failed(s, link, m->v[F_OPENED_ERROR].s);
}

/* OPENED: the sender listens, or it can't, or the link has ended. */
static bool on_opened(struct blob_schedule *s, unsigned node, const struct span *m)
{
    struct direct_link *link = direct_links_get(&s->links, node, (unsigned)m->v[F_OPENED_NODE].u64);
    const struct slice error = m->v[F_OPENED_ERROR].s;

    if (m->blob) {
        on_link_ended(s, node, m);
        return true;
    }
    if (!link || link->state != DIRECT_LINK_OPENING)
        return false;
    if (error.n)
        link_failed(s, link, error);
    else
        dial(s, link, (unsigned)m->v[F_OPENED_PORT].u64);
    return true;
}

static bool on_dialed(struct blob_schedule *s, unsigned node, const struct span *m)
{
    struct direct_link *link = direct_links_get(&s->links, (unsigned)m->v[F_DIALED_NODE].u64, node);
    const struct slice error = m->v[F_DIALED_ERROR].s;

    if (!link || link->state != DIRECT_LINK_DIALING)
        return false;
    if (error.n)
        link_failed(s, link, error);
    else
        link_up(s, link);
    return true;
}

bool blob_schedule_message(struct blob_schedule *s, unsigned node, const struct span *m)
{
    switch (m->kind) {
    case SPAN_OPENED:
        return on_opened(s, node, m);
    case SPAN_DIALED:
        return on_dialed(s, node, m);
    case SPAN_STORED:
        on_stored(s, node, m);
        if (s->busy)
            update_busy(s);
        return true;
    case SPAN_CHUNK_ACK:
        on_chunk_ack(s, node, m);
        return true;
    case SPAN_CHUNK:
        on_chunk(s, node, m);
        return true;
    default:
        return false;
    }
}
