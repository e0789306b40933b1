/* SPDX-License-Identifier: BSD-3-Clause */
/* out_message.h - an outgoing message: copies the frames once into ZeroMQ messages, and sends all
 * of them or none. */
#ifndef KERNEL_JUPYTER_OUT_MESSAGE_H
#define KERNEL_JUPYTER_OUT_MESSAGE_H

#include <stdatomic.h>
#include <zmq.h>

#include "base/err.h"
#include "base/slice.h"

/* What a message costs besides its frames, as bytes: their structs and the small frames. */
#define OUT_MESSAGE_ALLOWANCE 512u

/* The bytes that libzmq holds. Its I/O thread subtracts a message when it begins to write it. Must
 * outlive the context. */
struct tally {
    atomic_size_t bytes;
};

struct out_message {
    struct out_message *next; /* for the owner's queue */
    size_t size;              /* bytes, including an allowance for each message */
    int bulk;                 /* for the owner */
    const void *counted;      /* the bytes of the frame that the tally counts, or NULL */
    size_t n;
    zmq_msg_t part[];
};

/* Copies the frames, n >= 1. */
struct out_message *out_message_create(const struct slice *frame, size_t n, struct err *err);
/* A message with its own first frame, followed by the frames of `rest`, whose bytes it shares.
 * tally counts it from now until libzmq begins to write it, or until it is destroyed. NULL: memory
 * is out. */
struct out_message *out_message_behind(struct slice first, struct out_message *rest,
                                       struct tally *tally);
void out_message_destroy(struct out_message *o); /* NULL is fine; call it also after it was sent */

/* Never blocks. 0: sent; 1: no room now, nothing was sent, try again later; 2: sent, but no
 * receiver wants it (only with a tally); -1: it can't be sent, errno says why. */
MUST_USE int out_message_send(struct out_message *o, void *socket);

#endif
