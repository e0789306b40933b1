/* SPDX-License-Identifier: BSD-3-Clause */
/* turns.h - a loop that a test turns until what it waits for is there, or its time is over. */
#ifndef TESTS_UNIT_LAUNCHERS_TURNS_H
#define TESTS_UNIT_LAUNCHERS_TURNS_H

#include <signal.h>
#include <stdbool.h>

#include "base/loop/loop.h"

#define TURNS_LIMIT_NS (60 * NS_PER_S)

struct turns {
    struct loop *loop; /* owned */
    bool late;
};

static inline void turns_stop(void *arg)
{
    loop_stop(((struct turns *)arg)->loop);
}

static inline void turns_late(void *arg)
{
    ((struct turns *)arg)->late = true;
    turns_stop(arg);
}

/* child_ended is called when children have ended. false: there is no loop. */
static inline bool turns_begin(struct turns *t, void (*child_ended)(void *arg), void *arg)
{
    *t = (struct turns){ .loop = loop_create(&clock_system, NULL) };
    return t->loop && loop_signal(t->loop, SIGCHLD, child_ended, arg, NULL) &&
           loop_timer(t->loop, TURNS_LIMIT_NS, 0, turns_late, t, NULL);
}

/* A moment of the loop. false: the time is over. */
static inline bool turns_take(struct turns *t)
{
    struct watch *w = loop_timer(t->loop, NS_PER_MS, 0, turns_stop, t, NULL);
    const bool good = loop_run(t->loop, NULL) == 0;

    watch_stop(w);
    return good && !t->late;
}

#endif
