/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/kernel/blobs/yard.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/blob.h"
#include "base/descriptor.h"
#include "protocol/span_fields.h"

static const unsigned char key[32] = { 1 };

/* ---- links ---- */

/* Takes the bytes over, of which the first ones are not sent. A copy of each chunk would take
 * longer than all else, since the sanitizers' malloc gets new memory for it. */
static void queue_add(struct queue *q, struct buf *bytes, size_t unsent)
{
    struct content *p = malloc(sizeof *p);

    if (!p)
        return;
    *p = (struct content){ .bytes = *bytes, .unsent = unsent };
    *bytes = (struct buf)BUF_INIT;
    *q->last = p;
    q->last = &p->next;
    q->bytes += p->bytes.n - unsent;
    q->most = q->bytes > q->most ? q->bytes : q->most;
}

static struct slice content_of(const struct content *p)
{
    return slice_of(p->bytes.p + p->unsent, p->bytes.n - p->unsent);
}

static void content_free(struct content *p)
{
    buf_release(&p->bytes);
    free(p);
}

static struct content *queue_take(struct queue *q)
{
    struct content *p = q->first;

    if (!p)
        return NULL;
    if (!(q->first = p->next))
        q->last = &q->first;
    q->bytes -= content_of(p).n;
    return p;
}

static void queue_clear(struct queue *q)
{
    struct content *p;

    while ((p = queue_take(q)))
        content_free(p);
}

static void say(struct yard *y, unsigned from, unsigned to, const struct span *m)
{
    struct buf msg = BUF_INIT;
    struct err err = { "" };

    if (span_encode(m, &msg, &err) == 0)
        queue_add(&y->queue[from][to], &msg, 0);
    buf_release(&msg);
}

/* ---- what the schedule calls ---- */

static void k_send(void *arg, const unsigned *nodes, size_t n, const struct span *m)
{
    struct yard *y = arg;

    if (m->kind == SPAN_CHUNK_ACK && nodes[0] == 0 &&
        local_blobs_acked(&y->local_blobs, m, y->now_ns))
        return;
    y->k_messages++;
    y->k_chunks += m->kind == SPAN_CHUNK;
    y->ships += m->kind == SPAN_SHIP;
    y->drops += m->kind == SPAN_DROP;
    for (size_t i = 0; i < n; i++) {
        if (m->kind == SPAN_DROP && nodes[i] == 0)
            local_blobs_drop(&y->local_blobs,
                             *(const uint64_t *)(const void *)m->v[F_DROP_BLOBS].s.p);
        if (y->node[nodes[i]].alive)
            say(y, YARD_K, nodes[i], m);
    }
}

static bool k_peer(void *arg, unsigned node, struct blob_peer *out)
{
    (void)arg;
    *out = (struct blob_peer){ "eth0=10.0.0.1,ib0=fd00::1", key };
    return node != 0;
}

static void k_busy(void *arg, bool on)
{
    struct yard *y = arg;

    y->wrong = y->wrong || y->busy == on; /* it tells changes */
    y->busy = on;
}

/* ---- what the transfers of a node call ---- */

static int a_send(void *arg, uint32_t link, struct buf *bytes)
{
    const struct slice msg = slice_of(bytes->p + TRANSFERS_ROOM, bytes->n - TRANSFERS_ROOM);
    const struct yard_node *n = arg;
    struct yard *y = n->yard;
    const bool linked = link == TRANSFERS_KERNEL || (link < y->n && y->linked[n->number][link]);

    if (link != TRANSFERS_KERNEL && linked && (unsigned char)msg.p[1] == SPAN_CHUNK) {
        y->peer_chunks++;
        y->chunks[n->number][link]++;
    }
    if (linked && (link == TRANSFERS_KERNEL || !n->is_mute))
        queue_add(&y->queue[n->number][link == TRANSFERS_KERNEL ? YARD_K : link], bytes,
                  TRANSFERS_ROOM);
    buf_release(bytes);
    return linked ? 0 : -1;
}

static int a_lend(void *arg, uint64_t blob, uint64_t size, int fd)
{
    const struct yard_node *n = arg;
    const uint64_t packet[2] = { blob, size };

    return descriptor_send(n->yard->lending[1], packet, sizeof packet, fd);
}

static void a_settled(void *arg, uint64_t blob, const char *error)
{
    struct yard_node *n = arg;

    (void)blob;
    n->settled += !error;
    n->failed += error != NULL;
    if (error)
        snprintf(n->why, sizeof n->why, "%s", error);
}

static void a_broken(void *arg, const char *why)
{
    (void)arg;
    (void)why;
    abort(); /* nothing of that kind fails here */
}

static uint64_t a_space(void *arg, const char **why)
{
    *why = "memory";
    return ((const struct yard_node *)arg)->space;
}

static uint64_t now_ns(void *arg)
{
    return ((struct yard *)arg)->now_ns;
}

/* ---- what an agent does beside carrying ---- */

static void on_open(struct yard *y, unsigned node, const struct span *m)
{
    struct span answer = { .kind = SPAN_OPENED,
                           .v[F_OPENED_NODE] = m->v[F_OPEN_NODE],
                           .v[F_OPENED_PORT].u64 = 4321 };

    if (y->node[node].refuses_open)
        answer.v[F_OPENED_ERROR].s = slice_text("no port");
    y->opens[node][m->v[F_OPEN_NODE].u64]++;
    say(y, node, YARD_K, &answer);
}

static void on_dial(struct yard *y, unsigned node, const struct span *m)
{
    const unsigned sender = (unsigned)m->v[F_DIAL_NODE].u64;
    struct span answer = { .kind = SPAN_DIALED, .v[F_DIALED_NODE] = m->v[F_DIAL_NODE] };

    if (y->node[node].refuses_dial || !y->node[sender].alive ||
        !slice_is(m->v[F_DIAL_ENDPOINTS].s, "tcp://10.0.0.1:4321,tcp://[fd00::1]:4321"))
        answer.v[F_DIALED_ERROR].s = slice_text("no route");
    else
        y->linked[sender][node] = y->linked[node][sender] = true;
    say(y, node, YARD_K, &answer);
}

static void on_drop(struct yard_node *n, struct slice numbers)
{
    for (size_t i = 0; i + 8 <= numbers.n; i += 8) {
        uint64_t blob = 0;

        for (unsigned k = 0; k < 8; k++)
            blob |= (uint64_t)(unsigned char)numbers.p[i + k] << (8 * k);
        transfers_drop(n->carrier, blob);
        blobs_drop(&n->blobs, blob);
    }
}

static void node_takes(struct yard *y, unsigned from, unsigned node, const struct span *m)
{
    switch (m->kind) {
    case SPAN_OPEN:
        on_open(y, node, m);
        break;
    case SPAN_DIAL:
        on_dial(y, node, m);
        break;
    case SPAN_DROP:
        on_drop(&y->node[node], m->v[F_DROP_BLOBS].s);
        break;
    default:
        transfers_message(y->node[node].carrier, from == YARD_K ? TRANSFERS_KERNEL : from, m);
        break;
    }
}

/* ---- the whole ---- */

void yard_init(struct yard *y, unsigned n, uint64_t seed)
{
    const struct blob_schedule_ops k = {
        .send = k_send, .peer = k_peer, .busy = k_busy, .clock = &y->clock, .arg = y
    };

    memset(y, 0, sizeof *y);
    y->n = n;
    if (descriptor_pair(y->lending) < 0)
        perror("# socketpair");
    y->random = seed * 2 + 1;
    y->now_ns = NS_PER_S;
    y->clock = (struct clock){ .now_ns = now_ns, .arg = y };
    for (unsigned a = 0; a <= YARD_NODES; a++)
        for (unsigned b = 0; b <= YARD_NODES; b++)
            y->queue[a][b].last = &y->queue[a][b].first;
    y->schedule = blob_schedule_create(&k, NULL);
    for (unsigned i = 0; i < n; i++) {
        const struct transfers_ops a = {
            .send = a_send,
            .share_fd = i == 0 && seed % 2 ? a_lend : NULL,
            .settled = a_settled,
            .broken = a_broken,
            .free_memory = a_space,
            .clock = &y->clock,
            .node = "node",
            .arg = &y->node[i],
        };

        y->node[i].yard = y;
        y->node[i].number = i;
        y->node[i].alive = true;
        y->node[i].space = UINT64_MAX;
        y->node[i].carrier = transfers_create(&y->node[i].blobs, &a, NULL);
    }
}

void yard_release(struct yard *y)
{
    for (unsigned i = 0; i < y->n; i++) {
        transfers_destroy(y->node[i].carrier);
        blobs_release(&y->node[i].blobs);
    }
    for (unsigned a = 0; a <= YARD_NODES; a++)
        for (unsigned b = 0; b <= YARD_NODES; b++)
            queue_clear(&y->queue[a][b]);
    blob_schedule_destroy(y->schedule);
    local_blobs_release(&y->local_blobs);
    close(y->lending[0]);
    close(y->lending[1]);
}

static char byte_at(uint64_t blob, uint64_t i)
{
    return (char)((i * 2654435761u + blob * 97) >> 16 & 0xff);
}

void yard_put(struct yard *y, unsigned node, uint64_t blob, uint64_t size)
{
    static char *p; /* is kept: to get and give back 10 MB takes longer than to fill them */
    static uint64_t there;
    struct err err = { "" };
    int fd;

    if (size > there) {
        free(p);
        p = malloc(size);
        there = p ? size : 0;
    }
    if (!p)
        return;
    for (uint64_t i = 0; i < size; i++)
        p[i] = byte_at(blob, i);
    fd = blob_of("test", p, size, &err);
    if (fd < 0 || blobs_put(&y->node[node].blobs, blob, size, fd) < 0 ||
        blob_schedule_arrived(y->schedule, blob, size, node, &err) < 0)
        printf("# a blob is lost: %s\n", err.text);
}

void yard_need(struct yard *y, uint64_t blob, uint64_t size, unsigned first, unsigned last)
{
    unsigned nodes[YARD_NODES], n = 0;
    struct err err = { "" };

    for (; first <= last; first++)
        if (y->node[first].alive)
            nodes[n++] = first;
    if (blob_schedule_need(y->schedule, blob, size, nodes, n, &err) < 0)
        printf("# %s\n", err.text);
}

bool yard_forgot(struct yard *y, uint64_t blob, uint64_t size)
{
    const unsigned nowhere = YARD_NODES - 1, before = y->k_messages;
    struct err err = { "" };

    return blob_schedule_need(y->schedule, blob, size, &nowhere, 1, &err) == 0 &&
           y->k_messages == before;
}

static unsigned roll(struct yard *y, unsigned sides)
{
    y->random = y->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(y->random >> 33) % sides;
}

/* As from_agents.c does. */
static void k_takes(struct yard *y, unsigned from, struct span *m)
{
    const bool local = m->kind == SPAN_CHUNK && from == 0 && m->v[F_CHUNK_DATA].s.n == 0;
    struct err err = { "" };

    if (local && local_blobs_begin(&y->local_blobs, y->lending[0], m, &err) < 0)
        *m = (struct span){ .kind = SPAN_STORED,
                            .blob = m->blob,
                            .blob_size = m->blob_size,
                            .v[F_STORED_ERROR].s = slice_text(err.text) };
    if (m->kind != SPAN_CHUNK || !local)
        (void)blob_schedule_message(y->schedule, from, m);
    for (struct span more; local_blobs_next(&y->local_blobs, &more, y->now_ns); y->local_chunks++)
        (void)blob_schedule_message(y->schedule, 0, &more);
}

static void deliver(struct yard *y, unsigned from, unsigned to)
{
    struct content *p = queue_take(&y->queue[from][to]);
    const struct slice bytes = content_of(p);
    struct err err = { "" };
    struct span m;

    if (span_decode(&m, bytes.p, bytes.n, &err) < 0) {
        printf("# %s\n", err.text);
    } else {
        if (to == YARD_K)
            k_takes(y, from, &m);
        else
            node_takes(y, from, to, &m);
        span_release(&m);
    }
    content_free(p);
}

/* One message, from a link that has one; false: none has. */
static bool deliver_any(struct yard *y)
{
    unsigned full[(YARD_NODES + 1) * 4][2], n = 0;

    for (unsigned a = 0; a <= YARD_NODES; a++)
        for (unsigned b = 0; b <= YARD_NODES && n < sizeof full / sizeof *full; b++)
            if (y->queue[a][b].first) {
                full[n][0] = a;
                full[n++][1] = b;
            }
    if (!n)
        return false;
    n = roll(y, n);
    deliver(y, full[n][0], full[n][1]);
    return true;
}

unsigned yard_run(struct yard *y, unsigned most)
{
    unsigned n = 0;

    while (n < most) {
        bool more = false;

        for (unsigned i = 0; i < y->n; i++)
            if (y->node[i].alive)
                more = transfers_work(y->node[i].carrier) || more;
        if (!deliver_any(y) && !more)
            break;
        n++;
    }
    return n;
}

void yard_cut(struct yard *y, unsigned a, unsigned b)
{
    queue_clear(&y->queue[a][b]);
    queue_clear(&y->queue[b][a]);
    if (!y->linked[a][b])
        return;
    y->linked[a][b] = y->linked[b][a] = false;
    if (y->node[a].alive)
        transfers_unlinked(y->node[a].carrier, b, "the link has ended");
    if (y->node[b].alive)
        transfers_unlinked(y->node[b].carrier, a, "the link has ended");
}

/* Drops what has no number. */
static void lose_unnumbered(struct queue *q)
{
    struct queue all = *q;
    struct content *p;

    *q = (struct queue){ .last = &q->first, .most = all.most };
    if (!all.first)
        return;
    while ((p = queue_take(&all))) {
        if (span_is_numbered(content_of(p).p, content_of(p).n))
            queue_add(q, &p->bytes, p->unsent);
        content_free(p);
    }
}

void yard_reset(struct yard *y, unsigned node)
{
    lose_unnumbered(&y->queue[node][YARD_K]);
    lose_unnumbered(&y->queue[YARD_K][node]);
    blob_schedule_resumed(y->schedule, node);
    transfers_resumed(y->node[node].carrier);
}

void yard_kill(struct yard *y, unsigned node)
{
    y->node[node].alive = false;
    for (unsigned i = 0; i <= YARD_NODES; i++) {
        queue_clear(&y->queue[node][i]);
        queue_clear(&y->queue[i][node]);
    }
    for (unsigned i = 0; i < y->n; i++)
        if (i != node)
            yard_cut(y, node, i);
    blob_schedule_lost(y->schedule, node);
}

bool yard_has(const struct yard *y, unsigned node, uint64_t blob, uint64_t size)
{
    const struct blob *b = blobs_get(&y->node[node].blobs, blob);
    char part[1 << 14];
    struct err err = { "" };
    bool same = b && b->size == size;

    for (uint64_t at = 0, n; same && at < size; at += n) {
        n = size - at < sizeof part ? size - at : sizeof part;
        same = blob_read(b->fd, part, n, at, &err) == 0;
        for (uint64_t i = 0; same && i < n; i++)
            same = part[i] == byte_at(blob, at + i);
    }
    return same;
}

bool yard_waits(const struct yard *y, unsigned node, uint64_t blob)
{
    return transfers_expects(y->node[node].carrier, blob);
}
