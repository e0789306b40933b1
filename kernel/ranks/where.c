/* SPDX-License-Identifier: BSD-3-Clause */
/* %ranks where: shows the Python stack of each rank, and equal stacks once. If another cell runs on
 * ranks, it is answered at once, without waiting in the queue. Otherwise it is a normal cell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/error_text.h"
#include "kernel/ranks/ranks.h"

/* agents answer for a silent rank after 2 s, and for NCCL after 3 s */
#define WAIT_NS    (4 * NS_PER_S)
#define FRAMES_MAX 32u
#define TEXT_MAX   (256u << 10) /* bytes of the whole answer */

struct where_rank {
    unsigned rank;
    uint32_t worker;
    bool of_script;
    bool waiting;
    char *text; /* owned: its stack, or NULL */
};

struct where {
    struct where *next;
    uint64_t id;       /* its number in STACKS */
    uint64_t cell;     /* the number of its cell; 0: it does not wait in the queue */
    struct request *r; /* owned reference: then, the request to answer; else NULL */
    unsigned count;
    uint64_t due_ns;
    struct where_rank *rank; /* owned, n of them, by rank */
    size_t n, waiting;
};

static void where_free(struct where *w)
{
    for (size_t k = 0; w && k < w->n; k++)
        free(w->rank[k].text);
    if (w) {
        free(w->rank);
        request_unref(w->r);
    }
    free(w);
}

/* ---- stacks ---- */

/* The frames of the main thread, down to the user's cell, function or script; the frames below are
 * the worker's. The innermost one is always there: the function may be in C. */
static size_t frames_of(const char *stack, struct slice *frame)
{
    struct slice text = slice_text(error_main_thread(stack));
    size_t n = 0;

    (void)slice_line(&text);
    while (text.n && n < FRAMES_MAX) {
        const struct slice line = slice_line(&text);

        if (!slice_holds(line, "  File \"") || (n && error_calls_user(line)))
            break;
        if (!error_in_debugger(line))
            frame[n++] = line;
        if (error_in_cell(line) && slice_holds(line, " in <module>"))
            break;
    }
    while (n > 1 && error_in_runpy(frame[n - 1]))
        n--;
    return n;
}

/* If a node's agent could ask NCCL, one of its stacks ends with the progress of the ranks of each
 * communicator. All nodes report the same, so each line is added once. */
static int add_nccl(const char *stack, struct buf *out)
{
    static const char says[] = "\nNCCL says:\n";
    const char *at = strstr(stack, says);
    struct slice text = slice_text(at ? at + sizeof says - 1 : "");
    int rc = 0;

    while (rc == 0 && text.n) {
        const struct slice line = slice_line(&text);
        struct buf whole = BUF_INIT;

        rc = buf_addf(&whole, "%.*s\n", SLICE_ARG(line));
        if (rc == 0 && line.n && !(out->p && strstr(out->p, whole.p)))
            rc = buf_add_slice(out, buf_slice(&whole));
        buf_release(&whole);
    }
    return rc;
}

/* Adds "all_reduce (distributed_c10d.py:2810), called in line 5 of cell 3" and the frames. */
static int describe_stack(const char *stack, struct buf *out)
{
    struct slice frame[FRAMES_MAX], whole = slice_text(stack);
    const size_t n = stack[0] == '(' ? 0 : frames_of(stack, frame);
    int rc = 0;

    if (n == 0) {
        return buf_add_slice(out, slice_line(&whole)) < 0 ? -1 : buf_add_text(out, "\n");
    }
    if (error_place(stack, out) < 0 || buf_add_text(out, "\n") < 0)
        return -1;
    for (size_t k = 0; rc == 0 && k < n && !error_calls_user(frame[k]); k++)
        rc = buf_addf(out, "    %.*s\n", SLICE_ARG(frame[k]));
    return rc;
}

/* NULL: it was a rank of a script that has ended. */
static const struct rank *rank_of(const struct notebook *nb, const struct where_rank *s)
{
    const struct rank *r = notebook_rank(nb, s->worker, NULL);

    if (r)
        return r;
    return !s->of_script && s->rank < nb->group->size ? &nb->group->rank[s->rank] : NULL;
}

static int describe(const struct notebook *nb, const struct where_rank *s, struct buf *out)
{
    const struct rank *r = rank_of(nb, s);

    if (s->text)
        return describe_stack(s->text, out);
    if (!r)
        return buf_addf(out, "ended\n");
    if (s->waiting)
        return buf_addf(out, "no answer from its node (%s)\n", notebook_node_name(nb, r->node));
    return buf_addf(out, "%s\n", rank_state_text(r->state));
}

/* ---- the answer ---- */

/* Adds the ranks whose text equals text[first], and the text; sets their `shown`. */
static int add_alike(struct buf *text, size_t first, size_t n, bool *shown,
                     const struct where_rank *rank, struct buf *out)
{
    struct ranks same = RANKS_INIT;
    int rc = 0;

    for (size_t k = first; rc == 0 && k < n; k++)
        if (!shown[k] && slice_equal(buf_slice(&text[k]), buf_slice(&text[first]))) {
            shown[k] = true;
            rc = ranks_add(&same, rank[k].rank);
        }
    rc = rc < 0 ? rc : buf_add_text(out, "[");
    rc = rc < 0 ? rc : ranks_format(&same, out);
    rc = rc < 0 ? rc : buf_addf(out, "] %s", text[first].p);
    ranks_release(&same);
    return rc;
}

static int compose(const struct notebook *nb, const struct where *w, struct buf *out)
{
    struct buf *text = calloc(w->n + 1, sizeof *text);
    bool *shown = calloc(w->n + 1, sizeof *shown);
    struct buf nccl = BUF_INIT;
    size_t left = 0;
    int rc = text && shown ? 0 : -1;

    for (size_t k = 0; rc == 0 && k < w->n; k++)
        rc = describe(nb, &w->rank[k], &text[k]) < 0 ||
                     (w->rank[k].text && add_nccl(w->rank[k].text, &nccl) < 0)
                 ? -1
                 : 0;
    for (size_t k = 0; rc == 0 && k < w->n; k++) {
        if (shown[k])
            continue;
        if (out->n < TEXT_MAX)
            rc = add_alike(text, k, w->n, shown, w->rank, out);
        else
            left++;
    }
    if (rc == 0 && left)
        rc = buf_addf(out, "(and %zu ranks more: %%ranks where -r asks for some)\n", left);
    if (rc == 0)
        rc = buf_add_slice(out, buf_slice(&nccl));
    buf_release(&nccl);
    if (rc == 0 && w->n == 0)
        rc = buf_add_text(out, "there are no ranks\n");
    for (size_t k = 0; text && k < w->n; k++)
        buf_release(&text[k]);
    free(text);
    free(shown);
    return rc;
}

void ranks_answer(struct notebook *nb, struct request *r, unsigned count, const char *ename,
                  const char *evalue)
{
    const bool aborts = ename && request_flag(r, "stop_on_error", true);
    const size_t before = queue_of(nb, r)->n;
    json_t *content = json_pack("{s:s, s:i, s:{}, s:[]}", "status", ename ? "error" : "ok",
                                "execution_count", (int)count, "user_expressions", "payload");

    if (ename) {
        json_t *error = text_error(ename, slice_text(evalue));

        json_object_update(content, error);
        if (request_flag(r, "silent", false))
            json_decref(error);
        else
            publish_json(nb, r, "error", error);
    }
    if (aborts)
        queue_drain_shell(nb);
    reply_json(nb, r, "execute_reply", content);
    nb->ops.status(nb->ops.arg, r, "idle");
    if (aborts)
        queue_abort_after(nb, r, before);
}

static void where_end(struct notebook *nb, struct where *w)
{
    struct cell *c = w->cell ? cell_find(nb, w->cell) : NULL;
    struct buf text = BUF_INIT;

    if (compose(nb, w, &text) < 0)
        log_error("where", "out of memory: no stacks are shown");
    else if (w->r || (c && cell_is_shown(c)))
        publish_stream(nb, w->r ? w->r : c->from.request, 1, buf_slice(&text));
    buf_release(&text);
    if (w->r)
        ranks_answer(nb, w->r, w->count, NULL, NULL);
    where_free(w);
}

/* Shows and ends the requests that have all answers, or whose time is over. */
void where_tick(struct notebook *nb)
{
    const uint64_t now = notebook_now(nb);

    for (struct where **at = &nb->immediate.where; *at;) {
        struct where *w = *at;

        if (w->waiting && now < w->due_ns) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        where_end(nb, w);
    }
}

uint64_t where_due(const struct notebook *nb)
{
    uint64_t due = NEVER;

    for (const struct where *w = nb->immediate.where; w; w = w->next)
        if (w->due_ns < due)
            due = w->due_ns;
    return due;
}

void where_release(struct notebook *nb)
{
    while (nb->immediate.where) {
        struct where *w = nb->immediate.where;

        nb->immediate.where = w->next;
        where_free(w);
    }
}

/* ---- the question ---- */

/* Asks the ranks that run a cell; the state of the others is known. */
static void ask(struct notebook *nb, struct where *w)
{
    const struct span m = { .kind = SPAN_STACKS, .cell = w->id };
    struct ranks busy = RANKS_INIT;

    for (size_t k = 0; k < w->n; k++) {
        const struct rank *r = rank_of(nb, &w->rank[k]);

        if (!r || r->state != RANK_BUSY || ranks_add(&busy, r->number) < 0)
            continue;
        w->rank[k].waiting = true;
        w->waiting++;
    }
    if (notebook_send_ranks(nb, notebook_shown(nb), rank_in_set, &busy, &m, NULL) < 0)
        w->waiting = 0;
    ranks_release(&busy);
}

/* spec: the ranks, or NULL for all. NULL: *err has the reason. */
static struct where *where_create(struct notebook *nb, const char *spec, struct err *err)
{
    struct where *w = calloc(1, sizeof *w);
    const struct group *g = notebook_shown(nb);
    const unsigned size = group_listed(g);
    struct ranks which = RANKS_INIT;
    int rc = w ? 0 : err_set(err, "out of memory");

    if (rc == 0 && spec && !size)
        rc = err_set(err, NO_RANKS_YET);
    else if (rc == 0 && spec)
        rc = ranks_parse(&which, spec, size, err);
    else if (rc == 0 && size && ranks_add_range(&which, 0, size - 1) < 0)
        rc = err_set(err, "out of memory");
    if (rc == 0 && !(w->rank = calloc(ranks_count(&which) + 1, sizeof *w->rank)))
        rc = err_set(err, "out of memory");
    for (long k = ranks_next(&which, 0); rc == 0 && k >= 0; k = ranks_next(&which, (unsigned)k + 1))
        w->rank[w->n++] = (struct where_rank){ .rank = (unsigned)k,
                                               .of_script = g != nb->group,
                                               .worker = g->rank[k].worker };
    ranks_release(&which);
    if (rc == 0) {
        w->id = notebook_next_cell(nb);
        w->due_ns = notebook_now(nb) + WAIT_NS;
        return w;
    }
    where_free(w);
    return NULL;
}

static void where_start(struct notebook *nb, struct where *w)
{
    ask(nb, w);
    w->next = nb->immediate.where;
    nb->immediate.where = w;
    where_tick(nb);
}

static void where_begin(struct cell *c)
{
    struct err err = { "" };
    struct where *w = where_create(c->nb, c->plan.ranks, &err);

    if (!w) {
        cell_fail(c, "UsageError", "%s", err.text);
        return;
    }
    w->cell = c->id;
    where_start(c->nb, w);
}

static enum cell_outcome where_poll(struct cell *c)
{
    for (const struct where *w = c->nb->immediate.where; w; w = w->next)
        if (w->cell == c->id)
            return CELL_STAYS;
    return CELL_DONE;
}

static void answer_beside(struct notebook *nb, struct request *r, const char *spec,
                          struct slice code)
{
    const bool silent = json_is_true(json_object_get(request_content(r), "silent"));
    const bool store = !silent &&
                       !json_is_false(json_object_get(request_content(r), "store_history"));
    struct err err = { "" };
    struct where *w = where_create(nb, spec, &err);

    nb->count += store;
    notebook_announce(nb, r, nb->count);
    if (!w) {
        ranks_answer(nb, r, nb->count, "UsageError", err.text);
        return;
    }
    w->count = nb->count;
    w->r = request_ref(r);
    if (store)
        notebook_record(nb, w->id, w->count, code);
    where_start(nb, w);
}

bool where_request(struct notebook *nb, struct request *r)
{
    const struct slice code = text_slice(request_content(r), "code");
    struct plan plan;

    if (!nb->cells || nb->queue.aborting || !plan_is_ranks(code, PLAN_RANKS_WHERE, &plan))
        return false;
    answer_beside(nb, r, plan.ranks, code);
    plan_release(&plan);
    return true;
}

bool where_on_stack(struct notebook *nb, uint32_t worker, const struct span *m)
{
    struct where *w = nb->immediate.where;

    while (w && w->id != m->cell)
        w = w->next;
    for (size_t k = 0; w && k < w->n; k++) {
        struct where_rank *s = &w->rank[k];

        if (s->worker != worker || !s->waiting)
            continue;
        s->waiting = false;
        s->text = slice_copy(m->v[F_STACK_TEXT].s);
        w->waiting--;
    }
    if (w)
        where_tick(nb);
    return w != NULL;
}

const struct cell_step cell_where = { CELL_BEFORE, .begin = where_begin, .poll = where_poll };
