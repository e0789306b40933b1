/* SPDX-License-Identifier: BSD-3-Clause */
/* resume.h - dials the kernel again after the agent's connection has ended, until it answers. For
 * each connection the agent makes a key pair of its own, in memory only: the kernel admits exactly
 * one key, the one that HELLO or the last RESUME named. If an answer to RESUME was lost, the agent
 * does not know whether that is the newest or the one before, so it tries both. redial.h
 * decides when, with which key, and for how long. protocol/README.md, RESUME. */
#ifndef WORKER_AGENT_NET_RESUME_H
#define WORKER_AGENT_NET_RESUME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop/loop.h"
#include "protocol/keys.h"

struct resume;

struct resume_handler {
    /* The kernel has let this connection in: resume_say() is to be called with the socket, which is
     * owned by the callee. */
    void (*connected)(void *arg, void *socket);
    /* It was not answered in time: the socket is to be closed. The next attempt follows. Also the
     * first connection, on which HELLO was said: then resume_start() is to be called. */
    void (*unanswered)(void *arg);
    /* No attempt follows: the kernel admits neither key, so it has given up this agent, or it could
     * not be reached for too long. */
    void (*over)(void *arg, bool refused);
    void *arg;
};

/* Whom to ask for another way to the kernel. f is called with yes if no connection could be made
 * within RESUME_STUCK_NS after the last one ended. It is called with no when there is a connection
 * after that which goes through no relay. It returns the endpoints that the next attempts dial,
 * borrowed until it is called again; NULL: the same as before. */
struct resume_stuck {
    const char *(*f)(void *arg, bool yes); /* NULL: nobody */
    bool asked; /* already, for a relay, through which the first connection goes */
    void *arg;
};
#define RESUME_STUCK_NS (2 * NS_PER_S)

struct resume_to {
    const char *endpoints;       /* of the kernel, separated by commas; copied */
    void *context;               /* of ZeroMQ; borrowed */
    const unsigned char *kernel; /* its public key; copied */
    const struct keys *own;      /* with which the agent connects first; copied */
    uint64_t hello_ns;           /* for the answer to HELLO; 0: it is not said anew */
    struct resume_stuck stuck;
};

/* NULL: *err says why. */
struct resume *resume_create(struct loop *loop, const struct resume_to *to,
                             const struct resume_handler *handler, struct err *err);
void resume_destroy(struct resume *r); /* wipes the keys; NULL is fine */

/* The public key with which the agent will connect after this connection. */
const unsigned char *resume_next(const struct resume *r);
/* HELLO was sent, and is not answered: if the connection ends before resume_done(), it is sent
 * again instead of RESUME. Copies the message. */
MUST_USE int resume_hello(struct resume *r, struct slice hello, struct err *err);
/* Sends RESUME of the node, or HELLO again, on the socket that `connected` got. */
MUST_USE int resume_say(const struct resume *r, void *socket, uint32_t node, uint64_t received,
                        struct err *err);
/* The connection has ended: the attempts begin. resume_ns: for how long the kernel waits. out:
 * nobody has ended it, but nothing came any more: the network may be out. */
void resume_start(struct resume *r, uint64_t resume_ns, bool out);
/* The connection that was given to `connected` has ended without an answer. */
void resume_again(struct resume *r);
/* RESUME was answered. */
void resume_done(struct resume *r);
/* HELLO was. agents: of this one's engine. */
void resume_welcome(struct resume *r, uint64_t agents);

#endif
