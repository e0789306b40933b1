/* engine_nodes.c - what engines say becomes nodes with numbers, names and keys; and which of them
 * are up. */
#include <stdio.h>
#include <string.h>

#include "base/child_lines.h"
#include "base/log.h"
#include "kernel/agents/room.h"

static void name_nodes(struct engine_run *run, unsigned first)
{
    for (unsigned k = 0; k < run->n; k++) {
        struct node_link *link = node_table_get(&run->agents->nodes, first + k);
        char name[32];

        snprintf(name, sizeof name, "node %u", k);
        if (node_link_set_name(link, slice_text(name)) < 0) /* it stays without */
            log_warn("agents", "out of memory for the name of %s", name);
    }
}

static void on_nodes(struct engine_run *run, unsigned n)
{
    struct agents *a = run->agents;
    const unsigned first = (unsigned)a->nodes.n;
    struct err err = { "" };

    if (run->n) {
        log_warn("agents", "%s says again how many nodes there are: ignored", run->name);
        return;
    }
    if (node_table_add(&a->nodes, n, run->number, &err) < 0) {
        engine_run_fail(run, err.text);
        return;
    }
    a->allowed.pending--;
    run->first = first;
    run->n = run->missing = n;
    if (allowed_keys_reserve(&a->allowed, n) < 0) {
        engine_run_fail(run, "out of memory for the nodes' keys");
        return;
    }
    for (unsigned k = 0; k < n; k++) {
        struct node_link *link = node_table_get(&a->nodes, first + k);
        struct keys keys;

        keys_derive(&keys, &run->secret, k);
        memcpy(link->key, keys.public, KEY_SIZE);
        keys_wipe(&keys);
        allowed_keys_add(&a->allowed, link->key, run->number, k);
    }
    name_nodes(run, first);
    engine_run_clock(run);
    engine_run_tell(run, ENGINE_NODES, "");
}

static struct node_link *node_at(const struct engine_run *run, unsigned index)
{
    if (index < run->n)
        return node_table_get(&run->agents->nodes, run->first + index);
    log_warn("agents", "%s speaks of node %u: it has %u", run->name, index, run->n);
    return NULL;
}

static void on_failed(struct engine_run *run, const struct engine_line *said)
{
    struct node_link *link = node_at(run, said->n);
    char why[CHILD_LINE_MAX + 1];

    if (!link || link->node.state == NODE_LOST)
        return;
    snprintf(why, sizeof why, "%.*s", SLICE_ARG(said->text));
    node_failures_lose(run->agents, link, *why ? why : "its engine says that it failed");
}

static void on_say(struct engine_run *run, struct slice text)
{
    char words[CHILD_LINE_MAX + 1];

    snprintf(words, sizeof words, "%.*s", SLICE_ARG(text));
    engine_run_tell(run, ENGINE_SAYS, words);
}

void engine_nodes_said(void *arg, struct engine_process *e, const struct engine_line *said)
{
    struct engine_run *run = arg;
    struct node_link *link;

    (void)e;
    if (run->stopped)
        return;
    switch (said->kind) {
    case ENGINE_LINE_NODES:
        on_nodes(run, said->n);
        break;
    case ENGINE_LINE_NODE:
        if ((link = node_at(run, said->n)) && link->node.state != NODE_LOST) {
            link->node.slots = said->slots;
            link->named = node_link_set_name(link, said->text) == 0;
            engine_run_clock(run);
        }
        break;
    case ENGINE_LINE_SAY: /* it may wait long: in a queue the clock does not run */
        run->deadline_ns = UINT64_MAX;
        on_say(run, said->text);
        break;
    case ENGINE_LINE_FAILED:
        on_failed(run, said);
        break;
    case ENGINE_LINE_NONSENSE:
        break;
    }
}

struct node_link *engine_nodes_find(const struct agents *a, const char *user)
{
    unsigned number, index;
    const struct engine_run *run;

    if (sscanf(user, "%u.%u", &number, &index) != 2 || !(run = engine_run_get(a, number)) ||
        run->stopped || index >= run->n)
        return NULL;
    return node_table_get(&a->nodes, run->first + index);
}

void engine_nodes_up(struct agents *a, struct node_link *link)
{
    struct engine_run *run = engine_run_get(a, link->node.engine);

    if (!run)
        return;
    allowed_keys_use(&a->allowed, link->key);
    run->missing--;
    if (run->missing == 0 || run->deadline_ns == UINT64_MAX)
        engine_run_clock(run);
}

void engine_nodes_lost(struct agents *a, struct node_link *link)
{
    struct engine_run *run = engine_run_get(a, link->node.engine);

    if (!run || run->stopped)
        return;
    allowed_keys_use(&a->allowed, link->key);
    if (link->node.state == NODE_ASKED && --run->missing == 0)
        engine_run_clock(run);
}
