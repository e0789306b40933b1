/* SPDX-License-Identifier: BSD-3-Clause */
/* relay_child.h - the launcher's end of a relay: runs `cellspan-agent --relay FOLDER` on the
 * agent's machine by the launcher's own way in, and dials the kernel for each connection that comes
 * from there. It is started again as often as it ends. */
#ifndef LAUNCHERS_RELAY_CHILD_H
#define LAUNCHERS_RELAY_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/loop/loop.h"
#include "launchers/launcher.h"
#include "launchers/login_limit.h"

/* The option of cellspan-agent. */
#define RELAY_OPTION "--relay"

struct relay_child;

struct relay_child_spec {
    struct loop *loop;
    struct login_limit *login_limit; /* borrowed; NULL: it need not wait for others */
    const char *host;   /* for what the user reads; borrowed until relay_child_stop() */
    const char *way;    /* the program that leads there, for the same; a constant */
    const char *why;    /* why the agent can't dial the kernel; borrowed for the call */
    struct words *argv; /* the whole command; taken, and left empty */
};

/* CELLSPAN_KERNEL_ENDPOINT says what is dialed. NULL: *err says why. */
struct relay_child *relay_child_start(const struct relay_child_spec *spec, struct err *err);
/* Ends its process, for which the caller still has to wait. NULL is fine. */
void relay_child_stop(struct relay_child *r);
/* A process has ended. true: it was this relay's. NULL is fine. */
bool relay_child_ended(struct relay_child *r, pid_t pid);

#endif
