/* collective.h - the Python interface of worker/collective/: connections between ranks, checks of
 * these, casts, aborts. */
#ifndef WORKER_EXT_COLLECTIVE_H
#define WORKER_EXT_COLLECTIVE_H

#include "worker/ext/python.h"

#include "base/err.h"
#include "worker/collective/comm.h"

/* The first member of the module's state. */
struct collective {
    struct nccl nccl; /* library NULL: not loaded yet */
    struct cuda_driver driver;
    struct comms comms;
    int aborted[2]; /* a pipe that a Python thread reads; -1 until it is requested */
};

/* Adds the functions to the module. -1 with a Python exception. */
MUST_USE int collective_add(PyObject *module, struct collective *c);
void collective_forked(struct collective *c);
/* Call it when a rank has failed; from any thread, without the interpreter's lock. Aborts our
 * communicators and wakes the Python thread. */
void collective_abort(void *collective);

#endif
