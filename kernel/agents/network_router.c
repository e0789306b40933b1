/* SPDX-License-Identifier: BSD-3-Clause */
/* There are no high-water marks, which would drop messages: the credit of the workers and the size
 * of cells limit what is on its way. */
#include "kernel/agents/router.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop/monitor.h"

#define ARRIVALS_PER_TURN 64
#define BYTES_PER_TURN    (1u << 20)
/* the longest message has 300 MiB, and some more around it */
#define MESSAGE_MAX  (INT64_C(320) << 20)
#define BACKLOG      1024  /* a thousand agents may dial at once */
#define HANDSHAKE_MS 10000 /* a longer handshake is cut off */
#define NUMBERS_MAX  32768 /* higher descriptors are not watched */
#define EVENTS       (ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED)

/* What is known of a descriptor. */
struct number {
    bool silent; /* its connection has not sent anything yet */
    bool over;   /* its connection has ended, and none has begun since */
    /* times_empty when the last one ended, of which messages may lie unread; 0: none do */
    uint64_t ended_at;
};

struct network_router {
    struct router router;
    void *socket, *monitor;
    struct watch *readable, *news;
    struct router_handler handler;
    unsigned port;
    struct number *number;           /* by descriptor */
    uint64_t times_empty;            /* how often all messages had been read, and one */
    struct router_message *arriving; /* being handled; NULL: none */
};

static struct network_router *of(struct router *r)
{
    return (struct network_router *)r; /* its first field */
}

static void settle(struct router *router);

/* ---- in ---- */

/* NULL: nothing is known of it. */
static struct number *number_of(struct network_router *r, int fd)
{
    return fd >= 0 && fd < NUMBERS_MAX ? &r->number[fd] : NULL;
}

/* ZeroMQ delivers what a connection had sent before it ended. Until all that has been read, a
 * message may come from a connection that had the same number earlier. -1 then. */
static int current(struct network_router *r, int fd)
{
    const struct number *n = number_of(r, fd);

    if (n && n->over) /* has another one begun? */
        settle(&r->router);
    return n && (n->over || n->ended_at == r->times_empty) ? -1 : fd;
}

static void deliver(struct network_router *r, zmq_msg_t frame[3], unsigned n)
{
    const char *user = zmq_msg_gets(&frame[1], "User-Id");
    struct number *number;
    struct router_message a = {
        .router = &r->router,
        .identity = slice_of(zmq_msg_data(&frame[0]), zmq_msg_size(&frame[0])),
        .user = user ? user : "",
        .fd = current(r, zmq_msg_get(&frame[1], ZMQ_SRCFD)),
        .first = slice_of(zmq_msg_data(&frame[1]), zmq_msg_size(&frame[1])),
        .last = n > 2 ? slice_of(zmq_msg_data(&frame[2]), zmq_msg_size(&frame[2])) : slice_text(""),
        .frames = n - 1,
    };

    r->arriving = &a;
    r->handler.arrived(r->handler.arg, &a);
    r->arriving = NULL;
    /* after the call: it may read the event that the connection began */
    if ((number = number_of(r, a.fd)))
        number->silent = false;
}

/* Receives one message and keeps its first three frames. Its size; -1: there is none. */
static long take(struct network_router *r)
{
    zmq_msg_t frame[3];
    unsigned kept = 0, n = 0;
    long size = -1;
    int more = 1;

    while (more) {
        zmq_msg_t spare, *into = kept < 3 ? &frame[kept] : &spare;

        (void)zmq_msg_init(into);
        if (zmq_msg_recv(into, r->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(into);
            break;
        }
        size = (size < 0 ? 0 : size) + (long)zmq_msg_size(into);
        more = zmq_msg_more(into);
        n++;
        if (kept < 3)
            kept++;
        else
            zmq_msg_close(&spare);
    }
    if (n == 0)
        r->times_empty++;
    if (n > 1 && !more)
        deliver(r, frame, n);
    while (kept > 0)
        zmq_msg_close(&frame[--kept]);
    return size;
}

static void readable(void *arg)
{
    size_t bytes = 0;

    for (int k = 0; k < ARRIVALS_PER_TURN && bytes < BYTES_PER_TURN; k++) {
        const long n = take(arg);

        if (n < 0)
            return;
        bytes += (size_t)n;
    }
}

static void drain(struct router *router)
{
    struct network_router *r = of(router);

    while (take(r) >= 0)
        ;
}

/* ---- the monitor: connections that begin and end ---- */

/* Reads one event. Its first frame is event:u16 value:u32, in the byte order of this machine.
 * false: there is none. */
static bool news_take(void *monitor, uint16_t *event, uint32_t *value)
{
    char frame[6];

    if (zmq_recv(monitor, frame, sizeof frame, ZMQ_DONTWAIT) != (int)sizeof frame)
        return false;
    memcpy(event, frame, sizeof *event);
    memcpy(value, frame + sizeof *event, sizeof *value);
    loop_zmq_skip(monitor);
    return true;
}

static void refused(struct network_router *r)
{
    r->handler.refused(r->handler.arg, &r->router,
                       "ended before it had said who it is, as agents do that look for a way");
}

/* When a connection does not speak ZeroMQ, libzmq does not report its end: it has ended when its
 * descriptor is used again. */
static void began(struct network_router *r, int fd)
{
    struct number *n = number_of(r, fd);

    if (!n)
        return;
    if (n->silent)
        refused(r);
    *n = (struct number){ .silent = true, .ended_at = n->ended_at };
}

/* What a connection had sent is there before its end is told. */
static bool is_empty(struct network_router *r)
{
    int events = 0;
    size_t size = sizeof events;

    return zmq_getsockopt(r->socket, ZMQ_EVENTS, &events, &size) == 0 && !(events & ZMQ_POLLIN);
}

/* A connection that was refused for its key also ends without a message. It is counted twice,
 * because no event says that it is the same connection. */
static void ended(struct network_router *r, int fd)
{
    struct number *n = number_of(r, fd);
    const bool silent = n && n->silent;

    if (n)
        *n = (struct number){ .over = true, .ended_at = is_empty(r) ? 0 : r->times_empty };
    if (r->arriving && r->arriving->fd == fd)
        r->arriving->fd = -1;
    if (!silent)
        r->handler.parted(r->handler.arg, &r->router, fd);
    else
        refused(r);
}

static void settle(struct router *router)
{
    struct network_router *r = of(router);
    uint16_t event;
    uint32_t value;

    while (news_take(r->monitor, &event, &value)) {
        if (event == ZMQ_EVENT_ACCEPTED)
            began(r, (int)value);
        else if (event == ZMQ_EVENT_DISCONNECTED)
            ended(r, (int)value);
    }
}

static void news(void *arg)
{
    struct network_router *r = arg;

    settle(&r->router);
}

static int watch_connections(struct network_router *r, struct loop *loop, void *context,
                             struct err *err)
{
    r->times_empty = 1;
    if (!(r->number = calloc(NUMBERS_MAX, sizeof *r->number)))
        return err_set(err, "out of memory");
    if (!(r->monitor = monitor_open(context, r->socket, EVENTS, err)))
        return -1;
    return (r->news = loop_zmq(loop, r->monitor, news, r, err)) ? 0 : -1;
}

/* ---- out ---- */

static int send_body(struct router *router, struct slice identity, struct slice route,
                     zmq_msg_t *body, struct err *err)
{
    void *socket = of(router)->socket;
    zmq_msg_t copy;

    (void)zmq_msg_init(&copy);
    if (zmq_msg_copy(&copy, body) < 0 ||
        zmq_send(socket, identity.p, identity.n, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
        zmq_send(socket, route.p, route.n, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
        zmq_msg_send(&copy, socket, ZMQ_DONTWAIT) < 0) {
        const int error = zmq_errno();

        zmq_msg_close(&copy);
        return err_set(err, "%s", zmq_strerror(error));
    }
    return 0;
}

/* ---- made and destroyed ---- */

static int set_options(void *socket)
{
    const int64_t most = MESSAGE_MAX;

    if (loop_zmq_set(socket, ZMQ_LINGER, 0) < 0 || loop_zmq_set(socket, ZMQ_SNDHWM, 0) < 0 ||
        loop_zmq_set(socket, ZMQ_RCVHWM, 0) < 0 ||
        loop_zmq_set(socket, ZMQ_ROUTER_MANDATORY, 1) < 0 ||
        loop_zmq_set(socket, ZMQ_BACKLOG, BACKLOG) < 0 ||
        loop_zmq_set(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) < 0)
        return -1;
    return zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most);
}

static int set_curve(void *socket, const struct keys *keys, const char *domain)
{
    if (loop_zmq_set(socket, ZMQ_CURVE_SERVER, 1) < 0 || loop_zmq_set(socket, ZMQ_IPV6, 1) < 0 ||
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->secret, KEY_SIZE) < 0)
        return -1;
    return zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, strlen(domain));
}

static void destroy(struct router *router)
{
    struct network_router *r = of(router);

    watch_stop(r->news);
    watch_stop(r->readable);
    if (r->socket && r->monitor)
        (void)zmq_socket_monitor(r->socket, NULL, 0);
    zmq_close(r->monitor);
    zmq_close(r->socket);
    free(r->number);
    free(r);
}

struct router *network_router_create(struct loop *loop, void *context, const struct keys *keys,
                                     const char *domain, const struct router_handler *handler,
                                     struct err *err)
{
    static const struct router_ops ops = { send_body, drain, settle, destroy };
    struct network_router *r = calloc(1, sizeof *r);

    if (!r)
        return err_null(err, "out of memory");
    r->router.ops = &ops;
    r->handler = *handler;
    if (!(r->socket = zmq_socket(context, ZMQ_ROUTER)) || set_options(r->socket) < 0 ||
        set_curve(r->socket, keys, domain) < 0)
        err_set(err, "no socket for the agents: %s", zmq_strerror(errno));
    else if (watch_connections(r, loop, context, err) == 0 &&
             (r->readable = loop_zmq(loop, r->socket, readable, r, err)))
        return &r->router;
    destroy(&r->router);
    return NULL;
}

int network_router_bind(struct router *router, const char *endpoint)
{
    struct network_router *r = of(router);
    char bound[256];
    size_t size = sizeof bound;
    const char *colon;

    if (zmq_bind(r->socket, endpoint) < 0)
        return zmq_errno();
    if (zmq_getsockopt(r->socket, ZMQ_LAST_ENDPOINT, bound, &size) == 0 &&
        strncmp(bound, "tcp://", 6) == 0 && (colon = strrchr(bound, ':')))
        r->port = (unsigned)strtoul(colon + 1, NULL, 10);
    return 0;
}

void network_router_unbind(struct router *r, const char *endpoint)
{
    (void)zmq_unbind(of(r)->socket, endpoint);
}

unsigned network_router_port(const struct router *r)
{
    return ((const struct network_router *)r)->port;
}
