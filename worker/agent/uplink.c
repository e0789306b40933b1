/* uplink.c - see uplink.h. */
#include "worker/agent/uplink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/log.h"
#include "protocol/route.h"
#include "protocol/span.h"
#include "protocol/span_fields.h"
#include "worker/agent/gather.h"

#define MESSAGES_PER_TURN 32
#define LINGER_MS 500

struct uplink {
    struct loop *loop;
    void *context;
    void *socket;
    struct watch *watch;
    struct gather *gather;
    bool greeted; /* the first route has come */
    uplink_f f;
    void *arg;
};

/* ---- down ---- */

static bool has_more(const zmq_msg_t *m)
{
    return zmq_msg_more(m) != 0;
}

/* Takes the two frames of a message. 1: got; 0: nothing there, or nonsense, which is dropped. */
static int receive(void *socket, zmq_msg_t *route, zmq_msg_t *msg, bool *empty)
{
    zmq_msg_t rest;
    bool more;

    *empty = zmq_msg_recv(route, socket, ZMQ_DONTWAIT) < 0;
    if (*empty)
        return 0;
    if (!has_more(route)) {
        log_warn("uplink", "one frame where a message has two: dropped");
        return 0;
    }
    if (zmq_msg_recv(msg, socket, ZMQ_DONTWAIT) < 0)
        return 0;
    if (!has_more(msg))
        return 1;
    log_warn("uplink", "more than two frames: dropped");
    for (more = true; more;) {
        zmq_msg_init(&rest);
        more = zmq_msg_recv(&rest, socket, ZMQ_DONTWAIT) >= 0 && has_more(&rest);
        zmq_msg_close(&rest);
    }
    return 0;
}

/* The first message: WELCOME has our number, REFUSE needs none. */
static void greet(struct uplink *u, struct slice msg)
{
    struct err err = { "" };
    struct span m;

    u->greeted = true;
    if (span_decode(&m, msg.p, msg.n, &err) < 0 || m.kind != SPAN_WELCOME)
        return; /* whoever gets it says what is wrong with it */
    gather_number(u->gather, (uint32_t)m.v[F_WELCOME_NUMBER].u64);
    span_release(&m);
}

static bool is_whole(struct slice route)
{
    struct route_section s;

    while (route_next(&route, &s))
        ;
    return route.n == 0;
}

static void deliver(struct uplink *u, struct slice route, struct slice msg)
{
    const bool first = !u->greeted;
    struct route_section s;

    if (!is_whole(route)) {
        log_warn("uplink", "a torn route: dropped");
        return;
    }
    if (first)
        greet(u, msg);
    while (route_next(&route, &s))
        if (first || s.node == gather_node(u->gather)) {
            u->f(u->arg, s.workers, msg);
            return;
        }
}

static void uplink_ready(struct loop *loop, void *arg)
{
    struct uplink *u = arg;
    bool empty = false;

    (void)loop;
    for (int i = 0; i < MESSAGES_PER_TURN && !empty; i++) {
        zmq_msg_t route, msg;

        zmq_msg_init(&route);
        zmq_msg_init(&msg);
        if (receive(u->socket, &route, &msg, &empty) == 1)
            deliver(u, slice_of(zmq_msg_data(&route), zmq_msg_size(&route)),
                    slice_of(zmq_msg_data(&msg), zmq_msg_size(&msg)));
        zmq_msg_close(&route);
        zmq_msg_close(&msg);
    }
}

/* ---- the link ---- */

static int set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

static int dial(struct uplink *u, const char *endpoint)
{
    if (!(u->context = zmq_ctx_new()) || !(u->socket = zmq_socket(u->context, ZMQ_DEALER)))
        return -1;
    if (set_int(u->socket, ZMQ_SNDHWM, 0) < 0 || set_int(u->socket, ZMQ_RCVHWM, 0) < 0 ||
        set_int(u->socket, ZMQ_LINGER, LINGER_MS) < 0 || set_int(u->socket, ZMQ_RECONNECT_IVL, 10) < 0 ||
        set_int(u->socket, ZMQ_RECONNECT_IVL_MAX, 1000) < 0)
        return -1;
    return zmq_connect(u->socket, endpoint);
}

struct uplink *uplink_open(struct loop *loop, const char *endpoint, uplink_f f, void *arg, struct err *err)
{
    struct uplink *u = calloc(1, sizeof *u);

    if (!u)
        return err_null(err, "out of memory");
    u->loop = loop;
    u->f = f;
    u->arg = arg;
    if (!(u->gather = gather_create(loop, err)))
        goto fail;
    if (dial(u, endpoint) < 0) {
        (void)err_set(err, "--connect %s: %s", endpoint, zmq_strerror(zmq_errno()));
        goto fail;
    }
    gather_socket(u->gather, u->socket);
    if (!(u->watch = loop_zmq(loop, u->socket, uplink_ready, u, err)))
        goto fail;
    return u;
fail:
    uplink_close(u);
    return NULL;
}

void uplink_close(struct uplink *u)
{
    if (!u)
        return;
    watch_stop(u->watch);
    gather_destroy(u->gather);
    if (u->socket)
        zmq_close(u->socket);
    if (u->context)
        zmq_ctx_term(u->context);
    free(u);
}

uint32_t uplink_node(const struct uplink *u)
{
    return gather_node(u->gather);
}

int uplink_send(struct uplink *u, uint32_t worker, struct slice msg, struct err *err)
{
    struct span head;

    if (worker == SPAN_WORKER_NONE && span_peek(&head, msg.p, msg.n, NULL) == 0 && head.kind == SPAN_HELLO)
        return gather_send_now(u->gather, msg, err);
    return gather_add(u->gather, worker, msg, err);
}
