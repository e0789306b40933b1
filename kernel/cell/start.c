/* The ranks of a cell: how many there are, on which machines, and the start of those that are missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "kernel/cell/room.h"
#include "kernel/cell/text.h"

/* ---- GPUs of the machines ---- */

void start_gpus(struct notebook *nb, unsigned node, const struct span *m)
{
    struct machine *machine = machine_of(nb, node);
    json_t *said = text_parse(m->v[F_GPUS_GPUS].s), *one;
    size_t k;

    if (machine) {
        machine->known = true;
        machine->asked = false;
        machine->gpus = machine->gpus_all = 0;
        json_array_foreach(json_object_get(said, "gpus"), k, one)
        {
            machine->gpus_all++;
            machine->gpus += !json_is_string(json_object_get(one, "leased_by"));
        }
    }
    json_decref(said);
    if (nb->cell)
        start_look(nb->cell);
}

static struct place_want want_of(const struct cell *c)
{
    const struct group *g = c->nb->group;
    struct place_want want = g->want;
    bool any = false;

    for (unsigned k = 0; k < g->size; k++)
        any = any || rank_alive(&g->rank[k]);
    if (!any && !(c->plan.kind == PLAN_RANKS && g->asked)) /* a new world is as its cell says */
        want = (struct place_want){ 0 };
    if (c->plan.no_gpu || c->plan.gpus != PLAN_GPUS_UNSET) {
        want.no_gpu = c->plan.no_gpu;
        want.gpus = c->plan.gpus;
    }
    if (c->plan.n == PLAN_N_GPU)
        want.no_gpu = false;
    want.share = want.share || c->plan.share;
    return want;
}

/* 0: that is for the machines to say. */
static unsigned world_so_far(const struct cell *c)
{
    if (c->plan.kind == PLAN_RANKS)
        return c->world;
    return c->plan.n == PLAN_N_GPU ? 0 : c->plan.n != PLAN_N_UNSET ? c->plan.n : c->nb->group->asked;
}

static bool depends_on_gpus(const struct cell *c)
{
    const unsigned world = world_so_far(c);

    if (want_of(c).no_gpu || (c->plan.kind == PLAN_RANKS && !world))
        return false;
    if (!world)
        return true;
    for (unsigned k = 0; k < world; k++)
        if (k >= c->nb->group->size || !rank_alive(&c->nb->group->rank[k]))
            return true;
    return false;
}

static bool waits_for_gpus(const struct notebook *nb)
{
    struct machine *m;
    const size_t n = machines_of(nb, &m);

    for (size_t k = 0; k < n; k++)
        if (m[k].asked)
            return true;
    return false;
}

/* A machine without GPUs is asked once. */
static int ask_gpus(struct cell *c)
{
    const struct span q = { .kind = SPAN_GPUS, .cell = c->id };
    struct machine *m;
    const size_t n = machines_of(c->nb, &m);

    for (size_t k = 0; k < n; k++) {
        if (m[k].lost || m[k].asked || (m[k].known && m[k].gpus_all == 0))
            continue;
        m[k].asked = true;
        if (cell_send_node(c, m[k].node, &q) < 0) {
            m[k].asked = false;
            return -1;
        }
    }
    return 0;
}

/* ---- the machines as placement sees them ---- */

struct site {
    struct place_node *node; /* owned */
    size_t n;
};

static long cores_of(const struct node_info *info, unsigned node)
{
    return info && info->cores > 0 ? info->cores : node == NODE_HERE ? sysconf(_SC_NPROCESSORS_ONLN) : 0;
}

static int site_open(const struct notebook *nb, struct site *s)
{
    struct machine *m;
    const size_t n = machines_of(nb, &m);

    s->n = 0;
    if (!(s->node = calloc(n + 1, sizeof *s->node)))
        return -1;
    for (size_t k = 0; k < n; k++) {
        const struct node_info *info = nb->doors.node(nb->doors.arg, m[k].node);

        if (m[k].lost)
            continue;
        s->node[s->n++] = (struct place_node){
            .node = m[k].node,
            .name = notebook_node_name(nb, m[k].node),
            .slots = info ? info->slots : 0,
            .gpus = m[k].gpus,
            .gpus_all = m[k].gpus_all,
            .cores = cores_of(info, m[k].node),
        };
    }
    return 0;
}

static unsigned site_find(const struct site *s, unsigned node)
{
    for (size_t k = 0; k < s->n; k++)
        if (s->node[k].node == node)
            return (unsigned)k;
    return PLACE_NOWHERE;
}

static int refuse_n_gpu(struct cell *c, const struct site *s)
{
    struct buf where = BUF_INIT;
    bool some = false;

    for (size_t k = 0; k < s->n && k < 8; k++) {
        some = some || s->node[k].gpus_all;
        if (buf_addf(&where, "%s%s", k ? ", " : "", s->node[k].name) < 0)
            break;
    }
    cell_fail(c, "UsageError", "-n gpu: there is no %sGPU on %s (give a number, as in -n 4)", some ? "free " : "",
              where.p ? where.p : "");
    buf_release(&where);
    return -1;
}

/* Which ranks take part, of how many; -1: that was refused. */
static int choose(struct cell *c, const struct site *s)
{
    const struct place_want want = want_of(c);
    struct group *g = c->nb->group;
    struct err err = { "" };

    c->world = world_so_far(c);
    if (c->plan.n == PLAN_N_GPU && !(c->world = place_world_of_gpus(s->node, s->n, &want)))
        return refuse_n_gpu(c, s);
    if (c->plan.kind != PLAN_RANKS && !c->world)
        c->world = place_world(s->node, s->n, &want);
    ranks_clear(&c->to);
    if (c->world > GROUP_MAX)
        err_set(&err, "-n %u: a group has at most %u ranks", c->world, GROUP_MAX);
    else if (c->plan.ranks && c->plan.kind != PLAN_RANKS && ranks_parse(&c->to, c->plan.ranks, c->world, &err) < 0)
        ;
    else if (c->world && (!c->plan.ranks || c->plan.kind == PLAN_RANKS) && ranks_add_range(&c->to, 0, c->world - 1) < 0)
        err_set(&err, "out of memory");
    else if (group_grow(g, c->world, &err) == 0)
        return 0;
    cell_fail(c, "UsageError", "%s", err.text);
    return -1;
}

/* ---- START ---- */

static int add_u32(struct buf *out, uint32_t v)
{
    const unsigned char le[4] = { (unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16),
                                  (unsigned char)(v >> 24) };

    return buf_add(out, le, sizeof le);
}

/* The ranks of one machine: START's list of ranks is parallel to the workers of its envelope. */
static int start_on(struct cell *c, unsigned node, const struct ranks *which, unsigned gpus, bool share,
                    struct err *err)
{
    struct notebook *nb = c->nb;
    uint32_t *workers = calloc(ranks_count(which) + 1, sizeof *workers);
    struct buf numbers = BUF_INIT;
    struct span m = { .kind = SPAN_START, .cell = c->id };
    size_t n = 0;
    int rc = workers ? 0 : -1;

    for (long k = ranks_next(which, 0); rc == 0 && k >= 0; k = ranks_next(which, (unsigned)k + 1)) {
        workers[n] = nb->next_worker++;
        rc = rank_start(&nb->group->rank[k], workers[n], node, err);
        if (rc == 0)
            rc = nb->doors.place(nb->doors.arg, workers[n++], node);
        if (rc == 0)
            rc = add_u32(&numbers, (uint32_t)k);
    }
    m.v[F_START_ROLE].u64 = 1;
    m.v[F_START_RANKS].s = buf_slice(&numbers);
    m.v[F_START_GROUP].s = slice_text(nb->group->name);
    m.v[F_START_PYTHON].s = slice_text(nb->python);
    m.v[F_START_CWD].s = slice_text(node == NODE_HERE ? "" : nb->cwd);
    m.v[F_START_ENV].s = slice_text("{}");
    m.v[F_START_GPUS].u64 = gpus;
    m.v[F_START_SHARE].u64 = share;
    if (rc < 0)
        err_set(err, "out of memory while starting ranks");
    else
        rc = notebook_send_to(nb, workers, n, &m, err);
    for (size_t k = 0; rc < 0 && workers && k < n; k++) {
        nb->doors.forget(nb->doors.arg, workers[k]);
        if (group_worker(nb->group, workers[k]))
            rank_end(group_worker(nb->group, workers[k]));
    }
    buf_release(&numbers);
    free(workers);
    return rc;
}

/* at: index into the site, by rank. */
static int start_all(struct cell *c, const struct site *s, const struct ranks *missing, const unsigned *at)
{
    const struct place_want *want = &c->nb->group->want;
    const unsigned gpus = place_gpus(s->node, s->n, want);
    struct err err = { "" };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        struct ranks there = RANKS_INIT;

        for (long k = ranks_next(missing, 0); rc == 0 && k >= 0; k = ranks_next(missing, (unsigned)k + 1))
            if (at[k] == i && ranks_add(&there, (unsigned)k) < 0)
                rc = err_set(&err, "out of memory while starting ranks");
        if (rc == 0 && ranks_count(&there))
            rc = start_on(c, s->node[i].node, &there, gpus, want->share, &err);
        ranks_release(&there);
    }
    c->nb->group->gpus = gpus;
    if (rc < 0)
        cell_fail(c, "RuntimeError", "%s", err.text);
    return rc;
}

/* ---- where the missing go ---- */

/* The machines that are left have no room: what the user asked for is there again only when all start anew. */
static void start_afresh(struct cell *c, const struct err *why)
{
    struct ranks living = RANKS_INIT;

    if (group_living(c->nb->group, &living) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else {
        log_info("start", "%s", why->text);
        stream_note(c,
                    "the machines that are left have no room for all: %s starts afresh, and the variables of all ranks "
                    "are gone",
                    c->nb->group->on);
        c->moves = true;
        gather_stop(c, &living);
    }
    ranks_release(&living);
}

/* The ranks of a machine that is lost which start on the one with this index. */
static void note_move(struct cell *c, const struct machine *from, const struct ranks *missing, const struct site *s,
                      const unsigned *at, size_t to)
{
    const struct rank *rank = c->nb->group->rank;
    struct ranks who = RANKS_INIT;
    struct buf text = BUF_INIT;

    for (long k = ranks_next(missing, 0); k >= 0; k = ranks_next(missing, (unsigned)k + 1))
        if (rank[k].lives && rank[k].node == from->node && at[k] == to && ranks_add(&who, (unsigned)k) < 0)
            break;
    if (ranks_count(&who) && ranks_format(&who, &text) == 0)
        stream_note(c, ranks_count(&who) > 1 ? "%s is lost: ranks %s start on %s" : "%s is lost: rank %s starts on %s",
                    notebook_node_name(c->nb, from->node), text.p, s->node[to].name);
    ranks_release(&who);
    buf_release(&text);
}

static void note_elsewhere(struct cell *c, const struct ranks *missing, const struct site *s, const unsigned *at)
{
    struct machine *m;
    const size_t n = machines_of(c->nb, &m);

    for (size_t k = 0; k < n; k++)
        for (size_t to = 0; m[k].lost && to < s->n; to++)
            note_move(c, &m[k], missing, s, at, to);
}

/* at and before: by rank, of the whole group. -1: memory is out. */
static int stand(const struct group *g, const struct site *s, unsigned **at, unsigned **before)
{
    const size_t n = g->size + 1u;

    *at = calloc(2 * n, sizeof **at);
    if (!*at)
        return -1;
    *before = *at + n;
    for (unsigned k = 0; k < g->size; k++) {
        const unsigned place = g->rank[k].lives ? site_find(s, g->rank[k].node) : PLACE_NOWHERE;

        (*before)[k] = place;
        (*at)[k] = rank_alive(&g->rank[k]) ? place : PLACE_NOWHERE;
    }
    return 0;
}

/* -1: the cell has failed, or starts its ranks elsewhere first. */
static int place_missing(struct cell *c, const struct site *s, const struct ranks *missing)
{
    struct group *g = c->nb->group;
    unsigned *at = NULL, *before = NULL;
    struct err err = { "" };
    int rc = -1;

    g->want = want_of(c);
    if (stand(g, s, &at, &before) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else if (place_ranks(s->node, s->n, &g->want, at, before, c->world, g->size, &err) < 0) {
        if (engine_is_torn(c->nb))
            start_afresh(c, &err);
        else
            cell_fail(c, "UsageError", "%s", err.text);
    } else {
        note_elsewhere(c, missing, s, at);
        group_break(g);
        rc = start_all(c, s, missing, at);
    }
    free(at);
    return rc;
}

/* -1: it has failed, or its ranks start elsewhere first. */
static int ensure(struct cell *c, const struct site *s)
{
    struct group *g = c->nb->group;
    struct ranks missing = RANKS_INIT;
    int rc;

    if (choose(c, s) < 0)
        return -1;
    rc = group_missing(g, c->world, &missing);
    if (rc < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else if (ranks_count(&missing))
        rc = place_missing(c, s, &missing);
    if (rc == 0 && g->asked < c->world)
        g->asked = c->world;
    ranks_release(&missing);
    return rc;
}

static void go(struct cell *c)
{
    struct site s = { NULL, 0 };
    int rc;

    if (site_open(c->nb, &s) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
        return;
    }
    c->wants_places = false;
    rc = ensure(c, &s);
    free(s.node);
    if (rc < 0)
        return;
    if (cell_members(c) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else if (gather_ask_port(c) == 0)
        gather_look(c);
}

void start_begin(struct cell *c)
{
    c->start_ns = notebook_now(c->nb) + START_LIMIT_NS; /* also for those that an earlier cell began to start */
    c->wants_places = true;
    if (!depends_on_gpus(c) || ask_gpus(c) == 0)
        start_look(c);
}

void start_look(struct cell *c)
{
    if (c->state == CELL_GATHERING && c->wants_places && !(depends_on_gpus(c) && waits_for_gpus(c->nb)))
        go(c);
}

/* ---- those that came, or did not ---- */

/* "3.11" of "3.11.7". */
static size_t minor_size(const char *version, size_t n)
{
    const char *dot = memchr(version, '.', n);
    const char *second = dot ? memchr(dot + 1, '.', n - (size_t)(dot + 1 - version)) : NULL;

    return second ? (size_t)(second - version) : n;
}

/* What pickles at home must unpickle there, byte code included: that takes the same minor version. */
void start_check(struct notebook *nb, const struct rank *r, struct slice version)
{
    const char *ours = nb->python_version;
    const size_t n = minor_size(ours, strlen(ours));
    struct cell *c = nb->cell;
    struct ranks all = RANKS_INIT;

    if (!c || c->state != CELL_GATHERING || r->node == NODE_HERE || version.n == 0 ||
        (minor_size(version.p, version.n) == n && memcmp(version.p, ours, n) == 0))
        return;
    for (size_t k = 0; k < c->n; k++)
        if (nb->group->rank[c->member[k].rank].node == r->node && ranks_add(&all, c->member[k].rank) < 0)
            break;
    manage_kill(nb, &all, 9, 0);
    ranks_release(&all);
    cell_fail(c, "RankNotStarted",
              "rank %u: Python on %s is %.*s, the notebook's is %s: variables could not travel (set "
              "CELLSPAN_REMOTE_PYTHON to a "
              "Python %.*s there)",
              r->number, notebook_node_name(nb, r->node), SLICE_ARG(version), ours, (int)n, ours);
}

void start_took_too_long(struct cell *c)
{
    struct machine *m;
    const size_t n = machines_of(c->nb, &m);
    struct ranks late = RANKS_INIT;
    struct buf text = BUF_INIT;
    const unsigned limit = (unsigned)(START_LIMIT_NS / NS_PER_S);

    c->start_ns = NEVER;
    for (size_t k = 0; k < n && c->wants_places; k++)
        if (m[k].asked) {
            m[k].asked = false;
            cell_fail(c, "RankNotStarted", "%s did not say in %u s which GPUs it has (--no-gpu does not ask)",
                      notebook_node_name(c->nb, m[k].node), limit);
            return;
        }
    for (size_t k = 0; k < c->n; k++)
        if (c->nb->group->rank[c->member[k].rank].state == RANK_STARTING && ranks_add(&late, c->member[k].rank) < 0)
            break;
    if (ranks_count(&late) && ranks_format(&late, &text) == 0)
        cell_fail(c, "RankNotStarted", "%s %s did not come up in %u s", ranks_count(&late) > 1 ? "ranks" : "rank",
                  text.p, limit);
    if (ranks_count(&late)) /* else it is home that takes its time, which it may */
        manage_kill(c->nb, &late, 9, 0);
    ranks_release(&late);
    buf_release(&text);
}
