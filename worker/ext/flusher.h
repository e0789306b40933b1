/* flusher.h - text that sits in a buffer is seen after 50 ms while a cell runs. */
#ifndef WORKER_EXT_FLUSHER_H
#define WORKER_EXT_FLUSHER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"

struct flusher {
    void (*flush)(void *arg); /* takes the interpreter's lock itself */
    void *arg;
    pthread_t thread;
    /* held during a flush; a fork takes it, so that no child is born with a stream's lock held */
    pthread_mutex_t turn;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    unsigned active; /* cells that run */
    bool idle;       /* the thread waits for a cell */
    bool started;
    bool stopping;
};

MUST_USE int flusher_init(struct flusher *f, void (*flush)(void *arg), void *arg, struct err *err);
MUST_USE int flusher_start(struct flusher *f, struct err *err);
/* May be called with the interpreter's lock held only when the thread cannot be waiting for it:
 * release it first. */
void flusher_stop(struct flusher *f);
void flusher_begin(struct flusher *f);
void flusher_end(struct flusher *f);
/* Around a fork; hold blocks while a flush is under way: release the interpreter's lock first. */
void flusher_hold(struct flusher *f);
void flusher_release(struct flusher *f);
void flusher_forked(struct flusher *f); /* in the child */

/* Does C's stdout hold text? true where that can't be told. */
bool flusher_stdio_waits(void);
/* Hands C's buffered text to the pipes; never waits for a stream that is in use. */
void flusher_stdio(void);

#endif
