/* stream.h - bytes over connections of a mesh, both ways at once, under a limit. */
#ifndef WORKER_COLLECTIVE_STREAM_H
#define WORKER_COLLECTIVE_STREAM_H

#include <stddef.h>

#include "base/err.h"
#include "worker/collective/limit.h"

struct stream_end {
    int fd;        /* nonblocking, borrowed; -1: nobody */
    unsigned rank; /* who is at the other end, for words */
};

/* Sends n_out bytes to one end and takes n_in from another (or the same one) at the same time. -1:
 * *err names the rank that was waited for, or whose connection failed. An end that is nobody goes
 * with 0 bytes. */
MUST_USE int stream_exchange(struct stream_end to, const void *out, size_t n_out,
                             struct stream_end from, void *in, size_t n_in, const struct limit *l,
                             struct err *err);

/* Takes n bytes from one end (nobody: they are there already) and passes them on to the next (or to
 * nobody) as they come. */
MUST_USE int stream_relay(struct stream_end from, struct stream_end to, void *bytes, size_t n,
                          const struct limit *l, struct err *err);

#endif
