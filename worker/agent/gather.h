/* gather.h - what goes up: the messages of one turn of the loop leave together, as one bundle
 * (protocol/README.md, "Envelopes"). Nothing waits beyond its turn, unless there is no way up yet:
 * until the agent has its number, and while it changes from one link to another. */
#ifndef WORKER_AGENT_GATHER_H
#define WORKER_AGENT_GATHER_H

#include <stdint.h>
#include <zmq.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"

/* bytes; a message that is longer leaves at once, in a bundle of its own */
#define GATHER_ALONE 65536u
#define GATHER_ROOM  12u /* what stands before a message in a bundle */

struct gather;

struct gather *gather_create(struct loop *loop, struct err *err);
void gather_destroy(struct gather *g); /* what waits leaves, if there is a way; NULL is fine */

/* Where bundles are sent from now on (a ZeroMQ socket, borrowed); NULL: they wait. */
void gather_socket(struct gather *g, void *socket);
/* The agent's number has come: entries that wait for it get it. */
void gather_number(struct gather *g, uint32_t node);
uint32_t gather_node(const struct gather *g); /* ROUTE_KERNEL: none yet */

/* Copies msg. worker: who it is from; 0: the agent. It is stamped into the message, whatever stood
 * there. -1: it can't be sent. */
MUST_USE int gather_add(struct gather *g, uint32_t worker, struct slice msg, struct err *err);
/* The same of a message behind GATHER_ROOM bytes, of which nothing is wanted; takes msg's bytes,
 * also when it fails. A long one is not copied. */
MUST_USE int gather_give(struct gather *g, uint32_t worker, struct buf *msg, struct err *err);
/* An entry of a node below, as it came. */
MUST_USE int gather_pass(struct gather *g, struct slice whole, struct err *err);
/* A bundle from below in which every entry is to be passed on: a long one is not copied. Takes the
 * frame, always. */
MUST_USE int gather_pass_all(struct gather *g, zmq_msg_t *frame, struct err *err);
/* At once, also what waits for a number: HELLO. */
MUST_USE int gather_send_now(struct gather *g, struct slice msg, struct err *err);
void gather_flush(struct gather *g);

#endif
