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

#define OFTEN_NS   (10 * NS_PER_S)   /* so long attempts follow one another quickly */
#define QUICK_NS   (200 * NS_PER_MS) /* from one to the next */
#define SLOW_NS    NS_PER_S
#define ATTEMPT_NS (3 * NS_PER_S) /* limit for a handshake */
#define ANSWER_NS  (3 * NS_PER_S) /* limit for the answer to RESUME */
/* Of the newest key, before the kernel reads a RESUME that is on its way; of the one before, after
 * that; then of the newest again: the kernel has given up this agent. */
#define REFUSALS    3u
#define JITTER_PART 4u /* an interval is longer by up to this part */

struct resume {
    struct loop *loop;
    void *context;
    char *endpoints;
    unsigned char kernel[KEY_SIZE];
    struct resume_handler handler;
    struct keys held; /* the kernel may hold this one, if the last answer was lost */
    struct keys next; /* was named last, or will be */
    bool has_held;
    bool tries_held;   /* in this attempt */
    unsigned refusals; /* one after the other */
    struct dial *dial;
    struct watch *timer; /* for the next attempt, or for the answer */
    bool answer_due;
    uint64_t began_ns, tried_ns;
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

static uint64_t interval(const struct resume *r)
{
    const uint64_t ns = now_of(r) - r->began_ns < OFTEN_NS ? QUICK_NS : SLOW_NS;

    return ns + randombytes_uniform((uint32_t)(ns / JITTER_PART));
}

static void attempt_later(struct resume *r)
{
    const uint64_t passed = now_of(r) - r->tried_ns, wait = interval(r);

    r->answer_due = false;
    r->tries_held = false;
    loop_timer_again(r->timer, passed < wait ? wait - passed : 0);
}

/* The kernel has let in the key `next`, so that is the one it held, and the agent names another. */
static void take_next(struct resume *r)
{
    r->held = r->next;
    r->has_held = true;
    keys_create(&r->next);
}

static void attempt(struct resume *r);

static void missed(struct resume *r, bool refused)
{
    r->refusals = refused ? r->refusals + 1 : 0;
    if (!refused) {
        attempt_later(r);
    } else if (r->has_held && r->refusals < REFUSALS) {
        r->tries_held = !r->tries_held;
        attempt(r);
    } else {
        r->handler.refused(r->handler.arg);
    }
}

static void dialed(void *arg, const struct dial_found *found, const char *why)
{
    struct resume *r = arg;
    const bool refused = !found && dial_was_refused(r->dial);
    void *const socket = found ? found->socket : NULL;

    stop_dial(r);
    if (!socket) {
        log_debug("uplink", "not resumed yet: %s", why);
        missed(r, refused);
        return;
    }
    if (!r->tries_held)
        take_next(r);
    r->tries_held = false;
    r->refusals = 0;
    r->answer_due = true;
    loop_timer_again(r->timer, ANSWER_NS);
    r->handler.connected(r->handler.arg, socket);
}

static void attempt(struct resume *r)
{
    const struct dial_to to = { .endpoints = slice_text(r->endpoints),
                                .context = r->context,
                                .own = r->tries_held ? &r->held : &r->next,
                                .server = r->kernel,
                                .limit_ns = ATTEMPT_NS,
                                .names = true,
                                .once = true };
    struct err err = { "" };

    r->tried_ns = now_of(r);
    if ((r->dial = dial_start(r->loop, &to, dialed, r, &err)))
        return;
    log_warn("uplink", "%s", err.text);
    attempt_later(r);
}

static void timer(void *arg)
{
    struct resume *r = arg;

    if (!r->answer_due) {
        attempt(r);
        return;
    }
    r->handler.unanswered(r->handler.arg);
    attempt_later(r);
}

struct resume *resume_create(struct loop *loop, const struct resume_to *to,
                             const struct resume_handler *handler, struct err *err)
{
    struct resume *r = calloc(1, sizeof *r);

    if (!r)
        return err_null(err, "out of memory");
    r->loop = loop;
    r->context = to->context;
    r->handler = *handler;
    memcpy(r->kernel, to->kernel, KEY_SIZE);
    keys_create(&r->next);
    if (!(r->endpoints = strdup(to->endpoints)))
        (void)err_set(err, "out of memory");
    else if ((r->timer = loop_timer(loop, LOOP_OFF, 0, timer, r, err)))
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
    keys_wipe(&r->held);
    keys_wipe(&r->next);
    free(r->endpoints);
    free(r);
}

const unsigned char *resume_next(const struct resume *r)
{
    return r->next.public;
}

int resume_say(const struct resume *r, void *socket, uint32_t node, uint64_t received,
               struct err *err)
{
    struct span m = { .kind = SPAN_RESUME,
                      .v[F_RESUME_VERSION].u64 = SPAN_VERSION,
                      .v[F_RESUME_NUMBER].u64 = node,
                      .v[F_RESUME_RECEIVED].u64 = received };
    struct buf msg = BUF_INIT, bundle = BUF_INIT;
    int rc;

    m.v[F_RESUME_NEXT].s = slice_of(r->next.public, KEY_SIZE);
    rc = span_encode(&m, &msg, err);
    if (rc == 0 && bundle_add(&bundle, ROUTE_KERNEL, SPAN_WORKER_NONE, buf_slice(&msg)) < 0)
        rc = err_set(err, "out of memory");
    if (rc == 0 && zmq_send(socket, bundle.p, bundle.n, ZMQ_DONTWAIT) < 0)
        rc = err_set(err, "%s", zmq_strerror(zmq_errno()));
    buf_release(&msg);
    buf_release(&bundle);
    return rc;
}

void resume_start(struct resume *r)
{
    r->began_ns = now_of(r);
    r->answer_due = r->tries_held = false;
    r->refusals = 0;
    loop_timer_again(r->timer, 0);
}

void resume_again(struct resume *r)
{
    attempt_later(r);
}

/* The kernel holds `next` now, and no other. */
void resume_done(struct resume *r)
{
    r->answer_due = false;
    loop_timer_again(r->timer, LOOP_OFF);
    keys_wipe(&r->held);
    r->has_held = false;
}
