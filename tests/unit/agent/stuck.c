/* SPDX-License-Identifier: BSD-3-Clause */
/* An agent that can't get its connection back asks for another way, and gives it up when it is back
 * on its own. With real sockets. */
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/loop/loop.h"
#include "tests/unit/agent/lan.h"
#include "tests/unit/agent/must.h"
#include "tests/unit/tap.h"
#include "worker/agent/net/dial.h"
#include "worker/agent/net/resume.h"

#define CLOSED   "tcp://127.0.0.1:1" /* CLOSED_PORT */
#define RESUMES  (600 * NS_PER_S)
#define LIMIT_NS (60 * NS_PER_S)

struct test {
    struct lan lan; /* the kernel */
    char direct[64], relay[128];
    struct loop *loop;
    struct resume *resume;
    struct keys own;
    const char *then;       /* what is dialed when it is asked for */
    unsigned asked, thanks; /* for another way; it is not needed any more */
    unsigned connected;
};

static const char *stuck(void *arg, bool yes)
{
    struct test *t = arg;

    *(yes ? &t->asked : &t->thanks) += 1;
    return yes ? t->then : CLOSED;
}

static void connected(void *arg, void *socket)
{
    struct test *t = arg;

    zmq_close(socket);
    t->connected++;
    resume_done(t->resume);
    loop_stop(t->loop);
}

static void unanswered(void *arg)
{
    (void)arg;
}

static void over(void *arg, bool refused)
{
    struct test *t = arg;

    ok(false, "it gives up%s", refused ? ": it was refused" : "");
    loop_stop(t->loop);
}

/* by_relay: so it is connected at first. */
static void begin(struct test *t, const char *endpoints, bool by_relay)
{
    struct err err = { "" };
    const struct resume_handler handler = { connected, unanswered, over, t };

    memset(t, 0, sizeof *t);
    lan_open(&t->lan);
    snprintf(t->direct, sizeof t->direct, "tcp://127.0.0.1:%u", t->lan.port);
    snprintf(t->relay, sizeof t->relay, DIAL_RELAY "%s/relay", t->lan.dir);
    must(zmq_bind(t->lan.router, t->relay) == 0, "bind");
    keys_create(&t->own);
    must((t->loop = loop_create(&clock_system, &err)) != NULL, err.text);
    t->resume = resume_create(t->loop,
                              &(struct resume_to){ .endpoints = endpoints ? endpoints : t->direct,
                                                   .context = t->lan.context,
                                                   .kernel = t->lan.keys.public,
                                                   .own = &t->own,
                                                   .stuck = { stuck, by_relay, t } },
                              &handler, &err);
    must(t->resume != NULL, err.text);
}

static void end(struct test *t)
{
    resume_destroy(t->resume);
    loop_destroy(t->loop);
    lan_close(&t->lan);
}

static void out_of_time(void *arg)
{
    ok(false, "it takes too long");
    loop_stop(arg);
}

/* The connection ends, and another one is made. How long that took. */
static uint64_t resumes(struct test *t)
{
    const uint64_t began = clock_now(&clock_system);
    struct err err = { "" };
    struct watch *limit = loop_timer(t->loop, LIMIT_NS, 0, out_of_time, t->loop, &err);

    must(limit != NULL, err.text);
    resume_start(t->resume, RESUMES);
    must(loop_run(t->loop, &err) == 0, err.text);
    watch_stop(limit);
    return clock_now(&clock_system) - began;
}

static void nobody_is_asked_who_is_not_needed(void)
{
    struct test t;

    begin(&t, NULL, false);
    t.then = CLOSED;
    (void)resumes(&t);
    ok(t.connected == 1 && !t.thanks && t.asked <= 1, "a connection that is made at once");
    end(&t);
}

static void another_way_is_asked_for(void)
{
    struct test t;

    begin(&t, CLOSED, false);
    t.then = t.direct;
    ok(resumes(&t) >= RESUME_STUCK_NS && t.asked == 1, "after a while another way is asked for");
    ok(t.connected == 1, "and taken");
    is_int(t.thanks, 1, "who is back without a relay says so");
    ok(resumes(&t) >= RESUME_STUCK_NS && t.asked == 2 && t.connected == 2,
       "and dials as before the next time, until it is stuck again");
    end(&t);
}

static void a_relay_stays(void)
{
    struct test t;

    begin(&t, CLOSED, false);
    t.then = t.relay;
    (void)resumes(&t);
    ok(t.asked == 1 && t.connected == 1, "a relay is asked for, and dialed");
    is_int(t.thanks, 0, "who is back by way of it needs it still");
    (void)resumes(&t);
    is_int(t.connected, 2, "and finds it the next time");
    is_int(t.thanks, 0, "still");
    end(&t);
}

static void who_began_by_a_relay_leaves_it(void)
{
    struct test t;

    begin(&t, NULL, true);
    t.then = CLOSED;
    resume_done(t.resume);
    is_int(t.thanks, 0, "who is welcome by way of a relay needs it");
    (void)resumes(&t);
    ok(t.connected == 1 && t.thanks == 1, "but not once it is connected without, however soon");
    end(&t);
}

int main(void)
{
    nobody_is_asked_who_is_not_needed();
    another_way_is_asked_for();
    a_relay_stays();
    who_began_by_a_relay_leaves_it();
    return plan_done();
}
