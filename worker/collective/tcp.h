/* tcp.h - the transport of a check where there are no GPUs: ring all-reduce of float32, a chain for
 * broadcasts. */
#ifndef WORKER_COLLECTIVE_TCP_H
#define WORKER_COLLECTIVE_TCP_H

#include "worker/collective/stream.h"
#include "worker/collective/transport.h"

/* Rank `rank` of `ranks`, with connections to its neighbours in the ring: next is (rank + 1) %
 * ranks, previous the other way. Their descriptors are borrowed and must be there longer than the
 * transport. With one rank there are no neighbours. NULL: out of memory. */
struct transport *tcp_create(unsigned rank, unsigned ranks, struct stream_end previous,
                             struct stream_end next, struct err *err);

#endif
