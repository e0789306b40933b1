/* comm.h - one NCCL communicator of ours, on one GPU: made, used, ended and aborted without ever
 * waiting unbounded.
 *
 * All are listed in a `struct comms`, so that another thread can abort them when a rank has failed:
 * what their owner waits for then returns with an error. */
#ifndef WORKER_COLLECTIVE_COMM_H
#define WORKER_COLLECTIVE_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "worker/collective/driver.h"
#include "worker/collective/limit.h"
#include "worker/collective/nccl.h"

struct comm;

struct comms {
    pthread_mutex_t lock;
    struct comm *first;
    atomic_bool aborting; /* a thread is at it */
};

MUST_USE int comms_init(struct comms *cs, struct err *err);
/* In the child of a fork: what the parent had is not ours. */
void comms_forked(struct comms *cs);
/* Aborts them all, from any thread; returns at once. Harmless where there are none. How many there
 * were. */
unsigned comms_abort(struct comms *cs);

/* Joins a communicator of `ranks` as `rank`; GPU `device` by its index in this process. Makes its
 * primary context (torch's own) the calling thread's until comm_close. `nccl` and `driver` are
 * borrowed. NULL: *err says why. */
struct comm *comm_open(struct comms *cs, const struct nccl *nccl, const struct driver *driver,
                       int device, const struct nccl_id *id, unsigned rank, unsigned ranks,
                       const struct limit *l, struct err *err);
/* Ends the communication, but not the context: to be followed by freeing what was allocated in it,
 * then by comm_close. `well`: nothing failed, so the others end it too; else it is aborted. false:
 * the GPU is still at it after seconds, so that what its copies touch must not be freed: better
 * lost than overwritten. */
MUST_USE bool comm_end(struct comm *c, bool well, const struct limit *l);
/* NULL is fine. Ends it first if comm_end has not. From the thread that opened it. */
void comm_close(struct comm *c, bool well, const struct limit *l);

const struct driver *comm_driver(const struct comm *c);
cu_stream comm_stream(const struct comm *c);

/* All enqueue `count` operations alike on the communicator's stream, as one group; n counts bytes,
 * or float32 of all_reduce. */
MUST_USE int comm_all_reduce(struct comm *c, cu_pointer in, cu_pointer out, size_t n,
                             unsigned count, const struct limit *l, struct err *err);
MUST_USE int comm_broadcast(struct comm *c, cu_pointer in, cu_pointer out, size_t n, unsigned root,
                            unsigned count, const struct limit *l, struct err *err);
/* To `next` and from `previous` at the same time. */
MUST_USE int comm_send_recv(struct comm *c, cu_pointer in, unsigned next, cu_pointer out,
                            unsigned previous, size_t n, unsigned count, const struct limit *l,
                            struct err *err);
/* Waits until the stream (event NULL) or the event is done. */
MUST_USE int comm_wait(struct comm *c, cu_event event, const struct limit *l, struct err *err);

#endif
