/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h - an NCCL communicator on one GPU. No function waits without a limit.
 *
 * A `struct comms` lists all communicators, so that another thread can abort them when a rank has
 * failed. Then the owner's waiting call returns with an error. */
#ifndef WORKER_COLLECTIVE_COMM_H
#define WORKER_COLLECTIVE_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "worker/collective/cuda_driver.h"
#include "worker/collective/deadline.h"
#include "worker/collective/nccl.h"

struct comm;

struct comms {
    pthread_mutex_t lock;
    struct comm *first;
    atomic_bool aborting; /* a thread is aborting them */
};

MUST_USE int comms_init(struct comms *cs, struct err *err);
/* Call it in the child of a fork: forgets the parent's communicators. */
void comms_forked(struct comms *cs);
/* Aborts all communicators; from any thread. Returns at once, with their number (may be 0). */
unsigned comms_abort(struct comms *cs);

/* Joins a communicator of `ranks` as `rank`. device: the GPU's index in this process. Its primary
 * context (which torch uses, too) is the calling thread's context until comm_close. `nccl` and
 * `driver` are borrowed. NULL: *err says why. */
struct comm *comm_open(struct comms *cs, const struct nccl *nccl, const struct cuda_driver *driver,
                       int device, const struct nccl_id *id, unsigned rank, unsigned ranks,
                       const struct deadline *l, struct err *err);
/* Ends the communication, but keeps the context: then free what you allocated in it, then call
 * comm_close. well: nothing has failed, so the other ranks end it, too. Otherwise it is aborted.
 * Returns false if the GPU is still busy after some seconds. Then don't free the memory that its
 * copies use: a leak is better than overwritten memory. */
MUST_USE bool comm_end(struct comm *c, bool well, const struct deadline *l);
/* NULL is fine. Calls comm_end first if needed. Call it from the thread that opened it. */
void comm_close(struct comm *c, bool well, const struct deadline *l);

const struct cuda_driver *comm_driver(const struct comm *c);
cu_stream comm_stream(const struct comm *c);

/* These enqueue `count` equal operations on the communicator's stream, as one group. n counts
 * bytes, but float32 elements for all_reduce. */
MUST_USE int comm_all_reduce(struct comm *c, cu_pointer in, cu_pointer out, size_t n,
                             unsigned count, const struct deadline *l, struct err *err);
MUST_USE int comm_broadcast(struct comm *c, cu_pointer in, cu_pointer out, size_t n, unsigned root,
                            unsigned count, const struct deadline *l, struct err *err);
/* Sends to `next` and receives from `previous` at the same time. */
MUST_USE int comm_send_recv(struct comm *c, cu_pointer in, unsigned next, cu_pointer out,
                            unsigned previous, size_t n, unsigned count, const struct deadline *l,
                            struct err *err);
/* Waits until the event, or the whole stream if event is NULL, is done. */
MUST_USE int comm_wait(struct comm *c, cu_event event, const struct deadline *l, struct err *err);

#endif
