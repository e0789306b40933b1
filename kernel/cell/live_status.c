/* SPDX-License-Identifier: BSD-3-Clause */
/* The status display of a running cell: the state of each rank, updated in place. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_runs.h"
#include "kernel/cell/live_status.h"
#include "kernel/notebook/debugger.h"
#include "kernel/status/status.h"

#define AFTER_NS  (2 * NS_PER_S) /* shorter cells show no status */
#define EVERY_NS  (1 * NS_PER_S)
#define GAUGES_NS (2 * NS_PER_S)
#define ENDS_NS   (600 * NS_PER_S)

/* the names of its displays: while it waits for its turn, and later */
#define WAITS  "status-waits"
#define STATUS "status"

#define MIB_OF(bytes) (((bytes) + (1u << 19)) >> 20) /* rounded to the nearest */

static bool can_be_shown(const struct cell *c)
{
    return c->from.request && c->nb->config.status && cell_is_shown(c) && cell_is_redrawn(c) &&
           !json_is_true(json_object_get(request_content(c->from.request), "silent"));
}

static bool is_wanted(const struct cell *c)
{
    return can_be_shown(c) && (c->plan.kind == PLAN_DISTRIBUTE || c->plan.kind == PLAN_SCRIPT ||
                               c->plan.kind == PLAN_PUSH);
}

void live_init(struct cell *c)
{
    c->live.due_ns = NEVER;
}

void live_open(struct cell *c)
{
    c->live.opened_ns = notebook_now(c->nb);
    if (is_wanted(c))
        c->live.due_ns = c->live.opened_ns + AFTER_NS;
}

/* The rank has cleared the output, and the status with it. An update would show it again. */
void live_cleared(struct cell *c)
{
    c->live.shown = false;
    c->live.due_ns = NEVER;
}

/* The strings of a row. */
struct row_text {
    struct rank_usage_text gauges;
    char state[64];
};

/* The rank got RUN, but it waits for variables that are still being sent to its node. */
static bool is_receiving(const struct cell *c, const struct member *m, char *text, size_t size)
{
    const unsigned node = c->group->rank[m->rank].node;
    uint64_t had, whole, bytes;

    if (m->state != MEMBER_RUNNING ||
        !(bytes = c->nb->ops.expected(c->nb->ops.arg, node, &had, &whole)))
        return false;
    if (had == UINT64_MAX)
        snprintf(text, size, "receiving %" PRIu64 " MiB", MIB_OF(bytes));
    else
        snprintf(text, size, "receiving %.0f %% of %" PRIu64 " MiB",
                 100.0 * (double)had / (double)bytes, MIB_OF(bytes));
    return true;
}

/* It has rested in a collective, in which it may wait for other ranks. */
static bool is_in_collective(const struct member *m, char *text, size_t size)
{
    if (m->state != MEMBER_RUNNING || !m->collective[0])
        return false;
    snprintf(text, size, "in %s", m->collective);
    return true;
}

static const char *state_text(const struct member *m)
{
    static const char *const texts[] = {
        [MEMBER_WAITING] = "waiting", [MEMBER_RUNNING] = "running",
        [MEMBER_OK] = "done",         [MEMBER_REPLACED] = "dead",
        [MEMBER_FAILED] = "failed",   [MEMBER_INTERRUPTED] = "interrupted",
        [MEMBER_DEAD] = "dead",
    };

    return texts[m->state];
}

/* The same when the cell is over: no rank waits or runs any more. */
static const char *last_text(const struct member *m)
{
    return m->state == MEMBER_WAITING   ? "not begun"
           : m->state == MEMBER_RUNNING ? "not ended"
                                        : state_text(m);
}

static void fill(const struct cell *c, bool over, struct row_text *text, struct status_rank *row)
{
    for (size_t k = 0; k < c->n; k++) {
        const struct member *m = &c->member[k];
        const struct rank *r = &c->group->rank[m->rank];
        /* that it goes on may come after its DONE */
        const bool stopped = !over && m->state == MEMBER_RUNNING &&
                             debugger_is_stopped(c->nb, m->worker);
        const bool receiving = !over && is_receiving(c, m, text[k].state, sizeof text[k].state);
        const bool rests = !over && !receiving &&
                           is_in_collective(m, text[k].state, sizeof text[k].state);

        const bool away = !over && m->state <= MEMBER_RUNNING && away_node_is(c->nb, r->node);

        row[k] = (struct status_rank){
            .rank = m->rank,
            .state = stopped              ? "at a breakpoint"
                     : away               ? "away"
                     : receiving || rests ? text[k].state
                     : over               ? last_text(m)
                                          : state_text(m),
            .node = notebook_node_name(c->nb, r->node),
            .pid = r->pid,
            .in_cell_ns = m->state == MEMBER_RUNNING && !receiving
                              ? notebook_now(c->nb) - c->live.began_ns
                              : 0,
        };
        rank_usage_row(c->nb, r, &text[k].gauges, &row[k]);
        if (row[k].suspended && !over && !away && m->state == MEMBER_RUNNING) {
            row[k].state = "suspended"; /* as no rank at a breakpoint is */
            row[k].in_cell_ns = 0;
        }
    }
}

/* name: of the display. A call's first one stays, empty, and the next one is another. */
static void put(struct cell *c, const char *name, struct slice text, struct slice html)
{
    output_mime(c, text, html, name, &c->live.shown);
    request_add_outputs(c->from.request, -1);
}

/* The status is the cell's only output. */
static bool is_alone(const struct cell *c)
{
    return !c->from.is_call && request_outputs(c->from.request) == 0;
}

/* A display can't be removed, but all of a cell's output can; otherwise it gets empty. */
static void withdraw(struct cell *c, const char *name)
{
    if (is_alone(c)) {
        publish(c->nb, c->from.request, "clear_output", slice_text("{\"wait\":false}"));
        request_add_outputs(c->from.request, -1);
        c->live.shown = false;
    } else {
        put(c, name, slice_text(""), slice_text(""));
    }
}

/* Only updates have a text: a terminal such as jupyter console's ignores updates, and would keep
 * showing the first text. */
static void publish_status(struct cell *c, const char *name, const struct status_cell *s)
{
    struct buf text = BUF_INIT, html = BUF_INIT;

    if (status_cell_text(s, &text) < 0 || status_cell_html(s, &html) < 0)
        log_warn("live", "out of memory: the status of a cell is not shown");
    else
        put(c, name, c->live.shown ? buf_slice(&text) : slice_of(NULL, 0), buf_slice(&html));
    buf_release(&text);
    buf_release(&html);
}

/* The local time for users: "2026-11-21 11:00:00"; empty if it is not known. */
static void local_time(const struct clock *clock, char out[static 32])
{
    const time_t now = (time_t)(clock->wall_ns(clock->arg) / NS_PER_S);
    struct tm tm;

    if (!localtime_r(&now, &tm) || strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        out[0] = '\0';
}

/* "ranks 0-2 of 4 are up", with the same as a bar. */
static int ranks_are_up(const struct cell *c, char *text, size_t size, struct status_cell *s)
{
    struct ranks up = RANKS_INIT;
    struct buf list = BUF_INIT;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < c->n; k++)
        if (c->group->rank[c->member[k].rank].state != RANK_STARTING)
            rc = ranks_add(&up, c->member[k].rank);
    s->done = (unsigned)ranks_count(&up);
    s->of = (unsigned)c->n;
    if (rc == 0)
        rc = text_ranks(&up, &list) ? 0 : -1;
    snprintf(text, size, "rank%s %s of %zu %s up", s->done == 1 ? "" : "s", rc == 0 ? list.p : "?",
             c->n, s->done == 1 ? "is" : "are");
    ranks_release(&up);
    buf_release(&list);
    return rc;
}

static bool some_are_up(const struct cell *c, bool *all)
{
    bool some = false;

    *all = true;
    for (size_t k = 0; k < c->n; k++) {
        const bool up = c->group->rank[c->member[k].rank].state != RANK_STARTING;

        some = some || up;
        *all = *all && up;
    }
    return some;
}

/* A slow call of the driver keeps all that ask it waiting. */
static bool awaits_driver(const struct cell *c, char *text, size_t size)
{
    const struct group *g = c->nb->group;
    struct ranks moved = RANKS_INIT;
    struct buf who = BUF_INIT;
    int rc = 0;

    if (c->engine.waits || !c->prep.wants_gpus || !node_gpus_wait(c))
        return false;
    for (unsigned k = 0; rc == 0 && k < g->size; k++)
        if (parking_moves(g->rank[k].parking))
            rc = ranks_add(&moved, k);
    if (rc == 0 && ranks_count(&moved) && ranks_format_words(&moved, &who) == 0)
        snprintf(text, size, "waiting for the GPU driver, which moves %s", who.p);
    else
        snprintf(text, size, "waiting for the GPU driver");
    ranks_release(&moved);
    buf_release(&who);
    return true;
}

/* What is done before ranks run the cell. The first ranks are forked when their zygote has imported
 * what they share. */
static void describe_preparation(const struct cell *c, char *text, size_t size,
                                 struct status_cell *s)
{
    bool all;

    if (gpu_wait_describe(c, text, size) || awaits_driver(c, text, size)) {
        s->doing = text;
        return;
    }
    if (c->engine.waits || !c->n) {
        snprintf(text, size,
                 c->engine.waits == CELL_WAITS_FOR_PARKED ? "waiting for parked ranks"
                 : c->engine.waits                        ? "waiting for machines"
                                                          : "preparing");
    } else if (!some_are_up(c, &all)) {
        snprintf(text, size, c->nb->home.warmed ? "importing torch" : "starting Python");
    } else if (!all) {
        (void)ranks_are_up(c, text, size, s);
    } else if (c->send.bundles.n) {
        snprintf(text, size, "packing variables");
    } else {
        snprintf(text, size, "looking for variables");
    }
    s->doing = text;
}

static bool is_first_on_node(const struct cell *c, size_t at)
{
    const struct rank *of = c->group->rank;

    for (size_t k = at; k-- > 0;) /* ranks of a node are mostly neighbours */
        if (of[c->member[k].rank].node == of[c->member[at].rank].node)
            return false;
    return true;
}

/* Variables that are on their way to nodes of the cell: what all of these get together. Nodes that
 * have them already count until the others have them, too. */
static bool is_sending(const struct cell *c, struct status_cell *s)
{
    uint64_t left = 0;

    s->bytes = s->had = 0;
    for (size_t k = 0; k < c->n; k++) {
        const unsigned node = c->group->rank[c->member[k].rank].node;
        uint64_t had, whole, bytes;

        if (!is_first_on_node(c, k))
            continue;
        bytes = c->nb->ops.expected(c->nb->ops.arg, node, &had, &whole);
        left += bytes;
        s->bytes += bytes + whole;
        s->had = s->had == UINT64_MAX || had == UINT64_MAX ? UINT64_MAX : s->had + had + whole;
    }
    if (!left)
        s->bytes = 0;
    return left > 0;
}

/* The same as a bar, in MiB. */
static void describe_sending(const struct cell *c, char *text, size_t size, struct status_cell *s)
{
    uint64_t files;
    const char *package = finds_package(c->nb, &files);

    if (package) {
        snprintf(text, size, "sending %" PRIu64 " files of %s", files, package);
        s->doing = text;
    } else if (is_sending(c, s)) {
        s->doing = "sending data";
        s->done = s->had == UINT64_MAX ? 0 : (unsigned)MIB_OF(s->had);
        s->of = s->had == UINT64_MAX ? 0 : (unsigned)MIB_OF(s->bytes);
    } else if (c->plan.kind == PLAN_PUSH) {
        s->doing = "loading variables";
    }
}

/* How long the job still lasts that has the machines of the cell's ranks. It is shown from the
 * cell's tenth minute on, and in the job's last ten minutes. */
static uint64_t time_left(const struct cell *c, uint64_t elapsed_ns)
{
    const uint64_t now = notebook_now(c->nb);
    uint64_t left = NEVER;

    for (size_t k = 0; k < c->n; k++) {
        const struct node *node = c->nb->ops.node(c->nb->ops.arg,
                                                  c->group->rank[c->member[k].rank].node);

        if (node && node->ends_ns > now && node->ends_ns - now < left)
            left = node->ends_ns - now;
    }
    return left != NEVER && (left <= ENDS_NS || elapsed_ns >= ENDS_NS) ? left : 0;
}

static void show(struct cell *c, bool over)
{
    struct row_text *text = calloc(c->n + 1, sizeof *text);
    struct status_rank *row = calloc(c->n + 1, sizeof *row);
    char clock[32], doing[128] = "";
    struct status_cell s = { .rows = row,
                             .n = c->n,
                             .elapsed_ns = notebook_now(c->nb) - (c->live.began_ns
                                                                      ? c->live.began_ns
                                                                      : c->live.opened_ns),
                             .as_of = clock,
                             .over = over };

    local_time(c->nb->ops.clock, clock);
    s.left_ns = time_left(c, s.elapsed_ns);
    s.counts = exchange_counts(c, &s.count);
    if (!over && c->now.step->phase == CELL_BEFORE)
        describe_preparation(c, doing, sizeof doing, &s);
    else if (!over)
        describe_sending(c, doing, sizeof doing, &s);
    if (text && row) {
        fill(c, over, text, row);
        publish_status(c, STATUS, &s);
    } else {
        log_warn("live", "out of memory: the status of a cell is not shown");
    }
    free(row);
    free(text);
}

/* Asks the nodes once, and again every GAUGES_NS if they have GPUs, whose use changes. */
static void poll_gauges(struct cell *c, uint64_t now)
{
    if (c->live.gauges_ns &&
        (now < c->live.gauges_ns || (!rank_usage_have_gpus(c->nb) && !rank_usage_wait(c->nb))))
        return;
    c->live.gauges_ns = now + GAUGES_NS;
    rank_usage_ask(c->nb);
}

uint64_t live_due(const struct cell *c)
{
    return c->live.due_ns;
}

void live_tick(struct cell *c, uint64_t now)
{
    if (now < c->live.due_ns)
        return;
    if (cell_runs(c))
        poll_gauges(c, now);
    show(c, false);
    c->live.due_ns = now + EVERY_NS;
}

/* A status of the preparation alone is gone when ranks begin, so that a cell that they run in a
 * short time keeps none. If variables are on their way, it goes on. */
void live_begin(struct cell *c)
{
    const uint64_t now = notebook_now(c->nb);
    struct status_cell s = { .n = 0 };

    c->live.began_ns = now;
    if (c->live.due_ns != NEVER && c->send.bundles.n && is_sending(c, &s)) {
        if (c->live.due_ns < now)
            c->live.due_ns = now;
    } else if (c->live.shown && is_alone(c)) {
        withdraw(c, STATUS);
        c->live.due_ns = now + AFTER_NS;
    } else if (!c->live.shown && c->live.due_ns != NEVER) {
        c->live.due_ns = now + AFTER_NS;
    }
}

void live_end(struct cell *c)
{
    if (c->live.shown && c->live.began_ns && c->plan.kind != PLAN_PUSH &&
        notebook_now(c->nb) - c->live.began_ns >= AFTER_NS)
        show(c, true);
    else if (c->live.shown)
        withdraw(c, STATUS);
    live_cleared(c);
}

/* ---- a cell that can't begin yet ---- */

void live_wait(struct cell *c)
{
    c->live.opened_ns = notebook_now(c->nb);
    if (can_be_shown(c))
        c->live.due_ns = c->live.opened_ns + AFTER_NS;
}

void live_waits_for(struct cell *c, const char *what)
{
    const uint64_t now = notebook_now(c->nb);
    char clock[32];
    const struct status_cell s = { .doing = what,
                                   .elapsed_ns = now - c->live.opened_ns,
                                   .as_of = clock };

    local_time(c->nb->ops.clock, clock);
    publish_status(c, WAITS, &s);
    c->live.due_ns = now + EVERY_NS;
}

void live_wait_over(struct cell *c)
{
    if (c->live.shown)
        withdraw(c, WAITS);
    live_cleared(c);
}
