/* SPDX-License-Identifier: BSD-3-Clause */
/* join.h - connects the agent to its kernel: finds the endpoint that answers, opens the uplink,
 * sends HELLO; and the error text if that fails. */
#ifndef WORKER_AGENT_NET_JOIN_H
#define WORKER_AGENT_NET_JOIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop/loop.h"
#include "protocol/keys.h"
#include "worker/agent/net/uplink.h"

/* the exit status if the kernel can't be reached or does not answer */
#define JOIN_STATUS_UNREACHED 3

struct dial;
struct kernel_link;

/* Kernel, connect, folder and offered are set by its owner; everything else is zero at first. */
struct join {
    struct kernel_link *kernel;    /* borrowed */
    const char *connect;           /* the kernel's endpoints, separated by commas; borrowed */
    const char *folder;            /* the agent's, for a relay; borrowed; NULL: it has none */
    bool offered;                  /* the launcher starts a relay if it is asked for one */
    struct uplink_handler handler; /* of the uplink */
    struct keys keys;              /* the agent's; wiped when the uplink is open */
    unsigned char kernel_key[KEY_SIZE];
    bool has_keys;             /* false: the kernel is on this machine */
    char *endpoint;            /* to which the uplink was opened */
    char *with_relay;          /* while a relay is wanted: all endpoints, with its own; owned */
    _Atomic uint64_t *relayed; /* if one is offered: its count; owned */
    void *context; /* of ZeroMQ, if the kernel is on another machine; it outlives the uplink */
    struct dial *dial;
    struct watch *limit; /* for WELCOME to arrive */
    uint64_t limit_ns;
};

/* Is the kernel of this --connect on another machine? Then a secret is needed. */
bool join_is_remote(const char *connect);
/* Derives the keys of agent `index` in its turn. The secret is the caller's to wipe. */
void join_keys(struct join *j, const struct secret *s, uint32_t index, uint32_t turn);
/* Begins. What fails later ends the agent: its status is set, and a line on stderr says why. */
MUST_USE int join_start(struct join *j, const struct uplink_handler *handler, struct err *err);
void join_release(struct join *j); /* after kernel_link_release */

#endif
