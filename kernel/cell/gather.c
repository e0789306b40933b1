/* What must be there before a cell runs: its ranks, what it reads of home, and a port for its world. All three are
 * asked for at once; gather_look goes on when the last has come. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/room.h"
#include "kernel/cell/text.h"

#define DEFAULT_RANKS 4 /* on a machine without GPUs, at most */

static unsigned default_world(struct notebook *nb)
{
    const unsigned gpus = nb->doors.gpus(nb->doors.arg);
    const long cores = nb->doors.cores(nb->doors.arg);

    if (nb->group->asked)
        return nb->group->asked;
    if (gpus)
        return gpus;
    return cores > 0 && cores < DEFAULT_RANKS ? (unsigned)cores : DEFAULT_RANKS;
}

/* The world's size, 0 when it was refused. */
static unsigned world_of(struct cell *c)
{
    struct notebook *nb = c->nb;

    if (c->plan.n == PLAN_N_UNSET)
        return default_world(nb);
    if (c->plan.n != PLAN_N_GPU)
        return c->plan.n;
    if (nb->doors.gpus(nb->doors.arg))
        return nb->doors.gpus(nb->doors.arg);
    cell_fail(c, "UsageError", "-n gpu: there is no GPU on %s (give a number, as in -n 4)",
              nb->doors.node(nb->doors.arg));
    return 0;
}

/* Which ranks take part; -1 when that was refused. */
static int choose(struct cell *c)
{
    struct err err = { "" };

    if (c->plan.kind == PLAN_PULL && c->nb->group->asked == 0) {
        cell_fail(c, "UsageError", "%%pull: there are no ranks yet (run a %%%%distribute cell first)");
        return -1;
    }
    if (!(c->world = world_of(c)))
        return -1;
    if (c->world > GROUP_MAX)
        err_set(&err, "-n %u: a group has at most %u ranks", c->world, GROUP_MAX);
    else if (c->plan.ranks && ranks_parse(&c->to, c->plan.ranks, c->world, &err) < 0)
        ;
    else if (!c->plan.ranks && ranks_add_range(&c->to, 0, c->world - 1) < 0)
        err_set(&err, "out of memory");
    else if (group_grow(c->nb->group, c->world, &err) == 0) {
        if (c->nb->group->asked < c->world)
            c->nb->group->asked = c->world;
        return 0;
    }
    cell_fail(c, "UsageError", "%s", err.text);
    return -1;
}

/* ---- ranks ---- */

static int add_u32(struct buf *out, uint32_t v)
{
    const unsigned char le[4] = { (unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16),
                                  (unsigned char)(v >> 24) };

    return buf_add(out, le, sizeof le);
}

static int start_ranks(struct cell *c, const struct ranks *missing)
{
    struct notebook *nb = c->nb;
    uint32_t *workers = calloc(ranks_count(missing), sizeof *workers);
    struct buf numbers = BUF_INIT;
    struct span m = { .kind = SPAN_START, .cell = c->id };
    struct err err = { "" };
    size_t n = 0;
    int rc;

    for (long k = ranks_next(missing, 0); workers && k >= 0; k = ranks_next(missing, (unsigned)k + 1)) {
        workers[n] = nb->next_worker++;
        if (rank_start(&nb->group->rank[k], workers[n++], &err) < 0 || add_u32(&numbers, (uint32_t)k) < 0)
            break;
    }
    m.v[F_START_ROLE].u64 = 1;
    m.v[F_START_RANKS].s = buf_slice(&numbers);
    m.v[F_START_GROUP].s = slice_text(nb->group->name);
    m.v[F_START_PYTHON].s = slice_text(nb->python);
    m.v[F_START_CWD].s = slice_text("");
    m.v[F_START_ENV].s = slice_text("{}");
    if (!workers || numbers.n != 4 * ranks_count(missing))
        rc = err_set(&err, "out of memory while starting ranks");
    else
        rc = notebook_send_to(nb, workers, n, &m, &err);
    buf_release(&numbers);
    free(workers);
    if (rc == 0)
        return 0;
    for (long k = ranks_next(missing, 0); k >= 0; k = ranks_next(missing, (unsigned)k + 1))
        if (nb->group->rank[k].state == RANK_STARTING)
            rank_end(&nb->group->rank[k]);
    cell_fail(c, "RuntimeError", "%s", err.text);
    return -1;
}

/* -1: the cell has failed. */
static int ensure_ranks(struct cell *c)
{
    struct ranks missing = RANKS_INIT;
    int rc = group_missing(c->nb->group, c->world, &missing);

    c->start_ns = notebook_now(c->nb) + START_LIMIT_NS; /* also for those that an earlier cell began to start */
    if (rc < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else if (ranks_count(&missing)) {
        group_break(c->nb->group);
        rc = start_ranks(c, &missing);
    }
    ranks_release(&missing);
    return rc;
}

/* ---- what home has, and a port ---- */

static int join(struct buf *out, char **names)
{
    for (size_t k = 0; names && names[k]; k++)
        if (buf_addf(out, "%s%s", k ? "," : "", names[k]) < 0)
            return -1;
    return 0;
}

/* -1: the cell has failed. */
static int ask_capture(struct cell *c)
{
    struct span m = { .kind = SPAN_CAPTURE, .worker = SPAN_WORKER_HOME, .cell = c->id };
    const bool looks = c->plan.kind == PLAN_DISTRIBUTE || c->plan.kind == PLAN_PUSH;
    struct buf names = BUF_INIT;
    int rc = join(&names, c->plan.kind == PLAN_PUSH ? c->plan.names : c->plan.capture);

    if (rc < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    m.v[F_CAPTURE_CODE].s = slice_of(c->plan.body ? c->plan.body : "", c->plan.body ? c->plan.body_size : 0);
    m.v[F_CAPTURE_NAMES].s = buf_slice(&names);
    m.v[F_CAPTURE_FLAGS].u64 = (looks && !c->plan.no_capture ? 0 : CAPTURE_NONE) | (c->store ? CAPTURE_RECORD : 0);
    m.v[F_CAPTURE_COUNT].u64 = c->count;
    m.v[F_CAPTURE_RAW].s = slice_of(c->text, c->text_size);
    c->wants_capture = c->recorded = true;
    if (rc == 0)
        rc = cell_send_home(c, &m);
    buf_release(&names);
    return rc;
}

static int ask_port(struct cell *c)
{
    const struct span m = { .kind = SPAN_PORT, .cell = c->id };
    struct group *g = c->nb->group;

    if (c->plan.kind != PLAN_DISTRIBUTE && c->plan.kind != PLAN_SCRIPT)
        return 0;
    if (g->distributed && g->world == c->world && g->port)
        return 0; /* a world that has met stays where it is; one that has not gets a port that is free now */
    c->wants_port = true;
    return cell_send(c, NULL, 0, &m);
}

/* After %ranks restart: the processes are started, and that is all. */
void gather_ranks(struct cell *c)
{
    c->state = CELL_GATHERING;
    if (c->world && ensure_ranks(c) < 0)
        return;
    ranks_clear(&c->to);
    if ((c->world && ranks_add_range(&c->to, 0, c->world - 1) < 0) || cell_members(c) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else
        gather_look(c);
}

static void ask_all(struct cell *c)
{
    c->state = CELL_GATHERING;
    if (ensure_ranks(c) < 0)
        return;
    if (cell_members(c) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
        return;
    }
    if (ask_capture(c) == 0 && ask_port(c) == 0)
        gather_look(c);
}

void gather_begin(struct cell *c)
{
    struct ranks living = RANKS_INIT;
    struct err err = { "" };

    if (stream_open(c, &err) < 0) {
        cell_fail(c, "RuntimeError", "%s", err.text);
        return;
    }
    if (choose(c) < 0)
        return;
    if (c->plan.fresh && group_living(c->nb->group, &living) == 0 && ranks_count(&living)) {
        c->state = CELL_STOPPING;
        manage_kill(c->nb, &living, 15, 2000);
    } else {
        ask_all(c);
    }
    ranks_release(&living);
}

void gather_stopped(struct cell *c)
{
    for (unsigned k = 0; k < c->nb->group->size; k++)
        if (c->nb->group->rank[k].state == RANK_STOPPING)
            return;
    if (c->plan.kind == PLAN_RANKS)
        manage_stopped(c);
    else
        ask_all(c);
}

/* ---- answers ---- */

static bool ranks_ready(const struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->nb->group->rank[c->member[k].rank].state == RANK_STARTING)
            return false;
    return true;
}

static int ask_pack(struct cell *c, const struct shipment *s)
{
    struct span m = { .kind = SPAN_PACK, .worker = SPAN_WORKER_HOME, .cell = c->id, .blob = c->nb->next_blob++ };

    m.v[F_PACK_NAMES].s = slice_text(s->names);
    return cell_send_home(c, &m);
}

static void go_on(struct cell *c)
{
    if (c->plan.kind == PLAN_PULL || c->plan.kind == PLAN_PUSH)
        fanout_fetch(c);
    else
        fanout_run(c);
}

void gather_look(struct cell *c)
{
    struct err err = { "" };

    if (c->state != CELL_GATHERING || c->wants_capture || c->wants_port || !ranks_ready(c))
        return;
    c->start_ns = NEVER;
    if (c->plan.kind == PLAN_RANKS) {
        finish_now(c);
        return;
    }
    c->state = CELL_SHIPPING;
    if (c->captured && shipments_plan(c->nb->group, &c->to, c->captured, &c->ships, &err) < 0) {
        cell_fail(c, "RuntimeError", "%s", err.text);
        return;
    }
    for (size_t k = 0; k < c->ships.n; k++)
        if (ask_pack(c, &c->ships.item[k]) < 0)
            return;
    if (c->ships.n == 0)
        go_on(c);
}

static void note_lines(struct cell *c, struct slice text)
{
    while (text.n) {
        const char *end = memchr(text.p, '\n', text.n);
        const size_t n = end ? (size_t)(end - text.p) : text.n;

        if (n)
            stream_note(c, "%.*s", (int)n, text.p);
        text = slice_of(text.p + n + (end != NULL), text.n - n - (end != NULL));
    }
}

static void take_captured(struct cell *c, const struct span *m)
{
    json_t *names = text_parse(m->v[F_CAPTURED_NAMES].s);

    c->wants_capture = false;
    note_lines(c, m->v[F_CAPTURED_WARNINGS].s);
    json_decref(c->captured);
    c->captured = names;
    gather_look(c);
}

/* "CaptureError: lock was not sent": the name goes before the colon. */
static void fail_in_words_of_python(struct cell *c, struct slice text)
{
    char ename[64] = "RuntimeError";
    const char *colon = memchr(text.p, ':', text.n);
    const size_t n = colon ? (size_t)(colon - text.p) : 0;

    if (n && n < sizeof ename && !memchr(text.p, ' ', n)) {
        memcpy(ename, text.p, n);
        ename[n] = '\0';
        text = slice_of(colon + 1, text.n - n - 1);
    }
    while (text.n && text.p[0] == ' ')
        text = slice_of(text.p + 1, text.n - 1);
    cell_fail(c, ename, "%.*s", SLICE_ARG(text));
}

static void take_packed(struct cell *c, const struct span *m)
{
    if (c->state != CELL_SHIPPING || c->packed >= c->ships.n) {
        notebook_drop(c->nb, m->blob_size ? m->blob : 0);
        return;
    }
    if (m->v[F_PACKED_ERROR].s.n) {
        fail_in_words_of_python(c, m->v[F_PACKED_ERROR].s);
        return;
    }
    fanout_ship(c, m->blob, m->blob_size);
    if (c->state == CELL_SHIPPING && ++c->packed == c->ships.n)
        go_on(c);
}

void gather_message(struct cell *c, const struct span *m)
{
    if (m->cell != c->id)
        return;
    if (m->kind == SPAN_CAPTURED && c->wants_capture) {
        take_captured(c, m);
    } else if (m->kind == SPAN_PACKED) {
        take_packed(c, m);
    } else if (m->kind == SPAN_PORT && c->wants_port) {
        c->wants_port = false;
        c->nb->group->port = (unsigned)m->v[F_PORT_PORT].u64;
        if (c->nb->group->port == 0) {
            cell_fail(c, "RuntimeError", "there is no free TCP port between 20000 and 29999 on %s for MASTER_PORT",
                      c->nb->doors.node(c->nb->doors.arg));
            return;
        }
        gather_look(c);
    }
}
