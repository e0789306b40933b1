/* SPDX-License-Identifier: BSD-3-Clause */
/* redial.h - when an agent that has lost its connection to the kernel dials again, with which of
 * its keys, and when it gives up. Pure.
 *
 * The kernel admits one key of the agent. That is the one that RESUME has announced last, if the
 * kernel has read it, and else the one before. An agent can't know which, so it tries both. While a
 * RESUME is still on its way on a connection that the agent has given up, both may be refused: the
 * newest one before the kernel reads it, and the other one after that. Then the newest is the
 * one that holds, so it is tried once more. */
#ifndef WORKER_AGENT_NET_REDIAL_H
#define WORKER_AGENT_NET_REDIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define REDIAL_QUICK_NS     (200 * NS_PER_MS) /* between two sockets that dial */
#define REDIAL_QUICK_FOR_NS (10 * NS_PER_S)   /* so long; then a second between them */
#define REDIAL_SLOW_NS      NS_PER_S
/* for the handshake, and again for the answer to RESUME; twice as long after each attempt that took
 * too long, up to the most, or half the time for which the kernel waits: where many agents dial at
 * once, the kernel would do the work of handshakes for those that have given up */
#define REDIAL_LIMIT_NS     (3 * NS_PER_S)
#define REDIAL_LIMIT_MAX_NS (12 * NS_PER_S)

enum redial_key { REDIAL_NEWEST, REDIAL_BEFORE };

/* Read-only for others than redial.c. */
struct redial {
    uint64_t resume_ns; /* for how long the kernel waits */
    uint64_t lost_ns;   /* when the connection ended */
    uint64_t next_ns;   /* when the next attempt begins, if the one before has failed */
    uint64_t beside_ns; /* when one more socket dials in the present one */
    uint64_t limit_ns;  /* when the present one has failed */
    uint64_t may_ns;    /* so long it may take; 0: REDIAL_LIMIT_NS */
    uint64_t over_ns;   /* when the agent gives up */
    unsigned refusals;  /* one after the other */
    bool unanswered;    /* a RESUME was, since the last one that was answered */
    bool out;           /* the network is, as far as is known */
};

/* HELLO is said with the key before the newest, and names that one: until it is answered, the
 * kernel may admit either. */
void redial_hello(struct redial *r);
/* The connection has ended; the first attempt is due at once. *r is all zeros before the first
 * call. resume_ns: for how long the kernel waits for the agent. out: nothing came any more; else
 * somebody has ended it, so the network is there. */
void redial_begin(struct redial *r, uint64_t now, uint64_t resume_ns, bool out);
/* Between attempts: when there is something to do, the next one or the end. */
uint64_t redial_due_ns(const struct redial *r);
/* Is it time for an attempt? The one before must have failed: it may take long on a slow network.
 */
bool redial_is_due(const struct redial *r, uint64_t now);
/* An attempt begins, and is made with this key. chance: a random number, because many agents may
 * have lost their connections at the same time. */
enum redial_key redial_attempt(struct redial *r, uint64_t now, uint32_t chance);
/* While the attempt lasts: is it time for one more socket, with the same key, beside those that
 * wait? If so, it dials now. Only where the network is out: a machine that is too busy to answer a
 * thousand agents at once would get more to do. */
bool redial_beside(struct redial *r, uint64_t now, uint32_t chance);
/* This machine was suspended for so long, which `now` does not count. The kernel has waited
 * meanwhile. */
void redial_slept(struct redial *r, uint64_t ns);
/* The kernel has refused the key: another attempt is due at once, unless no key is left. */
void redial_refused(struct redial *r, uint64_t now);
/* The handshake is done and RESUME is sent. The kernel has admitted the key, so it waits for the
 * agent still: the time until the agent gives up begins again. */
void redial_admitted(struct redial *r, uint64_t now);
/* How long an attempt may take now. */
uint64_t redial_limit_ns(const struct redial *r);
/* It was connected, and has taken too long. */
void redial_was_slow(struct redial *r);
/* RESUME was answered: the kernel admits the newest key, and no other. */
void redial_resumed(struct redial *r);
/* The attempt has taken too long: its connection is to be closed. */
bool redial_has_failed(const struct redial *r, uint64_t now);
bool redial_was_refused(const struct redial *r); /* no key is left: the kernel goes on without it */
/* Has the agent waited for too long, or was it refused? */
bool redial_is_over(const struct redial *r, uint64_t now);

#endif
