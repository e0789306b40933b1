/* frame_batch.h - what goes up: the messages of one turn of the loop leave together, as one bundle
 * (protocol/README.md, "Envelopes"). Nothing waits beyond its turn, unless there is no way up yet:
 * until the agent has its number, and while it changes from one link to another. */
#ifndef WORKER_AGENT_NET_FRAME_BATCH_H
#define WORKER_AGENT_NET_FRAME_BATCH_H

#include <stdint.h>
#include <zmq.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"

/* bytes; a message that is longer leaves at once, in a bundle of its own */
#define FRAME_BATCH_ALONE 65536u
#define FRAME_BATCH_ROOM  12u /* what stands before a message in a bundle */

struct frame_batch;

struct frame_batch *frame_batch_create(struct loop *loop, struct err *err);
void frame_batch_destroy(
    struct frame_batch *b); /* what waits leaves, if there is a way; NULL is fine */

/* Where bundles are sent from now on (a ZeroMQ socket, borrowed); NULL: they wait. */
void frame_batch_socket(struct frame_batch *b, void *socket);
/* The agent's number has come: entries that wait for it get it. */
void frame_batch_number(struct frame_batch *b, uint32_t node);
uint32_t frame_batch_node(const struct frame_batch *b); /* ROUTE_KERNEL: none yet */

/* Copies msg. worker: who it is from; 0: the agent. It is stamped into the message, whatever stood
 * there. -1: it can't be sent. */
MUST_USE int frame_batch_add(struct frame_batch *b, uint32_t worker, struct slice msg,
                             struct err *err);
/* The same of a message behind FRAME_BATCH_ROOM bytes, of which nothing is wanted; takes msg's
 * bytes, also when it fails. A long one is not copied. */
MUST_USE int frame_batch_give(struct frame_batch *b, uint32_t worker, struct buf *msg,
                              struct err *err);
/* An entry of a node below, as it came. */
MUST_USE int frame_batch_pass(struct frame_batch *b, struct slice whole, struct err *err);
/* A bundle from below in which every entry is to be passed on: a long one is not copied. Takes the
 * frame, always. */
MUST_USE int frame_batch_pass_all(struct frame_batch *b, zmq_msg_t *frame, struct err *err);
/* At once, also what waits for a number: HELLO. */
MUST_USE int frame_batch_send_now(struct frame_batch *b, struct slice msg, struct err *err);
void frame_batch_flush(struct frame_batch *b);

#endif
