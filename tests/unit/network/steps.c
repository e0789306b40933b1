/* SPDX-License-Identifier: BSD-3-Clause */
/* steps.c - what happens next: by chance something goes wrong, somebody has something to say, a
 * frame arrives, or time passes. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/span_fields.h"
#include "tests/unit/network/fleet.h"

#define CALM_NS    (600 * NS_PER_S) /* in which all must arrive at the end */
#define WORK       200u             /* of a thousand steps */
#define TROUBLES   6u               /* 1 of a thousand steps, or 2, … */
#define SIDE_COUNT 2
#define TICKS      300u /* at most, in which nothing is said, in one step */
#define DELAYS     11u  /* a millisecond, two, and so on */

/* For who replays a seed. */
static void PRINTF_LIKE(2, 3) trace(const struct fleet *f, const char *format, ...)
{
    va_list args;

    if (!f->traced)
        return;
    printf("# %9.3f s  ", (double)f->now / (double)NS_PER_S);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* ---- time ---- */

static uint64_t some_time(struct fleet *f)
{
    const uint64_t roll = dice_roll(&f->dice, 100);

    if (roll < 60)
        return dice_roll(&f->dice, 5 * NS_PER_S) + 1;
    if (roll < 95)
        return dice_roll(&f->dice, 70 * NS_PER_S) + 1;
    return 100 * NS_PER_S + dice_roll(&f->dice, 100 * NS_PER_S);
}

static bool is_stopped(const struct fleet *f, unsigned who)
{
    return f->goes_on_ns[who] != UINT64_MAX;
}

static uint64_t process_due_ns(const struct fleet *f, unsigned who)
{
    if (is_stopped(f, who))
        return f->goes_on_ns[who];
    return turns_due_ns(who);
}

static void advance(struct fleet *f)
{
    uint64_t due = network_due_ns(&f->net);

    for (unsigned i = 0; i <= FLEET_AGENTS; i++)
        due = clock_earlier(due, process_due_ns(f, i));
    for (unsigned k = 0; k < FLEET_PATHS; k++)
        due = clock_earlier(due, f->heals_ns[k]);
    if (due > f->now)
        f->now = due;
}

/* ---- processes that are stopped, and go on ---- */

/* Who listens at the end of a path. */
static unsigned listener_of(unsigned path)
{
    return path < FLEET_AGENTS ? FLEET_KERNEL : fleet_parent(path - FLEET_AGENTS);
}

static void set_reading(struct fleet *f, unsigned who, uint64_t from_ns)
{
    for (unsigned k = 0; k < FLEET_PATHS; k++) {
        if (who == k % FLEET_AGENTS && who != FLEET_KERNEL)
            f->path[k].reads_from_ns[SIDE_AGENT] = from_ns;
        if (who == listener_of(k))
            f->path[k].reads_from_ns[SIDE_KERNEL] = from_ns;
    }
}

static void disturb(struct fleet *f, unsigned who)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (who == i || who == FLEET_KERNEL)
            check_disturbed(f, i);
}

static void stop(struct fleet *f, unsigned who)
{
    trace(f, "%u is stopped (%u: the kernel)", who, FLEET_KERNEL);
    f->goes_on_ns[who] = f->now + some_time(f);
    f->stopped_ns[who] = f->now;
    set_reading(f, who, UINT64_MAX);
    f->counts.stops++;
}

static void go_on(struct fleet *f, unsigned who)
{
    trace(f, "%u goes on", who);
    f->goes_on_ns[who] = UINT64_MAX;
    set_reading(f, who, f->now);
    disturb(f, who);
    if (who == FLEET_KERNEL)
        check_slept(f, f->now - f->stopped_ns[who]);
}

static void heal(struct fleet *f, unsigned path)
{
    trace(f, "agent %u is reached again (by path %u)", path % FLEET_AGENTS, path);
    f->heals_ns[path] = UINT64_MAX;
    path_heal(&f->path[path], f->now);
    check_disturbed(f, path % FLEET_AGENTS);
}

/* ---- trouble ---- */

/* Path: of an agent to the kernel, or to its parent. */
static void cut(struct fleet *f, unsigned path)
{
    if (f->path[path].cut)
        return;
    trace(f, "path %u is cut off, of agent %u", path, path % FLEET_AGENTS);
    f->path[path].cut = true;
    f->heals_ns[path] = f->now + some_time(f);
    f->counts.cuts++;
}

static void break_wires(struct fleet *f, unsigned i, bool tell)
{
    for (struct wire *w = f->net.first; w; w = w->next)
        if (w->agent == i && !w->forgotten) {
            if (tell)
                network_reset(&f->net, w, f->now);
            else
                network_forget(w);
            trace(f, "connection %u is %s", w->number, tell ? "reset" : "forgotten");
            *(tell ? &f->counts.resets : &f->counts.forgotten) += 1;
        }
    check_disturbed(f, i);
}

/* The longest ways there and back take longer than an attempt may at first. */
static void change_path(struct fleet *f, unsigned path)
{
    struct path *p = &f->path[path];
    const enum side side = (enum side)dice_roll(&f->dice, SIDE_COUNT);

    p->delay_ns = NS_PER_MS << dice_roll(&f->dice, DELAYS);
    p->jitter_ns = dice_roll(&f->dice, p->delay_ns > NS_PER_S ? NS_PER_S / 4 : p->delay_ns);
    p->slow_ns[side] = dice_chance(&f->dice, 300) ? dice_roll(&f->dice, 100 * NS_PER_MS) : 0;
}

static void leave_thief(struct fleet *f)
{
    if (f->thief)
        network_close(&f->net, f->thief, SIDE_AGENT, f->now);
    f->thief = NULL;
    f->thief_waits = false;
}

/* Somebody has found a key that was good once, or knows the one that is. */
static void send_thief(struct fleet *f, unsigned i)
{
    const struct fleet_checks *c = &f->checks;
    const unsigned n = c->n_voided[i] < FLEET_VOIDED ? c->n_voided[i] : FLEET_VOIDED;
    const bool knows = n == 0 || dice_chance(&f->dice, 500);
    const unsigned char *key = knows ? c->valid[i] : c->voided[i][dice_roll(&f->dice, n)];

    leave_thief(f);
    trace(f, "somebody dials with a key of agent %u", i);
    f->thief = network_dial(&f->net, i, FLEET_KERNEL, &f->path[i], key, f->now);
    f->counts.thieves++;
}

static void thief_takes(struct fleet *f, const struct frame *frame)
{
    if (frame->kind == FRAME_ADMITTED)
        f->thief_waits = true;
    else if (frame->kind != FRAME_TAKEN)
        leave_thief(f);
}

static void thief_sends(struct fleet *f, struct slice message)
{
    struct buf bundle = BUF_INIT;

    if (bundle_add(&bundle, ROUTE_KERNEL, SPAN_WORKER_NONE, message) < 0)
        abort();
    network_send(&f->net, f->thief, SIDE_AGENT,
                 frame_create(FRAME_SPAN, slice_text(""), buf_slice(&bundle)), f->now);
    buf_release(&bundle);
}

/* The same with other bytes, as of a program of any version or of none. */
static void thief_says_nonsense(struct fleet *f, struct slice message)
{
    struct dice *d = &f->dice;
    struct buf other = BUF_INIT;

    if (buf_add_slice(&other, message) < 0)
        abort();
    other.p[0] = (char)(dice_chance(d, 500) ? dice_roll(d, 256) : SPAN_VERSION);
    other.p[1] = dice_chance(d, 500) ? SPAN_HELLO : SPAN_RESUME;
    for (uint64_t k = dice_roll(d, 4); k > 0; k--)
        other.p[2 + dice_roll(d, other.n - 2)] = (char)dice_roll(d, 256);
    thief_sends(f, slice_of(other.p, dice_chance(d, 500) ? other.n : dice_roll(d, other.n)));
    buf_release(&other);
}

/* Whoever has the one key that is good is the agent. So this one resumes when it is not any more.
 */
static void thief_resumes(struct fleet *f)
{
    struct span m = { .kind = SPAN_RESUME, .v[F_RESUME_VERSION].u64 = SPAN_VERSION };
    const struct wire *w = f->thief;
    struct buf message = BUF_INIT;
    unsigned char next[KEY_SIZE];
    struct err err = { "" };

    if (!w || !f->thief_waits || memcmp(f->checks.valid[w->agent], w->key, KEY_SIZE) == 0)
        return;
    f->thief_waits = false;
    dice_bytes(&f->dice, next, KEY_SIZE);
    m.v[F_RESUME_NUMBER].u64 = f->kernel.node[w->agent].number;
    m.v[F_RESUME_RECEIVED].u64 = kernel_end_session(f, w->agent)->acked; /* it has read along */
    m.v[F_RESUME_NEXT].s = slice_of(next, KEY_SIZE);
    if (span_encode(&m, &message, &err) < 0)
        abort();
    thief_says_nonsense(f, buf_slice(&message));
    thief_sends(f, buf_slice(&message));
    buf_release(&message);
}

static void crash(struct fleet *f, unsigned i)
{
    if (f->agent[i].over)
        return;
    trace(f, "agent %u crashes", i);
    agent_end_crash(f, i);
    check_disturbed(f, i);
    f->counts.crashes++;
}

static void start_all(struct fleet *f);

/* The engine is stopped, and another one comes: the only way back into a tree. */
static void another_engine(struct fleet *f)
{
    trace(f, "another engine comes");
    leave_thief(f);
    kernel_end_forget(f);
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (!f->agent[i].over)
            agent_end_crash(f, i);
    start_all(f);
    f->counts.engines++;
}

static void trouble(struct fleet *f)
{
    const unsigned i = (unsigned)dice_roll(&f->dice, FLEET_AGENTS);
    /* nothing that may take longer than the kernel waits, where there is but one of an agent */
    const uint64_t roll = f->carried ? 20 + dice_roll(&f->dice, 35) : dice_roll(&f->dice, 100);

    if (roll < 20)
        cut(f, dice_chance(&f->dice, 700) ? i : FLEET_AGENTS + i);
    else if (roll < 45)
        break_wires(f, i, true);
    else if (roll < 55)
        break_wires(f, i, false);
    else if (roll < 65 && !is_stopped(f, i))
        stop(f, i);
    else if (roll < 70 && !is_stopped(f, FLEET_KERNEL))
        stop(f, FLEET_KERNEL);
    else if (roll < 73)
        crash(f, i);
    else if (roll < 82)
        send_thief(f, i);
    else if (roll < 90)
        another_engine(f);
    else
        change_path(f, (unsigned)dice_roll(&f->dice, FLEET_PATHS));
}

/* ---- work ---- */

static uint64_t some_size(struct fleet *f)
{
    const uint64_t roll = dice_roll(&f->dice, 100);

    if (roll < 90)
        return dice_roll(&f->dice, 500);
    return dice_roll(&f->dice, roll < 98 ? UINT64_C(256) << 10 : FLEET_LETTER_MAX);
}

static void work(struct fleet *f)
{
    const unsigned i = (unsigned)dice_roll(&f->dice, FLEET_AGENTS + 1);
    const unsigned rank = (unsigned)dice_roll(&f->dice, FLEET_RANKS);

    if (is_stopped(f, i) || (f->carried && (i == 0 || i == FLEET_KERNEL)))
        return;
    if (i == FLEET_KERNEL)
        kernel_end_order(f, some_size(f));
    else if (f->agent[i].uplink && !agent_end_print(f, i, rank, some_size(f)))
        f->counts.full++;
}

/* ---- steps ---- */

static void start(struct fleet *f, unsigned i, bool in_tree)
{
    unsigned char key[KEY_SIZE];

    dice_bytes(&f->dice, key, sizeof key);
    memcpy(f->checks.valid[i], key, KEY_SIZE);
    f->checks.met_ns[0][i] = f->checks.met_ns[1][i] = f->now;
    kernel_end_start(f, i, key, in_tree);
    agent_end_start(f, i, key);
}

/* Nodes of one engine follow each other. */
static void start_all(struct fleet *f)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++) {
        start(f, i, true);
        check_disturbed(f, i);
    }
}

/* The message in it, and of a bundle the first one. *node: for or from whom it is; -1: for or from
 * the kernel. */
static struct slice message_of(const struct frame *frame, int *node)
{
    struct slice first = slice_of(frame->bytes, frame->two ? frame->head : frame->n);
    struct route_section s;
    struct bundle_entry e;

    *node = -1;
    if (frame->two) {
        *node = route_next(&first, &s) ? (int)s.node : -1;
        return slice_of(frame->bytes + frame->head, frame->n - frame->head);
    }
    if (!bundle_next(&first, &e))
        return first;
    *node = (int)e.node;
    return e.message;
}

size_t frames_size(const struct frame *frame)
{
    int node;
    const struct slice message = message_of(frame, &node);
    size_t size = 0;
    struct span m;

    if (frame->kind != FRAME_SPAN || span_decode(&m, message.p, message.n, NULL) < 0)
        return 0;
    if (m.kind == SPAN_LOGS)
        size = (size_t)m.v[F_LOGS_END].u64;
    span_release(&m);
    return size;
}

static const char *name_of(const struct frame *frame, int *node)
{
    static const char *const names[] = { "knock", "taken", "admitted", "refused", "", "end" };
    const struct slice message = message_of(frame, node);
    const struct span_info *info;

    if (frame->kind != FRAME_SPAN)
        return names[frame->kind];
    info = message.n > 1 ? span_info((unsigned char)message.p[1]) : NULL;
    return info ? info->name : "nonsense";
}

static void deliver(struct fleet *f, const struct arrival *a)
{
    int node;
    const char *const name = name_of(a->frame, &node);

    trace(f, "connection %u: %s of node %d from %u to %u", a->wire->number, name, node,
          a->to == SIDE_KERNEL ? a->wire->agent : a->wire->listener,
          a->to == SIDE_KERNEL ? a->wire->listener : a->wire->agent);
    f->counts.frames++;
    if (a->to == SIDE_KERNEL && a->wire->listener == FLEET_SILENT)
        return;
    if (a->to == SIDE_KERNEL && a->wire->listener == FLEET_KERNEL)
        kernel_end_take(f, a->wire, a->frame);
    else if (a->to == SIDE_KERNEL)
        agent_end_take_child(f, a->wire, a->frame);
    else if (a->wire == f->thief)
        thief_takes(f, a->frame);
    else
        agent_end_take(f, a->wire, a->frame);
}

/* What is due for this process. */
static void tick(struct fleet *f, unsigned who)
{
    if (process_due_ns(f, who) > f->now)
        return;
    if (is_stopped(f, who))
        go_on(f, who);
    else if (who == FLEET_KERNEL)
        kernel_end_tick(f);
    else if (!f->agent[who].over)
        agent_end_tick(f, who);
}

static void tick_all(struct fleet *f)
{
    for (unsigned k = 0; k < FLEET_PATHS; k++)
        if (f->heals_ns[k] <= f->now)
            heal(f, k);
    for (unsigned i = 0; i < FLEET_AGENTS; i++) {
        if (!f->agent[i].over)
            continue;
        kernel_end_ended(f, i);
        if (f->kernel.node[i].lost)
            start(f, i, false); /* its engine gives another */
    }
    for (unsigned i = 0; i <= FLEET_AGENTS; i++)
        tick(f, i);
}

/* Until somebody says something, or something arrives: agents look often whether it is time to. */
static void pass_time(struct fleet *f)
{
    const uint64_t sent = f->net.sent;
    unsigned k = 0;

    do {
        advance(f);
        tick_all(f);
        check_state(f);
    } while (++k < TICKS && f->net.sent == sent && network_due_ns(&f->net) > f->now);
}

void fleet_step(struct fleet *f)
{
    struct arrival a;

    f->counts.steps++;
    if (!f->calm && dice_chance(&f->dice, f->trouble))
        trouble(f);
    else if (!f->calm && dice_chance(&f->dice, WORK))
        work(f);
    else if (dice_chance(&f->dice, 900) && network_take(&f->net, f->now, &a)) {
        deliver(f, &a);
        free(a.frame);
    } else {
        pass_time(f);
    }
    thief_resumes(f);
    check_state(f);
}

/* From now on nothing is in the way. */
static void calm_down(struct fleet *f)
{
    f->calm = true;
    leave_thief(f);
    for (unsigned i = 0; i <= FLEET_AGENTS; i++)
        if (is_stopped(f, i))
            go_on(f, i);
    for (unsigned k = 0; k < FLEET_PATHS; k++) {
        f->path[k].slow_ns[0] = f->path[k].slow_ns[1] = 0;
        if (f->path[k].cut)
            heal(f, k);
    }
}

void fleet_begin(struct fleet *f, const struct rounds *r, uint64_t seed)
{
    *f = (struct fleet){ .now = NS_PER_S, .seed = seed, .dice = { seed }, .traced = r->traced };
    planted = r->planted;
    f->silent = seed % 2;
    f->net.dice = &f->dice;
    f->trouble = 1u << dice_roll(&f->dice, TROUBLES);
    turns_open(f);
    sockets_open(f);
    agent_outside_open(f);
    kernel_end_open(f);
    for (unsigned i = 0; i <= FLEET_AGENTS; i++)
        f->goes_on_ns[i] = UINT64_MAX;
    for (unsigned k = 0; k < FLEET_PATHS; k++) {
        f->heals_ns[k] = UINT64_MAX;
        change_path(f, k);
    }
    start_all(f);
}

void fleet_run(struct fleet *f, const struct rounds *r, uint64_t seed)
{
    uint64_t end;

    fleet_begin(f, r, seed);
    while (!f->broken && f->counts.steps < r->steps)
        fleet_step(f);
    calm_down(f);
    end = f->now + CALM_NS;
    while (!f->broken && f->now < end && !check_is_whole(f))
        fleet_step(f);
    check_end(f);
}

void fleet_release(struct fleet *f)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (!f->agent[i].over)
            agent_end_crash(f, i);
    kernel_end_release(f);
    network_release(&f->net);
}
