/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_end.c - the kernel: who may connect, a session for each agent, and who is lost. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/network/fleet.h"

#define ENGINE 1u

static struct node_end *node_of(struct fleet *f, const struct wire *w)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (f->kernel.node[i].wire == w)
            return &f->kernel.node[i];
    return NULL;
}

static unsigned number_of(const struct fleet *f, const struct node_end *n)
{
    return (unsigned)(n - f->kernel.node);
}

static void admit(struct fleet *f, struct node_end *n, const unsigned char *key)
{
    if (allowed_keys_reserve(&f->kernel.allowed, 1) < 0)
        abort();
    allowed_keys_add(&f->kernel.allowed, key, ENGINE, number_of(f, n));
    memcpy(n->key, key, KEY_SIZE);
}

void kernel_end_start(struct fleet *f, unsigned i, const unsigned char *key)
{
    struct node_end *n = &f->kernel.node[i];

    *n = (struct node_end){ .turn = n->turn + 1 };
    session_init(&n->session, letter_free);
    peer_times_start(&n->times, f->now);
    admit(f, n, key);
}

/* ---- out ---- */

static void send(struct fleet *f, struct node_end *n, enum frame_kind kind, struct slice bytes)
{
    const uint64_t number = kind == FRAME_MESSAGE ? 0 : session_tell(&n->session);

    network_send(&f->net, n->wire, SIDE_KERNEL, frame_create(kind, number, NULL, bytes), f->now);
    n->times.sent = f->now;
}

static void flush(struct fleet *f, struct node_end *n)
{
    const struct letter *l;

    while (n->wire && (l = session_next(&n->session)))
        send(f, n, FRAME_MESSAGE, slice_of(l, sizeof *l));
}

static bool is_full(const struct fleet *f)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (!f->kernel.node[i].lost && session_is_full(&f->kernel.node[i].session))
            return true;
    return false;
}

static void keep(struct node_end *n, struct letter *l)
{
    struct err err = { "" };

    l->refs++;
    if (session_keep(&n->session, l, l->size, &err) < 0)
        abort();
}

void kernel_end_order(struct fleet *f, uint64_t size)
{
    struct letter *l;

    if (is_full(f)) {
        f->counts.full++;
        return;
    }
    if (!(l = malloc(sizeof *l)))
        abort();
    *l = (struct letter){ .refs = 1, .rank = FLEET_RANKS, .size = size };
    l->line = ++f->kernel.orders;
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (!f->kernel.node[i].lost) {
            keep(&f->kernel.node[i], l);
            flush(f, &f->kernel.node[i]);
        }
    letter_free(l);
}

/* ---- who may connect ---- */

static bool is_admitted(const struct fleet *f, const struct wire *w, unsigned *node)
{
    return allowed_keys_ask(&f->kernel.allowed, w->key, node) == KEY_ALLOWED;
}

static void refuse(struct fleet *f, struct wire *w)
{
    network_send(&f->net, w, SIDE_KERNEL, frame_create(FRAME_REFUSED, 0, NULL, slice_text("")),
                 f->now);
}

static void knock(struct fleet *f, struct wire *w)
{
    unsigned node;

    if (!is_admitted(f, w, &node)) {
        refuse(f, w);
        return;
    }
    check_admitted(f, w);
    network_send(&f->net, w, SIDE_KERNEL, frame_create(FRAME_ADMITTED, 0, NULL, slice_text("")),
                 f->now);
}

/* The key may have been replaced since the handshake. */
static void resume(struct fleet *f, struct wire *w, const struct frame *frame)
{
    struct err err = { "" };
    struct node_end *n;
    unsigned i = w->agent;

    if (!is_admitted(f, w, &i) && planted != PLANTED_KEY_AT_KNOCK) {
        refuse(f, w);
        return;
    }
    n = &f->kernel.node[i];
    if (n->lost)
        return;
    check_resumed(f, w, i, frame->key);
    if (n->wire && planted != PLANTED_TWO_CONNECTIONS)
        network_close(&f->net, n->wire, SIDE_KERNEL, f->now);
    if (planted != PLANTED_VOIDED_KEY)
        allowed_keys_block(&f->kernel.allowed, n->key);
    admit(f, n, frame->key);
    check_session(f, SIDE_KERNEL, i, session_resume(&n->session, frame->number, &err), &err);
    n->wire = w;
    w->live = true;
    peer_times_start(&n->times, f->now);
    send(f, n, FRAME_WELCOME, slice_text(""));
    flush(f, n);
    f->counts.resumes++;
}

/* ---- in ---- */

static void message(struct fleet *f, struct node_end *n, const struct frame *frame)
{
    const struct letter *l = (const struct letter *)(const void *)frame->bytes;

    check_letter(f, SIDE_KERNEL, number_of(f, n), frame);
    n->lines[l->rank] = l->line;
    if (f->carried && n == f->kernel.node)
        f->carried(f->carried_arg, SIDE_KERNEL);
    if (session_received(&n->session, l->size) && n->wire)
        send(f, n, FRAME_BEAT, slice_text(""));
}

static void ended(struct node_end *n)
{
    n->wire = NULL;
    session_cut(&n->session);
}

/* What came on a connection that the kernel has closed since. */
static void take_old(struct fleet *f, const struct wire *w, const struct frame *frame)
{
    if (frame->kind == FRAME_MESSAGE && planted == PLANTED_OLD_CONNECTION)
        message(f, &f->kernel.node[w->agent], frame);
}

void kernel_end_take(struct fleet *f, struct wire *w, const struct frame *frame)
{
    struct node_end *n = node_of(f, w);
    struct err err = { "" };

    if (w->closed[SIDE_KERNEL]) {
        take_old(f, w, frame);
        return;
    }
    if (n && frame->kind != FRAME_END) {
        peer_times_heard(&n->times, f->now);
        check_heard(f, SIDE_KERNEL, number_of(f, n));
    }
    if (frame->kind == FRAME_KNOCK)
        knock(f, w);
    else if (frame->kind == FRAME_RESUME)
        resume(f, w, frame);
    else if (frame->kind == FRAME_MESSAGE && n)
        message(f, n, frame);
    else if (frame->kind == FRAME_BEAT && n)
        check_session(f, SIDE_KERNEL, number_of(f, n),
                      session_acked(&n->session, frame->number, &err), &err);
    else if (frame->kind == FRAME_END) {
        if (n)
            ended(n);
        network_close(&f->net, w, SIDE_KERNEL, f->now);
    }
}

/* ---- time ---- */

static bool is_lost(const struct fleet *f, const struct node_end *n)
{
    if (n->wire && planted == PLANTED_STOP_IS_LOSS)
        return peer_times_lost(&f->kernel.beat, &n->times, f->now);
    if (n->wire && planted == PLANTED_SLOW_IS_LOSS)
        return n->session.kept && n->session.handed - n->session.acked > 40;
    return f->now >= n->times.heard + FLEET_RESUME_NS;
}

static void lose(struct fleet *f, unsigned i)
{
    struct node_end *n = &f->kernel.node[i];

    check_lost(f, SIDE_KERNEL, i, "the kernel gave an agent up");
    if (n->wire)
        network_close(&f->net, n->wire, SIDE_KERNEL, f->now);
    n->wire = NULL;
    n->lost = true;
    allowed_keys_block(&f->kernel.allowed, n->key);
    session_release(&n->session);
    f->counts.lost++;
}

/* Time in which the kernel itself did not run is nobody's silence. */
static void allow_late(struct fleet *f, uint64_t late)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        peer_times_allow_late(&f->kernel.node[i].times, late, f->now);
}

void kernel_end_tick(struct fleet *f)
{
    uint64_t late;

    if (f->now < f->kernel.beat.due_ns)
        return;
    late = beat_check(&f->kernel.beat, f->now);
    if (planted != PLANTED_OWN_STOP)
        allow_late(f, late);
    for (unsigned i = 0; i < FLEET_AGENTS; i++) {
        struct node_end *n = &f->kernel.node[i];

        if (!n->lost && is_lost(f, n))
            lose(f, i);
        else if (n->wire && peer_times_beat_due(&f->kernel.beat, &n->times, f->now))
            send(f, n, FRAME_BEAT, slice_text(""));
    }
}

uint64_t kernel_end_due_ns(const struct fleet *f)
{
    return f->kernel.beat.due_ns;
}

void kernel_end_release(struct fleet *f)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (!f->kernel.node[i].lost)
            session_release(&f->kernel.node[i].session);
    allowed_keys_release(&f->kernel.allowed);
}
