/* nccl_transport.h - the transport of a check between GPUs, by NCCL. */
#ifndef WORKER_COLLECTIVE_NCCL_TRANSPORT_H
#define WORKER_COLLECTIVE_NCCL_TRANSPORT_H

#include "worker/collective/comm.h"
#include "worker/collective/transport.h"

/* Always takes ownership of the communicator, also on failure. `l` limits how long destroy waits;
 * it is borrowed until then. NULL: *err says why. */
struct transport *nccl_transport_create(struct comm *comm, unsigned rank, unsigned ranks,
                                        const struct limit *l, struct err *err);

#endif
