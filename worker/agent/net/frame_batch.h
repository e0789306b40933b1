/* SPDX-License-Identifier: BSD-3-Clause */
/* frame_batch.h - messages to the kernel: those of one turn of the loop leave together at its end,
 * as one bundle (protocol/README.md, "Envelopes"). They wait longer only while there is no way to
 * the kernel: until the agent has its number, and while it changes to another connection. With a
 * session, this agent's own messages are kept until the kernel has acknowledged them. */
#ifndef WORKER_AGENT_NET_FRAME_BATCH_H
#define WORKER_AGENT_NET_FRAME_BATCH_H

#include <stdint.h>
#include <zmq.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop/loop.h"
#include "base/loop/message_stream.h"
#include "base/slice.h"
#include "protocol/session.h"

/* bytes; a longer message leaves at once, in its own bundle */
#define FRAME_BATCH_ALONE 65536u
#define FRAME_BATCH_ROOM  12u /* bytes of an entry's head, before its message */

struct frame_batch;

struct frame_batch *frame_batch_create(struct loop *loop, struct err *err);
void frame_batch_destroy(
    struct frame_batch *b); /* sends what waits, if there is a way; NULL is fine */

/* So much is kept that nothing more should be sent; false: no longer. */
typedef void (*frame_batch_full_f)(void *arg, bool full);

/* From now on messages with a number are kept in the session, which is borrowed, and initialised
 * here. Call it before anything is sent. f may be NULL. */
void frame_batch_session(struct frame_batch *b, struct session *session, frame_batch_full_f f,
                         void *arg);
/* The kernel says that it has received so many messages: session_acked(). */
MUST_USE int frame_batch_acked(struct frame_batch *b, uint64_t received, struct err *err);
/* The connection has ended: what waits is dropped, and messages with a number are only kept. */
void frame_batch_cut(struct frame_batch *b);
/* There is a new one, on which the kernel says that it has received so many messages. -1: it can't
 * have. */
MUST_USE int frame_batch_resume(struct frame_batch *b, void *socket, uint64_t received,
                                struct err *err);

/* The ZeroMQ socket (borrowed) on which bundles are sent from now on; NULL: they wait. */
void frame_batch_socket(struct frame_batch *b, void *socket);
/* The same for the stream of an agent on the kernel's machine. */
void frame_batch_stream(struct frame_batch *b, struct message_stream *stream);
/* Sets the agent's number, also in the entries that wait for it. */
void frame_batch_number(struct frame_batch *b, uint32_t node);
uint32_t frame_batch_node(const struct frame_batch *b); /* ROUTE_KERNEL: not known yet */

/* Copies msg. worker: the sender, which is written into the message; 0: the agent. -1: it can't be
 * sent. */
MUST_USE int frame_batch_add(struct frame_batch *b, uint32_t worker, struct slice msg,
                             struct err *err);
/* The same for a message that stands behind FRAME_BATCH_ROOM unused bytes. Takes msg's bytes, also
 * on failure. A long message is not copied. */
MUST_USE int frame_batch_give(struct frame_batch *b, uint32_t worker, struct buf *msg,
                              struct err *err);
/* An entry of a node below this one, passed on as it came. */
MUST_USE int frame_batch_pass(struct frame_batch *b, struct slice whole, struct err *err);
/* A bundle of a node below, all of which is passed on. A long one is not copied. Always takes the
 * frame. */
MUST_USE int frame_batch_pass_all(struct frame_batch *b, zmq_msg_t *frame, struct err *err);
/* Sends at once, even without a number: HELLO. */
MUST_USE int frame_batch_send_now(struct frame_batch *b, struct slice msg, struct err *err);
void frame_batch_flush(struct frame_batch *b);

#endif
