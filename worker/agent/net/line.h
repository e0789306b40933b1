/* SPDX-License-Identifier: BSD-3-Clause */
/* line.h - a ZeroMQ connection that leads to the kernel, directly or through a parent, and its end.
 */
#ifndef WORKER_AGENT_NET_LINE_H
#define WORKER_AGENT_NET_LINE_H

#include <stdbool.h>
#include <zmq.h>

#include "base/err.h"
#include "base/loop/loop.h"

struct uplink_line {
    void *socket; /* owned; NULL: there is no connection */
    struct watch *watch;
    void *monitor; /* tells that the connection has ended; NULL: nobody asks */
    struct watch *ends;
};

#define LINE_INIT { NULL, NULL, NULL, NULL }

/* What was sent still leaves, for a moment. Does nothing without a connection. */
void line_close(struct uplink_line *l);
/* What was sent does not leave any more: it will be sent on another connection. */
void line_discard(struct uplink_line *l);
/* From now on f is called when the connection has ended; it asks line_has_ended(). */
MUST_USE int line_watch_end(struct uplink_line *l, struct loop *loop, void *context,
                            void (*f)(void *arg), void *arg, struct err *err);
bool line_has_ended(struct uplink_line *l);
/* Receives the two frames of a message, into initialised ones. 1: received; 0: nothing is there
 * (*empty), or it was dropped as wrong. */
int line_receive(void *socket, zmq_msg_t *route, zmq_msg_t *msg, bool *empty);

#endif
