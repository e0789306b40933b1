/* SPDX-License-Identifier: BSD-3-Clause */
/* flusher.h - a thread that flushes buffered text every 50 ms while a cell runs. */
#ifndef WORKER_EXT_FLUSHER_H
#define WORKER_EXT_FLUSHER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"

struct flusher {
    void (*flush)(void *arg); /* takes the interpreter's lock itself */
    void *arg;
    pthread_t thread;
    /* held during a flush, and during a fork, so that no child starts with a stream's lock held */
    pthread_mutex_t turn;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    unsigned active; /* number of running cells */
    bool idle;       /* the thread waits for a cell */
    bool started;
    bool stopping;
};

MUST_USE int flusher_init(struct flusher *f, void (*flush)(void *arg), void *arg, struct err *err);
MUST_USE int flusher_start(struct flusher *f, struct err *err);
/* Waits for the thread. Release the interpreter's lock first, since the thread may wait for it. */
void flusher_stop(struct flusher *f);
void flusher_begin(struct flusher *f);
void flusher_end(struct flusher *f);
/* Call these around a fork. hold blocks during a flush: release the interpreter's lock first. */
void flusher_hold(struct flusher *f);
void flusher_release(struct flusher *f);
void flusher_forked(struct flusher *f); /* in the child */

/* Is there text in the buffer of C's stdout? true if that can't be found out. */
bool flusher_stdio_waits(void);
/* Flushes C's stdout, unless another thread is using it; never blocks for that. */
void flusher_stdio(void);

#endif
