/* SPDX-License-Identifier: BSD-3-Clause */
/* relays.h - relays for the agents of a job that can't dial the kernel: each is a step of its own
 * on the agent's node, beside the others. */
#ifndef LAUNCHERS_SLURM_RELAYS_H
#define LAUNCHERS_SLURM_RELAYS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/loop/loop.h"
#include "launchers/launcher.h"

struct relay_child;
struct relay_place;

struct relays {
    struct relay_place *place; /* owned, by task; NULL: none was asked for */
    unsigned n;
};

/* The path of this task's agent on its node. */
void relays_found(struct relays *r, unsigned task, const char *agent);
/* A line of the task's agent. false: it is about no relay. node: borrowed until relays_stop(). */
bool relays_line(struct relays *r, struct loop *loop, unsigned long job, unsigned task,
                 const char *node, const char *line);
/* A process has ended. */
void relays_ended(struct relays *r, pid_t pid);
void relays_without(struct relays *r, unsigned task); /* its agent has ended */
void relays_stop(struct relays *r);                   /* all; none is started any more */

#endif
