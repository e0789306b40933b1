/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c - see host.h. Agents that get children in the tree have a ZeroMQ context each; all others
 * share one. */
#include "tests/sim/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zmq.h>

#include "kernel/agents/to_agents.h"
#include "tests/sim/agent.h"

#define SOCKETS_MAX 16384

struct host {
    struct loop *loop;
    void *context;
    struct agent *agent; /* owned, n of them */
    unsigned n, left;
};

/* The agents have no pointer to their host; the loop, which each has, is the host's. */
static void agent_ended(struct agent *a)
{
    if (!a->uplink)
        loop_stop(a->loop);
}

static unsigned living(const struct host *h)
{
    unsigned n = 0;

    for (unsigned k = 0; k < h->n; k++)
        n += h->agent[k].uplink != NULL;
    return n;
}

static void stdin_ended(void *arg, int fd, unsigned events)
{
    struct host *h = arg;
    char bytes[64];

    (void)events;
    if (read(fd, bytes, sizeof bytes) > 0)
        return;
    h->left = 0;
    loop_stop(h->loop);
}

static int open_all(struct host *h, const struct host_spec *s, struct err *err)
{
    for (unsigned i = 0; i < s->agents; i++) {
        const bool parent = tree_child(i, 0) < s->agents;
        const struct agent_to to = { s->endpoint, s->secret, parent ? NULL : h->context };
        struct agent *a = &h->agent[h->n];

        if (!s->mine[i])
            continue;
        if (agent_open(a, h->loop, i, &to, err) < 0)
            return -1;
        a->ended = agent_ended;
        h->n++;
    }
    h->left = h->n;
    return 0;
}

static int open_host(struct host *h, const struct host_spec *s, struct err *err)
{
    if (!(h->agent = calloc(s->agents, sizeof *h->agent)) || !(h->context = zmq_ctx_new()))
        return err_set(err, "out of memory");
    (void)zmq_ctx_set(h->context, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    if (!(h->loop = loop_create(&clock_system, err)) ||
        !loop_fd(h->loop, s->in, LOOP_READ, stdin_ended, h, err))
        return -1;
    return open_all(h, s, err);
}

int host_run(const struct host_spec *s)
{
    struct host h = { .n = 0 };
    struct err err = { "" };
    int rc = open_host(&h, s, &err);

    while (rc == 0 && h.left > 0 && (rc = loop_run(h.loop, &err)) == 0)
        if (h.left)
            h.left = living(&h);
    if (rc < 0)
        fprintf(stderr, "cellspan-launch-sim: %s\n", err.text);
    for (unsigned k = 0; k < h.n; k++)
        agent_close(&h.agent[k]);
    loop_destroy(h.loop);
    if (h.context)
        zmq_ctx_term(h.context);
    free(h.agent);
    return rc < 0 ? 1 : 0;
}
