/* SPDX-License-Identifier: BSD-3-Clause */
/* awaited.c - the status of what can't begin because of calls that run: a client's cell, and a call
 * for which a cell waits (declared in private.h). A cell that waits behind another cell of its
 * client has no such status. Nor has a call of a thread: there may be many of them, and their cell
 * may be over. */
#include <string.h>

#include "kernel/dispatch/private.h"
#include "kernel/status/status.h"

#define NAME_MAX_SHOWN 64u /* bytes of a function's name */

/* ---- what it waits for ---- */

static bool is_in_a_name(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           ch == '_' || ch == '<' || ch == '>' || (unsigned char)ch >= 0x80;
}

/* Python ends the text of a call with "f()". n is 0 if there is no such name. */
static struct slice name_of_function(const struct cell *c)
{
    const char *end = c->from.text + c->from.text_size, *from;

    if (!cell_is_function(c) || c->from.text_size < 3 || end[-2] != '(' || end[-1] != ')')
        return slice_of(NULL, 0);
    for (from = end - 2; from > c->from.text && is_in_a_name(from[-1]);)
        from--;
    return slice_of(from, (size_t)(end - from) > NAME_MAX_SHOWN ? 0 : (size_t)(end - from));
}

/* "the call f() of a thread", "%push" */
static int add_call(const struct cell *c, struct buf *out)
{
    const struct slice name = name_of_function(c);
    struct status_count count;
    int rc;

    if (!cell_is_function(c))
        return buf_add(out, c->from.text, strcspn(c->from.text, " \n"));
    if (exchange_counts(c, &count))
        rc = buf_add_text(out, "the call cellspan.map()");
    else if (name.n > 2)
        rc = buf_addf(out, "the call %.*s", (int)name.n, name.p);
    else
        rc = buf_add_text(out, "a call");
    return rc < 0 || !(c->from.call_flags & CALL_ASYNC) ? rc : buf_add_text(out, " of a thread");
}

static int add_cell(const struct cell *c, struct buf *out)
{
    const struct asked *at_home = c->nb->home.executing;
    const bool of_cell = at_home && at_home->cell == c->from.asker;

    if (async_is_of_subshell(c))
        return buf_addf(out, "In [%u] of a subshell", c->from.count);
    if (!c->from.is_call || (of_cell && !(c->from.call_flags & CALL_ASYNC)))
        return buf_addf(out, "In [%u]", c->from.count);
    return add_call(c, out);
}

/* "waiting for the call f() of a thread on ranks 0-3, and 2 more" */
static int describe(const struct notebook *nb, const struct cell *waits, struct buf *out)
{
    const struct cell *first;
    const size_t n = cells_in_the_way(nb, waits, &first);

    if (!first)
        return buf_add_text(out, "waiting for calls that came before");
    if (buf_add_text(out, "waiting for ") < 0 || add_cell(first, out) < 0)
        return -1;
    if (ranks_count(&first->to) &&
        (buf_add_text(out, ranks_count(&first->to) > 1 ? " on ranks " : " on rank ") < 0 ||
         !text_ranks(&first->to, out)))
        return -1;
    return n > 1 ? buf_addf(out, ", and %zu more", n - 1) : 0;
}

static void show(struct notebook *nb, struct cell *c)
{
    struct buf what = BUF_INIT;

    if (notebook_now(nb) < live_due(c))
        return;
    if (c == nb->calls.client && !c->live.shown) /* clients expect no output before it */
        nb->ops.status(nb->ops.arg, c->from.request, "busy");
    if (describe(nb, c, &what) < 0 || buf_add(&what, "", 1) < 0)
        live_waits_for(c, "waiting for calls");
    else
        live_waits_for(c, what.p);
    buf_release(&what);
}

/* ---- what waits ---- */

/* The client's cell that waits for calls; borrowed. NULL: none. */
static struct request *waits(const struct notebook *nb)
{
    return nb->cells && calls_client_waits(nb) ? queue_first(&nb->queue) : NULL;
}

void awaited_over(struct notebook *nb)
{
    if (!nb->calls.client)
        return;
    live_wait_over(nb->calls.client);
    cell_destroy(nb->calls.client);
    nb->calls.client = NULL;
}

void awaited_update(struct notebook *nb)
{
    struct request *r = waits(nb);

    if (nb->calls.client && nb->calls.client->from.request != r)
        awaited_over(nb);
    if (r && !nb->calls.client && (nb->calls.client = cell_of_request(nb, r, nb->count)))
        live_wait(nb->calls.client);
}

struct request *awaited_take(struct notebook *nb)
{
    struct request *r = waits(nb);

    if (!r)
        return NULL;
    CELLS_EACH (c, nb)
        if (c->stop.interrupts && async_is_stopped_by(c, text_slice(request_content(r), "code")))
            return NULL; /* it has interrupted this call, which is interrupted once more */
    awaited_over(nb);
    return queue_take(&nb->queue);
}

void awaited_tick(struct notebook *nb)
{
    if (nb->calls.client)
        show(nb, nb->calls.client);
    for (struct cell *c = nb->calls.first; c; c = c->from.next)
        show(nb, c);
}

uint64_t awaited_due(const struct notebook *nb)
{
    uint64_t due = nb->calls.client ? live_due(nb->calls.client) : NEVER;

    for (const struct cell *c = nb->calls.first; c; c = c->from.next)
        due = clock_earlier(due, live_due(c));
    return due;
}
