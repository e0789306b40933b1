/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides how many ranks a cell has and on which nodes, and starts those that are missing. */
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/log.h"
#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_stops.h"
#include "protocol/bytes.h"

/* ---- how many ranks there are ---- */

static int refuse_n_gpu(struct cell *c, const struct node_gpus *p)
{
    struct buf where = BUF_INIT, whys = BUF_INIT;
    bool some = false;

    for (size_t k = 0; k < p->n && k < 8; k++) {
        some = some || p->node[k].gpus_all;
        if (buf_addf(&where, "%s%s", k ? ", " : "", p->node[k].name) < 0 ||
            (p->node[k].gpus_all && p->node[k].held[0] &&
             buf_addf(&where, "; %s", p->node[k].held) < 0) ||
            (p->node[k].quota[0] && buf_addf(&where, "; %s", p->node[k].quota) < 0))
            break;
    }
    if (place_add_whys(p->node, p->n, &whys) < 0)
        buf_clear(&whys);
    cell_fail(c, "UsageError", "-n gpu: there is no %sGPU on %s (give a number, as in -n 4)%s",
              some ? "free " : "", where.p ? where.p : "", whys.n ? whys.p : "");
    buf_release(&whys);
    buf_release(&where);
    return -1;
}

/* Sets the world's size and the ranks that take part. -1: the cell has failed. */
static int set_world(struct cell *c, const struct node_gpus *p)
{
    const struct place_want want = node_gpus_want(c);
    const unsigned most = c->nb->config.cells.n_most;
    struct err err = { "" };

    c->world = cell_world_asked(c);
    if (c->plan.n == PLAN_N_GPU && !(c->world = place_world_of_gpus(p->node, p->n, &want)))
        return refuse_n_gpu(c, p);
    if (c->plan.kind != PLAN_RANKS && !c->world) {
        c->world = place_world(p->node, p->n, &want);
        if (most && c->world > most)
            c->world = most;
    }
    ranks_clear(&c->to);
    if (c->world > GROUP_MAX)
        err_set(&err, "-n %u: a group has at most %u ranks", c->world, GROUP_MAX);
    else if (c->plan.kind != PLAN_RANKS && most && c->world > most)
        err_set(&err, "-n %u: /etc/cellspan.toml allows at most %u ranks", c->world, most);
    else if (c->plan.ranks && c->plan.kind != PLAN_RANKS &&
             cell_parse_ranks(c, c->world, &c->to, &err) < 0)
        ;
    else if (c->world && (!c->plan.ranks || c->plan.kind == PLAN_RANKS) &&
             ranks_add_range(&c->to, 0, c->world - 1) < 0)
        err_set(&err, "out of memory");
    else
        return 0;
    return cell_fail(c, "UsageError", "%s", err.text);
}

/* ---- machines that are lost before ranks start on them ---- */

/* Too few nodes are left: the engine must start again, and all ranks with it. Once in a cell: where
 * machines are lost before ranks start on them, the next ones may be lost as well. */
static void start_afresh(struct cell *c, const char *why)
{
    struct group *g = c->nb->group;

    log_info("start", "%s", why);
    if (g->again == c->id) {
        GROUP_NODES_EACH (node, group_nodes_of(c->nb))
            if (node->lost) {
                cell_fail(c, "EngineError",
                          "%s was started again for this cell, and was lost again before the cell "
                          "ran: %s: %s",
                          g->on, notebook_node_name(c->nb, node->number), node->why);
                return;
            }
    }
    g->again = c->id;
    output_note(
        c,
        "the machines that are left have no room for all ranks: %s is started again, and the "
        "variables of all ranks are gone",
        g->on);
    engine_move(c);
}

/* Are machines lost, and does the number of ranks depend on how many there are? */
static bool lacks_machines(const struct cell *c, const struct node_gpus *p)
{
    const bool number = c->plan.n != PLAN_N_UNSET && c->plan.n != PLAN_N_GPU;

    return engine_is_torn(c->nb) && !c->engine.here &&
           (!p->n || (!number && !c->nb->group->asked && c->plan.kind != PLAN_RANKS));
}

/* ---- START ---- */

/* Starts these ranks on one node. START lists ranks in the order of its envelope's workers. */
static int start_on(struct cell *c, unsigned node, const struct ranks *which, unsigned gpus,
                    const struct place_want *want, struct err *err)
{
    struct notebook *nb = c->nb;
    uint32_t *workers = calloc(ranks_count(which) + 1, sizeof *workers);
    struct buf numbers = BUF_INIT;
    struct writer w = writer_of(&numbers);
    struct span m = { .kind = SPAN_START, .cell = c->id };
    size_t n = 0;
    int rc = workers ? 0 : -1;

    for (long k = ranks_next(which, 0); rc == 0 && k >= 0; k = ranks_next(which, (unsigned)k + 1)) {
        workers[n] = notebook_next_worker(nb);
        rank_start(c->group, (unsigned)k, workers[n], node);
        c->group->rank[k].starter = c->id;
        rc = nb->ops.place(nb->ops.arg, workers[n++], node);
        writer_u32(&w, (uint32_t)k);
    }
    if (writer_end(&w) < 0)
        rc = -1;
    m.v[F_START_ROLE].u64 = c->plan.kind == PLAN_SCRIPT ? START_SCRIPT
                            : cell_own_group(c)         ? START_BESIDE
                                                        : START_RANK;
    m.v[F_START_RANKS].s = buf_slice(&numbers);
    m.v[F_START_GROUP].s = slice_text(nb->group->name);
    m.v[F_START_PYTHON].s = slice_text(nb->config.python);
    m.v[F_START_CWD].s = slice_text(node == NODE_HERE ? "" : nb->home.cwd);
    m.v[F_START_ENV].s = slice_text("{}");
    m.v[F_START_GPUS].u64 = gpus;
    m.v[F_START_SHARE].u64 = (want->share ? START_SHARE : 0) | (want->own ? START_OWN : 0);
    if (rc < 0)
        err_set(err, "out of memory while starting ranks");
    else
        rc = notebook_send_to(nb, workers, n, &m, err);
    for (size_t k = 0; rc < 0 && workers && k < n; k++) {
        nb->ops.forget(nb->ops.arg, workers[k]);
        if (group_worker(c->group, workers[k]))
            rank_end(group_worker(c->group, workers[k]));
    }
    buf_release(&numbers);
    free(workers);
    return rc;
}

/* at: by rank: the index in p->node. */
static int start_all(struct cell *c, const struct node_gpus *p, const struct ranks *missing,
                     const unsigned *at)
{
    const struct place_want *want = &c->group->want;
    const unsigned gpus = place_gpus(p->node, p->n, want);
    struct err err = { "" };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < p->n; i++) {
        struct ranks there = RANKS_INIT;

        for (long k = ranks_next(missing, 0); rc == 0 && k >= 0;
             k = ranks_next(missing, (unsigned)k + 1))
            if (at[k] == i && ranks_add(&there, (unsigned)k) < 0)
                rc = err_set(&err, "out of memory while starting ranks");
        if (rc == 0 && ranks_count(&there))
            rc = start_on(c, p->node[i].node, &there, gpus, want, &err);
        ranks_release(&there);
    }
    c->group->gpus = gpus;
    if (rc < 0)
        cell_fail(c, "RuntimeError", "%s", err.text);
    return rc;
}

/* ---- placing missing ranks ---- */

/* Names the ranks of a lost node that start on p->node[to] now. */
static void note_move(struct cell *c, const struct group_node *from, const struct ranks *missing,
                      const struct node_gpus *p, const unsigned *at, size_t to)
{
    const struct rank *rank = c->nb->group->rank;
    struct ranks who = RANKS_INIT;
    struct buf text = BUF_INIT;

    RANKS_EACH (k, missing)
        if (rank[k].lives && rank[k].node == from->number && at[k] == to &&
            ranks_add(&who, (unsigned)k) < 0)
            break;
    if (text_ranks(&who, &text))
        output_note(c,
                    ranks_count(&who) > 1 ? "%s is lost: ranks %s start on %s"
                                          : "%s is lost: rank %s starts on %s",
                    notebook_node_name(c->nb, from->number), text.p, p->node[to].name);
    ranks_release(&who);
    buf_release(&text);
}

static void note_elsewhere(struct cell *c, const struct ranks *missing, const struct node_gpus *p,
                           const unsigned *at)
{
    GROUP_NODES_EACH (node, group_nodes_of(c->nb))
        for (size_t to = 0; node->lost && to < p->n; to++)
            note_move(c, node, missing, p, at, to);
}

/* The user must know if ranks start without GPUs because a node can't list them. */
static void note_unknown(struct cell *c)
{
    GROUP_NODES_EACH (node, group_nodes_of_cell(c))
        if (!node->lost && !node->known && node->held[0])
            output_note(c,
                        "the GPUs of %s could not be listed (%s): ranks start there without GPUs",
                        notebook_node_name(c->nb, node->number), node->held);
}

/* Makes the arrays for place_ranks(); the caller frees *at, which holds both. *size: the larger of
 * the notebook's group and the cell's world. -1: memory is out. */
static int current_places(const struct cell *c, const struct node_gpus *p, unsigned **at,
                          unsigned **before, unsigned *size)
{
    const struct group *g = c->nb->group;
    const size_t n = (*size = g->size > c->world ? g->size : c->world) + 1u;

    *at = calloc(2 * n, sizeof **at);
    if (!*at)
        return -1;
    *before = *at + n;
    for (unsigned k = 0; k < *size; k++)
        (*at)[k] = (*before)[k] = PLACE_NOWHERE;
    for (unsigned k = 0; k < g->size; k++) {
        const unsigned place = g->rank[k].lives ? node_gpus_find(p, g->rank[k].node)
                                                : PLACE_NOWHERE;

        (*before)[k] = place;
        (*at)[k] = rank_alive(&g->rank[k]) ? place : PLACE_NOWHERE;
    }
    return 0;
}

/* -1: the cell has failed, or all ranks must end first. */
static int place_missing(struct cell *c, const struct node_gpus *p, const struct ranks *missing)
{
    struct group *g = c->group;
    unsigned *at = NULL, *before = NULL, size = 0;
    struct err err = { "" };
    int rc = -1;

    g->want = node_gpus_want(c);
    if (current_places(c, p, &at, &before, &size) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else if (place_ranks(p->node, p->n, &g->want, at, before, c->world, size, &err) < 0) {
        if (engine_is_torn(c->nb))
            start_afresh(c, err.text);
        else if (!engine_grows(c))
            cell_fail(c, "UsageError", "%s", err.text);
    } else {
        if (!cell_own_group(c))
            note_elsewhere(c, missing, p, at);
        if (!g->want.no_gpu)
            note_unknown(c);
        for (unsigned k = 0; cell_own_group(c) && k < c->world; k++)
            /* the layout has all ranks of the world, also those that take no part */
            g->rank[k].node = p->node[at[k]].node;
        rc = start_all(c, p, missing, at);
    }
    free(at);
    return rc;
}

/* Starts the ranks that are missing. -1 as above. */
static int start_missing(struct cell *c, const struct node_gpus *p)
{
    struct group *g = c->group;
    struct ranks missing = RANKS_INIT;
    struct err err = { "" };
    int rc;

    if (lacks_machines(c, p)) {
        start_afresh(c, "machines are lost on which ranks were to start");
        return -1;
    }
    if (!p->n)
        return cell_fail(c, "EngineError",
                         "%s was lost before ranks started there: run the cell again",
                         notebook_node_name(c->nb, group_nodes_of_cell(c).first->number));
    if (set_world(c, p) < 0)
        return -1;
    if (group_grow(g, c->world, &err) < 0) {
        cell_fail(c, "UsageError", "%s", err.text);
        return -1;
    }
    rc = c->from.overlaps    ? 0 /* its ranks are there; others start when no cell runs */
         : cell_own_group(c) ? ranks_copy(&missing, &c->to)
                             : group_missing(g, c->world, &missing);
    if (rc < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else if (ranks_count(&missing))
        rc = place_missing(c, p, &missing);
    if (rc == 0 && !cell_own_group(c) && g->asked < c->world)
        g->asked = c->world;
    ranks_release(&missing);
    return rc;
}

#define SPARE_NS NS_PER_S

/* Asks the node of rank 0 for a free port; where cells follow each other quickly, for several at
 * once. -1: the cell has failed. */
static int ask_port(struct cell *c)
{
    struct span m = { .kind = SPAN_PORT, .cell = c->id };
    struct group *g = c->group;
    struct spare_ports *spare = &c->nb->group->spare;
    const uint64_t now = notebook_now(c->nb);
    const bool soon = spare->asked_ns && now - spare->asked_ns < SPARE_NS;

    if (c->plan.kind != PLAN_DISTRIBUTE && c->plan.kind != PLAN_SCRIPT)
        return 0;
    if (c->from.overlaps || group_is_initialised(g, c->world))
        /* the world keeps its port, which rank 0 uses already */
        return 0;
    if (soon && spare->n && spare->node == g->rank[0].node) {
        g->port = spare->port[--spare->n];
        return 0;
    }
    m.v[F_PORT_PORT].u64 = soon ? sizeof spare->port / sizeof *spare->port : 0;
    *spare = (struct spare_ports){ .node = g->rank[0].node, .asked_ns = now };
    c->prep.wants_port = true;
    return cell_send_node(c, g->rank[0].node, &m);
}

void start_on_port(struct cell *c, unsigned node, const struct span *m)
{
    struct spare_ports *spare = &c->nb->group->spare;
    const struct slice more = m->v[F_PORT_MORE].s;

    if (!c->prep.wants_port)
        return;
    c->prep.wants_port = false;
    c->group->port = (unsigned)m->v[F_PORT_PORT].u64;
    spare->n = 0;
    for (size_t k = 0; k < more.n / 2 && k < sizeof spare->port / sizeof *spare->port; k++)
        if ((spare->port[spare->n] = (uint16_t)le_get(more.p + 2 * k, 2)))
            spare->n++;
    if (c->group->port == 0)
        cell_fail(c, "RuntimeError",
                  "there is no free TCP port between 20000 and 29999 on %s for MASTER_PORT: end "
                  "programs there that listen, and run the cell again",
                  notebook_node_name(c->nb, node));
}

/* The machine of rank 0 may be lost although the cell does not run there (-r). */
static void fail_without_port(struct cell *c)
{
    const struct group_node *node;

    if (!c->prep.wants_port || c->bad)
        return;
    node = group_node_of(c->nb, c->group->rank[0].node);
    if (node && node->lost)
        cell_fail(c, "EngineError",
                  "%s, the machine of rank 0, was lost before the cell ran: run the cell again",
                  notebook_node_name(c->nb, node->number));
}

static void place_and_start(struct cell *c)
{
    struct node_gpus p = { NULL, 0 };
    int rc;

    if (node_gpus_open(c, &p) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
        return;
    }
    c->prep.wants_gpus = false;
    rc = start_missing(c, &p);
    free(p.node);
    if (rc < 0)
        return;
    gpu_wait_over(c);
    if (cell_members(c) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else
        (void)ask_port(c);
}

/* A rank that becomes ready shows that the others are starting too. */
static void progress(struct cell *c)
{
    cell_limit_step(c, notebook_now(c->nb) + START_LIMIT_NS);
}

void start_begin(struct cell *c)
{
    progress(c); /* the time limit holds also for ranks that an earlier cell has started */
    c->prep.replaced = c->prep.left_over;
    c->prep.wants_gpus = true;
    (void)node_gpus_ask(c);
}

bool start_poll(struct cell *c)
{
    if (c->prep.left_over != c->prep.replaced)
        start_begin(c);
    fail_without_port(c);
    if (!c->prep.wants_gpus || node_gpus_wait(c) || gpu_wait_stays(c))
        return true;
    place_and_start(c);
    return !c->engine.moves;
}

/* ---- whether there is room, before the old ranks end ---- */

static void try_all(struct cell *c, const struct node_gpus *p)
{
    const struct place_want want = node_gpus_want(c);
    struct err err = { "" };
    unsigned *at;

    if (engine_is_torn(c->nb)) /* since it was asked: the engine starts again, whatever fits now */
        return;
    if (set_world(c, p) < 0)
        return;
    if (!(at = calloc(c->world + 1u, sizeof *at))) {
        cell_fail(c, "RuntimeError", "out of memory");
        return;
    }
    for (unsigned k = 0; k < c->world; k++)
        at[k] = PLACE_NOWHERE;
    if (place_ranks(p->node, p->n, &want, at, NULL, c->world, c->world, &err) < 0 &&
        !engine_grows(c))
        cell_fail(c, "UsageError", "%s", err.text);
    free(at);
}

void start_try_begin(struct cell *c)
{
    if (!engine_is_known(c))
        return;
    c->prep.wants_gpus = true;
    cell_limit_step(c, notebook_now(c->nb) + START_LIMIT_NS);
    (void)node_gpus_ask(c);
}

bool start_try_poll(struct cell *c)
{
    struct node_gpus p = { NULL, 0 };

    if (!c->prep.wants_gpus)
        return true;
    if (node_gpus_wait(c) || gpu_wait_stays(c))
        return false;
    c->prep.wants_gpus = false;
    cell_limit_step(c, NEVER);
    if (node_gpus_open(c, &p) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else
        try_all(c, &p);
    free(p.node);
    ranks_clear(&c->to);
    c->world = 0;
    return true;
}

/* ---- ranks that are ready, or late ---- */

void start_on_ready(struct cell *c, const struct rank *r, const struct span *m)
{
    (void)node_errors_python(c, r, m->v[F_READY_PYTHON].s);
    progress(c);
}

void start_timed_out(struct cell *c)
{
    struct ranks late = RANKS_INIT;
    struct buf text = BUF_INIT;
    const unsigned limit = (unsigned)(START_LIMIT_NS / NS_PER_S);

    GROUP_NODES_EACH (node, group_nodes_of_cell(c))
        if (node->asked && c->prep.wants_gpus) {
            node->asked = false;
            cell_fail(c, "RankNotStarted",
                      "%s did not say in %u s which GPUs it has (--no-gpu does not ask)",
                      notebook_node_name(c->nb, node->number), limit);
            return;
        }
    if (c->prep.wants_port) {
        cell_fail(c, "RankNotStarted",
                  "%s, the machine of rank 0, did not say in %u s which port is free: run the cell "
                  "again, or start all ranks anew (--fresh)",
                  notebook_node_name(c->nb, c->group->rank[0].node), limit);
        return;
    }
    for (size_t k = 0; k < c->n; k++)
        if (c->group->rank[c->member[k].rank].state == RANK_STARTING &&
            ranks_add(&late, c->member[k].rank) < 0)
            break;
    if (ranks_count(&late) && ranks_format_words(&late, &text) == 0)
        cell_fail(c, "RankNotStarted",
                  "%s did not come up: no rank has for %u s (run the cell again to try again; "
                  "`cellspan logs` shows more)",
                  text.p, limit);
    if (ranks_count(&late)) /* else the cell waits for home, which has no time limit */
        stop_signal_ranks(c->nb, c->group, &late, 9, 0);
    ranks_release(&late);
    buf_release(&text);
}
