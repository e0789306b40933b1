/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/network/network.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_WAIT_NS NS_PER_S /* before TCP sends the first packet of a connection again */

/* ---- random numbers: splitmix64 ---- */

static uint64_t dice_next(struct dice *d)
{
    uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t dice_roll(struct dice *d, uint64_t below)
{
    return dice_next(d) % below;
}

bool dice_chance(struct dice *d, unsigned in_thousand)
{
    return dice_roll(d, 1000) < in_thousand;
}

void dice_bytes(struct dice *d, unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)dice_next(d);
}

/* ---- frames ---- */

struct frame *frame_create(enum frame_kind kind, struct slice head, struct slice body)
{
    struct frame *f = calloc(1, sizeof *f + head.n + body.n);

    if (!f)
        abort();
    f->kind = kind;
    f->head = head.n;
    f->n = head.n + body.n;
    if (head.n)
        memcpy(f->bytes, head.p, head.n);
    if (body.n)
        memcpy(f->bytes + head.n, body.p, body.n);
    return f;
}

/* Of which only the kind counts. */
static struct frame *frame_plain(enum frame_kind kind)
{
    return frame_create(kind, slice_text(""), slice_text(""));
}

static void flow_drop(struct flow *flow)
{
    for (struct frame *f; (f = flow->first);) {
        flow->first = f->next;
        free(f);
    }
    flow->last = &flow->first;
}

/* What has arrived by then stays: a ROUTER of ZeroMQ hands it out though the connection is gone. */
static void flow_drop_later(struct flow *flow, uint64_t then)
{
    struct frame **at = &flow->first;
    struct flow rest;

    while (*at && (*at)->due_ns <= then)
        at = &(*at)->next;
    rest = (struct flow){ .first = *at };
    *at = NULL;
    flow->last = at;
    flow_drop(&rest);
}

/* What is lost is the end of what was sent, and how much of it is by chance. */
static void flow_lose(struct flow *flow, struct dice *dice)
{
    struct frame **at = &flow->first;
    struct flow rest;

    if (flow->ended)
        return;
    while (*at && !dice_chance(dice, 300))
        at = &(*at)->next;
    rest = (struct flow){ .first = *at };
    *at = NULL;
    flow->last = at;
    flow_drop(&rest);
}

static void flow_add(struct flow *flow, struct frame *f, uint64_t due_ns)
{
    if (flow->ended) { /* nothing follows the end of a connection */
        free(f);
        return;
    }
    flow->ended = f->kind == FRAME_END;
    f->due_ns = flow->due_ns = due_ns > flow->due_ns ? due_ns : flow->due_ns;
    *flow->last = f;
    flow->last = &f->next;
}

/* ---- connections ---- */

static uint64_t arrives_ns(const struct network *net, const struct wire *w, uint64_t now)
{
    const struct path *p = w->path;

    return now + p->delay_ns + (p->jitter_ns ? dice_roll(net->dice, p->jitter_ns) : 0);
}

/* Whoever listens need not run: its system answers. */
static void send_first(struct network *net, struct wire *w, uint64_t now)
{
    uint64_t there;

    if (w->path->cut) {
        w->first_ns = now + w->first_wait_ns;
        w->first_wait_ns *= 2;
        return;
    }
    w->connecting = false;
    net->sent++;
    there = arrives_ns(net, w, now);
    flow_add(&w->to[SIDE_AGENT], frame_plain(FRAME_TAKEN), arrives_ns(net, w, there));
    flow_add(&w->to[SIDE_KERNEL], frame_plain(FRAME_KNOCK),
             arrives_ns(net, w, w->to[SIDE_AGENT].due_ns));
}

struct wire *network_dial(struct network *net, unsigned agent, unsigned listener, struct path *path,
                          const unsigned char *key, uint64_t now)
{
    struct wire *w = calloc(1, sizeof *w);

    if (!w)
        abort();
    w->number = ++net->numbers;
    w->agent = agent;
    w->listener = listener;
    w->path = path;
    memcpy(w->key, key, KEY_SIZE);
    w->to[0].last = &w->to[0].first;
    w->to[1].last = &w->to[1].first;
    w->next = net->first;
    net->first = w;
    w->connecting = true;
    w->first_wait_ns = FIRST_WAIT_NS;
    send_first(net, w, now);
    return w;
}

struct wire *network_wire(const struct network *net, unsigned number)
{
    struct wire *w = net->first;

    while (w && w->number != number)
        w = w->next;
    return w;
}

void network_send(struct network *net, struct wire *w, enum side from, struct frame *f,
                  uint64_t now)
{
    if (w->closed[from])
        abort();
    net->sent++;
    if (w->forgotten) {
        free(f);
    } else {
        f->late = w->closed[side_other(from)];
        flow_add(&w->to[side_other(from)], f, arrives_ns(net, w, now));
    }
}

/* The side is told that the connection is over, when what comes before has arrived. */
static void tell_end(struct network *net, struct wire *w, enum side to, uint64_t now)
{
    if (!w->closed[to] && !w->forgotten)
        flow_add(&w->to[to], frame_plain(FRAME_END), arrives_ns(net, w, now));
}

void network_close(struct network *net, struct wire *w, enum side by, uint64_t now)
{
    const enum side other = side_other(by);

    w->closed[by] = true;
    if (w->connecting && by == SIDE_AGENT)
        w->closed[SIDE_KERNEL] = true; /* which has not heard of it */
    w->connecting = false;
    flow_drop_later(&w->to[by], by == SIDE_KERNEL ? now : 0);
    if (w->closed[other])
        return;
    flow_lose(&w->to[other], net->dice);
    /* whoever closes does not send the end again and again: it can be lost */
    if (!w->path->cut || dice_chance(net->dice, 500))
        tell_end(net, w, other, now);
}

void network_reset(struct network *net, struct wire *w, uint64_t now)
{
    w->connecting = false;
    for (int side = 0; side < 2; side++) {
        flow_lose(&w->to[side], net->dice);
        tell_end(net, w, (enum side)side, now);
    }
}

void network_forget(struct wire *w)
{
    if (w->connecting) /* the next packet is a first one, too */
        return;
    w->forgotten = true;
    flow_drop(&w->to[0]);
    flow_drop(&w->to[1]);
}

void path_heal(struct path *p, uint64_t now)
{
    p->cut = false;
    p->open_from_ns = now + p->delay_ns;
}

/* ---- arrivals ---- */

static uint64_t due_ns(const struct wire *w, enum side to)
{
    const struct frame *f = w->to[to].first;
    uint64_t due;

    if (!f || w->path->cut)
        return UINT64_MAX;
    due = f->due_ns > w->path->open_from_ns ? f->due_ns : w->path->open_from_ns;
    /* no process has to run for the answer to a frame for a closed socket */
    if (f->late || due > w->path->reads_from_ns[to])
        return due;
    return w->path->reads_from_ns[to];
}

static struct frame *take(struct flow *flow)
{
    struct frame *f = flow->first;

    flow->first = f->next;
    if (!flow->first)
        flow->last = &flow->first;
    f->next = NULL;
    return f;
}

/* Who listens may learn that a connection has ended before what came on it is read. */
static struct frame *take_end(struct flow *flow, uint64_t now)
{
    struct frame **at = &flow->first, *end;

    while ((*at)->next)
        at = &(*at)->next;
    end = *at;
    if (end->kind != FRAME_END || end->due_ns > now)
        return NULL;
    *at = NULL;
    flow->last = at;
    return end;
}

static struct frame *take_one(struct network *net, struct wire *w, enum side to, uint64_t now)
{
    struct frame *end = NULL;

    if (to == SIDE_KERNEL && dice_chance(net->dice, 100))
        end = take_end(&w->to[to], now);
    return end ? end : take(&w->to[to]);
}

static void sweep(struct network *net)
{
    for (struct wire **at = &net->first; *at;) {
        struct wire *w = *at;

        if (!w->closed[0] || !w->closed[1] || w->to[SIDE_KERNEL].first) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        flow_drop(&w->to[0]);
        flow_drop(&w->to[1]);
        free(w);
    }
}

/* A frame for a side that has closed: the sender is told. */
static void bounce(struct network *net, struct wire *w, enum side to, uint64_t now)
{
    flow_drop(&w->to[to]);
    tell_end(net, w, side_other(to), now);
}

static void bounce_all(struct network *net, uint64_t now)
{
    for (struct wire *w = net->first; w; w = w->next) {
        if (w->closed[SIDE_AGENT] && due_ns(w, SIDE_AGENT) <= now)
            bounce(net, w, SIDE_AGENT, now);
        if (w->closed[SIDE_KERNEL] && w->to[SIDE_KERNEL].first && w->to[SIDE_KERNEL].first->late &&
            due_ns(w, SIDE_KERNEL) <= now)
            bounce(net, w, SIDE_KERNEL, now);
    }
}

bool network_take(struct network *net, uint64_t now, struct arrival *a)
{
    unsigned n = 0;

    for (struct wire *w = net->first; w; w = w->next)
        if (w->connecting && w->first_ns <= now)
            send_first(net, w, now);
    bounce_all(net, now);
    sweep(net);
    for (struct wire *w = net->first; w; w = w->next)
        for (int side = 0; side < 2; side++)
            if (due_ns(w, (enum side)side) <= now && dice_roll(net->dice, ++n) == 0)
                *a = (struct arrival){ w, (enum side)side, NULL };
    if (n == 0)
        return false;
    a->frame = take_one(net, a->wire, a->to, now);
    if (a->wire->path->slow_ns[a->to])
        a->wire->path->reads_from_ns[a->to] = now + a->wire->path->slow_ns[a->to];
    return true;
}

uint64_t network_due_ns(const struct network *net)
{
    uint64_t due = UINT64_MAX;

    for (const struct wire *w = net->first; w; w = w->next) {
        for (int side = 0; side < 2; side++)
            due = clock_earlier(due, due_ns(w, (enum side)side));
        if (w->connecting)
            due = clock_earlier(due, w->first_ns);
    }
    return due;
}

void network_release(struct network *net)
{
    for (struct wire *w = net->first; w; w = w->next) {
        w->closed[0] = w->closed[1] = true;
        flow_drop(&w->to[SIDE_KERNEL]);
    }
    sweep(net);
}
