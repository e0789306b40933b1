/* SPDX-License-Identifier: BSD-3-Clause */
/* find_waits.h - questions of ranks about the notebook's code (FIND) and home's answers (FOUND).
 * Neither waits for a main thread: any thread of a rank may ask, also in the midst of an import,
 * and home has a thread that answers. */
#ifndef WORKER_EXT_FIND_WAITS_H
#define WORKER_EXT_FIND_WAITS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "worker/ext/side_queue.h"
#include "worker/link/packet.h"

/* A thread that waits for an answer; on its stack. */
struct find_wait {
    struct find_wait *next;
    struct slice what, question; /* borrowed */
    uint64_t work_ns;            /* so long it waits once home has said that it is at work */
    uint64_t until_ns;           /* before this it does not give up */
    bool done;
    struct packet found; /* the answer; empty if there was no memory for it */
};

enum find_news { FIND_WAITS, FIND_DONE, FIND_LATE };

struct _object; /* Python's PyObject */

struct finds {
    struct side_queue queue; /* of home: the FINDs that it is to answer */
    struct _object *take; /* owned: called when there is one; guarded by the interpreter's lock */
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t news;
    struct find_wait *first;
};

MUST_USE int finds_init(struct finds *f, struct err *err);
/* A FIND or a FOUND has come. Takes the packet. -1: no memory. */
MUST_USE int finds_came(struct finds *f, struct packet *p);
/* Call finds_begin() before FIND is sent, and finds_end() always; then the caller has w->found. */
void finds_begin(struct finds *f, struct find_wait *w);
void finds_end(struct finds *f, struct find_wait *w);
/* Waits at most so long. FIND_LATE: until_ns is over, and so is the limit that home's words have
 * set. */
enum find_news finds_wait(struct finds *f, const struct find_wait *w, uint64_t ns,
                          uint64_t until_ns);
/* For the child of a fork: none of the threads is there. */
void finds_forked(struct finds *f);

#endif
