/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_link.h - sends the agent's messages to its kernel, and ends the agent. Without its kernel
 * an agent is of no use, so a message that can't be sent ends it. */
#ifndef WORKER_AGENT_NET_KERNEL_LINK_H
#define WORKER_AGENT_NET_KERNEL_LINK_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/loop/loop.h"
#include "protocol/span.h"

struct uplink;

struct kernel_link {
    struct loop *loop;     /* borrowed */
    const char *node;      /* this host's name, for errors; borrowed */
    struct uplink *uplink; /* owned; NULL until the agent dials */
    struct buf scratch;    /* the message that is being encoded */
    bool quitting;         /* the agent ends: no process is started any more */
    int status;            /* the agent's exit status */
};

void kernel_link_release(struct kernel_link *k);
/* Sends m as from m->worker (0: the agent). A message that is too long is logged. A message that
 * can't be sent ends the agent, because the kernel may wait for it. */
void kernel_link_send(struct kernel_link *k, const struct span *m);
/* The loop stops, and with it the agent. */
void kernel_link_quit(struct kernel_link *k, const char *why);
/* The same, but the agent ends by itself: the kernel is told, so that it does not wait for this
 * agent. */
void kernel_link_end(struct kernel_link *k, const char *why);
/* Would it be waited for if it were gone, and the agent end after that? */
bool kernel_link_outlasts(const struct kernel_link *k);
/* As kernel_link_quit(), but with exit status 1, and a line on stderr for whoever started the
 * agent. */
void kernel_link_fail(struct kernel_link *k, const char *why);
void kernel_link_refused(struct kernel_link *k, struct slice why); /* The same: REFUSE has come. */

#endif
