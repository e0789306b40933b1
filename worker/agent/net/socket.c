/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/socket.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop/loop.h"
#include "base/ports.h"

#define LINGER_MS    500
#define CONNECT_MS   2000  /* see socket_limit_dial() */
#define HANDSHAKE_MS 10000 /* a handshake that takes longer is cut off */
/* a message has at most 300 MiB, and a bundle a little more */
#define FRAME_MAX (INT64_C(320) << 20)
#define DOMAIN    "cellspan.peers"

static bool set_all(void *socket)
{
    const int64_t most = FRAME_MAX;

    return loop_zmq_set(socket, ZMQ_SNDHWM, 0) == 0 && loop_zmq_set(socket, ZMQ_RCVHWM, 0) == 0 &&
           loop_zmq_set(socket, ZMQ_LINGER, LINGER_MS) == 0 &&
           loop_zmq_set(socket, ZMQ_IPV6, 1) == 0 &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most) == 0;
}

static bool set_curve(void *socket, const struct keys *own)
{
    return zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, own->public, KEY_SIZE) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, own->secret, KEY_SIZE) == 0;
}

void *socket_dialer(void *context, const struct keys *own, const unsigned char *server,
                    struct err *err)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    bool good = socket && set_all(socket) && loop_zmq_set(socket, ZMQ_RECONNECT_IVL, -1) == 0;

    if (good)
        good = set_curve(socket, own) &&
               zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, KEY_SIZE) == 0;
    if (good)
        return socket;
    (void)err_set(err, "ZeroMQ: %s", zmq_strerror(zmq_errno()));
    zmq_close(socket);
    return NULL;
}

bool socket_limit_dial(void *socket)
{
    return loop_zmq_set(socket, ZMQ_CONNECT_TIMEOUT, CONNECT_MS) == 0;
}

static int bind_address(void *socket, const char *address, unsigned port)
{
    char endpoint[64];

    if (port)
        snprintf(endpoint, sizeof endpoint, "tcp://%s:%u", address, port);
    else
        snprintf(endpoint, sizeof endpoint, "tcp://%s:*", address);
    return zmq_bind(socket, endpoint) < 0 ? zmq_errno() : 0;
}

/* Not every machine has IPv6. */
static int bind_port(void *socket, unsigned port)
{
    const int why = bind_address(socket, "[::]", port);

    if (!why || why == EADDRINUSE || why == EACCES)
        return why;
    return loop_zmq_set(socket, ZMQ_IPV6, 0) < 0 ? zmq_errno()
                                                 : bind_address(socket, "0.0.0.0", port);
}

static int bind_any(void *socket, unsigned *port, struct err *err)
{
    char endpoint[128] = "";
    size_t size = sizeof endpoint;
    const char *colon;

    if (ports_listen(bind_port, socket, err) < 0)
        return -1;
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0 &&
        (colon = strrchr(endpoint, ':')))
        *port = (unsigned)strtoul(colon + 1, NULL, 10);
    return *port ? 0 : err_set(err, "its tcp port is not known");
}

void *socket_router(void *context, const struct keys *own, unsigned *port, struct err *err)
{
    void *socket = zmq_socket(context, ZMQ_ROUTER);
    struct err why = { "" };

    *port = 0;
    if (socket && set_all(socket) && loop_zmq_set(socket, ZMQ_ROUTER_MANDATORY, 1) == 0 &&
        loop_zmq_set(socket, ZMQ_CURVE_SERVER, 1) == 0 &&
        loop_zmq_set(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) == 0 && set_curve(socket, own) &&
        zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, DOMAIN, sizeof DOMAIN - 1) == 0 &&
        bind_any(socket, port, &why) == 0)
        return socket;
    (void)err_set(err, "can't open a tcp port for other agents: %s",
                  why.text[0] ? why.text : zmq_strerror(zmq_errno()));
    zmq_close(socket);
    return NULL;
}

static void frame_free(void *p, void *whole)
{
    (void)p;
    free(whole);
}

int socket_frame(zmq_msg_t *m, struct buf *bytes, size_t skip, struct err *err)
{
    const size_t n = bytes->n - skip;
    char *whole = buf_take(bytes);

    if (whole && zmq_msg_init_data(m, whole + skip, n, frame_free, whole) == 0)
        return 0;
    free(whole);
    buf_release(bytes);
    return err_set(err, "out of memory for a message of %zu bytes", n);
}
