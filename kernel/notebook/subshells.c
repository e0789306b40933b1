/* SPDX-License-Identifier: BSD-3-Clause */
/* Subshells (JEP 91): clients make them, delete them and list them, on control. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/notebook/notebook.h"

static struct subshell *find(const struct notebook *nb, const char *id)
{
    struct subshell *s = nb->home.subshells.first;

    while (s && (s->deleted || strcmp(s->id, id) != 0))
        s = s->next;
    return s;
}

/* An answer that needs nothing of home; takes content. */
static void answer(struct notebook *nb, struct request *r, const char *type, json_t *content)
{
    nb->ops.status(nb->ops.arg, r, "busy");
    reply_json(nb, r, type, content);
    nb->ops.status(nb->ops.arg, r, "idle");
}

static json_t *out_of_memory(void)
{
    return json_pack("{s:s, s:s, s:s, s:[s]}", "status", "error", "ename", "MemoryError", "evalue",
                     "the kernel is out of memory", "traceback",
                     "MemoryError: the kernel is out of memory");
}

/* As ipykernel names it, so that clients know it. Only the reply has the advice: ipykernel
 * publishes no error of such a cell, and its test suite expects that. */
static json_t *unknown(const char *id)
{
    const char *advice = "there is no such subshell any more: create another, or run the cell "
                         "without";

    return json_pack("{s:s, s:s, s:o, s:[o, s]}", "status", "error", "ename",
                     "UnknownSubshellError", "evalue", json_sprintf("Unknown subshell_id '%s'", id),
                     "traceback",
                     json_sprintf("UnknownSubshellError: Unknown subshell_id '%s'", id), advice);
}

/* Requests of its that home still answers are of no shell then. */
static void let_go(struct notebook *nb, struct subshell *s)
{
    struct subshell **at = &nb->home.subshells.first;

    for (struct asked *a = nb->home.asked; a; a = a->next)
        if (a->subshell == s)
            a->subshell = NULL;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    queue_release(&s->queue);
    subshell_text_release(s);
    free(s);
}

/* Ids are not used again in another kernel, so that a client's old one means nothing here. */
static struct subshell *add(struct notebook *nb)
{
    struct subshell *s = calloc(1, sizeof *s), **at = &nb->home.subshells.first;

    if (!s)
        return NULL;
    s->nb = nb;
    snprintf(s->id, sizeof s->id, "%.40s-%u", nb->config.run_id, ++nb->home.subshells.made);
    while (*at)
        at = &(*at)->next;
    *at = s;
    return s;
}

void subshells_create(struct notebook *nb, struct request *r)
{
    struct subshell *s = add(nb);
    struct buf content = BUF_INIT;

    if (s && buf_addf(&content, "{\"status\":\"ok\",\"subshell_id\":\"%s\"}", s->id) == 0) {
        home_ask_subshell(nb, s, r, buf_slice(&content));
    } else {
        if (s)
            let_go(nb, s);
        answer(nb, r, "create_subshell_reply", out_of_memory());
    }
    buf_release(&content);
}

/* To its thread. A home that is gone is not started for this. */
static void tell(struct notebook *nb, const struct subshell *s, const char *type, uint64_t cell)
{
    struct span m = { .kind = SPAN_SUBSHELL, .worker = SPAN_WORKER_HOME, .cell = cell };

    if (nb->agent_gone || nb->home.state == HOME_BROKEN)
        return;
    m.v[F_SUBSHELL_TYPE].s = slice_text(type);
    m.v[F_SUBSHELL_CONTENT].s = slice_text("{}");
    m.v[F_SUBSHELL_ID].s = slice_text(s->id);
    notebook_send(nb, SPAN_WORKER_HOME, &m);
}

void subshells_create_again(struct notebook *nb)
{
    for (const struct subshell *s = nb->home.subshells.first; s; s = s->next)
        if (!s->deleted)
            tell(nb, s, "create_subshell_request", 0);
}

/* The reply to the deletion of an idle one comes when its thread has ended. */
void subshells_delete(struct notebook *nb, struct request *r)
{
    struct subshell *s = find(nb, text_field(request_content(r), "subshell_id"));
    const struct slice done = slice_text("{\"status\":\"ok\"}");

    if (!s) {
        answer(nb, r, "delete_subshell_reply",
               unknown(text_field(request_content(r), "subshell_id")));
        return;
    }
    s->deleted = true;
    queue_abort(nb, &s->queue);
    if (s->executing || nb->home.state != HOME_READY) {
        tell(nb, s, "delete_subshell_request", 0);
        answer(nb, r, "delete_subshell_reply", text_parse(done));
    } else {
        home_ask_subshell(nb, s, r, done);
    }
    subshells_sweep(nb);
}

void subshells_list(struct notebook *nb, struct request *r)
{
    json_t *ids = json_array();

    for (const struct subshell *s = nb->home.subshells.first; s; s = s->next)
        if (!s->deleted)
            json_array_append_new(ids, json_string(s->id));
    answer(nb, r, "list_subshell_reply",
           json_pack("{s:s, s:o}", "status", "ok", "subshell_id", ids));
}

void subshells_refuse(struct notebook *nb, struct request *r)
{
    char type[64];

    nb->ops.status(nb->ops.arg, r, "busy");
    if (home_reply_type(request_type(r), type))
        reply_json(nb, r, type, unknown(request_subshell(r)));
    nb->ops.status(nb->ops.arg, r, "idle");
}

void subshells_interrupt(struct notebook *nb)
{
    for (const struct subshell *s = nb->home.subshells.first; s; s = s->next)
        if (s->executing)
            tell(nb, s, "interrupt_request", s->executing->cell);
}

/* While the shell is drained, the cell that ends still looks at its subshell. */
void subshells_sweep(struct notebook *nb)
{
    if (nb->queue.aborting)
        return;
    for (struct subshell *s = nb->home.subshells.first, *next; s; s = next) {
        next = s->next;
        if (s->deleted && !s->executing)
            let_go(nb, s);
    }
}

bool subshells_run(const struct notebook *nb)
{
    for (const struct subshell *s = nb->home.subshells.first; s; s = s->next)
        if (s->executing)
            return true;
    return false;
}

void subshells_release(struct notebook *nb)
{
    while (nb->home.subshells.first)
        let_go(nb, nb->home.subshells.first);
}
