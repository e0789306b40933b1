/* SPDX-License-Identifier: BSD-3-Clause */
/* sockets.c - ZeroMQ for agents, on the simulated network: what the code of worker/agent/net calls
 * of it. Messages are those of messages.c. A DEALER has one connection, the ROUTER of an agent
 * those of its children; a monitor tells that a connection has ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/loop/monitor.h"
#include "tests/unit/network/fleet.h"
#include "worker/agent/net/socket.h"

#define PORTS 1000u

enum socket_kind { SOCKET_DEALER, SOCKET_ROUTER, SOCKET_MONITOR };

/* A frame of ZeroMQ that was received, and is not read yet. */
struct part {
    struct part *next;
    bool more;
    unsigned wire;
    size_t n;
    char bytes[];
};

struct socket {
    struct socket *next;
    enum socket_kind kind;
    unsigned owner;
    struct wire *wire; /* of a DEALER */
    bool taken, up;    /* by the system there; the handshake is done */
    bool ended;        /* that one */
    struct socket *monitor;
    bool in_use; /* the uplink has watched its end: it is no connection that is still tried */
    struct part *first, **last;
    bool skips;      /* the last part that was read has more behind it */
    struct wire *to; /* of a ROUTER: to whom the parts that follow go */
    struct buf head; /* the first of them */
    bool headed;     /* there is one, which may be empty */
    peer_zap_f admits;
    void *admits_arg;
    unsigned char key[KEY_SIZE];    /* its own */
    unsigned char server[KEY_SIZE]; /* of a DEALER: whom it dials */
};

static struct fleet *fleet; /* one at a time */
static struct socket *sockets, *last;
static bool dead[FLEET_AGENTS]; /* that agent has crashed: it sends nothing any more */

void sockets_open(struct fleet *f)
{
    fleet = f;
}

void sockets_dead(unsigned owner, bool is)
{
    dead[owner] = is;
}

static struct socket *create(enum socket_kind kind, unsigned owner)
{
    struct socket *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    *s = (struct socket){ .next = sockets, .kind = kind, .owner = owner };
    s->last = &s->first;
    sockets = s;
    return s;
}

void *sockets_last(void)
{
    return last;
}

bool sockets_wait_for_answer(unsigned owner)
{
    for (const struct socket *s = sockets; s; s = s->next)
        if (s->kind == SOCKET_DEALER && s->owner == owner && s->taken && !s->up)
            return true;
    return false;
}

static unsigned listener_of(struct slice endpoint)
{
    unsigned port = 0;

    while (slice_has(endpoint, ':'))
        (void)slice_cut(&endpoint, ':');
    for (; endpoint.n && *endpoint.p >= '0' && *endpoint.p <= '9'; endpoint.p++, endpoint.n--)
        port = 10 * port + (unsigned)(*endpoint.p - '0');
    if (port < PORTS || port > PORTS + FLEET_SILENT)
        abort();
    return port - PORTS;
}

void sockets_endpoint(unsigned listener, char text[static SOCKETS_ENDPOINT_SIZE])
{
    (void)snprintf(text, SOCKETS_ENDPOINT_SIZE, "tcp://127.0.0.1:%u", PORTS + listener);
}

/* ---- what comes ---- */

static void push(struct socket *s, const void *p, size_t n, bool more, unsigned wire)
{
    struct part *part = malloc(sizeof *part + n);

    if (!part)
        abort();
    *part = (struct part){ .more = more, .wire = wire, .n = n };
    if (n)
        memcpy(part->bytes, p, n);
    *s->last = part;
    s->last = &part->next;
}

static struct part *pop(struct socket *s)
{
    struct part *part = s->first;

    if (!part) {
        errno = EAGAIN;
        return NULL;
    }
    if (!(s->first = part->next))
        s->last = &s->first;
    s->skips = part->more;
    last = s;
    return part;
}

bool sockets_has(const void *socket)
{
    return ((const struct socket *)socket)->first;
}

static struct socket *find(unsigned owner, enum socket_kind kind, const struct wire *w)
{
    struct socket *s = sockets;

    while (s && (s->owner != owner || s->kind != kind || s->wire != w))
        s = s->next;
    return s;
}

/* What a monitor says: an event with the connection's number, and an endpoint, which nobody reads.
 */
static void tell(struct socket *s, uint16_t event)
{
    char frame[6];

    if (!s->monitor)
        return;
    memcpy(frame, &event, sizeof event);
    memcpy(frame + sizeof event, &s->wire->number, 4);
    push(s->monitor, frame, sizeof frame, true, 0);
    push(s->monitor, "", 0, false, 0);
}

static void end(struct socket *s, uint16_t event)
{
    s->ended = true;
    tell(s, event);
}

static void admit(struct socket *s)
{
    s->up = true;
    if (s->wire->listener == FLEET_KERNEL)
        check_heard(fleet, SIDE_AGENT, s->owner);
    tell(s, ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
}

static void refuse(struct socket *s)
{
    if (s->wire->listener == FLEET_KERNEL)
        fleet->counts.refused++;
    end(s, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
}

bool sockets_take(struct wire *w, const struct frame *frame)
{
    struct socket *s = find(w->agent, SOCKET_DEALER, w);

    if (!s)
        return false;
    if (frame->kind == FRAME_TAKEN) {
        s->taken = true;
        tell(s, ZMQ_EVENT_CONNECTED);
    } else if (frame->kind == FRAME_ADMITTED) {
        admit(s);
    } else if (frame->kind == FRAME_REFUSED) {
        refuse(s);
    }
    if (frame->kind != FRAME_SPAN && frame->kind != FRAME_END)
        return true;
    if (frame->kind == FRAME_SPAN) {
        if (s->in_use)
            check_heard(fleet, SIDE_AGENT, w->agent);
        if (frame->two)
            push(s, frame->bytes, frame->head, true, w->number);
        push(s, frame->bytes + frame->head, frame->n - frame->head, false, w->number);
        return true;
    }
    end(s, s->taken ? ZMQ_EVENT_DISCONNECTED : ZMQ_EVENT_CLOSED);
    return true;
}

/* A key that is not expected is refused, and where nobody listens the connection is reset. */
static void knock(const struct socket *s, struct wire *w)
{
    bool good;

    if (!s || memcmp(s->key, w->server, KEY_SIZE) != 0) {
        network_close(&fleet->net, w, SIDE_KERNEL, fleet->now);
        return;
    }
    good = s->admits(s->admits_arg, w->key, w->user);
    network_send(&fleet->net, w, SIDE_KERNEL,
                 frame_create(good ? FRAME_ADMITTED : FRAME_REFUSED, slice_text(""),
                              slice_text("")),
                 fleet->now);
}

/* A ROUTER does not say that a connection has ended. */
void sockets_take_child(struct wire *w, const struct frame *frame)
{
    struct socket *s = find(w->listener, SOCKET_ROUTER, NULL);

    if (frame->kind == FRAME_KNOCK) {
        if (!w->closed[SIDE_KERNEL])
            knock(s, w);
    } else if (frame->kind == FRAME_END) {
        if (!w->closed[SIDE_KERNEL])
            network_close(&fleet->net, w, SIDE_KERNEL, fleet->now);
    } else if (s && w->user[0]) {
        push(s, &w->number, sizeof w->number, true, w->number);
        push(s, frame->bytes, frame->n, false, w->number);
    }
}

/* ---- out ---- */

static int fails(int error)
{
    errno = error;
    return -1;
}

static void send_frame(struct wire *w, enum side from, struct slice head, struct slice body,
                       bool two)
{
    struct frame *frame = frame_create(FRAME_SPAN, head, body);

    frame->two = two;
    network_send(&fleet->net, w, from, frame, fleet->now);
}

static int send_to(struct socket *s, struct slice bytes, bool more)
{
    if (!s->to) {
        unsigned number;

        memcpy(&number, bytes.p, sizeof number);
        s->to = network_wire(&fleet->net, number);
        if (s->to && !s->to->closed[SIDE_KERNEL])
            return 0;
        s->to = NULL;
        return fails(EHOSTUNREACH);
    }
    if (more) {
        if (buf_add_slice(&s->head, bytes) < 0)
            abort();
        s->headed = true;
        return 0;
    }
    send_frame(s->to, SIDE_KERNEL, buf_slice(&s->head), bytes, s->headed);
    buf_clear(&s->head);
    s->to = NULL;
    s->headed = false;
    return 0;
}

static int send_bytes(struct socket *s, struct slice bytes, int flags)
{
    if (dead[s->owner])
        return 0;
    if (s->kind == SOCKET_ROUTER)
        return send_to(s, bytes, flags & ZMQ_SNDMORE);
    if (s->ended)
        return fails(EAGAIN);
    send_frame(s->wire, SIDE_AGENT, slice_text(""), bytes, false);
    return 0;
}

int zmq_send(void *socket, const void *p, size_t n, int flags)
{
    return send_bytes(socket, slice_of(p, n), flags);
}

int zmq_msg_send(zmq_msg_t *m, void *socket, int flags)
{
    if (send_bytes(socket, slice_of(zmq_msg_data(m), zmq_msg_size(m)), flags) < 0)
        return -1;
    return zmq_msg_close(m);
}

/* ---- in ---- */

int zmq_recv(void *socket, void *p, size_t n, int flags)
{
    struct part *part = pop(socket);
    int size;

    (void)flags;
    if (!part)
        return -1;
    size = (int)part->n;
    memcpy(p, part->bytes, part->n < n ? part->n : n);
    free(part);
    return size;
}

int zmq_msg_recv(zmq_msg_t *m, void *socket, int flags)
{
    struct part *part = pop(socket);

    (void)flags;
    if (!part)
        return -1;
    messages_fill(m, slice_of(part->bytes, part->n), part->more, part->wire);
    free(part);
    return 0;
}

void loop_zmq_skip(void *socket)
{
    struct socket *s = socket;

    while (s->skips)
        free(pop(s));
}

const char *zmq_msg_gets(const zmq_msg_t *m, const char *name)
{
    const struct wire *w = network_wire(&fleet->net, messages_wire(m));

    (void)name;
    return w ? w->user : NULL;
}

int zmq_errno(void)
{
    return errno;
}

const char *zmq_strerror(int error)
{
    return strerror(error);
}

/* ---- sockets ---- */

static void close_router(const struct socket *s)
{
    for (struct wire *w = fleet->net.first; w; w = w->next)
        if (w->listener == s->owner) {
            w->user[0] = '\0'; /* nobody reads what has come */
            if (!w->closed[SIDE_KERNEL])
                network_close(&fleet->net, w, SIDE_KERNEL, fleet->now);
        }
}

int zmq_close(void *socket)
{
    struct socket *s = socket, **at = &sockets;

    if (!s)
        return 0;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    if (s->kind == SOCKET_DEALER && s->wire) {
        fleet->counts.orphans += s->in_use && s->wire->listener != FLEET_KERNEL && !dead[s->owner];
        if (s->wire->listener == FLEET_SILENT && !s->wire->closed[SIDE_KERNEL])
            network_close(&fleet->net, s->wire, SIDE_KERNEL, fleet->now);
        network_close(&fleet->net, s->wire, SIDE_AGENT, fleet->now);
    } else if (s->kind == SOCKET_ROUTER) {
        close_router(s);
    }
    while (s->first)
        free(pop(s));
    buf_release(&s->head);
    free(s);
    return 0;
}

void *monitor_open(void *context, void *socket, int events, struct err *err)
{
    struct socket *s = socket;

    (void)context, (void)events, (void)err;
    s->in_use = s->up;
    s->monitor = create(SOCKET_MONITOR, s->owner);
    if (s->ended)
        tell(s, ZMQ_EVENT_DISCONNECTED);
    return s->monitor;
}

int zmq_socket_monitor(void *socket, const char *endpoint, int events)
{
    (void)endpoint, (void)events;
    ((struct socket *)socket)->monitor = NULL;
    return 0;
}

int loop_zmq_set(void *socket, int option, int value)
{
    (void)socket, (void)option, (void)value;
    return 0;
}

/* context: of an agent it is its loop. */
void *socket_dialer(void *context, const struct keys *own, const unsigned char *server,
                    struct err *err)
{
    struct socket *s = create(SOCKET_DEALER, turns_owner(context));

    (void)err;
    memcpy(s->key, own->public, KEY_SIZE);
    memcpy(s->server, server, KEY_SIZE);
    return s;
}

bool socket_limit_dial(void *socket)
{
    (void)socket;
    return true;
}

int zmq_connect(void *socket, const char *endpoint)
{
    struct socket *s = socket;
    const unsigned listener = listener_of(slice_text(endpoint));
    const bool parent = listener < FLEET_KERNEL;

    s->wire = network_dial(&fleet->net, s->owner, listener,
                           &fleet->path[parent ? FLEET_AGENTS + s->owner : s->owner], s->key,
                           fleet->now);
    memcpy(s->wire->server, s->server, KEY_SIZE);
    return 0;
}

void *socket_router(void *context, const struct keys *own, unsigned *port, struct err *err)
{
    struct socket *s = create(SOCKET_ROUTER, turns_owner(context));

    (void)err;
    memcpy(s->key, own->public, KEY_SIZE);
    *port = PORTS + s->owner;
    return s;
}

int socket_frame(zmq_msg_t *m, struct buf *bytes, size_t skip, struct err *err)
{
    (void)err;
    messages_fill(m, slice_of(bytes->p + skip, bytes->n - skip), false, 0);
    buf_release(bytes);
    return 0;
}

/* ---- who may come in ---- */

struct peer_zap {
    peer_zap_f f;
    void *arg;
};

struct peer_zap *peer_zap_open(struct loop *loop, void *context, peer_zap_f f, void *arg,
                               struct err *err)
{
    struct peer_zap *a = malloc(sizeof *a);

    (void)loop, (void)context, (void)err;
    if (!a)
        abort();
    *a = (struct peer_zap){ f, arg };
    return a;
}

int peer_zap_watch(struct peer_zap *a, void *listener, struct err *err)
{
    struct socket *s = listener;

    (void)err;
    s->admits = a->f;
    s->admits_arg = a->arg;
    return 0;
}

void peer_zap_close(struct peer_zap *a)
{
    free(a);
}
