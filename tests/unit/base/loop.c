/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/loop/loop.h. */
#include "base/loop/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <zmq.h>

#include "base/process.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

/* What happened, letter by letter. */
struct diary {
    char text[64];
    struct loop *loop;
    struct watch *watch[4];
    uint64_t now_ns;
    unsigned calls, stop_at;
    unsigned events;
    void *socket;
};

static void note(struct diary *d, char letter)
{
    const size_t n = strlen(d->text);

    if (n + 1 < sizeof d->text)
        d->text[n] = letter;
}

static uint64_t set_now(void *arg)
{
    return ((struct diary *)arg)->now_ns;
}

static void stop(void *loop)
{
    loop_stop(loop);
}

/* Runs until `after_ns` have passed at the latest. */
static void run_for(struct loop *loop, uint64_t after_ns)
{
    struct watch *w = loop_timer(loop, after_ns, 0, stop, loop, NULL);
    struct err err = { "" };

    if (!w || loop_run(loop, &err) < 0)
        ok(false, "the loop runs: %s", err.text);
    watch_stop(w);
}

static void run_turn(struct loop *loop)
{
    if (loop_later(loop, stop, loop) < 0 || loop_run(loop, NULL) < 0)
        ok(false, "the loop turns");
}

/* ---- timers, with a clock that the test sets ---- */

static void timer_a(void *arg)
{
    note(arg, 'a');
}

static void timer_b(void *arg)
{
    note(arg, 'b');
}

static void timer_again(void *arg)
{
    struct diary *d = arg;

    note(d, '!');
    loop_timer_again(d->watch[0], 0);
}

static void timers_fire_in_order(void)
{
    struct diary d = { .now_ns = 1000 };
    const struct clock clock = { .now_ns = set_now, .arg = &d };
    struct loop *loop = loop_create(&clock, NULL);
    struct watch *a = loop_timer(loop, 20, 0, timer_a, &d, NULL);
    struct watch *b = loop_timer(loop, 10, 0, timer_b, &d, NULL);

    ok(loop_clock(loop) == &clock, "the loop has the clock that it was given");
    run_turn(loop);
    is_text(d.text, "", "nothing fires before its time");
    d.now_ns += 20;
    run_turn(loop);
    is_text(d.text, "ba", "the earliest goes first, whatever the order in which they were made");
    run_turn(loop);
    is_text(d.text, "ba", "each fires once");
    loop_timer_again(a, 5);
    loop_timer_again(b, 5);
    loop_timer_off(b);
    d.now_ns += 5;
    run_turn(loop);
    is_text(d.text, "baa", "a timer can be set anew, and be put off");
    watch_stop(a);
    watch_stop(a);
    watch_stop(NULL);
    loop_destroy(loop);
    loop_destroy(NULL);
}

static void a_period_is_kept_and_skips_what_it_missed(void)
{
    struct diary d = { .now_ns = 0 };
    const struct clock clock = { .now_ns = set_now, .arg = &d };
    struct loop *loop = loop_create(&clock, NULL);

    d.watch[0] = loop_timer(loop, 10, 10, timer_a, &d, NULL);
    for (unsigned i = 0; i < 3; i++) {
        d.now_ns += 10;
        run_turn(loop);
    }
    is_text(d.text, "aaa", "a period fires each time");
    d.now_ns += 1000;
    run_turn(loop);
    run_turn(loop);
    is_text(d.text, "aaaa", "after a long sleep it fires once, not a hundred times");
    d.now_ns += 10;
    run_turn(loop);
    is_text(d.text, "aaaaa", "and goes on");
    loop_destroy(loop);
}

static void a_timer_set_to_now_does_not_hold_the_turn(void)
{
    struct diary d = { .now_ns = 0 };
    const struct clock clock = { .now_ns = set_now, .arg = &d };
    struct loop *loop = loop_create(&clock, NULL);

    d.watch[0] = loop_timer(loop, 0, 0, timer_again, &d, NULL);
    run_turn(loop);
    run_turn(loop);
    is_text(d.text, "!!", "it fires once a turn");
    loop_timer_again(d.watch[0], UINT64_MAX);
    d.now_ns = UINT64_MAX / 2;
    run_turn(loop);
    is_text(d.text, "!!", "a time that would wrap is never");
    loop_destroy(loop);
}

/* ---- descriptors ---- */

static void fd_seen(void *arg, int fd, unsigned events)
{
    struct diary *d = arg;

    (void)fd;
    note(d, events & LOOP_HANGUP ? 'h' : events & LOOP_READ ? 'r' : 'w');
    d->events = events;
    if (++d->calls == d->stop_at)
        loop_stop(d->loop);
}

static void a_descriptor_is_served_as_long_as_it_is_ready(void)
{
    struct loop *loop = loop_create(&clock_system, NULL);
    struct diary d = { .stop_at = 3, .loop = loop };
    struct watch *w;
    int fd[2];

    if (fd_pipe(fd) < 0 || write(fd[1], "x", 1) != 1)
        return;
    w = loop_fd(loop, fd[0], LOOP_READ, fd_seen, &d, NULL);
    run_for(loop, 60 * NS_PER_S);
    is_text(d.text, "rrr", "bytes that nobody reads are told again and again");
    loop_fd_events(w, 0);
    d.text[0] = d.text[1] = d.text[2] = '\0';
    run_for(loop, 10 * NS_PER_MS);
    is_text(d.text, "", "not while the watch is paused");
    fd_close(&fd[1]);
    run_for(loop, 10 * NS_PER_MS);
    is_text(d.text, "h", "the hang-up is, once");
    is_int(d.events, LOOP_HANGUP, "alone");
    d.stop_at = d.calls + 1;
    loop_fd_events(w, LOOP_READ);
    run_for(loop, 60 * NS_PER_S);
    is_int(d.events, LOOP_HANGUP | LOOP_READ,
           "reading again tells both, so that what is left gets read");
    watch_stop(w);
    loop_destroy(loop);
    fd_close(&fd[0]);
}

static void writing_is_served_too(void)
{
    struct loop *loop = loop_create(&clock_system, NULL);
    struct diary d = { .stop_at = 1, .loop = loop };
    int fd[2];

    if (fd_pipe(fd) < 0)
        return;
    d.watch[0] = loop_fd(loop, fd[1], LOOP_WRITE, fd_seen, &d, NULL);
    run_for(loop, 60 * NS_PER_S);
    is_text(d.text, "w", "room to write is told");
    fd_close(&fd[0]);
    d.stop_at = 2;
    run_for(loop, 60 * NS_PER_S);
    is_int(d.events, LOOP_WRITE | LOOP_HANGUP, "a reader that is gone is a hang-up");
    loop_destroy(loop);
    fd_close(&fd[1]);
}

/* The first callback stops the second one's watch and its own, and makes a new one. */
static void stops_all(void *arg, int fd, unsigned events)
{
    struct diary *d = arg;

    (void)events;
    note(d, 's');
    watch_stop(d->watch[0]);
    watch_stop(d->watch[1]);
    for (unsigned i = 0; i < 50; i++) /* the arrays move meanwhile */
        d->watch[2] = loop_fd(d->loop, fd, LOOP_READ, fd_seen, d, NULL);
}

static void watches_may_be_stopped_from_callbacks(void)
{
    struct loop *loop = loop_create(&clock_system, NULL);
    struct diary d = { .stop_at = 1000, .loop = loop };
    int fd[2];

    if (fd_pipe(fd) < 0 || write(fd[1], "x", 1) != 1)
        return;
    d.watch[0] = loop_fd(loop, fd[0], LOOP_READ, stops_all, &d, NULL);
    d.watch[1] = loop_fd(loop, fd[0], LOOP_READ, fd_seen, &d, NULL);
    run_turn(loop);
    is_text(
        d.text, "s",
        "a watch that was stopped in this turn is silent, one that was made waits for the next");
    run_turn(loop);
    is_int(d.calls, 50, "then they are served");
    loop_destroy(loop);
    fd_close(&fd[0]);
    fd_close(&fd[1]);
}

/* ---- what is put off ---- */

static void later_again(void *arg)
{
    struct diary *d = arg;

    note(d, 'l');
    if (++d->calls < 3 && loop_later(d->loop, later_again, d) < 0)
        note(d, '?');
}

static void later_comes_after_the_turn(void)
{
    struct loop *loop = loop_create(&clock_system, NULL);
    struct diary d = { .loop = loop };

    ok(loop_later(loop, later_again, &d) == 0, "something can be put off");
    run_turn(loop);
    is_text(d.text, "l", "what it puts off itself waits for the next turn");
    loop_destroy(loop);
    is_text(d.text, "lll", "the end of the loop runs all that is left: they free things");
}

static void freed_after_the_turn(void)
{
    struct loop *loop = loop_create(&clock_system, NULL);
    char *now = malloc(1), *never = malloc(1);

    loop_free(loop, now);
    *now = 'x';
    ok(*now == 'x', "what is freed later is there until the turn is over");
    run_turn(loop);
    alloc_fail_at(0);
    loop_free(loop, never);
    alloc_fail_at(-1);
    *never = 'x';
    ok(*never == 'x', "and stays without memory to note it");
    free(never);
    loop_destroy(loop);
}

/* ---- signals ---- */

static void signal_seen(void *arg)
{
    note(arg, 'g');
    loop_stop(((struct diary *)arg)->loop);
}

static void signals_are_served_in_the_loop(void)
{
    struct err err = { "" };
    struct loop *loop = loop_create(&clock_system, NULL);
    struct diary d = { .loop = loop };
    struct sigaction now;

    (void)signal(SIGUSR1, SIG_IGN);
    d.watch[0] = loop_signal(loop, SIGUSR1, signal_seen, &d, NULL);
    d.watch[1] = loop_signal(loop, SIGUSR2, timer_b, &d, NULL);
    ok(!loop_signal(loop, SIGUSR1, signal_seen, &d, &err), "a signal has one watch: %s", err.text);
    ok(!loop_signal(loop, 100000, signal_seen, &d, NULL) &&
           !loop_signal(loop, SIGKILL, signal_seen, &d, NULL),
       "what can't be caught is an error");
    for (unsigned i = 0; i < 5; i++)
        (void)raise(SIGUSR1);
    is_text(d.text, "", "the handler runs nothing");
    run_for(loop, 60 * NS_PER_S);
    is_text(d.text, "g", "the loop does, once for all that came");
    watch_stop(d.watch[0]);
    (void)sigaction(SIGUSR1, NULL, &now);
    ok(now.sa_handler == SIG_IGN, "after the watch the action is what it was");
    d.watch[0] = loop_signal(loop, SIGUSR1, signal_seen, &d, NULL);
    ok(d.watch[0] != NULL, "it can be watched anew");
    loop_destroy(loop);
    loop = d.loop = loop_create(&clock_system, NULL);
    d.watch[0] = loop_signal(loop, SIGUSR2, signal_seen, &d, NULL);
    (void)raise(SIGUSR2);
    run_for(loop, 60 * NS_PER_S);
    is_text(d.text, "gg", "by another loop too");
    loop_destroy(loop);
}

/* ---- ZeroMQ ---- */

/* Reads one message a call, though more are there. */
static void zmq_seen(void *arg)
{
    struct diary *d = arg;
    char letter = '?';

    if (zmq_recv(d->socket, &letter, 1, ZMQ_DONTWAIT) == 1)
        note(d, letter);
    if (++d->calls == d->stop_at)
        loop_stop(d->loop);
}

static void every_message_of_a_socket_is_seen(void)
{
    struct loop *loop = loop_create(&clock_system, NULL);
    struct diary d = { .stop_at = 3, .loop = loop };
    void *context = zmq_ctx_new();
    void *from = zmq_socket(context, ZMQ_PAIR);
    struct err err = { "" };

    d.socket = zmq_socket(context, ZMQ_PAIR);
    ok(zmq_bind(d.socket, "inproc://t") == 0 && zmq_connect(from, "inproc://t") == 0,
       "there is a pair of sockets");
    d.watch[0] = loop_zmq(loop, d.socket, zmq_seen, &d, NULL);
    ok(!loop_zmq(loop, NULL, zmq_seen, &d, &err), "what is no socket is an error: %s", err.text);
    for (unsigned i = 0; i < 3; i++)
        zmq_send(from, &"xyz"[i], 1, 0);
    run_for(loop, 60 * NS_PER_S);
    is_text(d.text, "xyz", "each comes, though a callback reads one and the descriptor tells once");
    zmq_send(from, "1", 1, 0);
    zmq_send(from, "2", 1, 0);
    zmq_send(d.socket, "a", 1, 0); /* sending takes the descriptor's edge away */
    d.stop_at = 5;
    run_for(loop, 60 * NS_PER_S);
    is_text(d.text, "xyz12", "also after we sent");
    watch_stop(d.watch[0]);
    zmq_send(from, "3", 1, 0);
    run_turn(loop);
    is_text(d.text, "xyz12", "a socket whose watch is stopped is left alone");
    loop_destroy(loop);
    zmq_close(from);
    zmq_close(d.socket);
    zmq_ctx_term(context);
}

static void any_failed_allocation_is_survived(void)
{
    int fd[2];

    if (fd_pipe(fd) < 0)
        return;
    for (long nth = 0; nth < 8; nth++) {
        struct diary d = { .calls = 0 };
        struct err err = { "" };
        struct loop *loop;
        struct watch *w = NULL;
        int rc = -1;

        alloc_fail_at(nth);
        if ((loop = loop_create(&clock_system, &err)) &&
            (w = loop_fd(loop, fd[0], LOOP_READ, fd_seen, &d, &err)))
            rc = loop_later(loop, stop, loop);
        ok(!alloc_failed() || !loop || !w || rc < 0, "allocation %ld: %s", nth, err.text);
        alloc_fail_at(-1);
        loop_destroy(loop);
    }
    fd_close(&fd[0]);
    fd_close(&fd[1]);
}

int main(void)
{
    timers_fire_in_order();
    a_period_is_kept_and_skips_what_it_missed();
    a_timer_set_to_now_does_not_hold_the_turn();
    a_descriptor_is_served_as_long_as_it_is_ready();
    writing_is_served_too();
    watches_may_be_stopped_from_callbacks();
    later_comes_after_the_turn();
    freed_after_the_turn();
    signals_are_served_in_the_loop();
    every_message_of_a_socket_is_seen();
    any_failed_allocation_is_survived();
    return plan_done();
}
