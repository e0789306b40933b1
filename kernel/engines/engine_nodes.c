/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_nodes.c - what an engine says about its nodes: their number, names and failures. */
#include "kernel/engines/private.h"

#include <stdio.h>

#include "base/log.h"

static void on_nodes(struct engine_run *run, unsigned n)
{
    struct err err = { "" };

    if (run->n) {
        log_warn("agents", "%s says again how many nodes there are: ignored", run->name);
    } else if (agents_nodes_add(run->agents, run->number, n, &run->secret, &run->first, &err) < 0) {
        engine_run_fail(run, err.text);
    } else {
        run->n = n;
        engine_run_restart_clock(run);
        run->event(run->arg, run->number, ENGINE_NODES, "");
    }
}

/* The node with that index; NULL: there is none, or it is lost. */
static const struct node *node_at(const struct engine_run *run, unsigned index)
{
    const struct node *node;

    if (index >= run->n) {
        log_warn("agents", "%s speaks of node %u: it has %u", run->name, index, run->n);
        return NULL;
    }
    node = agents_node(run->agents, run->first + index);
    return node->state == NODE_LOST ? NULL : node;
}

static void on_node(struct engine_run *run, const struct engine_line *said)
{
    const struct node *node = node_at(run, said->n);

    if (!node)
        return;
    agents_nodes_describe(run->agents, node->number, said->text, said->slots);
    engine_run_restart_clock(run);
}

static void on_failed(struct engine_run *run, const struct engine_line *said)
{
    const struct node *node = node_at(run, said->n);
    char why[CHILD_LINE_MAX + 1];

    if (!node)
        return;
    snprintf(why, sizeof why, "%.*s", SLICE_ARG(said->text));
    agents_nodes_failed(run->agents, node->number, *why ? why : "its engine says that it failed");
}

static void on_say(struct engine_run *run, struct slice text)
{
    char words[CHILD_LINE_MAX + 1];

    snprintf(words, sizeof words, "%.*s", SLICE_ARG(text));
    run->deadline_ns = UINT64_MAX; /* it may wait in a queue for long */
    run->event(run->arg, run->number, ENGINE_SAYS, words);
}

void engine_nodes_said(void *arg, const struct engine_line *said)
{
    struct engine_run *run = arg;

    if (run->stopped)
        return;
    switch (said->kind) {
    case ENGINE_LINE_NODES:
        on_nodes(run, said->n);
        break;
    case ENGINE_LINE_NODE:
        on_node(run, said);
        break;
    case ENGINE_LINE_SAY:
        on_say(run, said->text);
        break;
    case ENGINE_LINE_FAILED:
        on_failed(run, said);
        break;
    case ENGINE_LINE_END: /* engine_process.c has taken it */
    case ENGINE_LINE_NONSENSE:
        break;
    }
}
