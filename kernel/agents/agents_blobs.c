/* SPDX-License-Identifier: BSD-3-Clause */
/* agents_blobs.c - connects the schedule of blobs, and this machine's blobs, to the agents
 * (declared in private.h). */
#include "kernel/agents/private.h"

#include "base/log.h"
#include "base/memory.h"
#include "protocol/bytes.h"
#include "protocol/span_fields.h"

#define KERNEL_LARGE (256 << 10) /* bytes; main.c sets malloc up with this value */

/* What this machine's agent drops, the kernel does not send any more. */
static void forget_local(struct agents_blobs *b, const unsigned *nodes, size_t n,
                         const struct span *drop)
{
    struct reader r = reader_of(drop->v[F_DROP_BLOBS].s.p, drop->v[F_DROP_BLOBS].s.n);
    bool here = false;

    for (size_t i = 0; i < n; i++)
        here = here || nodes[i] == NODE_HERE;
    while (here && reader_left(&r) >= 8)
        local_blobs_drop(&b->local, reader_u64(&r));
}

static void on_send(void *arg, const unsigned *nodes, size_t n, const struct span *m)
{
    struct err err = { "" };
    struct agents_blobs *b = arg;
    zmq_msg_t body;

    if (m->kind == SPAN_CHUNK_ACK && n == 1 && nodes[0] == NODE_HERE &&
        local_blobs_acked(&b->local, m, clock_now(b->out->clock)))
        return;
    if (m->kind == SPAN_SHIP && n == 1 && nodes[0] == NODE_HERE && local_blobs_again(&b->local, m))
        return;
    if (m->kind == SPAN_DROP)
        forget_local(b, nodes, n, m);
    if (to_agents_encode(m, &body, &err) < 0) {
        log_error("agents", "%s: %s", span_info((unsigned)m->kind)->name, err.text);
        b->failed = b->failed || m->kind != SPAN_DROP;
    } else if (to_agents_body(b->out, nodes, n, &body, &err) < 0) {
        log_info("agents", "%s: %s", span_info((unsigned)m->kind)->name, err.text);
    }
}

static bool on_peer(void *arg, unsigned node, struct blob_peer *out)
{
    const struct agents_blobs *b = arg;
    const struct node_link *link = node_table_get(b->out->fan.nodes, node);

    if (!link || node == NODE_HERE || link->node.state != NODE_UP || !link->node.addresses ||
        !*link->node.addresses)
        return false;
    *out = (struct blob_peer){ .addresses = link->node.addresses, .key = link->key };
    return true;
}

/* A large blob passes through the kernel as many messages of a MiB: malloc keeps that memory. */
static void on_busy(void *arg, bool busy)
{
    (void)arg;
    if (busy)
        memory_keep();
    else
        memory_keep_no_more(KERNEL_LARGE);
}

int agents_blobs_init(struct agents_blobs *b, struct to_agents *out, struct err *err)
{
    const struct blob_schedule_ops ops = { on_send, on_peer, on_busy, out->clock, b };

    *b = (struct agents_blobs){ .out = out, .local = LOCAL_BLOBS_INIT, .socket = -1 };
    return (b->schedule = blob_schedule_create(&ops, err)) ? 0 : -1;
}

void agents_blobs_release(struct agents_blobs *b)
{
    blob_schedule_destroy(b->schedule);
    local_blobs_release(&b->local);
}

int agents_blobs_send_ahead(struct agents_blobs *b, const uint32_t *workers, size_t n,
                            const struct span *m, struct err *err)
{
    unsigned *nodes;

    if (!m->blob || !m->blob_size)
        return 0;
    if (!(nodes = to_agents_list(b->out)))
        return err_set(err, "out of memory");
    if (blob_schedule_need(b->schedule, m->blob, m->blob_size, nodes,
                           fan_list(&b->out->fan, workers, n, nodes), err) < 0)
        return -1;
    return agents_blobs_go_on(b) ? 0 : err_set(err, "out of memory for the messages about a value");
}

/* If the kernel can't send it, that is the same as if the agent had said so. */
void agents_blobs_begin_local(struct agents_blobs *b, const struct span *chunk)
{
    struct span m = { .kind = SPAN_STORED, .blob = chunk->blob, .blob_size = chunk->blob_size };
    struct err err = { "" };

    if (local_blobs_begin(&b->local, b->socket, chunk, &err) == 0)
        return;
    m.v[F_STORED_ERROR].s = slice_text(err.text);
    (void)blob_schedule_message(b->schedule, NODE_HERE, &m);
}

void agents_blobs_node_lost(struct agents_blobs *b, unsigned node)
{
    blob_schedule_lost(b->schedule, node);
    (void)agents_blobs_go_on(b);
}

void agents_blobs_node_resumed(struct agents_blobs *b, unsigned node)
{
    blob_schedule_resumed(b->schedule, node);
    (void)agents_blobs_go_on(b);
}

bool agents_blobs_go_on(struct agents_blobs *b)
{
    struct span m;

    while (local_blobs_next(&b->local, &m, clock_now(b->out->clock)))
        (void)blob_schedule_message(b->schedule, NODE_HERE, &m);
    if (!b->failed)
        return true;
    b->failed = false;
    blob_schedule_stop(b->schedule);
    return false;
}
