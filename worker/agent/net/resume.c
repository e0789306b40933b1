/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/resume.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include <zmq.h>

#include "base/log.h"
#include "protocol/route.h"
#include "protocol/span.h"
#include "protocol/span_fields.h"
#include "worker/agent/net/dial.h"
#include "worker/agent/net/redial.h"

/* In a larger engine, sockets that dial beside others would keep the kernel's machine busy. */
#define FEW_AGENTS 64u

struct resume {
    struct loop *loop;
    void *context;
    char *endpoints;
    unsigned char kernel[KEY_SIZE];
    struct resume_handler handler;
    struct keys held; /* the kernel may hold this one, if the last answer was lost */
    struct keys next; /* was named last, or will be */
    struct redial redial;
    uint64_t slept_ns;    /* that redial knows of */
    enum redial_key with; /* the key of this attempt */
    struct dial *dial;
    struct watch *timer;        /* for the next attempt, or for the answer */
    bool answer_due, hello_due; /* to RESUME; to the first HELLO */
    uint64_t hello_ns;
    bool many; /* agents, which all dial when their network is back */
    struct resume_stuck on_stuck;
    struct watch *stuck_timer; /* before it is called */
    bool stuck;
    bool relayed;     /* the last connection was */
    struct buf hello; /* not answered yet; empty: it was */
};

static uint64_t now_of(const struct resume *r)
{
    return clock_now(loop_clock(r->loop));
}

static void stop_dial(struct resume *r)
{
    dial_stop(r->dial);
    r->dial = NULL;
}

static void wait_until(struct resume *r, uint64_t at_ns)
{
    const uint64_t now = now_of(r);

    loop_timer_again(r->timer, at_ns > now ? at_ns - now : 0);
}

static void attempt_later(struct resume *r)
{
    r->answer_due = false;
    wait_until(r, redial_due_ns(&r->redial));
}

/* The kernel has let in the key `next`, so that is the one it held, and the agent names another. */
static void take_next(struct resume *r)
{
    r->held = r->next;
    keys_create(&r->next);
}

static void dialed(void *arg, const struct dial_found *found, const char *why)
{
    struct resume *r = arg;
    const bool refused = !found && dial_was_refused(r->dial);
    const bool slow = !found && dial_was_slow(r->dial);
    void *const socket = found ? found->socket : NULL;

    stop_dial(r);
    if (!socket) {
        log_debug("uplink", "not resumed yet: %s", why);
        if (refused)
            redial_refused(&r->redial, now_of(r));
        else if (slow)
            redial_was_slow(&r->redial);
        attempt_later(r);
        return;
    }
    r->relayed = text_begins(found->endpoint, DIAL_RELAY);
    if (r->with == REDIAL_NEWEST)
        take_next(r);
    redial_admitted(&r->redial, now_of(r));
    r->answer_due = true;
    wait_until(r, r->redial.limit_ns);
    r->handler.connected(r->handler.arg, socket);
}

static void attempt(struct resume *r)
{
    struct dial_to to = { .endpoints = slice_text(r->endpoints),
                          .context = r->context,
                          .server = r->kernel,
                          .names = true,
                          .once = true };
    struct err err = { "" };

    r->with = redial_attempt(&r->redial, now_of(r), randombytes_random());
    to.limit_ns = redial_limit_ns(&r->redial);
    to.own = r->with == REDIAL_NEWEST ? &r->next : &r->held;
    if ((r->dial = dial_start(r->loop, &to, dialed, r, &err))) {
        if (r->redial.out)
            wait_until(r, r->redial.beside_ns);
        return;
    }
    log_warn("uplink", "%s", err.text);
    attempt_later(r);
}

/* What waits may wait for TCP's next try, though the network is back. */
static void beside(struct resume *r, uint64_t now)
{
    if (redial_beside(&r->redial, now, randombytes_random()))
        dial_beside(r->dial);
    wait_until(r, r->redial.beside_ns);
}

static void timer(void *arg)
{
    struct resume *r = arg;
    const uint64_t now = now_of(r);

    redial_slept(&r->redial, clock_slept_since(loop_clock(r->loop), &r->slept_ns));
    if (r->hello_due) {
        r->handler.unanswered(r->handler.arg);
    } else if (r->dial) {
        beside(r, now);
    } else if (r->answer_due && !redial_has_failed(&r->redial, now)) {
        wait_until(r, r->redial.limit_ns);
    } else if (r->answer_due) {
        redial_was_slow(&r->redial);
        r->handler.unanswered(r->handler.arg);
        attempt_later(r);
    } else if (redial_is_over(&r->redial, now)) {
        r->handler.over(r->handler.arg, redial_was_refused(&r->redial));
    } else if (redial_is_due(&r->redial, now)) {
        attempt(r);
    } else {
        attempt_later(r);
    }
}

static void set_stuck(struct resume *r, bool yes)
{
    const char *const endpoints = r->on_stuck.f ? r->on_stuck.f(r->on_stuck.arg, yes) : NULL;
    char *const copy = endpoints ? strdup(endpoints) : NULL;

    r->stuck = yes;
    if (endpoints && !copy)
        log_error("uplink", "out of memory: the kernel is dialed as before");
    if (copy) {
        free(r->endpoints);
        r->endpoints = copy;
    }
    if (yes && r->dial)
        dial_more(r->dial, slice_text(r->endpoints));
}

static void stuck_timer_over(void *arg)
{
    set_stuck(arg, true);
}

struct resume *resume_create(struct loop *loop, const struct resume_to *to,
                             const struct resume_handler *handler, struct err *err)
{
    struct resume *r = calloc(1, sizeof *r);

    if (!r)
        return err_null(err, "out of memory");
    r->loop = loop;
    r->context = to->context;
    r->hello_ns = to->hello_ns;
    r->on_stuck = to->stuck;
    r->stuck = r->relayed = to->stuck.asked;
    r->handler = *handler;
    memcpy(r->kernel, to->kernel, KEY_SIZE);
    r->held = *to->own;
    keys_create(&r->next);
    if (!(r->endpoints = strdup(to->endpoints)))
        (void)err_set(err, "out of memory");
    else if ((r->timer = loop_timer(loop, LOOP_OFF, 0, timer, r, err)) &&
             (r->stuck_timer = loop_timer(loop, LOOP_OFF, 0, stuck_timer_over, r, err)))
        return r;
    resume_destroy(r);
    return NULL;
}

void resume_destroy(struct resume *r)
{
    if (!r)
        return;
    stop_dial(r);
    watch_stop(r->timer);
    watch_stop(r->stuck_timer);
    keys_wipe(&r->held);
    keys_wipe(&r->next);
    buf_release(&r->hello);
    free(r->endpoints);
    free(r);
}

const unsigned char *resume_next(const struct resume *r)
{
    return r->next.public;
}

int resume_hello(struct resume *r, struct slice hello, struct err *err)
{
    redial_hello(&r->redial);
    if ((r->hello_due = r->hello_ns > 0))
        loop_timer_again(r->timer, r->hello_ns);
    return buf_add_slice(&r->hello, hello) == 0 ? 0 : err_set(err, "out of memory");
}

/* HELLO with another key than before. */
static int encode_hello(const struct resume *r, struct buf *msg, struct err *err)
{
    struct span m;
    int rc;

    if (span_decode(&m, r->hello.p, r->hello.n, err) < 0)
        return -1;
    m.v[F_HELLO_NEXT].s = slice_of(r->next.public, KEY_SIZE);
    rc = span_encode(&m, msg, err);
    span_release(&m);
    return rc;
}

static int encode_resume(const struct resume *r, uint32_t node, uint64_t received, struct buf *msg,
                         struct err *err)
{
    struct span m = { .kind = SPAN_RESUME,
                      .v[F_RESUME_VERSION].u64 = SPAN_VERSION,
                      .v[F_RESUME_NUMBER].u64 = node,
                      .v[F_RESUME_RECEIVED].u64 = received };

    m.v[F_RESUME_NEXT].s = slice_of(r->next.public, KEY_SIZE);
    return span_encode(&m, msg, err);
}

int resume_say(const struct resume *r, void *socket, uint32_t node, uint64_t received,
               struct err *err)
{
    struct buf msg = BUF_INIT, bundle = BUF_INIT;
    int rc = r->hello.n ? encode_hello(r, &msg, err) : encode_resume(r, node, received, &msg, err);

    if (rc == 0 && bundle_add(&bundle, ROUTE_KERNEL, SPAN_WORKER_NONE, buf_slice(&msg)) < 0)
        rc = err_set(err, "out of memory");
    if (rc == 0 && zmq_send(socket, bundle.p, bundle.n, ZMQ_DONTWAIT) < 0)
        rc = err_set(err, "%s", zmq_strerror(zmq_errno()));
    buf_release(&msg);
    buf_release(&bundle);
    return rc;
}

void resume_start(struct resume *r, uint64_t resume_ns, bool out)
{
    redial_begin(&r->redial, now_of(r), resume_ns, out && !r->many);
    r->slept_ns = clock_slept(loop_clock(r->loop));
    r->answer_due = r->hello_due = false;
    loop_timer_again(r->timer, 0);
    loop_timer_again(r->stuck_timer, RESUME_STUCK_NS);
}

void resume_again(struct resume *r)
{
    attempt_later(r);
}

/* The kernel holds `next` now, and no other. */
void resume_done(struct resume *r)
{
    r->answer_due = r->hello_due = false;
    loop_timer_again(r->timer, LOOP_OFF);
    loop_timer_off(r->stuck_timer);
    if (r->stuck && !r->relayed)
        set_stuck(r, false);
    redial_resumed(&r->redial);
    buf_clear(&r->hello);
    keys_wipe(&r->held);
}

void resume_welcome(struct resume *r, uint64_t agents)
{
    r->many = agents > FEW_AGENTS;
    resume_done(r);
}
