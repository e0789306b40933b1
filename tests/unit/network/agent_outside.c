/* SPDX-License-Identifier: BSD-3-Clause */
/* agent_outside.c - what worker/agent/net calls outside, but for its loop (turns.c) and ZeroMQ
 * (sockets.c, messages.c): dial.c's way to a connection, keys and random numbers. */
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/loop/message_stream.h"
#include "base/unix_socket.h"
#include "tests/unit/network/fleet.h"
#include "worker/agent/net/dial.h"
#include "worker/agent/net/socket.h"

struct dial {
    struct dial *next;
    struct loop *loop;
    struct wire *wire; /* NULL: it is over */
    struct watch *limit;
    bool refused, slow;
    dial_f f;
    void *arg;
};

static struct fleet *fleet; /* one at a time */
static struct dial *dials;

void agent_outside_open(struct fleet *f)
{
    fleet = f;
}

/* ---- dial.h: the one endpoint is tried once ---- */

bool dial_was_refused(const struct dial *d)
{
    return d->refused;
}

bool dial_was_slow(const struct dial *d)
{
    return d->slow;
}

/* On this network what was sent passes at once when it is back. */
void dial_beside(struct dial *d)
{
    (void)d;
}

void dial_more(struct dial *d, struct slice endpoints)
{
    (void)d, (void)endpoints;
}

static void hang_up(struct dial *d)
{
    watch_clear(&d->limit);
    if (d->wire)
        network_close(&fleet->net, d->wire, SIDE_AGENT, fleet->now);
    d->wire = NULL;
}

static void fail(struct dial *d, const char *why)
{
    hang_up(d);
    d->f(d->arg, NULL, why);
}

/* It was connected, and that has taken too long? */
static void limit_is_over(void *arg)
{
    struct dial *d = arg;

    d->slow = !d->wire->path->cut && !d->wire->forgotten;
    fail(d, "it takes too long");
}

struct dial *dial_start(struct loop *loop, const struct dial_to *to, dial_f f, void *arg,
                        struct err *err)
{
    const unsigned agent = turns_owner(loop), listener = sockets_listener(to->endpoints);
    struct path *path = &fleet->path[listener == FLEET_KERNEL ? agent : FLEET_AGENTS + agent];
    struct dial *d = calloc(1, sizeof *d);

    if (!d)
        abort();
    *d = (struct dial){ .next = dials, .loop = loop, .f = f, .arg = arg };
    dials = d;
    d->wire = network_dial(&fleet->net, agent, listener, path, to->own->public, fleet->now);
    memcpy(d->wire->server, to->server, KEY_SIZE);
    d->limit = loop_timer(loop, to->limit_ns, 0, limit_is_over, d, err);
    return d;
}

void dial_stop(struct dial *d)
{
    struct dial **at = &dials;

    while (*at && *at != d)
        at = &(*at)->next;
    if (!d || !*at) /* or it was stopped before */
        return;
    *at = d->next;
    hang_up(d);
    loop_free(d->loop, d);
}

static void found(struct dial *d)
{
    struct dial_found it = { .endpoint = "tcp://127.0.0.1:1" };

    if (d->wire->listener == FLEET_KERNEL)
        check_heard(fleet, SIDE_AGENT, d->wire->agent);
    it.socket = sockets_dealer(d->wire->agent, d->wire);
    d->wire = NULL;
    watch_clear(&d->limit);
    d->f(d->arg, &it, NULL);
}

bool dials_take(struct wire *w, const struct frame *frame)
{
    struct dial *d = dials;

    while (d && d->wire != w)
        d = d->next;
    if (!d)
        return false;
    if (frame->kind == FRAME_ADMITTED) {
        found(d);
        return true;
    }
    d->refused = frame->kind == FRAME_REFUSED;
    if (d->refused && w->listener == FLEET_KERNEL)
        fleet->counts.refused++;
    fail(d, "it is refused, or the connection has ended");
    return true;
}

/* ---- keys and random numbers: of the fleet's dice ---- */

void keys_create(struct keys *k)
{
    dice_bytes(&fleet->dice, k->public, KEY_SIZE);
    memset(k->secret, 0, KEY_SIZE);
}

void keys_wipe(struct keys *k)
{
    memset(k, 0, sizeof *k);
}

uint32_t randombytes_random(void);

uint32_t randombytes_random(void)
{
    return (uint32_t)dice_roll(&fleet->dice, UINT32_MAX);
}

/* ---- what no agent of another machine does ---- */

void address_text(const struct address *a, char text[static ADDRESS_TEXT_SIZE])
{
    (void)a;
    text[0] = '\0';
}

void *socket_dialer(void *context, const struct keys *own, const unsigned char *server,
                    struct err *err)
{
    (void)context, (void)own, (void)server;
    return err_null(err, "dial_start() has done that");
}

int zmq_connect(void *socket, const char *endpoint)
{
    (void)socket, (void)endpoint;
    return -1;
}

void *zmq_ctx_new(void)
{
    return NULL;
}

int zmq_ctx_term(void *context)
{
    (void)context;
    return 0;
}

int unix_connect(const char *path)
{
    (void)path;
    return -1;
}

struct message_stream *message_stream_open(struct loop *loop, int fd,
                                           const struct message_stream_handler *handler,
                                           struct err *err)
{
    (void)loop, (void)fd, (void)handler;
    return err_null(err, "there is none");
}

int message_stream_send(struct message_stream *s, struct slice head, zmq_msg_t *m, struct err *err)
{
    (void)s, (void)head, (void)m;
    return err_set(err, "there is none");
}

bool message_stream_is_over(const struct message_stream *s)
{
    (void)s;
    return true;
}

void message_stream_close(struct message_stream *s, int linger_ms)
{
    (void)s, (void)linger_ms;
}
