/* SPDX-License-Identifier: BSD-3-Clause */
/* agent_end.c - an agent: its ranks' lines, its session, and its way back to the kernel. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/network/fleet.h"

void agent_end_start(struct fleet *f, unsigned i, const unsigned char *key)
{
    struct agent_end *a = &f->agent[i];

    *a = (struct agent_end){ .turn = a->turn + 1, .orders = f->kernel.orders };
    session_init(&a->session, letter_free);
    memcpy(a->newest, key, KEY_SIZE);
    memcpy(a->before, key, KEY_SIZE);
    beat_init(&a->beat, FLEET_TIMEOUT_NS, f->now);
    redial_begin(&a->redial, f->now, FLEET_RESUME_NS);
}

static void hang_up(struct fleet *f, struct agent_end *a)
{
    if (a->wire)
        network_close(&f->net, a->wire, SIDE_AGENT, f->now);
    a->wire = NULL;
    session_cut(&a->session);
}

/* The connection, or the attempt, is over. */
static void wait_for_next(struct fleet *f, struct agent_end *a)
{
    hang_up(f, a);
    if (a->state == AGENT_UP)
        redial_begin(&a->redial, f->now, FLEET_RESUME_NS);
    a->state = AGENT_WAITS;
}

static void end(struct fleet *f, struct agent_end *a)
{
    hang_up(f, a);
    session_release(&a->session);
    a->state = AGENT_OVER;
}

void agent_end_crash(struct fleet *f, unsigned i)
{
    end(f, &f->agent[i]);
}

/* ---- out ---- */

static void send(struct fleet *f, struct agent_end *a, enum frame_kind kind, struct slice bytes)
{
    const uint64_t number = kind == FRAME_MESSAGE ? 0 : session_tell(&a->session);

    network_send(&f->net, a->wire, SIDE_AGENT, frame_create(kind, number, a->newest, bytes),
                 f->now);
    a->times.sent = f->now;
}

static void flush(struct fleet *f, struct agent_end *a)
{
    const struct letter *l;

    while ((l = session_next(&a->session)))
        send(f, a, FRAME_MESSAGE, slice_of(l, sizeof *l));
}

bool agent_end_print(struct fleet *f, unsigned i, unsigned rank, uint64_t size)
{
    struct agent_end *a = &f->agent[i];
    struct err err = { "" };
    struct letter *l;

    if (a->state == AGENT_OVER)
        return false;
    if (session_is_full(&a->session) && planted != PLANTED_NO_BOUND)
        return false;
    if (!(l = malloc(sizeof *l)))
        abort();
    *l = (struct letter){ .refs = 1, .agent = i, .turn = a->turn, .rank = rank, .size = size };
    l->line = ++a->lines[rank];
    if (session_keep(&a->session, l, size, &err) < 0)
        abort();
    flush(f, a);
    return true;
}

/* ---- in ---- */

/* The handshake is done. Only an admitted newest key needs another one for the next time: if it is
 * the one before, the kernel has not read the RESUME that announced the newest. */
static void admitted(struct fleet *f, struct agent_end *a)
{
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
    send(f, a, FRAME_RESUME, slice_text(""));
}

static bool is_refused(const struct agent_end *a)
{
    return redial_was_refused(&a->redial) ||
           (planted == PLANTED_TWO_REFUSALS && a->redial.refusals >= 2);
}

static void refused(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    f->counts.refused++;
    redial_refused(&a->redial, f->now);
    wait_for_next(f, a);
    if (!is_refused(a))
        return;
    check_refused(f, i);
    end(f, a);
}

static void welcome(struct fleet *f, unsigned i, const struct frame *frame)
{
    struct agent_end *a = &f->agent[i];
    struct err err = { "" };

    check_session(f, SIDE_AGENT, i, session_resume(&a->session, frame->number, &err), &err);
    a->state = AGENT_UP;
    redial_resumed(&a->redial);
    peer_times_start(&a->times, f->now);
    beat_start(&a->beat, f->now);
    flush(f, a);
}

static void message(struct fleet *f, unsigned i, const struct frame *frame)
{
    struct agent_end *a = &f->agent[i];
    const struct letter *l = (const struct letter *)(const void *)frame->bytes;

    check_letter(f, SIDE_AGENT, i, frame);
    a->orders = l->line;
    if (f->carried && i == 0)
        f->carried(f->carried_arg, SIDE_AGENT);
    if (session_received(&a->session, l->size))
        send(f, a, FRAME_BEAT, slice_text(""));
}

void agent_end_take(struct fleet *f, unsigned i, struct wire *w, const struct frame *frame)
{
    struct agent_end *a = &f->agent[i];
    struct err err = { "" };

    if (w != a->wire)
        abort(); /* it has closed all others */
    peer_times_heard(&a->times, f->now);
    if (frame->kind != FRAME_END && frame->kind != FRAME_REFUSED)
        check_heard(f, SIDE_AGENT, i);
    if (frame->kind == FRAME_ADMITTED)
        admitted(f, a);
    else if (frame->kind == FRAME_REFUSED)
        refused(f, i);
    else if (frame->kind == FRAME_WELCOME)
        welcome(f, i, frame);
    else if (frame->kind == FRAME_MESSAGE)
        message(f, i, frame);
    else if (frame->kind == FRAME_BEAT)
        check_session(f, SIDE_AGENT, i, session_acked(&a->session, frame->number, &err), &err);
    else
        wait_for_next(f, a);
}

/* ---- time ---- */

static void dial(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    a->with = redial_attempt(&a->redial, f->now, (uint32_t)dice_roll(&f->dice, UINT32_MAX));
    if (planted == PLANTED_NEWEST_ONLY)
        a->with = REDIAL_NEWEST;
    a->state = AGENT_KNOCKS;
    a->wire = network_dial(&f->net, i, &f->path[i],
                           a->with == REDIAL_NEWEST ? a->newest : a->before, f->now);
}

static void give_up(struct fleet *f, unsigned i)
{
    f->counts.given_up++;
    check_lost(f, SIDE_AGENT, i, "an agent gave its kernel up");
    end(f, &f->agent[i]);
}

static void tick_up(struct fleet *f, struct agent_end *a)
{
    if (f->now < a->beat.due_ns)
        return;
    if (beat_is_over(&a->beat, &a->times, f->now))
        wait_for_next(f, a);
    else if (peer_times_beat_due(&a->beat, &a->times, f->now))
        send(f, a, FRAME_BEAT, slice_text(""));
}

void agent_end_tick(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    if (a->state == AGENT_UP)
        tick_up(f, a);
    else if (a->state != AGENT_OVER && redial_is_over(&a->redial, f->now))
        give_up(f, i);
    else if (a->state == AGENT_WAITS && redial_is_due(&a->redial, f->now))
        dial(f, i);
    else if (a->wire && redial_has_failed(&a->redial, f->now))
        wait_for_next(f, a);
}

uint64_t agent_end_due_ns(const struct fleet *f, unsigned i)
{
    const struct agent_end *a = &f->agent[i];

    if (a->state == AGENT_OVER)
        return UINT64_MAX;
    if (a->state == AGENT_UP)
        return a->beat.due_ns;
    if (a->state == AGENT_WAITS)
        return redial_due_ns(&a->redial);
    return clock_earlier(a->redial.over_ns, a->redial.limit_ns);
}
