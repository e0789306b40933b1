/* SPDX-License-Identifier: BSD-3-Clause */
/* message_stream.h - messages on a connected unix socket: between the kernel and its own machine's
 * agent (protocol/README.md, "On one machine"). ZeroMQ would wake a thread of its own on each side
 * for every message; this reads and writes in the loop. */
#ifndef BASE_LOOP_MESSAGE_STREAM_H
#define BASE_LOOP_MESSAGE_STREAM_H

#include <zmq.h>

#include "base/loop/loop.h"
#include "base/slice.h"

/* bytes of one of a message's two parts */
#define MESSAGE_STREAM_MAX (UINT32_C(320) << 20)

struct message_stream;

struct message_stream_handler {
    /* A message's two parts; borrowed for the call. The stream may be closed in it. */
    void (*arrived)(void *arg, zmq_msg_t part[2]);
    /* Nothing more will come: the other side is gone, or sent what is no message. Only
     * message_stream_close is of use then; it may be called in here. */
    void (*ended)(void *arg, const char *why);
    void *arg;
};

/* fd: a connected stream socket; taken, also on failure. */
struct message_stream *message_stream_open(struct loop *loop, int fd,
                                           const struct message_stream_handler *handler,
                                           struct err *err);
/* Waits at most linger_ms until what was sent has left. NULL is fine. */
void message_stream_close(struct message_stream *s, int linger_ms);

/* Never blocks: what the socket has no room for leaves later. first is copied, body (NULL: empty)
 * is kept by reference. -1: the connection has ended, or memory is out; the message is lost. */
MUST_USE int message_stream_send(struct message_stream *s, struct slice first, zmq_msg_t *body,
                                 struct err *err);
/* Is it known that the other side gets nothing any more? */
bool message_stream_is_over(const struct message_stream *s);
/* Handles everything that has arrived. */
void message_stream_drain(struct message_stream *s);

#endif
