/* nccl_transport.h - the transport of a check between GPUs. */
#ifndef WORKER_COLLECTIVE_NCCL_TRANSPORT_H
#define WORKER_COLLECTIVE_NCCL_TRANSPORT_H

#include "worker/collective/comm.h"
#include "worker/collective/transport.h"

/* Takes the communicator, in all cases; `l` (borrowed until destroy) bounds its end. NULL: *err
 * says why. */
struct transport *nccl_transport_create(struct comm *comm, unsigned rank, unsigned ranks,
                                        const struct limit *l, struct err *err);

#endif
