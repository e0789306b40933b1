/* nodes.c - what engines say becomes nodes with numbers, names and keys; and which of them are
 * up. */
#include <stdio.h>
#include <string.h>

#include "base/child_lines.h"
#include "base/log.h"
#include "kernel/agents/room.h"

static void name_nodes(struct run *run, unsigned first)
{
    for (unsigned k = 0; k < run->n; k++) {
        struct link *l = links_get(&run->agents->links, first + k);
        char name[32];

        snprintf(name, sizeof name, "node %u", k);
        if (link_name(l, slice_text(name)) < 0) /* it stays without */
            log_warn("agents", "out of memory for the name of %s", name);
    }
}

static void on_nodes(struct run *run, unsigned n)
{
    struct agents *a = run->agents;
    const unsigned first = (unsigned)a->links.n;
    struct err err = { "" };

    if (run->n) {
        log_warn("agents", "%s says again how many nodes there are: ignored", run->name);
        return;
    }
    if (links_add(&a->links, n, run->number, &err) < 0) {
        run_fail(run, err.text);
        return;
    }
    a->admit.pending--;
    run->first = first;
    run->n = run->missing = n;
    if (admit_reserve(&a->admit, n) < 0) {
        run_fail(run, "out of memory for the nodes' keys");
        return;
    }
    for (unsigned k = 0; k < n; k++) {
        struct link *l = links_get(&a->links, first + k);
        struct keys keys;

        keys_derive(&keys, &run->secret, k);
        memcpy(l->key, keys.public, KEY_SIZE);
        keys_wipe(&keys);
        admit_add(&a->admit, l->key, run->number, k);
    }
    name_nodes(run, first);
    run_clock(run);
    run_tell(run, ENGINE_NODES, "");
}

static struct link *node_at(const struct run *run, unsigned index)
{
    if (index < run->n)
        return links_get(&run->agents->links, run->first + index);
    log_warn("agents", "%s speaks of node %u: it has %u", run->name, index, run->n);
    return NULL;
}

static void on_failed(struct run *run, const struct said *said)
{
    struct link *l = node_at(run, said->n);
    char why[CHILD_LINE_MAX + 1];

    if (!l || l->info.state == NODE_LOST)
        return;
    snprintf(why, sizeof why, "%.*s", SLICE_ARG(said->text));
    losses_node(run->agents, l, *why ? why : "its engine says that it failed");
}

static void on_say(struct run *run, struct slice text)
{
    char words[CHILD_LINE_MAX + 1];

    snprintf(words, sizeof words, "%.*s", SLICE_ARG(text));
    run_tell(run, ENGINE_SAYS, words);
}

void nodes_said(void *arg, struct launch *e, const struct said *said)
{
    struct run *run = arg;
    struct link *l;

    (void)e;
    if (run->stopped)
        return;
    switch (said->kind) {
    case SAID_NODES:
        on_nodes(run, said->n);
        break;
    case SAID_NODE:
        if ((l = node_at(run, said->n)) && l->info.state != NODE_LOST) {
            l->info.slots = said->slots;
            l->named = link_name(l, said->text) == 0;
            run_clock(run);
        }
        break;
    case SAID_SAY: /* it may wait long: in a queue the clock does not run */
        run->deadline_ns = UINT64_MAX;
        on_say(run, said->text);
        break;
    case SAID_FAILED:
        on_failed(run, said);
        break;
    case SAID_NONSENSE:
        break;
    }
}

struct link *nodes_link(const struct agents *a, const char *user)
{
    unsigned number, index;
    const struct run *run;

    if (sscanf(user, "%u.%u", &number, &index) != 2 || !(run = runs_get(a, number)) ||
        run->stopped || index >= run->n)
        return NULL;
    return links_get(&a->links, run->first + index);
}

void nodes_up(struct agents *a, struct link *l)
{
    struct run *run = runs_get(a, l->info.engine);

    if (!run)
        return;
    admit_use(&a->admit, l->key);
    run->missing--;
    if (run->missing == 0 || run->deadline_ns == UINT64_MAX)
        run_clock(run);
}

void nodes_lost(struct agents *a, struct link *l)
{
    struct run *run = runs_get(a, l->info.engine);

    if (!run || run->stopped)
        return;
    admit_use(&a->admit, l->key);
    if (l->info.state == NODE_ASKED && --run->missing == 0)
        run_clock(run);
}
