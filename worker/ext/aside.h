/* SPDX-License-Identifier: BSD-3-Clause */
/* aside.h - messages for threads of home that run beside the main thread: subshells. The main
 * thread may be busy, so a thread of our own takes them to Python. It starts with the first such
 * message and ends when none is left. */
#ifndef WORKER_EXT_ASIDE_H
#define WORKER_EXT_ASIDE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "worker/link/packet.h"

struct aside_message {
    struct packet packet;
    struct aside_message *next;
};

struct aside {
    /* called in the thread; it takes the messages that there are. May be called in vain. */
    void (*call)(void *arg);
    void *arg;
    pthread_mutex_t lock; /* guards everything below */
    struct aside_message *first, **last;
    uint64_t taken; /* how many messages were */
    bool ready;     /* the messages can be taken */
    bool runs;      /* the thread does */
};

MUST_USE int aside_init(struct aside *a, void (*call)(void *arg), void *arg, struct err *err);
/* Takes the packet, and starts the thread if it does not run. -1: no memory. */
MUST_USE int aside_add(struct aside *a, struct packet *p);
void aside_ready(struct aside *a);                  /* from now on messages are taken */
bool aside_take(struct aside *a, struct packet *p); /* the oldest, to the caller; false: none */
/* For the child of a fork, which has no such thread: forgets all. */
void aside_forked(struct aside *a);

#endif
