/* SPDX-License-Identifier: BSD-3-Clause */
/* resuming.h - agents on the stage that can resume. Its functions make checks, which tap.h counts
 * in each file alone. */
#ifndef TESTS_UNIT_KERNEL_AGENTS_RESUMING_H
#define TESTS_UNIT_KERNEL_AGENTS_RESUMING_H

#include "tests/unit/kernel/agents/stage.h"
#include "tests/unit/tap.h"

/* What is said of one whose connection was closed. */
#define CLOSED "its agent has ended, or was cut off: the connection was closed"

static inline const struct node_link *link_of(const struct stage *s, unsigned node)
{
    return node_table_get(&s->agents->nodes, node);
}

/* HELLO of an agent whose next key is that. */
static inline void hello(struct peer *p, const struct keys *next)
{
    struct span m = { .kind = SPAN_HELLO,
                      .v[F_HELLO_VERSION].u64 = SPAN_VERSION,
                      .v[F_HELLO_PID].u64 = 4711 };

    m.v[F_HELLO_ADDRESSES].s = slice_text("lo=127.0.0.1");
    m.v[F_HELLO_NEXT].s = slice_of(next->public, KEY_SIZE);
    peer_say(p, ROUTE_KERNEL, 0, &m);
}

static inline void resume(struct peer *p, unsigned number, uint64_t received,
                          const unsigned char next[KEY_SIZE])
{
    struct span m = { .kind = SPAN_RESUME,
                      .v[F_RESUME_VERSION].u64 = SPAN_VERSION,
                      .v[F_RESUME_NUMBER].u64 = number,
                      .v[F_RESUME_RECEIVED].u64 = received };

    m.v[F_RESUME_NEXT].s = slice_of(next, KEY_SIZE);
    peer_say(p, ROUTE_KERNEL, 0, &m);
}

/* Two agents that can resume, of an engine that runs this line. The number of the first. */
static inline unsigned two_of(struct stage *s, const char *line, struct peer peer[2],
                              struct keys next[2])
{
    unsigned first;

    stage_open(s);
    first = stage_first(s, stage_engine(s, line));
    for (unsigned k = 0; k < 2; k++) {
        keys_create(&next[k]);
        peer_open(s, &peer[k], k, PEER_CURVE);
        hello(&peer[k], &next[k]);
        ok(peer_gets(s, &peer[k], SPAN_WELCOME), "an agent is welcome");
    }
    return first;
}

static inline unsigned two_up(struct stage *s, struct peer peer[2], struct keys next[2])
{
    return two_of(s, "echo nodes 2", peer, next);
}

/* Its connection ends, and the kernel has seen it. */
static inline void cut(struct stage *s, struct peer *p, unsigned node)
{
    peer_close(p);
    for (unsigned k = 0; !link_of(s, node)->cut && k < 2000; k++)
        stage_pass(s, 5);
}

#endif
