/* peer_dial.c - see peer_dial.h. */
#include "worker/agent/net/peer_dial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "protocol/span_fields.h"
#include "worker/agent/net/dial.h"
#include "worker/agent/net/socket.h"

struct peer_dial {
    struct loop *loop;
    uint32_t own, node;
    uint64_t role;
    struct dial *dial;
    char endpoint[DIAL_ENDPOINT_SIZE]; /* the endpoint that answered */
    char from[ADDRESS_TEXT_SIZE];
    void *socket;
    struct watch *watch, *limit;
    peer_dial_f f;
    void *arg;
    bool over;
};

static void close_all(struct peer_dial *c)
{
    c->over = true;
    dial_stop(c->dial);
    watch_stop(c->watch);
    watch_stop(c->limit);
    loop_free(c->loop, c); /* functions up the stack still use it */
}

void peer_dial_stop(struct peer_dial *c)
{
    if (!c || c->over)
        return;
    close_all(c);
    if (c->socket)
        zmq_close(c->socket);
}

static void fail(struct peer_dial *c, const char *why)
{
    peer_dial_stop(c);
    c->f(c->arg, NULL, why);
}

/* ---- its answer ---- */

static void take_answer(struct peer_dial *c, struct slice msg)
{
    struct err err = { "" };
    struct span m;
    char why[DIAL_ENDPOINT_SIZE + 256];

    if (span_decode(&m, msg.p, msg.n, &err) < 0 || m.kind != SPAN_DIALED ||
        m.v[F_DIALED_NODE].u64 != c->node) {
        snprintf(why, sizeof why, "%s gave an answer that is none", c->endpoint);
        fail(c, why);
        return;
    }
    if (m.v[F_DIALED_ERROR].s.n > 0) {
        snprintf(why, sizeof why, "%s: %.*s", c->endpoint,
                 (int)(m.v[F_DIALED_ERROR].s.n < 200 ? m.v[F_DIALED_ERROR].s.n : 200),
                 m.v[F_DIALED_ERROR].s.p);
        span_release(&m);
        fail(c, why);
        return;
    }
    span_release(&m);
    close_all(c);
    c->f(c->arg, c->socket, NULL);
}

static void answer_ready(struct loop *loop, void *arg)
{
    struct peer_dial *c = arg;
    zmq_msg_t msg;

    (void)loop;
    zmq_msg_init(&msg);
    if (zmq_msg_recv(&msg, c->socket, ZMQ_DONTWAIT) >= 0) {
        socket_skip(c->socket);
        take_answer(c, slice_of(zmq_msg_data(&msg), zmq_msg_size(&msg)));
    }
    zmq_msg_close(&msg);
}

/* ---- the way there ---- */

static int introduce(struct peer_dial *c, struct err *err)
{
    struct span m = { .kind = SPAN_DIAL };
    struct buf msg = BUF_INIT;
    int rc;

    m.v[F_DIAL_NODE].u64 = c->own;
    m.v[F_DIAL_ROLE].u64 = c->role;
    rc = span_encode(&m, &msg, err);
    if (rc == 0 && zmq_send(c->socket, msg.p, msg.n, ZMQ_DONTWAIT) < 0)
        rc = err_set(err, "%s: %s", c->endpoint, zmq_strerror(zmq_errno()));
    buf_release(&msg);
    return rc;
}

static void answered(void *arg, const struct dial_found *found, const char *why)
{
    struct peer_dial *c = arg;
    struct err err = { "" };

    if (!found) {
        fail(c, why);
        return;
    }
    snprintf(c->endpoint, sizeof c->endpoint, "%s", found->endpoint);
    address_text(&found->own, c->from);
    c->socket = found->socket;
    if (introduce(c, &err) < 0 || !(c->watch = loop_zmq(c->loop, c->socket, answer_ready, c, &err)))
        fail(c, err.text);
}

static void limit_is_over(struct loop *loop, void *arg)
{
    struct peer_dial *c = arg;
    char why[DIAL_ENDPOINT_SIZE + ADDRESS_TEXT_SIZE + 128];

    (void)loop;
    snprintf(why, sizeof why, "%s (connected, but the agent there does not answer; from %s)",
             c->socket ? c->endpoint : "DIAL", c->from);
    fail(c, why);
}

struct peer_dial *peer_dial_start(struct loop *loop, void *context, const struct keys *keys,
                                  uint32_t own, const struct span *dial, peer_dial_f f, void *arg,
                                  struct err *err)
{
    const struct dial_to to = { .endpoints = dial->v[F_DIAL_ENDPOINTS].s,
                                .context = context,
                                .own = keys,
                                .server = (const unsigned char *)dial->v[F_DIAL_KEY].s.p,
                                /* the rest of the time is for finding out why it failed */
                                .limit_ns = PEER_DIAL_LIMIT_NS * 7 / 10 };
    struct peer_dial *c = calloc(1, sizeof *c);

    if (!c)
        return err_null(err, "out of memory");
    c->loop = loop;
    c->own = own;
    c->node = (uint32_t)dial->v[F_DIAL_NODE].u64;
    c->role = dial->v[F_DIAL_ROLE].u64;
    c->f = f;
    c->arg = arg;
    if ((c->limit = loop_timer(loop, PEER_DIAL_LIMIT_NS, 0, limit_is_over, c, err)) &&
        (c->dial = dial_start(loop, &to, answered, c, err)))
        return c;
    peer_dial_stop(c);
    return NULL;
}
