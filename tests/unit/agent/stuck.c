/* SPDX-License-Identifier: BSD-3-Clause */
/* An agent that can't get its connection back asks for another way, and gives it up when it is back
 * on its own. With real sockets. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
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
    resume_start(t->resume, RESUMES, true);
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

/* ---- a network that drops the first packets of connections ---- */

/* A listener that is full drops them, and says nothing. */
struct full {
    int listener, first;
    unsigned port;
    unsigned most; /* sockets that waited at the same time */
    struct test *test;
    struct watch *look;
};

static void full_open(struct full *f, struct test *t)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;

    *f = (struct full){ .test = t };
    must((f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0 &&
             bind(f->listener, (struct sockaddr *)&at, sizeof at) == 0 &&
             listen(f->listener, 0) == 0 &&
             getsockname(f->listener, (struct sockaddr *)&at, &size) == 0 &&
             (f->first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0 &&
             connect(f->first, (struct sockaddr *)&at, sizeof at) == 0,
         "a listener that is full");
    f->port = ntohs(at.sin_port);
}

/* Sockets of this machine that have sent the first packet to that port, and got no answer. */
static unsigned waiting_in(const char *table, unsigned port)
{
    FILE *const file = fopen(table, "re");
    unsigned to, state, n = 0;
    char line[512];

    while (file && fgets(line, sizeof line, file))
        n += sscanf(line, " %*u: %*[^:]:%*x %*[^:]:%x %x", &to, &state) == 2 && to == port &&
             state == TCP_SYN_SENT;
    if (file)
        (void)fclose(file);
    return n;
}

static unsigned waiting(unsigned port)
{
    return waiting_in("/proc/net/tcp", port) + waiting_in("/proc/net/tcp6", port);
}

/* In its place the kernel listens once a second socket waits. */
static void look(void *arg)
{
    struct full *f = arg;
    const unsigned n = waiting(f->port);
    char endpoint[64];

    f->most = n > f->most ? n : f->most;
    if (f->most < 2 || f->listener < 0)
        return;
    (void)close(f->first);
    (void)close(f->listener);
    f->listener = -1;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", f->port);
    must(zmq_bind(f->test->lan.router, endpoint) == 0, "bind");
}

static void first_packets_are_lost(void)
{
    char endpoint[64];
    struct err err = { "" };
    struct full f;
    struct test t;

    full_open(&f, &t);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", f.port);
    begin(&t, endpoint, false);
    t.then = endpoint;
    must((f.look = loop_timer(t.loop, 0, 10 * NS_PER_MS, look, &f, &err)) != NULL, err.text);
    (void)resumes(&t);
    ok(f.most >= 2, "another socket dials while TCP waits before it sends the first packet again");
    ok(f.most <= 3, "there are never many");
    is_int(t.connected, 1, "and one connection is taken");
    watch_stop(f.look);
    end(&t);
}

int main(void)
{
    first_packets_are_lost();
    nobody_is_asked_who_is_not_needed();
    another_way_is_asked_for();
    a_relay_stays();
    who_began_by_a_relay_leaves_it();
    return plan_done();
}
