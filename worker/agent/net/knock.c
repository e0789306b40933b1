/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/knock.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/loop/monitor.h"
#include "worker/agent/net/socket.h"

#define EVENTS_PER_TURN 16

struct knock {
    struct loop *loop;
    void *socket, *monitor;
    struct watch *watch;
    int fd;
    knock_f f;
    void *arg;
    bool over;
};

void *knock_take(struct knock *k)
{
    void *const socket = k->socket;

    k->over = true;
    watch_stop(k->watch);
    if (k->monitor) {
        (void)zmq_socket_monitor(socket, NULL, 0);
        zmq_close(k->monitor);
    }
    loop_free(k->loop, k); /* functions up the stack still use it */
    return socket;
}

/* A handshake that has begun ends, too: else it would be a second one with a key. */
void knock_stop(struct knock *k)
{
    if (!k || k->over)
        return;
    (void)!loop_zmq_set(k->socket, ZMQ_LINGER, 0);
    zmq_close(knock_take(k));
}

int knock_fd(const struct knock *k)
{
    return k->fd;
}

/* libzmq reports no failure of a peer that speaks as its version 1 did, as does everything that
 * begins with text: only that the connection has ended. */
static enum knock_news news_of(uint16_t event)
{
    switch (event) {
    case ZMQ_EVENT_CONNECTED:
        return KNOCK_CONNECTED;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        return KNOCK_UP;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        return KNOCK_REFUSED;
    case ZMQ_EVENT_CLOSED:
        return KNOCK_FAILED;
    default:
        return KNOCK_STRANGE;
    }
}

/* An event has two frames: number:u16 value:u32, in this machine's byte order, and the endpoint. */
static void monitor_ready(void *arg)
{
    struct knock *k = arg;
    uint16_t event;
    uint32_t value;
    char frame[6];

    for (int i = 0; i < EVENTS_PER_TURN && !k->over; i++) {
        if (zmq_recv(k->monitor, frame, sizeof frame, ZMQ_DONTWAIT) != (int)sizeof frame)
            return;
        loop_zmq_skip(k->monitor);
        memcpy(&event, frame, sizeof event);
        memcpy(&value, frame + sizeof event, sizeof value);
        if (event == ZMQ_EVENT_CONNECTED)
            k->fd = (int)value;
        k->f(k->arg, k, news_of(event));
    }
}

static int watch(struct knock *k, void *context, struct err *err)
{
    const int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED |
                       ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

    if (!(k->monitor = monitor_open(context, k->socket, events, err)))
        return -1;
    return (k->watch = loop_zmq(k->loop, k->monitor, monitor_ready, k, err)) ? 0 : -1;
}

struct knock *knock_start(struct loop *loop, const struct knock_to *to, knock_f f, void *arg,
                          struct err *err)
{
    struct knock *k = calloc(1, sizeof *k);

    if (!k)
        return err_null(err, "out of memory");
    *k = (struct knock){ .loop = loop, .fd = -1, .f = f, .arg = arg };
    if ((k->socket = socket_dialer(to->context, to->own, to->server, err)) &&
        watch(k, to->context, err) == 0) {
        if ((!to->limited || socket_limit_dial(k->socket)) &&
            zmq_connect(k->socket, to->endpoint) == 0)
            return k;
        (void)err_set(err, "%s", zmq_strerror(zmq_errno()));
    }
    knock_stop(k);
    return NULL;
}
