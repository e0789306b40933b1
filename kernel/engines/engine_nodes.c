/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_nodes.c - what an engine says about its nodes: their number, names and failures. */
#include "kernel/engines/private.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static void on_contract(struct engine_run *run, unsigned number)
{
    if (run->n)
        log_warn("agents", "%s names its contract after its nodes: ignored", run->name);
    else
        run->tells = number >= ENGINE_CONTRACT;
}

static void on_nodes(struct engine_run *run, const struct engine_line *said)
{
    struct err err = { "" };

    if (run->n) {
        log_warn("agents", "%s says again how many nodes there are: ignored", run->name);
    } else if (agents_nodes_add(run->agents, run->number, said->n, &run->secret, &run->first,
                                &err) < 0) {
        engine_run_fail(run, err.text);
    } else {
        run->n = said->n;
        if (run->tells)
            agents_nodes_told(run->agents, run->first, run->n);
        run->by_ranks = said->by_ranks;
        run->together = said->together;
        engine_run_restart_clock(run);
        run->event(run->arg, run->number, ENGINE_NODES, "");
    }
}

/* The last node with that index. NULL: there is none. *turn: how many were there before. */
static const struct node *last_at(const struct engine_run *run, unsigned index, unsigned *turn)
{
    const struct node *node, *last;

    *turn = 0;
    if (index >= run->n) {
        log_warn("agents", "%s speaks of node %u: it has %u", run->name, index, run->n);
        return NULL;
    }
    last = agents_node(run->agents, run->first + index);
    for (unsigned k = run->first + run->n; (node = agents_node(run->agents, k)); k++)
        if (node->engine == run->number && node->index == index) {
            last = node;
            ++*turn;
        }
    return last;
}

/* The same; NULL also if it is lost. */
static const struct node *node_at(const struct engine_run *run, unsigned index)
{
    unsigned turn;
    const struct node *node = last_at(run, index, &turn);

    return node && node->state != NODE_LOST ? node : NULL;
}

static void on_node(struct engine_run *run, const struct engine_line *said)
{
    const struct node *node = node_at(run, said->n);

    if (!node)
        return;
    agents_nodes_describe(run->agents, node->number, said->text, said->slots);
    engine_run_restart_clock(run);
}

static void refuse_again(struct engine_run *run, const struct node *node)
{
    char text[CHILD_LINE_MAX + 1];

    snprintf(
        text, sizeof text,
        "%s wants to bring another machine in place of this one (node %u again), and can't: it "
        "has said that all its agents end if one is lost, so the whole engine has to start again",
        run->name, node->index);
    log_warn("agents", "%s: %s", node->name, text);
    if (node->state == NODE_LOST)
        run->event(run->arg, run->number, ENGINE_SAYS, text);
    else
        agents_nodes_failed(run->agents, node->number, text);
}

/* Before all are up, the engine need not say so: the key of a node that has not come is still good.
 */
static void on_again(struct engine_run *run, unsigned index)
{
    unsigned turn, by;
    const struct node *node = last_at(run, index, &turn);
    struct err err = { "" };

    if (!node)
        return;
    if (run->together) {
        refuse_again(run, node);
        return;
    }
    if (!run->was_up || node->state == NODE_ASKED) {
        log_warn("agents", "%s brings node %u again, which has not come yet: ignored", run->name,
                 index);
        return;
    }
    if (agents_nodes_replace(run->agents, node->number, turn + 1,
                             "its engine brings another machine in its place", &run->secret, &by,
                             &err) < 0) {
        log_warn("agents", "%s: node %u does not come again: %s", run->name, index, err.text);
        return;
    }
    engine_run_restart_clock(run);
    run->replaced(run->arg, node->number, by);
}

static void on_failed(struct engine_run *run, const struct engine_line *said)
{
    const struct node *node = node_at(run, said->n);
    char why[CHILD_LINE_MAX + 1];

    if (!node)
        return;
    snprintf(why, sizeof why, "%.*s", SLICE_ARG(said->text));
    agents_nodes_failed(run->agents, node->number,
                        *why                             ? why
                        : said->kind == ENGINE_LINE_GONE ? "its engine says that it is gone"
                                                         : "its engine says that it failed");
}

static void on_way_lost(struct engine_run *run, unsigned index)
{
    const struct node *node = node_at(run, index);

    if (node && node->state == NODE_UP)
        agents_nodes_way_lost(run->agents, node->number);
}

static void on_notice(struct engine_run *run, const struct engine_line *said)
{
    const struct node *node = node_at(run, said->n);

    if (node)
        agents_nodes_notice(run->agents, node->number, said->seconds, said->text);
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
    case ENGINE_LINE_CONTRACT:
        on_contract(run, said->n);
        break;
    case ENGINE_LINE_NODES:
        on_nodes(run, said);
        break;
    case ENGINE_LINE_NODE:
        on_node(run, said);
        break;
    case ENGINE_LINE_AGAIN:
        on_again(run, said->n);
        break;
    case ENGINE_LINE_SAY:
        on_say(run, said->text);
        break;
    case ENGINE_LINE_AWAY:
        on_way_lost(run, said->n);
        break;
    case ENGINE_LINE_FAILED:
    case ENGINE_LINE_GONE:
        on_failed(run, said);
        break;
    case ENGINE_LINE_NOTICE:
        on_notice(run, said);
        break;
    case ENGINE_LINE_ENDS:
        agents_nodes_end_at(run->agents, run->first, run->n,
                            clock_now(run->clock) + said->seconds * NS_PER_S);
        break;
    case ENGINE_LINE_END: /* engine_process.c has taken it */
    case ENGINE_LINE_NONSENSE:
        break;
    }
}
