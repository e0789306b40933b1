/* What must be there before a cell runs: its ranks, what it reads of home, and a port for its
 * world. All three are asked for at once; gather_look goes on when the last has come. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/check.h"
#include "kernel/cell/text.h"

#define NOTES                                                                                      \
    "notes" /* in what home said of its names: lines that are true when these are sent             \
             */

/* ---- what home has, and a port ---- */

static int join(struct buf *out, char **names)
{
    for (size_t k = 0; names && names[k]; k++)
        if (buf_addf(out, "%s%s", k ? "," : "", names[k]) < 0)
            return -1;
    return 0;
}

/* A script goes along with its text where ranks may not have the file. Its path, as home finds
 * it. */
static int add_script(const struct cell *c, struct buf *out)
{
    const char *script = c->plan.argv ? c->plan.argv[0] : NULL;

    if (c->plan.kind != PLAN_SCRIPT || !script || strcmp(script, "-m") == 0 || !c->nb->group->on)
        return 0;
    if (script[0] != '/' && c->plan.cwd && buf_addf(out, "%s/", c->plan.cwd) < 0)
        return -1;
    return buf_add_text(out, script);
}

/* -1: the cell has failed. */
static int ask_capture(struct cell *c)
{
    struct span m = { .kind = SPAN_CAPTURE, .worker = SPAN_WORKER_HOME, .cell = c->id };
    const bool looks = c->plan.kind == PLAN_DISTRIBUTE || c->plan.kind == PLAN_PUSH;
    struct buf names = BUF_INIT, script = BUF_INIT;
    int rc = join(&names, c->plan.kind == PLAN_PUSH ? c->plan.names : c->plan.capture);

    if (rc == 0)
        rc = add_script(c, &script);
    if (rc < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    m.v[F_CAPTURE_CODE].s = script.n ? buf_slice(&script)
                                     : slice_of(c->plan.body, c->plan.body ? c->plan.body_size : 0);
    m.v[F_CAPTURE_NAMES].s = buf_slice(&names);
    m.v[F_CAPTURE_FLAGS].u64 = (looks && !c->plan.no_capture ? 0 : CAPTURE_NONE) |
                               (c->store ? CAPTURE_RECORD : 0) | (script.n ? CAPTURE_SCRIPT : 0) |
                               (c->plan.kind == PLAN_PUSH ? CAPTURE_PUSH : 0) |
                               (c->state == CELL_ASKING ? CAPTURE_PYTHON : 0);
    m.v[F_CAPTURE_COUNT].u64 = c->count;
    m.v[F_CAPTURE_RAW].s = slice_of(c->text, c->text_size);
    c->wants_capture = c->recorded = true;
    if (rc == 0)
        rc = cell_send_home(c, &m);
    buf_release(&names);
    buf_release(&script);
    return rc;
}

/* Of the machine on which rank 0 is. -1: the cell has failed. */
int gather_ask_port(struct cell *c)
{
    const struct span m = { .kind = SPAN_PORT, .cell = c->id };
    struct group *g = c->group;

    if (c->plan.kind != PLAN_DISTRIBUTE && c->plan.kind != PLAN_SCRIPT)
        return 0;
    if (group_has_met(g, c->world))
        /* a world that has met stays where it is; one that has not gets a port that is free now */
        return 0;
    c->wants_port = true;
    return cell_send_node(c, g->rank[0].node, &m);
}

/* -1: the cell has failed. */
static int take_newer(struct cell *c)
{
    if (group_newer(c->nb->group, c->captured) == 0)
        return 0;
    cell_fail(c, "RuntimeError", "out of memory");
    return -1;
}

/* The machines are there. */
void gather_there(struct cell *c)
{
    c->state = CELL_GATHERING;
    if (c->plan.kind != PLAN_RANKS && !c->recorded && ask_capture(c) < 0)
        return;
    if (c->captured && take_newer(c) < 0) /* what home said before the ranks ended */
        return;
    if (c->state == CELL_GATHERING)
        start_begin(c);
}

/* What can be refused before anything is started or stopped. */
static int check(struct cell *c)
{
    const unsigned n = c->plan.per_node            ? 0 /* not known before the machines are */
                       : c->plan.n != PLAN_N_UNSET ? c->plan.n
                                                   : c->nb->group->asked;
    struct ranks which = RANKS_INIT;
    struct err err = { "" };
    int rc = 0;

    if (c->plan.kind == PLAN_PULL && c->nb->group->asked == 0)
        rc = err_set(&err, "%%pull: there are no ranks yet (run a %%%%distribute cell first)");
    else if (n && n <= GROUP_MAX && c->plan.ranks)
        rc = ranks_parse(&which, c->plan.ranks, n, &err);
    ranks_release(&which);
    if (rc < 0)
        cell_fail(c, "UsageError", "%s", err.text);
    return rc < 0 ? -1 : engine_choose(c);
}

/* Goes on with engine_begin() when they have ended. */
void gather_stop(struct cell *c, const struct ranks *living)
{
    c->state = CELL_STOPPING;
    if (ranks_count(living))
        manage_kill(c->nb, c->nb->group, living, 15, STOP_GRACE_MS);
    gather_stopped(c);
}

/* The ranks end, and with them all that they have. */
static void begin_afresh(struct cell *c)
{
    struct ranks living = RANKS_INIT;

    if (group_living(c->nb->group, &living) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else {
        if (c->moves || c->plan.n != PLAN_N_UNSET || c->plan.per_node)
            c->nb->group->asked = 0;
        c->moves = c->moves || engine_is_torn(c->nb);
        gather_stop(c, &living);
    }
    ranks_release(&living);
}

/* Home may refuse what the cell reads, or its text: it is asked before ranks end for the cell. */
static bool may_be_refused(const struct cell *c)
{
    return c->plan.kind == PLAN_DISTRIBUTE && group_is_somewhere(c->nb->group);
}

void gather_begin(struct cell *c)
{
    struct err err = { "" };

    if (stream_open(c, &err) < 0) {
        cell_fail(c, "RuntimeError", "%s", err.text);
        return;
    }
    if (check(c) < 0)
        return;
    if (!c->plan.fresh) {
        engine_begin(c);
    } else if (may_be_refused(c)) {
        c->state = CELL_ASKING;
        (void)ask_capture(c);
    } else {
        begin_afresh(c);
    }
}

void gather_stopped(struct cell *c)
{
    for (unsigned k = 0; k < c->nb->group->size; k++)
        if (c->nb->group->rank[k].state == RANK_STOPPING)
            return;
    if (c->plan.fresh) /* as was asked for: what ran before is not missed by anybody */
        group_forget_cells(c->nb->group);
    if (c->plan.kind == PLAN_RANKS && !c->moves)
        manage_stopped(c);
    else
        engine_begin(c);
}

/* ---- answers ---- */

/* Asked after each that is ready: the walk goes on where the last one stopped. */
static bool ranks_ready(struct cell *c)
{
    for (size_t k = 0; k < c->n; k++, c->starting++) {
        if (c->starting >= c->n)
            c->starting = 0;
        if (c->group->rank[c->member[c->starting].rank].state == RANK_STARTING)
            return false;
    }
    return true;
}

static int ask_pack(struct cell *c, const struct shipment *s)
{
    struct span m = {
        .kind = SPAN_PACK, .worker = SPAN_WORKER_HOME, .cell = c->id, .blob = c->nb->next_blob++
    };

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
    if (c->state != CELL_GATHERING || c->wants_places || c->wants_capture || c->wants_port ||
        !ranks_ready(c))
        return;
    c->start_ns = NEVER;
    if (c->plan.kind == PLAN_RANKS && c->plan.ranks_do == PLAN_RANKS_CHECK) {
        check_begin(c);
        return;
    }
    if (c->plan.kind == PLAN_RANKS) {
        finish_now(c);
        return;
    }
    c->state = CELL_SHIPPING;
    if (follow_tell(c) < 0)
        return;
    if (c->captured)
        compare_begin(c);
    else
        go_on(c);
}

static void note_lines(struct cell *c, struct slice text)
{
    while (text.n) {
        const struct slice line = slice_line(&text);

        if (line.n)
            stream_note(c, "%.*s", SLICE_ARG(line));
    }
}

void gather_ship(struct cell *c)
{
    struct err err = { "" };

    note_lines(c, text_slice(c->captured, NOTES));
    if (shipments_plan(c->group, &c->to, c->captured, &c->ships, &err) < 0) {
        cell_fail(c, "RuntimeError", "%s", err.text);
        return;
    }
    for (size_t k = 0; k < c->ships.n; k++)
        if (ask_pack(c, &c->ships.item[k]) < 0)
            return;
    if (c->ships.n == 0)
        go_on(c);
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
    cell_fail_in_words(c, ename, "", text);
}

static void take_captured(struct cell *c, const struct span *m)
{
    json_t *names = text_parse(m->v[F_CAPTURED_NAMES].s);
    const struct slice error = text_slice(names, "error"), notes = m->v[F_CAPTURED_WARNINGS].s;

    c->wants_capture = false;
    json_decref(c->captured);
    c->captured = names;
    if (error.n) {
        note_lines(c, notes);
        fail_in_words_of_python(c, error);
        return;
    }
    if (c->state != CELL_ASKING && take_newer(c) < 0)
        return;
    if (notes.n && json_object_set_new(names, NOTES, json_stringn_nocheck(notes.p, notes.n)) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
        return;
    }
    if (c->state == CELL_ASKING)
        begin_afresh(c);
    else
        gather_look(c);
}

static void take_packed(struct cell *c, const struct span *m)
{
    if (c->state != CELL_SHIPPING) {
        notebook_drop(c->nb, m->blob_size ? m->blob : 0);
        return;
    }
    if (m->v[F_PACKED_ERROR].s.n) {
        fail_in_words_of_python(c, m->v[F_PACKED_ERROR].s);
        return;
    }
    cast_packed(c, m);
}

void gather_shipped(struct cell *c)
{
    if (c->state == CELL_SHIPPING && ++c->packed == c->ships.n)
        go_on(c);
}

void gather_message(struct cell *c, unsigned node, const struct span *m)
{
    if (m->cell != c->id)
        return;
    if (m->kind == SPAN_CAPTURED && c->wants_capture) {
        take_captured(c, m);
    } else if (m->kind == SPAN_PACKED) {
        take_packed(c, m);
    } else if (m->kind == SPAN_PORT && c->wants_port) {
        c->wants_port = false;
        c->group->port = (unsigned)m->v[F_PORT_PORT].u64;
        if (c->group->port == 0) {
            cell_fail(c, "RuntimeError",
                      "there is no free TCP port between 20000 and 29999 on %s for MASTER_PORT",
                      notebook_node_name(c->nb, node));
            return;
        }
        gather_look(c);
    }
}
