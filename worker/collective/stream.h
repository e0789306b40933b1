/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.h - sends and receives bytes over connections of a mesh at the same time, with a limit. */
#ifndef WORKER_COLLECTIVE_STREAM_H
#define WORKER_COLLECTIVE_STREAM_H

#include <stddef.h>

#include "base/err.h"
#include "worker/collective/deadline.h"

struct stream_end {
    int fd;        /* nonblocking, borrowed; -1: none */
    unsigned rank; /* the rank at the other end, for error texts */
};

/* Sends n_out bytes to one end and receives n_in from another (or the same one) at the same time.
 * If an end has fd -1, its number of bytes must be 0. -1: *err names the rank that did not answer
 * in time or whose connection failed. */
MUST_USE int stream_exchange(struct stream_end to, const void *out, size_t n_out,
                             struct stream_end from, void *in, size_t n_in,
                             const struct deadline *l, struct err *err);

/* Receives n bytes from one end and passes them on to the next as they come. from.fd -1: the bytes
 * are already there. to.fd -1: don't pass them on. */
MUST_USE int stream_relay(struct stream_end from, struct stream_end to, void *bytes, size_t n,
                          const struct deadline *l, struct err *err);

#endif
