/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions for all steps of a cell: its failure, its members, messages whose answer it needs. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rows.h"
#include "kernel/cell/cell.h"

struct cell *cell_find(const struct notebook *nb, uint64_t id)
{
    CELLS_EACH (c, nb)
        if (c->id == id)
            return c;
    return NULL;
}

struct cell *cell_of_client(const struct notebook *nb)
{
    CELLS_EACH (c, nb)
        if (!c->from.is_call)
            return c;
    return NULL;
}

struct cell *cell_on(const struct notebook *nb, uint32_t worker)
{
    CELLS_EACH (c, nb)
        if (cell_worker(c, worker))
            return c;
    return NULL;
}

void cell_append(struct cell **list, struct cell *c)
{
    while (*list)
        list = &(*list)->from.next;
    *list = c;
}

struct cell *cell_take_out(struct cell **at)
{
    struct cell *c = *at;

    *at = c->from.next;
    c->from.next = NULL;
    return c;
}

void cell_release_members(struct cell *c)
{
    for (size_t k = 0; k < c->n; k++) {
        json_decref(c->member[k].error);
        json_decref(c->member[k].result);
        free(c->member[k].note);
        free(c->member[k].value);
        free(c->member[k].stack);
    }
    free(c->member);
    c->member = NULL;
    c->n = 0;
}

int cell_fail(struct cell *c, const char *ename, const char *format, ...)
{
    struct buf text = BUF_INIT;
    va_list args;
    int rc;

    va_start(args, format);
    rc = buf_addv(&text, format, args);
    va_end(args);
    if (rc == 0)
        text_trim(text.p);
    cell_fail_in_words(c, ename, "", slice_text(rc == 0 ? text.p : "out of memory"));
    buf_release(&text);
    return -1;
}

void cell_fail_in_words(struct cell *c, const char *ename, const char *head, struct slice text)
{
    json_t *evalue = c->fault.whole ? NULL : text_joined(head, text);

    c->bad = true;
    if (evalue)
        c->fault.whole = text_error(ename, text_of(evalue));
    json_decref(evalue);
}

int cell_send(struct cell *c, const uint32_t *workers, size_t n, const struct span *m)
{
    struct err err = { "" };

    return notebook_send_to(c->nb, workers, n, m, &err) == 0
               ? 0
               : cell_fail(c, "RuntimeError", "%s", err.text);
}

int cell_send_node(struct cell *c, unsigned node, const struct span *m)
{
    struct err err = { "" };

    return notebook_send_node(c->nb, node, m, &err) == 0
               ? 0
               : cell_fail(c, "RuntimeError", "%s", err.text);
}

int cell_send_home(struct cell *c, const struct span *m)
{
    const uint32_t home = SPAN_WORKER_HOME;

    return cell_send(c, &home, 1, m);
}

int cell_ask_home(struct cell *c, const char *type, json_t *content, uint64_t flags)
{
    struct span m = { .kind = SPAN_REQUEST, .worker = SPAN_WORKER_HOME, .cell = c->id };
    struct buf text = BUF_INIT;
    int rc = text_json(&text, content);

    m.v[F_REQUEST_TYPE].s = slice_text(type);
    m.v[F_REQUEST_CONTENT].s = buf_slice(&text);
    m.v[F_REQUEST_HEADER].s = m.v[F_REQUEST_METADATA].s = slice_text("{}");
    m.v[F_REQUEST_COUNT].u64 = c->from.count;
    m.v[F_REQUEST_FLAGS].u64 = flags;
    rc = rc < 0 ? cell_fail(c, "RuntimeError", "out of memory") : cell_send_home(c, &m);
    buf_release(&text);
    return rc;
}

void cell_show_mime(struct cell *c, struct slice text, struct slice html, const char *name,
                    bool *shown)
{
    struct buf content = BUF_INIT;
    char id[128];

    if (name)
        snprintf(id, sizeof id, "cellspan-%s-%s-%" PRIu64, name, c->nb->config.run_id, c->id);
    if (jupyter_display(&content, text, html, name ? id : NULL) < 0) {
        log_error("output", "a display is lost: out of memory");
    } else {
        publish(c->nb, c->from.request, shown && *shown ? "update_display_data" : "display_data",
                buf_slice(&content));
        if (shown)
            *shown = true;
    }
    buf_release(&content);
}

bool cell_is_shown(const struct cell *c)
{
    return !c->from.is_call || (c->from.call_flags & CALL_SHOWN);
}

bool cell_is_published(const struct cell *c)
{
    return !c->from.is_call && !request_flag(c->from.request, "silent", false);
}

bool cell_is_stored(const struct cell *c)
{
    return cell_is_published(c) && request_flag(c->from.request, "store_history", true);
}

/* A client of jupyter_client puts its process's number into the ids of its messages:
 * SESSION_PID_NUMBER. A page's ids are other ones. */
bool cell_is_redrawn(const struct cell *c)
{
    char mark[32];

    if (!c->nb->output_limit || !c->from.request)
        return true;
    snprintf(mark, sizeof mark, "_%ld_", output_limit_server(c->nb->output_limit));
    return !strstr(request_id(c->from.request), mark);
}

bool cell_is_of_console(const struct cell *c)
{
    return c->from.request && request_is_of_python(c->from.request) &&
           request_flag(c->from.request, "allow_stdin", true);
}

bool cell_is_piped(const struct cell *c)
{
    return !c->from.is_call && request_flag(c->from.request, "cellspan_stdin", false);
}

/* The value of a magic in the middle of a cell is wanted too: home shows and keeps it. */
bool cell_wants_value(const struct cell *c)
{
    return !c->from.is_call || (c->from.call_flags & CALL_VALUE) || c->plan.into || c->plan.gather;
}

bool cell_is_function(const struct cell *c)
{
    return c->from.is_call && (c->from.call_flags & CALL_FUNCTION);
}

bool cell_is_of_thread(const struct cell *c)
{
    return cell_is_function(c) && (c->from.call_flags & CALL_ASYNC) && c->world > 1;
}

int cell_send_ranks(struct cell *c, const struct ranks *to, const struct span *m)
{
    struct err err = { "" };

    return notebook_send_ranks(c->nb, c->group, rank_in_set, to, m, &err) == 0
               ? 0
               : cell_fail(c, "RuntimeError", "%s", err.text);
}

void cell_interrupt(struct cell *c, const struct ranks *which)
{
    RANKS_EACH (k, which) {
        const struct rank *r = &c->group->rank[k];
        const struct span m = { .kind = SPAN_INTERRUPT, .worker = r->worker, .cell = c->id };

        if (r->worker && rank_alive(r))
            notebook_send(c->nb, r->worker, &m);
    }
}

static bool is_running(const struct rank *r, const void *cell)
{
    const struct member *m = cell_worker(cell, r->worker);

    return m && m->state == MEMBER_RUNNING;
}

void cell_send_running(struct cell *c, const struct span *m)
{
    (void)notebook_send_ranks(c->nb, c->group, is_running, c, m, NULL);
}

bool cell_member_lives(const struct cell *c, const struct member *m)
{
    return m->state != MEMBER_DEAD && m->state != MEMBER_REPLACED &&
           rank_alive(&c->group->rank[m->rank]);
}

static bool lives(const struct rank *r, const void *cell)
{
    const struct member *m = cell_worker(cell, r->worker);

    return m && cell_member_lives(cell, m);
}

void cell_send_living(struct cell *c, const struct span *m)
{
    (void)notebook_send_ranks(c->nb, c->group, lives, c, m, NULL);
}

static uint64_t rank_of(const void *members, size_t i)
{
    return ((const struct member *)members)[i].rank;
}

/* Members are in the order of their ranks. */
struct member *cell_member(const struct cell *c, unsigned rank)
{
    const size_t at = rows_place(c->member, c->n, rank_of, rank);

    return at < c->n && c->member[at].rank == rank ? &c->member[at] : NULL;
}

struct member *cell_worker(const struct cell *c, uint32_t worker)
{
    const struct rank *r = group_worker(c->group, worker);
    struct member *member = r ? cell_member(c, r->number) : NULL;

    return member && member->worker == worker ? member : NULL;
}

int cell_members(struct cell *c)
{
    cell_release_members(c);
    if (!(c->member = calloc(ranks_count(&c->to) + 1, sizeof *c->member)))
        return -1;
    RANKS_EACH (k, &c->to)
        c->member[c->n++] = (struct member){ .rank = (unsigned)k,
                                             .worker = c->group->rank[k].worker };
    return 0;
}

bool cell_some_member(struct cell *c, bool (*is)(const struct cell *, const struct member *))
{
    for (size_t k = 0; k < c->n; k++, c->at++) {
        if (c->at >= c->n)
            c->at = 0;
        if (is(c, &c->member[c->at]))
            return true;
    }
    return false;
}

static bool is_unfinished(const struct cell *c, const struct member *m)
{
    (void)c;
    return m->state <= MEMBER_RUNNING;
}

bool cell_unfinished(struct cell *c)
{
    return cell_some_member(c, is_unfinished);
}

void cell_limit_step(struct cell *c, uint64_t due_ns)
{
    c->now.due_ns = due_ns;
}

bool cell_is_over(const struct cell *c)
{
    return !c->now.step->poll;
}

bool cell_runs(const struct cell *c)
{
    return c->now.step->phase == CELL_RUNS;
}

int cell_parse_ranks(const struct cell *c, unsigned n, struct ranks *which, struct err *err)
{
    const bool there = !cell_own_group(c) && c->nb->group->asked == n;

    return ranks_parse_world(which, c->plan.ranks, n, there, err);
}

bool cell_lingers(const struct cell *c)
{
    for (unsigned k = 0; cell_own_group(c) && k < cell_own_group(c)->size; k++)
        if (cell_own_group(c)->rank[k].worker)
            return true;
    return false;
}
