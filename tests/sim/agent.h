/* SPDX-License-Identifier: BSD-3-Clause */
/* agent.h - a simulated agent: a real connection to the kernel with keys of its own, and simulated
 * ranks. */
#ifndef TESTS_SIM_AGENT_H
#define TESTS_SIM_AGENT_H

#include "base/loop/loop.h"
#include "protocol/keys.h"
#include "protocol/span.h"
#include "protocol/span_fields.h"
#include "tests/sim/rank.h"
#include "worker/agent/net/uplink.h"

#define SIM_RANKS_MAX 64u /* of one agent */

struct agent {
    struct loop *loop;
    struct uplink *uplink; /* NULL: it has ended */
    unsigned index;        /* in the engine's run */
    uint64_t window;       /* bytes of output that a rank may have on the way */
    struct rank rank[SIM_RANKS_MAX];
    unsigned ranks;
    struct buf scratch;
    void (*ended)(struct agent *a); /* for whoever made it */
};

struct agent_to {
    const char *endpoint;
    const struct secret *secret;
    void *context; /* NULL: one of its own, as those that get children need */
};

/* It says HELLO. -1: *err says why. */
MUST_USE int agent_open(struct agent *a, struct loop *loop, unsigned index,
                        const struct agent_to *to, struct err *err);
void agent_close(struct agent *a);
/* It ends when the turn is over. */
void agent_leave(struct agent *a);
/* Sends; who speaks is m->worker. What goes wrong is written to stderr. */
void agent_say(struct agent *a, const struct span *m);

#endif
