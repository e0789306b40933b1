/* SPDX-License-Identifier: BSD-3-Clause */
/* strays.c - remembers children that ended and are not known as workers (declared in
 * death_cause.h). */
#include "worker/agent/processes/death_cause.h"

#include <stddef.h>

void strays_add(struct strays *s, pid_t pid, const struct death *d)
{
    const unsigned i = s->next++ % STRAYS_MAX;

    s->pid[i] = pid;
    s->death[i] = *d;
}

const struct death *strays_find(const struct strays *s, pid_t pid)
{
    for (unsigned i = 0; i < STRAYS_MAX; i++)
        if (s->pid[i] == pid)
            return &s->death[i];
    return NULL;
}
