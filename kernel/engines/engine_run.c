/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_run.c - follows one engine from its start to its end, and finds out why it failed
 * (declared in private.h). */
#include "kernel/engines/private.h"

#include <stdio.h>
#include <stdlib.h>

#define NAMES_MAX 8u /* of nodes in an error text */

void engine_run_free(struct engine_run *run)
{
    if (!run)
        return;
    engine_process_free(run->process);
    secret_wipe(&run->secret);
    buf_release(&run->words);
    free(run->name);
    free(run);
}

/* ---- waiting for nodes ---- */

/* The first of its nodes from number *k on that is neither up nor lost; *k is the next number then.
 * NULL: there is none. */
static const struct node *next_missing(const struct engine_run *run, unsigned *k)
{
    const struct node *node;

    while (run->n && (node = agents_node(run->agents, (*k)++)))
        if (node->engine == run->number && node->state == NODE_ASKED)
            return node;
    return NULL;
}

static unsigned missing(const struct engine_run *run)
{
    unsigned n = 0;

    for (unsigned k = run->first; next_missing(run, &k);)
        n++;
    return n;
}

static bool is_waited_for(const struct engine_run *run)
{
    return !run->stopped && (run->n == 0 || missing(run) > 0);
}

void engine_run_restart_clock(struct engine_run *run)
{
    run->deadline_ns = is_waited_for(run) ? clock_now(run->clock) + run->start_ns : UINT64_MAX;
}

void engine_run_node_changed(struct engine_run *run, const struct node *node)
{
    run->was_up = run->was_up || missing(run) == 0;
    if (missing(run) == 0 || (node->state == NODE_UP && run->deadline_ns == UINT64_MAX))
        engine_run_restart_clock(run);
}

/* ---- its end ---- */

void engine_run_stop(struct engine_run *run)
{
    if (run->stopped)
        return;
    agents_nodes_quit(run->agents, run->number);
    run->stopped = true;
    run->deadline_ns = UINT64_MAX;
    secret_wipe(&run->secret);
    agents_nodes_remove(run->agents, run->number, run->n > 0);
    engine_process_end(run->process);
}

void engine_run_fail(struct engine_run *run, const char *why)
{
    engine_run_stop(run);
    run->event(run->arg, run->number, ENGINE_FAILED, why);
}

/* Adds how the engine ended, if it has, and what it wrote. */
static void fail_with(struct engine_run *run, int rc)
{
    if (rc == 0)
        rc = engine_process_words(run->process, &run->words);
    engine_run_fail(run, rc == 0 && run->words.n ? run->words.p : "out of memory");
}

void engine_run_ended(struct engine_run *run, int status)
{
    const char *words;

    engine_process_ended(run->process, status);
    run->ended = true;
    if (run->stopped)
        return;
    if (is_waited_for(run)) {
        fail_with(run, 0);
        return;
    }
    words = engine_process_words(run->process, &run->words) == 0 && run->words.n ? run->words.p
                                                                                 : NULL;
    agents_nodes_quit(run->agents, run->number);
    agents_nodes_orphaned(run->agents, run->number, words);
}

/* "h3, h4 and 2 more did not come up". */
static int name_missing(const struct engine_run *run, struct buf *out)
{
    const unsigned all = missing(run);
    const struct node *node;
    unsigned named = 0, k = run->first;
    int rc = 0;

    while (rc == 0 && named < NAMES_MAX && (node = next_missing(run, &k)))
        rc = buf_addf(out, "%s%s", named++ ? ", " : "", node->name);
    if (rc == 0 && all > named)
        rc = buf_addf(out, " and %u more", all - named);
    return rc == 0 ? buf_add_text(out, " did not come up") : -1;
}

/* Machines that were to come in place of others. The rest goes on without them. */
static void lose_missing(struct engine_run *run)
{
    const struct node *node;
    unsigned k = run->first;
    char why[80];

    snprintf(why, sizeof why, "it did not come up within %g s (CELLSPAN_START_TIMEOUT)",
             (double)run->start_ns / (double)NS_PER_S);
    while ((node = next_missing(run, &k)))
        agents_nodes_failed(run->agents, node->number, why);
}

void engine_run_tick(struct engine_run *run, uint64_t now)
{
    struct buf *const words = &run->words;
    int rc;

    if (now < run->deadline_ns)
        return;
    if (run->was_up) {
        lose_missing(run);
        return;
    }
    if (run->n == 0)
        rc = buf_addf(words, "cellspan-launch-%s has not said on how many nodes it runs",
                      run->name);
    else
        rc = name_missing(run, words);
    if (rc == 0)
        rc = buf_addf(words, " within %g s (CELLSPAN_START_TIMEOUT). ",
                      (double)run->start_ns / (double)NS_PER_S);
    if (rc == 0 && run->n)
        rc = buf_addf(
            words,
            "Agents dial %s on %s: can they reach it? CELLSPAN_INTERFACE and CELLSPAN_ADVERTISE choose other addresses, CELLSPAN_PORT other ports. ",
            run->endpoints, agents_node(run->agents, NODE_HERE)->name);
    fail_with(run, rc);
}
