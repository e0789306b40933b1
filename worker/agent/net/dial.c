/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/dial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "worker/agent/net/knock.h"

/* how long to wait for an answer before the next endpoint is tried, too */
#define NEXT_NS  (150 * NS_PER_MS)
#define PROBE_NS (2 * NS_PER_S) /* limit for finding out why no endpoint answered */
#define CHECK_NS NS_PER_S       /* between two checks whether all refuse */
#define KNOCKS   3u             /* at one endpoint, beside each other */
/* between two attempts at an endpoint; twice as long each time */
#define AGAIN_NS     (50 * NS_PER_MS)
#define AGAIN_MAX_NS NS_PER_S

struct try {
    struct dial *dial;
    char endpoint[DIAL_ENDPOINT_SIZE];
    char named[DIAL_ENDPOINT_SIZE]; /* with the host's name, if it had one */
    struct host_lookup *lookup;     /* of this name; not NULL: it can't be tried yet */
    char words[160];                /* why the endpoint can't be tried; "": it can */
    bool started;
    struct knock *knock[KNOCKS]; /* those that wait, the oldest first */
    unsigned knocks;
    struct watch *again; /* for the next one */
    uint64_t pause_ns;   /* before it */
    bool connected;      /* at least once */
    bool failed;         /* at least once, before it was connected */
    bool refused;        /* our key was refused there */
    bool strange;        /* another program listens there */
    bool ended;          /* the connection has ended, or could not be made */
    struct tcp_probe *probe;
    int error; /* the errno that the probe found; 0: none */
};

struct dial {
    struct loop *loop;
    void *context;
    struct keys own;
    unsigned char server[KEY_SIZE];
    struct try try[DIAL_MAX];
    unsigned n;
    unsigned probes; /* probes without a result yet */
    bool names;
    struct watch *timer, *limit, *check;
    uint64_t more_ns;
    dial_f f;
    void *arg;
    bool once;
    bool slow;     /* the limit came in the midst of a handshake */
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

static bool is_relay(const struct try *t)
{
    return strncmp(t->endpoint, DIAL_RELAY, strlen(DIAL_RELAY)) == 0;
}

static void try_close(struct try *t)
{
    watch_clear(&t->again);
    while (t->knocks > 0)
        knock_stop(t->knock[--t->knocks]);
}

static void drop_knock(struct try *t, const struct knock *k)
{
    unsigned n = 0;

    for (unsigned i = 0; i < t->knocks; i++)
        if (t->knock[i] != k)
            t->knock[n++] = t->knock[i];
    t->knocks = n;
}

/* Without those whose handshake has begun, because servers count aborted handshakes. */
static void close_waiting(struct try *t)
{
    struct knock *k;

    for (unsigned i = t->knocks; i-- > 0;)
        if (knock_fd(k = t->knock[i]) < 0) {
            drop_knock(t, k);
            knock_stop(k);
        }
}

static bool is_connected(const struct try *t)
{
    for (unsigned i = 0; i < t->knocks; i++)
        if (knock_fd(t->knock[i]) >= 0)
            return true;
    return false;
}

void dial_stop(struct dial *d)
{
    if (!d || d->stopped)
        return;
    d->stopped = true;
    for (unsigned i = 0; i < d->n; i++) {
        try_close(&d->try[i]);
        tcp_probe_stop(d->try[i].probe);
        host_lookup_stop(d->try[i].lookup);
    }
    watch_stop(d->timer);
    watch_stop(d->limit);
    watch_stop(d->check);
    keys_wipe(&d->own);
    loop_free(d->loop, d); /* functions up the stack still use it */
}

/* Closes the other attempts: at once, or after a handshake that has begun. */
static void succeed(struct try *t, struct knock *k)
{
    struct dial *d = t->dial;
    const int fd = knock_fd(k);
    struct dial_found found = { .endpoint = t->endpoint,
                                .own = { .size = sizeof found.own.socket } };

    if (fd < 0 || is_relay(t) ||
        getsockname(fd, (struct sockaddr *)&found.own.socket, &found.own.size) < 0)
        found.own.size = 0;
    drop_knock(t, k);
    found.socket = knock_take(k);
    for (unsigned i = 0; i < d->n; i++) {
        watch_clear(&d->try[i].again);
        close_waiting(&d->try[i]);
    }
    d->reported = true;
    watch_clear(&d->timer);
    watch_clear(&d->check);
    d->f(d->arg, &found, NULL);
}

static void try_next(void *arg);

static bool all_ended(const struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (!d->try[i].words[0] && (d->try[i].lookup || !d->try[i].ended))
            return false;
    return true;
}

bool dial_was_slow(const struct dial *d)
{
    return d->slow;
}

bool dial_was_refused(const struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (d->try[i].refused)
            return true;
    return false;
}

/* Has an endpoint taken the connection, and not answered yet? */
static bool one_may_answer(const struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (is_connected(&d->try[i]))
            return !dial_was_refused(d);
    return false;
}

static void try_again(void *arg);

/* With another socket, for one that ZeroMQ connects anew would use a key that was used. */
static void try_again_later(struct try *t)
{
    struct err err = { "" };

    if ((t->dial->once && (!is_relay(t) || t->connected)) || t->again)
        return;
    t->pause_ns = t->pause_ns ? clock_earlier(2 * t->pause_ns, AGAIN_MAX_NS) : AGAIN_NS;
    if (!(t->again = loop_timer(t->dial->loop, t->pause_ns, 0, try_again, t, &err)))
        snprintf(t->words, sizeof t->words, "%.150s", err.text);
}

static void try_failed(struct try *t, enum knock_news news)
{
    struct dial *d = t->dial;

    /* it is the right server, and it will not change its answer */
    if (news == KNOCK_REFUSED) {
        t->refused = true;
        loop_timer_again(d->limit, 0);
    }
    t->strange = t->strange || news == KNOCK_STRANGE;
    t->failed = true;
    t->ended = t->knocks == 0;
    if (d->reported || !t->ended)
        return;
    try_next(d);
    try_again_later(t);
    if (d->once && all_ended(d))
        loop_timer_again(d->limit, 0);
}

static void on_news(void *arg, struct knock *k, enum knock_news news)
{
    struct try *t = arg;

    if (news == KNOCK_CONNECTED) {
        t->connected = true;
        close_waiting(t);
    } else if (news == KNOCK_UP && !t->dial->reported) {
        succeed(t, k);
    } else {
        drop_knock(t, k);
        knock_stop(k);
        if (news != KNOCK_UP)
            try_failed(t, news);
    }
}

static void try_start(struct try *t)
{
    const struct dial *d = t->dial;
    const struct knock_to to = { d->context, t->endpoint, &d->own, d->server, d->once };
    struct err err = { "" };

    t->ended = false;
    if ((t->knock[t->knocks] = knock_start(d->loop, &to, on_news, t, &err)))
        t->knocks++;
    else if (t->knocks == 0)
        snprintf(t->words, sizeof t->words, "%.150s", err.text);
}

static void try_again(void *arg)
{
    try_close(arg);
    try_start(arg);
}

/* The oldest one stays, for a way that takes long, and the younger ones are replaced in turn. */
static void try_beside(struct try *t)
{
    if (t->knocks == KNOCKS) {
        struct knock *const k = t->knock[1];

        drop_knock(t, k);
        knock_stop(k);
    }
    try_start(t);
}

void dial_beside(struct dial *d)
{
    if (d->reported || one_may_answer(d))
        return;
    for (unsigned i = 0; i < d->n; i++)
        if (d->try[i].started && !d->try[i].words[0] && !is_relay(&d->try[i]))
            try_beside(&d->try[i]);
}

/* Tries the next endpoint, if there is one left. */
static void try_next(void *arg)
{
    struct dial *d = arg;
    struct try *t = d->try;

    while (t < d->try + d->n && (t->words[0] || t->lookup || t->started))
        t++;
    if (t == d->try + d->n || d->reported)
        return;
    t->started = true;
    try_start(t);
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
    if (is_relay(t) && !t->connected)
        return "it has not come up";
    if (t->lookup)
        return host_lookup_why(t->lookup);
    if (t->refused)
        return "it does not let this agent in: its run is over, or its key was used before";
    if (t->strange)
        return "connected, but the encrypted handshake failed: another program listens there, or another kernel, or the link is bad";
    return t->connected ? "connected, but it does not answer" : dial_words(t->error);
}

static void stop_probes(struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++) {
        tcp_probe_stop(d->try[i].probe);
        d->try[i].probe = NULL;
    }
    d->probes = 0;
}

/* "tcp://10.0.0.1:4321 (timed out)"; one that had a name, "tcp://gw:4321 (10.0.0.1: timed out)". */
static int tell_try(struct buf *out, const struct try *t)
{
    const char *const words = words_of(t);
    char ip[ADDRESS_TEXT_SIZE] = "";
    struct address a;
    struct err err = { "" };

    if (is_relay(t))
        return buf_addf(out, "the launcher's relay (%s)", words);
    if (!t->named[0])
        return buf_addf(out, "%s (%s)", t->endpoint, words);
    if (address_parse(slice_text(t->endpoint), &a, &err) == 0)
        address_text(&a, ip);
    return buf_addf(out, "%s (%s: %s)", t->named, ip[0] ? ip : "no address", words);
}

static void fail(void *arg)
{
    struct dial *d = arg;
    struct buf why = BUF_INIT;
    int rc = 0;

    stop_probes(d);
    for (unsigned i = 0; i < d->n && rc == 0; i++) {
        rc = i ? buf_add_text(&why, ", ") : 0;
        if (rc == 0)
            rc = tell_try(&why, &d->try[i]);
    }
    if (rc == 0)
        rc = tell_from(&why);
    d->f(d->arg, NULL, rc == 0 ? why.p : "out of memory");
    buf_release(&why);
}

/* No other answer is to be expected from this endpoint. IPv6 may be unreachable because this host
 * has none. */
static bool is_refused(const struct try *t)
{
    return t->words[0] || t->error == ECONNREFUSED ||
           (strchr(t->endpoint, '[') && (t->error == ENETUNREACH || t->error == EADDRNOTAVAIL));
}

/* Before the limit: do all refuse? */
static void judge(struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (!is_refused(&d->try[i]))
            return;
    loop_timer_again(d->limit, 0);
}

static void probed(void *arg, int error)
{
    struct try *t = arg;

    t->probe = NULL;
    t->error = error;
    if (--t->dial->probes > 0)
        return;
    if (t->dial->reported)
        loop_timer_again(t->dial->timer, 0);
    else
        judge(t->dial);
}

static void probe(struct dial *d)
{
    struct err err = { "" };

    for (unsigned i = 0; i < d->n; i++) {
        struct try *t = &d->try[i];

        t->error = 0;
        if (!t->words[0] && !t->lookup && !t->connected && !is_relay(t) &&
            (t->probe = tcp_probe_start(d->loop, slice_text(t->endpoint), probed, t, &err)))
            d->probes++;
    }
}

/* Have all failed that can be tried, and is there nothing more to try? Then each is probed, or the
 * way is given up. */
static void check_all_failed(void *arg)
{
    struct dial *d = arg;

    if (d->reported || d->probes > 0)
        return;
    for (unsigned i = 0; i < d->n; i++) {
        const struct try *t = &d->try[i];

        if (!t->words[0] && (t->lookup || t->connected || !t->failed))
            return;
    }
    probe(d);
    if (d->probes == 0)
        judge(d);
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
    if (d->more_ns && one_may_answer(d)) {
        loop_timer_again(d->limit, d->more_ns);
        d->more_ns = 0;
        return;
    }
    d->reported = true;
    stop_probes(d);
    for (unsigned i = 0; i < d->n; i++) {
        d->slow = d->slow || is_connected(&d->try[i]);
        try_close(&d->try[i]);
    }
    if (!d->once)
        probe(d);
    watch_stop(d->timer);
    if (!(d->timer = loop_timer(d->loop, d->probes > 0 ? PROBE_NS : 0, 0, fail, d, &err)))
        fail(d);
}

/* ---- start ---- */

/* A new attempt, of which nothing is known yet. */
static struct try *add_try(struct dial *d)
{
    struct try *t = &d->try[d->n++];

    *t = (struct try){ .dial = d };
    return t;
}

static void take_address(struct try *t, const struct address *a, const char *port)
{
    char ip[ADDRESS_TEXT_SIZE];

    address_text(a, ip);
    snprintf(t->endpoint, sizeof t->endpoint, strchr(ip, ':') ? "tcp://[%s]:%s" : "tcp://%s:%s", ip,
             port);
}

/* The first address takes the place of the name, the others become the last attempts. */
static void looked_up(void *arg, const struct address *found, unsigned n)
{
    struct try *t = arg, *one = t;
    struct dial *d = t->dial;
    const char *port = strrchr(t->named, ':') + 1;

    if (n == 0)
        snprintf(t->words, sizeof t->words, "%s", host_lookup_why(t->lookup));
    host_lookup_stop(t->lookup);
    t->lookup = NULL;
    for (unsigned i = 0; i < n && one; i++) {
        take_address(one, &found[i], port);
        if (one != t)
            memcpy(one->named, t->named, sizeof one->named);
        one = i + 1 < n && d->n < DIAL_MAX ? add_try(d) : NULL;
    }
    if (n > 0)
        try_next(d);
    else
        check_all_failed(d);
}

static void add(struct dial *d, struct slice endpoint)
{
    struct try *t = add_try(d);
    struct err err = { "" };
    struct address a;
    const char *colon;

    snprintf(t->endpoint, sizeof t->endpoint, "%.*s", SLICE_ARG(endpoint));
    if (is_relay(t) || address_parse(endpoint, &a, &err) == 0)
        return;
    if (d->names) {
        struct err why = { "" };

        if ((t->lookup = host_lookup_start(d->loop, endpoint, looked_up, t, &why))) {
            snprintf(t->named, sizeof t->named, "%.*s", SLICE_ARG(endpoint));
            return;
        }
        err = why;
    }
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
    d->once = to->once;
    d->more_ns = to->more_ns;
    d->f = f;
    d->arg = arg;
    d->names = to->names;
    while (d->n < DIAL_MAX && dial_next(&rest, &one))
        add(d, one);
    if (d->n == 0)
        (void)err_set(err, "there is no endpoint to dial");
    else if ((d->limit = loop_timer(d->loop, any_known(d) ? to->limit_ns : 0, 0, limit_is_over, d,
                                    err)) &&
             (d->check = loop_timer(d->loop, CHECK_NS, CHECK_NS, check_all_failed, d, err)) &&
             (d->timer = loop_timer(d->loop, 0, NEXT_NS, try_next, d, err)))
        return d;
    dial_stop(d);
    return NULL;
}
