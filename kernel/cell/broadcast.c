/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends large variables by ncclBroadcast if NCCL accepts the GPUs of the ranks that lack them. The
 * blob is sent only to the node of the lowest of these ranks, the root; the other ranks get it
 * from the root. On a single node all ranks can map the blob, which is fastest for host memory;
 * so there only variables that were on a GPU are broadcast. worker/collective/README.md describes
 * the messages.
 *
 * The root is asked for the id of an NCCL communicator first. Meanwhile PACKED blobs wait here, in
 * order. If a broadcast is not possible, the blob is sent like others, and one line says why. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rows.h"
#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_nodes.h"

/* NCCL needs about a second to make a communicator. Sending fewer bytes than this takes less. */
#define BROADCAST_MIN (UINT64_C(8) << 20) /* bytes */
#define ASK_NS        (20 * NS_PER_S)     /* time limit for the id: the root loads NCCL first */
/* time limit of a broadcast: LIMIT_S, plus the time for its bytes at the rate of SLOWEST, because
 * the blob may first have to be sent to the root's node */
#define LIMIT_S 60.0
#define SLOWEST 20e6 /* bytes a second */

struct waiting {
    uint64_t blob, size;
    uint64_t gpu; /* bytes of it that were on a GPU at home */
};

struct broadcast {
    struct waiting
        *of; /* owned: blobs of c->send.bundles.item[c->send.bundles.sent] and the next ones */
    size_t n, room;
    uint32_t asked;      /* the worker that was asked for an id; 0: none */
    struct ranks joined; /* ranks that take part in broadcasts of this cell */
};

static const struct vars_bundle *next_bundle(const struct cell *c)
{
    return &c->send.bundles.item[c->send.bundles.sent];
}

static struct broadcast *open_broadcast(struct cell *c)
{
    if (c->send.broadcast || !(c->send.broadcast = calloc(1, sizeof *c->send.broadcast)))
        return c->send.broadcast;
    if (c->plan.fresh) /* a broadcast that failed may succeed with new processes */
        c->nb->broadcasts_fail = false;
    return c->send.broadcast;
}

/* ---- is a broadcast possible? ---- */

static bool all_hold_gpus(const struct cell *c, const struct ranks *to)
{
    const struct group *g = c->group;

    if (!g->gpus || !world_can_use_nccl(c, to))
        return false;
    RANKS_EACH (k, to)
        if (!group_node_of(c->nb, g->rank[k].node) || !rank_alive(&g->rank[k]))
            return false;
    return true;
}

static bool is_possible(const struct cell *c, const struct waiting *w)
{
    const struct ranks *to = &next_bundle(c)->ranks;

    return (world_is_near(c, to) ? w->gpu : w->size) >= BROADCAST_MIN && !c->nb->broadcasts_fail &&
           ranks_count(to) > 1 && all_hold_gpus(c, to);
}

/* ---- sending ---- */

/* In a broadcast between nodes only the root's BIND has the blob. */
static int bind_ranks(struct cell *c, const struct ranks *to, struct span *m)
{
    const long root = ranks_next(to, 0);
    struct ranks one = RANKS_INIT, others = RANKS_INIT;
    int rc;

    if (m->v[F_BIND_BROADCAST].s.n == 0 || world_is_near(c, to))
        return cell_send_ranks(c, to, m);
    if (ranks_copy(&others, to) < 0 || ranks_add(&one, (unsigned)root) < 0) {
        rc = cell_fail(c, "RuntimeError", "out of memory");
    } else {
        ranks_remove(&others, (unsigned)root);
        rc = cell_send_ranks(c, &one, m);
        m->blob = m->blob_size = 0;
        if (rc == 0)
            rc = cell_send_ranks(c, &others, m);
    }
    ranks_release(&one);
    ranks_release(&others);
    return rc;
}

static void send_bind(struct cell *c, uint64_t blob, uint64_t blob_size, const char *broadcast)
{
    const struct vars_bundle *s = next_bundle(c);
    struct span m = { .kind = SPAN_BIND, .cell = c->id, .blob = blob, .blob_size = blob_size };

    m.v[F_BIND_HOW].u64 = BIND_DICT;
    m.v[F_BIND_BROADCAST].s = slice_text(broadcast);
    if (bind_ranks(c, &s->ranks, &m) == 0 && ledger_bundle_sent(c->group, s, c->prep.captured) < 0)
        log_warn("broadcast", "out of memory: names will be sent again");
    notebook_drop(c->nb, blob);
}

static void send_first(struct cell *c, const char *text)
{
    struct broadcast *broadcast = c->send.broadcast;
    const struct waiting first = broadcast->of[0];

    broadcast->asked = 0;
    cell_limit_step(c, NEVER);
    rows_remove(broadcast->of, &broadcast->n, sizeof first, 0);
    send_bind(c, first.blob, first.size, text);
    c->send.bundles.sent++;
}

/* BIND's `broadcast`. NULL: memory is out. */
static char *broadcast_text(const struct cell *c, const char *id)
{
    const struct waiting *w = &c->send.broadcast->of[0];
    const struct ranks *to = &next_bundle(c)->ranks;
    json_t *ranks = json_array(), *root;
    char *text;

    for (long k = ranks_next(to, 0); ranks && k >= 0; k = ranks_next(to, (unsigned)k + 1))
        json_array_append_new(ranks, json_integer(k));
    root = json_pack("{s:i, s:o, s:s, s:I, s:b, s:f}", "root", (int)ranks_next(to, 0), "ranks",
                     ranks, "id", id, "size", (json_int_t)w->size, "mapped", world_is_near(c, to),
                     "limit_s", LIMIT_S + (double)w->size / SLOWEST);
    text = root && world_add(c, root) == 0 ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

static void fall_back(struct cell *c, const char *why)
{
    c->nb->broadcasts_fail = true;
    output_note(c, "variables don't go from GPU to GPU: %s", why);
    send_first(c, "");
}

static int ask(struct cell *c)
{
    struct span m = { .kind = SPAN_PROBE, .cell = c->id };
    const struct rank *root = &c->group->rank[ranks_next(&next_bundle(c)->ranks, 0)];
    struct buf content = BUF_INIT;
    json_t *world = json_object();
    int rc;

    m.worker = c->send.broadcast->asked = root->worker;
    cell_limit_step(c, notebook_now(c->nb) + ASK_NS);
    m.v[F_PROBE_WHAT].s = slice_text("broadcast_open");
    if (!world || world_add(c, world) < 0) {
        json_decref(world);
        world = NULL;
    }
    if ((rc = text_json(&content, world)) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else {
        m.v[F_PROBE_CONTENT].s = buf_slice(&content);
        rc = cell_send(c, &root->worker, 1, &m);
    }
    buf_release(&content);
    return rc;
}

/* Sends the blobs that wait, up to one that needs an id first. */
static void go_on(struct cell *c)
{
    while (!c->bad && c->send.broadcast->n && !c->send.broadcast->asked) {
        if (!is_possible(c, &c->send.broadcast->of[0]))
            send_first(c, "");
        else if (ask(c) < 0)
            return;
    }
}

/* ---- messages and timers ---- */

void broadcast_packed(struct cell *c, const struct span *packed)
{
    const struct waiting w = { packed->blob, packed->blob_size, packed->v[F_PACKED_GPU].u64 };
    struct broadcast *broadcast = open_broadcast(c);
    const bool wanted = broadcast && c->send.bundles.sent + broadcast->n < c->send.bundles.n;
    struct waiting *row =
        wanted ? rows_add(&broadcast->of, &broadcast->n, &broadcast->room, sizeof *row) : NULL;

    if (!row) {
        notebook_drop(c->nb, w.size ? w.blob : 0);
        if (!broadcast || wanted)
            cell_fail(c, "RuntimeError", "out of memory");
        return;
    }
    *row = w;
    go_on(c);
}

bool broadcast_on_probed(struct cell *c, struct rank *r, const struct span *m)
{
    json_t *said;
    const char *id;
    char *text;

    if (!c->send.broadcast || !c->send.broadcast->asked || c->send.broadcast->asked != r->worker ||
        m->cell != c->id)
        return false;
    said = text_parse(m->v[F_PROBED_CONTENT].s);
    id = text_field(said, "nccl_id");
    text = id[0] ? broadcast_text(c, id) : NULL;
    if (!text)
        fall_back(c, id[0] ? "out of memory" : text_field(said, "error"));
    else if (ranks_add_all(&c->send.broadcast->joined, &next_bundle(c)->ranks) < 0)
        fall_back(c, "out of memory");
    else
        send_first(c, text);
    free(text);
    json_decref(said);
    go_on(c);
    return true;
}

void broadcast_timed_out(struct cell *c)
{
    fall_back(c, "NCCL did not answer");
    go_on(c);
}

void broadcast_failed(struct cell *c, const struct span *done)
{
    json_t *said;

    if (!c->send.broadcast || c->stop.stopping || c->nb->broadcasts_fail)
        return;
    said = text_parse(done->v[F_DONE_CONTENT].s);
    if (strcmp(text_field(said, "ename"), "BroadcastError") == 0) {
        c->nb->broadcasts_fail = true;
        output_note(c, "variables don't go from GPU to GPU any more: run the cell again");
    }
    json_decref(said);
}

/* If the cell has ended before it ran, ranks wait for others in a broadcast. */
void broadcast_cancel(struct cell *c)
{
    if (c->send.broadcast && !c->live.began_ns)
        cell_interrupt(c, &c->send.broadcast->joined);
}

void broadcast_release(struct cell *c)
{
    if (!c->send.broadcast)
        return;
    for (size_t k = 0; k < c->send.broadcast->n; k++)
        notebook_drop(c->nb, c->send.broadcast->of[k].size ? c->send.broadcast->of[k].blob : 0);
    ranks_release(&c->send.broadcast->joined);
    free(c->send.broadcast->of);
    free(c->send.broadcast);
    c->send.broadcast = NULL;
}
