/* SPDX-License-Identifier: BSD-3-Clause */
/* side_queue.h - messages that home takes beside its main thread, which may be busy: those for
 * subshells, and ranks' questions about code. A thread of our own passes them to Python. It starts
 * with the first such message and ends when none is left. */
#ifndef WORKER_EXT_SIDE_QUEUE_H
#define WORKER_EXT_SIDE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "worker/link/packet.h"

struct side_message {
    struct packet packet;
    struct side_message *next;
};

struct side_queue {
    /* called in the thread; it takes the messages that there are. May be called in vain. */
    void (*call)(void *arg);
    void *arg;
    pthread_mutex_t lock; /* guards everything below */
    struct side_message *first, **last;
    uint64_t taken; /* how many messages were */
    bool ready;     /* the messages can be taken */
    bool runs;      /* the thread does */
};

MUST_USE int side_queue_init(struct side_queue *a, void (*call)(void *arg), void *arg,
                             struct err *err);
/* Takes the packet, and starts the thread if it does not run. -1: no memory. */
MUST_USE int side_queue_add(struct side_queue *a, struct packet *p);
void side_queue_ready(struct side_queue *a); /* from now on messages are taken */
bool side_queue_take(struct side_queue *a,
                     struct packet *p); /* the oldest, to the caller; false: none */
/* For the child of a fork, which has no such thread: forgets all. */
void side_queue_forked(struct side_queue *a);

#endif
