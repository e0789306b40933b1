/* SPDX-License-Identifier: BSD-3-Clause */
/* agents_nodes.c - adds the nodes of an engine, and ends them (declared in agents.h). */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/agents/private.h"
#include "protocol/span_fields.h"

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

const char *agents_nodes_own_endpoint(const struct agents *a)
{
    return buf_slice(&a->listen.own).p;
}

/* Allows the node's key, in its turn; names the node until a name is known. */
static void admit(struct agents *a, struct node_link *link, unsigned turn,
                  const struct secret *secret)
{
    struct keys keys;
    char name[32];

    keys_derive(&keys, secret, link->node.index, turn);
    memcpy(link->key, keys.public, KEY_SIZE);
    keys_wipe(&keys);
    allowed_keys_add(&a->listen.allowed, link->key, link->node.engine, link->node.number);
    snprintf(name, sizeof name, "node %u", link->node.index);
    if (node_link_set_name(link, slice_text(name)) < 0) /* it stays without */
        log_warn("agents", "out of memory for the name of %s", name);
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
    for (unsigned k = 0; k < n; k++)
        admit(a, node_table_get(&a->nodes, *first + k), 0, secret);
    return 0;
}

void agents_nodes_told(struct agents *a, unsigned first, unsigned n)
{
    for (unsigned k = 0; k < n; k++)
        node_table_get(&a->nodes, first + k)->engine_tells = true;
}

/* The new node keeps its own connection: the tree of the engine's agents is by number. */
int agents_nodes_replace(struct agents *a, unsigned node, unsigned turn, const char *why,
                         const struct secret *secret, unsigned *number, struct err *err)
{
    struct node_link *old = node_table_get(&a->nodes, node), *link;

    if (allowed_keys_reserve(&a->listen.allowed, 1) < 0)
        return err_set(err, "out of memory for a node's key");
    if (node_table_add(&a->nodes, 1, old->node.engine, err) < 0)
        return -1;
    *number = (unsigned)a->nodes.n - 1;
    link = node_table_get(&a->nodes, *number);
    link->node.index = old->node.index;
    link->node.slots = old->node.slots;
    link->engine_tells = old->engine_tells;
    link->siblings = 0;
    node_failures_lose(a, old, why);
    admit(a, link, turn, secret);
    return 0;
}

void agents_nodes_describe(struct agents *a, unsigned node, struct slice name, unsigned slots)
{
    struct node_link *link = node_table_get(&a->nodes, node);

    link->node.slots = slots;
    if (!slice_is(name, "-")) /* else its agent says its name */
        link->named = node_link_set_name(link, name) == 0;
}

static void give_notice(struct agents *a, unsigned node, uint64_t seconds, struct slice text)
{
    struct span m = { .kind = SPAN_NOTICE, .v[F_NOTICE_SECONDS].u64 = seconds };

    m.v[F_NOTICE_TEXT].s = text;
    a->handler.message(a->handler.arg, node, SPAN_WORKER_NONE, &m);
}

void agents_nodes_notice(struct agents *a, unsigned node, uint64_t seconds, struct slice text)
{
    struct node_link *link = node_table_get(&a->nodes, node);
    char *kept;

    if (link->node.state == NODE_UP) {
        give_notice(a, node, seconds, text);
    } else if ((kept = strndup(text.n ? text.p : "", text.n))) {
        free(link->notice);
        link->notice = kept;
        link->leaves_ns = clock_now(a->out.clock) + seconds * NS_PER_S;
    } else {
        log_warn("agents", "out of memory: a notice of %s is lost", link->node.name);
    }
}

void agents_nodes_give_kept(struct agents *a, struct node_link *link)
{
    const uint64_t now = clock_now(a->out.clock);
    char *text = link->notice;

    if (!text)
        return;
    link->notice = NULL;
    give_notice(a, link->node.number,
                link->leaves_ns > now ? (link->leaves_ns - now) / NS_PER_S : 0, slice_text(text));
    free(text);
}

void agents_nodes_end_at(struct agents *a, unsigned first, unsigned n, uint64_t ns)
{
    for (unsigned k = 0; k < n; k++)
        node_table_get(&a->nodes, first + k)->node.ends_ns = ns;
}

void agents_nodes_failed(struct agents *a, unsigned node, const char *why)
{
    node_failures_lose(a, node_table_get(&a->nodes, node), why);
}

void agents_nodes_way_lost(struct agents *a, unsigned node)
{
    struct node_link *link = node_table_get(&a->nodes, node);

    log_info("agents", "the engine has lost the way to %s", link->node.name);
    link->way_lost = true;
}

/* Asks the agents of an engine, or of all, that are up to end. */
static void quit(struct agents *a, unsigned engine, bool all)
{
    const struct span quit = { .kind = SPAN_QUIT };
    unsigned *list = to_agents_list(&a->out);
    struct err err = { "" };
    size_t up = 0;

    for (unsigned k = 0; list && k < a->nodes.n; k++)
        if (a->nodes.link[k]->node.state == NODE_UP &&
            (all || a->nodes.link[k]->node.engine == engine))
            list[up++] = k;
    if (up && to_agents_nodes(&a->out, list, up, &quit, &err) < 0)
        log_info("agents", "%s", err.text);
}

void agents_nodes_quit(struct agents *a, unsigned engine)
{
    quit(a, engine, false);
}

void agents_quit(struct agents *a)
{
    quit(a, 0, true);
}

void agents_nodes_orphaned(struct agents *a, unsigned engine, const char *why)
{
    for (unsigned k = 0; k < a->nodes.n; k++)
        if (a->nodes.link[k]->node.engine == engine) {
            a->nodes.link[k]->engine_ended = true;
            a->nodes.link[k]->engine_report = why;
            node_failures_expect(a, a->nodes.link[k]);
        }
}

void agents_nodes_remove(struct agents *a, unsigned engine, bool known)
{
    if (!known)
        a->listen.allowed.pending--;
    allowed_keys_end(&a->listen.allowed, engine);
    for (unsigned k = 0; k < a->nodes.n; k++)
        if (a->nodes.link[k]->node.engine == engine) {
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
