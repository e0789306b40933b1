/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles messages from ranks: READY, lines, displays, prompts, questions, DONE, answers to PROBE,
 * stacks. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/cell_clears.h"
#include "kernel/cell/cell_panel.h"
#include "kernel/cell/idle_release.h"
#include "kernel/cell/notices.h"
#include "kernel/dispatch/private.h"
#include "kernel/notebook/debugger.h"

#define CALLBACK_TEXT_MAX ((size_t)256 << 10) /* bytes */

/* ---- output of tasks, threads and child processes whose cell is over ---- */

/* A page shows it under that cell. A program that executes a notebook (nbclient, and with it
 * nbconvert and papermill) reads only what belongs to the cell that it waits for, so it gets such
 * output with that cell. These programs answer no questions. Consoles, which do, show output
 * whenever it comes. */
static bool is_of_program(const struct request *r)
{
    return strcmp(request_type(r), "execute_request") == 0 &&
           !request_flag(r, "allow_stdin", true) && request_is_of_python(r);
}

static bool is_late(const struct request *parent)
{
    return parent && request_is_over(parent) && is_of_program(parent);
}

/* The cell of such a program that runs now; NULL: none does. */
static const struct request *programs_cell(const struct notebook *nb)
{
    const struct request *r = nb->home.executing ? nb->home.executing->r : NULL;

    for (const struct cell *c = nb->cells; c && !r; c = c->from.next)
        r = c->from.is_call ? NULL : c->from.request;
    return r && is_of_program(r) && !request_flag(r, "silent", false) ? r : NULL;
}

const struct request *dispatch_late_parent(const struct notebook *nb, const struct request *parent,
                                           const char *type)
{
    const struct request *now;

    /* clear_output would clear the output of the other cell */
    if (!is_late(parent) || !(now = programs_cell(nb)) ||
        !(strcmp(type, "stream") == 0 || strstr(type, "display_data") ||
          strncmp(type, "comm_", 5) == 0))
        return parent;
    return now;
}

void late_stream(struct notebook *nb, const struct request *parent, unsigned stream,
                 struct slice text)
{
    if (!is_late(parent) || programs_cell(nb) || !home_keep(nb, stream, text))
        publish_stream(nb, parent, stream, text);
}

/* ---- output of ranks ---- */

/* A page needs no more lines of one callback of a widget. false: these are left out. */
static bool callback_may_print(struct comm_unanswered *t, unsigned rank, size_t bytes)
{
    struct buf line = BUF_INIT;

    if (t->printed > CALLBACK_TEXT_MAX)
        return false;
    t->printed += bytes + 1;
    if (t->printed <= CALLBACK_TEXT_MAX)
        return true;
    if (buf_addf(&line,
                 "cellspan: what the callback of this widget prints from here on is left out; "
                 "%%ranks logs -r %u shows it\n",
                 rank) == 0)
        comm_unanswered_text(t, 2, buf_slice(&line));
    buf_release(&line);
    return false;
}

/* Lines of a rank that runs no cell. They are shown with the rank's label under the last cell on
 * ranks, or under the widget message that the rank handles. */
static void late_lines(struct notebook *nb, const struct rank *r, const struct span *m)
{
    struct buf text = BUF_INIT;
    struct slice data = m->v[F_LINES_DATA].s;
    struct comm_unanswered *t = comm_unanswered_of(nb, r->worker, 0);
    const unsigned rank = r->number;

    if (t && !callback_may_print(t, rank, data.n))
        return;
    while (data.n) {
        const struct slice line = slice_line(&data);

        if (buf_addf(&text, "[%u] ", rank) < 0 || buf_add_slice(&text, line) < 0 ||
            buf_add(&text, "\n", 1) < 0)
            break;
    }
    if (t)
        comm_unanswered_text(t, m->v[F_LINES_STREAM].u64 == 2 ? 2 : 1, buf_slice(&text));
    else if (text.n)
        late_stream(nb, nb->rank_parent, m->v[F_LINES_STREAM].u64 == 2 ? 2 : 1, buf_slice(&text));
    buf_release(&text);
}

static void take_lines(struct notebook *nb, struct rank *r, const struct span *m)
{
    struct cell *c = cell_on(nb, r->worker);

    if (c)
        output_on_lines(c, r->number, m);
    else
        late_lines(nb, r, m);
    nb->ops.owe(nb->ops.arg, r->worker, m->v[F_LINES_DATA].s.n);
}

/* The first rank's displays are shown as home's are. Other ranks' displays are shown with a
 * label. */
static bool is_shown(struct cell *c, const struct member *member, const char *type)
{
    const bool lead = member == &c->member[0];

    if (!cell_is_shown(c))
        return false;
    if (cell_panel_on(c))
        return true;
    if (strcmp(type, "clear_output") == 0)
        return lead || clears_shared(c);
    return lead || c->plan.merge != PLAN_RANK0 || strcmp(type, "update_display_data") == 0;
}

static void show(struct cell *c, struct member *member, const struct published *p)
{
    if (strcmp(p->type, "clear_output") == 0 && !cell_panel_on(c) && member == &c->member[0])
        live_cleared(c);
    output_display(c, member, p->type, &p->content);
}

/* Jupyter's server would drop what is too much, and with it the next cell's output. */
static void show_of_callback(struct notebook *nb, struct comm_unanswered *t, unsigned rank,
                             const struct published *p)
{
    if (nb->output_limit && strstr(p->type, "display_data") &&
        !output_limit_fits_comm(nb->output_limit)) {
        (void)callback_may_print(t, rank, CALLBACK_TEXT_MAX + 1);
        return;
    }
    comm_unanswered_flush(t);
    if (nb->output_limit)
        output_limit_count_comm(nb->output_limit);
    publish_content(nb, t->r, p->type, &p->content);
}

/* A display of a rank that runs no cell: of a thread, say. It is shown as late_lines() shows lines.
 */
static void late_display(struct notebook *nb, const struct rank *r, const struct published *p)
{
    char label[24];

    if (!strstr(p->type, "display_data"))
        return;
    if (nb->output_limit && !output_limit_fits_comm(nb->output_limit)) {
        log_warn("ranks", "a display of rank %u is left out: there are too many", r->number);
        return;
    }
    if (nb->output_limit)
        output_limit_count_comm(nb->output_limit);
    comm_output_display(nb, r->worker, p);
    snprintf(label, sizeof label, "[%u]\n", r->number);
    if (strcmp(p->type, "display_data") == 0)
        late_stream(nb, nb->rank_parent, 1, slice_text(label));
    publish_content(nb, nb->rank_parent, p->type, &p->content);
}

/* Comm messages are shown under the cell, or the widget's message, that the rank served. */
static const struct request *parent_of(const struct notebook *nb, const struct cell *c,
                                       const struct comm_unanswered *t)
{
    if (t)
        return t->r;
    return c && c->from.request ? c->from.request : nb->rank_parent;
}

static void take_publish(struct notebook *nb, struct rank *r, const struct span *m)
{
    struct cell *c = cell_on(nb, r->worker);
    struct member *member = c ? cell_worker(c, r->worker) : NULL;
    struct published p;

    if (published_read(&p, m)) {
        struct comm_unanswered *t = m->cell ? comm_unanswered_of(nb, r->worker, m->cell) : NULL;

        if (c && strcmp(p.type, "comm_close") == 0) /* a page can't show what is closed */
            output_show_held(c);
        if (strncmp(p.type, "comm_", 5) == 0) {
            comm_output_take(nb, r->worker, parent_of(nb, c, t), &p);
        } else if (t || (member && is_shown(c, member, p.type))) {
            comm_output_display(nb, r->worker, &p);
            if (t)
                show_of_callback(nb, t, r->number, &p);
            else
                show(c, member, &p);
        } else if (!c) {
            late_display(nb, r, &p);
        }
    }
    nb->ops.owe(nb->ops.arg, r->worker, p.size);
}

/* The prompts of a script that reads the client's lines get no label: only rank 0 reads them. */
static void take_input(struct notebook *nb, struct rank *r, const struct span *m)
{
    struct cell *c = cell_on(nb, r->worker);
    const struct member *member = c ? cell_worker(c, r->worker) : NULL;

    if (m->v[F_INPUT_OVER].u64) {
        prompts_drop_one(nb, r->worker, m);
    } else if (member && member->state == MEMBER_RUNNING && c->from.request) {
        hang_put_off(c);
        prompts_add(nb, c->from.request, r->worker, (long)r->number,
                    (c->n > 1 || cell_is_of_thread(c)) && !cell_is_piped(c), m);
    }
}

static void take_hand(struct notebook *nb, const struct rank *r, const struct span *m)
{
    struct cell *c = cell_find(nb, m->cell);
    const struct member *member = c ? cell_worker(c, r->worker) : NULL;

    if (member)
        exchange_on_rank_hand(c, member, m);
}

/* A PROBED: of home's question, or of a cell that waits for it. */
static void take_probed(struct notebook *nb, struct rank *r, const struct span *m)
{
    struct cell *c = cell_find(nb, m->cell);

    if (!question_on_probed(nb, r, m) && !idle_release_on_probed(nb, r, m) &&
        (!c || !cell_steps_probed(c, r, m)))
        log_debug("ranks", "rank %u answers a probe that is over", r->number);
}

static void take_stack(struct notebook *nb, uint32_t worker, const struct span *m)
{
    struct cell *c;

    if (!where_on_stack(nb, worker, m) && (c = cell_on(nb, worker)) && !hang_on_stack(c, worker, m))
        stop_on_stack(c, worker, m->v[F_STACK_TEXT].s);
}

static void take_ready(struct notebook *nb, struct rank *r, const struct span *m)
{
    r->pid = (long)m->v[F_READY_PID].u64;
    if (r->state == RANK_STARTING)
        r->state = RANK_IDLE;
    CELLS_EACH (c, nb)
        cell_steps_ready(c, r, m);
    debugger_join(nb, r);
}

void from_ranks(struct notebook *nb, uint32_t worker, const struct span *m)
{
    struct rank *r = notebook_rank(nb, worker, NULL);

    if (!r) {
        /* another process has this rank's number now */
        notebook_drop(nb, m->kind == SPAN_DONE && m->blob_size ? m->blob : 0);
        return;
    }
    idle_release_used(nb, notebook_now(nb));
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
    case SPAN_REPLY:
        comm_routes_on_reply(nb, worker, m);
        break;
    case SPAN_DONE:
        if (comms_waits(nb->comms.table))
            comm_output_flush(nb, worker);
        rank_events_on_done(nb, r, m);
        break;
    case SPAN_INPUT:
        take_input(nb, r, m);
        break;
    case SPAN_FIND:
        finds_take(nb, worker, m);
        break;
    case SPAN_HAND:
        take_hand(nb, r, m);
        break;
    case SPAN_MET:
        notices_met(nb, r, m);
        break;
    case SPAN_PROBED:
        take_probed(nb, r, m);
        break;
    case SPAN_STACK:
        take_stack(nb, worker, m);
        break;
    default:
        log_warn("ranks", "rank %u sent a message of kind %u", r->number, (unsigned)m->kind);
    }
}
