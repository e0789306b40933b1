/* SPDX-License-Identifier: BSD-3-Clause */
/* agents_nodes.c - adds the nodes of an engine, and ends them (declared in agents.h). */

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "kernel/agents/private.h"

/* ---- the nodes of an engine ---- */

const char *agents_nodes_expect(struct agents *a, struct secret *secret, struct err *err)
{
    const struct router_handler handler = { .arrived = from_agents_received,
                                            .parted = node_failures_disconnected,
                                            .refused = from_agents_refused,
                                            .arg = a };

    if (!a->listen.remote) {
        if (listen_remote(&a->listen, a->loop, &handler, err) < 0)
            return NULL;
        node_failures_start(a);
    }
    a->listen.allowed.pending++;
    secret_create(secret, &a->listen.keys);
    return a->listen.endpoints.p;
}

int agents_nodes_add(struct agents *a, unsigned engine, unsigned n, const struct secret *secret,
                     unsigned *first, struct err *err)
{
    *first = (unsigned)a->nodes.n;
    if (allowed_keys_reserve(&a->listen.allowed, n) < 0)
        return err_set(err, "out of memory for the nodes' keys");
    if (node_table_add(&a->nodes, n, engine, err) < 0)
        return -1;
    a->listen.allowed.pending--;
    for (unsigned k = 0; k < n; k++) {
        struct node_link *link = node_table_get(&a->nodes, *first + k);
        struct keys keys;
        char name[32];

        keys_derive(&keys, secret, k);
        memcpy(link->key, keys.public, KEY_SIZE);
        keys_wipe(&keys);
        allowed_keys_add(&a->listen.allowed, link->key, engine, link->node.number);
        snprintf(name, sizeof name, "node %u", k);
        if (node_link_set_name(link, slice_text(name)) < 0) /* it stays without */
            log_warn("agents", "out of memory for the name of %s", name);
    }
    return 0;
}

void agents_nodes_describe(struct agents *a, unsigned node, struct slice name, unsigned slots)
{
    struct node_link *link = node_table_get(&a->nodes, node);

    link->node.slots = slots;
    if (!slice_is(name, "-")) /* else its agent says its name */
        link->named = node_link_set_name(link, name) == 0;
}

void agents_nodes_failed(struct agents *a, unsigned node, const char *why)
{
    node_failures_lose(a, node_table_get(&a->nodes, node), why);
}

void agents_nodes_quit(struct agents *a, unsigned first, unsigned n)
{
    const struct span quit = { .kind = SPAN_QUIT };
    unsigned *list = to_agents_list(&a->out);
    struct err err = { "" };
    size_t up = 0;

    for (unsigned k = first; list && k < first + n; k++)
        if (a->nodes.link[k]->node.state == NODE_UP)
            list[up++] = k;
    if (up && to_agents_nodes(&a->out, list, up, &quit, &err) < 0)
        log_info("agents", "%s", err.text);
}

void agents_nodes_orphaned(struct agents *a, unsigned first, unsigned n, const char *why)
{
    for (unsigned k = first; k < first + n; k++) {
        a->nodes.link[k]->engine_ended = true;
        a->nodes.link[k]->engine_report = why;
        node_failures_expect(a, a->nodes.link[k]);
    }
}

void agents_nodes_remove(struct agents *a, unsigned engine, unsigned first, unsigned n)
{
    if (n == 0)
        a->listen.allowed.pending--;
    allowed_keys_end(&a->listen.allowed, engine);
    for (unsigned k = first; k < first + n; k++) {
        a->nodes.link[k]->removed = true;
        node_failures_lose_quietly(a, a->nodes.link[k]);
    }
}

/* ---- this machine's agent ---- */

const char *agents_nodes_here_endpoint(const struct agents *a)
{
    return a->listen.endpoint;
}

void agents_nodes_here_started(struct agents *a, pid_t pid, int socket)
{
    struct node_link *here = node_table_get(&a->nodes, NODE_HERE);

    here->node.state = NODE_ASKED;
    here->node.pid = pid;
    a->blobs.socket = socket;
}

void agents_nodes_here_ended(struct agents *a)
{
    router_drain(a->listen.here);
}

void agents_nodes_here_lost(struct agents *a, const char *why)
{
    local_blobs_release(&a->blobs.local);
    node_failures_lose(a, node_table_get(&a->nodes, NODE_HERE), why);
}
