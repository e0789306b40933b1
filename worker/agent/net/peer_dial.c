/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_dial.c - connects to another agent (declared in peer.h). */
#include "worker/agent/net/peer.h"

#include <stdio.h>
#include <stdlib.h>
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

static void close_all(struct peer_dial *d)
{
    d->over = true;
    dial_stop(d->dial);
    watch_stop(d->watch);
    watch_stop(d->limit);
    loop_free(d->loop, d); /* functions up the stack still use it */
}

void peer_dial_stop(struct peer_dial *d)
{
    if (!d || d->over)
        return;
    close_all(d);
    zmq_close(d->socket);
}

static void fail(struct peer_dial *d, const char *why)
{
    peer_dial_stop(d);
    d->f(d->arg, NULL, why);
}

/* ---- its answer ---- */

static void take_answer(struct peer_dial *d, struct slice msg)
{
    struct err err = { "" };
    struct span m;
    char why[DIAL_ENDPOINT_SIZE + 256];

    if (span_decode(&m, msg.p, msg.n, &err) < 0 || m.kind != SPAN_DIALED ||
        m.v[F_DIALED_NODE].u64 != d->node) {
        snprintf(why, sizeof why, "%s gave an answer that is none", d->endpoint);
        fail(d, why);
        return;
    }
    if (m.v[F_DIALED_ERROR].s.n > 0) {
        snprintf(why, sizeof why, "%s: %.*s", d->endpoint,
                 (int)(m.v[F_DIALED_ERROR].s.n < 200 ? m.v[F_DIALED_ERROR].s.n : 200),
                 m.v[F_DIALED_ERROR].s.p);
        span_release(&m);
        fail(d, why);
        return;
    }
    span_release(&m);
    close_all(d);
    d->f(d->arg, d->socket, NULL);
}

static void answer_ready(void *arg)
{
    struct peer_dial *d = arg;
    zmq_msg_t msg;

    zmq_msg_init(&msg);
    if (zmq_msg_recv(&msg, d->socket, ZMQ_DONTWAIT) >= 0) {
        loop_zmq_skip(d->socket);
        take_answer(d, slice_of(zmq_msg_data(&msg), zmq_msg_size(&msg)));
    }
    zmq_msg_close(&msg);
}

/* ---- the way there ---- */

static int introduce(struct peer_dial *d, struct err *err)
{
    struct span m = { .kind = SPAN_DIAL };
    struct buf msg = BUF_INIT;
    int rc;

    m.v[F_DIAL_NODE].u64 = d->own;
    m.v[F_DIAL_ROLE].u64 = d->role;
    rc = span_encode(&m, &msg, err);
    if (rc == 0 && zmq_send(d->socket, msg.p, msg.n, ZMQ_DONTWAIT) < 0)
        rc = err_set(err, "%s: %s", d->endpoint, zmq_strerror(zmq_errno()));
    buf_release(&msg);
    return rc;
}

static void answered(void *arg, const struct dial_found *found, const char *why)
{
    struct peer_dial *d = arg;
    struct err err = { "" };

    if (!found) {
        fail(d, why);
        return;
    }
    snprintf(d->endpoint, sizeof d->endpoint, "%s", found->endpoint);
    address_text(&found->own, d->from);
    d->socket = found->socket;
    if (introduce(d, &err) < 0 || !(d->watch = loop_zmq(d->loop, d->socket, answer_ready, d, &err)))
        fail(d, err.text);
}

static void limit_is_over(void *arg)
{
    struct peer_dial *d = arg;
    char why[DIAL_ENDPOINT_SIZE + ADDRESS_TEXT_SIZE + 128];

    snprintf(why, sizeof why, "%s (connected, but the agent there does not answer; from %s)",
             d->socket ? d->endpoint : "DIAL", d->from);
    fail(d, why);
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
    struct peer_dial *d = calloc(1, sizeof *d);

    if (!d)
        return err_null(err, "out of memory");
    d->loop = loop;
    d->own = own;
    d->node = (uint32_t)dial->v[F_DIAL_NODE].u64;
    d->role = dial->v[F_DIAL_ROLE].u64;
    d->f = f;
    d->arg = arg;
    if ((d->limit = loop_timer(loop, PEER_DIAL_LIMIT_NS, 0, limit_is_over, d, err)) &&
        (d->dial = dial_start(loop, &to, answered, d, err)))
        return d;
    peer_dial_stop(d);
    return NULL;
}
