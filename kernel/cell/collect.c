/* What comes back from ranks: that they are ready, their lines and displays, questions, results,
 * and their deaths. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/check.h"
#include "kernel/cell/text.h"

/* ---- output ---- */

/* What a rank prints when no cell of its runs is shown under the last one, labelled line by
 * line. */
static void late_lines(struct notebook *nb, unsigned rank, const struct span *m)
{
    struct buf text = BUF_INIT;
    struct slice data = m->v[F_LINES_DATA].s;

    while (data.n) {
        const struct slice line = slice_line(&data);

        if (buf_addf(&text, "[%u] ", rank) < 0 || buf_add_slice(&text, line) < 0 ||
            buf_add(&text, "\n", 1) < 0)
            break;
    }
    if (text.n)
        publish_stream(nb, nb->rank_parent, m->v[F_LINES_STREAM].u64 == 2 ? 2 : 1,
                       buf_slice(&text));
    buf_release(&text);
}

static void take_lines(struct notebook *nb, struct rank *r, const struct span *m)
{
    struct member *member = nb->cell ? cell_worker(nb->cell, r->worker) : NULL;

    if (member)
        stream_lines(nb->cell, r->number, m);
    else
        late_lines(nb, r->number, m);
    nb->doors.owe(nb->doors.arg, r->worker, m->v[F_LINES_DATA].s.n);
}

/* Rank 0's displays show as they do at home; other ranks' under a label, and what would clear or
 * control the page not at all. */
static bool is_shown(const struct cell *c, const struct member *member, const char *type)
{
    const bool lead = member == &c->member[0];

    if (!cell_is_shown(c) || strncmp(type, "comm_", 5) == 0)
        return false;
    if (strcmp(type, "clear_output") == 0)
        return lead;
    return lead || c->plan.merge != PLAN_RANK0 || strcmp(type, "update_display_data") == 0;
}

/* Rank 0's display needs a label only behind another rank's: else it would stand under that
 * one's. */
static bool is_labelled(const struct cell *c, const struct member *member, const char *type)
{
    return strcmp(type, "display_data") == 0 && c->plan.merge != PLAN_RAW &&
           (member != &c->member[0] || c->labelled);
}

static void show(struct cell *c, struct member *member, const char *type, const struct span *m)
{
    struct err err = { "" };
    const bool labelled = is_labelled(c, member, type);
    const struct parcel p = {
        .content = m->v[F_PUBLISH_CONTENT].s,
        .metadata = m->v[F_PUBLISH_METADATA].s,
        .buffers = m->v[F_PUBLISH_BUFFERS].list.item,
        .n = m->v[F_PUBLISH_BUFFERS].list.n,
    };

    if (c->merge && merge_flush_rank(c->merge, member->rank, &err) < 0)
        log_error("collect", "%s", err.text);
    if (strcmp(type, "clear_output") == 0)
        live_cleared(c);
    c->labelled = c->labelled || labelled;
    stream_display(c, labelled ? (long)member->rank : -1, type, &p);
}

static void take_publish(struct notebook *nb, struct rank *r, const struct span *m)
{
    struct member *member = nb->cell ? cell_worker(nb->cell, r->worker) : NULL;
    const struct slice given = m->v[F_PUBLISH_TYPE].s;
    char type[64];
    size_t size = m->v[F_PUBLISH_CONTENT].s.n + m->v[F_PUBLISH_METADATA].s.n;

    if (given.n < sizeof type) {
        memcpy(type, given.p, given.n);
        type[given.n] = '\0';
        if (member && is_shown(nb->cell, member, type))
            show(nb->cell, member, type, m);
    }
    for (size_t k = 0; k < m->v[F_PUBLISH_BUFFERS].list.n; k++)
        size += m->v[F_PUBLISH_BUFFERS].list.item[k].n;
    nb->doors.owe(nb->doors.arg, r->worker, size);
}

/* Of a script that has the client's lines rank 0 alone asks, for they are its standard input. */
static void take_input(struct notebook *nb, struct rank *r, const struct span *m)
{
    struct cell *c = nb->cell;
    const struct member *member = c ? cell_worker(c, r->worker) : NULL;

    if (m->v[F_INPUT_OVER].u64) {
        prompts_take_back(nb, r->worker, m);
    } else if (member && member->state == MEMBER_RUNNING && c->request) {
        hang_put_off(c);
        prompts_add(nb, c->request, r->worker, (long)r->number, c->n > 1 && !cell_is_piped(c), m);
    }
}

/* ---- ends ---- */

static void member_over(struct cell *c, struct member *member)
{
    struct err err = { "" };

    prompts_leave(c->nb, member->worker);
    if (c->merge && merge_rank_over(c->merge, member->rank, &err) < 0)
        log_error("collect", "%s", err.text);
    if (member->state == MEMBER_FAILED || member->state == MEMBER_DEAD)
        judge_failure(c);
    collect_look(c);
}

/* A KeyboardInterrupt that we did not ask for, raised or sent from outside, is an exception as
 * any. */
static enum member_state state_of(const struct cell *c, const struct span *m)
{
    if (slice_is(m->v[F_DONE_STATUS].s, "ok"))
        return MEMBER_OK;
    return c->stopping ? MEMBER_INTERRUPTED : MEMBER_FAILED;
}

static void take_result(struct member *member, const struct span *m)
{
    const struct slice note = m->v[F_DONE_NOTE].s;

    member->error = slice_is(m->v[F_DONE_STATUS].s, "ok") ? NULL
                                                          : text_parse(m->v[F_DONE_CONTENT].s);
    member->result = m->v[F_DONE_RESULT].s.n ? text_parse(m->v[F_DONE_RESULT].s) : NULL;
    member->note = note.n ? strndup(note.p, note.n) : NULL;
    member->blob = m->blob_size ? m->blob : 0;
    member->blob_size = m->blob_size;
}

/* What ranks have bound by themselves is newer than what home has now. */
static void note_bound(struct cell *c, struct rank *r, struct slice names)
{
    struct span m = { .kind = SPAN_NEWER, .worker = SPAN_WORKER_HOME, .cell = c->id };
    struct buf unknown = BUF_INIT;

    if (rank_bound(c->group, r, c->captured, names, &unknown) < 0)
        log_warn("collect", "out of memory: home's value may go over what rank %u has assigned",
                 r->number);
    m.v[F_NEWER_NAMES].s = buf_slice(&unknown);
    if (unknown.n)
        notebook_send(c->nb, SPAN_WORKER_HOME, &m);
    buf_release(&unknown);
}

static void take_done(struct notebook *nb, struct rank *r, const struct span *m)
{
    struct cell *c = nb->cell;
    struct member *member = c && c->id == m->cell ? cell_worker(c, r->worker) : NULL;

    if (r->state == RANK_BUSY)
        r->state = RANK_IDLE;
    rank_answered(r, m->v[F_DONE_FLAGS].u64 & DONE_UNBOUND, m->v[F_DONE_GONE].s,
                  m->v[F_DONE_ASSIGNED].s);
    if (c && c->id == m->cell)
        note_bound(c, r, m->v[F_DONE_ASSIGNED].s);
    if ((m->v[F_DONE_FLAGS].u64 & DONE_UNBOUND) && c && c->id == m->cell)
        cast_failed(c, m);
    if (!member || member->state != MEMBER_RUNNING) {
        notebook_drop(nb, m->blob_size ? m->blob : 0);
        return;
    }
    take_result(member, m);
    if ((m->v[F_DONE_FLAGS].u64 & DONE_DISTRIBUTED) && group_meet(c->group) < 0)
        log_warn("collect", "out of memory: the process group of a world of %u is made anew",
                 c->world);
    member->state = state_of(c, m);
    member->accused = member->state == MEMBER_FAILED;
    member_over(c, member);
}

static void take_ready(struct notebook *nb, struct rank *r, const struct span *m)
{
    r->pid = (long)m->v[F_READY_PID].u64;
    if (r->state == RANK_STARTING)
        r->state = RANK_IDLE;
    start_check(nb, r, m->v[F_READY_PYTHON].s);
    if (nb->cell) {
        start_progress(nb->cell);
        gather_look(nb->cell);
    }
}

void collect_message(struct notebook *nb, uint32_t worker, const struct span *m)
{
    struct rank *r = notebook_rank(nb, worker, NULL);

    if (!r) {
        /* another process is that rank now */
        notebook_drop(nb, m->kind == SPAN_DONE && m->blob_size ? m->blob : 0);
        return;
    }
    switch (m->kind) {
    case SPAN_READY:
        take_ready(nb, r, m);
        break;
    case SPAN_LINES:
        take_lines(nb, r, m);
        break;
    case SPAN_PUBLISH:
        take_publish(nb, r, m);
        break;
    case SPAN_DONE:
        take_done(nb, r, m);
        break;
    case SPAN_INPUT:
        take_input(nb, r, m);
        break;
    case SPAN_PROBED:
        if (question_message(nb, r, m))
            break;
        if (!nb->cell || !(compare_message(nb->cell, r, m) || cast_message(nb->cell, worker, m) ||
                           check_message(nb->cell, cell_worker(nb->cell, worker), m)))
            log_debug("collect", "rank %u answers a probe that is over", r->number);
        break;
    case SPAN_STACK:
        if (!where_stack(nb, worker, m) && nb->cell && !hang_stack(nb->cell, worker, m))
            judge_stack(nb->cell, worker, m->v[F_STACK_TEXT].s);
        break;
    default:
        log_warn("collect", "rank %u sent a message of kind %u", r->number, (unsigned)m->kind);
    }
}

/* ---- deaths ---- */

static void note_idle_death(struct notebook *nb, const struct rank *r, const struct span *m)
{
    json_t *death = report_death(nb, r, m);
    struct buf line = BUF_INIT;

    if (death && buf_addf(&line, "cellspan: %s (no cell was running on it)\n",
                          json_string_value(json_object_get(death, "evalue"))) == 0)
        publish_stream(nb, nb->rank_parent, 2, buf_slice(&line));
    buf_release(&line);
    json_decref(death);
}

static void member_died(struct cell *c, struct member *member, const struct span *m)
{
    json_decref(member->error);
    member->error = report_death(c->nb, &c->group->rank[member->rank], m);
    member->accused = !c->stopping;
    member->state = MEMBER_DEAD;
    member_over(c, member);
}

static void start_failed(struct cell *c, const struct rank *r, const struct span *m)
{
    json_t *death = report_death(c->nb, r, m);
    const struct slice last = m->v[F_EXITED_STDERR].s;

    cell_fail(c, "RankNotStarted", "%s%s%.*s", text_field(death, "evalue"), last.n ? "\n" : "",
              SLICE_ARG(last));
    json_decref(death);
}

/* Idle as it was: what the cell needs is gone. */
static void died_before(struct cell *c, const struct rank *r, const struct span *m)
{
    json_t *death = report_death(c->nb, r, m);

    cell_fail(c, "RankDied", "%s, before the cell could run", text_field(death, "evalue"));
    json_decref(death);
}

void collect_exited(struct notebook *nb, uint32_t worker, const struct span *m)
{
    struct group *g;
    struct rank *r = notebook_rank(nb, worker, &g);
    struct cell *c = nb->cell;
    struct member *member = c ? cell_worker(c, worker) : NULL;
    const bool needed = member && c->state < CELL_RUNNING && c->state != CELL_STOPPING;
    enum rank_state was;

    if (!r)
        return;
    was = r->state;
    group_break(g);
    if (!(member && member->state == MEMBER_RUNNING) && was == RANK_IDLE && !needed &&
        g == nb->group)
        note_idle_death(nb, r, m);
    rank_end(r);
    if (member && member->state == MEMBER_RUNNING)
        member_died(c, member, m);
    else if (c && c->state == CELL_STOPPING)
        gather_stopped(c);
    else if (c && was == RANK_STARTING && c->state == CELL_GATHERING)
        start_failed(c, r, m);
    else if (needed)
        died_before(c, r, m);
    else if (g != nb->group)
        collect_look(c);
}

/* The ranks of a script end by themselves when they have said DONE; who does not is made to. True:
 * not all have. */
static bool script_lingers(struct cell *c)
{
    struct ranks left = RANKS_INIT;

    if (!cell_lingers(c))
        return false;
    if (!c->ending) {
        c->ending = true;
        if (ranks_add_range(&left, 0, c->passing->size - 1) == 0)
            manage_kill(c->nb, c->passing, &left, SIGTERM, STOP_GRACE_MS);
        ranks_release(&left);
        judge_killed(c, STOP_GRACE_MS * NS_PER_MS);
    }
    return true;
}

void collect_look(struct cell *c)
{
    if (c->check) {
        check_look(c);
        return;
    }
    if (c->state == CELL_RUNNING && !cell_unfinished(c) && !script_lingers(c))
        finish(c);
}
