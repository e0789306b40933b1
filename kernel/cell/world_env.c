/* SPDX-License-Identifier: BSD-3-Clause */
/* The world of a cell's ranks: the environment that torch and other libraries read, the nodes of
 * its ranks, and whether NCCL can connect them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cell/cell_nodes.h"

bool world_is_near(const struct cell *c, const struct ranks *to)
{
    const struct rank *rank = c->group->rank;
    const long first = ranks_next(to, 0);

    for (long k = first; k >= 0; k = ranks_next(to, (unsigned)k + 1))
        if (rank[k].node != rank[first].node)
            return false;
    return true;
}

/* NCCL accepts each GPU only once, unless it is told otherwise. It takes two MIG instances of one
 * GPU for the same GPU. */
bool world_can_use_nccl(const struct cell *c, const struct ranks *to)
{
    const struct group *g = c->group;

    RANKS_EACH (k, to) {
        const struct group_node *node = group_node_of(c->nb, g->rank[k].node);

        if (node && node->mig)
            return false;
    }
    return !g->want.share || g->want.nccl_shares;
}

/* ---- the world's environment ---- */

static void set(json_t *env, const char *name, json_t *value)
{
    json_object_set_new(env, name, value);
}

/* The nodes of the world's ranks, in the order of ranks and numbered from 0: "0*4,1*4" means four
 * ranks on node 0, then four on node 1. */
int world_add_layout(const struct cell *c, struct buf *out)
{
    const struct rank *rank = c->group->rank;
    unsigned most = 0, nodes = 0, *number, run = 1;
    int rc;

    for (unsigned k = 0; k < c->world; k++)
        most = rank[k].node > most ? rank[k].node : most;
    /* by node: its number in the layout + 1; 0: none yet */
    number = calloc(most + 1u, sizeof *number);
    rc = number ? 0 : -1;
    for (unsigned k = 0; rc == 0 && k < c->world; k++) {
        if (!number[rank[k].node])
            number[rank[k].node] = ++nodes;
        if (k + 1 < c->world && rank[k + 1].node == rank[k].node) {
            run++;
            continue;
        }
        rc = buf_addf(out, "%s%u*%u", out->n ? "," : "", number[rank[k].node] - 1, run);
        run = 1;
    }
    free(number);
    return rc;
}

static bool spans_nodes(const struct cell *c)
{
    for (unsigned k = 1; k < c->world; k++)
        if (c->group->rank[k].node != c->group->rank[0].node)
            return true;
    return false;
}

/* The address at which ranks meet: one of rank 0's node that the others can reach. */
static int master_address(const struct cell *c, struct buf *out)
{
    unsigned *nodes = spans_nodes(c) ? calloc(c->world, sizeof *nodes) : NULL;
    int rc = 0;

    for (unsigned k = 0; nodes && k < c->world; k++)
        nodes[k] = c->group->rank[k].node;
    if (nodes)
        rc = node_addresses_common(c->nb, nodes[0], nodes, c->world, out);
    free(nodes);
    return rc == 0 && out->n == 0 ? buf_add_text(out, "127.0.0.1") : rc;
}

static bool all_can_use_nccl(const struct cell *c)
{
    struct ranks all = RANKS_INIT;
    const bool can = c->world && ranks_add_range(&all, 0, c->world - 1) == 0 &&
                     world_can_use_nccl(c, &all);

    ranks_release(&all);
    return can;
}

json_t *world_master(const struct cell *c)
{
    const unsigned port = c->group->port;
    struct buf at = BUF_INIT;
    const char *address = master_address(c, &at) == 0 ? at.p : "127.0.0.1";
    json_t *master = json_object();

    set(master, "MASTER_ADDR", json_string(address));
    set(master, "MASTER_PORT", json_sprintf("%u", port));
    set(master, "JAX_COORDINATOR_ADDRESS",
        json_sprintf(strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, port_for_jax(port)));
    buf_release(&at);
    return master;
}

json_t *world_env(const struct cell *c)
{
    const struct group *g = c->group;
    json_t *env = json_object(), *world = json_sprintf("%u", c->world);

    set(env, "WORLD_SIZE", json_incref(world));
    set(env, "ROLE_WORLD_SIZE", json_incref(world));
    set(env, "JAX_NUM_PROCESSES", world);
    if (g->gpus && all_can_use_nccl(c))
        set(env, "CELLSPAN_GPUS", json_sprintf("%u", g->gpus));
    if (g->want.share &&
        g->want.nccl_shares) /* NCCL may be first used in a later cell than --env's */
        set(env, "NCCL_MULTI_RANK_GPU_ENABLE", json_string("1"));
    set(env, "TORCHELASTIC_RUN_ID",
        cell_own_group(c) ? json_sprintf("%s-s%" PRIu64, c->nb->config.run_id, c->id)
                          : json_sprintf("%s-%u", c->nb->config.run_id, g->number));
    set(env, "TORCHELASTIC_RESTART_COUNT", json_sprintf("%u", g->restarts));
    set(env, "TORCHELASTIC_MAX_RESTARTS", json_string("0"));
    for (char **e = c->plan.env; e && *e; e++) {
        char *value = strchr(*e, '='), *name = value ? strndup(*e, (size_t)(value - *e)) : NULL;

        if (name)
            set(env, name, json_string(value + 1));
        free(name);
    }
    return env;
}

int world_add(const struct cell *c, json_t *to)
{
    struct buf layout = BUF_INIT;
    int rc = world_add_layout(c, &layout);

    if (rc == 0 && (json_object_set_new(to, "env", world_env(c)) < 0 ||
                    json_object_set_new(to, "master", world_master(c)) < 0 ||
                    json_object_set_new(to, "layout", json_string(layout.p ? layout.p : "")) < 0))
        rc = -1;
    buf_release(&layout);
    return rc;
}
