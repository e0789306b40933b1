/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/loop/monitor.h"

#include <stdio.h>
#include <zmq.h>

#include "base/random.h"

void *monitor_open(void *context, void *socket, int events, struct err *err)
{
    char id[UUID_TEXT_SIZE], name[sizeof id + 32];
    void *monitor = NULL;

    /* Each has a name of its own: ZeroMQ may still use that of a socket that was just closed. */
    random_uuid(id);
    (void)snprintf(name, sizeof name, "inproc://monitor-%s", id);
    if (zmq_socket_monitor(socket, name, events) == 0 &&
        (monitor = zmq_socket(context, ZMQ_PAIR)) && zmq_connect(monitor, name) == 0)
        return monitor;
    (void)err_set(err, "ZeroMQ: a socket's monitor: %s", zmq_strerror(zmq_errno()));
    if (monitor)
        (void)zmq_close(monitor);
    return NULL;
}
