/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/dial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/loop/monitor.h"
#include "worker/agent/net/socket.h"

/* how long to wait for an answer before the next endpoint is tried, too */
#define NEXT_NS         (150 * NS_PER_MS)
#define PROBE_NS        (2 * NS_PER_S) /* limit for finding out why no endpoint answered */
#define EVENTS_PER_TURN 16

struct try {
    struct dial *dial;
    char endpoint[DIAL_ENDPOINT_SIZE];
    char words[160]; /* why the endpoint can't be tried; "": it can */
    void *socket;    /* NULL: not opened yet, or closed again */
    void *monitor;
    struct watch *watch;
    int fd;         /* the connection's descriptor, borrowed from ZeroMQ; -1: there is none */
    bool connected; /* at least once */
    bool refused;   /* our key was refused there */
    bool strange;   /* another program listens there */
    struct tcp_probe *probe;
    int error; /* the errno that the probe found; 0: none */
};

struct dial {
    struct loop *loop;
    void *context;
    struct keys own;
    unsigned char server[KEY_SIZE];
    struct try try[DIAL_MAX];
    unsigned n, next; /* number of endpoints; the next one to try */
    unsigned probes;  /* probes without a result yet */
    struct watch *timer, *limit;
    dial_f f;
    void *arg;
    bool reported; /* f was called */
    bool stopped;
};

/* ---- pure ---- */

bool dial_next(struct slice *endpoints, struct slice *endpoint)
{
    while (endpoints->n > 0) {
        *endpoint = slice_cut(endpoints, ',');
        if (endpoint->n > 0)
            return true;
    }
    return false;
}

const char *dial_words(int error)
{
    switch (error) {
    case 0:
    case ETIMEDOUT:
        return "timed out";
    case ECONNREFUSED:
        return "connection refused";
    case EHOSTUNREACH:
        return "no route to host";
    case ENETUNREACH:
        return "network is unreachable";
    case ECONNRESET:
        return "connection reset";
    default:
        return strerror(error);
    }
}

/* ---- one endpoint ---- */

static void try_close(struct try *t)
{
    watch_clear(&t->watch);
    if (t->monitor) {
        (void)zmq_socket_monitor(t->socket, NULL, 0);
        zmq_close(t->monitor);
    }
    zmq_close(t->socket);
    t->monitor = t->socket = NULL;
    t->fd = -1;
}

void dial_stop(struct dial *d)
{
    if (!d || d->stopped)
        return;
    d->stopped = true;
    for (unsigned i = 0; i < d->n; i++) {
        try_close(&d->try[i]);
        tcp_probe_stop(d->try[i].probe);
    }
    watch_stop(d->timer);
    watch_stop(d->limit);
    keys_wipe(&d->own);
    loop_free(d->loop, d); /* functions up the stack still use it */
}

/* Closes the other attempts: at once, or after a handshake that has begun, because servers count
 * aborted handshakes. */
static void succeed(struct try *t)
{
    struct dial *d = t->dial;
    struct dial_found found = { .endpoint = t->endpoint,
                                .socket = t->socket,
                                .own = { .size = sizeof found.own.socket } };

    if (t->fd < 0 || getsockname(t->fd, (struct sockaddr *)&found.own.socket, &found.own.size) < 0)
        found.own.size = 0;
    watch_stop(t->watch);
    (void)zmq_socket_monitor(t->socket, NULL, 0);
    zmq_close(t->monitor);
    t->watch = NULL;
    t->socket = t->monitor = NULL;
    for (unsigned i = 0; i < d->n; i++)
        if (d->try[i].fd < 0)
            try_close(&d->try[i]);
    d->reported = true;
    watch_clear(&d->timer);
    d->f(d->arg, &found, NULL);
}

static void try_next(void *arg);

static void try_event(struct try *t, uint16_t event, uint32_t value)
{
    struct dial *d = t->dial;

    if (event == ZMQ_EVENT_CONNECTED) {
        t->fd = (int)value;
        t->connected = true;
    } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
        if (d->reported)
            try_close(t);
        else
            succeed(t);
    } else {
        /* it is the right server, and it will not change its answer */
        if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
            t->refused = true;
            loop_timer_again(d->limit, 0);
        }
        t->strange = t->strange || event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
                     event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
        t->fd = -1;
        if (d->reported)
            try_close(t);
        else
            try_next(d);
    }
}

/* An event has two frames: number:u16 value:u32, in this machine's byte order, and the endpoint. */
static void try_ready(void *arg)
{
    struct try *t = arg;
    uint16_t event;
    uint32_t value;
    char frame[6];

    for (int i = 0; i < EVENTS_PER_TURN && t->monitor; i++) {
        if (zmq_recv(t->monitor, frame, sizeof frame, ZMQ_DONTWAIT) != (int)sizeof frame)
            return;
        loop_zmq_skip(t->monitor);
        memcpy(&event, frame, sizeof event);
        memcpy(&value, frame + sizeof event, sizeof value);
        try_event(t, event, value);
    }
}

static int try_watch(struct try *t, struct err *err)
{
    const int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED |
                       ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

    if (!(t->monitor = monitor_open(t->dial->context, t->socket, events, err)))
        return -1;
    return (t->watch = loop_zmq(t->dial->loop, t->monitor, try_ready, t, err)) ? 0 : -1;
}

static void try_start(struct try *t)
{
    struct err err = { "" };

    if ((t->socket = socket_dialer(t->dial->context, &t->dial->own, t->dial->server, &err)) &&
        try_watch(t, &err) == 0) {
        if (zmq_connect(t->socket, t->endpoint) == 0)
            return;
        (void)err_set(&err, "%s", zmq_strerror(zmq_errno()));
    }
    snprintf(t->words, sizeof t->words, "%.150s", err.text);
    try_close(t);
}

/* Tries the next endpoint, if there is one left. */
static void try_next(void *arg)
{
    struct dial *d = arg;

    while (d->next < d->n && d->try[d->next].words[0])
        d->next++;
    if (d->next == d->n || d->reported)
        return;
    try_start(&d->try[d->next++]);
    if (d->timer)
        loop_timer_again(d->timer, NEXT_NS);
}

/* ---- the end without success ---- */

static int tell_from(struct buf *out)
{
    struct buf list = BUF_INIT;
    struct slice rest, one;
    int rc = address_list(NULL, &list);
    unsigned n = 0;

    rest = buf_slice(&list);
    while (rc == 0 && dial_next(&rest, &one)) {
        if (slice_has(one, '='))
            (void)slice_cut(&one, '=');
        if (n++ < 8)
            rc = buf_addf(out, "%s%.*s", n == 1 ? "; from " : ", ", SLICE_ARG(one));
    }
    buf_release(&list);
    return rc;
}

static const char *words_of(const struct try *t)
{
    if (t->words[0])
        return t->words;
    if (t->refused)
        return "it does not let this agent in: its run is over, or its key was used before";
    if (t->strange)
        return "connected, but the encrypted handshake failed: another program listens there, or the link is bad";
    return t->connected ? "connected, but it does not answer" : dial_words(t->error);
}

static void fail(void *arg)
{
    struct dial *d = arg;
    struct buf why = BUF_INIT;
    int rc = 0;

    for (unsigned i = 0; i < d->n; i++) {
        tcp_probe_stop(d->try[i].probe);
        d->try[i].probe = NULL;
    }
    for (unsigned i = 0; i < d->n && rc == 0; i++)
        rc = buf_addf(&why, "%s%s (%s)", i ? ", " : "", d->try[i].endpoint, words_of(&d->try[i]));
    if (rc == 0)
        rc = tell_from(&why);
    d->f(d->arg, NULL, rc == 0 ? why.p : "out of memory");
    buf_release(&why);
}

static void probed(void *arg, int error)
{
    struct try *t = arg;

    t->probe = NULL;
    t->error = error;
    if (--t->dial->probes == 0)
        loop_timer_again(t->dial->timer, 0);
}

/* ZeroMQ does not say why it can't connect. A plain tcp connection does. */
static void limit_is_over(void *arg)
{
    struct dial *d = arg;
    struct err err = { "" };

    if (d->reported) {
        for (unsigned i = 0; i < d->n; i++)
            try_close(&d->try[i]);
        return;
    }
    d->reported = true;
    for (unsigned i = 0; i < d->n; i++) {
        struct try *t = &d->try[i];

        try_close(t);
        if (!t->words[0] && !t->connected &&
            (t->probe = tcp_probe_start(d->loop, slice_text(t->endpoint), probed, t, &err)))
            d->probes++;
    }
    watch_stop(d->timer);
    if (!(d->timer = loop_timer(d->loop, d->probes > 0 ? PROBE_NS : 0, 0, fail, d, &err)))
        fail(d);
}

/* ---- start ---- */

static void add(struct dial *d, struct slice endpoint)
{
    struct try *t = &d->try[d->n++];
    struct err err = { "" };
    struct address a;
    const char *colon;

    *t = (struct try){ .dial = d, .fd = -1 };
    snprintf(t->endpoint, sizeof t->endpoint, "%.*s", SLICE_ARG(endpoint));
    if (address_parse(endpoint, &a, &err) == 0)
        return;
    colon = strstr(err.text, ": ");
    snprintf(t->words, sizeof t->words, "%.150s", colon ? colon + 2 : err.text);
}

static bool any_known(const struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (!d->try[i].words[0])
            return true;
    return false;
}

struct dial *dial_start(struct loop *loop, const struct dial_to *to, dial_f f, void *arg,
                        struct err *err)
{
    struct dial *d = calloc(1, sizeof *d);
    struct slice rest = to->endpoints, one;

    if (!d)
        return err_null(err, "out of memory");
    d->loop = loop;
    d->context = to->context;
    d->own = *to->own;
    memcpy(d->server, to->server, KEY_SIZE);
    d->f = f;
    d->arg = arg;
    while (d->n < DIAL_MAX && dial_next(&rest, &one))
        add(d, one);
    if (d->n == 0)
        (void)err_set(err, "there is no endpoint to dial");
    else if ((d->limit = loop_timer(d->loop, any_known(d) ? to->limit_ns : 0, 0, limit_is_over, d,
                                    err)) &&
             (d->timer = loop_timer(d->loop, 0, NEXT_NS, try_next, d, err)))
        return d;
    dial_stop(d);
    return NULL;
}
