/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/line.h"

#include "base/log.h"
#include "base/loop/monitor.h"

void line_close(struct uplink_line *l)
{
    watch_stop(l->ends);
    watch_stop(l->watch);
    if (l->monitor)
        (void)zmq_socket_monitor(l->socket, NULL, 0);
    zmq_close(l->monitor);
    zmq_close(l->socket);
    *l = (struct uplink_line)LINE_INIT;
}

void line_discard(struct uplink_line *l)
{
    if (l->socket && loop_zmq_set(l->socket, ZMQ_LINGER, 0) < 0)
        log_debug("uplink", "%s", zmq_strerror(zmq_errno()));
    line_close(l);
}

int line_watch_end(struct uplink_line *l, struct loop *loop, void *context, void (*f)(void *arg),
                   void *arg, struct err *err)
{
    if (!(l->monitor = monitor_open(context, l->socket, ZMQ_EVENT_DISCONNECTED, err)))
        return -1;
    return (l->ends = loop_zmq(loop, l->monitor, f, arg, err)) ? 0 : -1;
}

/* Reads an event, of two frames: each means the end. */
bool line_has_ended(struct uplink_line *l)
{
    char frame[6];

    if (!l->monitor || zmq_recv(l->monitor, frame, sizeof frame, ZMQ_DONTWAIT) < 0)
        return false;
    loop_zmq_skip(l->monitor);
    return true;
}

int line_receive(void *socket, zmq_msg_t *route, zmq_msg_t *msg, bool *empty)
{
    *empty = zmq_msg_recv(route, socket, ZMQ_DONTWAIT) < 0;
    if (*empty)
        return 0;
    if (!zmq_msg_more(route)) {
        log_warn("uplink", "one frame where a message has two: dropped");
        return 0;
    }
    if (zmq_msg_recv(msg, socket, ZMQ_DONTWAIT) < 0)
        return 0;
    if (!zmq_msg_more(msg))
        return 1;
    log_warn("uplink", "more than two frames: dropped");
    loop_zmq_skip(socket);
    return 0;
}
