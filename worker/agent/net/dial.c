/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/dial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "worker/agent/net/dial_private.h"

/* how long to wait for an answer before the next endpoint is tried, too */
#define NEXT_NS (150 * NS_PER_MS)
/* how long the one that has taken the connection is waited for alone: the others would make another
 * handshake with the same key */
#define ANSWER_NS NS_PER_S
/* sockets of a dial at the same time: each has four descriptors */
#define FLIGHT     32u
#define PROBE_NS   (2 * NS_PER_S)   /* limit for finding out why no endpoint answered */
#define CHECK_NS   NS_PER_S         /* between two checks whether all refuse */
#define SPACING_NS (20 * NS_PER_MS) /* between endpoints at which one more socket dials */
/* between two attempts at an endpoint; twice as long each time */
#define AGAIN_NS       (50 * NS_PER_MS)
#define AGAIN_MAX_NS   NS_PER_S
#define AGAIN_RELAY_NS (200 * NS_PER_MS) /* its socket is on this machine, and comes late */

struct dial {
    struct loop *loop;
    void *context;
    struct keys own;
    unsigned char server[KEY_SIZE];
    struct attempt attempt[DIAL_MAX];
    unsigned n;
    uint64_t begun;         /* how many knocks */
    struct attempt *holder; /* has taken the connection, and is waited for alone; NULL: none */
    unsigned probes;        /* probes without a result yet */
    bool names;
    struct watch *timer, *limit, *check;
    uint64_t limit_ns, more_ns;
    dial_f f;
    void *arg;
    bool once;
    bool slow;     /* the limit came in the midst of a handshake */
    bool reported; /* f was called */
    bool stopped;
};

/* ---- one endpoint ---- */

static void try_close(struct attempt *t)
{
    watch_clear(&t->again);
    while (t->knocks > 0)
        knock_stop(t->knock[--t->knocks]);
}

static void drop_knock(struct attempt *t, const struct knock *k)
{
    unsigned n = 0;

    for (unsigned i = 0; i < t->knocks; i++)
        if (t->knock[i] != k)
            t->knock[n++] = t->knock[i];
    t->knocks = n;
}

/* Without those whose handshake has begun, because servers count aborted handshakes. */
static void close_waiting(struct attempt *t)
{
    struct knock *k;

    for (unsigned i = t->knocks; i-- > 0;)
        if (knock_fd(k = t->knock[i]) < 0) {
            drop_knock(t, k);
            knock_stop(k);
        }
}

/* It will be tried when its turn comes again. */
static void put_off(struct attempt *t)
{
    watch_clear(&t->again);
    close_waiting(t);
    if (t->knocks == 0)
        t->started = t->ended = false;
}

static bool is_connected(const struct attempt *t)
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
        try_close(&d->attempt[i]);
        tcp_probe_stop(d->attempt[i].probe);
        host_lookup_stop(d->attempt[i].lookup);
    }
    watch_stop(d->timer);
    watch_stop(d->limit);
    watch_stop(d->check);
    keys_wipe(&d->own);
    loop_free(d->loop, d); /* functions up the stack still use it */
}

/* Closes the other attempts: at once, or after a handshake that has begun. */
static void succeed(struct attempt *t, struct knock *k)
{
    struct dial *d = t->dial;
    const int fd = knock_fd(k);
    struct dial_found found = { .endpoint = t->endpoint,
                                .own = { .size = sizeof found.own.socket } };

    if (fd < 0 || try_is_relay(t) ||
        getsockname(fd, (struct sockaddr *)&found.own.socket, &found.own.size) < 0)
        found.own.size = 0;
    drop_knock(t, k);
    found.socket = knock_take(k);
    for (unsigned i = 0; i < d->n; i++) {
        watch_clear(&d->attempt[i].again);
        close_waiting(&d->attempt[i]);
    }
    d->reported = true;
    watch_clear(&d->timer);
    watch_clear(&d->check);
    d->f(d->arg, &found, NULL);
}

static void try_next(struct dial *d);

static bool all_ended(const struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (!d->attempt[i].words[0] && (d->attempt[i].lookup || !d->attempt[i].ended))
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
        if (d->attempt[i].refused)
            return true;
    return false;
}

/* Has an endpoint taken the connection, and not answered yet? */
static bool one_may_answer(const struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (is_connected(&d->attempt[i]))
            return !dial_was_refused(d);
    return false;
}

/* ---- who is waited for alone ---- */

static void hold(struct attempt *t)
{
    struct dial *d = t->dial;

    if (t->held || d->holder)
        return;
    t->held = true;
    d->holder = t;
    for (unsigned i = 0; i < d->n; i++)
        if (&d->attempt[i] != t)
            put_off(&d->attempt[i]);
    loop_timer_again(d->timer, ANSWER_NS);
}

static void timer(void *arg)
{
    struct dial *d = arg;

    d->holder = NULL;
    try_next(d);
}

/* ---- when an endpoint is tried ---- */

static void try_again(void *arg);

/* With another socket, for one that ZeroMQ connects anew would use a key that was used. */
static void try_again_later(struct attempt *t)
{
    struct err err = { "" };

    if ((t->dial->once && (!try_is_relay(t) || t->connected)) || t->again)
        return;
    t->pause_ns = t->pause_ns ? clock_earlier(2 * t->pause_ns,
                                              try_is_relay(t) ? AGAIN_RELAY_NS : AGAIN_MAX_NS)
                              : AGAIN_NS;
    if (!(t->again = loop_timer(t->dial->loop, t->pause_ns, 0, try_again, t, &err)))
        snprintf(t->words, sizeof t->words, "%.150s", err.text);
}

static void try_failed(struct attempt *t, enum knock_news news)
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
    if (d->holder == t)
        d->holder = NULL;
    try_next(d);
    try_again_later(t);
    if (d->once && all_ended(d))
        loop_timer_again(d->limit, 0);
}

static void on_news(void *arg, struct knock *k, enum knock_news news)
{
    struct attempt *t = arg;
    struct dial *d = t->dial;
    const bool other = d->reported || (d->holder && d->holder != t);

    if (news == KNOCK_CONNECTED && !other) {
        t->connected = true;
        close_waiting(t);
        hold(t);
    } else if (news == KNOCK_UP && !d->reported) {
        succeed(t, k);
    } else {
        drop_knock(t, k);
        knock_stop(k);
        if (news == KNOCK_CONNECTED)
            put_off(t);
        else if (news != KNOCK_UP)
            try_failed(t, news);
    }
}

/* Makes room for one more socket: the last of those that dial beside each other at an endpoint
 * ends, or the one that has waited longest. false: all are connected. */
static bool make_room(struct dial *d, const struct attempt *without)
{
    struct attempt *best = NULL;
    unsigned n = 0;

    for (unsigned i = 0; i < d->n; i++) {
        struct attempt *t = &d->attempt[i];

        n += t->knocks;
        if (t != without && t->knocks && !is_connected(t) &&
            (!best || t->knocks > best->knocks ||
             (t->knocks == best->knocks && t->began < best->began)))
            best = t;
    }
    if (n < FLIGHT)
        return true;
    if (!best)
        return false;
    knock_stop(best->knock[--best->knocks]);
    best->ended = best->knocks == 0;
    if (best->ended)
        try_again_later(best);
    return true;
}

static void try_start(struct attempt *t)
{
    struct dial *d = t->dial;
    const struct knock_to to = { d->context, t->endpoint, &d->own, d->server, d->once };
    struct err err = { "" };

    if (!make_room(d, t)) {
        t->started = t->knocks > 0;
        return;
    }
    t->ended = false;
    t->began = ++d->begun;
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

/* ---- beside those that wait ---- */

/* So many at one endpoint, where there are n. */
static unsigned most_knocks(unsigned n)
{
    return n >= FLIGHT ? 1 : FLIGHT / n < DIAL_KNOCKS ? FLIGHT / n : DIAL_KNOCKS;
}

/* The oldest one stays, for a way that takes long, and the younger ones are replaced in turn. */
static void try_beside(void *arg)
{
    struct attempt *t = arg;
    struct dial *d = t->dial;
    const unsigned most = most_knocks(d->n);

    watch_clear(&t->again);
    if (d->reported || d->holder || is_connected(t))
        return;
    if (t->knocks == most) {
        struct knock *const k = t->knock[1];

        drop_knock(t, k);
        knock_stop(k);
    }
    try_start(t);
}

/* One endpoint after the other: the first that takes the connection is waited for alone. */
void dial_beside(struct dial *d)
{
    struct err err = { "" };
    uint64_t after_ns = 0;

    if (d->reported || d->holder || most_knocks(d->n) < 2)
        return;
    for (unsigned i = 0; i < d->n; i++) {
        struct attempt *t = &d->attempt[i];

        if (!t->started || t->words[0] || try_is_relay(t) || is_connected(t) || t->again)
            continue;
        if (!(t->again = loop_timer(d->loop, after_ns, 0, try_beside, t, &err)))
            try_beside(t);
        after_ns += SPACING_NS;
    }
}

/* So long until the next endpoint is tried: each of them in the time that there is. */
static uint64_t next_ns(const struct dial *d)
{
    return clock_earlier(NEXT_NS, d->limit_ns / 2 / d->n);
}

/* Tries the next endpoint, if there is one left: a relay first, since one comes where no other way
 * does. */
static void try_next(struct dial *d)
{
    struct attempt *next = NULL;

    if (d->reported || d->holder)
        return;
    for (unsigned i = 0; i < d->n; i++) {
        struct attempt *t = &d->attempt[i];

        if (!t->words[0] && !t->lookup && !t->started &&
            (!next || (try_is_relay(t) && !try_is_relay(next))))
            next = t;
    }
    if (!next)
        return;
    next->started = true;
    try_start(next);
    if (d->timer)
        loop_timer_again(d->timer, next_ns(d));
}

/* ---- the end without success ---- */

static void stop_probes(struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++) {
        tcp_probe_stop(d->attempt[i].probe);
        d->attempt[i].probe = NULL;
    }
    d->probes = 0;
}

static void fail(void *arg)
{
    struct dial *d = arg;
    struct buf why = BUF_INIT;
    int rc;

    stop_probes(d);
    rc = dial_why(d->attempt, d->n, &why);
    d->f(d->arg, NULL, rc == 0 ? why.p : "out of memory");
    buf_release(&why);
}

/* Before the limit: do all refuse? */
static void judge(struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (!try_is_refused(&d->attempt[i]))
            return;
    loop_timer_again(d->limit, 0);
}

static void probed(void *arg, int error)
{
    struct attempt *t = arg;

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
        struct attempt *t = &d->attempt[i];

        t->error = 0;
        if (!t->words[0] && !t->lookup && !t->connected && !try_is_relay(t) &&
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
        const struct attempt *t = &d->attempt[i];

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
            try_close(&d->attempt[i]);
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
        d->slow = d->slow || is_connected(&d->attempt[i]);
        try_close(&d->attempt[i]);
    }
    if (!d->once)
        probe(d);
    watch_stop(d->timer);
    if (!(d->timer = loop_timer(d->loop, d->probes > 0 ? PROBE_NS : 0, 0, fail, d, &err)))
        fail(d);
}

/* ---- start ---- */

/* A new attempt, of which nothing is known yet. */
static struct attempt *add_try(struct dial *d)
{
    struct attempt *t = &d->attempt[d->n++];

    *t = (struct attempt){ .dial = d };
    return t;
}

/* The first address takes the place of the name, the others become the last attempts. */
static void looked_up(void *arg, const struct address *found, unsigned n)
{
    struct attempt *t = arg, *one = t;
    struct dial *d = t->dial;
    const char *port = strrchr(t->named, ':') + 1;

    if (n == 0)
        snprintf(t->words, sizeof t->words, "%s", host_lookup_why(t->lookup));
    host_lookup_stop(t->lookup);
    t->lookup = NULL;
    for (unsigned i = 0; i < n && one; i++) {
        try_address(one, &found[i], port);
        if (one != t)
            memcpy(one->named, t->named, sizeof one->named);
        one = i + 1 < n && d->n < DIAL_MAX ? add_try(d) : NULL;
    }
    if (n > 0)
        try_next(d);
    else
        check_all_failed(d);
}

static bool has(const struct dial *d, struct slice endpoint)
{
    for (unsigned i = 0; i < d->n; i++)
        if (slice_is(endpoint,
                     d->attempt[i].named[0] ? d->attempt[i].named : d->attempt[i].endpoint))
            return true;
    return false;
}

static void add(struct dial *d, struct slice endpoint)
{
    struct attempt *t = add_try(d);
    struct err err = { "" };
    struct address a;
    const char *colon;

    snprintf(t->endpoint, sizeof t->endpoint, "%.*s", SLICE_ARG(endpoint));
    if (try_is_relay(t) || address_parse(endpoint, &a, &err) == 0)
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

void dial_more(struct dial *d, struct slice endpoints)
{
    struct slice one;

    while (!d->reported && d->n < DIAL_MAX && dial_next(&endpoints, &one))
        if (!has(d, one))
            add(d, one);
    try_next(d);
}

static bool any_known(const struct dial *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (!d->attempt[i].words[0])
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
    d->limit_ns = to->limit_ns;
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
             (d->timer = loop_timer(d->loop, 0, NEXT_NS, timer, d, err)))
        return d;
    dial_stop(d);
    return NULL;
}
