/* strays.h - the last children that ended and were no worker's main process. They are kept for a
 * while, because a rank may die before it is known which process it is. */
#ifndef WORKER_AGENT_PROCESSES_STRAYS_H
#define WORKER_AGENT_PROCESSES_STRAYS_H

#include <sys/types.h>

#include "worker/agent/processes/death_cause.h"

#define STRAYS_MAX 64u

struct strays {
    pid_t pid[STRAYS_MAX];
    struct death death[STRAYS_MAX];
    unsigned next; /* the oldest is overwritten */
};

void strays_add(struct strays *s, pid_t pid, const struct death *d);
const struct death *strays_find(const struct strays *s, pid_t pid); /* NULL: not among them */

#endif
