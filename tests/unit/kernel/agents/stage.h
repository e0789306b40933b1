/* SPDX-License-Identifier: BSD-3-Clause */
/* stage.h - sets up kernel/agents and kernel/engines for tests as a kernel does: a folder with an
 * engine that does as told, and peers that act as agents on real sockets with CURVE. */
#ifndef TESTS_UNIT_KERNEL_AGENTS_STAGE_H
#define TESTS_UNIT_KERNEL_AGENTS_STAGE_H

#include "kernel/agents/private.h"
#include "kernel/engines/private.h"
#include "protocol/span_fields.h"

#define STAGE_NODES 128u

struct stage {
    struct loop *loop;
    struct agents *agents;
    struct engines *engines;
    void *zmq; /* the peers' */
    char folder[64];
    struct secret secret;     /* of the last engine */
    char endpoint[128];       /* on loopback, of the last engine */
    unsigned up[STAGE_NODES]; /* times */
    unsigned lost[STAGE_NODES], order[STAGE_NODES], n_lost;
    char why[STAGE_NODES][1024];
    unsigned engine_nodes_said, failed;
    unsigned away[STAGE_NODES], back[STAGE_NODES]; /* times */
    unsigned replaced, by; /* the last node in whose place another comes, and that one */
    char says[4096], failure[32768];
    unsigned messages, from_node, from_worker;
    enum span_kind kind;
    unsigned notices, notice_s; /* how many came, and the last one's seconds and text */
    char notice[64];
    bool pumped;
    struct clock clock;
    bool is_still; /* time stands still, at still_ns */
    /* ahead_ns: of the system's clock, modulo 2^64, when it does not */
    uint64_t still_ns, ahead_ns;
    uint64_t slept_ns; /* for how long the kernel's machine was suspended */
};

enum peer_key { PEER_CURVE, PEER_WRONG, PEER_NULL };

struct peer {
    void *socket;
    zmq_msg_t route, body; /* of the last message */
    struct span last;      /* borrows from body */
    bool has;
};

/* Once, before the first stage: random numbers, orphans that become ours, and longer limits of
 * silence, after which a node is lost. */
void stage_ready(void);
void stage_open(struct stage *s);
void stage_close(struct stage *s);
/* Runs the loop until the count is at least `want`, or 10 s have passed. */
bool stage_until(struct stage *s, const unsigned *count, unsigned want);
void stage_pass(struct stage *s, unsigned ms);
/* From now on the kernel's time stands still until stage_close, but for stage_skip. What sockets
 * and processes do is served all the same. */
void stage_still(struct stage *s);
/* So much of the kernel's time passes at once, in steps that are too small for it to think that the
 * machine slept. */
void stage_skip(struct stage *s, unsigned ms);
/* An engine that runs this line of shell, and then waits for the end of its stdin. Its number; its
 * secret is in s->secret. */
unsigned stage_engine(struct stage *s, const char *shell);
/* The number of its first node, once it has said how many there are. */
unsigned stage_first(struct stage *s, unsigned engine);

void peer_open(struct stage *s, struct peer *p, unsigned index, enum peer_key key);
/* Comes in place of `turn` others. */
void peer_open_turn(struct stage *s, struct peer *p, unsigned index, unsigned turn,
                    enum peer_key key);
/* With these keys; NULL: none. */
void peer_open_with(struct stage *s, struct peer *p, const struct keys *keys);
void peer_close(struct peer *p);
void peer_say(struct peer *p, uint32_t node, uint32_t worker, const struct span *m);
void peer_hello(struct peer *p);
/* n agents of the last run, from index 0, open and say HELLO; all are up, as nodes from `first`:
 * false after 10 s. */
bool peers_up(struct stage *s, struct peer *peer, unsigned n, unsigned first);
/* Runs the loop until the peer gets a message of that kind: false after 10 s. */
bool peer_gets(struct stage *s, struct peer *p, enum span_kind kind);
/* Its last message's route, as "1:2,3 4:". */
const char *peer_route(struct peer *p, char *out, size_t size);

#endif
