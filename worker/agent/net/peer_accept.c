/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_accept.c - accepts connections of other agents (declared in peer.h). */
#include "worker/agent/net/peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "protocol/route.h"
#include "protocol/span_fields.h"
#include "worker/agent/net/socket.h"

#define SAME_NODE_MAX 8u /* connections with one node, also expected ones */
#define EXPECTED_MAX  2u /* of them: as a child, and for blobs */

/* ---- who they are ---- */

static bool may_come_in(void *arg, const unsigned char key[KEY_SIZE],
                        char name[static PEER_ZAP_NAME_SIZE])
{
    struct peers *p = arg;

    for (const struct peer *one = p->peer; one; one = one->next)
        if (one->state == PEER_EXPECTED && memcmp(one->key, key, KEY_SIZE) == 0) {
            snprintf(name, PEER_ZAP_NAME_SIZE, "%" PRIu32, one->node);
            return true;
        }
    return false;
}

static struct peer *find_id(const struct peers *p, const void *id, size_t n)
{
    struct peer *one = p->peer;

    while (one && (one->id_size != n || memcmp(one->id, id, n) != 0))
        one = one->next;
    return one;
}

static unsigned count(const struct peers *p, uint32_t node)
{
    unsigned n = 0;

    for (const struct peer *one = p->peer; one; one = one->next)
        n += one->node == node;
    return n;
}

/* Is the agent expected twice already, as a child and for blobs? Then it was told to dial, and has
 * not come. */
static bool is_expected(const struct peers *p, uint32_t node, const char *key)
{
    unsigned n = 0;

    for (const struct peer *one = p->peer; one; one = one->next)
        n += one->node == node && one->state == PEER_EXPECTED &&
             memcmp(one->key, key, KEY_SIZE) == 0;
    return n >= EXPECTED_MAX;
}

/* ---- what they say ---- */

static void answer(struct peer *one, const char *error)
{
    struct span m = { .kind = SPAN_DIALED };
    struct buf msg = BUF_INIT;
    struct err err = { "" };

    m.v[F_DIALED_NODE].u64 = one->peers->own;
    m.v[F_DIALED_ERROR].s = slice_text(error);
    if (span_encode(&m, &msg, &err) < 0 || peer_send(one, msg.p, msg.n, 0) < 0)
        peer_ended(one, "it left before it was answered");
    buf_release(&msg);
}

static void take_role(struct peer *one)
{
    struct peers *p = one->peers;

    if (one->role != DIAL_PARENT)
        peer_linked(one);
    else
        one->state = PEER_CHILD;
    if (one->state == PEER_CHILD && child_nodes_put(&p->children, one->node, one->node) < 0)
        peer_ended(one, "out of memory");
    else
        answer(one, "");
}

/* The first message of a peer says what it wants. From then on its key can't be used again. */
static void take_first_message(struct peers *p, const uint8_t *id, size_t id_size, zmq_msg_t *frame)
{
    const char *name = zmq_msg_gets(frame, "User-Id");
    const uint32_t node = name ? (uint32_t)strtoul(name, NULL, 10) : ROUTE_KERNEL;
    struct peer *one = peer_find(p, PEER_EXPECTED, node);
    struct err err = { "" };
    struct span m;

    if (!one || span_decode(&m, zmq_msg_data(frame), zmq_msg_size(frame), &err) < 0) {
        peer_complain(p, node, one ? err.text : "a second connection with one key");
        return;
    }
    if (m.kind == SPAN_DIAL && m.v[F_DIAL_NODE].u64 == node &&
        m.v[F_DIAL_ROLE].u64 <= DIAL_BLOBS_ANEW) {
        memcpy(one->id, id, id_size);
        one->id_size = id_size;
        one->role = m.v[F_DIAL_ROLE].u64;
        take_role(one);
    } else {
        peer_complain(p, node, "its first message is no DIAL");
    }
    span_release(&m);
}

/* The number of good entries; -1: the bundle is torn. */
static long check_bundle(struct peer *child, struct slice bundle, bool *all)
{
    struct bundle_entry e;
    long good = 0;

    *all = true;
    while (bundle_next(&bundle, &e))
        if (child_nodes_get(&child->peers->children, e.node) == child->node)
            good++;
        else
            *all = false;
    return bundle.n ? -1 : good;
}

static void take_bundle(struct peer *child, zmq_msg_t *frame)
{
    struct peers *p = child->peers;
    struct slice rest = slice_of(zmq_msg_data(frame), zmq_msg_size(frame));
    struct bundle_entry e;
    bool all;
    const long good = check_bundle(child, rest, &all);
    zmq_msg_t own;

    if (good <= 0 || !all)
        peer_complain(p, child->node,
                      good < 0 ? "a torn bundle" : "entries of nodes that are not under it");
    if (good > 0 && all) {
        zmq_msg_init(&own);
        zmq_msg_move(&own, frame);
        p->ops.bundle(p->ops.arg, &own);
    } else if (good > 0) {
        while (bundle_next(&rest, &e))
            if (child_nodes_get(&p->children, e.node) == child->node)
                p->ops.entry(p->ops.arg, e.whole);
    }
}

static bool receive(struct peers *p)
{
    uint8_t id[IDENTITY_MAX];
    const int n = zmq_recv(p->router, id, sizeof id, ZMQ_DONTWAIT);
    struct peer *one = n > 0 && n <= (int)sizeof id ? find_id(p, id, (size_t)n) : NULL;
    zmq_msg_t frame;
    bool more;

    if (n < 0)
        return false;
    zmq_msg_init(&frame);
    if (zmq_msg_recv(&frame, p->router, ZMQ_DONTWAIT) < 0)
        return zmq_msg_close(&frame), true;
    more = zmq_msg_more(&frame) != 0;
    if (more)
        loop_zmq_skip(p->router);
    if (more || n > (int)sizeof id)
        peer_complain(p, one ? one->node : ROUTE_KERNEL, "more than one frame");
    else if (!one)
        take_first_message(p, id, (size_t)n, &frame);
    else if (one->state == PEER_CHILD)
        take_bundle(one, &frame);
    else
        p->ops.blobs(p->ops.arg, one->node, slice_of(zmq_msg_data(&frame), zmq_msg_size(&frame)));
    zmq_msg_close(&frame);
    return true;
}

static void router_ready(void *arg)
{
    for (int i = 0; i < MESSAGES_PER_TURN; i++)
        if (!receive(arg))
            return;
}

/* ---- OPEN ---- */

static int open_router(struct peers *p, struct err *err)
{
    if (p->router)
        return 0;
    if (!p->keys)
        return err_set(err, "this machine's own agent has no keys, and no other agent may dial it");
    if (!(p->zap = peer_zap_open(p->loop, p->context, may_come_in, p, err)))
        return -1;
    if ((p->router = socket_router(p->context, p->keys, &p->port, err)) &&
        peer_zap_watch(p->zap, p->router, err) == 0 &&
        (p->watch = loop_zmq(p->loop, p->router, router_ready, p, err)))
        return 0;
    peer_zap_close(p->zap);
    p->zap = NULL;
    zmq_close(p->router);
    p->router = NULL;
    return -1;
}

/* If the key belongs to a child, or to an agent that is expected as one, OPEN says that `node` is
 * below that child. */
static bool is_announced(struct peers *p, uint32_t node, const char *key)
{
    for (const struct peer *one = p->peer; one; one = one->next)
        if (one->node != node && (one->state == PEER_EXPECTED || one->state == PEER_CHILD) &&
            memcmp(one->key, key, KEY_SIZE) == 0) {
            if (child_nodes_put(&p->children, node, one->node) < 0)
                log_error("peers",
                          "node %" PRIu32 " is not reached: out of memory, or a number too large",
                          node);
            return true;
        }
    return false;
}

/* Undoes an OPEN: the node will not become a child or a descendant. If it was a child, its
 * descendants are removed, too. */
static void take_back(struct peers *p, uint32_t node)
{
    const uint32_t under = child_nodes_get(&p->children, node);
    struct peer *one;

    if (under != CHILD_NODES_NONE && under != node)
        (void)!child_nodes_put(&p->children, node, CHILD_NODES_NONE); /* this can't fail: its place
                                                                         in the array exists */
    else if ((one = peer_find(p, PEER_CHILD, node)) || (one = peer_find(p, PEER_EXPECTED, node)))
        peer_destroy(one);
}

void peer_accept_open(struct peers *p, const struct span *m)
{
    struct span said = { .kind = SPAN_OPENED, .cell = m->cell };
    const struct slice key = m->v[F_OPEN_KEY].s;
    const uint32_t node = (uint32_t)m->v[F_OPEN_NODE].u64;
    struct err err = { "" };

    if (key.n == 0 && m->v[F_OPEN_NODE].u64 <= ROUTE_NODES_MAX) {
        take_back(p, node);
        return;
    }
    if (key.n == KEY_SIZE && is_announced(p, node, key.p))
        return;
    if (key.n != KEY_SIZE || m->v[F_OPEN_NODE].u64 > ROUTE_NODES_MAX || node == p->own)
        (void)err_set(&err, "OPEN names node %" PRIu64 " with a key of %zu bytes",
                      m->v[F_OPEN_NODE].u64, key.n);
    else if (is_expected(p, node, key.p))
        (void)open_router(p, &err);
    else if (count(p, node) >= SAME_NODE_MAX)
        (void)err_set(&err, "there are %u links with node %" PRIu32 " already", SAME_NODE_MAX,
                      node);
    else if (open_router(p, &err) == 0 &&
             !peer_create(p, PEER_EXPECTED, node, (const unsigned char *)key.p))
        (void)err_set(&err, "out of memory");
    said.v[F_OPENED_NODE].u64 = m->v[F_OPEN_NODE].u64;
    said.v[F_OPENED_PORT].u64 = err.text[0] ? 0 : p->port;
    said.v[F_OPENED_ERROR].s = slice_text(err.text);
    p->ops.say(p->ops.arg, &said);
}

void peer_accept_close(struct peers *p)
{
    watch_stop(p->watch);
    peer_zap_close(p->zap); /* before the router, whose monitor it uses */
    zmq_close(p->router);
}
