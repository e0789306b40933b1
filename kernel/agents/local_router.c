/* SPDX-License-Identifier: BSD-3-Clause */
/* local_router.c - the unix socket that this machine's agent dials (declared in router.h). */
#include "kernel/agents/router.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop/message_stream.h"
#include "base/process.h"
#include "base/unix_socket.h"

#define REST_NS (200 * NS_PER_MS) /* after a connection that could not be accepted */

struct local_connection {
    struct local_connection *next;
    struct local_router *router;
    struct message_stream *stream;
    uint64_t identity; /* of no other connection of this router, before or after */
};

struct local_router {
    struct router router;
    struct loop *loop;
    struct router_handler handler;
    int fd;
    struct watch *watch;
    struct watch *rest; /* until connections are accepted again */
    struct local_connection *first;
    uint64_t identities; /* given so far */
    bool failed;         /* the last connection could not be accepted */
    char *path;          /* owned */
};

static struct local_router *of(struct router *r)
{
    return (struct local_router *)r; /* its first field */
}

/* ---- connections ---- */

static struct slice identity_of(const struct local_connection *c)
{
    return slice_of(&c->identity, sizeof c->identity);
}

static void remove_connection(struct local_connection *c)
{
    struct local_connection **at = &c->router->first;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    message_stream_close(c->stream, 0);
    loop_free(c->router->loop, c); /* drain() may use it in this turn */
}

static void arrived(void *arg, zmq_msg_t part[2])
{
    struct local_connection *c = arg;
    struct local_router *r = c->router;
    const struct router_message a = {
        .router = &r->router,
        .identity = identity_of(c),
        .user = "",
        .fd = -1,
        .first = slice_of(zmq_msg_data(&part[1]), zmq_msg_size(&part[1])),
        .last = slice_text(""),
        .frames = zmq_msg_size(&part[0]) ? 2 : 1, /* part 0 is for the way down alone */
    };

    r->handler.arrived(r->handler.arg, &a);
}

/* The agent ends when its connection does. The kernel hears of that when the process ends, so this
 * reports nothing. */
static void ended(void *arg, const char *why)
{
    log_info("agents", "a connection on this machine is over: %s", why);
    remove_connection(arg);
}

static void accept_one(struct local_router *r, int fd)
{
    struct local_connection *c = calloc(1, sizeof *c);
    const struct message_stream_handler handler = { arrived, ended, c };
    struct err err = { "out of memory" };

    if (c && (c->stream = message_stream_open(r->loop, fd, &handler, &err))) {
        c->router = r;
        c->identity = ++r->identities;
        c->next = r->first;
        r->first = c;
        return;
    }
    log_error("agents", "a connection on this machine is refused: %s", err.text);
    if (!c)
        fd_close(&fd);
    free(c);
}

static void readable(void *arg, int fd, unsigned events)
{
    struct local_router *r = arg;
    const int one = unix_accept(fd);

    (void)events;
    if (one >= 0) {
        accept_one(r, one);
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        if (!r->failed)
            log_error("agents", "no connection on this machine: %s", strerror(errno));
        /* without a descriptor for it, it waits on: the loop would ask all the time */
        loop_fd_events(r->watch, 0);
        loop_timer_again(r->rest, REST_NS);
    }
    r->failed = one < 0;
}

static void rested(void *arg)
{
    loop_fd_events(((struct local_router *)arg)->watch, LOOP_READ);
}

/* ---- as a router ---- */

/* A connection that has ended is no error here: the agent ends with it, and the end of its process
 * is reported, with the reason. */
static int send_body(struct router *r, struct slice identity, struct slice route, zmq_msg_t *body,
                     struct err *err)
{
    struct local_connection *c = of(r)->first;

    while (c && !slice_equal(identity_of(c), identity))
        c = c->next;
    if (c && message_stream_send(c->stream, route, body, err) < 0)
        return message_stream_is_over(c->stream) ? 0 : -1;
    return 0;
}

static void drain(struct router *r)
{
    struct local_connection *next;

    for (struct local_connection *c = of(r)->first; c; c = next) {
        next = c->next;
        message_stream_drain(c->stream);
    }
}

static void settle(struct router *r)
{
    (void)r;
}

static void destroy(struct router *router)
{
    struct local_router *r = of(router);

    watch_stop(r->watch);
    watch_stop(r->rest);
    while (r->first)
        remove_connection(r->first);
    if (r->fd >= 0)
        (void)unlink(r->path);
    fd_close(&r->fd);
    free(r->path);
    free(r);
}

struct router *local_router_create(struct loop *loop, const char *path,
                                   const struct router_handler *handler, struct err *err)
{
    static const struct router_ops ops = { send_body, drain, settle, destroy };
    struct local_router *r = calloc(1, sizeof *r);

    if (!r)
        return err_null(err, "out of memory");
    r->router.ops = &ops;
    r->loop = loop;
    r->handler = *handler;
    r->fd = -1;
    if (!(r->path = strdup(path)))
        (void)err_set(err, "out of memory");
    else if ((r->fd = unix_listen(path)) < 0)
        (void)err_set(err, "no socket for this machine's agent: %s: %s", path, strerror(errno));
    else if ((r->rest = loop_timer(loop, LOOP_OFF, 0, rested, r, err)) &&
             (r->watch = loop_fd(loop, r->fd, LOOP_READ, readable, r, err)))
        return &r->router;
    destroy(&r->router);
    return NULL;
}
