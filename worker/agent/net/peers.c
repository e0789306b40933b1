/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/peers.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "protocol/route.h"
#include "protocol/span_fields.h"
#include "worker/agent/net/peer.h"
#include "worker/agent/net/socket.h"

/* ---- DIAL ---- */

static void say_dialed(struct peers *p, uint64_t node, const char *error)
{
    struct span said = { .kind = SPAN_DIALED };

    said.v[F_DIALED_NODE].u64 = node;
    said.v[F_DIALED_ERROR].s = slice_text(error);
    p->ops.say(p->ops.arg, &said);
}

static void blobs_ready(void *arg)
{
    struct peer *one = arg;
    struct peers *p = one->peers;
    zmq_msg_t msg;

    for (int i = 0; i < MESSAGES_PER_TURN && !one->gone; i++) {
        zmq_msg_init(&msg);
        if (zmq_msg_recv(&msg, one->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&msg);
            return;
        }
        if (zmq_msg_more(&msg)) {
            loop_zmq_skip(one->socket);
            peer_complain(p, one->node, "more than one frame");
        } else {
            p->ops.blobs(p->ops.arg, one->node, slice_of(zmq_msg_data(&msg), zmq_msg_size(&msg)));
        }
        zmq_msg_close(&msg);
    }
}

static void dialed(void *arg, void *socket, const char *why)
{
    struct peer *one = arg;
    struct peers *p = one->peers;
    const uint32_t node = one->node;
    struct err err = { "" };

    one->dial = NULL;
    if (socket && one->role == DIAL_PARENT) {
        peer_destroy(one);
        p->ops.parent(p->ops.arg, node, socket);
        return;
    }
    one->socket = socket;
    if (!socket)
        (void)err_set(&err, "%s", why);
    else if ((one->watch = loop_zmq(p->loop, socket, blobs_ready, one, &err)))
        peer_linked(one);
    if (one->state != PEER_LINKED)
        peer_destroy(one);
    say_dialed(p, node, err.text);
}

bool peers_moving(const struct peers *p)
{
    const struct peer *one = p->peer;

    while (one && !(one->dial && one->role == DIAL_PARENT))
        one = one->next;
    return one != NULL;
}

void peers_dial(struct peers *p, const struct span *m)
{
    const struct slice key = m->v[F_DIAL_KEY].s;
    const uint32_t node = (uint32_t)m->v[F_DIAL_NODE].u64;
    struct err err = { "" };
    struct peer *one = NULL;

    if (key.n != KEY_SIZE || m->v[F_DIAL_NODE].u64 > ROUTE_NODES_MAX ||
        m->v[F_DIAL_ROLE].u64 > DIAL_BLOBS_ANEW || node == p->own)
        (void)err_set(&err, "DIAL names node %" PRIu64 ", role %" PRIu64, m->v[F_DIAL_NODE].u64,
                      m->v[F_DIAL_ROLE].u64);
    else if (!p->keys)
        (void)err_set(&err, "this machine's own agent has no keys, and can't dial another");
    else if (m->v[F_DIAL_ROLE].u64 == DIAL_PARENT && p->stays)
        (void)err_set(&err, "it has resumed, and keeps its own connection");
    else if (m->v[F_DIAL_ROLE].u64 == DIAL_BLOBS && peer_find(p, PEER_LINKED, node))
        say_dialed(p, node, "");
    else if (!(one = peer_create(p, PEER_DIALED, node, (const unsigned char *)key.p)))
        (void)err_set(&err, "out of memory");
    if (one) {
        one->role = m->v[F_DIAL_ROLE].u64;
        if (!(one->dial = peer_dial_start(p->loop, p->context, p->keys, p->own, m, dialed, one,
                                          &err)))
            peer_destroy(one);
    }
    if (err.text[0])
        say_dialed(p, m->v[F_DIAL_NODE].u64, err.text);
}

/* ---- down, and blobs ---- */

static void send_down(struct peer *child, zmq_msg_t *msg)
{
    zmq_msg_t copy;

    zmq_msg_init(&copy);
    if (zmq_msg_copy(&copy, msg) < 0 ||
        peer_send(child, child->route.p, child->route.n, ZMQ_SNDMORE) < 0 ||
        zmq_msg_send(&copy, child->peers->router, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&copy);
        peer_ended(child, "the link to this child is gone");
        return;
    }
    buf_clear(&child->route);
}

void peers_down(struct peers *p, struct slice route, uint32_t own, zmq_msg_t *msg)
{
    struct route_section s;
    struct peer *next;

    while (route_next(&route, &s)) {
        const uint32_t under = s.node == own ? CHILD_NODES_NONE
                                             : child_nodes_get(&p->children, s.node);
        struct peer *child = under == CHILD_NODES_NONE ? NULL : peer_find(p, PEER_CHILD, under);

        if (child && buf_add_slice(&child->route, s.whole) < 0)
            log_error("peers", "out of memory: a message for node %" PRIu32 " is lost", s.node);
    }
    for (struct peer *child = p->peer; child; child = next) {
        next = child->next;
        if (child->route.n > 0)
            send_down(child, msg);
    }
}

static void tell_to_resume(struct peer *child, bool out)
{
    const struct span m = { .kind = SPAN_RESUME,
                            .v[F_RESUME_VERSION].u64 = SPAN_VERSION,
                            .v[F_RESUME_NUMBER].u64 = out };
    struct buf msg = BUF_INIT;
    struct err err = { "" };

    if (span_encode(&m, &msg, &err) < 0 || peer_send(child, "", 0, ZMQ_SNDMORE) < 0 ||
        zmq_send(child->peers->router, msg.p, msg.n, ZMQ_DONTWAIT) < 0)
        log_info("peers", "node %" PRIu32 " notices by itself that its link is over", child->node);
    buf_release(&msg);
}

void peers_cut(struct peers *p, bool out)
{
    struct peer *next;

    for (struct peer *one = p->peer; one; one = next) {
        next = one->next;
        if (one->state == PEER_CHILD) {
            tell_to_resume(one, out);
            peer_destroy(one);
        } else if (one->dial && one->role == DIAL_PARENT) {
            say_dialed(p, one->node, "the connection to the kernel has ended");
            peer_destroy(one);
        }
    }
}

void peers_stay(struct peers *p)
{
    p->stays = true;
}

int peers_give(struct peers *p, uint32_t node, struct buf *msg, size_t skip, struct err *err)
{
    struct peer *one = peer_find(p, PEER_LINKED, node);
    zmq_msg_t frame;

    if (!one) {
        buf_release(msg);
        return err_set(err, "there is no link to node %" PRIu32, node);
    }
    if (socket_frame(&frame, msg, skip, err) < 0)
        return -1;
    if (peer_send_frame(one, &frame) == 0)
        return 0;
    (void)err_set(err, "the link to node %" PRIu32 " is gone: %s", node, zmq_strerror(zmq_errno()));
    peer_destroy(one);
    return -1;
}

/* ---- the whole ---- */

struct peers *peers_create(struct loop *loop, void *context, const struct keys *keys,
                           const struct peers_ops *ops, struct err *err)
{
    struct peers *p = calloc(1, sizeof *p);

    if (!p)
        return err_null(err, "out of memory");
    p->loop = loop;
    p->context = context;
    p->keys = keys;
    p->ops = *ops;
    p->own = ROUTE_KERNEL;
    return p;
}

void peers_destroy(struct peers *p)
{
    if (!p)
        return;
    while (p->peer)
        peer_destroy(p->peer);
    peer_accept_close(p);
    child_nodes_release(&p->children);
    free(p);
}

void peers_number(struct peers *p, uint32_t node)
{
    p->own = node;
}
