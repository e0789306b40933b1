/* SPDX-License-Identifier: BSD-3-Clause */
/* agent_end.c - an agent: its ranks' lines, its session, and its way back to the kernel, as
 * worker/agent/net/uplink.c has them. */
#include <stdlib.h>
#include <string.h>

#include "protocol/span_fields.h"
#include "tests/unit/network/fleet.h"

#define GREETING_NS (24 * 3600 * NS_PER_S) /* until HELLO is answered, the engine has a limit */

static uint64_t resume_ns(const struct agent_end *a)
{
    return a->greeted ? FLEET_RESUME_NS : GREETING_NS;
}

void agent_end_start(struct fleet *f, unsigned i, const unsigned char *key)
{
    struct agent_end *a = &f->agent[i];

    *a = (struct agent_end){ .turn = a->turn + 1, .orders = f->kernel.orders };
    a->node = f->kernel.node[i].number;
    session_init(&a->session, free);
    memcpy(a->own, key, KEY_SIZE);
    memcpy(a->newest, key, KEY_SIZE);
    memcpy(a->before, key, KEY_SIZE);
    agent_tree_start(a);
    redial_begin(&a->redial, f->now, resume_ns(a));
}

static void hang_up(struct fleet *f, struct agent_end *a)
{
    if (a->wire)
        network_close(&f->net, a->wire, SIDE_AGENT, f->now);
    a->wire = NULL;
    session_cut(&a->session);
}

void agent_end_cut(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    if (a->state == AGENT_UP) {
        f->counts.orphans += a->wire->listener != FLEET_KERNEL;
        agent_tree_cut(f, i);
        redial_begin(&a->redial, f->now, resume_ns(a));
    }
    hang_up(f, a);
    a->state = AGENT_WAITS;
}

void agent_end_crash(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    agent_tree_end(f, i);
    hang_up(f, a);
    session_release(&a->session);
    a->state = AGENT_OVER;
}

/* ---- out ---- */

void agent_end_pass(struct fleet *f, unsigned i, uint32_t node, struct slice message)
{
    struct agent_end *a = &f->agent[i];
    struct frame *frame;

    if (!a->wire)
        return;
    frame = frame_create(FRAME_SPAN, node, NULL, message);
    if (!a->parent) {
        network_send(&f->net, a->wire, SIDE_AGENT, frame, f->now);
        return;
    }
    if (planted == PLANTED_TWO_WAYS) {
        network_send(&f->net, a->parent, SIDE_AGENT, frame, f->now);
        return;
    }
    *a->last = frame;
    a->last = &frame->next;
}

static void flush(struct fleet *f, unsigned i)
{
    const struct buf *message;

    while ((message = session_next(&f->agent[i].session)))
        agent_end_pass(f, i, f->agent[i].node, buf_slice(message));
}

static void keep(struct fleet *f, unsigned i, struct slice message, uint64_t size)
{
    struct buf *item = malloc(sizeof *item + message.n);
    struct err err = { "" };

    if (!item)
        abort();
    *item = (struct buf){ .p = (char *)(item + 1), .n = message.n };
    memcpy(item->p, message.p, message.n);
    if (session_keep(&f->agent[i].session, item, size, &err) < 0)
        abort();
    flush(f, i);
}

/* size: as it counts for the session; the bytes themselves are not there */
static void say(struct fleet *f, unsigned i, const struct span *m, uint32_t node, uint64_t size)
{
    struct buf message = BUF_INIT;
    struct err err = { "" };

    if (span_encode(m, &message, &err) < 0)
        abort();
    if (span_is_numbered(message.p, message.n))
        keep(f, i, buf_slice(&message), size);
    else
        agent_end_pass(f, i, node, buf_slice(&message));
    buf_release(&message);
}

void agent_end_say(struct fleet *f, unsigned i, const struct span *m)
{
    say(f, i, m, f->agent[i].node, 0);
}

static void say_beat(struct fleet *f, unsigned i)
{
    struct span m = { .kind = SPAN_BEAT };

    m.v[F_BEAT_RECEIVED].u64 = session_tell(&f->agent[i].session);
    agent_end_say(f, i, &m);
}

bool agent_end_print(struct fleet *f, unsigned i, unsigned rank, uint64_t size)
{
    struct agent_end *a = &f->agent[i];
    struct span m = { .kind = SPAN_LOGS, .v[F_LOGS_OF].u64 = i };

    if (a->state == AGENT_OVER)
        return false;
    if (session_is_full(&a->session) && planted != PLANTED_NO_BOUND)
        return false;
    m.v[F_LOGS_FLAGS].u64 = (uint64_t)a->turn << 8 | rank;
    m.v[F_LOGS_AT].u64 = ++a->lines[rank];
    say(f, i, &m, a->node, size);
    return true;
}

/* ---- the way back ---- */

static void say_hello(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];
    struct span m = { .kind = SPAN_HELLO, .v[F_HELLO_VERSION].u64 = SPAN_VERSION };

    m.v[F_HELLO_NODE].s = slice_text("h");
    m.v[F_HELLO_ADDRESSES].s = slice_text("lo=127.0.0.1");
    m.v[F_HELLO_NEXT].s = slice_of(a->newest, KEY_SIZE);
    redial_hello(&a->redial);
    say(f, i, &m, ROUTE_KERNEL, 0);
}

static void say_resume(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];
    struct span m = { .kind = SPAN_RESUME, .v[F_RESUME_VERSION].u64 = SPAN_VERSION };

    m.v[F_RESUME_NUMBER].u64 = a->node;
    m.v[F_RESUME_RECEIVED].u64 = session_tell(&a->session);
    m.v[F_RESUME_NEXT].s = slice_of(a->newest, KEY_SIZE);
    say(f, i, &m, ROUTE_KERNEL, 0);
}

/* The handshake is done. Only an admitted newest key needs another one for the next time: if it is
 * the one before, the kernel has not read the RESUME that announced the newest. */
static void admitted(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];
    const uint64_t over_ns = a->redial.over_ns;

    redial_admitted(&a->redial, f->now);
    if (planted == PLANTED_GIVES_UP)
        a->redial.over_ns = over_ns;
    if (a->with == REDIAL_NEWEST) {
        memcpy(a->before, a->newest, KEY_SIZE);
        dice_bytes(&f->dice, a->newest, KEY_SIZE);
    } else {
        f->counts.second_key++;
    }
    a->state = AGENT_ASKS;
    if (a->greeted)
        say_resume(f, i);
    else
        say_hello(f, i);
}

static bool is_refused(const struct agent_end *a)
{
    return redial_was_refused(&a->redial) ||
           (planted == PLANTED_TWO_REFUSALS && a->redial.refusals >= 2);
}

static void over(struct fleet *f, unsigned i)
{
    check_refused(f, i);
    agent_end_crash(f, i);
}

static void refused(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    f->counts.refused++;
    redial_refused(&a->redial, f->now);
    agent_end_cut(f, i);
    if (is_refused(a))
        over(f, i);
}

/* ---- in ---- */

/* WELCOME, or the answer to RESUME: the kernel has received so many messages. */
static void connected(struct fleet *f, unsigned i, uint64_t received)
{
    struct agent_end *a = &f->agent[i];
    struct err err = { "" };

    a->state = AGENT_UP;
    a->stays = a->greeted;
    a->greeted = true;
    redial_resumed(&a->redial);
    peer_times_start(&a->times, f->now);
    beat_init(&a->beat, FLEET_TIMEOUT_NS / 2, f->now);
    check_session(f, SIDE_AGENT, i, session_resume(&a->session, received, &err), &err);
    flush(f, i);
}

static void letter(struct fleet *f, unsigned i, const struct span *m)
{
    check_letter(f, SIDE_AGENT, i, m);
    f->agent[i].orders = m->v[F_LOGS_AT].u64;
    if (f->carried && i == 0)
        f->carried(f->carried_arg, SIDE_AGENT);
}

static void beat(struct fleet *f, unsigned i, const struct span *m)
{
    struct err err = { "" };

    check_session(f, SIDE_AGENT, i,
                  session_acked(&f->agent[i].session, m->v[F_BEAT_RECEIVED].u64, &err), &err);
    say_beat(f, i);
}

/* How large it is, as it counts. */
static size_t size_of(const struct span *m, struct slice message)
{
    return m->kind == SPAN_LOGS ? (size_t)m->v[F_LOGS_END].u64 : message.n;
}

static void take(struct fleet *f, unsigned i, const struct span *m)
{
    const struct agent_end *a = &f->agent[i];

    if (m->kind == SPAN_REFUSE)
        over(f, i);
    else if (m->kind == SPAN_WELCOME && !a->greeted)
        connected(f, i, 0);
    else if (m->kind == SPAN_RESUME && a->state == AGENT_ASKS)
        connected(f, i, m->v[F_RESUME_RECEIVED].u64);
    else if (m->kind == SPAN_RESUME) /* a parent has lost its own */
        agent_end_cut(f, i);
    else if (m->kind == SPAN_LOGS)
        letter(f, i, m);
    else if (m->kind == SPAN_BEAT)
        beat(f, i, m);
    else if (m->kind == SPAN_OPEN)
        agent_tree_open(f, i, m);
    else if (m->kind == SPAN_DIAL)
        agent_tree_dial(f, i, m);
}

void agent_end_hear(struct fleet *f, unsigned i, struct slice message)
{
    struct agent_end *a = &f->agent[i];
    struct err err = { "" };
    struct span m;

    if (span_decode(&m, message.p, message.n, &err) < 0)
        abort();
    if (span_is_numbered(message.p, message.n) &&
        session_received(&a->session, size_of(&m, message)))
        say_beat(f, i);
    take(f, i, &m);
    span_release(&m);
}

static void take_line(struct fleet *f, unsigned i, const struct frame *frame)
{
    struct agent_end *a = &f->agent[i];

    peer_times_heard(&a->times, f->now);
    check_heard(f, SIDE_AGENT, i);
    if (frame->kind == FRAME_ADMITTED)
        admitted(f, i);
    else if (!agent_tree_down(f, i, frame))
        agent_end_hear(f, i, slice_of(frame->bytes, frame->n));
}

void agent_end_take(struct fleet *f, unsigned i, struct wire *w, const struct frame *frame)
{
    struct agent_end *a = &f->agent[i];

    if (w == a->moving) {
        agent_tree_parent(f, i, frame);
        return;
    }
    if (w != a->wire && w != a->parent)
        abort(); /* it has closed all others */
    if (frame->kind == FRAME_REFUSED) {
        refused(f, i);
    } else if (frame->kind == FRAME_END) {
        agent_end_cut(f, i);
    } else {
        if (w == a->parent)
            agent_tree_moved(f, i);
        take_line(f, i, frame);
    }
}

/* ---- time ---- */

static void dial(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    a->with = redial_attempt(&a->redial, f->now, (uint32_t)dice_roll(&f->dice, UINT32_MAX));
    if (planted == PLANTED_NEWEST_ONLY)
        a->with = REDIAL_NEWEST;
    a->state = AGENT_KNOCKS;
    a->wire = network_dial(&f->net, i, FLEET_KERNEL, &f->path[i],
                           a->with == REDIAL_NEWEST ? a->newest : a->before, f->now);
}

static void give_up(struct fleet *f, unsigned i)
{
    f->counts.given_up++;
    check_lost(f, SIDE_AGENT, i, "an agent gave its kernel up");
    agent_end_crash(f, i);
}

/* It was connected, and that has taken too long? */
static bool was_slow(const struct agent_end *a)
{
    return a->state == AGENT_ASKS || (!a->wire->path->cut && !a->wire->forgotten);
}

static void attempt_has_failed(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    if (was_slow(a) && planted != PLANTED_NEVER_LONGER)
        redial_was_slow(&a->redial);
    agent_end_cut(f, i);
}

/* Who dials a parent is not asked for a sign of life meanwhile. */
static void tick_up(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    agent_tree_tick(f, i);
    if (f->now < a->beat.due_ns)
        return;
    if (a->moving) {
        peer_times_heard(&a->times, f->now);
        say_beat(f, i);
    }
    if (beat_is_over(&a->beat, &a->times, f->now))
        agent_end_cut(f, i);
}

void agent_end_tick(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    if (a->state == AGENT_UP)
        tick_up(f, i);
    else if (a->state != AGENT_OVER && redial_is_over(&a->redial, f->now))
        give_up(f, i);
    else if (a->state == AGENT_WAITS && redial_is_due(&a->redial, f->now))
        dial(f, i);
    else if (a->wire && redial_has_failed(&a->redial, f->now))
        attempt_has_failed(f, i);
}

uint64_t agent_end_due_ns(const struct fleet *f, unsigned i)
{
    const struct agent_end *a = &f->agent[i];

    if (a->state == AGENT_OVER)
        return UINT64_MAX;
    if (a->state == AGENT_UP)
        return a->moving ? clock_earlier(a->beat.due_ns, a->moves_until_ns) : a->beat.due_ns;
    if (a->state == AGENT_WAITS)
        return redial_due_ns(&a->redial);
    return clock_earlier(a->redial.over_ns, a->redial.limit_ns);
}
