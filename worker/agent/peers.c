/* peers.c - see peers.h. */
#include "worker/agent/peers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "protocol/route.h"
#include "protocol/span_fields.h"
#include "worker/agent/admit.h"
#include "worker/agent/call.h"
#include "worker/agent/socket.h"
#include "worker/agent/tree.h"

#define MESSAGES_PER_TURN 32
#define IDENTITY_MAX      32u
#define SAME_NODE_MAX     8u /* links, expected ones too, with one node */

enum peer_state { PEER_EXPECTED, PEER_CALLED, PEER_CHILD, PEER_LINKED };

struct peer {
    struct peer *next;
    struct peers *peers;
    enum peer_state state;
    uint32_t node;
    uint64_t role;
    unsigned char key[KEY_SIZE];
    uint8_t id[IDENTITY_MAX]; /* on the router, of who dialed us */
    size_t id_size;
    struct call *call; /* while we dial */
    void *socket;      /* that we dialed; NULL: it dialed us */
    struct watch *watch;
    struct buf route; /* what is being sent down */
    bool gone;        /* freed when the turn is over */
};

struct peers {
    struct loop *loop;
    void *context;
    const struct keys *keys;
    struct peers_doors doors;
    uint32_t own;
    struct peer *peer;
    struct tree tree;
    struct admit *admit;
    void *router; /* NULL until somebody is expected */
    struct watch *watch;
    unsigned port;
    bool complained; /* about strange messages: once */
};

/* ---- the list ---- */

static struct peer *peer_create(struct peers *p, enum peer_state state, uint32_t node, const unsigned char *key)
{
    struct peer *one = calloc(1, sizeof *one);

    if (!one)
        return NULL;
    one->peers = p;
    one->state = state;
    one->node = node;
    memcpy(one->key, key, KEY_SIZE);
    one->next = p->peer;
    p->peer = one;
    return one;
}

static void free_later(struct loop *loop, void *arg)
{
    (void)loop;
    free(arg);
}

static void peer_destroy(struct peer *one)
{
    struct peer **at = &one->peers->peer;

    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    if (one->state == PEER_CHILD)
        tree_drop(&one->peers->tree, one->node);
    call_stop(one->call);
    watch_stop(one->watch);
    if (one->socket)
        zmq_close(one->socket);
    buf_release(&one->route);
    one->gone = true;
    (void)!loop_later(one->peers->loop, free_later, one); /* callers up the stack still look at it */
}

static struct peer *find(const struct peers *p, enum peer_state state, uint32_t node)
{
    struct peer *one = p->peer;

    while (one && (one->state != state || one->node != node))
        one = one->next;
    return one;
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

static void complain(struct peers *p, uint32_t node, const char *what)
{
    if (!p->complained)
        log_warn("peers", "from node %" PRIu32 ": %s: dropped; more is not logged", node, what);
    p->complained = true;
}

/* ---- those who dialed us ---- */

static bool may_come_in(void *arg, const unsigned char key[KEY_SIZE], char name[static ADMIT_NAME_SIZE])
{
    struct peers *p = arg;

    for (const struct peer *one = p->peer; one; one = one->next)
        if (one->state == PEER_EXPECTED && memcmp(one->key, key, KEY_SIZE) == 0) {
            snprintf(name, ADMIT_NAME_SIZE, "%" PRIu32, one->node);
            return true;
        }
    return false;
}

static int send_to(struct peer *one, const void *frame, size_t n, int flags)
{
    if (!one->socket && zmq_send(one->peers->router, one->id, one->id_size, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return -1;
    return zmq_send(one->socket ? one->socket : one->peers->router, frame, n, flags | ZMQ_DONTWAIT) < 0 ? -1 : 0;
}

static void ended(struct peer *one, const char *why)
{
    struct peers *p = one->peers;
    const uint32_t node = one->node;
    const bool linked = one->state == PEER_LINKED;

    log_info("peers", "node %" PRIu32 ": %s", node, why);
    peer_destroy(one);
    if (linked)
        p->doors.unlinked(p->doors.arg, node, why);
}

static void answer(struct peer *one, const char *error)
{
    struct span m = { .kind = SPAN_DIALED };
    struct buf msg = BUF_INIT;
    struct err err = { "" };

    m.v[F_DIALED_NODE].u64 = one->peers->own;
    m.v[F_DIALED_ERROR].s = slice_text(error);
    if (span_encode(&m, &msg, &err) < 0 || send_to(one, msg.p, msg.n, 0) < 0)
        ended(one, "it left before it was answered");
    buf_release(&msg);
}

/* Its first message: what it is here for. From then on its key is used. */
static void meet(struct peers *p, const uint8_t *id, size_t id_size, zmq_msg_t *frame)
{
    const char *name = zmq_msg_gets(frame, "User-Id");
    const uint32_t node = name ? (uint32_t)strtoul(name, NULL, 10) : ROUTE_KERNEL;
    struct peer *one = find(p, PEER_EXPECTED, node);
    struct err err = { "" };
    struct span m;

    if (!one || span_decode(&m, zmq_msg_data(frame), zmq_msg_size(frame), &err) < 0) {
        complain(p, node, one ? err.text : "a second connection with one key");
        return;
    }
    if (m.kind == SPAN_DIAL && m.v[F_DIAL_NODE].u64 == node && m.v[F_DIAL_ROLE].u64 <= PEER_BLOBS) {
        memcpy(one->id, id, id_size);
        one->id_size = id_size;
        one->role = m.v[F_DIAL_ROLE].u64;
        one->state = one->role == PEER_PARENT ? PEER_CHILD : PEER_LINKED;
        if (one->state == PEER_CHILD && tree_put(&p->tree, node, node) < 0)
            ended(one, "out of memory");
        else
            answer(one, "");
    } else {
        complain(p, node, "its first message is no DIAL");
    }
    span_release(&m);
}

/* How many entries are good; -1: the bundle is torn. */
static long check_bundle(struct peer *child, struct slice bundle, bool *all)
{
    struct bundle_entry e;
    long good = 0;

    *all = true;
    while (bundle_next(&bundle, &e))
        if (tree_get(&child->peers->tree, e.node) == child->node)
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
        complain(p, child->node, good < 0 ? "a torn bundle" : "entries of nodes that are not under it");
    if (good > 0 && all) {
        zmq_msg_init(&own);
        zmq_msg_move(&own, frame);
        p->doors.bundle(p->doors.arg, &own);
    } else if (good > 0) {
        while (bundle_next(&rest, &e))
            if (tree_get(&p->tree, e.node) == child->node)
                p->doors.entry(p->doors.arg, e.whole);
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
        socket_skip(p->router);
    if (more || n > (int)sizeof id)
        complain(p, one ? one->node : ROUTE_KERNEL, "more than one frame");
    else if (!one)
        meet(p, id, (size_t)n, &frame);
    else if (one->state == PEER_CHILD)
        take_bundle(one, &frame);
    else
        p->doors.blobs(p->doors.arg, one->node, slice_of(zmq_msg_data(&frame), zmq_msg_size(&frame)));
    zmq_msg_close(&frame);
    return true;
}

static void router_ready(struct loop *loop, void *arg)
{
    (void)loop;
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
    if (!(p->admit = admit_open(p->loop, p->context, may_come_in, p, err)))
        return -1;
    if ((p->router = socket_router(p->context, p->keys, &p->port, err)) && admit_watch(p->admit, p->router, err) == 0 &&
        (p->watch = loop_zmq(p->loop, p->router, router_ready, p, err)))
        return 0;
    admit_close(p->admit);
    p->admit = NULL;
    if (p->router)
        zmq_close(p->router);
    p->router = NULL;
    return -1;
}

/* The key is that of a node which is to be a child, or is one: it says that `node` is under that. */
static bool is_announced(struct peers *p, uint32_t node, const char *key)
{
    for (const struct peer *one = p->peer; one; one = one->next)
        if (one->node != node && (one->state == PEER_EXPECTED || one->state == PEER_CHILD) &&
            memcmp(one->key, key, KEY_SIZE) == 0) {
            if (tree_put(&p->tree, node, one->node) < 0)
                log_error("peers", "node %" PRIu32 " is not reached: out of memory, or a number too large", node);
            return true;
        }
    return false;
}

void peers_open(struct peers *p, const struct span *m)
{
    struct span said = { .kind = SPAN_OPENED, .cell = m->cell };
    const struct slice key = m->v[F_OPEN_KEY].s;
    const uint32_t node = (uint32_t)m->v[F_OPEN_NODE].u64;
    struct err err = { "" };

    if (key.n == KEY_SIZE && is_announced(p, node, key.p))
        return;
    if (key.n != KEY_SIZE || m->v[F_OPEN_NODE].u64 > ROUTE_NODES_MAX || node == p->own)
        (void)err_set(&err, "OPEN names node %" PRIu64 " with a key of %zu bytes", m->v[F_OPEN_NODE].u64, key.n);
    else if (count(p, node) >= SAME_NODE_MAX)
        (void)err_set(&err, "there are %u links with node %" PRIu32 " already", SAME_NODE_MAX, node);
    else if (open_router(p, &err) == 0 && !peer_create(p, PEER_EXPECTED, node, (const unsigned char *)key.p))
        (void)err_set(&err, "out of memory");
    said.v[F_OPENED_NODE].u64 = m->v[F_OPEN_NODE].u64;
    said.v[F_OPENED_PORT].u64 = err.text[0] ? 0 : p->port;
    said.v[F_OPENED_ERROR].s = slice_text(err.text);
    p->doors.say(p->doors.arg, &said);
}

/* ---- DIAL ---- */

static void say_dialed(struct peers *p, uint64_t node, const char *error)
{
    struct span said = { .kind = SPAN_DIALED };

    said.v[F_DIALED_NODE].u64 = node;
    said.v[F_DIALED_ERROR].s = slice_text(error);
    p->doors.say(p->doors.arg, &said);
}

static void blobs_ready(struct loop *loop, void *arg)
{
    struct peer *one = arg;
    struct peers *p = one->peers;
    zmq_msg_t msg;

    (void)loop;
    for (int i = 0; i < MESSAGES_PER_TURN && !one->gone; i++) {
        zmq_msg_init(&msg);
        if (zmq_msg_recv(&msg, one->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&msg);
            return;
        }
        if (zmq_msg_more(&msg)) {
            socket_skip(one->socket);
            complain(p, one->node, "more than one frame");
        } else {
            p->doors.blobs(p->doors.arg, one->node, slice_of(zmq_msg_data(&msg), zmq_msg_size(&msg)));
        }
        zmq_msg_close(&msg);
    }
}

static void called(void *arg, void *socket, const char *why)
{
    struct peer *one = arg;
    struct peers *p = one->peers;
    const uint32_t node = one->node;
    struct err err = { "" };

    one->call = NULL;
    if (socket && one->role == PEER_PARENT) {
        peer_destroy(one);
        p->doors.parent(p->doors.arg, node, socket);
        return;
    }
    one->socket = socket;
    if (!socket)
        (void)err_set(&err, "%s", why);
    else if ((one->watch = loop_zmq(p->loop, socket, blobs_ready, one, &err)))
        one->state = PEER_LINKED;
    if (one->state != PEER_LINKED)
        peer_destroy(one);
    say_dialed(p, node, err.text);
}

void peers_dial(struct peers *p, const struct span *m)
{
    const struct slice key = m->v[F_DIAL_KEY].s;
    const uint32_t node = (uint32_t)m->v[F_DIAL_NODE].u64;
    struct err err = { "" };
    struct peer *one = NULL;

    if (key.n != KEY_SIZE || m->v[F_DIAL_NODE].u64 > ROUTE_NODES_MAX || m->v[F_DIAL_ROLE].u64 > PEER_BLOBS ||
        node == p->own)
        (void)err_set(&err, "DIAL names node %" PRIu64 ", role %" PRIu64, m->v[F_DIAL_NODE].u64, m->v[F_DIAL_ROLE].u64);
    else if (!p->keys)
        (void)err_set(&err, "this machine's own agent has no keys, and can't dial another");
    else if (m->v[F_DIAL_ROLE].u64 == PEER_BLOBS && find(p, PEER_LINKED, node))
        say_dialed(p, node, "");
    else if (!(one = peer_create(p, PEER_CALLED, node, (const unsigned char *)key.p)))
        (void)err_set(&err, "out of memory");
    if (one) {
        one->role = m->v[F_DIAL_ROLE].u64;
        if (!(one->call = call_start(p->loop, p->context, p->keys, p->own, m, called, one, &err)))
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
    if (zmq_msg_copy(&copy, msg) < 0 || send_to(child, child->route.p, child->route.n, ZMQ_SNDMORE) < 0 ||
        zmq_msg_send(&copy, child->peers->router, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&copy);
        ended(child, "the link to this child is gone");
        return;
    }
    buf_clear(&child->route);
}

void peers_down(struct peers *p, struct slice route, uint32_t own, zmq_msg_t *msg)
{
    struct route_section s;
    struct peer *next;

    while (route_next(&route, &s)) {
        const uint32_t under = s.node == own ? TREE_NONE : tree_get(&p->tree, s.node);
        struct peer *child = under == TREE_NONE ? NULL : find(p, PEER_CHILD, under);

        if (child && buf_add_slice(&child->route, s.whole) < 0)
            log_error("peers", "out of memory: a message for node %" PRIu32 " is lost", s.node);
    }
    for (struct peer *child = p->peer; child; child = next) {
        next = child->next;
        if (child->route.n > 0)
            send_down(child, msg);
    }
}

int peers_send(struct peers *p, uint32_t node, struct slice msg, struct err *err)
{
    struct peer *one = find(p, PEER_LINKED, node);

    if (!one)
        return err_set(err, "there is no link to node %" PRIu32, node);
    if (send_to(one, msg.p, msg.n, 0) == 0)
        return 0;
    (void)err_set(err, "the link to node %" PRIu32 " is gone: %s", node, zmq_strerror(zmq_errno()));
    peer_destroy(one);
    return -1;
}

/* ---- the whole ---- */

struct peers *peers_create(struct loop *loop, void *context, const struct keys *keys, const struct peers_doors *doors,
                           struct err *err)
{
    struct peers *p = calloc(1, sizeof *p);

    if (!p)
        return err_null(err, "out of memory");
    p->loop = loop;
    p->context = context;
    p->keys = keys;
    p->doors = *doors;
    p->own = ROUTE_KERNEL;
    return p;
}

void peers_destroy(struct peers *p)
{
    if (!p)
        return;
    while (p->peer)
        peer_destroy(p->peer);
    watch_stop(p->watch);
    admit_close(p->admit);
    if (p->router)
        zmq_close(p->router);
    tree_release(&p->tree);
    free(p);
}

void peers_number(struct peers *p, uint32_t node)
{
    p->own = node;
}

unsigned peers_port(const struct peers *p)
{
    return p->port;
}

unsigned long peers_refused(const struct peers *p)
{
    return admit_refused(p->admit);
}
