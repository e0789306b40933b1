/* SPDX-License-Identifier: BSD-3-Clause */
/* agent_end.c - an agent: its code for its connections (worker/agent/net), in place of whose first
 * attempt to connect (join.c), workers and end this stands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/span_fields.h"
#include "tests/unit/network/fleet.h"
#include "worker/agent/net/dial.h"
#include "worker/agent/net/uplink.h"

#define DIAL_NS        (20 * NS_PER_S) /* for an attempt of join.c; the longest way takes nine */
#define AGAIN_NS       (200 * NS_PER_MS)
#define GREET_NS       (100 * NS_PER_S) /* join.c's limit for WELCOME */
#define HELLO_NS       (20 * NS_PER_S)  /* and after so long HELLO is said anew */
#define ENDPOINTS_SIZE (2 * SOCKETS_ENDPOINT_SIZE)

static const unsigned char the_kernel[KEY_SIZE]; /* its public key */

/* planted.c has it: the calls in agents' code of a cell are answered by agent/seam.c. (ld --wrap)
 */
int __real_uplink_send(struct uplink *u, uint32_t worker, struct slice msg, struct err *err);

bool agent_end_is_up(const struct fleet *f, unsigned i)
{
    const struct agent_end *a = &f->agent[i];

    return a->uplink && uplink_is_welcome(a->uplink) && !uplink_is_cut_off(a->uplink);
}

void agent_end_crash(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    sockets_dead(i, true);
    dial_stop(a->dial);
    uplink_close(a->uplink);
    turns_end(i);
    sockets_dead(i, false);
    a->dial = NULL;
    a->uplink = NULL;
    a->session = NULL;
    a->over = true;
}

/* The agent ends: when its turn is over. */
static void end(struct agent_end *a)
{
    a->ends = true;
    turns_stop(a->index);
}

static void turn_is_over(struct agent_end *a)
{
    turns_take(a->index);
    if (a->uplink)
        a->greeted = uplink_is_welcome(a->uplink);
    if (a->ends)
        agent_end_crash(a->fleet, a->index);
}

/* ---- out ---- */

static void say(struct agent_end *a, const struct span *m, uint64_t size)
{
    struct buf message = BUF_INIT;
    struct err err = { "" };

    letter_size = size;
    if (span_encode(m, &message, &err) < 0 ||
        __real_uplink_send(a->uplink, SPAN_WORKER_NONE, buf_slice(&message), &err) < 0)
        check_fail(a->fleet, "agent %u can't send: %s", a->index, err.text);
    letter_size = 0;
    buf_release(&message);
}

static void say_hello(struct agent_end *a)
{
    struct span m = { .kind = SPAN_HELLO, .v[F_HELLO_VERSION].u64 = SPAN_VERSION };

    m.v[F_HELLO_NODE].s = slice_text("h");
    m.v[F_HELLO_ADDRESSES].s = slice_text("lo=127.0.0.1");
    m.v[F_HELLO_NEXT].s = uplink_next_key(a->uplink);
    say(a, &m, 0);
}

bool agent_end_print(struct fleet *f, unsigned i, unsigned rank, uint64_t size)
{
    struct agent_end *a = &f->agent[i];
    struct span m = { .kind = SPAN_LOGS, .v[F_LOGS_OF].u64 = i };

    if (!a->uplink || (a->full && planted != PLANTED_NO_BOUND))
        return false;
    m.v[F_LOGS_FLAGS].u64 = (uint64_t)a->turn << 8 | rank;
    m.v[F_LOGS_AT].u64 = ++a->lines[rank];
    say(a, &m, size);
    turn_is_over(a);
    return true;
}

/* ---- in ---- */

static void on_message(void *arg, struct slice workers, struct slice message)
{
    struct agent_end *a = arg;
    struct err err = { "" };
    struct span m;

    (void)workers;
    if (span_decode(&m, message.p, message.n, &err) < 0)
        abort();
    if (m.kind == SPAN_REFUSE) {
        check_refused(a->fleet, a->index);
        end(a);
    } else if (m.kind == SPAN_LOGS) {
        check_letter(a->fleet, SIDE_AGENT, a->index, &m);
        a->orders = m.v[F_LOGS_AT].u64;
        if (a->fleet->carried && a->index == 0)
            a->fleet->carried(a->fleet->carried_arg, SIDE_AGENT);
    }
    span_release(&m);
}

/* uplink.c gives its kernel up: it can't be reached, or refuses, or has said what can't be. */
static void on_lost(void *arg, const char *why)
{
    struct agent_end *a = arg;

    if (strstr(why, "does not take it back")) {
        check_refused(a->fleet, a->index);
    } else if (strstr(why, "messages")) {
        check_fail(a->fleet, "agent %u, at the agent: %s", a->index, why);
    } else {
        a->fleet->counts.given_up++;
        check_lost(a->fleet, SIDE_AGENT, a->index, "an agent gave its kernel up");
    }
    end(a);
}

static void on_full(void *arg, bool full)
{
    ((struct agent_end *)arg)->full = full;
}

/* ---- the first connection ---- */

static struct agent_end *opening; /* whose session is made now */

void agent_end_session(struct session *s)
{
    if (opening)
        opening->session = s;
}

/* The kernel's endpoints. */
static void endpoints_of(const struct agent_end *a, char text[static ENDPOINTS_SIZE])
{
    char silent[SOCKETS_ENDPOINT_SIZE], kernel[SOCKETS_ENDPOINT_SIZE];

    sockets_endpoint(FLEET_SILENT, silent);
    sockets_endpoint(FLEET_KERNEL, kernel);
    (void)snprintf(text, ENDPOINTS_SIZE, "%s%s%s", a->fleet->silent ? silent : "",
                   a->fleet->silent ? "," : "", kernel);
}

/* The connection leads nowhere: the engine gives another agent. */
static void no_welcome(void *arg)
{
    struct agent_end *a = arg;

    if (uplink_is_welcome(a->uplink))
        return;
    check_unanswered(a->fleet, a->index);
    end(a);
}

static void open_uplink(struct agent_end *a, void *socket)
{
    char kernel[ENDPOINTS_SIZE];
    const struct uplink_config c = {
        .endpoint = kernel,
        .socket = socket,
        .context = turns_loop(a->index),
        .keys = &a->keys,
        .kernel = the_kernel,
        .again = kernel,
        .hello_ns = planted == PLANTED_HELLO_ONCE ? 0 : HELLO_NS,
        .handler = { .message = on_message, .lost = on_lost, .full = on_full, .arg = a }
    };
    struct err err = { "" };

    endpoints_of(a, kernel);
    opening = a;
    a->uplink = uplink_open(turns_loop(a->index), &c, &err);
    opening = NULL;
    if (!a->uplink)
        abort();
    say_hello(a);
    (void)loop_timer(turns_loop(a->index), GREET_NS, 0, no_welcome, a, &err);
}

static void dial(void *arg);

static void dialed(void *arg, const struct dial_found *found, const char *why)
{
    struct agent_end *a = arg;
    const bool refused = dial_was_refused(a->dial);
    struct err err = { "" };

    (void)why;
    dial_stop(a->dial);
    a->dial = NULL;
    if (found) {
        open_uplink(a, found->socket);
    } else if (refused) {
        check_refused(a->fleet, a->index);
        end(a);
    } else {
        (void)loop_timer(turns_loop(a->index), AGAIN_NS, 0, dial, a, &err);
    }
}

static void dial(void *arg)
{
    struct agent_end *a = arg;
    char kernel[ENDPOINTS_SIZE];
    struct dial_to to = {
        .context = turns_loop(a->index), .own = &a->keys, .server = the_kernel, .limit_ns = DIAL_NS
    };
    struct err err = { "" };

    endpoints_of(a, kernel);
    to.endpoints = slice_text(kernel);
    a->dial = dial_start(turns_loop(a->index), &to, dialed, a, &err);
}

void agent_end_start(struct fleet *f, unsigned i, const unsigned char *key)
{
    struct agent_end *a = &f->agent[i];

    *a = (struct agent_end){ .fleet = f, .index = i, .turn = a->turn + 1 };
    a->orders = f->kernel.orders;
    memcpy(a->keys.public, key, KEY_SIZE);
    dial(a);
}

/* ---- what happens to it ---- */

void agent_end_take(struct fleet *f, struct wire *w, const struct frame *frame)
{
    const unsigned i = w->agent;

    arriving_size = frames_size(frame);
    if (!sockets_take(w, frame))
        abort(); /* it has closed all others */
    turn_is_over(&f->agent[i]);
    arriving_size = 0;
}

void agent_end_take_child(struct fleet *f, struct wire *w, const struct frame *frame)
{
    const unsigned i = w->listener;

    sockets_take_child(w, frame);
    if (!f->agent[i].over)
        turn_is_over(&f->agent[i]);
}

void agent_end_tick(struct fleet *f, unsigned i)
{
    turns_tick(i);
    turn_is_over(&f->agent[i]);
}
