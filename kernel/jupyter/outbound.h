/* outbound.h - one message on its way out: frames copied once into ZeroMQ's own form, sent whole or
 * not at all. */
#ifndef KERNEL_JUPYTER_OUTBOUND_H
#define KERNEL_JUPYTER_OUTBOUND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <zmq.h>

#include "base/err.h"
#include "base/slice.h"

/* Bytes that libzmq holds: its I/O thread takes off what it has begun to write. It outlives the
 * context. */
struct tally {
    atomic_size_t bytes;
};

struct outbound {
    struct outbound *next; /* whoever queues it */
    size_t size;           /* bytes, with an allowance for what each message costs */
    bool bulk;             /* whoever queues it */
    const void *counted;   /* the bytes of the frame that is counted, or NULL */
    size_t n;
    zmq_msg_t part[];
};

/* Copies the frames, n >= 1. */
struct outbound *outbound_create(const struct slice *frame, size_t n, struct err *err);
/* A frame of its own and then those of `rest`, which share their bytes; tally counts it from now
 * until libzmq begins to write it, or it is destroyed. NULL: memory is out. */
struct outbound *outbound_behind(struct slice first, struct outbound *rest, struct tally *tally);
void outbound_destroy(struct outbound *o); /* NULL is fine; also to be called after it was sent */

/* Never waits. 0: sent; 1: there is no room now, nothing was sent (try again later); -1: errno says
 * why, give it up; 2: nobody is there who wanted it, of those that are counted. */
MUST_USE int outbound_send(struct outbound *o, void *socket);

#endif
