/* SPDX-License-Identifier: BSD-3-Clause */
/* An agent that can't get its connection back asks for another way, and gives it up when it is back
 * on its own. With real sockets. */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "base/buf.h"
#include "base/loop/loop.h"
#include "base/loop/monitor.h"
#include "tests/unit/agent/lan.h"
#include "tests/unit/agent/must.h"
#include "tests/unit/tap.h"
#include "worker/agent/net/dial.h"
#include "worker/agent/net/redial.h"
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
    const char *(*on_stuck)(void *arg, bool yes); /* NULL: stuck */
};

/* From then on its time is this much slower. */
#define SLOWER 20u
static uint64_t slow_from_ns = UINT64_MAX;

static uint64_t slower_ns(void *arg)
{
    const uint64_t now = clock_now(&clock_system);

    (void)arg;
    return now < slow_from_ns ? now : slow_from_ns + (now - slow_from_ns) / SLOWER;
}

static const struct clock slower = { .now_ns = slower_ns };

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

static void create(struct test *t, const char *endpoints, bool by_relay)
{
    struct err err = { "" };
    const struct resume_handler handler = { connected, unanswered, over, t };

    t->resume = resume_create(t->loop,
                              &(struct resume_to){
                                  .endpoints = endpoints ? endpoints : t->direct,
                                  .context = t->lan.context,
                                  .kernel = t->lan.keys.public,
                                  .own = &t->own,
                                  .stuck = { t->on_stuck ? t->on_stuck : stuck, by_relay, t } },
                              &handler, &err);
    must(t->resume != NULL, err.text);
}

/* by_relay: so it is connected at first. */
static void begin(struct test *t, const char *endpoints, bool by_relay)
{
    struct err err = { "" };

    t->resume = NULL;
    t->asked = t->thanks = t->connected = 0;
    lan_open(&t->lan);
    snprintf(t->direct, sizeof t->direct, "tcp://127.0.0.1:%u", t->lan.port);
    snprintf(t->relay, sizeof t->relay, DIAL_RELAY "%s/relay", t->lan.dir);
    must(zmq_bind(t->lan.router, t->relay) == 0, "bind");
    keys_create(&t->own);
    must((t->loop = loop_create(&slower, &err)) != NULL, err.text);
    create(t, endpoints, by_relay);
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
    const uint64_t began = clock_now(&slower);
    struct err err = { "" };
    struct watch *limit = loop_timer(t->loop, LIMIT_NS, 0, out_of_time, t->loop, &err);

    must(limit != NULL, err.text);
    resume_start(t->resume, RESUMES, true);
    must(loop_run(t->loop, &err) == 0, err.text);
    watch_stop(limit);
    return clock_now(&slower) - began;
}

static void nobody_is_asked_who_is_not_needed(void)
{
    struct test t = { 0 };

    begin(&t, NULL, false);
    t.then = CLOSED;
    (void)resumes(&t);
    ok(t.connected == 1 && !t.thanks && t.asked <= 1, "a connection that is made at once");
    end(&t);
}

static void another_way_is_asked_for(void)
{
    struct test t = { 0 };

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
    struct test t = { 0 };

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
    struct test t = { 0 };

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
    char endpoint[64];
    unsigned most;   /* sockets that waited at the same time */
    unsigned enough; /* so many, and the kernel listens there */
    uint64_t every_ns;
    struct test *test;
    struct watch *look;
};

/* Who takes connections, as many as are given, and says nothing. */
static int silent_listener(int room, struct sockaddr_in *at)
{
    socklen_t size = sizeof *at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    must(fd >= 0 && bind(fd, (struct sockaddr *)at, sizeof *at) == 0 && listen(fd, room) == 0 &&
             getsockname(fd, (struct sockaddr *)at, &size) == 0,
         "a listener");
    return fd;
}

static void full_open(struct full *f, struct test *t)
{
    struct sockaddr_in at;

    *f = (struct full){ .test = t, .enough = 2, .every_ns = 10 * NS_PER_MS };
    f->listener = silent_listener(0, &at);
    must((f->first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0 &&
             connect(f->first, (struct sockaddr *)&at, sizeof at) == 0,
         "a listener that is full");
    f->port = ntohs(at.sin_port);
    snprintf(f->endpoint, sizeof f->endpoint, "tcp://127.0.0.1:%u", f->port);
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

/* In its place the kernel listens once enough sockets wait. */
static void look(void *arg)
{
    struct full *f = arg;
    const unsigned n = waiting(f->port);

    f->most = n > f->most ? n : f->most;
    if (f->most < f->enough || f->listener < 0)
        return;
    (void)close(f->first);
    (void)close(f->listener);
    f->listener = -1;
    must(zmq_bind(f->test->lan.router, f->endpoint) == 0, "bind");
}

static void full_watch(struct full *f, const char *endpoints)
{
    struct err err = { "" };

    begin(f->test, endpoints, false);
    f->test->then = endpoints;
    must((f->look = loop_timer(f->test->loop, f->every_ns, f->every_ns, look, f, &err)) != NULL,
         err.text);
}

static void full_close(struct full *f)
{
    watch_stop(f->look);
    if (f->listener >= 0) {
        (void)close(f->first);
        (void)close(f->listener);
    }
    end(f->test);
}

static void first_packets_are_lost(void)
{
    struct full f;
    struct test t = { 0 };

    full_open(&f, &t);
    full_watch(&f, f.endpoint);
    (void)resumes(&t);
    ok(f.most >= 2, "another socket dials while TCP waits before it sends the first packet again");
    ok(f.most <= 3, "there are never many");
    is_int(t.connected, 1, "and one connection is taken");
    full_close(&f);
}

static void let_in(void *arg)
{
    ((struct full *)arg)->enough = 1;
}

static void there_are_many_agents(void)
{
    struct err err = { "" };
    struct watch *later;
    struct full f;
    struct test t = { 0 };

    full_open(&f, &t);
    f.enough = 1000;
    full_watch(&f, f.endpoint);
    resume_welcome(t.resume, 1000);
    must((later = loop_timer(t.loop, 700 * NS_PER_MS, 0, let_in, &f, &err)) != NULL, err.text);
    (void)resumes(&t);
    ok(f.most == 1 && t.connected == 1, "where there are many agents, one socket dials at a time");
    watch_stop(later);
    full_close(&f);
}

static void one_endpoint_takes_connections_and_says_nothing(void)
{
    struct sockaddr_in at;
    const int silent = silent_listener(100, &at);
    char endpoints[160];
    struct full f;
    struct test t = { 0 };

    full_open(&f, &t);
    snprintf(endpoints, sizeof endpoints, "tcp://127.0.0.1:%u,%s", ntohs(at.sin_port), f.endpoint);
    full_watch(&f, endpoints);
    (void)resumes(&t);
    ok(f.most >= 2 && t.connected == 1, "sockets dial beside each other at the others");
    full_close(&f);
    (void)close(silent);
}

static unsigned descriptors(void)
{
    DIR *const all = opendir("/proc/self/fd");
    unsigned n = 0;

    while (all && readdir(all))
        n++;
    if (all)
        (void)closedir(all);
    return n;
}

struct many {
    unsigned most;
};

static void look_at_descriptors(void *arg)
{
    struct many *m = arg;
    const unsigned n = descriptors();

    m->most = n > m->most ? n : m->most;
}

/* All but the last are the one whose listener is full. */
static void there_are_many_endpoints(void)
{
    struct buf all = BUF_INIT;
    struct err err = { "" };
    struct many many = { 0 };
    struct watch *looks;
    struct full f;
    struct test t = { 0 };
    unsigned before;

    full_open(&f, &t);
    f.enough = 1000;
    f.every_ns = NS_PER_S; /* that takes its time */
    for (unsigned i = 0; i + 1 < DIAL_MAX; i++)
        must(buf_addf(&all, "%s,", f.endpoint) == 0, "memory");
    full_watch(&f, all.p);
    must(buf_addf(&all, "%s", t.direct) == 0, "memory");
    resume_destroy(t.resume);
    create(&t, all.p, false);
    t.then = all.p;
    before = descriptors();
    must((looks = loop_timer(t.loop, NS_PER_S, NS_PER_S, look_at_descriptors, &many, &err)) != NULL,
         err.text);
    (void)resumes(&t);
    ok(t.connected == 1, "the last of %u endpoints is tried, too", DIAL_MAX);
    ok(f.most > 8 && f.most <= 32, "by some sockets at the same time (%u)", f.most);
    ok(many.most < before + 200, "which need a limited number of descriptors (%u)",
       many.most - before);
    watch_stop(looks);
    full_close(&f);
    buf_release(&all);
}

/* ---- a relay that is offered while sockets wait ---- */

/* Time goes slower for the agent from then on: by its clock, the attempt lasts for another second.
 */
static const char *stuck_and_slow(void *arg, bool yes)
{
    slow_from_ns = clock_now(&clock_system);
    return stuck(arg, yes);
}

static void a_relay_comes_while_sockets_wait(void)
{
    struct full f;
    struct test t = { 0 };

    full_open(&f, &t);
    f.enough = 1000;
    f.every_ns = NS_PER_S;
    t.on_stuck = stuck_and_slow;
    full_watch(&f, f.endpoint);
    t.then = t.relay;
    ok(resumes(&t) < REDIAL_LIMIT_NS && t.asked == 1 && t.connected == 1,
       "it is dialed when it is offered, not when the attempt is over");
    slow_from_ns = UINT64_MAX;
    full_close(&f);
}

/* ---- handshakes ---- */

static unsigned handshakes(void *monitor)
{
    unsigned n = 0;
    char event[6];

    while (zmq_recv(monitor, event, sizeof event, ZMQ_DONTWAIT) > 0) {
        loop_zmq_skip(monitor);
        n++;
    }
    return n;
}

/* The kernel has two addresses, and the network is back for both at the same time. Where this
 * thread is late, ZeroMQ may have made a handshake at both before it reads of the first one. */
static void one_handshake_is_made(void)
{
    char endpoints[160];
    struct err err = { "" };
    struct full f;
    struct test t = { 0 };
    void *monitor;
    unsigned n;

    full_open(&f, &t);
    f.enough = 4;
    snprintf(endpoints, sizeof endpoints, "%s,%s", f.endpoint, f.endpoint);
    full_watch(&f, endpoints);
    monitor = monitor_open(t.lan.context, t.lan.router, ZMQ_EVENT_HANDSHAKE_SUCCEEDED, &err);
    must(monitor != NULL, err.text);
    (void)resumes(&t);
    resume_destroy(t.resume); /* what has begun may end */
    t.resume = NULL;
    (void)poll(NULL, 0, 300);
    n = handshakes(monitor);
    ok(n == 1 || n == 2, "of all sockets at an endpoint, one makes a handshake (%u)", n);
    (void)zmq_socket_monitor(t.lan.router, NULL, 0);
    zmq_close(monitor);
    full_close(&f);
}

int main(void)
{
    first_packets_are_lost();
    there_are_many_agents();
    one_endpoint_takes_connections_and_says_nothing();
    there_are_many_endpoints();
    a_relay_comes_while_sockets_wait();
    one_handshake_is_made();
    nobody_is_asked_who_is_not_needed();
    another_way_is_asked_for();
    a_relay_stays();
    who_began_by_a_relay_leaves_it();
    return plan_done();
}
