/* SPDX-License-Identifier: BSD-3-Clause */
/* subshell_queue.h - messages for threads of home that run beside the main thread: subshells. The
 * main thread may be busy, so a thread of our own passes them to Python. It starts with the first
 * such message and ends when none is left. */
#ifndef WORKER_EXT_SUBSHELL_QUEUE_H
#define WORKER_EXT_SUBSHELL_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "worker/link/packet.h"

struct subshell_message {
    struct packet packet;
    struct subshell_message *next;
};

struct subshell_queue {
    /* called in the thread; it takes the messages that there are. May be called in vain. */
    void (*call)(void *arg);
    void *arg;
    pthread_mutex_t lock; /* guards everything below */
    struct subshell_message *first, **last;
    uint64_t taken; /* how many messages were */
    bool ready;     /* the messages can be taken */
    bool runs;      /* the thread does */
};

MUST_USE int subshell_queue_init(struct subshell_queue *a, void (*call)(void *arg), void *arg,
                                 struct err *err);
/* Takes the packet, and starts the thread if it does not run. -1: no memory. */
MUST_USE int subshell_queue_add(struct subshell_queue *a, struct packet *p);
void subshell_queue_ready(struct subshell_queue *a); /* from now on messages are taken */
bool subshell_queue_take(struct subshell_queue *a,
                         struct packet *p); /* the oldest, to the caller; false: none */
/* For the child of a fork, which has no such thread: forgets all. */
void subshell_queue_forked(struct subshell_queue *a);

#endif
