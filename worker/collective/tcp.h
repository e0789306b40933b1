/* tcp.h - the transport of a check without GPUs, over tcp: a ring for the all-reduce of float32, a
 * chain for broadcasts. */
#ifndef WORKER_COLLECTIVE_TCP_H
#define WORKER_COLLECTIVE_TCP_H

#include "worker/collective/stream.h"
#include "worker/collective/transport.h"

/* previous, next: connections to the neighbours (rank - 1) and (rank + 1) modulo `ranks`. Their
 * descriptors are borrowed and must outlive the transport. With one rank there are no neighbours.
 * NULL: out of memory. */
struct transport *tcp_create(unsigned rank, unsigned ranks, struct stream_end previous,
                             struct stream_end next, struct err *err);

#endif
