/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of %ranks check: facts about each rank, open ports in both directions, every pair of
 * ranks, the whole world. worker/collective/README.md describes the messages. All ranks get the
 * same step; the next step follows when all have answered. */
#include "kernel/ranks/check.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_runs.h"
#include "kernel/cell/cell_stops.h"

#define CONNECT_LIMIT_S 5.0
#define PAIR_LIMIT_S    10.0 /* by tcp; NCCL needs seconds to start */
#define LIMIT_S         30.0

static void said_clear(struct check *k)
{
    for (size_t i = 0; i < k->n; i++) {
        json_decref(k->rank[i].said);
        k->rank[i].said = NULL;
        k->rank[i].error = false;
    }
}

void check_free(struct check *k)
{
    if (!k)
        return;
    said_clear(k);
    for (size_t i = 0; i < k->n; i++) {
        json_decref(k->rank[i].facts);
        free((char *)k->rank[i].node_name);
    }
    for (size_t i = 0; i < k->pairs; i++)
        free(k->pair[i].error);
    for (size_t i = 0; i < k->ways; i++)
        free(k->way[i].why);
    free(k->rank);
    free(k->in_pairs);
    free(k->pair);
    free(k->way);
    free(k->row);
    free(k->world_error);
    free(k->nccl_id);
    free(k);
}

/* ---- the ranks ---- */

static void choose_paired(struct check *k)
{
    for (size_t i = 0; i < k->n && k->paired < CHECK_RANKS_MAX; i++)
        if (k->n <= CHECK_RANKS_MAX || check_is_first(k, i))
            k->in_pairs[k->paired++] = i;
}

static int fill(struct cell *c, struct check *k)
{
    unsigned char token[16];

    k->rank = calloc(c->n, sizeof *k->rank);
    k->in_pairs = calloc(c->n, sizeof *k->in_pairs);
    if (!k->rank || !k->in_pairs)
        return -1;
    for (; k->n < c->n; k->n++) {
        const struct rank *r = &c->nb->group->rank[c->member[k->n].rank];
        struct check_rank *one = &k->rank[k->n];

        one->rank = r->number;
        one->node = r->node;
        if (!(one->node_name = strdup(notebook_node_name(c->nb, r->node))))
            return -1;
    }
    k->can_use_nccl = world_can_use_nccl(c, &c->to);
    choose_paired(k);
    if (!(k->pair = calloc(k->paired * k->paired + 1, sizeof *k->pair)))
        return -1;
    (void)crypto_generichash(token, sizeof token, (const unsigned char *)&c->id, sizeof c->id,
                             c->nb->config.key, sizeof c->nb->config.key);
    (void)sodium_bin2hex(k->token, sizeof k->token, token, sizeof token);
    return 0;
}

/* ---- sending a step ---- */

/* The address at which others reach this rank: for rank 0 the one that cells use as MASTER_ADDR. */
static json_t *address_of(const struct cell *c, const struct check_rank *r)
{
    const char *first = json_string_value(
        json_array_get(json_array_get(json_object_get(r->facts, "addresses"), 0), 1));
    unsigned *nodes = calloc(c->magic.check->n, sizeof *nodes);
    struct buf text = BUF_INIT;
    json_t *address;

    for (size_t i = 0; nodes && i < c->magic.check->n; i++)
        nodes[i] = c->magic.check->rank[i].node;
    if (!nodes || node_addresses_common(c->nb, r->node, nodes, c->magic.check->n, &text) < 0)
        buf_clear(&text);
    address = json_string(text.n ? text.p : first ? first : "127.0.0.1");
    buf_release(&text);
    free(nodes);
    return address;
}

static json_t *where_to(const struct cell *c, const struct check_rank *r)
{
    json_t *address = address_of(c, r);
    const char *text = json_string_value(address);
    json_t *where = text ? json_sprintf(strchr(text, ':') ? "[%s]:%u" : "%s:%u", text, r->port)
                         : NULL;

    json_decref(address);
    return where;
}

/* Must these two ranks reach each other, as a pair or as neighbours in the ring? */
static bool are_linked(const struct check *k, size_t i, size_t j)
{
    bool a = false, b = false;

    if (i == j)
        return false;
    if ((i + 1) % k->n == j || (j + 1) % k->n == i || k->n <= CHECK_RANKS_MAX)
        return true;
    for (size_t p = 0; p < k->paired; p++) {
        a = a || k->in_pairs[p] == i;
        b = b || k->in_pairs[p] == j;
    }
    return a && b;
}

static json_t *peers_of(const struct cell *c, const struct check *k, size_t i)
{
    json_t *peers = json_array();

    for (size_t j = 0; peers && j < k->n; j++)
        if (are_linked(k, i, j))
            json_array_append_new(peers, json_pack("[i, o]", (int)k->rank[j].rank,
                                                   where_to(c, &k->rank[j])));
    return peers;
}

static json_t *closed_ways(const struct check *k)
{
    json_t *closed = json_array();

    for (size_t i = 0; closed && i < k->ways; i++)
        json_array_append_new(closed, json_pack("[i, i]", (int)k->way[i].from, (int)k->way[i].to));
    return closed;
}

/* In a round each rank is in at most one pair. */
static json_t *pairs_of_round(const struct check *k)
{
    struct link_pair *pair = calloc(k->paired / 2 + 1, sizeof *pair);
    const size_t n = pair ? links_round((unsigned)k->paired, (unsigned)k->round, pair) : 0;
    json_t *pairs = pair ? json_array() : NULL;

    for (size_t i = 0; pairs && i < n; i++)
        json_array_append_new(pairs, json_pack("[i, i]", (int)k->rank[k->in_pairs[pair[i].a]].rank,
                                               (int)k->rank[k->in_pairs[pair[i].b]].rank));
    free(pair);
    return pairs;
}

static json_t *order_of(const struct check *k)
{
    json_t *order = json_array();

    for (size_t i = 0; order && i < k->n; i++)
        json_array_append_new(order, json_integer(k->rank[i].rank));
    return order;
}

/* NCCL reads its settings when it is first used. That may be by this check, so ranks get the
 * world's environment first. */
static json_t *world_of(const struct cell *c)
{
    json_t *world = json_object();

    if (!world || world_add(c, world) == 0)
        return world;
    json_decref(world);
    return NULL;
}

/* The content of PROBE for rank i in this step. */
static json_t *question(const struct cell *c, const struct check *k, size_t i)
{
    switch (k->step) {
    case CHECK_FACTS:
        return world_of(c);
    case CHECK_LISTEN:
        return json_pack("{s:o, s:s, s:b}", "address", address_of(c, &k->rank[i]), "token",
                         k->token, "nccl", k->nccl && i == 0);
    case CHECK_CONNECT:
        return json_pack("{s:o, s:i, s:f}", "peers", peers_of(c, k, i), "attempt", 0, "limit_s",
                         CONNECT_LIMIT_S);
    case CHECK_PAIRS:
        return json_pack("{s:[], s:o, s:o, s:b, s:f}", "order", "pairs", pairs_of_round(k),
                         "closed", closed_ways(k), "nccl", k->nccl, "limit_s",
                         k->nccl ? LIMIT_S : PAIR_LIMIT_S);
    case CHECK_WORLD:
        return json_pack("{s:o, s:[], s:o, s:b, s:s*, s:f}", "order", order_of(k), "pairs",
                         "closed", closed_ways(k), "nccl", k->nccl, "nccl_id", k->nccl_id,
                         "limit_s", LIMIT_S);
    default:
        return json_object();
    }
}

static const char *step_name(enum check_step step)
{
    static const char *const names[] = {
        [CHECK_FACTS] = "facts", [CHECK_LISTEN] = "listen", [CHECK_CONNECT] = "connect",
        [CHECK_PAIRS] = "check", [CHECK_WORLD] = "check",   [CHECK_CLOSE] = "close",
    };

    return names[step];
}

/* -1: the cell has failed. */
static int ask(struct cell *c, size_t i)
{
    const struct clock *clock = c->nb->ops.clock;
    struct check *k = c->magic.check;
    struct span m = { .kind = SPAN_PROBE, .worker = c->member[i].worker, .cell = c->id };
    struct buf content = BUF_INIT;
    int rc = text_json(&content, question(c, k, i));

    m.v[F_PROBE_WHAT].s = slice_text(step_name(k->step));
    m.v[F_PROBE_CONTENT].s = buf_slice(&content);
    k->rank[i].asked_ns = notebook_now(c->nb);
    k->rank[i].asked_s = (double)clock->wall_ns(clock->arg) / 1e9;
    if (rc < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else if ((rc = cell_send(c, &c->member[i].worker, 1, &m)) == 0) {
        c->member[i].state = MEMBER_RUNNING;
        c->nb->group->rank[c->member[i].rank].state = RANK_BUSY;
    }
    buf_release(&content);
    return rc;
}

static void ask_all(struct cell *c, enum check_step step)
{
    c->magic.check->step = step;
    said_clear(c->magic.check);
    for (size_t i = 0; i < c->n; i++)
        if (ask(c, i) < 0) {
            run_leave_out(c);
            return;
        }
}

static void check_begin(struct cell *c)
{
    struct err err = { "" };
    struct group *g = c->nb->group;

    ranks_clear(&c->to);
    if (c->plan.ranks && ranks_parse(&c->to, c->plan.ranks, c->world, &err) < 0) {
        cell_fail(c, "UsageError", "%s", err.text);
        return;
    }
    if ((!c->plan.ranks && ranks_add_range(&c->to, 0, c->world - 1) < 0) || cell_members(c) < 0 ||
        !(c->magic.check = calloc(1, sizeof *c->magic.check)) || fill(c, c->magic.check) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
        return;
    }
    for (size_t i = 0; i < c->n; i++)
        g->rank[c->member[i].rank].since_ns = notebook_now(c->nb);
    ask_all(c, CHECK_FACTS);
}

/* ---- answers ---- */

/* The rank read its clock at some time between the question and now; the middle is assumed. */
static void set_clock(struct cell *c, struct check_rank *r)
{
    const double took = (double)(notebook_now(c->nb) - r->asked_ns) / 1e9;

    r->offset_s = json_number_value(json_object_get(r->facts, "clock")) - r->asked_s - took / 2;
    r->doubt_s = took / 2;
}

static bool check_message(struct cell *c, struct rank *rank, const struct span *m)
{
    struct check *k = c->magic.check;
    struct member *member = cell_worker(c, rank->worker);
    struct check_rank *r;

    if (!k || !member || m->cell != c->id || member->state != MEMBER_RUNNING)
        return false;
    r = &k->rank[member - c->member];
    r->said = text_parse(m->v[F_PROBED_CONTENT].s);
    r->error = !slice_is(m->v[F_PROBED_STATUS].s, "ok");
    if (k->step == CHECK_FACTS && !r->error) {
        r->facts = json_incref(r->said);
        set_clock(c, r);
    }
    if (json_is_true(json_object_get(r->said, "aborted")))
        group_break(c->group);
    rank->state = RANK_IDLE;
    member->state = MEMBER_OK;
    if (c->stop.stopping) {
        member->state = MEMBER_INTERRUPTED;
        member->error = text_error("KeyboardInterrupt", slice_text("the check was interrupted"));
    }
    return true;
}

/* ---- the next step ---- */

static bool is_reached(const struct check *k, size_t i, size_t j)
{
    return !check_way_between(k, k->rank[i].rank, k->rank[j].rank) ||
           !check_way_between(k, k->rank[j].rank, k->rank[i].rank);
}

static bool ring_is_whole(const struct check *k)
{
    for (size_t i = 0; k->n > 1 && i < k->n; i++)
        if (!is_reached(k, i, (i + 1) % k->n))
            return false;
    return true;
}

static void pairs_next(struct cell *c)
{
    struct check *k = c->magic.check;

    if (k->round < links_rounds((unsigned)k->paired)) {
        ask_all(c, CHECK_PAIRS);
        return;
    }
    check_show_pairs(c, k);
    if (ring_is_whole(k)) {
        ask_all(c, CHECK_WORLD);
    } else {
        check_set_error(&k->world_error,
                        "it needs every rank's neighbours, and not all of them are reached");
        check_show_world(c, k);
        ask_all(c, CHECK_CLOSE);
    }
}

static void fail_if_bad(struct cell *c)
{
    struct buf why = BUF_INIT;

    output_flush(c);
    if (check_is_bad(c->magic.check, &why))
        cell_fail(c, "LinkError", "%s", why.p ? why.p : "a link failed");
    buf_release(&why);
}

/* All ranks have answered: begins the next step. true: that was the last step. */
static bool step_over(struct cell *c)
{
    struct check *k = c->magic.check;

    switch (k->step) {
    case CHECK_FACTS:
        check_show_facts(c, k);
        k->nccl = check_has_nccl(k);
        ask_all(c, CHECK_LISTEN);
        break;
    case CHECK_LISTEN:
        check_note_listen(k);
        ask_all(c, k->n > 1 ? CHECK_CONNECT : CHECK_WORLD);
        break;
    case CHECK_CONNECT:
        check_note_ways(k);
        pairs_next(c);
        break;
    case CHECK_PAIRS:
        check_note_pairs(k);
        k->round++;
        pairs_next(c);
        break;
    case CHECK_WORLD:
        check_note_world(k);
        check_show_world(c, k);
        ask_all(c, CHECK_CLOSE);
        break;
    case CHECK_CLOSE:
        check_log_strangers(k);
        fail_if_bad(c);
        return true;
    }
    return false;
}

/* A rank could not do the step at all: the check fails. */
static bool has_refused(struct cell *c)
{
    const struct check *k = c->magic.check;

    for (size_t i = 0; i < k->n; i++)
        if (k->rank[i].error && k->step != CHECK_CLOSE) {
            cell_fail(c, "CheckError", "rank %u on %s: %s", k->rank[i].rank, k->rank[i].node_name,
                      text_field(k->rank[i].said, "error"));
            return true;
        }
    return false;
}

static bool is_broken(const struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state != MEMBER_OK)
            return true;
    return c->bad;
}

static enum cell_outcome check_poll(struct cell *c)
{
    do {
        if (cell_unfinished(c)) {
            if (c->bad)
                stop_running(c);
            return CELL_STAYS;
        }
    } while (!is_broken(c) && !has_refused(c) && !step_over(c));
    return run_end(c);
}

const struct cell_step cell_checking = { CELL_RUNS, .begin = check_begin, .poll = check_poll,
                                         .probed = check_message };
